"""`tmmu check-planner` with programs that crash, hang and answer in lines. The session has what it prints.

spec: TP5.1 to TP5.5
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tmmu import testing
from tmmu.cli.entry import run
from tmmu.testing.answers import BadAnswer, Refusal
from tmmu.testing.programs import BatchProgram, ProgramPlanner

ONE = [testing.TimedBuffer("b", 0, 1, 4)]
LINES = """
import json, os, sys
for k, line in enumerate(sys.stdin):
    given = json.loads(line)
    if k == 1: os.abort()
    if given.get("capacity") == 1: print(json.dumps({"error": "too small"}), flush=True)
    else: print(json.dumps({b["name"]: 0 for b in given["buffers"]}), flush=True)
"""


def test_a_batch_program_is_started_again_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(LINES)
    program = BatchProgram([sys.executable, str(tmp_path / "p.py")])
    assert json.loads(program(ONE)) == {"b": 0}
    with pytest.raises(BadAnswer, match="ended by SIGABRT"):
        program(ONE)
    with pytest.raises(Refusal, match="too small"):
        program(ONE, capacity=1)
    program.close()


def test_a_batch_program_that_writes_a_second_line_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("for line in open(0): print('{}\\nready', flush=True)")
    program = BatchProgram([sys.executable, str(tmp_path / "p.py")])
    with pytest.raises(BadAnswer, match=r"it wrote '{}' and then 'ready'; expected one line for each problem"):
        program(ONE)


@pytest.mark.parametrize("batch", [False, True])
def test_a_program_without_an_answer_is_ended_with_what_it_started(batch: bool) -> None:
    command = ["sh", "-c", "sleep 60 & sleep 60"]
    program = BatchProgram(command, 0.3) if batch else ProgramPlanner(command, timeout=0.3)
    begun = time.monotonic()
    with pytest.raises(BadAnswer, match="no answer after"):
        program(ONE)
    assert time.monotonic() - begun < 20


def test_a_capacity_may_be_refused_by_an_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One program keeps its capacity; the other ignores it."""
    monkeypatch.chdir(tmp_path)
    script = (
        "import csv, sys\nrows = list(csv.DictReader(open(sys.argv[1])))\nend = 0\nfound = 'id,offset\\n'\n"
        "for r in rows:\n    found += f\"{r['id']},{end}\\n\"\n    end += int(r['size'])\n"
        "if KEEPS and sys.argv[2] and end > int(sys.argv[2]): sys.exit(1)\nprint(found)\n"
    )
    for keeps, code in ((True, 0), (False, 1)):
        Path("p.py").write_text(f"KEEPS = {keeps}\n{script}")
        command = ["--examples", "8", "--most", "3", "--", sys.executable, "p.py", "{in}", "{capacity}"]
        assert run(["check-planner", *command]) == code


def test_graphs_are_written_as_text_models(tmp_path: Path) -> None:
    command = ["sh", "-c", "head -n 1 $1 >&2; exit 3", "sh", "{in}"]
    graph = testing.read_model("tmmu-ir-text 1\nmodel m\ntensor t u8 1\nnode n F -> t\n")
    with pytest.raises(Refusal, match="exit code 3: tmmu-ir-text 1"):
        ProgramPlanner(command)(graph)
