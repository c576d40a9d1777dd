"""All plans of a sharded model together, and what the gate and the verifier say of wrong ones.

spec: R7.3, R7.4, R7.19 to R7.21, R7.24 to R7.31
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click import UsageError
from click.testing import CliRunner

from proofs.proving.lemmas.plan.cover import DEFINITIONS, STATEMENTS
from proofs.proving.solvers.process import Z3
from proofs.sharding import cover
from proofs.sharding.exchange import Communication, communications, find_deadlock
from proofs.sharding.mesh import Mesh, Part
from proofs.sharding.parts import Dimension
from proofs.verify import judge as verify_plan
from proofs.verify.command import command
from proofs.verify.verdict import Verdict
from tests.support.sharded import LAYERS, SPEC, WORLD, plans, spec
from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAX_PATTERNS, MAX_RULES
from tmmu.ir import files
from tmmu.planner import plan_memory, replay_token
from tmmu.plans import file, gate, sharding
from tmmu.plans.sections import Plan, amend_plan


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """The plan files of all ranks, with the model beside them."""
    files.save(LAYERS, tmp_path / "model.ir.cbor")
    return written(tmp_path, plans())


def written(folder: Path, made: list[Plan]) -> list[str]:
    names = [str(folder / f"{k}.cbor") for k in range(len(made))]
    for name, plan in zip(names, made, strict=True):
        file.save(plan, name)
    return names


def verified(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the verdicts of one command line."""
    result = CliRunner().invoke(command, [*arguments, "--format", "json"], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, json.loads(result.stdout)["files"]


def test_all_ranks_are_proved_together(paths: list[str], tmp_path: Path) -> None:
    """spec: R7.24, R7.27, R7.31"""
    code, verdicts = verified(*paths, "--model", str(tmp_path / "model.ir.cbor"), "--require", "model,ranks")
    assert (code, [v["verdict"] for v in verdicts]) == (0, ["PROVED"] * (WORLD + 1))
    assert verdicts[-1]["file"] == "ranks of small"
    assert {o["name"]: o["verdict"] for o in verdicts[-1]["obligations"]} == dict.fromkeys(
        ("one_shard_spec", "every_rank_once", "layouts_agree", "shards_cover", "ranks_meet", "each_plan"), "PROVED"
    )


def test_a_missing_rank_is_unknown(paths: list[str]) -> None:
    """spec: R7.27"""
    code, verdicts = verified(*paths[:2])
    assert (code, verdicts[-1]["verdict"]) == (3, "UNKNOWN")
    assert any("every_rank_once" in note and "rank 2, 3 of 4" in note for note in verdicts[-1]["notes"])


def test_the_name_of_the_model_tells_no_ranks_apart(paths: list[str], tmp_path: Path) -> None:
    """It is free text: the plan of a rank that is given twice is given twice, whatever the second is called.

    spec: R7.27, R7.28
    """
    other = tmp_path / "other.cbor"
    file.save(amend_plan(file.load(paths[0]).plan, model="other"), other)
    code, verdicts = verified(paths[0], str(other))
    assert (code, verdicts[-1]["verdict"]) == (1, "REFUTED")
    assert verdicts[-1]["witness"]["obligation"] == "every_rank_once"


def test_ranks_of_different_models_are_no_set_of_either(paths: list[str], tmp_path: Path) -> None:
    """spec: R7.27"""
    other = tmp_path / "other.cbor"
    file.save(amend_plan(file.load(paths[0]).plan, source_digest=bytes(32)), other)
    code, verdicts = verified(paths[0], str(other))
    assert (code, [v["verdict"] for v in verdicts]) == (3, ["PROVED", "PROVED", "UNKNOWN", "UNKNOWN"])


def test_one_rank_alone_has_its_own_verdict_unless_all_are_required(paths: list[str]) -> None:
    """spec: R7.29"""
    code, verdicts = verified(paths[0])
    assert (code, len(verdicts)) == (0, 1)
    assert any("verify all rank plans together" in note for note in verdicts[0]["notes"])
    assert CliRunner().invoke(command, [paths[0]]).output.startswith(f"PROVED {paths[0]} (rank 0 of 4) for the ")
    code, verdicts = verified(paths[0], "--require", "ranks")
    assert (code, [v["verdict"] for v in verdicts]) == (3, ["PROVED", "UNKNOWN"])


def test_a_plan_without_a_shard_spec_is_no_set_of_ranks(tmp_path: Path) -> None:
    """Whoever requires all ranks has not got them with one plan that knows of none. spec: R7.29, V5.4"""
    file.save(plan_memory(LAYERS).plan, tmp_path / "whole.cbor")
    code, verdicts = verified(str(tmp_path / "whole.cbor"), "--require", "ranks")
    assert (code, [v["verdict"] for v in verdicts]) == (3, ["UNKNOWN"])
    assert "required but missing: ranks" in verdicts[0]["notes"]


def test_each_plan_file_is_read_once(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of all ranks is said of the very bytes that were judged, whatever the files hold by then."""
    judge = verify_plan.judge

    def judged(path: str, *rest: Any) -> Verdict:
        Path(path).write_bytes(Path(paths[0]).read_bytes() if path != paths[0] else b"no plan")
        return judge(path, *rest)

    monkeypatch.setattr(verify_plan, "judge", judged)
    code, verdicts = verified(*paths)
    assert (code, {v["verdict"] for v in verdicts}) == (0, {"PROVED"})
    assert Path(paths[0]).read_bytes() == b"no plan"


def test_a_rank_whose_plan_is_refuted_leaves_the_ranks_unknown(paths: list[str]) -> None:
    canonical.write_atomically(Path(paths[1]), file.encode(plans()[1], {"plan_hash": bytes(32)}))
    code, verdicts = verified(*paths)
    assert (code, [v["verdict"] for v in verdicts]) == (1, ["PROVED", "REFUTED", "PROVED", "PROVED", "UNKNOWN"])
    assert f"each_plan: {paths[1]} is REFUTED" in verdicts[-1]["notes"]


def test_what_is_donated_must_be_in_a_plan_that_is_given(paths: list[str], tmp_path: Path) -> None:
    """`w2` is only on the second stage. spec: C1.6"""
    code, verdicts = verified(*paths, "--donate", "w2", "--donate", "x*")
    assert (code, [v["assumptions"]["donated"] for v in verdicts]) == (0, [["x"], ["x"], ["w2"], ["w2"], ["w2", "x"]])
    for given, wrong in ((paths, "w3"), (paths, "v*"), (paths[:2], "w2"), (paths[2:3], "x")):
        with pytest.raises(UsageError, match=re.escape(f"--donate {wrong}: no plan given has")):
            verified(*given, "--donate", "w*", "--donate", wrong)
    (tmp_path / "broken.cbor").write_bytes(b"no plan")
    assert verified(*paths[:1], str(tmp_path / "broken.cbor"), "--donate", "w2")[0] == 4


def test_the_solver_that_is_named_proves_that_shards_cover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: R7.25, V4.10"""
    paths = written(tmp_path, plans(spec({"data": 2}, ("x", ["data"]))))
    asked = []

    def prove(mesh: Mesh, by_rank: Any, solver: Any, timeout_s: float) -> str | None:
        asked.append(solver.version.split()[0].lower())
        reason = original(mesh, by_rank, solver, timeout_s)
        assert reason is None
        return "it sees a hole" if refuses and asked[-1] == "cvc5" else reason

    original, refuses = cover.prove_cover, False
    monkeypatch.setattr(cover, "prove_cover", prove)
    for flag, solvers in (("z3", ["z3"]), ("cvc5", ["cvc5"]), ("both", ["z3", "cvc5"])):
        asked.clear()
        assert (verified(*paths, "--solver", flag)[0], asked) == (0, solvers)
    refuses = True
    code, verdicts = verified(*paths, "--solver", "both")
    assert (code, verdicts[-1]["verdict"]) == (3, "UNKNOWN")
    assert "shards_cover: cvc5: it sees a hole" in verdicts[-1]["notes"]


def test_plans_of_two_models_are_two_families(paths: list[str], tmp_path: Path) -> None:
    others = [amend_plan(plan, model="other", source_digest=bytes(32)) for plan in plans()]
    (tmp_path / "b").mkdir()
    code, verdicts = verified(*paths, *written(tmp_path / "b", others))
    assert (code, [v["file"] for v in verdicts[-2:]]) == (0, ["ranks of small", "ranks of other"])


def test_ranks_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    """spec: R7.28"""
    made = plans()
    made[3] = amend_plan(made[3], bindings=replace(made[3].bindings, donated=()), ir_hash=bytes(32))
    code, verdicts = verified(*written(tmp_path, made))
    assert (code, verdicts[-1]["witness"]["obligation"]) == (1, "layouts_agree")
    assert verdicts[-1]["witness"]["ranks"] == [2, 3]
    text = CliRunner().invoke(command, written(tmp_path, made), standalone_mode=False).stdout
    assert "  ranks: 2, 3" in text.splitlines()


def test_ranks_of_a_stage_have_one_layout_digest_under_every_token() -> None:
    """spec: R7.20, R7.21"""
    hashes = [file.compute_hashes(plan) for plan in plans()]
    assert hashes[0]["layout_digest"] == hashes[1]["layout_digest"] != hashes[2]["layout_digest"]
    assert len({h["plan_hash"] for h in hashes}) == WORLD
    other = file.compute_hashes(amend_plan(plans()[1], replay_token=replay_token(5)))
    assert other["layout_digest"] == hashes[0]["layout_digest"]


def test_a_shard_spec_that_does_not_fit_the_model_is_refuted(paths: list[str], tmp_path: Path) -> None:
    """spec: R7.31"""
    wrong = amend_plan(plans()[0], shard_spec={**SPEC, "stages": [["up"], []]})
    (path,) = written(tmp_path, [wrong])
    code, verdicts = verified(path, "--model", str(tmp_path / "model.ir.cbor"))
    assert code == 1
    assert verdicts[0]["witness"]["field"] == "sharding"
    assert "no stage names this step" in verdicts[0]["witness"]["recomputed"]


def test_a_stated_mesh_of_billions_costs_nothing(tmp_path: Path) -> None:
    huge = {**SPEC, "mesh": [["pipe", 2], ["data", 2147483647]], "pad": True}
    made = [amend_plan(plan, shard_spec=huge, world_size=sharding.count_ranks(huge)) for plan in plans()[:2]]
    code, verdicts = verified(*written(tmp_path, made))
    assert (code, verdicts[-1]["verdict"]) == (1, "UNKNOWN")
    assert "2, 3, 4, 5, 6, 7, 8, 9 and 4294967284 more of 4294967294" in " ".join(verdicts[-1]["notes"])


# The gate.

COLUMN = {"u32": np.uint32, "u64": np.uint64}


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(root: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        for key in outer:
            root = root[int(key)] if isinstance(root, list) else root[key]
        root[last] = value

    return apply


def first(name: str, value: int) -> Callable[[dict[str, Any]], None]:
    """The first entry of a column of the table of shards."""

    def apply(root: dict[str, Any]) -> None:
        old = root["shards"][name]
        root["shards"][name] = np.array([value, *old.tolist()[1:]], old.dtype)

    return apply


RULE = {"roles": ["input"], "names": ["x"], "split": []}
STARRED = [f"{k}*" for k in range(MAX_PATTERNS + 1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("provenance.world_size", 5), "provenance.world_size"),
        (put("provenance.shard_spec", {}), "provenance.world_size"),
        (put("provenance.shard_spec.more", 1), "the key 'more' is unknown"),
        (put("provenance.shard_spec.mesh", []), "the mesh has no axis"),
        (put("provenance.shard_spec.rules", [RULE] * (MAX_RULES + 1)), "more than 1024 rules or stages"),
        (put("provenance.shard_spec.rules", [RULE | {"names": STARRED}]), "1024 patterns with a star"),
        (put("provenance.shard_spec.mesh", [["data", 0]]), "the size of the axis 'data'"),
        (put("provenance.shard_spec.mesh", [["data", True]]), "the size of the axis 'data'"),
        (put("provenance.shard_spec.mesh", [["a", 65536], ["b", 65536]]), "2\\^32 ranks or more"),
        (put("provenance.shard_spec.mesh", [["a", 2], ["a", 2]]), "used twice"),
        (put("provenance.shard_spec.mesh", [["a/b", 2]]), "contains a slash"),
        (put("provenance.shard_spec.mesh", [["a"]]), "expected a pair"),
        (put("provenance.shard_spec.pad", 1), "pad: expected a boolean, got 1"),
        (put("provenance.shard_spec.zero_stage", 4), "expected an integer from 0 to 3"),
        (put("provenance.shard_spec.zero_stage", 1), "belong together"),
        (put("provenance.shard_spec.zero_axis", "none"), "expected an axis of the mesh"),
        (put("provenance.shard_spec.stages", [["*"]]), "expected 2 stages, the size of the pipeline's axis, got 1"),
        (put("provenance.shard_spec.stages", [[1], ["*"]]), "expected a text"),
        (put("provenance.shard_spec.rules", [{"roles": [], "names": []}]), "expected exactly the keys"),
        (put("provenance.shard_spec.rules", [{"roles": ["x"], "names": [], "split": []}]), "expected a role, got 'x'"),
        (put("provenance.shard_spec.rules", [{"roles": [], "names": [], "split": ["pipe"]}]), "splits by 'pipe'"),
        (
            put("provenance.shard_spec.rules", [{"roles": [], "names": [], "split": ["data", "data"]}]),
            "two dimensions by the axis",
        ),
        (put("provenance.shard_spec.operators", [{"op": "A", "across": [0]}]), "expected dimensions from -1"),
        (put("shards.tensor", np.zeros(1, np.uint64)), "shards.tensor"),
        (first("tensor", 99), "expected one of"),
        (first("tensor", 1), "a tensor has two rows"),
        (first("dims_at", 1), "bounds"),
        (first("axis", 2), "expected one of"),
        (first("held", 99), "the part is outside"),
        (first("start", (1 << 64) - 1), "the part is outside"),
        (put("shards.size", np.zeros(1, np.uint64)), "shards"),
    ],
)
def test_the_gate_refuses_what_is_no_sharding(change: Callable[[dict[str, Any]], None], message: str) -> None:
    """spec: R7.3, R7.4, R7.19"""
    root = canonical.decode(file.encode(plans()[0]), "plan")
    change(root)
    with pytest.raises(TmmuError, match=message) as refused:
        gate.from_object(root)
    assert refused.value.code_id == "INVALID_PLAN"


def test_a_sharded_plan_is_read_as_it_was_written() -> None:
    for plan in plans():
        assert file.decode(file.encode(plan)).plan == plan


# Covering.


def parts(*spans: tuple[int, int], n: int = 8, axis: str = "data") -> dict[int, dict[str, tuple[Dimension, ...]]]:
    """The parts of `w` on the ranks of one axis, as (start, held)."""
    return {r: {"w": (Dimension(n, axis, Part(start, held, 4)),)} for r, (start, held) in enumerate(spans)}


TWO = Mesh({"mesh": [["data", 2]]})


@pytest.mark.parametrize(
    ("spans", "element", "ranks"),
    [
        (((0, 4), (5, 3)), (4,), ()), (((0, 4), (3, 5)), (3,), (0, 1)), (((1, 3), (4, 4)), (0,), ()),
        (((0, 4), (4, 3)), (7,), ()), (((0, 8), (0, 8)), (0,), (0, 1)), (((0, 0), (0, 0)), (0,), ()),
    ],
)  # fmt: skip
def test_the_first_gap_or_overlap_is_named(spans: Any, element: tuple[int, ...], ranks: tuple[int, ...]) -> None:
    """spec: R7.24"""
    (hole,) = cover.find_holes(TWO, parts(*spans), "")
    assert (hole.tensors, hole.element, hole.ranks) == (("w",), element, ranks)


def test_parts_that_cover_once_have_no_hole() -> None:
    assert list(cover.find_holes(TWO, parts((0, 4), (4, 4)), "")) == []
    assert list(cover.find_holes(TWO, parts((0, 8), (8, 0)), "")) == []
    assert list(cover.find_holes(TWO, parts((0, 8), (0, 8), axis=""), "")) == []


def test_replicas_that_differ_and_ranks_that_state_other_sizes_are_named() -> None:
    (hole,) = cover.find_holes(TWO, parts((0, 8), (0, 7), axis=""), "")
    assert (hole.ranks, hole.element) == ((0, 1), None)
    mixed = {0: parts((0, 4), (4, 4))[0], 1: parts((0, 4), (4, 4), n=9)[1]}
    (hole,) = cover.find_holes(TWO, mixed, "")
    assert "other sizes" in hole.text
    (hole,) = cover.find_holes(TWO, {0: mixed[0], 1: {}}, "")
    assert hole.ranks == (1, 0)


def test_the_solver_proves_right_parts_and_no_wrong_ones() -> None:
    """spec: R7.25"""
    with Z3(DEFINITIONS) as solver:
        assert cover.prove_cover(TWO, parts((0, 4), (4, 4)), solver, 60) is None
        for spans in (((0, 4), (5, 3)), ((0, 4), (3, 5)), ((0, 4), (4, 3))):
            assert cover.prove_cover(TWO, parts(*spans), solver, 60) is not None
        assert cover.prove_cover(TWO, {}, solver, 60) is None


@pytest.mark.parametrize(
    ("old", "new", "lemma"),
    [
        ("(< element (cut n chunk (+ place 1)))", "(<= element (cut n chunk (+ place 1)))", "no_element_is_held_twice"),
        ("(<= (cut n chunk place) element)", "(< (cut n chunk place) element)", "each_element_is_held"),
        (
            "(ite (< (* chunk place) n) (* chunk place) n)",
            "(ite (< (* chunk place) n) (* chunk place) (- n 1))",
            "each",
        ),
    ],
)
def test_the_lemmas_fail_for_other_definitions(old: str, new: str, lemma: str) -> None:
    assert DEFINITIONS.count(old) >= 1
    with Z3(DEFINITIONS.replace(old, new)) as solver:
        reason = cover.prove_cover(TWO, {}, solver, 10)
    assert reason is not None
    assert reason.startswith(lemma)


def test_the_lemmas_need_chunks_that_reach_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that condition the first lemma is false, so that its proof rests on it."""
    each, twice = STATEMENTS
    hypotheses = tuple(text.replace("(<= n (* chunk places))", "(<= 1 chunk)") for text in each.hypotheses)
    assert hypotheses != each.hypotheses
    monkeypatch.setattr(cover, "STATEMENTS", (each._replace(hypotheses=hypotheses), twice))
    with Z3(DEFINITIONS) as solver:
        assert re.match("each_element_is_held", cover.prove_cover(TWO, {}, solver, 10) or "")


# Meeting.


def meeting(what: str, *ranks: int) -> Communication:
    return Communication((what,), ranks, what)


@pytest.mark.parametrize(
    ("by_rank", "ranks"),
    [
        ({0: [meeting("a", 0, 1)], 1: []}, (0, 1)),
        ({0: [meeting("a", 0, 1), meeting("b", 0, 1)], 1: [meeting("b", 0, 1), meeting("a", 0, 1)]}, (0, 1)),
        ({0: [meeting("a", 0, 1)], 1: [meeting("b", 1, 2)], 2: [meeting("c", 2, 0)]}, (0, 1)),
        ({0: [meeting("a", 0, 7)]}, (0, 7)),
        ({0: [meeting("a", 1)], 1: [meeting("a", 1)]}, (0, 1)),
        ({0: [meeting("a", 0)], 1: [meeting("a", 0)]}, (0, 1)),
    ],
)
def test_ranks_that_wait_for_ever_are_named(by_rank: Any, ranks: tuple[int, ...]) -> None:
    """spec: R7.26"""
    found = find_deadlock(by_rank)
    assert found is not None
    assert found.ranks == ranks


def test_ranks_that_meet_come_to_their_end() -> None:
    both = [meeting("a", 0, 1), meeting("b", 0, 1)]
    assert find_deadlock({0: both, 1: both}) is None
    ring = {0: [meeting("a", 0, 1), meeting("c", 0, 2)], 1: [meeting("a", 0, 1), meeting("b", 1, 2)],
            2: [meeting("b", 1, 2), meeting("c", 0, 2)]}  # fmt: skip
    assert find_deadlock(ring) is None
    assert find_deadlock({rank: communications(plan) for rank, plan in enumerate(plans())}) is None
    assert [len(communications(plan)) for plan in plans()] == [2, 2, 1, 1]


def received_in_half(plan: Plan) -> Plan:
    """A plan in which what is sent from stage to stage has elements of half the width."""
    row, t = plan.allocation.tensors.name.list().index("a"), plan.allocation.tensors
    size, dtype = t.bytes.copy(), t.dtype.copy()
    size[row], dtype[row] = size[row] // 2, len(plan.allocation.dtypes)
    return amend_plan(plan, tensors=replace(t, bytes=size, dtype=dtype), dtypes=(*plan.allocation.dtypes, "float16"))


def with_ops(plan: Plan, new: dict[tuple[str, str], tuple[str, str]]) -> Plan:
    """A plan with other operators in place of some."""
    return amend_plan(plan, ops=tuple(new.get(pair, pair) for pair in plan.allocation.ops))


def over_no_axis(plan: Plan) -> Plan:
    """A plan that gathers along an axis that the mesh does not have."""
    return with_ops(plan, {("tmmu.mesh/data", "AllGather.1"): ("tmmu.mesh/nowhere", "AllGather.1")})


def by_unknown_names(plan: Plan) -> Plan:
    """A plan that sends and receives under names that no collective has."""
    pipe = "tmmu.mesh/pipe"
    return with_ops(plan, {(pipe, "Send.1"): (pipe, "Post.1"), (pipe, "Recv.0"): (pipe, "Fetch.0")})


@pytest.mark.parametrize(
    ("changes", "text", "ranks"),
    [
        (
            {2: received_in_half, 3: received_in_half},
            "rank 1 reaches a.Send.1 with 64 bytes of float32, and rank 3 to a.Recv.0 with 32 bytes of float16",
            [1, 3],
        ),
        (
            dict.fromkeys(range(WORLD), over_no_axis),
            "rank 0 reaches up.in1.AllGather.1.data: AllGather.1 over 'nowhere' is not a collective of its mesh",
            [0],
        ),
        (
            dict.fromkeys(range(WORLD), by_unknown_names),
            "rank 0 reaches a.Send.1: Post.1 over 'pipe' is not a collective of its mesh",
            [0],
        ),
    ],
)
def test_what_ranks_exchange_is_known_and_of_one_size(
    changes: dict[int, Callable[[Plan], Plan]], text: str, ranks: list[int], tmp_path: Path
) -> None:
    """spec: R7.26"""
    changed = [changes[rank](plan) if rank in changes else plan for rank, plan in enumerate(plans())]
    code, verdicts = verified(*written(tmp_path, changed))
    assert (code, [v["verdict"] for v in verdicts]) == (1, ["PROVED"] * WORLD + ["REFUTED"])
    assert (verdicts[-1]["witness"]["text"], verdicts[-1]["witness"]["ranks"]) == (text, ranks)
