"""What long work shows: a bar on a terminal, lines in a pipe, nothing where it ends soon. spec: C5.1, C5.2, C5.3"""

from __future__ import annotations

import io
import re
import runpy
import sys
import time
from collections.abc import Callable

import pytest

from tests.support.terminal import Terminal
from tmmu.core import progress as module
from tmmu.core.output import print_lines
from tmmu.core.progress import progress


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal for both streams, on which a bar comes at once."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(sys, "stdout", found)
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    monkeypatch.setattr(module, "FRAME_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return found


def until(holds: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_bar_has_phase_share_and_times_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress("a\nPROVED b.cbor") as doing:
        doing("proving", 2, 8)
        until(lambda: "left" in terminal.text)
    first = next(line for line in terminal.text.splitlines() if "left" in line)
    assert r"a\nPROVED b.cbor: proving, 2 of 8" in first
    assert re.search(r"0:0\d passed, about 0:\d\d left", first)
    assert set(terminal.lines) == {""}


def test_what_is_printed_stands_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress("a") as doing:
        doing("proving")
        until(lambda: "a: proving" in terminal.text)
        print_lines("one", "two")
        shown = terminal.text.count("a: proving")
        until(lambda: terminal.text.count("a: proving") > shown)
        assert [line[:12] for line in terminal.lines if line][:2] == ["one", "two"]
    assert [line for line in terminal.lines if line] == ["one", "two"]


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    with progress("a") as doing:
        doing("proving")
    assert terminal.text == ""


def test_a_pipe_has_a_line_at_each_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress("a") as doing:
        doing("proving")
    assert (pipe.getvalue(), runpy.run_path(str(module.__file__))["INTERVAL_S"]) == ("", 30.0)
    monkeypatch.setattr(module, "INTERVAL_S", 0.01)
    with progress("a") as doing:
        doing("seed 3, step", 5, 9)
        until(lambda: pipe.getvalue().count("\n") > 1)
    assert pipe.getvalue().splitlines()[1] == "a: seed 3, step, 5 of 9; 0:00 passed, about 0:00 left"
    monkeypatch.setattr(sys, "stderr", None)
    with progress("a") as doing:
        doing("proving")


def test_what_is_left_follows_from_what_the_phase_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    work = progress("a")
    now[0] = 130.0
    work("proving", 0, 4)
    assert work.times() == "0:30 passed"
    now[0] = 190.0
    work("proving", 3, 4)
    assert work.times() == "1:30 passed, about 0:20 left"
    work("proving", 4, 4)
    assert work.times() == "1:30 passed"


def test_verdicts_have_a_colour_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = on_terminal(monkeypatch)
    print_lines("PROVED a.cbor", "REFUTED\x1b[32m b", "  PROVED", "PROVEDLY")
    coloured = ["\x1b[32mPROVED\x1b[0m a.cbor", "REFUTED\\x1b[32m b", "  PROVED", "PROVEDLY"]
    assert terminal.text.splitlines() == coloured
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            before = len(terminal.text)
            print_lines("PROVED a.cbor")
            assert terminal.text[before:] == "PROVED a.cbor\n"
    monkeypatch.undo()
    print_lines("PROVED a.cbor")
    assert capsys.readouterr().out == "PROVED a.cbor\n"
