"""Is a plan other than its model as a witness says? The right plan of the same model says what the model has.

spec: V3.1, V3.2, R7.6, R7.24
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Shares
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_SAVED, PARTS, ROLES, SHARES
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue import Case

Witness = Mapping[str, Any]


def shows_difference(case: Case, plan: Plan, w: Witness) -> bool:
    """The plan states what is printed of it, and a right plan of the model what is printed of the model."""
    right, what, printed = case.plan, w["field"], (w["stated"], w["recomputed"])
    names = [x.allocation.tensors.name.list() for x in (plan, right)]
    if what in ("missing-step", "extra-step"):
        key = _steps(plan).keys() ^ _steps(right).keys()
        return any(node == w["node"] for node, _ in key)
    if what in ("operator", "reads", "writes", "mutates"):
        n = w["steps"][0]
        key_of = (plan.allocation.steps.node[n], int(plan.allocation.steps.part[n]))
        return (
            _step(plan, n, what) == printed[0]
            and _same(what, _step(right, _steps(right)[key_of], what), printed[1])
            and printed[0] != printed[1]
        )
    if what in ("missing-tensor", "extra-tensor"):
        mine, its = (w["tensors"][0] in each for each in names)
        return (mine, its) == (what == "extra-tensor", what == "missing-tensor")
    if what in TENSOR:
        rows = [each.index(w["tensors"][0]) for each in names]
        found = tuple(TENSOR[what](x, r) for x, r in zip((plan, right), rows, strict=True))
        return found == printed and printed[0] != printed[1]
    if what == "alignment":
        rows = [each.index(w["tensors"][0]) for each in names]
        mine, least = (int(x.allocation.tensors.alignment[r]) for x, r in zip((plan, right), rows, strict=True))
        return printed[0] == str(mine) and (mine < least or mine % least > 0)
    if what == "must-not-alias":
        pairs = [
            {frozenset(each[k] for k in pair) for pair in x.allocation.must_not_alias}
            for x, each in zip((plan, right), names, strict=True)
        ]
        return frozenset(w["tensors"]) in pairs[0] ^ pairs[1]
    if what == "unproduced":
        return w["tensors"][0] in set(plan.allocation.unproduced) ^ set(right.allocation.unproduced)
    if what == "source-digest":
        return printed == tuple(
            "" if x.origin.source_digest is None else x.origin.source_digest.hex() for x in (plan, right)
        )
    if what == "binding":
        return plan.bindings != right.bindings and printed[0] != printed[1]
    if what == "donated":
        return w["tensors"][0] in plan.bindings.donated and not _callers(right, w["tensors"][0])
    return False


def _same(what: str, one: str, other: str) -> bool:
    """What is changed has no order."""
    return set(one.split(", ")) == set(other.split(", ")) if what == "mutates" else one == other


def _callers(plan: Plan, name: str) -> bool:
    names = plan.allocation.tensors.name.list()
    return name in names and int(plan.allocation.tensors.writer[names.index(name)]) == NONE


def _steps(plan: Plan) -> dict[tuple[str, int], int]:
    keys = zip(plan.allocation.steps.node.list(), plan.allocation.steps.part.tolist(), strict=True)
    return {key: n for n, key in enumerate(keys)}


def _step(plan: Plan, n: int, what: str) -> str:
    if what == "operator":
        domain, op = plan.allocation.ops[int(plan.allocation.steps.op[n])]
        return op if domain in ("", "ai.onnx") else f"{domain}::{op}"
    return ", ".join(plan.allocation.tensors.name[r] for r in plan.allocation.steps.listed(what)[n])


def _writer(plan: Plan, r: int) -> str:
    n = int(plan.allocation.tensors.writer[r])
    return (
        "the caller" if n == NONE else f"{plan.allocation.steps.node[n]} ({PARTS[int(plan.allocation.steps.part[n])]})"
    )


def _is_input(plan: Plan, r: int) -> str:
    """Of parameters and optimizer state the flag says nothing."""
    return str(bool(int(plan.allocation.tensors.flags[r]) & IS_INPUT))


def _view(plan: Plan, r: int) -> str:
    t = plan.allocation.tensors
    return f"a view of {t.name[int(t.of[r])]}" if SHARES[int(t.shares[r])] is Shares.VIEW else "no view"


TENSOR = {
    "bytes": lambda plan, r: str(plan.sizes()[r]),
    "type": lambda plan, r: plan.allocation.dtypes[int(plan.allocation.tensors.dtype[r])],
    "role": lambda plan, r: str(ROLES[int(plan.allocation.tensors.role[r])]),
    "input": _is_input,
    "output": lambda plan, r: str(bool(int(plan.allocation.tensors.flags[r]) & IS_OUTPUT)),
    "saved": lambda plan, r: str(bool(int(plan.allocation.tensors.flags[r]) & IS_SAVED)),
    "writer": _writer,
    "view": _view,
}
"""What a plan says of one tensor, as a witness words it."""
