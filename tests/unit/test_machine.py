"""Transition systems as text: what obligations are made of a machine, and that a wrong machine is refuted or refused.

spec: V4.9, V4.14, V4.20
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofs.proving.lemmas import families
from proofs.proving.lemmas.engine.family import Family
from proofs.proving.lemmas.engine.machine import Inductive, Machine, MachineRule, Without
from proofs.proving.lemmas.engine.proving import prove_all
from proofs.proving.lemmas.engine.statements import Mutant, Statement, World

POOL = Machine(
    "pool",
    "No more is taken than there is.",
    "(declare-sort Client 0)(declare-const room Int)",
    "(taken (Client) Bool) (held (Client Int) Bool) (used () Int) (last () Client)",
    MachineRule("Init", "Nothing.", "(= used 0) (forall ((c Client)) (not (taken c)))",
         (Mutant("some", "(= used 0)", "(= used 1)"),)),
    "; Within.\n(<= 0 used) (<= used room) (forall ((c Client)) (=> (taken c) (<= 1 used)))",
    (
        MachineRule("Take", "One is taken.", """
            (any x Client) (< used room) (set used (+ used 1)) (set (taken x) true) (set (held x ?k) (= ?k used'))
            (any last')""",
            (Without("all", "(< used room)"), Without("not counted", "(set used"))),
        MachineRule(
            "Stay", "Nothing.", "(gives (= used' used))", (Mutant("more", "(= used' used)", "(< used used')"),)
        ),
    ),
    World({"Client": 2}, 0, 2),
    assumed="(<= 0 room)",
    step="(<= used used')",
    promises=(
        MachineRule("what_is_taken_is_used", "It is.", "(any x Client) (taken x) (gives (< 0 used))",
             (Without("it need not be taken", "(taken x)"),)),
    ),
)  # fmt: skip
INVARIANT = ["(<= 0 used)", "(<= used room)", "(forall ((c Client)) (=> (taken c) (<= 1 used)))"]
NEXT = ["(<= 0 used_next)", "(<= used_next room)", "(forall ((c Client)) (=> (taken_next c) (<= 1 used_next)))"]


def test_the_obligations_assume_the_invariant_and_conclude_it_of_the_next_state() -> None:
    init, take, stay = POOL.obligations()
    assert init.hypotheses == ("(<= 0 room)", "(= used 0)", "(forall ((c Client)) (not (taken c)))")
    assert init.goal == f"(and {' '.join(INVARIANT)})"
    assert take.hypotheses == (
        "(<= 0 room)", *INVARIANT, "(< used room)",
        "(forall ((z0 Client)) (= (taken_next z0) (ite (= z0 x) true (taken z0))))",
        "(forall ((z0 Client) (?k Int)) (= (held_next z0 ?k) (ite (= z0 x) (= ?k used_next) (held z0 ?k))))",
        "(= used_next (+ used 1))",
    )  # fmt: skip
    assert take.goal == f"(and {' '.join(NEXT)} (<= used used_next))"
    assert stay.hypotheses[-4:] == (
        "(forall ((z0 Client)) (= (taken_next z0) (taken z0)))",
        "(forall ((z0 Client) (z1 Int)) (= (held_next z0 z1) (held z0 z1)))",
        "(= used_next used)", "(= last_next last)",
    )  # fmt: skip
    assert stay.goal == f"(and {' '.join(NEXT)} (<= used used_next) (= used_next used))"
    (promise,) = POOL.lemmas()[1:]
    assert isinstance(promise, Statement)
    assert (promise.hypotheses, promise.goal) == (("(<= 0 room)", *INVARIANT, "(taken x)"), "(< 0 used)")


def test_a_machine_is_one_lemma_and_its_promises() -> None:
    inductive, promise = prove_all([Family("here/pool", POOL.lemmas())])
    assert (inductive.name, inductive.verdict, inductive.open) == ("pool_is_inductive", "PROVED", [])
    assert list(inductive.mutants_refuted) == ["Init: some", "Take: all", "Take: not counted", "Stay: more"]
    assert all(f"{name}: " in inductive.twin for name in ("Init", "Take", "Stay"))
    assert (promise.name, promise.verdict, list(promise.mutants_refuted)) == (
        "what_is_taken_is_used", "PROVED", ["it need not be taken"],
    )  # fmt: skip


def acting(text: str, *mutants: Without) -> Machine:
    """The machine with another first action."""
    return replace(POOL, actions=(MachineRule("Take", "Another.", text, mutants), POOL.actions[1]))


@pytest.mark.parametrize(
    "wrong",
    [
        replace(POOL, invariant=POOL.invariant + "(<= used 1)"),  # no invariant
        replace(POOL, init=POOL.init._replace(text="(= used 0)")),  # it does not begin with it
        replace(POOL, step="(< used used')"),
        replace(
            POOL,
            actions=(
                POOL.actions[0]._replace(text="(any used')", mutants=(Without("no", "(any used')"),)),
                POOL.actions[1],
            ),
        ),
        replace(POOL, assumed=""),  # what nothing concludes is not assumed
        acting(POOL.actions[0].text),
        acting("(< used used)"),
    ],
)
def test_a_machine_with_a_wrong_place_is_not_proved(wrong: Machine) -> None:
    lemma = Inductive("wrong", "Wrong.", wrong.obligations(), wrong)
    (report,) = prove_all([Family("here/pool", (lemma,))])
    assert report.verdict in ("REFUTED", "UNKNOWN")
    assert report.open


@pytest.mark.parametrize(
    "text",
    [
        "(set free 1)", "(set used 1) (set used 2)", "(< nothing' 1)", "(forall ((used Int)) (< used 1))", "used",
        "(any other')", "(set (taken'",
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"variable|formula|closed"):
        POOL.statement(MachineRule("Take", "", text, ()))


@pytest.mark.parametrize(
    "mutant",
    [
        Mutant("nowhere", "(< used 7)", ""), Mutant("twice", "used", "room"), Without("two forms", "used"),
        Mutant("no change", "(< used room)", "(< used room)"),
    ],
)  # fmt: skip
def test_a_mutant_changes_one_place(mutant: Mutant | Without) -> None:
    take = POOL.actions[0]
    (changed,) = POOL.statement(take._replace(mutants=(mutant,))).mutants
    with pytest.raises(ValueError, match=mutant.name):
        changed.applied(POOL.statement(take).text)


def test_init_and_promises_change_nothing() -> None:
    for rule in (POOL.init, *POOL.promises):
        with pytest.raises(ValueError, match="changes a variable"):
            POOL.statement(rule._replace(text="(set used 1)"))


def test_every_machine_binds_no_variable_and_every_mutant_of_one_applies() -> None:
    for family in families.FAMILIES.values():
        for lemma in family.lemmas:
            for case in lemma.cases if isinstance(lemma, Inductive) else ():
                assert case.mutants, (family.file, case.name)
                assert all(mutant.applied(case.text) for mutant in case.mutants)
