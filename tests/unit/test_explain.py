"""What `tmmu explain` and `tmmu diff` print of plans."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.verify.entry import run as verify_plan
from tests.support.commands import ran
from tests.support.synthetic import training_plan
from tests.support.text_models import text_model
from tmmu import Graph
from tmmu import plan as planned
from tmmu.cli import explain as explain_command
from tmmu.core.errors import REGISTRY
from tmmu.core.output import format_size as shown
from tmmu.core.pages import read_failures
from tmmu.planner import plan_memory
from tmmu.plans import file
from tmmu.report.arena_map import ArenaMap, arena_maps
from tmmu.report.difference import arena_changes, growth, tensor_changes
from tmmu.report.explanation import savings

BUFFERS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6), st.integers(1, 40)), min_size=1, max_size=12)


def buffers(rows: list[tuple[int, int, int]], folder: Path) -> ArenaMap:
    """The map of buffers (birth, steps more, bytes), each at an address of its own."""
    lines, at = ["tmmu-plan-text 1", "arena a 9999"], 0
    for k, (birth, more, size) in enumerate(rows):
        lines.append(f"buffer b{k} {size} a {at} live {birth} {birth + more}")
        at += size
    (folder / "b.plan.txt").write_text("\n".join(lines) + "\n")
    (one,) = arena_maps(file.load_any(folder / "b.plan.txt").plan)
    return one


@given(BUFFERS)
def test_a_saving_is_what_the_peak_is_lower_without_the_storage(rows: list[tuple[int, int, int]]) -> None:
    """Against the definition, for each storage. spec: RP3.2"""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        one = buffers(rows, Path(folder))

    def peak(without: int) -> int:
        left = [row for k, row in enumerate(rows) if k != without]
        return max((sum(c for b, m, c in left if b <= n <= b + m) for n in range(20)), default=0)

    assert one.peak == peak(-1)
    each = {k: one.peak - peak(k) for k in range(len(rows))}
    best = sorted((saving for saving in each.values() if saving), reverse=True)
    for most in (1, 3, 20):
        found = savings(one, most)
        assert [saving.bytes for saving in found] == best[:most]
        assert all(each[saving.row] == saving.bytes for saving in found)
        assert len({saving.row for saving in found}) == len(found)


def test_a_plan_is_explained_by_its_peak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: RP3.1, RP3.2"""
    path = tmp_path / "b.plan.txt"
    buffers([(0, 1, 7), (1, 2, 30), (3, 5, 20)], tmp_path)
    code, out, _ = ran(capsys, "explain", str(path))
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "a: footprint 57 B; at most 50 B are live, at step 3"
    assert [line.split()[2] for line in lines[2:4]] == ["b1", "b2"]
    assert [line.split()[:3] for line in lines[5:]] == [["30", "B", "b1"], ["13", "B", "b2"]]
    buffers([(0, 0, 7), (1, 0, 3), (2, 0, 7)], tmp_path)
    assert "no single storage lowers the peak" in ran(capsys, "explain", str(path))[1]
    code, _, err = ran(capsys, "explain", str(path), "--model", str(path))
    assert (code, "lifetimes and no steps" in err) == (2, True)


def test_what_a_model_needs_otherwise_is_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every figure is that of the plan which the flags make. spec: RP3.3"""
    model = str(tmp_path / "m.onnx")
    assert ran(capsys, "example", "mico-lenet", "-o", model)[0] == 0
    plan = tmp_path / "p.plan.cbor"
    assert ran(capsys, "plan", model, "--mode", "backward", "-o", str(plan))[0] == 0
    code, out, _ = ran(capsys, "explain", str(plan), "--model", model)
    assert code == 0
    lines = [line.strip() for line in out.splitlines() if line.startswith("  --order")]
    assert len(lines) == 5
    assert ran(capsys, "diff", str(plan), str(plan), "--format", "json")[0] == 0
    now = sum(arena.footprint for arena in arena_changes_of(plan))
    for line in lines:
        flags, _, figures = line.partition(": ")
        assert ran(capsys, "plan", model, "--mode", "backward", *flags.split(), "-o", str(tmp_path / "q.cbor"))[0] == 0
        needs = sum(arena.footprint for arena in arena_changes_of(tmp_path / "q.cbor"))
        assert figures.endswith(f"({(needs - now) / now:+.1%})")
    assert "--preset remat_enabled, at the least: " in out
    assert "in-place hints refused: " in out
    assert verify_plan([str(plan), "--model", model]) == 0


def test_a_model_of_another_plan_is_refused_and_one_in_ir_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model file that states its own dimensions binds none. spec: RP3.3"""
    model, other = tmp_path / "m.ir.txt", tmp_path / "other.ir.txt"
    text = "tmmu-ir-text 1\ndim n 4\ntensor x f32 n input\ntensor y f32 {} output\nnode relu Relu x -> y inplace y x\n"
    model.write_text(text.format("n"))
    other.write_text(text.format(5))
    plan, token = str(tmp_path / "p.plan.cbor"), tmp_path / "token"
    token.write_bytes(bytes(64))
    for layout in ([], ["--layout", "hashed", "--address-token", str(token)]):
        assert ran(capsys, "plan", str(model), *layout, "-o", plan)[0] == 0
        code, out, err = ran(capsys, "explain", plan, "--model", str(model))
        assert (code, err) == (0, "")
        refusal = "  1 hint: the operand is kept: it is a graph input that is not donated\n    relu: y in place of x\n"
        assert f"in-place hints refused: 1\n{refusal}" in out
        code, _, err = ran(capsys, "explain", plan, "--model", str(other))
        assert (code, "the plan is not of this model" in err) == (2, True)


