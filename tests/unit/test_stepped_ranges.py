"""Dimensions of every n-th size: what only multiples fit is planned, proved, run and planned again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import ran
from tests.support.onnx_files import model_of, refusal, resolved, written
from tests.support.verdicts import judged
from tmmu.core.bindings import bindings_object, format_ranges, read_bindings, step_range
from tmmu.core.dims.expressions import evaluate
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, SteppedDim
from tmmu.importers.onnx import import_onnx
from tmmu.ir import text, text_writer
from tmmu.tasks import library

UP_AND_DOWN = """main (float[1, 3, h, w] x) => (y) {
    half = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
    quarter = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (half)
    scales = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
    up = Resize <mode = "nearest"> (quarter, , scales)
    y = Concat <axis = 1> (up, half)
}"""
"""The two halves fit where h and w are multiples of 4 (or one more, or two)."""

H, W = SteppedDim("h/4", 0, 4), SteppedDim("(w-2)/8", 2, 8)
OPEN = {"ranges": {"h/4": (2, 5), "(w-2)/8": (1, 3)}, "steps": {"h": H, "w": W}}


def test_sizes_over_steps_are_those_at_every_shape(tmp_path: Path) -> None:
    """spec: R6.4, R6.14"""
    model = UP_AND_DOWN.replace("Concat <axis = 1> (up, half)", "Relu (half)")
    found = resolved(tmp_path, model, **OPEN)
    for h in range(2, 6):
        for w in range(1, 4):
            point, dims = {"h/4": h, "(w-2)/8": w}, {"h": 4 * h, "w": 2 + 8 * w}
            sizes = resolved(tmp_path, model, dims=dims).sizes
            assert {n: tuple(evaluate(d, point) for d in s) for n, (s, _) in found.sizes.items()} == {
                n: s for n, (s, _) in sizes.items()
            }


def test_what_fits_at_multiples_alone_is_refused_for_all_sizes_and_proved_for_these(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: R6.3, R6.5, R6.14, C1.6"""
    model, plan = written(tmp_path, model_of(UP_AND_DOWN)), str(tmp_path / "p.plan.cbor")
    assert ran(capsys, "plan", model, "--dim", "h=8..64", "--dim", "w=8", "-o", plan)[0] == 4
    code, out, err = ran(capsys, "plan", model, "--dim", "h=8..64:4", "--dim", "w=8..24:8", "-o", plan)
    assert (code, err) == (0, "")
    assert "envelope: h=8..64:4, w=8..24:8" in out
    assert "largest at h=64, w=24" in out
    assert judged(plan, model, ["--dim", "h=8..64:4"])[0] == 0
    assert "h=8..64:4" in judged(plan, model, [])[1]
    assert judged(plan, model, ["--dim", "h=8..64:8"])[0] == 2


def test_a_run_is_of_sizes_on_a_step_and_another_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: R6.7, R6.8, R6.14"""
    model, plan = written(tmp_path, model_of(UP_AND_DOWN)), str(tmp_path / "p.plan.cbor")
    given = ["--dim", "h=8..64:4", "--dim", "w=8..24:8", "--replan-policy", "replan_at_safepoint"]
    ran(capsys, "plan", model, *given, "-o", plan)
    code, out, _ = ran(capsys, "run", model, "--plan", plan, "--dim", "h=12,64", "--dim", "w=16")
    assert code == 0
    assert "h=12 w=16, h=64 w=16" in out
    code, _, err = ran(capsys, "run", model, "--plan", plan, "--dim", "h=13")
    assert code == 4
    assert "h is 13, the envelope holds 8..64:4; pad it to 16" in err.replace(": ", ": ")
    wider = str(tmp_path / "q.plan.cbor")
    code, out, _ = ran(capsys, "replan", plan, "--model", model, "--dim", "h=80", "-o", wider)
    assert (code, "h=8..80:4" in out) == (0, True)
    assert judged(wider, model, [])[0] == 0


@pytest.mark.parametrize("text", ["8..16:3", "8..16:0", "8..16:", "8..16:x", "16..8:4", "8..16:4:2", "8:4"])
def test_a_range_that_no_number_of_steps_fills_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: T10.7, R6.14"""
    model = written(tmp_path, model_of(UP_AND_DOWN))
    assert ran(capsys, "plan", model, "--dim", f"h={text}", "--dim", "w=8")[0] == 2


def test_a_step_of_one_is_a_range_and_one_size_no_range() -> None:
    assert step_range("n", 3, 9, 1) == (None, (3, 9))
    assert step_range("n", 3, 9, 2) == (SteppedDim("(n-1)/2", 1, 2), (1, 4))
    with pytest.raises(ValueError, match="no number of steps"):
        step_range("n", 3, 3, 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ranges": {"n/4": (2, 5)}, "steps": {"n": SteppedDim("n/4", 0, 4)}}, "no dimension is named 'n'"),
        ({"ranges": {}, "steps": {"h": H}, "dims": {"w": 8}}, "no range of 'h/4'"),
        ({"ranges": {"h/4": (2, 5)}, "steps": {"h": H}, "dims": {"w": 8, "h": 8}}, "bound twice"),
        ({"ranges": {"h/4": (2, 1 << 62)}, "steps": {"h": H}, "dims": {"w": 8}}, "expected a dimension from 0 to"),
    ],
)
def test_a_step_that_names_nothing_or_is_bound_otherwise_is_refused(
    given: dict[str, object], words: str, tmp_path: Path
) -> None:
    """spec: T10.7"""
    assert words in refusal(tmp_path, UP_AND_DOWN, **given).what


def test_files_keep_steps(tmp_path: Path) -> None:
    """spec: P1.3, X3.9, X3.10"""
    bound = Bindings(ranges=OPEN["ranges"], steps=OPEN["steps"])  # type: ignore[arg-type]
    assert read_bindings(bindings_object(bound)) == bound
    assert format_ranges(bound) == {"h": "8..20:4", "w": "10..26:8"}
    model = import_onnx(
        written(tmp_path, model_of(UP_AND_DOWN.replace("Concat <axis = 1> (up, half)", "Relu (x)"))), bound
    )
    read = text.read(text_writer.write(model).encode(), "m")
    assert (read.bindings, read.tensors) == (model.bindings, model.tensors)
    whole = bindings_object(bound)
    for wrong in (["h/4", 0], ["h/4", 4, 4], [3, 0, 4], ["h/4", 0, -1]):
        with pytest.raises(ValueError, match="step"):
            read_bindings({**whole, "steps": {"h": wrong}})
    for twice in ({"dims": {"h": 8}}, {"ranges": {**whole["ranges"], "h": [1, 2]}}, {"steps": {"a": [*H], "b": [*H]}}):
        with pytest.raises(ValueError, match="steps"):
            read_bindings({**whole, **twice})


def test_the_library_takes_steps(tmp_path: Path) -> None:
    """spec: LIB1.1, R6.14"""
    model = written(tmp_path, model_of(UP_AND_DOWN))
    plan = library.plan(model, {"h": (8, 64, 4), "w": 8})
    assert library.verify(plan, model).proved
    with pytest.raises(TmmuError, match="no number of steps"):
        library.plan(model, {"h": (8, 65, 4), "w": 8})
