"""`make mutation`: change the most critical files in one place after the other, and count what no test notices.

Exit code 0 where every survivor is argued away by name in `argued.toml`, 1 where one is not, 70 where changes were not
run although there was time. A test that fails for the source as it is notices nothing: it is named, and left out.
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
from collections import Counter
from collections.abc import Callable, Container, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.nightly.mutation.argued import argued
from tests.nightly.mutation.mutants import Mutant, mutants
from tests.nightly.mutation.reached import Reached, statement_of
from tests.nightly.mutation.running import ROOT, SURVIVED, Child, preload, start
from tests.nightly.mutation.swapping import Changes, changes, swap
from tests.nightly.mutation.targets import TARGETS, tests_of
from tests.nightly.mutation.warm import Collected, Say, Watch, collect

QUICK = ("tests/unit", "tests/property")
"""Tests of any file that may notice a change, whatever runs the changed line. Those of other folders, which a file
names as its own, take much longer: they are looked at, and run, only for what the quick ones do not notice."""


class Task(NamedTuple):
    """A mutant of a file, and the lines of its statement as bits."""

    path: str
    mutant: Mutant
    key: str
    lines: int


class Results:
    """What came of each mutant, one line of JSON each, kept from run to run.

    A mutant that was noticed stays so while its file is the same; a survivor is run again with tests that are new.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, str] = {}
        self.passed: dict[str, set[str]] = {}
        self.notices: Counter[tuple[str, str]] = Counter()
        self.load()

    def load(self) -> None:
        """Read what is kept; how often a test noticed a change of a file says which are worth running first."""
        self.notices.clear()
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            record = json.loads(line)
            self._note(record["key"], record["result"], record["passed"])
            if record["by"]:
                self.notices[record["file"], record["by"]] += 1

    def _note(self, key: str, result: str, passed: list[str]) -> None:
        if self.found.get(key, SURVIVED) == SURVIVED:
            self.found[key] = result
        self.passed.setdefault(key, set()).update(passed)

    def add(self, task: Task, result: str, passed: list[str], seconds: float, by: str = "") -> None:
        """Note a result at once, so that nothing is lost with an interrupted run."""
        self._note(task.key, result, passed)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        record = {"key": task.key, "file": task.path, "mutant": task.mutant.name, "result": result, "by": by,
                  "seconds": round(seconds, 1), "passed": passed}  # fmt: skip
        with self.path.open("a") as out:
            out.write(json.dumps(record) + "\n")

    def noticed(self, task: Task) -> bool:
        """Is it known that a test fails for this mutant?"""
        return self.found.get(task.key, SURVIVED) != SURVIVED


def tasks_of(path: str) -> list[Task]:
    """Every mutant of a file."""
    source = (ROOT / path).read_text()
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    statements = statement_of(source)
    return [Task(path, mutant, f"{digest} {path} {mutant.name}", statements[mutant.line]) for mutant in mutants(source)]


class Job(NamedTuple):
    """A mutant with the tests that are to be run for it, and how they are."""

    task: Task
    tests: list[str]
    begin: Callable[[list[str], Path], Child]


class Runner:
    """Runs mutants, a few at a time, until they are done or it is time to end."""

    def __init__(self, reached: Reached, results: Results, workers: int, seconds: float, end: float, say: Say) -> None:
        self.reached, self.results, self.say = reached, results, say
        self.workers, self.seconds, self.end = workers, seconds, end

    def run(self, jobs: Iterator[Job]) -> None:
        """Run jobs; a test that noticed a change of the same file before comes first."""
        running: list[tuple[Job, Child, Path]] = []
        waiting = True
        with tempfile.TemporaryDirectory() as folder:
            try:
                while waiting or running:
                    while waiting and len(running) < self.workers:
                        job = next(jobs, None) if time.monotonic() < self.end else None
                        if job is None:
                            waiting = False
                        elif job.tests:
                            tests = self._chosen(job)
                            note = Path(folder) / str(time.monotonic_ns())
                            running.append((job._replace(tests=tests), job.begin(tests, note), note))
                        elif job.task.key not in self.results.found:
                            self.results.add(job.task, SURVIVED, [], 0.0)
                            self.say(f"no test runs: {job.task.path}:{job.task.mutant.line} {job.task.mutant.name}")
                    for entry in list(running):
                        job, child, note = entry
                        if (result := child.finished()) is not None:
                            running.remove(entry)
                            self._ended(job, result, time.monotonic() - child.began, note)
                    time.sleep(0.01)
            finally:
                for _, child, _ in running:
                    child.kill()

    def _chosen(self, job: Job) -> list[str]:
        def worth(name: str) -> float:
            notices = self.results.notices[job.task.path, name] + 0.5  # what has noticed nothing yet may do so
            return notices / (0.1 + self.reached.tests[name].seconds)

        return self.reached.within(sorted(job.tests, key=worth, reverse=True), self.seconds)

    def _ended(self, job: Job, result: str, seconds: float, note: Path) -> None:
        by = note.read_text() if note.exists() else ""
        passed = [self.reached.tests[name].version for name in job.tests] if result == SURVIVED else []
        self.results.add(job.task, result, passed, seconds, by)
        if result == SURVIVED:
            self.say(f"survived: {job.task.path}:{job.task.mutant.line} {job.task.mutant.name}")
        elif by:
            self.results.notices[job.task.path, by] += 1

    def left(self, task: Task, names: list[str]) -> list[str]:
        """The tests that this mutant has not passed."""
        passed = self.results.passed.get(task.key, set())
        return [name for name in names if self.reached.tests[name].version not in passed]

    def patience(self, names: list[str]) -> float:
        """Seconds after which tests are late."""
        return 20 + 5 * sum(self.reached.tests[name].seconds for name in names)