def test_what_in_place_reuse_saves_is_what_the_plans_without_it_and_with_more_of_it_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: RP3.3"""
    sizes = {
        "x": (16, "input"),
        "w": (128, "input"),
        "a": (256, ""),
        "b": (256, ""),
        "c": (128, ""),
        "y": (16, "output"),
    }
    head = "".join(f"tensor {name} f32 {count} {role}\n" for name, (count, role) in sizes.items())
    nodes = (
        "node one Gemm x -> a", "node two Relu a -> b inplace b a", "node three Relu w -> c inplace c w",
        "node four Gemm b c -> y",
    )  # fmt: skip
    model, plan, other = (str(tmp_path / name) for name in ("m.ir.txt", "p.plan.cbor", "q.plan.cbor"))
    Path(model).write_text(f"tmmu-ir-text 1\n{head}" + "\n".join(nodes) + "\n")
    bare = str(tmp_path / "bare.ir.txt")
    Path(bare).write_text(f"tmmu-ir-text 1\n{head}" + "\n".join(node.partition(" inplace")[0] for node in nodes) + "\n")
    assert ran(capsys, "plan", model, "-o", plan)[0] == 0
    out = ran(capsys, "explain", plan, "--model", model)[1]
    now = footprint_of(Path(plan))
    for what, arguments in (("without in-place reuse", (bare,)), ("--donate x and 1 more", (model, "--donate", "*"))):
        assert ran(capsys, "plan", *arguments, "-o", other)[0] == 0
        needs = footprint_of(Path(other))
        assert needs != now
        assert f"  {what}: {shown(needs)} ({(needs - now) / now:+.1%})\n" in out
    assert ran(capsys, "plan", model, "--donate", "*", "-o", plan)[0] == 0
    assert "--donate" not in ran(capsys, "explain", plan, "--model", model)[1]


def test_what_is_not_tried_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: RP3.5"""
    model, plan = str(tmp_path / "m.onnx"), str(tmp_path / "p.plan.cbor")
    assert ran(capsys, "example", "mico-mlp", "-o", model)[0] == 0
    for mode in ("inference", "backward"):
        assert ran(capsys, "plan", model, "--mode", mode, "-o", plan)[0] == 0
        assert "not tried without --model: " in ran(capsys, "explain", plan)[1]
        tried = ran(capsys, "explain", plan, "--model", model)[1]
        assert "--order memory: not tried" not in tried
        assert ("computing again: not tried" in tried) == (mode == "inference")
        assert "without --model" not in tried
        with monkeypatch.context() as patched:
            patched.setattr(explain_command, "MOST_NODES", 3)
            few = ran(capsys, "explain", plan, "--model", model)[1]
        assert "--order memory: not tried, as the model has more than 3 nodes" in few
        assert ("--preset remat_enabled: not tried" in few) == (mode == "backward")
        assert "--order given --layout slots: " in few


