"""What a step may change: no view, nothing that the caller did not donate, and nothing that an older view still shows.

spec: V1.10, I1.11
"""

from __future__ import annotations

from tmmu.core.errors import TmmuError
from tmmu.ir.program import ModelProgram, shown
from tmmu.ir.validate import CALLERS


def check_mutations(run: ModelProgram, mode: str) -> None:
    """Raise INVALID_IR or INVALID_BINDING for a step that may not change a tensor. O(steps + accesses).

    No view may be changed, nor what the caller did not donate; and once a tensor is changed, no view that was made of
    it before may be read. spec: V1.10, I1.11
    """
    changed: dict[int, list[int]] = {}
    donated = frozenset(run.model.bindings.donated)
    for s, mutated in enumerate(run.steps.mutates):
        for t in mutated:
            tensor, place = run.tensors[t], f"node {run.model.nodes[run.steps.node[s]].name!r}"
            if tensor.view is not None:
                raise TmmuError("INVALID_IR", f"it changes {tensor.name!r}, a view", place=place, fix="change its base")
            if tensor.role in CALLERS and tensor.name not in donated:
                raise TmmuError(
                    "INVALID_BINDING",
                    f"it changes {tensor.name!r}, which the caller has not donated",
                    place=place,
                    fix=f"--donate {tensor.name}",
                    binding=tensor.name,
                )
            changed.setdefault(t, []).append(s)
    if not changed:
        return
    made = {t: s for s, step in enumerate(run.steps) for t in step.made}
    reads = [(s, step.node, t) for s, step in enumerate(run.steps) for t in step.reads]
    # The caller reads outputs, and backward what is saved, after the last step; the node that made one is named for it.
    end = len(run.steps)
    kept = [t for t, tensor in enumerate(run.tensors) if mode == "forward" and tensor.saved_for_backward]
    reads += [(end, run.steps[made[t]].node, t) for t in (*run.model.outputs, *kept) if t in made]
    for s, node, t in reads:
        born = made.get(t, end)  # what no step makes in this mode is refused where lifetimes are worked out
        root = shown(run.tensors, t)
        if root != t and any(born <= change <= s for change in changed.get(root, ())):
            raise TmmuError(
                "INVALID_IR",
                f"{run.tensors[t].name!r}, a view made before {run.tensors[root].name!r} was changed, is read after it",
                place=f"node {run.model.nodes[node].name!r}",
                fix="make the view again, or copy the value",
            )
