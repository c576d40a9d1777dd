"""`make sample`: of what only `make test-full` runs in whole, a part each day, so that CI has seen all of it.

A few mutants of the kernel, and one TLA+ model with larger bounds, chosen by the day or by `--day N`. A model that does
not end in time counts as undecided: its bounds are too large for some machines. Everything else must be as expected.
spec: V6.17
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import TypeVar

from proofs.model_check.manifest import installed_folder, read_manifest
from tests.integration.kernel.mutants import MUTANTS, count_survivors

COUNT = 4
"""The mutants of a day."""
SECONDS = 300
"""The time of a model."""
Item = TypeVar("Item")


def of_day(items: Sequence[Item], day: int, count: int = 1) -> list[Item]:
    """Return the items of a day: after `len(items) / count` days each was chosen.

    >>> [of_day("abcde", day, 2) for day in range(3)]
    [['a', 'b'], ['c', 'd'], ['e', 'a']]
    """
    return [items[(day * count + k) % len(items)] for k in range(count)]


def larger_models() -> list[str]:
    """The names of the models with larger bounds."""
    return [run.name for module in read_manifest(installed_folder()) for run in module.runs if run.size == "full"]


def check_model(day: int) -> bool:
    """Run the model of the day, and print how it ended. One that does not end in time is not counted as wrong."""
    [name] = of_day(larger_models(), day)
    command = ["check-models", name, "--timeout", str(SECONDS), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    [result] = json.loads(done.stdout)["models"]
    is_undecided = any(f"did not end within {SECONDS} s" in objection for objection in result["objections"])
    ended = "as expected" if result["as_expected"] else "; ".join(result["objections"])
    print(f"{name}: {ended}, {result['distinct_states']} states, {result['seconds']} s")
    return result["as_expected"] or is_undecided


def main() -> int:
    """Run the sample of a day. Ends with 1 if a mutant survives or a model ends otherwise than expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.sample")
    parser.add_argument("--day", type=int, default=datetime.date.today().toordinal())
    day = parser.parse_args().day
    print(f"the sample of day {day}", flush=True)
    survived = count_survivors(of_day(MUTANTS, day, COUNT))
    return int(survived > 0 or not check_model(day))


if __name__ == "__main__":
    sys.exit(main())
