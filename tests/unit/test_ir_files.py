"""IR files: read strictly, ordered and validated, written atomically."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.text_models import text_model
from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.ir import columns, files


def test_a_model_is_read_from_the_file_that_it_was_written_to(tmp_path: Path) -> None:
    """spec: I1.2"""
    model = text_model("node relu Relu x -> y")
    files.save(model, tmp_path / "m.ir.cbor")
    assert files.load(tmp_path / "m.ir.cbor") == model
    assert (tmp_path / "m.ir.cbor").read_bytes() == canonical.encode(columns.to_object(model))


def test_a_model_is_put_into_execution_order(tmp_path: Path) -> None:
    """spec: I1.7"""
    model = text_model("node add Add a x -> y", "node relu Relu x -> a")
    files.save(model, tmp_path / "m.ir.cbor")
    assert [node.name for node in files.load(str(tmp_path / "m.ir.cbor")).nodes] == ["relu", "add"]


def test_what_is_no_model_is_refused_with_the_file_named(tmp_path: Path) -> None:
    """spec: I1.1, C2.6, R5.2"""
    path = tmp_path / "m.ir.cbor"
    circle = text_model("node relu Relu a -> y", "node relu2 Relu y -> a", inputs="")
    unwritten = replace(text_model("node relu Relu x -> y"), nodes=())
    for data, code in (
        (b"", "INVALID_IR"),
        (canonical.encode({"format": "tmmu-ir"}), "INVALID_IR"),
        (canonical.encode(columns.to_object(text_model("node relu Relu x -> y")))[:-1], "INVALID_IR"),
        (canonical.encode(columns.to_object(circle)), "LIVENESS_CYCLE"),
        (canonical.encode(columns.to_object(unwritten)), "INVALID_IR"),
    ):
        path.write_bytes(data)
        with pytest.raises(TmmuError) as refused:
            files.load(path)
        assert (refused.value.code_id, refused.value.file) == (code, str(path))
        assert refused.value.fix


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.ir.cbor"
    files.save(text_model("node relu Relu x -> y"), path)
    monkeypatch.setattr(files, "LIMIT", path.stat().st_size - 1)
    with pytest.raises(TmmuError, match="more than the limit") as refused:
        files.load(path)
    assert (refused.value.code_id, refused.value.file) == ("INVALID_IR", str(path))
