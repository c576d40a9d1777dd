"""Slots of plans with streams: their storages take turns, and an antichain shows that no fewer would do.

Naive checker and rows are asked about each claim of a table. spec: X5.10, X5.11
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from proofs.definition.violations import Obligation
from proofs.proving.obligations import PRELUDE, slot_count
from proofs.proving.obligations.discharge import Result, discharge
from proofs.proving.solvers.process import Z3
from proofs.streams import slots
from proofs.verify.checks import Subject, violations
from tmmu.core.columns import build_column
from tmmu.core.errors import TmmuError
from tmmu.plans import file, text
from tmmu.plans.columns import Slots
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Claims, Plan, Usage

HEAD = "tmmu-plan-text 1\narena m 1024\ntensor x 8 m 0 input\n"
FORK = "step p Gemm x -> a on 1\nstep q Gemm a -> b on 1\nstep r Gemm x -> c on 2{}\nstep s Add b c -> y on 1 after r\n"
APART = (
    "step p Gemm x -> a on 1\nstep q Gemm a -> on 2 after p\nstep r Gemm a -> on 1\nstep s Gemm x -> b on 2\n"
    "step t Gemm b -> on 2\nstep u Gemm x -> c on 1\nstep v Gemm c -> y on 1\n"
)
"""No three of a, b and c are live at once, and no two of them are ordered (`antichain.py` of the issue)."""


class Claimed(NamedTuple):
    """Steps, the slot of each of the storages x, a, b, c and y, an antichain of them, and what is wrong."""

    steps: str
    slots: str
    antichain: str
    wrong: tuple[tuple[str, ...], ...] = ()


CLAIMS = {
    "as many slots as unordered storages": Claimed(FORK.format(""), "01230", "xabc"),
    "a slot for two that may overlap": Claimed(FORK.format(""), "01210", "xab", (("a", "c"),)),
    "a slot for two that an event orders": Claimed(FORK.format(" after q"), "01210", "xbc"),
    "storages that an event orders in an antichain": Claimed(FORK.format(" after q"), "01230", "xabc", (("a", "c"),)),
    "an input and the result that takes its slot": Claimed(FORK.format(""), "01230", "xbcy", (("x", "y"),)),
    "storages that are never live at once": Claimed(APART, "01234", "xabcy"),
    "one storage too few": Claimed(APART, "01234", "xabc", ((),)),
}


def plan_of(steps: str, of: str, antichain: str, *, arena: int = 0) -> Plan:
    """Return a plan whose tensors are far apart, so that only its claims can be wrong."""
    names = "xabcy"
    tensors = "".join(f"tensor {n} 8 m {64 * k}{' output' * (n == 'y')}\n" for k, n in enumerate(names) if n != "x")
    second = "arena k 8\n" * arena
    found = text.read(f"{HEAD}{second}{tensors}{steps}".encode(), "p")
    assert isinstance(found, Plan)
    count = max(map(int, of)) + 1
    u32, u64 = np.uint32, np.uint64
    table = Slots(
        build_column([0] * count, u32), build_column([8] * count, u64), build_column([1] * count, u64),
        build_column(list(map(int, of)), u32),
    )  # fmt: skip
    members = tuple(sorted(map(names.index, antichain)))
    usage = Usage(slots=count, minimal=True, antichain=members)
    return Plan(found.allocation, Claims((usage,) * 1 + (Usage(slots=0),) * arena, table))


def ask(plan: Plan, solver: Z3) -> Result:
    """Return the result of the rows of the slot count."""
    (result,) = discharge([slot_count.rows(Subject(StatedPlan(plan, {})).context)], [solver], 60)
    assert result.failure is None
    return result


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_of_slots_are_judged_alike_by_checker_and_rows(name: str) -> None:
    claimed = CLAIMS[name]
    plan = plan_of(*claimed[:3])
    found = [violation for violation in violations(Subject(StatedPlan(plan, {}))) if violation.obligation != "hashes"]
    assert tuple(violation.tensors for violation in found) == claimed.wrong
    assert {violation.obligation for violation in found} <= {Obligation.SLOT_COUNT}
    with_solver = Z3(PRELUDE)
    try:
        assert ask(plan, with_solver).proved == (not claimed.wrong)
    finally:
        with_solver.close()


def test_an_antichain_lists_storages_of_its_own_arena() -> None:
    plan = plan_of(FORK.format(""), "01234", "xabcy", arena=1)
    assert plan.claims is not None
    moved = Claims((Usage(slots=5), Usage(slots=1, minimal=True, antichain=(1,))), plan.claims.slots)
    subject = Subject(StatedPlan(Plan(plan.allocation, moved), {}))
    (found,) = slots.find_false_slots(plan.allocation, moved, subject.run)
    assert found.tensors == ("a",)


@pytest.mark.parametrize(
    ("usage", "steps"),
    [
        (Usage(slots=5, minimal=True), FORK.format("")),
        (Usage(slots=5, antichain=(0, 1, 2, 3, 4)), FORK.format("")),
        (Usage(slots=5, minimal=True, antichain=(1, 0)), FORK.format("")),
        (Usage(slots=5, minimal=True, antichain=(5,)), FORK.format("")),
        (Usage(slots=5, minimal=True, antichain=(0,)), "step p Gemm x -> a b c y\n"),
    ],
)  # fmt: skip
def test_the_gate_refuses_a_minimal_claim_without_its_antichain_and_one_without_streams(
    usage: Usage, steps: str
) -> None:
    plan = plan_of(steps, "01234", "x")
    assert plan.claims is not None
    with pytest.raises(TmmuError, match="antichain"):
        file.decode(file.encode(Plan(plan.allocation, Claims((usage,), plan.claims.slots))))
    kept = plan_of(FORK.format(""), "01234", "xabcy")
    assert file.decode(file.encode(kept)).plan == kept
    with pytest.raises(TmmuError, match=r"claims\.slots is absent"):
        file.decode(file.encode(Plan(kept.allocation, Claims((Usage(slots=1, minimal=True, antichain=(0,)),)))))
