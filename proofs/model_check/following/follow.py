"""Validate event logs: read them, extract the paths, run TLC over each, judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path as File

from proofs.model_check import manifest, tlc
from proofs.model_check.following import (
    cache_growth,
    evictions,
    lifecycle,
    log,
    plan_sets,
    plans,
    pool_generations,
    pools,
    quota,
    regions,
    scans,
    sealed_logs,
    sessions,
    streams,
    together,
    write_locks,
    zeroing,
)
from proofs.model_check.following.generate import make_run
from proofs.model_check.following.lines import Path
from proofs.model_check.following.log import Event, WrongLog
from proofs.model_check.following.verdict import judge_path
from proofs.model_check.judge import RunResult

READERS = (
    scans, lifecycle, quota, zeroing, pools, cache_growth, pool_generations, sessions, regions, evictions, sealed_logs,
    write_locks, plan_sets, streams,
)  # fmt: skip
"""The modules that extract the paths of one TLA+ module each from a log."""


def read_log(file: File) -> tuple[list[Event], list[Path]]:
    """Return the events of a log, and every path in it.

    Raises `WrongLog`, also if two lines contradict each other, or no path is found: a log without a step of any module
    would not be checked.
    """
    try:
        events = log.read(file)
        together.check_events(events)
        plans.check_storages(events)
        paths = list(chain.from_iterable(reader.paths(events) for reader in READERS))
    except WrongLog as error:
        raise WrongLog(None, f"{file}: {error}") from error
    if not any(path.lines for path in paths):
        raise WrongLog(None, f"{file}: no line is a step of a module")
    return events, paths


def validate_logs(
    logs: Sequence[tuple[File, list[Event], list[Path]]], java: str, archive: File, timeout_s: float, workers: int
) -> Iterator[RunResult]:
    """Yield a result for each path of each log, in order. `workers` runs of TLC execute at one time."""
    tla = manifest.installed_folder()
    with ThreadPoolExecutor(workers) as pool:
        waiting = []
        for file, events, paths in logs:
            for path in paths:
                run = make_run(path, tla)
                waiting.append((file, path, events, run, pool.submit(tlc.run_tlc, run, java, archive, timeout_s)))
        try:
            for file, path, events, run, future in waiting:
                yield judge_path(str(file), path, events, run, future.result())
        finally:
            for *_, future in waiting:
                future.cancel()
