"""`python -m tests.nightly.soak.simulator --minutes N`: random plans, right and changed, run and judged.

Right plans must be identical in every run; a changed plan that corrupts must be refuted by the verifier's naive side,
one that an executor of single bytes calls corrupt must not be identical under the sanitizer in up to forty runs, and
models of real operators must give what onnx gives for the whole model. The figures are printed, and every
disagreement with the numbers that make it again; the exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.execution import in_any_order, mean
from tests.support.objections import objections
from tests.support.onnx_models import build
from tests.support.simulated import is_no_corruption
from tests.support.simulations import Simulated, evaluated, same
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator import Batches, Corrupted, HashKernels, PlanProgram
from tmmu.testing.catalogue.entries import COLUMNS, PLACES, corrupted, some_change
from tmmu.testing.strategies.models import numbered

LAYOUTS = ("packed", "slots", "pools")


class Soak:
    """Counts of what was seen, and a line for each disagreement."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def disagree(self, what: str) -> None:
        """Print and count a disagreement."""
        self.counts["disagreements"] += 1
        print(f"DISAGREEMENT {what}", flush=True)

    def runs(self, plan: Plan, model: Model, seed: int) -> str:
        """What two batches show, every other time with the sanitizer: identical, corrupted, or not mapped."""
        try:
            program = PlanProgram(plan, frozenset(model.bindings.donated))
            with MappedMemory.map(plan) as memory:
                batches = Batches(program, memory, sanitize=bool(seed % 2))
                report = batches.run(HashKernels(program, seed))
                if report.identical:
                    report = batches.run(HashKernels(program, seed + 1))
        except Corrupted:
            return "corrupted"
        except TmmuError:
            return "not mapped"
        self.counts["tensors compared"] += report.looks
        return "identical" if report.identical else "corrupted"

    def right(self, number: int) -> None:
        """A planned plan is identical."""
        chance, model = random.Random(number), numbered(number)
        options = {
            "mode": chance.choice(("inference", "forward")),
            "layout": chance.choice(LAYOUTS),
            "order": chance.choice(("given", "memory")),
        }
        plan = plan_memory(model, options=PlanOptions(**options)).plan
        self.counts["right plans"] += 1
        if self.runs(plan, model, number) != "identical":
            self.disagree(f"right plan of model {number} with {options}")

    def wrong(self, number: int) -> None:
        """A changed plan that corrupts is refuted."""
        chance, model = random.Random(f"wrong {number}"), numbered(number)
        plan = plan_memory(
            model, options=PlanOptions(mode=chance.choice(("inference", "forward")), layout=chance.choice(LAYOUTS))
        ).plan
        change = some_change(chance, chance.choice((PLACES, COLUMNS)))
        wrong = corrupted(plan, [change])
        if wrong is None:
            return
        refuted = any(objections(wrong, None, model.bindings.donated))
        answer = self.runs(wrong, model, number)
        self.counts[f"changed plans, {'refuted' if refuted else 'not refuted'} and {answer}"] += 1
        if answer == "corrupted" and not refuted:
            self.disagree(f"changed plan of model {number}: {change}")
        corrupt = in_any_order(wrong, number, mean(wrong, model.bindings.donated)) is not None
        if corrupt and not is_no_corruption(change, wrong):
            self.counts["changed plans that the executor calls corrupt"] += 1
            # Odd numbers are run with the sanitizer. Seeds choose among the combinations of nested branches and rounds.
            if all(self.runs(wrong, model, 2 * number + 1 + 2 * k) == "identical" for k in range(20)):
                self.disagree(f"changed plan of model {number} that the executor calls corrupt: {change}")

    def real(self, number: int, folder: Path) -> None:
        """A model of real operators gives what onnx gives."""
        chance = random.Random(f"real {number}")
        model = build([chance.randrange(1 << 16) for _ in range(chance.randrange(2, 20))])
        run = Simulated(
            model, folder, seed=number, layout=chance.choice(LAYOUTS), order=chance.choice(("given", "memory"))
        )
        self.counts["models of real operators"] += 1
        self.counts["tensors compared"] += run.report.looks
        if not run.report.identical or not same(run.outputs, evaluated(model, run.written)):
            self.disagree(f"model of real operators {number}: {run.report.corruption}")


def main() -> int:
    """Soak for the minutes that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--first", type=int, default=int.from_bytes(os.urandom(4), "big"), help="the first number")
    wanted = parser.parse_args()
    soak, number, end = Soak(), wanted.first, time.monotonic() + 60 * wanted.minutes
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            soak.right(number)
            for k in range(3):
                soak.wrong(3 * number + k)
            if number % 4 == 0:
                soak.real(number, Path(folder))
            number += 1
    print(f"numbers {wanted.first} to {number - 1}")
    for what, count in sorted(soak.counts.items()):
        print(f"{count:>9}  {what}")
    return 1 if soak.counts["disagreements"] else 0


if __name__ == "__main__":
    sys.exit(main())