def _swapped(todo: list[Task], runner: Runner, collected: Collected) -> Iterator[Job]:
    """The mutants that change nothing but functions, in children of a process that has imported everything."""
    for task in todo:
        found = changes(ROOT / task.path, task.mutant.source)
        if found is not None and found.keys() <= collected.functions.keys():
            names = runner.left(task, runner.reached.of_lines(task.path, task.lines))
            yield Job(task, names, partial(_begin, collected, runner, found))


def _begin(collected: Collected, runner: Runner, found: Changes, tests: list[str], note: Path) -> Child:
    return collected.child(tests, runner.patience(tests), partial(swap, found, collected.functions), note)


def _imported(todo: list[Task], runner: Runner) -> Iterator[Job]:
    """The mutants that change what a module does as it is imported, in processes that begin anew: all that have no
    result yet, too, for their functions were not there to be swapped.
    """
    for task in todo:
        changed_at_import = changes(ROOT / task.path, task.mutant.source) is None
        if (
            changed_at_import
            or task.key not in runner.results.found
            or task.lines & runner.reached.imported.get(task.path, 0)
        ):
            names = runner.reached.of_file(task.path)
            if changed_at_import:  # not only what runs its functions may read its constants
                own = tests_of(task.path)
                names += [name for name in runner.reached.tests if name.startswith(own) and name not in set(names)]
            yield Job(task, runner.left(task, names), partial(_anew, runner, task))


def _anew(runner: Runner, task: Task, tests: list[str], _: Path) -> Child:
    return start(task.path, task.mutant.source, tests, runner.patience(tests))


