"""Errors of the library speak of arguments. spec: LIB2.5"""

from __future__ import annotations

from pathlib import Path

import pytest

import tmmu
from tests.support.onnx_files import model_of, written
from tmmu.tasks.arguments import name_arguments


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ("bind it with --dim batch=N --dim seq=N", "bind it with dims={'batch': N} dims={'seq': N}"),
        ("give a range: --dim NAME=1..8", "give a range: dims={'NAME': (1, 8)}"),
        ("--dim bath: no dimension", "dims['bath']: no dimension"),
        ("--shape i=int64:2xN or --bytes i=40", "shapes={'i': 'int64:2xN'} or shapes={'i': 'bytes:40'}"),
        ("bind it with --shape x=1x3", "bind it with shapes={'x': (1, 3,)}"),
        ("use --trust-shapes for the shape", "use trust_shapes=True for the shape"),
        ("choose --layout hashed", "choose layout='hashed'"),
        ("--donate q: no graph input", "donate=['q']: no graph input"),
        ("tmmu show lists them with --tensors", "tmmu show lists them with --tensors"),
    ],
)
def test_a_flag_is_named_by_its_argument(flags: str, arguments: str) -> None:
    assert name_arguments(flags) == arguments


def test_an_error_of_plan_names_what_to_pass(tmp_path: Path) -> None:
    path = written(tmp_path, model_of("main (float[n] x) => (float[n] y) { y = Relu (x) }"))
    with pytest.raises(tmmu.TmmuError, match=r"dims=\{'n': N\}"):
        tmmu.plan(path)
    with pytest.raises(tmmu.TmmuError, match=r"donate=\['z'\]"):
        tmmu.plan(path, {"n": 1}, donate=["z"])
    assert "y" in tmmu.plan(path, {"n": 1})
