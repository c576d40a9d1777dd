"""The one verdict on all ranks, of plans that are right by themselves: which of them contradict each other, and how.

spec: R7.24, R7.26 to R7.29
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from proofs.sharding import cover
from proofs.sharding.mesh import Mesh, Part
from proofs.verify import ranks
from proofs.verify.options import Options, Solving
from proofs.verify.ranks import Member
from proofs.verify.verdict import PROVED, REFUTED, Verdict
from tests.support.sharded import SPEC, WORLD, plans, spec
from tmmu.plans import file
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import amend_plan

SCOPE = "for the steps it states"
EVERY_RANK = Options(require=("ranks",))


@cache
def right(by_stages: bool = True) -> tuple[Member, ...]:
    """The ranks of two stages with two ranks each, or of a mesh of two ranks without stages."""
    found = []
    for plan in plans(SPEC if by_stages else spec({"data": 2}, ("x", ["data"]))):
        verdict = Verdict(
            f"{plan.origin.rank}.cbor",
            PROVED,
            0,
            SCOPE,
            assumptions={"rank": plan.origin.rank, "donated": [f"given{plan.origin.rank % 2}"]},
        )
        one = ranks.member(verdict, StatedPlan(plan, file.compute_hashes(plan)))
        assert one is not None
        found.append(one)
    return tuple(found)


@pytest.fixture
def believed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the solver says of equal chunks is not asked; the list is how many ranks it would have been asked about."""
    asked: list[int] = []
    monkeypatch.setattr(cover, "prove_cover", lambda mesh, by_rank, solver, timeout_s: asked.append(len(by_rank)))
    return asked


def together(*members: Member, options: Options = EVERY_RANK) -> Verdict:
    (verdict,) = ranks.verdicts(members, options)
    return verdict


def said(verdict: Verdict) -> dict[str, tuple[str, str]]:
    return {o["name"]: (o["verdict"], o["detail"]) for o in verdict.obligations}


def test_ranks_that_fit_are_proved_and_what_they_assume_is_told_once(believed: list[int]) -> None:
    """spec: R7.27"""
    verdict = together(*right())
    assert (verdict.file, verdict.verdict, verdict.exit, verdict.notes) == ("ranks of small", "PROVED", 0, [])
    assert said(verdict) == dict.fromkeys(ranks.OBLIGATIONS, ("PROVED", ""))
    assert verdict.assumptions == {
        "rank": None, "donated": ["given0", "given1"], "files": ["0.cbor", "1.cbor", "2.cbor", "3.cbor"],
    }  # fmt: skip
    assert believed == [WORLD]


def test_a_rank_that_is_missing_leaves_open_what_needs_all_of_them(believed: list[int]) -> None:
    """The others are still one another's; the solver is not asked about less than all. spec: R7.27"""
    verdict = together(*right()[:3])
    assert (verdict.verdict, verdict.exit, believed) == ("UNKNOWN", 3, [])
    assert said(verdict) == {
        "one_shard_spec": ("PROVED", ""), "every_rank_once": ("UNKNOWN", "no plan of rank 3 of 4"),
        "layouts_agree": ("PROVED", ""), "shards_cover": ("UNKNOWN", "ranks are missing"),
        "ranks_meet": ("UNKNOWN", "ranks are missing"), "each_plan": ("PROVED", ""),
    }  # fmt: skip
    assert verdict.notes == [
        "every_rank_once: no plan of rank 3 of 4", "shards_cover: ranks are missing", "ranks_meet: ranks are missing",
    ]  # fmt: skip


@pytest.mark.parametrize(("world", "more"), [(9, ""), (10, " and 1 more"), (12, " and 3 more")])
def test_the_first_eight_missing_ranks_are_named(world: int, more: str) -> None:
    larger = {**right(by_stages=False)[0].spec, "mesh": [["data", world]]}
    verdict = together(replace(right(by_stages=False)[0], spec=larger))
    assert verdict.notes[0].startswith("every_rank_once: ")
    assert verdict.notes[0].endswith(f" 1, 2, 3, 4, 5, 6, 7, 8{more} of {world}")


