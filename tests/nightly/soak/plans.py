"""`make soak`: faults in right plans by the hundred thousand; each must be refused with its code and a witness.

Figures are printed for each code, and kept in a file: the next run goes on from there. Codes for which fewest faults
were injected come first, and into one case no fault is injected twice. A fault is known by a line such as
`plain:17/alignment/misplaced/2`: `--replay` injects it again and shows what comes of it. Ctrl-C prints the figures.
spec: V4.4, C2.5
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from proofs.proving.solvers.process import Z3
from tests.nightly.soak.cases import case
from tests.nightly.soak.figures import Figures, load
from tests.nightly.soak.judge import Judge
from tests.support.warm import warm
from tmmu.testing.catalogue import CODES, FAULTS, Case, Fault, Injected

PART = 8
"""Cases that a worker looks at before it hands in its figures."""
OF_RANKS = (
    "shards", "one_shard_spec", "every_rank_once", "layouts_agree", "shards_cover", "ranks_meet", "each_plan",
)  # fmt: skip
OF_ENVELOPES = ("sizes_over_envelope", "INVALID_IR_SHAPES")
KINDS: dict[str, tuple[str, ...]] = {
    "plain": tuple(code for code in CODES if code not in (*OF_RANKS, *OF_ENVELOPES, "bodies_nest")),
    "bodies": ("bodies_nest", "sharing_is_sound", "lifetimes_cover_accesses", "no_live_overlap", "must_not_alias"),
    "envelopes": OF_ENVELOPES,
    "training": ("steps_are_the_model", "sharing_is_sound", "roles_have_arenas", "peak", "slot_count", "hashes"),
    "ranks": OF_RANKS,
}  # fmt: skip
"""The codes whose faults are injected into each kind of case."""
OF_ONE = 24
"""How many faults of a code are looked for in one case, of all sorts; of that with the fewest, twice."""
AHEAD = 2000
"""A code of which so many more faults were injected than of another waits for it."""


class Task(NamedTuple):
    """Cases of one kind, by number, and how often each fault is tried."""

    kind: str
    numbers: range
    tries: dict[str, int]


def look_at(case: Case, tries: dict[str, int], judge: Judge) -> None:
    """Inject faults into one case, which must be right; none of them twice."""
    if not judge.right(case):
        return
    for fault in FAULTS.values():
        before: set[Injected] = set()
        for k in range(tries.get(fault.code, 0)):
            where = f"{case.name}/{fault.title}/{k}"
            try:
                wrong = fault.at(case, k)
            except Exception as error:  # the catalogue is at fault, and hours of figures shall not be lost over it
                judge.figures.wrong.append(f"{where}: it cannot be injected: {error!r}")
                break
            if wrong is None:
                break
            if wrong not in before:
                before.add(wrong)
                judge.fault(case, fault, wrong, where)


class _Solvers:
    """The solvers of this process, kept from task to task: to start them takes as long as a hundred faults."""

    TASKS = 50
    """After so many tasks they are started anew, since their memory grows."""

    def __init__(self) -> None:
        self.tasks, self._stack = 0, ExitStack()
        self._solver: Z3 | None = None

    def __call__(self) -> Z3:
        if self._solver is None or self.tasks == self.TASKS:
            self._stack.close()
            self.tasks, self._solver = 0, self._stack.enter_context(warm())
        self.tasks += 1
        return self._solver


_solvers = _Solvers()


def work(task: Task) -> Figures:
    """One task, in a process with solvers of its own."""
    figures, start = Figures(), time.process_time()
    where = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        judge = Judge(Path(folder), _solvers(), figures)
        for number in task.numbers:
            if (about := case(task.kind, number)) is not None:
                look_at(about, task.tries, judge)
    figures.seconds = time.process_time() - start
    return figures


def faults_of(code: str) -> list[Fault]:
    """The faults of a code."""
    return [fault for fault in FAULTS.values() if fault.code == code]


def chosen(figures: Figures, following: dict[str, int], codes: Iterable[str], until: float = math.inf) -> Task | None:
    """What to do next: cases of a kind that the code with the fewest faults needs; None where each has so many."""
    wanted = set(codes)
    by_code = {code: n for code, n in figures.injected().items() if code in wanted and n < until}
    if not by_code:
        return None
    fewest = min(by_code, key=lambda code: (by_code[code], code))
    kinds = [kind for kind, of in KINDS.items() if fewest in of]
    kind = min(kinds, key=lambda each: following.get(each, 0))
    first = following.get(kind, 0)
    following[kind] = first + PART
    behind = [code for code in KINDS[kind] if code in by_code and by_code[code] <= by_code[fewest] + AHEAD]
    tries = {code: -(-OF_ONE * (2 if code == fewest else 1) // len(faults_of(code))) for code in behind}
    return Task(kind, range(first, first + PART), tries)


def run(
    figures: Figures, following: dict[str, int], *, minutes: float, workers: int, codes: Iterable[str] = CODES,
    until: float = math.inf,
) -> Iterator[None]:  # fmt: skip
    """Add to the figures, and yield whenever a worker has done its part, until the time is up or all is injected."""
    end, codes = time.monotonic() + 60 * minutes, tuple(codes)
    with ProcessPoolExecutor(workers, initializer=_worker) as pool:
        running: dict[Future[Figures], Task] = {}
        try:
            while time.monotonic() < end or running:
                while time.monotonic() < end and len(running) < workers:
                    if (task := chosen(figures, following, codes, until)) is None:
                        end = 0.0
                        break
                    running[pool.submit(work, task)] = task
                for each in wait(running, return_when=FIRST_COMPLETED).done:
                    task = running.pop(each)
                    try:
                        figures.add(each.result())
                    except BrokenProcessPool:
                        figures.wrong.append(f"{task.kind}:{task.numbers}: a worker died")
                        end = 0.0
                yield
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _worker() -> None:
    """Ctrl-C is for the process that prints the figures; what is imported need not be looked through for garbage."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def replay(line: str) -> int:
    """Inject one fault again, and show what comes of it."""
    name, _, rest = line.partition("/")
    kind, _, number = name.partition(":")
    about = case(kind, int(number))
    if about is None:
        print(f"{name}: no such case")
        return 2
    title, _, k = rest.rpartition("/")
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder, warm() as solver:
        judge = Judge(Path(folder), solver, figures, rows_every=1, kernel_every=1)
        if judge.right(about) and rest:
            wrong = FAULTS[title].at(about, int(k))
            if wrong is None:
                print(f"{line}: no place for it")
                return 2
            judge.fault(about, FAULTS[title], wrong, line)
            for column, count in ((column, n) for (_, column), n in figures.counts.items()):
                print(f"{column}: {count}")
    print("\n".join(figures.wrong) or f"{line}: caught as it must be")
    return 1 if figures.wrong else 0


def main() -> int:
    """Soak for the minutes that are asked for. Exit code 1 where anything was not caught as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.soak.plans", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--figures", type=Path, default=Path("soak-plans.json"), help="the file to go on from")
    parser.add_argument("--codes", nargs="*", choices=CODES, default=CODES, metavar="CODE", help="soak these alone")
    parser.add_argument("--until", type=int, default=math.inf, metavar="N", help="no more than N faults of a code")
    parser.add_argument("--each", action="store_true", help="a line for each fault")
    parser.add_argument("--replay", metavar="FAULT", help="inject one fault again; or judge one case, as plain:17")
    given = parser.parse_args()
    if given.replay is not None:
        return replay(given.replay)
    figures, following = load(given.figures)
    shown = time.monotonic()
    try:
        for _ in run(
            figures, following, minutes=given.minutes, workers=given.workers, codes=given.codes, until=given.until
        ):
            figures.save(given.figures, following)
            if time.monotonic() - shown > 60:
                print(figures.table(given.each), flush=True)
                shown = time.monotonic()
    except KeyboardInterrupt:
        print()
    print(figures.table(given.each))
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
