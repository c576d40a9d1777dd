"""A shape at run time: inside the envelope, outside and refused, outside and planned again at the safepoint.

spec: R6.7, R6.8, R6.9, R6.10, R6.12
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proofs.verify.judge import verify
from proofs.verify.options import Options
from proofs.verify.verdict import PROVED
from tests.support.onnx_files import model_of, written
from tests.support.text_models import text_model
from tmmu.cli.commands import tmmu
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Bindings, Model, Role
from tmmu.importers.onnx import import_onnx
from tmmu.planner import PlanOptions, plan_memory, replay_token
from tmmu.planner.replan import ReplanPolicy, find_outside, replan, widen_bindings
from tmmu.plans import file
from tmmu.plans.replan import replan_key, shape_envelope_hash
from tmmu.plans.sections import Membership, Plan
from tmmu.runtime.records import trace as traces

TEXT = """main (float[batch, seq] x, float[64, 4] cache) => (y, tail) <int64[1] zero = {0}, int64[1] end = {64}> {
    n = Shape <start = 1> (x) tail = Slice (cache, n, end, zero) t = Tanh (x) y = Relu (t) }"""
RANGES = {"batch": (1, 4), "seq": (8, 32)}
TOKEN = bytes(range(64))


def model(folder: Path, bindings: Bindings | None = None, text: str = TEXT) -> Model:
    bound = bindings if bindings is not None else Bindings(ranges=RANGES)
    return import_onnx(written(folder, model_of(text)), Bindings(dims=bound.dims, ranges=bound.ranges))


def plan(folder: Path, policy: str = "REPLAN_AT_SAFEPOINT") -> Plan:
    return plan_memory(model(folder), options=PlanOptions(replan_policy=policy, replay_token=replay_token(7))).plan


def plan_hash(found: Plan) -> bytes:
    hashes = file.compute_hashes(found)
    return hashes["plan_hash"]


def test_a_shape_inside_changes_nothing(tmp_path: Path) -> None:
    old = plan(tmp_path)
    for shape in ({}, {"seq": 8}, {"seq": 32, "batch": 4}):
        found, record = replan(old, model(tmp_path), shape, ReplanPolicy.ABORT)
        assert found is old
        assert record is None


@pytest.mark.parametrize("size", [7, 33, 0, (1 << 64) - 1])
def test_abort_names_the_dimension_its_size_and_the_envelope(size: int, tmp_path: Path) -> None:
    """spec: R6.7"""
    old = plan(tmp_path, "ABORT")
    for policy in (None, "ABORT", ReplanPolicy.ABORT):
        with pytest.raises(TmmuError, match=f"seq is {size}, .* 8 to 32;") as refused:
            replan(old, model(tmp_path), {"seq": size, "batch": 4}, policy)
        assert refused.value.code_id == "CONTRACT_VIOLATION"
        assert refused.value.record().failure_operator == "UML_OS.TMMU.PrepareMemory_v2"
    assert find_outside(old, {"seq": size, "batch": 9})[0] == ("batch", 9, 1, 4)


def test_a_replan_is_for_the_smallest_envelope_that_holds_both_and_is_recorded(tmp_path: Path) -> None:
    """spec: R6.8, R6.10"""
    old = plan(tmp_path)
    shape = {"seq": 48, "batch": 2}
    wider = widen_bindings(old.bindings, shape)
    assert wider.ranges == {"batch": (1, 4), "seq": (8, 48)}
    new, record = replan(old, model(tmp_path, wider), shape, t=17)
    assert record is not None
    assert (new.origin.mode, new.origin.layout, new.origin.order, new.allocation.arenas, new.origin.replay_token) == (
        old.origin.mode, old.origin.layout, old.origin.order, old.allocation.arenas, old.origin.replay_token,
    )  # fmt: skip
    assert find_outside(new, shape) == find_outside(new, {"seq": 8}) == []
    assert (record.t, record.shape) == (17, {"batch": 2, "seq": 48})
    assert record.reason == "seq is 48, the envelope holds 8 to 32"
    assert (record.old_envelope, record.new_envelope) == (RANGES, wider.ranges)
    assert (record.old_tmmu_plan_hash, record.new_tmmu_plan_hash) == (plan_hash(old), plan_hash(new))
    assert (record.old_replan_key, record.new_replan_key) == (replan_key(old), replan_key(new))
    assert record.old_tmmu_plan_hash != record.new_tmmu_plan_hash
    assert record.to_object()["new_envelope"] == {"batch": [1, 4], "seq": [8, 48]}
    again, same = replan(old, model(tmp_path, wider), shape, t=17)
    assert (file.encode(again), same) == (file.encode(new), record)


def test_a_replanned_plan_is_proved(tmp_path: Path) -> None:
    old = plan(tmp_path)
    new, _ = replan(old, model(tmp_path, widen_bindings(old.bindings, {"seq": 4})), {"seq": 4})
    file.save(new, tmp_path / "new.cbor")
    assert verify(str(tmp_path / "new.cbor"), Options(model=str(tmp_path / "model.onnx"))).verdict == PROVED
    assert dict(zip(new.allocation.tensors.name, new.allocation.tensors.bytes.tolist(), strict=True))["tail"] == 16 * 60


def test_a_plan_of_single_sizes_is_widened_to_a_range(tmp_path: Path) -> None:
    bindings = Bindings({"batch": 2, "seq": 16})
    old = plan_memory(model(tmp_path, bindings)).plan
    wider = widen_bindings(old.bindings, {"seq": 8})
    assert (wider.dims, wider.ranges) == ({"batch": 2}, {"seq": (8, 16)})
    with pytest.raises(TmmuError, match=r"seq is 8, .* 16 to 16;"):
        replan(old, model(tmp_path, wider), {"seq": 8})
    new, record = replan(old, model(tmp_path, wider), {"seq": 8}, "REPLAN_AT_SAFEPOINT")
    assert new.envelope is not None
    assert record is not None
    assert record.old_envelope == {"batch": (2, 2), "seq": (16, 16)}


def test_a_replan_is_of_iteration_0_unless_it_is_said(tmp_path: Path) -> None:
    old = plan(tmp_path)
    _, record = replan(old, model(tmp_path, widen_bindings(old.bindings, {"seq": 48})), {"seq": 48})
    assert record is not None
    assert record.t == 0


def test_the_fix_names_the_range_that_would_hold_the_size(tmp_path: Path) -> None:
    old = plan(tmp_path, "ABORT")
    for size, dim in ((7, "seq=7..32"), (33, "seq=8..33")):
        with pytest.raises(TmmuError, match=f"plan with --dim {dim}, or"):
            replan(old, model(tmp_path), {"seq": size})


def test_a_dimension_may_be_0_and_a_plan_may_have_none(tmp_path: Path) -> None:
    assert find_outside(plan(tmp_path), {"seq": 0}) == [("seq", 0, 8, 32)]
    bound = plan_memory(text_model("node relu Relu x -> y")).plan
    with pytest.raises(TmmuError, match=r"'seq'; .* none"):
        find_outside(bound, {"seq": 1})
    old = plan(tmp_path)
    with pytest.raises(TmmuError, match=r"batch=1\.\.4, seq=8\.\.48, got nothing"):
        replan(old, text_model("node relu Relu x -> y"), {"seq": 48})


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"width": 3}, "'width'; .* 'batch', 'seq'"),
        ({"seq": -1}, r"below 2\^64, got -1"),
        ({"seq": 1 << 64}, r"below 2\^64, got 18446744073709551616"),
    ],
)
def test_a_shape_that_the_plan_does_not_know_is_refused(shape: dict[str, int], message: str, tmp_path: Path) -> None:
    with pytest.raises(TmmuError, match=message) as refused:
        replan(plan(tmp_path), model(tmp_path), shape)
    assert refused.value.code_id == "INVALID_BINDING"


def test_a_program_of_a_plan_set_is_not_planned_again_by_itself(tmp_path: Path) -> None:
    """Its set has one place for each shared tensor. spec: PS3.6"""
    of_set = replace(plan(tmp_path), membership=Membership("decode", bytes(32)))
    with pytest.raises(TmmuError, match="decode is a program of a plan set") as refused:
        replan(of_set, model(tmp_path), {"seq": 48})
    assert refused.value.code_id == "INVALID_BINDING"


def test_a_model_that_is_not_the_planned_one_is_refused(tmp_path: Path) -> None:
    old = plan(tmp_path)
    wider = widen_bindings(old.bindings, {"seq": 48})
    with pytest.raises(TmmuError, match=r"batch=1..4, seq=8..48, got batch=1..4, seq=8..32"):
        replan(old, model(tmp_path), {"seq": 48})
    with pytest.raises(TmmuError, match="it is not the model that was planned"):
        replan(old, model(tmp_path, wider, TEXT.replace("Tanh", "Sigmoid")), {"seq": 48})
    with pytest.raises(TmmuError, match="it is not the model that was planned"):
        replan(old, replace(model(tmp_path, wider), name="another"), {"seq": 48})
    with pytest.raises(TmmuError, match="it is not the token"):
        replan(old, model(tmp_path, wider), {"seq": 48}, address_token=TOKEN)


def test_hashed_addresses_need_their_token_again(tmp_path: Path) -> None:
    old = plan_memory(
        model(tmp_path), options=PlanOptions(layout="hashed", address_token=TOKEN, replan_policy="REPLAN_AT_SAFEPOINT")
    ).plan
    wider = model(tmp_path, widen_bindings(old.bindings, {"seq": 48}))
    with pytest.raises(TmmuError, match="it is not the token"):
        replan(old, wider, {"seq": 48})
    new, _ = replan(old, wider, {"seq": 48}, address_token=TOKEN)
    assert (new.origin.layout, new.origin.address_token_digest) == ("hashed", old.origin.address_token_digest)


def test_the_replan_key_is_that_of_everything_the_layout_follows_from(tmp_path: Path) -> None:
    """spec: R6.9"""
    base, own = model(tmp_path), (ArenaConfiguration("all", tuple(Role), alignment=64),)
    other = model(tmp_path, Bindings(ranges={"batch": (1, 4), "seq": (8, 33)}))
    plans = [
        plan_memory(base).plan,
        plan_memory(other).plan,
        plan_memory(base, own).plan,
        plan_memory(base, options=PlanOptions(mode="forward")).plan,
        plan_memory(base, options=PlanOptions(layout="packed")).plan,
        plan_memory(base, options=PlanOptions(order="memory")).plan,
        plan_memory(model(tmp_path, text=TEXT.replace("Tanh", "Sigmoid"))).plan,
        plan_memory(replace(base, bindings=replace(base.bindings, donated=("x",)))).plan,
    ]
    assert len({replan_key(found) for found in plans}) == len(plans)
    assert replan_key(plan_memory(base, options=PlanOptions(replay_token=replay_token(5))).plan) == replan_key(plans[0])
    assert replan_key(plan_memory(base, options=PlanOptions(replan_policy="REPLAN_AT_SAFEPOINT")).plan) == replan_key(
        plans[0]
    )
    assert shape_envelope_hash(Bindings({"n": 4})) != shape_envelope_hash(Bindings(ranges={"n": (4, 5)}))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tmmu, list(arguments), standalone_mode=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model and a plan of it."""
    path = written(tmp_path, model_of(TEXT))
    made = run("plan", path, "-o", str(tmp_path / "p.cbor"), "--dim", "batch=1..4", "--dim", "seq=8..32")
    assert made.exit_code == 0
    return tmp_path


