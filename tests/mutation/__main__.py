"""`make mutation`: change the most critical files in one place after the other, and count what no test notices.

Exit code 0 where every survivor is argued away by name in `spec/soundness.md`, 1 where one is not, 2 where the tests
fail for the source as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.mutation.argued import argued
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.running import ROOT, SURVIVED, Child, preload, start
from tests.mutation.targets import TARGETS, tests_of

SLOWEST_S = 600.0
"""Seconds that the tests of an unchanged file may take."""


class Task(NamedTuple):
    """A mutant of a file that is still to be run."""

    path: str
    mutant: Mutant
    key: str


class Results:
    """What came of each mutant, one line of JSON each, kept from run to run.

    A mutant that was noticed stays so while its file is the same; a survivor is run again once a test has changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, str] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                record = json.loads(line)
                self.found[record["key"]] = record["result"]

    def add(self, task: Task, result: str, seconds: float) -> None:
        """Note a result at once, so that nothing is lost with an interrupted run."""
        self.found[task.key] = result
        self.found[_of_tests(task)] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        record = {"file": task.path, "mutant": task.mutant.name, "result": result, "seconds": round(seconds, 1)}
        with self.path.open("a") as out:
            keys = (task.key,) if result != SURVIVED else (_of_tests(task),)
            for key in keys:
                out.write(json.dumps({"key": key, **record}) + "\n")

    def of(self, task: Task) -> str | None:
        """What is known of a mutant."""
        found = self.found.get(task.key)
        return found if found not in (None, SURVIVED) else self.found.get(_of_tests(task))


def _of_tests(task: Task) -> str:
    """A survivor is one of these tests: their digest is part of its key."""
    return f"{task.key} {_digest(*(_bytes(test) for test in tests_of(task.path)))}"


def _bytes(test: str) -> bytes:
    path = ROOT / test
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return b"".join(file.read_bytes() for file in files)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def tasks_of(path: str) -> list[Task]:
    """Every mutant of a file."""
    source = (ROOT / path).read_text()
    return [
        Task(path, mutant, f"{path} {_digest(source.encode(), mutant.name.encode())}") for mutant in mutants(source)
    ]


def _baseline(path: str) -> float:
    """Seconds that a file's tests take unchanged; the process ends with 2 where they fail."""
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        child = start(path, (ROOT / path).read_text(), tests_of(path), SLOWEST_S, Path(log.name))
        while (result := child.finished()) is None:
            time.sleep(0.05)
        if result != SURVIVED:
            print(Path(log.name).read_text()[-4000:], file=sys.stderr)
            print(f"the tests of {path} fail for the source as it is", file=sys.stderr)
            sys.exit(2)
    return time.monotonic() - child.began


def _run(tasks: list[Task], results: Results, workers: int, end: float) -> Iterator[tuple[Task, str]]:
    """Run mutants, a few at a time, until they are done or it is time to end."""
    baselines: dict[str, float] = {}
    running: list[tuple[Task, Child]] = []
    waiting = list(reversed(tasks))
    while waiting or running:
        while waiting and len(running) < workers and time.monotonic() < end:
            task = waiting.pop()
            if task.path not in baselines and not running:
                baselines[task.path] = _baseline(task.path)
            if task.path not in baselines:
                waiting.append(task)
                break
            seconds = 30 + 4 * baselines[task.path]
            running.append((task, start(task.path, task.mutant.source, tests_of(task.path), seconds)))
        if time.monotonic() >= end and not running:
            return
        for entry in list(running):
            task, child = entry
            if (result := child.finished()) is not None:
                running.remove(entry)
                results.add(task, result, time.monotonic() - child.began)
                yield task, result
        time.sleep(0.02)


def main() -> int:
    """Run what is asked for, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--files", nargs="+", metavar="FILE", default=list(TARGETS), help="files of proofs/ and tmmu/")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no mutant after so many minutes")
    parser.add_argument("--workers", type=int, default=2, help="how many mutants run at once")
    parser.add_argument("--sample", type=int, help="so many mutants of each file, chosen by its name")
    parser.add_argument("--results", type=Path, default=ROOT / "mutants" / "results.jsonl", help="kept from run to run")
    parser.add_argument("--list", action="store_true", help="print the survivors that are known, and run nothing")
    given = parser.parse_args()
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    preload()
    results, end = Results(given.results), time.monotonic() + 60 * given.minutes
    chosen: dict[str, list[Task]] = {}
    for path in given.files:
        every = tasks_of(path)
        chosen[path] = (
            every if given.sample is None else random.Random(path).sample(every, min(given.sample, len(every)))
        )
    if not given.list:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache  # records of changed lemmas are nobody's
            todo = [task for tasks in chosen.values() for task in tasks if results.of(task) is None]
            for task, result in _run(todo, results, given.workers, end):
                if result == SURVIVED:
                    print(f"survived: {task.path}:{task.mutant.line} {task.mutant.name}", flush=True)
    return _report(chosen, results)


def _report(chosen: dict[str, list[Task]], results: Results) -> int:
    known = argued()
    print(f"{'file':45} {'mutants':>8} {'noticed':>8} {'survived':>9} {'argued':>7} {'not run':>8}")
    unargued = 0
    for path, tasks in chosen.items():
        found = [results.of(task) for task in tasks]
        left = [task.mutant.name for task, result in zip(tasks, found, strict=True) if result == SURVIVED]
        reasoned = sum((path, name) in known for name in left)
        unargued += len(left) - reasoned
        noticed = sum(result not in (None, SURVIVED) for result in found)
        print(f"{path:45} {len(tasks):>8} {noticed:>8} {len(left):>9} {reasoned:>7} {found.count(None):>8}")
        for name in left:
            if (path, name) not in known:
                print(f"    {name}")
    return 1 if unargued else 0


if __name__ == "__main__":
    sys.exit(main())
