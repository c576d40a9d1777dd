"""All tests that onnx generates for its operators: no size that is worked out differs from a recorded result."""

from __future__ import annotations

from pathlib import Path

from tests.support.onnx_cases import cases, compared


def test_sizes_are_those_of_the_recorded_results(tmp_path: Path) -> None:
    """spec: V3.7, V3.8"""
    count, wrong = compared(cases(), tmp_path)
    assert wrong == []
    assert count["agree"] > 1750
    assert count["assumed"] == 0