def main() -> int:
    """Run what is asked for, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.mutation", description=__doc__)
    parser.add_argument("--files", nargs="+", metavar="FILE", default=list(TARGETS), help="files of proofs/ and tmmu/")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no mutant after so many minutes")
    parser.add_argument("--workers", type=int, default=2, help="how many mutants run at once")
    parser.add_argument("--seconds", type=float, default=60.0, help="tests of so many seconds, together, for a mutant")
    parser.add_argument("--sample", type=int, help="so many mutants of each file, chosen by its name")
    parser.add_argument("--own", action="store_true", help="with the tests that targets.py names for the files alone")
    parser.add_argument("--tests", nargs="+", metavar="TEST", help="with these tests alone, as pytest takes them")
    parser.add_argument("--argued", action="store_true", help="run what is argued away too: does a test notice it?")
    parser.add_argument("--folder", type=Path, default=ROOT / "mutants", help="what is kept from run to run")
    parser.add_argument("--list", action="store_true", help="print the survivors that are known, and run nothing")
    parser.add_argument("--page", action="store_true", help="the same as a table in Markdown")
    given = parser.parse_args()
    results = Results(given.folder / "results.jsonl")
    chosen: dict[str, list[Task]] = {}
    for path in given.files:
        every = tasks_of(path)
        chosen[path] = (
            every if given.sample is None else random.Random(path).sample(every, min(given.sample, len(every)))
        )
    if not (given.list or given.page) and (code := _run(chosen, results, given)):
        return code
    return _page(chosen, results) if given.page else _report(chosen, results)


def _run(chosen: dict[str, list[Task]], results: Results, given: argparse.Namespace) -> int:
    """Run every mutant that no test is known to notice and that is not argued away; the exit code where that fails."""
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    preload()
    known = {} if given.argued else argued()
    end = time.monotonic() + 60 * given.minutes

    def left() -> dict[str, list[Task]]:
        """What is neither noticed nor argued."""
        every = {
            path: [task for task in tasks if not results.noticed(task) and (path, task.mutant.name) not in known]
            for path, tasks in chosen.items()
        }
        return {path: tasks for path, tasks in every.items() if tasks}

    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # records of changed lemmas are nobody's
        for quick in (True, False):
            todo = left()
            named = given.tests or [test for path in todo for test in tests_of(path)]
            own = {test for test in named if test.startswith(QUICK) == quick}
            tests = sorted(own if given.own or given.tests or not quick else {*QUICK, *own})
            if todo and tests and time.monotonic() < end and (code := _round(todo, tests, results, given, end)):
                return code
    not_run = sum(task.key not in results.found for tasks in left().values() for task in tasks)
    if not_run and time.monotonic() < end:
        print(f"{not_run} changes were not run although there was time: nothing is known of them", file=sys.stderr)
        return 70
    return 0


def _round(
    todo: dict[str, list[Task]], tests: list[str], results: Results, given: argparse.Namespace, end: float
) -> int:
    """Run mutants with these tests: first those that change functions alone, then those that are imported anew."""
    reached, there = Reached(given.folder / "reached.jsonl"), Path(os.environ["XDG_CACHE_HOME"]) / "tests.json"
    reached.load(todo)

    def swapped(collected: Collected, watch: Watch, say: Say) -> None:
        if failed := watch.tests(collected, todo, given.workers, say):
            say("left out, as they fail here for the source as it is:\n    " + "\n    ".join(failed))
        usable = [name for name in collected.items if name not in failed]
        there.write_text(json.dumps(usable))
        reached.keep(usable)
        runner = Runner(reached, results, given.workers, given.seconds, end, say)
        runner.run(_swapped(_mixed(todo), runner, collected))

    if code := collect(todo, tests, reached, swapped):
        return code
    results.load()
    reached.load(todo)
    reached.keep(json.loads(there.read_text()))
    runner = Runner(reached, results, given.workers, given.seconds, end, print)
    runner.run(_imported([task for task in _mixed(todo) if not results.noticed(task)], runner))
    return 0


def _mixed(todo: dict[str, list[Task]]) -> list[Task]:
    """The mutants in an order in which each file has its share of those that there is time for."""
    place = {task.key: k / len(tasks) for tasks in todo.values() for k, task in enumerate(tasks)}
    return sorted((task for tasks in todo.values() for task in tasks), key=lambda task: place[task.key])


class Tally(NamedTuple):
    """What is known of the mutants of a file: how many were noticed, and those that were not and are not argued."""

    mutants: int
    noticed: int
    argued: int
    not_run: int
    open: list[Task]


def _tallies(chosen: dict[str, list[Task]], results: Results) -> dict[str, Tally]:
    known = argued()
    return {path: _tally(path, tasks, results, known) for path, tasks in chosen.items()}


def _tally(path: str, tasks: list[Task], results: Results, known: Container[tuple[str, str]]) -> Tally:
    noticed = [task for task in tasks if results.noticed(task)]
    left = [task for task in tasks if not results.noticed(task) and (path, task.mutant.name) not in known]
    unnoticed = [task for task in left if task.key in results.found]
    return Tally(len(tasks), len(noticed), len(tasks) - len(noticed) - len(left), len(left) - len(unnoticed), unnoticed)


def _report(chosen: dict[str, list[Task]], results: Results) -> int:
    print(f"{'file':45} {'mutants':>8} {'noticed':>8} {'argued':>7} {'open':>5} {'not run':>8}")
    every = _tallies(chosen, results)
    for path, of in every.items():
        print(f"{path:45} {of.mutants:>8} {of.noticed:>8} {of.argued:>7} {len(of.open):>5} {of.not_run:>8}")
        for task in of.open:
            print(f"    {task.mutant.line}: {task.mutant.name}")
    return 1 if any(of.open for of in every.values()) else 0


def _page(chosen: dict[str, list[Task]], results: Results) -> int:
    print("| file | mutants | noticed | argued | open | not run |\n|---|---|---|---|---|---|")
    for path, of in _tallies(chosen, results).items():
        print(f"| `{path}` | {of.mutants} | {of.noticed} | {of.argued} | {len(of.open)} | {of.not_run} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
