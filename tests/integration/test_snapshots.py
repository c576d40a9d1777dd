"""What every command prints, as `tests/corpus/snapshots/` has it.

spec: C1.1, C2.1, C2.6, C4.6, U7.7, SIM6.1, SIM6.4, SIM6.5
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.snapshots import COMMANDS, SESSIONS, Ran, commands, replayed, text_of
from tmmu.cli.commands import tmmu

RECORDS = ("--errors", "--events", "--ledger", "--trace")
"""The options that name what is written of a failure."""


IN_ANOTHER_PROCESS = ("session",)
"""The sessions with commands in separate processes, which see the kernel that a wheel brings."""


@pytest.mark.parametrize(
    "session",
    [
        pytest.param(session, id=session.stem, marks=[pytest.mark.checkout] * (session.stem in IN_ANOTHER_PROCESS))
        for session in SESSIONS
    ],
)
def test_a_command_prints_what_its_session_has(session: Path) -> None:
    """And a refusal is one line on stderr that begins with `error: `, after which every file is what it was."""
    parts = list(replayed(session))
    for part in parts:
        if isinstance(part, Ran) and part.ours and part.code in (2, 4):
            answered = part.out.startswith("IDENTICAL")  # `tmmu run` refuses the file of outputs after its answer
            assert (part.out == "" or answered, part.err.count("\n"), part.err[:7]) == (True, 1, "error: "), part.text
            assert not part.changed or any(option in part.command for option in RECORDS), part.text
    hint = f"{session.name}: after a change that is meant, run: python -m tests.support.snapshots --write"
    assert text_of(parts) == session.read_text(), hint


def test_every_command_has_a_session_with_what_it_refuses() -> None:
    typed = {session: [part.split() for part in commands(session.read_text())] for session in SESSIONS}
    named = {" ".join(words[: 1 + (words[0] == "tmmu")]) for lines in typed.values() for words in lines if words}
    assert {f"tmmu {name}" for name in tmmu.commands} | ({*COMMANDS} - {"tmmu"}) <= named
    assert all("\n[2]\n" in session.read_text() for session in SESSIONS)


def test_a_session_that_states_what_is_not_printed_is_noticed(tmp_path: Path) -> None:
    """Files of the shell, of several lines too, stay in the session's folder."""
    session = tmp_path / "wrong.txt"
    session.write_text(
        "# A plan.\n$ cat > p.txt <<END\n> tmmu-plan-text 1\n> END\n$ tmmu show p.txt\n[2]\n$ tmmu apply\n"
    )
    comment, made, shown, applied = parts = list(replayed(session))
    assert comment == "# A plan."
    assert [part.code for part in (made, shown, applied) if isinstance(part, Ran)] == [0, 0, 2]
    assert [part.changed for part in (made, shown, applied) if isinstance(part, Ran)] == [True, False, False]
    found = text_of(parts).splitlines()
    assert found[:5] == session.read_text().splitlines()[:5]
    assert found[5:] != session.read_text().splitlines()[5:]
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.txt"]
