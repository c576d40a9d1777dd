"""`make hunt`: random programs through the planners of other compilers, each plan verified and each result compared.

python -m tests.nightly.hunt --minutes 60 --planners "litert executorch"
python -m tests.nightly.hunt --replay RECORD.json    # one finding again: program, verdict, results
python -m tests.nightly.hunt --table                 # the figures of all runs so far
python -m tests.nightly.hunt --power 1000            # how many of 1,000 programs show each planted error
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.nightly.hunt import planted
from tests.nightly.hunt import programs as p
from tests.nightly.hunt.driver import Hunt, Worker, inputs_of, table
from tests.nightly.hunt.planners import PLANNERS, ROOT, install

FOUND = "tests/nightly/hunt/found"
"""Where records that are kept lie."""


def hunt(name: str, folder: Path, seconds: float, most: int, first: int, shrinks: bool) -> str:
    """Hunt one planner; what came of it in a line."""
    try:
        install(PLANNERS[name])
        with Worker(PLANNERS[name].command) as worker:
            Hunt(name, worker, folder, shrinks).run(time.monotonic() + seconds, most, first)
    except (ChildProcessError, OSError) as error:
        return f"{name}: {error}"
    return f"{name}: done"


class NotARecord(Exception):
    """The file of a record has something else in it."""


def replay(path: Path, keep: Path | None) -> int:
    """Show a record again; 0 where it shows the same as it did. Raises `NotARecord`."""
    try:
        record = json.loads(path.read_text())
        planner, program = PLANNERS[record["planner"]], p.from_json(record["program"])
    except (ValueError, KeyError, TypeError) as error:
        raise NotARecord(f"{type(error).__name__}: {error}") from error
    install(planner)
    with Worker(planner.command) as worker:
        found = Hunt(planner.name, worker, path.parent).attempt(
            program,
            inputs_of(program, record["seed"]),
            record["variant"],
            keep,
            runs=record["differs"] is not None or record["outcome"] == "crashed",
        )
        print(f"{worker.hello['planner']} {worker.hello['version']}, {record['variant']}")
    print("\n".join(p.text(program)))
    print(f"{found.outcome}: {found.detail}" if found.detail else found.outcome)
    if found.part:
        print(f"at fault: {found.part}")
    if found.differs is not None:
        for got, expected in zip(found.got or [], found.expected or [], strict=True):
            print(f"returned {got}\nNumPy    {expected}")
    return 0 if found.outcome == record["outcome"] and found.differs == record["differs"] else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="for all planners together")
    parser.add_argument("--planners", default=" ".join(PLANNERS), help="names, with spaces between them")
    parser.add_argument("--most", type=int, default=10_000, help="programs a planner, those of earlier runs included")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--folder", type=Path, default=ROOT / ".hunt" / "results", help="where logs and records are")
    parser.add_argument("--replay", type=Path, help="a record to show again")
    parser.add_argument("--keep", type=Path, help="with --replay: a folder for the compiler's files")
    parser.add_argument("--no-shrinking", action="store_true", help="count what is wrong, and write no record")
    parser.add_argument("--table", action="store_true", help="print the figures so far")
    parser.add_argument(
        "--power", type=int, metavar="COUNT", help="run COUNT programs on a planner with planted errors"
    )
    given = parser.parse_args()
    if given.power is not None:
        planted.print_power(given.power)
        return 0
    if given.replay is not None:
        if not given.replay.is_file():
            parser.error(f"--replay: there is no file {given.replay}; give a record, as those in {FOUND}")
        try:
            return replay(given.replay, given.keep)
        except NotARecord as error:
            parser.error(f"--replay: {given.replay} is no record ({error}); give one, as those in {FOUND}")
        except ChildProcessError as error:
            parser.error(f"--replay: {error}")
    names = given.planners.split()
    if unknown := [name for name in names if name not in PLANNERS]:
        parser.error(f"--planners: there is no {', '.join(unknown)}; there are {', '.join(PLANNERS)}")
    if not given.table:
        at_once = min(len(names), os.cpu_count() or 1)
        seconds = given.minutes * 60 * at_once / len(names)
        with ProcessPoolExecutor(at_once) as pool:
            asked = [
                pool.submit(hunt, name, given.folder, seconds, given.most, given.first, not given.no_shrinking)
                for name in names
            ]
            for each in asked:
                print(each.result(), file=sys.stderr)
    print("\n".join(table(given.folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
