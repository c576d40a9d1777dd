"""What is reported of vectors: bytes, errors and correlations, of drawn ones and of a model's.

spec: MN4.10 to MN4.14
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from numpy.typing import NDArray

from tests.support.minilm import stored
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import delta, delta_report
from tmmu.mnemosyne.delta_figures import entropy_change
from tmmu.mnemosyne.delta_report import DeltaReport, ModeReport, report

PAGE = (Path(__file__).resolve().parents[2] / "spec/mnemosyne.md").read_text()


def autoregressive(rho: float, vectors: int = 150, elements: int = 300) -> NDArray[np.float32]:
    drawn = np.random.default_rng(7).normal(size=(vectors, elements))
    for i in range(1, vectors):
        drawn[i] = rho * drawn[i - 1] + (1 - rho * rho) ** 0.5 * drawn[i]
    return drawn.astype(np.float32)


def mode(found: DeltaReport, name: str) -> ModeReport:
    [one] = [each for each in found.modes if each.mode == name]
    return one


def test_bytes_are_those_that_are_stored_and_relative_to_float16() -> None:
    """spec: MN4.12, MN4.13"""
    vectors = autoregressive(0.9)
    found = report(vectors, 10)
    assert mode(found, "as they are").bytes == mode(found, "lossless").bytes == vectors.nbytes
    assert mode(found, "float subtraction").saving == -1
    assert mode(found, "INT8").bytes == delta.encode_int8(vectors, 10).nbytes
    halves = report(vectors.astype(np.float16), 150)
    assert (mode(halves, "lossless").saving, mode(halves, "float subtraction").refused is None) == (0, False)
    assert mode(halves, "INT8").saving == pytest.approx(0.49, abs=0.005)
    assert [round(saving, 2) for saving in report(np.zeros((2, 4096), np.float16)).int8_savings.values()] == [
        0.25, 0.45, 0.5,
    ]  # fmt: skip


def test_errors_are_those_of_what_is_decoded_and_within_the_bounds() -> None:
    """spec: MN4.5, MN4.7, MN4.13"""
    vectors = autoregressive(0.7)
    found = report(vectors, 50)
    for name, encode in (("float subtraction", delta.encode_float), ("INT8", delta.encode_int8)):
        rebuilt = encode(vectors, 50).decode().astype(np.float64)
        errors = np.linalg.norm(rebuilt - vectors, axis=1) / np.linalg.norm(vectors.astype(np.float64), axis=1)
        one = mode(found, name)
        assert one.error == pytest.approx(errors.max())
        assert 0 < one.error < one.bound
        assert one.changed == (rebuilt != vectors).mean()
    assert (mode(found, "lossless").changed, mode(found, "as they are").changed) == (0, 0)


def test_a_mode_that_gives_other_bits_back_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: MN4.13"""
    np.save(tmp_path / "v.npy", autoregressive(0.7))
    right = delta.LosslessDeltas.decode

    def wrong(self: delta.LosslessDeltas) -> Any:
        rows = right(self)
        rows[3, 5] += 1
        return rows

    monkeypatch.setattr(delta.LosslessDeltas, "decode", wrong)
    assert mode(report(autoregressive(0.7)), "lossless").changed == 1 / (150 * 300)
    assert run(["mnemosyne", "delta", str(tmp_path / "v.npy")]) == 0
    assert re.search(r"^lossless .* WRONG ", capsys.readouterr().out, re.MULTILINE)


