"""Check mutations: a step may not change a view, an undonated tensor, or a tensor that an older view still shows.

spec: V1.10, I1.11
"""

from __future__ import annotations

from tmmu.core.errors import TmmuError
from tmmu.ir.program import ModelProgram, view_root
from tmmu.ir.validate import CALLERS


def check_mutations(run: ModelProgram, mode: str) -> None:
    """Raise INVALID_IR or INVALID_BINDING for a step that may not change a tensor. O(steps + accesses).

    Views and undonated tensors of the caller may not be changed. Once a tensor has changed, no view made of it before
    may be read. spec: V1.10, I1.11
    """
    changed: dict[int, list[int]] = {}
    donated = frozenset(run.model.bindings.donated)
    for s, mutated in enumerate(run.steps.mutates):
        for t in mutated:
            tensor, place = run.tensors[t], f"node {run.model.nodes[run.steps.node[s]].name!r}"
            if tensor.view is not None:
                raise TmmuError("INVALID_IR", f"it mutates {tensor.name!r}, a view", place=place, fix="mutate its base")
            if tensor.role in CALLERS and tensor.name not in donated:
                raise TmmuError(
                    "INVALID_BINDING",
                    f"it mutates {tensor.name!r}, which the caller has not donated",
                    place=place,
                    fix=f"--donate {tensor.name}",
                    binding=tensor.name,
                )
            changed.setdefault(t, []).append(s)
    if not changed:
        return
    made = {t: s for s, step in enumerate(run.steps) for t in step.made}
    reads = [(s, step.node, t) for s, step in enumerate(run.steps) for t in step.reads]
    # The caller reads outputs, and backward reads saved tensors, after the last step; an error names the node that made
    # one.
    end = len(run.steps)
    kept = [t for t, tensor in enumerate(run.tensors) if mode == "forward" and tensor.saved_for_backward]
    reads += [(end, run.steps[made[t]].node, t) for t in (*run.model.outputs, *kept) if t in made]
    for s, node, t in reads:
        born = made.get(t, end)  # a tensor that no step makes in this mode is refused when lifetimes are computed
        root = view_root(run.tensors, t)
        if root != t and any(born <= change <= s for change in changed.get(root, ())):
            raise TmmuError(
                "INVALID_IR",
                f"{run.tensors[t].name!r}, a view made before {run.tensors[root].name!r} was "
                "mutated, is read after the mutation",
                place=f"node {run.model.nodes[node].name!r}",
                fix="make the view again, or copy the value",
            )