def replanned(folder: Path, *flags: str) -> Result:
    paths = str(folder / "p.cbor"), "--model", str(folder / "model.onnx"), "-o", str(folder / "new.cbor")
    return run("replan", *paths, *flags)


def test_the_command_replans_checks_and_records(folder: Path) -> None:
    """spec: R6.8, R6.10, R6.12"""
    record = folder / "record.cbor"
    flags = ("--policy", "replan_at_safepoint", "--iteration", "3", "--record", str(record))
    result = replanned(folder, "--dim", "seq=33", "--dim", "batch=2", *flags)
    assert result.exit_code == 0, result.exception
    assert "replanned before iteration 3: " in result.output
    old, new = (file.load(folder / name).plan for name in ("p.cbor", "new.cbor"))
    assert run("trace", "show", str(record)).exit_code == 0
    first, *rest = traces.load(record)
    [at] = [k for k, each in enumerate(rest) if each["kind"] == "replan"]
    assert (rest[at]["t"], rest[at]["shape"]) == (3, {"batch": 2, "seq": 33})
    assert (first["tmmu_plan_hash"], rest[at]["new_tmmu_plan_hash"]) == (plan_hash(old), plan_hash(new))
    assert [each for each in rest[at + 1 :] if each["kind"] in ("tensor", "summary")] == list(traces.allocation(new))
    assert new.bindings.ranges == {"batch": (1, 4), "seq": (8, 33)}
    assert verify(str(folder / "new.cbor"), Options(model=str(folder / "model.onnx"))).verdict == PROVED
    assert new.envelope is not None
    assert new.envelope.policy == "REPLAN_AT_SAFEPOINT"


