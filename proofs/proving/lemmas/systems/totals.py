"""Totals over any number of members, which the ledgers of machines rest on.

Members are numbered. A total of the first `k` is made by adding the value of each further member, before and after one
member's value has changed. `quota` and `mapped_regions` use the conclusions for their totals. spec: V4.9

Tests: `tests/integration/models/test_lemmas.py`.
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

MACHINE = Machine(
    "totals",
    "If one member's value changes, the total changes by the same amount. If no value is negative, the total of some"
    " members is at most that of all.",
    """
    (declare-fun before (Int) Int)(declare-fun after (Int) Int)(declare-const at Int)
    (declare-fun chosen (Int) Bool)""",
    "(k () Int) (total_before () Int) (total_after () Int) (total_chosen () Int)",
    MachineRule(
        "Init",
        "Without members all totals are zero.",
        "(= 0 k total_before total_after total_chosen) (<= 0 at)",
        (Without("a member before the first", "(<= 0 at)"),),
    ),
    """
    (<= 0 k) (= total_after (+ total_before (ite (< at k) (- (after at) (before at)) 0)))
    (<= total_chosen total_before)""",
    (
        MachineRule(
            "Add",
            "The value of one more member is added.",
            """(set k (+ k 1)) (set total_before (+ total_before (before k)))
            (set total_after (+ total_after (after k)))
            (set total_chosen (+ total_chosen (ite (chosen k) (before k) 0)))""",
            (Without("another member changes as well", "(= (after m) (before m))"),
             Mutant("the member itself is left out", "(< at k)", "(< (+ at 1) k)"),
             Without("negative values", "(<= 0 (before m))")),
        ),
    ),
    World({}, -1, 2),
    assumed="""
    (forall ((m Int)) (=> (distinct m at) (= (after m) (before m))))
    (forall ((m Int)) (<= 0 (before m)))""",
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
