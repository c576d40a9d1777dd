"""The shared budget: what `tla/tmmu/Quota.tla` says, for any clients, arenas and bytes.

Sums over clients cannot be written here; a number follows each instead: `in_use` is the bytes promised, `committed` the
bytes of committed plans, `failed` how many clients failed. Each changes by as much as the one client's share changes,
which `totals` proves. `total` is the sum of a client's arenas. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {
        "phase": (("Client",), "Phase"), "mapped": (("Client", "Arena"), "Bool"),
        "promised": (("Client",), "Int"), "total": (("Client",), "Int"),
    },
    ("in_use", "committed", "failed", "allocated", "peak", "failures"),
)  # fmt: skip
_SORTS = """
(declare-datatypes ((Phase 0)) (((Idle) (Mapping) (Failing) (Committed) (Failed))))
(declare-sort Client 0)(declare-sort Arena 0)(declare-const budget Int)
"""


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        # WithinBudget: the clients together never have more than the budget.
        f"(<= in_use{s} budget)",
        # Arenas have no negative sizes.
        f"(forall ((c Client)) (<= 0 (total{s} c)))",
        # NoPartialCommit: of a client that failed, or never asked, nothing is mapped and nothing promised.
        f"(forall ((c Client)) (=> (or (= (phase{s} c) Idle) (= (phase{s} c) Failed)) (= 0 (promised{s} c))))",
        f"(forall ((c Client) (a Arena)) (=> (or (= (phase{s} c) Idle) (= (phase{s} c) Failed))"
        f" (not (mapped{s} c a))))",
        # MappedIsPromised: whoever may have mapped arenas was promised all of them.
        f"(forall ((c Client)) (or (= (phase{s} c) Idle) (= (phase{s} c) Failed) (= (promised{s} c) (total{s} c))))",
        # CommitsWhole: a committed plan has all its arenas.
        f"(forall ((c Client) (a Arena)) (=> (= (phase{s} c) Committed) (mapped{s} c a)))",
        # LedgerIsExact.
        f"(= allocated{s} committed{s})", f"(<= allocated{s} peak{s})", f"(= failures{s} failed{s})",
    )  # fmt: skip


def _share(total: str, phase: str, value: str) -> str:
    """The number that follows a total over all clients changes as the share of x does."""
    old, new = (f"(ite (= (phase{s} x) {phase}) {value.format(s=s)} 0)" for s in "01")
    return f"(= {total}1 (+ {total}0 (- {new} {old})))"


_FOLLOW = (
    "(= in_use1 (+ in_use0 (- (promised1 x) (promised0 x))))",
    _share("committed", "Committed", "(total{s} x)"),
    _share("failed", "Failed", "1"),
)
_FOLLOWING = ("in_use", "committed", "failed")
_ONE = _SORTS + _STATE.declared("0") + _STATE.declared("1") + "(declare-const x Client)"
_AFTER = all_of(invariant("1"))
_WORLD = World({"Client": 2, "Arena": 2}, 0, 3)


def _phase(name: str) -> str:
    return f"(= (phase0 x) {name})"


def _moves(to: str) -> str:
    return _STATE.becomes("phase", ("x",), to)


def _others(*changed: str) -> tuple[str, ...]:
    return _STATE.others("phase", *_FOLLOWING, *changed)


_ASKS = "(forall ((c Client)) (= (total1 c) (ite (= c x) need (total0 c))))"
_HAS_ROOM = "(<= (+ in_use0 need) budget)"
_PROMISES = _STATE.becomes("promised", ("x",), "need")
_NO_PROMISE = _STATE.becomes("promised", ("x",), "0")
_FAILS = "(= failures1 (+ failures0 1))"
_NOTHING_MAPPED = "(forall ((a Arena)) (not (mapped0 x a)))"
_ALL_MAPPED = "(forall ((a Arena)) (mapped0 x a))"
_UNMAPS_ALL = "(forall ((c Client) (a Arena)) (= (mapped1 c a) (ite (= c x) false (mapped0 c a))))"
_COUNTS_IN = "(= allocated1 (+ allocated0 (total0 x)))"
_COUNTS_OUT = "(= allocated1 (- allocated0 (total0 x)))"
_PEAK = "(= peak1 (ite (> allocated1 peak0) allocated1 peak0))"

STATEMENTS = (
    Statement(
        "a_budget_begins_unused",
        "Where nobody has asked yet and the ledger is empty, the invariant holds.",
        _SORTS + _STATE.declared("1"),
        ("(<= 0 budget)", "(forall ((c Client)) (and (= (phase1 c) Idle) (= 0 (total1 c)) (= 0 (promised1 c))))",
         "(forall ((c Client) (a Arena)) (not (mapped1 c a)))", *(f"(= {name}1 0)" for name in _STATE.numbers)),
        _AFTER,
        (Mutant("a ledger that begins with bytes", "(= allocated1 0)", "(= allocated1 1)"),),
        _WORLD,
    ),
    Statement(
        "promising_what_the_budget_has_keeps_the_quota",
        "A client whose arenas the budget has room for is promised all their bytes: the invariant is kept.",
        _ONE + "(declare-const need Int)",
        (*invariant("0"), _phase("Idle"), "(<= 0 need)", _HAS_ROOM, _ASKS, _PROMISES, _moves("Mapping"), *_FOLLOW,
         *_others("total", "promised")),
        _AFTER,
        (Mutant("each for itself", assumed(_HAS_ROOM), assumed("(<= need budget)")),
         Mutant("less is promised than is asked", _PROMISES, _NO_PROMISE)),
        _WORLD,
    ),
    Statement(
        "refusing_what_the_budget_has_not_keeps_the_quota",
        "A client whose arenas the budget has no room for is refused and counted: the invariant is kept.",
        _ONE + "(declare-const need Int)",
        (*invariant("0"), _phase("Idle"), "(<= 0 need)", _ASKS, _moves("Failed"), _FAILS, *_FOLLOW,
         *_others("total", "failures")),
        _AFTER,
        (Mutant("the failure is not counted", _FAILS, "(= failures1 failures0)"),),
        _WORLD,
    ),
    Statement(
        "mapping_an_arena_keeps_the_quota",
        "Mapping an arena for a client that was promised it keeps the invariant.",
        _ONE + "(declare-const y Arena)",
        (*invariant("0"), _phase("Mapping"), _STATE.becomes("mapped", ("x", "y"), "true"), *_STATE.others("mapped")),
        _AFTER,
        (Mutant("nobody was promised it", assumed(_phase("Mapping")), ""),),
        _WORLD,
    ),
    Statement(
        "a_refusal_by_the_system_keeps_the_quota",
        "Where the system refuses an arena, the client only goes over to giving back: the invariant is kept.",
        _ONE,
        (*invariant("0"), _phase("Mapping"), _moves("Failing"), *_FOLLOW, *_others()),
        _AFTER,
        (Mutant("it has failed at once, with arenas mapped", _moves("Failing"), _moves("Failed")),),
        _WORLD,
    ),
    Statement(
        "giving_an_arena_back_keeps_the_quota",
        "Unmapping an arena of a client that is failing keeps the invariant.",
        _ONE + "(declare-const y Arena)",
        (*invariant("0"), _phase("Failing"), _STATE.becomes("mapped", ("x", "y"), "false"), *_STATE.others("mapped")),
        _AFTER,
        (Mutant("an arena of a committed plan", _phase("Failing"), _phase("Committed")),),
        _WORLD,
    ),
    Statement(
        "failing_keeps_the_quota",
        "When nothing is mapped any more, the promise is taken back and the failure counted: the invariant is kept.",
        _ONE,
        (*invariant("0"), _phase("Failing"), _NOTHING_MAPPED, _moves("Failed"), _NO_PROMISE, _FAILS, *_FOLLOW,
         *_others("promised", "failures")),
        _AFTER,
        (Mutant("the rest stays mapped", assumed(_NOTHING_MAPPED), ""),
         Mutant("the promise is kept", _NO_PROMISE, _STATE.same("promised")[0]),
         Mutant("the failure is not counted", _FAILS, "(= failures1 failures0)")),
        _WORLD,
    ),
    Statement(
        "committing_keeps_the_quota",
        "When all arenas are mapped, the plan is committed and the ledger told: the invariant is kept.",
        _ONE,
        (*invariant("0"), _phase("Mapping"), _ALL_MAPPED, _moves("Committed"), _COUNTS_IN, _PEAK, *_FOLLOW,
         *_others("allocated", "peak")),
        all_of((*invariant("1"), "(<= peak0 peak1)")),
        (Mutant("a part is committed", assumed(_ALL_MAPPED), ""),
         Mutant("the ledger is not told", _COUNTS_IN, "(= allocated1 allocated0)"),
         Mutant("the peak follows", _PEAK, "(= peak1 allocated1)")),
        _WORLD,
    ),
    Statement(
        "releasing_keeps_the_quota",
        "A plan that gives back its arenas, its promise and its bytes in the ledger keeps the invariant.",
        _ONE,
        (*invariant("0"), _phase("Committed"), _moves("Idle"), _UNMAPS_ALL, _NO_PROMISE, _COUNTS_OUT,
         _STATE.becomes("total", ("x",), "0"), *_FOLLOW, *_others("mapped", "promised", "allocated", "total")),
        _AFTER,
        (Mutant("its arenas stay mapped", _UNMAPS_ALL, _STATE.same("mapped")[0]),
         Mutant("its promise is kept", _NO_PROMISE, _STATE.same("promised")[0]),
         Mutant("the ledger is not told", _COUNTS_OUT, "(= allocated1 allocated0)")),
        _WORLD,
    ),
)  # fmt: skip
