"""Plans of other producers: one module a format, a table of formats, and the bounds of all readers.

To read a further format, add a module with `read(source: Source) -> ForeignPlan` and its row in `formats.FORMATS`, its
line and its section in `spec/foreign.md`, files of either verdict in `tests/corpus/foreign/` with the script that made
them in `make/`, and a unit test of what it refuses. A format of lifetimes alone returns a `BufferPlan`, as `minimalloc`
does. One with a program returns a `Plan` whose allocation `tmmu.plans.building.Building` puts together: append an
`Arena` for each memory and a `StatedTensor` for each value at its address, then state steps in execution order.

- Operators have a domain of their own (`xla`, `executorch`, …): no table has it, so that views and results in place
  count as the plan states them and the verdict lists each such operator.
- A tensor in another's bytes `shares` them: VIEW with a `shift` (its step writes nothing), or IN_PLACE (the identical
  slice, read for the last time by that step). A result that moves by pointer is a view of what is moved.
- Arms of which one runs are `begin(…, exclusive=True)` and `arm()`; what may run again is `begin(…, iterates=True)`.
- A region of concurrent steps is one step that reads and writes all that its parts do, an approximation to be listed;
  what one part writes and another one touches is refuted (FP9.5).
- What the caller writes has the role INPUT or PARAMETER; what it reads at the end the flags IS_OUTPUT | IS_RETURNED.
- `source.FreshNames` makes names unique; `Source.spend`, `bound` and `descend` count; `refuse` makes the error, and
  `not_whole` that of a file without its end.
"""
