"""A name that is printed is a name: no line break, no escape sequence, no bidirectional control. spec: C1.9"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sources import nodes
from tmmu.core.output import escape_line, format_json, print_lines, print_text

ROOT = Path(__file__).resolve().parents[2]
PRINTS = {"tmmu/core/output.py", "tmmu/core/process.py"}
"""The modules that write to a stream."""
LOUD = re.compile(r"\bprint\b|\becho\b|\bsecho\b|\bstdout\b|\bstderr\b|\bensure_ascii\b")
"""A word of every call that does: a module without one needs not be parsed."""


def test_what_can_be_printed_is_printed_as_it_is() -> None:
    assert escape_line("größe ≤ 5 → 数") == "größe ≤ 5 → 数"
    assert escape_line("a\tb\r\n") == r"a\tb\r\n"


@given(st.text())
def test_one_line_is_one_that_can_be_shown(name: str) -> None:
    assert escape_line(name).isprintable()


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_can_be_shown_and_says_the_same(value: object) -> None:
    written = format_json(value)
    assert all(line.isprintable() for line in written.split("\n"))
    assert json.loads(written) == value


def test_a_line_is_printed_as_one_and_a_text_as_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines("a\nPROVED b", "c")
    print_text("d\n e\x1b[2J")
    assert capsys.readouterr().out == "a\\nPROVED b\nc\nd\n e\\x1b[2J\n"


def test_lines_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that `verify-plan … | grep -q PROVED` does not close a pipe that is still written to."""
    written: list[str] = []
    stream = io.StringIO()
    monkeypatch.setattr(stream, "write", written.append)
    monkeypatch.setattr(sys, "stdout", stream)
    print_lines("PROVED a", "  step: 2")
    assert list(filter(None, written)) == ["PROVED a\n  step: 2\n"]


def prints(source: str) -> list[int]:
    """The lines on which a module writes to a stream, or makes JSON whose names are not escaped."""
    found = []
    for node in nodes(source) if LOUD.search(source) else ():
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            loud = called in ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write")
            if loud or (called == "json.dumps" and "ensure_ascii=False" in ast.unparse(node)):
                found.append(node.lineno)
    return found


def test_nothing_else_writes_to_a_stream() -> None:
    """But the installer, which prints only names of its own, the flush at the end of a command, and JSON in the text
    that a chat template makes for a model.
    """
    own = {"proofs/proving/kernel/install.py", "tmmu/cli/entry.py", "tmmu/foundry/chat.py"}
    for path in sorted((*ROOT.glob("tmmu/**/*.py"), *ROOT.glob("proofs/**/*.py"))):
        name = path.relative_to(ROOT).as_posix()
        if name not in PRINTS | own:
            assert prints(path.read_text()) == [], name
    assert prints((ROOT / "tmmu/core/process.py").read_text())


@pytest.mark.parametrize("source", ["print(name)", "click.echo(f'{name}')", "json.dumps(x, ensure_ascii=False)"])
def test_what_writes_to_a_stream_is_seen(source: str) -> None:
    assert prints(source) == [1]