def test_a_plan_that_is_not_proved_leaves_the_ranks_unknown(believed: list[int]) -> None:
    """spec: R7.27"""
    made = list(right())
    made[2] = replace(made[2], verdict=replace(made[2].verdict, verdict="UNKNOWN"))
    verdict = together(*made)
    assert (verdict.verdict, verdict.exit) == ("UNKNOWN", 3)
    assert verdict.notes == ["each_plan: 2.cbor is UNKNOWN"]
    assert said(verdict)["each_plan"] == ("UNKNOWN", "2.cbor is UNKNOWN")
    assert said(verdict)["shards_cover"] == ("PROVED", "")


@pytest.mark.parametrize(("solvers", "why"), [(("z3",), ["z3: no"]), (("z3", "cvc5"), ["z3: no"]), ((), [])])
def test_where_a_solver_does_not_prove_the_cover_its_reason_is_told(
    solvers: tuple[str, ...], why: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: R7.25"""
    monkeypatch.setattr(cover, "prove_cover", lambda *_: "no")
    verdict = together(*right(), options=Options(require=("ranks",), solving=Solving(solvers=solvers)))
    assert verdict.verdict == ("UNKNOWN" if why else "PROVED")
    assert verdict.notes == [f"shards_cover: {reason}" for reason in why]
    assert said(verdict)["shards_cover"] == (("UNKNOWN", why[0]) if why else ("PROVED", ""))


def test_the_solver_is_given_the_mesh_the_parts_of_each_rank_and_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def prove(mesh: Mesh, by_rank: dict[int, Any], solver: Any, timeout_s: float) -> None:
        asked.append((mesh.axes, sorted(by_rank), by_rank[3], timeout_s))

    monkeypatch.setattr(cover, "prove_cover", prove)
    together(*right(), options=Options(solving=Solving(timeout=7.0)))
    assert asked == [(["pipe", "data"], [0, 1, 2, 3], right()[3].parts, 7.0)]


def changed(k: int, **new: Any) -> Callable[[list[Member]], None]:
    def apply(made: list[Member]) -> None:
        made[k] = replace(made[k], **new)

    return apply


def of_a_hole(made: list[Member]) -> None:
    """Rank 1 holds an element of `x` less."""
    rows, columns = made[1].parts["x"]
    shorter = rows._replace(part=Part(rows.part.start, rows.part.held - 1, rows.part.chunk))
    made[1] = replace(made[1], parts={**made[1].parts, "x": (shorter, columns)})


DIGEST = bytes(range(32))
CONTRADICTIONS: dict[str, tuple[Callable[[list[Member]], None], dict[str, Any]]] = {
    "another spec": (
        changed(2, spec={**SPEC, "pad": True}),
        {"obligation": "one_shard_spec", "ranks": [0, 2], "text": "2.cbor and 0.cbor are of different shard specs"},
    ),
    "another hash of the spec": (
        changed(3, spec_hash=DIGEST),
        {"obligation": "one_shard_spec", "ranks": [0, 3], "text": "3.cbor and 0.cbor are of different shard specs",
         "field": "shard_spec_hash", "stated": DIGEST.hex()},
    ),
    "the same rank twice": (
        changed(3, rank=1),
        {"obligation": "every_rank_once", "ranks": [1], "text": "1.cbor and 3.cbor are both plans of rank 1"},
    ),
    "another layout": (
        changed(3, layout_digest=DIGEST),
        {"obligation": "layouts_agree", "ranks": [2, 3],
         "text": "ranks 2 and 3 are of one stage and have different layouts", "field": "layout_digest",
         "stated": DIGEST.hex()},
    ),
    "a hole": (
        of_a_hole,
        {"obligation": "shards_cover", "tensors": ["x"], "ranks": [], "element": [3, 0],
         "text": "no rank holds element 3 of dimension 0 of x"},
    ),
    "a rank that does not come": (
        changed(3, meetings=[]),
        {"obligation": "ranks_meet", "ranks": [1, 3],
         "text": "rank 1 waits in a.Send.1 for rank 3, which has ended"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_contradiction_is_refuted_with_the_ranks_that_show_it(what: str, believed: list[int]) -> None:
    """What comes after it is not looked at. spec: R7.28"""
    change, witness = CONTRADICTIONS[what]
    made = list(right())
    change(made)
    verdict = together(*made)
    assert (verdict.verdict, verdict.exit, believed) == ("REFUTED", 1, [])
    assert verdict.witness is not None
    assert verdict.witness.items() >= {"tensors": [], "steps": [], **witness}.items()
    assert ("element" in verdict.witness) == ("element" in witness)
    peer = right()[witness["ranks"][0] if witness["ranks"] else 0]
    said_by_peer = {"one_shard_spec": peer.spec_hash.hex(), "layouts_agree": peer.layout_digest.hex()}
    assert verdict.witness.get("recomputed") == said_by_peer.get(witness["obligation"])
    assert said(verdict) == {
        name: (REFUTED, witness["text"]) if name == witness["obligation"] else ("UNKNOWN", "not reached")
        for name in ranks.OBLIGATIONS
    }


def test_without_stages_all_ranks_have_one_layout(believed: list[int]) -> None:
    """spec: R7.20"""
    made = list(right(by_stages=False))
    assert together(*made).verdict == "PROVED"
    changed(1, layout_digest=DIGEST)(made)
    for order in (made, made[::-1]):
        verdict = together(*order)
        assert (verdict.witness or {}).get("ranks") == [0, 1]


def test_a_mesh_of_one_rank_is_complete_with_it(believed: list[int]) -> None:
    """spec: R7.2"""
    alone = replace(right(by_stages=False)[0], spec={**right(by_stages=False)[0].spec, "mesh": [["data", 1]]})
    whole = {name: tuple(d._replace(part=Part(0, d.size, d.size)) for d in of) for name, of in alone.parts.items()}
    verdict = together(replace(alone, parts=whole, meetings=[]))
    assert (verdict.verdict, believed) == ("PROVED", [1])


def test_layouts_are_compared_also_where_a_rank_is_missing() -> None:
    """spec: R7.28"""
    made = list(right())
    changed(1, layout_digest=DIGEST)(made)
    assert together(*made[:3]).verdict == "REFUTED"
    assert together(made[0], *made[2:]).verdict == "UNKNOWN"


def test_plans_are_of_one_family_only_with_one_model_mode_and_bindings() -> None:
    """What the user donates is not asked: a stage has what the other has not. spec: R7.27, R7.29"""
    base = plans()[0]
    others = [
        amend_plan(base, mode="forward"), amend_plan(base, source_digest=bytes(32)),
        amend_plan(base, bindings=replace(base.bindings, dims={"n": 2})),
    ]  # fmt: skip
    same = [amend_plan(base, model="other"), amend_plan(base, bindings=replace(base.bindings, donated=("x",)))]
    verdict = right()[0].verdict

    def family(plan: Any) -> tuple[Any, ...]:
        one = ranks.member(verdict, StatedPlan(plan, file.compute_hashes(base)))
        assert one is not None
        return one.family

    assert {family(plan) for plan in same} == {family(base)}
    assert len({family(base), *map(family, others)}) == len(others) + 1


def test_a_plan_has_a_verdict_with_others_or_where_all_ranks_are_required() -> None:
    """spec: R7.27, R7.29"""
    alone = replace(right()[0], family=("another",))
    found = list(ranks.verdicts([*right()[1:], alone], Options()))
    assert [verdict.assumptions["files"] for verdict in found] == [["1.cbor", "2.cbor", "3.cbor"], ["0.cbor"]]
    assert [verdict.verdict for verdict in found] == ["UNKNOWN", "UNKNOWN"]
    assert list(ranks.verdicts([alone], Options())) == []
    assert len(list(ranks.verdicts([alone], EVERY_RANK))) == 1
    assert list(ranks.verdicts([], EVERY_RANK)) == []


def test_what_is_donated_is_asked_of_the_plans_that_there_are() -> None:
    """spec: C1.6"""
    assert ranks.misspelt(right(), ["given*", "other"]) == ["other"]
    assert ranks.misspelt([], ["other"]) == []