def test_a_plan_with_births_behind_its_last_step_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a plan is refuted, and a map of it still can be drawn. spec: RE3.7"""
    plan = plan_memory(text_model("node relu Relu x -> a", "node add Add a x -> y")).plan
    storages = plan.allocation.storages
    births = storages.birth.copy()
    births[-1] = 8192
    late = replace(plan, allocation=replace(plan.allocation, storages=replace(storages, birth=births)))
    file.save(late, tmp_path / "late.plan.cbor")
    assert ran(capsys, "explain", str(tmp_path / "late.plan.cbor"))[0] == 0
    assert all(one.birth.max() <= one.last_step for one in arena_changes_of(tmp_path / "late.plan.cbor"))


def footprint_of(path: Path) -> int:
    return sum(arena.footprint for arena in arena_changes_of(path))


def arena_changes_of(path: Path) -> list[ArenaMap]:
    return arena_maps(file.load_any(path).plan)


def test_every_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: RP3.4"""
    for code in REGISTRY:
        exit_code, out, _ = ran(capsys, "explain", code.lower())
        assert exit_code == 0
        assert out.startswith(f"{code} ({REGISTRY[code].numeric}, ")
        entry = read_failures()[code]
        assert entry.meaning in out
        assert f"To fix it: {entry.fix}" in out


def test_what_is_no_plan_and_no_code_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: RP3.4"""
    code, _, err = ran(capsys, "explain", "LIVENESS_CYCLES")
    assert (code, "did you mean LIVENESS_CYCLE" in err) == (2, True)
    code, _, err = ran(capsys, "explain", "~")
    assert (code, "the codes are INVALID_ARENA_CONFIG" in err) == (2, True)


def chain(sizes: dict[str, int], folder: Path, name: str) -> str:
    g = Graph("g")
    last = g.input("x", (16,))
    for tensor, size in sizes.items():
        last = g.node("Make", last, g.tensor(tensor, (size,)))
    g.output(last)
    path = folder / f"{name}.cbor"
    planned(g).save(path)
    return str(path)


def test_each_tensor_is_new_gone_resized_moved_or_live_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: RP4.1"""
    before = chain({"a": 16, "b": 64, "c": 16, "d": 512}, tmp_path, "before")
    after = chain({"a": 16, "b": 512, "e": 8, "d": 512}, tmp_path, "after")
    plans = [file.load_any(path).plan for path in (before, after)]
    found = {change.name: change.kind for change in tensor_changes(*plans)}
    assert (found["b"], found["c"], found["e"]) == ("resized", "gone", "new")
    assert "x" not in found or found["x"] == "moved"
    code, out, _ = ran(capsys, "diff", before, after)
    assert code == 0
    for word, tensor in (("resized", "b"), ("gone", "c"), ("new", "e")):
        assert f"  {word}: 1 tensor" in out
        assert f"    {tensor}: " in out
    code, out, _ = ran(capsys, "diff", before, before)
    assert (code, "no tensor is other than before" in out) == (0, True)
    shown = json.loads(ran(capsys, "diff", before, after, "--format", "json")[1])
    assert {change["name"]: change["kind"] for change in shown["tensors"]} == found


def test_growth_is_that_of_the_arena_that_has_grown_most(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: RP4.2"""
    small, large = chain({"a": 1024}, tmp_path, "small"), chain({"a": 2048}, tmp_path, "large")
    plans = [file.load_any(path).plan for path in (small, large)]
    grown = growth(arena_changes(*plans))
    assert grown is not None
    assert Fraction(9, 10) < grown < 1
    assert growth(arena_changes(*reversed(plans))) < 0  # type: ignore[operator]
    percent = f"{float(grown) * 100:.4f}"
    for limit, code in (("5%", 1), ("0", 1), ("200%", 0), ("1/2", 1), (f"{float(percent) + 0.001}%", 0)):
        assert ran(capsys, "diff", small, large, "--max-growth", limit)[0] == code, limit
        assert ran(capsys, "diff", large, small, "--max-growth", limit)[0] == 0
    code, _, err = ran(capsys, "diff", small, large, "--max-growth", "much")
    assert (code, "is not a proportion" in err) == (2, True)
    assert ran(capsys, "diff", small, large, "--max-growth", "-1%")[0] == 2
    # An arena that held nothing has grown from nothing.
    with_weight = Graph("g")
    x, w = with_weight.input("x", (16,)), with_weight.parameter("w", (16,))
    with_weight.output(with_weight.node("Add", [x, w], with_weight.tensor("a", (1024,))))
    planned(with_weight).save(tmp_path / "weight.cbor")
    code, _, err = ran(capsys, "diff", small, str(tmp_path / "weight.cbor"), "--max-growth", "900%")
    assert (code, "from nothing" in err) == (1, True)


def test_a_synthetic_plan_is_the_same_as_itself() -> None:
    """spec: RP4.1"""
    plan = training_plan(40, seed=2)
    assert tensor_changes(plan, plan) == []
    assert growth(arena_changes(plan, plan)) == 0
