"""The shared budget: `tla/tmmu/Quota.tla` for any clients, arenas and bytes.

Sums over clients cannot be written here. Instead a number follows each sum: `in_use` is the bytes promised, `committed`
the bytes of committed plans, and `failed` the number of clients that failed. Each changes by the same amount as the one
client's share, which `totals` proves of sums. `total` is the sum of a client's arenas. spec: V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World


def _follows(sum_of: str, phase: str, value: str) -> str:
    """Return the formula that a sum over all clients in a phase changes by the same amount as the share of x.

    `{s}` in `value` is replaced by the prime.
    """
    new, old = (f"(ite (= (phase{s} x) {phase}) {value.format(s=s)} 0)" for s in ("'", ""))
    return f"(set {sum_of} (+ {sum_of} (- {new} {old})))"


_X = f"""(any x Client) (set in_use (+ in_use (- (promised' x) (promised x))))
{_follows("committed", "Committed", "(total{s} x)")} {_follows("failed", "Failed", "1")}"""
_ASKS = "(any need Int) (= (phase x) Idle) (<= 0 need) (set (total x) need)"
_RETRACTS = "(set (promised x) 0)"
_FAILS = "(set failures (+ failures 1))"

MACHINE = Machine(
    "quota",
    "The clients together keep to the budget, a client that fails releases what it got, and the ledger is exact.",
    """
    (declare-datatypes ((Phase 0)) (((Idle) (Mapping) (Failing) (Committed) (Failed))))
    (declare-sort Client 0)(declare-sort Arena 0)(declare-const budget Int)""",
    """
    (phase (Client) Phase) (mapped (Client Arena) Bool) (promised (Client) Int) (total (Client) Int)
    (in_use () Int) (committed () Int) (failed () Int) (allocated () Int) (peak () Int) (failures () Int)""",
    MachineRule(
        "Init",
        "No client has asked, and the ledger is empty.",
        """
        (<= 0 budget) (forall ((c Client)) (and (= (phase c) Idle) (= 0 (total c)) (= 0 (promised c))))
        (forall ((c Client) (a Arena)) (not (mapped c a)))
        (= 0 in_use committed failed allocated peak failures)""",
        (Mutant("a ledger that begins with bytes", "failed allocated", "failed (- allocated 1)"),),
    ),
    """
    ; WithinBudget: the clients together never have more than the budget.
    (<= in_use budget)
    (forall ((c Client)) (<= 0 (total c)))
    ; NoPartialCommit: of a client that failed, or never asked, nothing is mapped and nothing promised.
    (forall ((c Client)) (=> (or (= (phase c) Idle) (= (phase c) Failed)) (= 0 (promised c))))
    (forall ((c Client) (a Arena)) (=> (or (= (phase c) Idle) (= (phase c) Failed)) (not (mapped c a))))
    ; MappedIsPromised: a client that may have mapped arenas was promised all of them.
    (forall ((c Client)) (or (= (phase c) Idle) (= (phase c) Failed) (= (promised c) (total c))))
    ; CommitsWhole: a committed plan has all its arenas.
    (forall ((c Client) (a Arena)) (=> (= (phase c) Committed) (mapped c a)))
    ; LedgerIsExact.
    (= allocated committed) (<= allocated peak) (= failures failed)""",
    (
        MachineRule(
            "Ask",
            "A client whose arenas the budget has room for is promised all their bytes.",
            f"{_X} {_ASKS} (<= (+ in_use need) budget) (set (promised x) need) (set (phase x) Mapping)",
            (Mutant("each for itself", "(<= (+ in_use need) budget)", "(<= need budget)"),
             Without("less is promised than is asked", "(set (promised x) need)")),
        ),
        MachineRule(
            "AskTooMuch",
            "A client whose arenas the budget has no room for is refused and counted.",
            f"{_X} {_ASKS} (set (phase x) Failed) {_FAILS}",
            (Without("the failure is not counted", _FAILS),),
            module=("Ask",),
        ),
        MachineRule(
            "Map",
            "An arena is mapped for a client that was promised it.",
            f"{_X} (any y Arena) (= (phase x) Mapping) (set (mapped x y) true)",
            (Without("without a promise", "(= (phase x) Mapping)"),),
        ),
        MachineRule(
            "Refuse",
            "The system refuses an arena, and the client starts to release its arenas.",
            f"{_X} (= (phase x) Mapping) (set (phase x) Failing)",
            (Mutant("it has failed at once, with arenas mapped", "(set (phase x) Failing)", "(set (phase x) Failed)"),),
        ),
        MachineRule(
            "Unmap",
            "An arena of a client that is failing is unmapped.",
            f"{_X} (any y Arena) (= (phase x) Failing) (set (mapped x y) false)",
            (Mutant("an arena of a committed plan", "(= (phase x) Failing)", "(= (phase x) Committed)"),),
        ),
        MachineRule(
            "Fail",
            "When no arena is mapped any more, the promise is retracted and the failure counted.",
            f"""{_X} (= (phase x) Failing) (forall ((a Arena)) (not (mapped x a)))
            (set (phase x) Failed) {_RETRACTS} {_FAILS}""",
            (Without("the rest stays mapped", "(not (mapped x a))"), Without("the promise is kept", _RETRACTS),
             Without("the failure is not counted", _FAILS)),
        ),
        MachineRule(
            "Commit",
            "When all arenas are mapped, the plan is committed and the ledger updated.",
            f"""{_X} (= (phase x) Mapping) (forall ((a Arena)) (mapped x a)) (set (phase x) Committed)
            (set allocated (+ allocated (total x))) (set peak (ite (> allocated' peak) allocated' peak))""",
            (Without("a part is committed", "(forall ((a Arena)) (mapped x a))"),
             Without("the ledger is not updated", "(set allocated"),
             Mutant("the peak follows", "(ite (> allocated' peak) allocated' peak)", "allocated'")),
        ),
        MachineRule(
            "Release",
            "A plan releases its arenas, its promise and its bytes in the ledger.",
            f"""{_X} (= (phase x) Committed) (set (phase x) Idle) (set (mapped x ?a) false) {_RETRACTS}
            (set allocated (- allocated (total x))) (set (total x) 0)""",
            (Without("its arenas stay mapped", "(set (mapped x ?a) false)"), Without("its promise is kept", _RETRACTS),
             Without("the ledger is not updated", "(set allocated")),
        ),
    ),
    World({"Client": 2, "Arena": 2}, 0, 3),
    step="(<= peak peak')",
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
