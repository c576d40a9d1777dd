"""The plans of all ranks, checked and written by several processes: `tmmu plan --shard FILE --jobs N`.

Each plan is written under a separate name beside its file when it was checked, and all are renamed at the end: where
one fails, none is there. A process that dies ends the command. spec: R7.22, R7.34, C2.1
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tmmu.cli import ranks
from tmmu.core import folders
from tmmu.core.children import begin_worker
from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_import
from tmmu.core.progress import Doing

if TYPE_CHECKING:
    from tmmu.cli.ranks import RankPlans
    from tmmu.tasks.planning import PlanningTask

AT_ONCE = 16
"""Ranks that a process is given at once."""
_given: tuple[PlanningTask, list[RankPlans], str] | None = None
"""The task of a process."""


def check_and_write(task: PlanningTask, plans: Iterable[object], target: str, jobs: int, doing: Doing) -> list[str]:
    """Check and write the plans of a task, stage by stage; the paths. Raises TmmuError, also where a process dies."""
    with require_import("loky", "--jobs", "fleet"):
        from loky import ProcessPoolExecutor
        from loky.process_executor import BrokenProcessPool
    stages = [each for each in plans if isinstance(each, ranks.RankPlans)]
    parts = [(s, k) for s, each in enumerate(stages) for k in range(0, len(each), AT_ONCE)]
    count = sum(map(len, stages))
    paths = [ranks.rank_file(target, rank) for each in stages for rank in each.ranks]
    for path in paths:
        if os.path.exists(path) and not os.path.isfile(path):
            raise TmmuError("TMMU_ALLOCATION_FAILURE", "it is not a regular file", file=path, fix="choose another name")
    prepared = pickle.dumps((_begin, (task, stages, target)))
    with folders.safe_path():
        pool = ProcessPoolExecutor(jobs, initializer=begin_worker, initargs=(os.getpid(), prepared))
        made = pool.map(_write, parts)
    try:
        done = 0
        for written in made:
            doing("checking", done, count)
            done += written
        for path in paths:
            os.replace(_unfinished(path), path)
    except BrokenProcessPool as error:
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", "a process died that checked plans; nothing was written", file=target,
            fix="look at whether memory ran out, and take fewer with --jobs",
        ) from error  # fmt: skip
    finally:
        pool.shutdown(wait=True, kill_workers=True)
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(_unfinished(path))
    return paths


def _begin(task: PlanningTask, stages: list[RankPlans], target: str) -> None:
    """Give a process its task."""
    global _given
    _given = task, stages, target


def _write(part: tuple[int, int]) -> int:
    """Check and write some ranks of one stage; how many."""
    from tmmu.core import canonical

    assert _given is not None
    task, stages, target = _given
    plans = stages[part[0]]
    some = range(part[1], min(part[1] + AT_ONCE, len(plans)))
    for k in some:
        data = task.check(plans[k])
        canonical.write_atomically(_unfinished(ranks.rank_file(target, plans.ranks[k])), data)
    return len(some)


def _unfinished(path: str) -> str:
    """The name under which a plan stands until all are written; no plan's and no model's."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.tmmu")
