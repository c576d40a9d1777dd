"""Plans of other producers: one module a format, a table of formats, and the bounds of all readers.

To read a further format, add a module with `read(source: Source) -> ForeignPlan` and its row in `formats.FORMATS`, its
line and its section in `spec/foreign.md`, files of either verdict in `tests/corpus/foreign/` with the script that made
them in `make/`, and a unit test of the files that it refuses. If a format has only lifetimes, return a `BufferPlan`, as
`minimalloc` does. If it has a program, return a `Plan`. `tmmu.plans.building.AllocationBuilder` builds its allocation:
append an `Arena` for each memory and a `StatedTensor` for each value at its address, then state steps in execution
order.

- Operators have a separate domain for each format (`xla`, `executorch`, …). No table has it, so views and results in
  place count as the plan states them, and the verdict lists each such operator.
- A tensor in another's bytes `shares` them: VIEW with a `shift` (its step writes nothing), or IN_PLACE (the identical
  slice, read for the last time by that step). A result that moves by pointer is a view of the moved tensor.
- Exclusive branches are `begin(…, exclusive=True)` and `arm()`. A body that may run again is `begin(…, iterates=True)`.
- A region of concurrent steps is one step that reads and writes all that its parts do. List this approximation. If one
  part writes bytes that another one touches, the plan is refuted (FP9.5).
- Tensors that the caller writes have the role INPUT or PARAMETER. Those that it reads at the end have the flags
  IS_OUTPUT | IS_RETURNED.
- `source.FreshNames` makes names unique; `Source.spend`, `bound` and `descend` count; `refuse` makes the error, and
  `not_whole` that of a file without its end.
"""
