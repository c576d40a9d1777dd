"""A shard spec in a TOML file: what it resolves to, and that what is wrong in it is named with the file. spec: R7.30"""

from __future__ import annotations

from pathlib import Path

import pytest

from tmmu.core.errors import TmmuError
from tmmu.planner.sharding.spec import LIMIT, load

WRONG = [
    (b"[mesh", "not TOML"),
    (b"\xff", "not TOML"),
    (b"a = " + b"[" * 5000 + b"]" * 5000, "not TOML"),
    (b"mesh = 5\n", r"\[mesh\]: expected a table"),
    (b"zero = [1]\n", r"\[zero\]: expected a table"),
    (b"meshes = 5\n", "unknown key 'meshes' in the file"),
    (b"[zero]\nstages = 3\n", r"unknown key 'stages' in \[zero\]"),
    (b"rules = 5\n", "rules: expected a list of tables"),
    (b"[rules]\n", "rules: expected a list of tables"),
    (b"rules = [5]\n", r"\[\[rules\]\]: expected a table"),
    (b"[[rules]]\nname = 'x'\n", r"unknown key 'name' in \[\[rules\]\]"),
    (b"[mesh]\ndata = 2\n[[operators]]\nop = 'Relu'\nacross = 5\n", "across"),
    (b"[mesh]\ndata = 'two'\n", "the size of the axis 'data'"),
    (b"[mesh]\n" + b"#" * LIMIT, "more than"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=range(len(WRONG)))
def test_a_file_that_is_no_spec_is_refused_with_its_name(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_bytes(text)
    with pytest.raises(TmmuError, match=message) as refused:
        load(path)
    assert refused.value.code_id == "INVALID_SHARDING"
    assert str(path) in str(refused.value)


def test_what_is_not_stated_is_none_and_any_axis_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    text = b"[mesh]\nanything = 2\n[zero]\naxis = 'anything'\n[[rules]]\nnames = ['w']\nsplit = ['anything']\n"
    path.write_bytes(text + b"#" * (LIMIT - len(text)))
    found = load(path)
    assert (found["mesh"], found["pad"], found["stages"], found["operators"]) == ([["anything", 2]], False, [], [])
    assert (found["zero_axis"], found["zero_stage"]) == ("", 0), "an axis for no stage is none"
    assert [(rule["names"], rule["split"], len(rule["roles"])) for rule in found["rules"]] == [(["w"], ["anything"], 4)]