def test_the_policy_of_a_plan_is_asked_for_when_it_is_made(folder: Path) -> None:
    model_file = str(folder / "model.onnx")
    dims = ("--dim", "batch=2", "--dim", "seq=8..32", "--replan-policy", "replan_at_safepoint")
    assert run("plan", model_file, "-o", str(folder / "p.cbor"), *dims).exit_code == 0
    assert replanned(folder, "--dim", "seq=64", "--dim", "batch=3").exit_code == 0
    assert file.load(folder / "new.cbor").plan.bindings.ranges == {"batch": (2, 3), "seq": (8, 64)}


def test_a_plan_that_computes_again_asks_for_its_budget(tmp_path: Path) -> None:
    zeros = ",".join(["0"] * 4096)
    text = f"""main (float[n, 64] x) => (y) <float[64, 64] w = {{{zeros}}}> {{ a = MatMul (x, w) b = Tanh (a)
        c = MatMul (b, w) d = Tanh (c) e = MatMul (d, w) f = Tanh (e) y = MatMul (f, w) }}"""
    path, out = written(tmp_path, model_of(text)), str(tmp_path / "p.cbor")
    flags = ("--dim", "n=64..128", "--mode", "backward", "--replan-policy", "replan_at_safepoint")
    assert run("plan", path, "-o", out, *flags, "--preset", "remat_enabled", "--budget", "230000").exit_code == 0
    if not any(".recompute" in node for node in file.load(out).plan.allocation.steps.node):
        pytest.fail("nothing is computed again")
    refused = replanned(tmp_path, "--dim", "n=130")
    assert isinstance(refused.exception, TmmuError)
    assert "give it to tmmu replan with --budget" in str(refused.exception)
    assert replanned(tmp_path, "--dim", "n=130", "--budget", "240000").exit_code == 0
    assert verify(str(tmp_path / "new.cbor"), Options(model=path)).verdict == PROVED
