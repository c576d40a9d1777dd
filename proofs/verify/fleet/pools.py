"""Where workers run: processes of this machine (loky), or of a Dask cluster. Both take tasks and give back what ended.

A pool has at most `size` tasks at once. Where a worker dies, every task that may have run in it ends as `Died`; the
pool goes on with new workers. spec: V7.1, V7.9, V7.10
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Protocol

from proofs.verify.fleet.worker import Judged, Task, work
from tmmu.core import folders
from tmmu.core.children import begin_worker
from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_import

ABSENT_S = 60.0
"""A cluster without a worker is waited for so long."""
LOOK_S = 1.0
"""Seconds from one look at whether a cluster still is there to the next."""


class Died:
    """A worker died while a task may have run in it."""


class Pool(Protocol):
    """Workers of one kind."""

    size: int

    def located(self, path: str) -> str:
        """A path as workers find it."""

    def submit(self, task: Task) -> None:
        """Begin a task."""

    def ended(self) -> Iterator[tuple[Task, Judged | Died]]:
        """Wait until one task has ended at least; all that have. Raises what a task raised."""

    def close(self) -> None:
        """End the workers, whatever they do."""


class Processes:
    """Processes of this machine. Raises MISSING_PACKAGE where loky is not installed."""

    def __init__(self, size: int) -> None:
        with require_import("loky", "judging in processes", "fleet"):
            import_module("loky")
        self.size = size
        self._executor: Any = None
        self._context = ExitStack()
        self._running: dict[Any, Task] = {}

    def located(self, path: str) -> str:
        """The path as it is: workers begin in this folder."""
        return path

    def submit(self, task: Task) -> None:
        """Begin a task; the processes are started with the first. If one has died and this is not known yet, it
        task has died with it.
        """
        from loky import ProcessPoolExecutor
        from loky.process_executor import BrokenProcessPool

        if self._executor is None:
            self._context.enter_context(folders.safe_path())
            self._executor = ProcessPoolExecutor(self.size, initializer=begin_worker, initargs=(os.getpid(),))
        try:
            future: Any = self._executor.submit(work, task)
        except BrokenProcessPool as error:
            future = Future[Judged]()
            future.set_exception(error)
        self._running[future] = task

    def ended(self) -> Iterator[tuple[Task, Judged | Died]]:
        """Yield the tasks that have ended. If a process dies, all are replaced, and the tasks of all have died."""
        from loky.process_executor import BrokenProcessPool

        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        found: list[tuple[Task, Judged | Died]] = []
        if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
            done, _ = wait(self._running)  # those of the other processes, which end with the pool, too
            self.close()
        for future in done:
            task, error = self._running.pop(future), future.exception()
            if error is not None and not isinstance(error, BrokenProcessPool):
                raise error
            found.append((task, Died() if error is not None else future.result()))
        yield from found

    def close(self) -> None:
        """End the processes."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, kill_workers=True)
        self._context.close()


class Cluster:
    """Workers of the Dask cluster at an address, on machines that see the files under the same names.

    Raises MISSING_PACKAGE where Dask is not installed, INVALID_SETTING where the cluster cannot be reached.
    """

    def __init__(self, address: str) -> None:
        with require_import("distributed", "--cluster", "cluster"):
            from distributed import Client
        try:
            self._client = Client(address, timeout="10s", set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise TmmuError(
                "INVALID_SETTING", f"no Dask cluster answers ({error})", place=f"--cluster {address}",
                fix="start one with `dask scheduler` and `dask worker`, and give the scheduler's address",
            ) from error  # fmt: skip
        self._address, self._running = address, dict[Any, Task]()
        self._seen = time.monotonic()
        self.size = max(1, len(self._workers()))

    def _workers(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return found

    def located(self, path: str) -> str:
        """The path from the root: workers begin anywhere."""
        return os.path.abspath(path)

    def submit(self, task: Task) -> None:
        """Begin a task."""
        self._running[self._client.submit(work, task, pure=False)] = task

    def ended(self) -> Iterator[tuple[Task, Judged | Died]]:
        """Yield the tasks that have ended. If workers die, Dask gives their tasks to others, and finally fails them."""
        from distributed import KilledWorker
        from distributed import wait as ended

        while True:
            try:
                with self._client.as_current():
                    done = ended(list(self._running), timeout=LOOK_S, return_when="FIRST_COMPLETED").done
                break
            except TimeoutError:
                self._check()
        for future in done:
            task, error = self._running.pop(future), future.exception()
            if error is not None and not isinstance(error, KilledWorker):
                raise error
            yield task, Died() if error is not None else future.result()

    def _check(self) -> None:
        """Raise TmmuError where the cluster, or all of its workers, are gone."""
        workers = self._workers() if self._client.status == "running" else {}
        if workers:
            self._seen, self.size = time.monotonic(), len(workers)
        elif time.monotonic() - self._seen > ABSENT_S:
            raise TmmuError(
                "INVALID_SETTING", "the cluster, or each of its workers, is gone", place=f"--cluster {self._address}",
                fix="start it again; with --resume DIR what was judged is kept",
            )  # fmt: skip

    def close(self) -> None:
        """Leave the cluster, which then drops what is not judged yet."""
        self._client.close()