def test_vectors_read_some_blocks_at_a_time_have_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: MN4.13"""
    vectors = autoregressive(0.8)
    whole = report(vectors, 16)
    monkeypatch.setattr(delta_report, "CHUNK", 40 * 300)  # two blocks
    parts = report(vectors, 16)
    assert whole.correlation is not None
    assert parts.correlation is not None
    assert vars(parts.correlation) == pytest.approx(vars(whole.correlation))
    for one, other in zip(parts.modes, whole.modes, strict=True):
        assert (one.bytes, one.changed) == (other.bytes, other.changed)
        assert (one.error, one.bound) == pytest.approx((other.error, other.bound))


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.7, 0.95])
def test_the_variance_of_differences_agrees_with_the_formula_on_vectors_drawn_so(rho: float) -> None:
    """spec: MN4.10, MN4.14"""
    vectors = autoregressive(rho, 300)
    found, shifted = report(vectors).correlation, report(vectors + np.float32(2)).correlation
    assert found is not None
    assert shifted is not None
    assert shifted.variance == pytest.approx(found.variance, abs=1e-4)
    assert found.mean == pytest.approx(rho, abs=0.02)
    assert found.formula == entropy_change(found.mean)
    assert found.variance == pytest.approx(found.formula, abs=0.03)
    assert (found.above_threshold > 0.9) == (rho > 0.5)


def test_real_embeddings_are_below_the_threshold_and_not_as_the_theorem_assumes() -> None:
    """The page states what the command printed for them. spec: MN4.14"""
    states = stored()["states"]
    found = report(states).correlation
    assert found is not None
    assert found.mean < 0.5
    assert found.variance > found.formula + 0.1 > 0.1
    for figure in (
        f"{found.mean:.3f}", f"median {found.median:.3f}", f"{found.above_threshold:.1%}",
        f"{found.above_estimate:.1%}", f"{found.formula:+.3f}", f"{found.variance:+.3f}",
    ):  # fmt: skip
        assert figure.replace("%", " %") in PAGE
    exact, eight = (mode(report(states.astype(np.float16)), name) for name in ("lossless", "INT8"))
    assert (exact.changed, f"{eight.error:.3f}, and {eight.bound:.3f}" in PAGE) == (0, True)


def test_compression_needs_its_package_and_gains_where_differences_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: MN4.13"""
    steps = np.random.default_rng(1).integers(-2, 3, (200, 64))
    steps[0] = np.random.default_rng(2).integers(0, 1 << 30, 64)
    vectors = np.cumsum(steps, axis=0).astype(np.int32)
    found = report(vectors, 200)
    plain, differences = mode(found, "as they are").zstd_bytes, mode(found, "lossless").zstd_bytes
    assert plain is not None
    assert differences is not None
    assert 2 * differences < plain < vectors.nbytes
    alone = ModeReport("as they are", None, vectors.nbytes, 1 - vectors.nbytes / (2 * vectors.size))
    assert replace(mode(found, "as they are"), zstd_bytes=None, zstd_saving=None) == alone
    pieces = zstandard.ZstdCompressor().compressobj()
    assert plain == len(pieces.compress(vectors.tobytes()) + pieces.flush())
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert [each.zstd_bytes for each in report(vectors).modes] == [None] * 4


def test_a_mode_that_takes_no_such_vectors_is_reported_and_the_others_are() -> None:
    """spec: MN4.8, MN4.13"""
    vectors = autoregressive(0.5)
    vectors[1, 2] = np.nan
    found = report(vectors)
    assert [each.mode for each in found.modes if each.refused is not None] == ["float subtraction", "INT8"]
    assert "nan is not finite" in (mode(found, "INT8").refused or "")
    assert mode(found, "lossless").changed == 0
    found = report(np.arange(12, dtype=np.uint8).reshape(3, 4))
    assert [each.mode for each in found.modes if each.refused is not None] == ["float subtraction", "INT8"]


@pytest.mark.parametrize(
    "wrong", [np.zeros(3), np.zeros((0, 4)), np.zeros((4, 0)), np.zeros((2, 2), complex), np.zeros((2, 2), ">f4")]
)
def test_what_is_no_matrix_of_vectors_is_refused(wrong: NDArray[Any]) -> None:
    """spec: MN4.9"""
    with pytest.raises(TmmuError) as refused:
        report(wrong)
    assert refused.value.code_id == "INVALID_VECTORS"


def test_neighbours_that_do_not_vary_have_no_correlation() -> None:
    """spec: MN4.11"""
    assert report(np.zeros((1, 5), np.float32)).correlation is None
    assert report(np.ones((3, 5), np.float32)).correlation is None
    vectors = autoregressive(0.5)
    vectors[3] = 1
    found = report(vectors).correlation
    assert found is not None
    assert found.undefined == 2


def test_the_command_prints_a_table_a_report_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: MN4.13, MN4.14"""
    name = str(tmp_path / "v.npy")
    np.save(name, autoregressive(0.9).astype(np.float16))
    printed = []
    for flags in ([], ["--report"], ["--format", "json"], ["--report", "--format", "json"]):
        assert run(["mnemosyne", "delta", name, *flags]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[1].startswith(printed[0])
    assert "0.5 +0.000, 0.7 -0.368, 0.85 -0.868, 0.9 -1.161, 0.95 -1.661" in printed[1]
    short, full = (json.loads(text) for text in printed[2:])
    assert set(full) - set(short) == {"correlation", "int8_savings"}
    assert (full["int8_savings"]["2"], len(full["modes"])) == (pytest.approx(0.25, abs=0.01), 4)
    np.save(name, np.ones((1, 5), np.float32))
    assert run(["mnemosyne", "delta", name, "--report"]) == 0
    assert "no correlation" in capsys.readouterr().out
    np.save(name, np.array([[None]]), allow_pickle=True)
    assert run(["mnemosyne", "delta", name]) == 4
    assert capsys.readouterr().err.endswith("[INVALID_VECTORS]\n")
