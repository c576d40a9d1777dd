"""Following a log in a test, and copies of it that say something else."""

from __future__ import annotations

import os
from pathlib import Path as File

from proofs.model_check import judge, manifest, tlc
from proofs.model_check.following import follow
from proofs.model_check.following.lines import Path
from proofs.model_check.judge import RunResult
from tests.support.effort import share
from tests.support.miswritten import records, run_of_all

TLA = manifest.installed_folder()


def followed(file: File, tools: tuple[str, File]) -> list[RunResult]:
    """What follows from the paths of a log; where not everything is looked at, from the richest."""
    events, paths = follow.read_log(file)
    chosen = paths if share(100) == 100 else richest(paths)
    return list(follow.validate_logs([(file, events, chosen)], *tools, timeout_s=300, workers=os.cpu_count() or 1))


def richest(paths: list[Path]) -> list[Path]:
    """The longest path of each module, and each that takes an action which no longer one of its module takes."""
    chosen, taken = list[Path](), set[tuple[str, str]]()
    for path in sorted(paths, key=lambda path: len(path.lines), reverse=True):
        actions = {(path.module, line.action) for line in path.lines}
        if path.module not in [each.module for each in chosen] or actions - taken:
            chosen.append(path)
        taken |= actions
    return chosen


def objection(file: File, line: int, module: str, tools: tuple[str, File]) -> str:
    """What is objected to on the path of a module to which a line of the log belongs, and which is refused."""
    events, paths = follow.read_log(file)
    found = [path for path in paths if path.module == module]
    of_line = [path for path in found if line in [each.source for each in (*path.lines, path.end) if each is not None]]
    [result] = follow.validate_logs([(file, events, of_line[:1])], *tools, timeout_s=300, workers=1)
    return result.objections[0]


def rewritten(file: File, tmp_path: File, before: str, after: str, which: int = 0) -> tuple[File, int]:
    """A copy of a log in which one line says something else, and that line's number."""
    lines = file.read_text().splitlines(True)
    at = [n for n, line in enumerate(lines) if before in line][which]
    lines[at] = lines[at].replace(before, after)
    (tmp_path / "copy.events").write_text("".join(lines))
    return tmp_path / "copy.events", at + 1


def refused_everywhere(path: Path, tools: tuple[str, File]) -> None:
    """TLC refuses each miswritten copy at its line, and no other."""
    run = run_of_all(path, TLA)
    outcome = tlc.run_tlc(run, *tools, timeout_s=300)
    assert list(judge.find_reasons_for_distrust(run, outcome)) == []
    last = outcome.report.states[-1].values if outcome.report.states else {}
    wrong = list(records(path))
    assert judge.is_success(outcome), (path.subject, last and wrong[int(last["copy"]) - 1], outcome.report.errors)
    assert outcome.report.distinct_states == run.distinct_states, path.subject
    assert len(wrong) > len(path.lines)
