"""What a verdict states of a result in place that a reader denies, and of one that it cannot decide. spec: FP1.16"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proofs.verify import entry as verifier
from tests.support import hlo
from tests.support.commands import ran

SHIFTED = Path(__file__).resolve().parents[1] / "corpus/foreign/refuted/xla-shifted-in-place"
CHOSEN = hlo.module(
    "main: %p = f32[8]{0} parameter(0); %i = s32[8]{0} parameter(1); %a = f32[8]{0} negate(%p); "
    "%b = f32[8]{0} gather(%a, %i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1}; ROOT %r = f32[8]{0} negate(%b)"
)
SLICES = {"p": (0, 0, 32), "i": (1, 0, 32), "r": (2, 0, 32), "a": (3, 0, 32), "b": (3, 0, 32)}
KINDS = {0: "parameter 0, shape |f32[8]| at ShapeIndex {}", 1: "parameter 1, shape |s32[8]| at ShapeIndex {}",
         2: "maybe-live-out", 3: "preallocated-temp"}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of verify-plan and its output."""
    code = verifier.run(list(arguments))
    return code, capsys.readouterr().out


def test_a_reader_that_cannot_decide_makes_the_verdict_unknown_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """spec: FP1.16, FP1.18"""
    path = hlo.dump(Path("d"), CHOSEN, hlo.assignment(CHOSEN, SLICES, KINDS))
    code, out = verified(capsys, "d")
    assert (code, out.splitlines()[0].startswith("UNKNOWN")) == (3, True)
    assert "note: not decided: b is in the bytes of a, and %b (line 7) reads a at elements" in out
    assert out.splitlines()[-1] == "unknown constructs: 1 x xla gather"
    code, out = verified(capsys, "d", "--format", "json")
    (found,) = json.loads(out)["files"]
    assert (code, found["verdict"]) == (3, "UNKNOWN")
    assert [each["kind"] for each in found["reading"]["undecided"]] == ["gather"]
    assert found["constructs"] == ["xla gather"]
    code, _, err = ran(capsys, "import", "xla", str(path), "-o", "p.plan.txt")
    assert (code, "not decided: b is in the bytes of a" in err, Path("p.plan.txt").exists()) == (4, True, False)
    apart = hlo.assignment(CHOSEN, SLICES | {"b": (3, 32, 32)}, KINDS)
    hlo.dump(Path("d"), CHOSEN, apart)
    assert verified(capsys, "d")[0] == 0


def test_the_reason_for_which_a_result_is_not_in_place_is_the_witness(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan that is imported is refuted as well: it does not state the result in place. spec: FP1.8"""
    code, out = verified(capsys, str(SHIFTED), "--format", "json")
    (found,) = json.loads(out)["files"]
    assert (code, found["witness"]["obligation"]) == (1, "sharing_is_sound")
    assert "element 62 of bitcast_dynamic-update-slice_fusion is written over that" in found["witness"]["text"]
    assert "by %slice.0 (line " in found["witness"]["text"]
    assert list(found["reading"]["denied"]) == ["bitcast_dynamic-update-slice_fusion"]
    assert ran(capsys, "import", "xla", str(SHIFTED), "-o", "p.plan.txt")[0] == 0
    assert verified(capsys, "p.plan.txt")[0] == 1
