"""`make soak`: right plans of random models, made wrong in every way of `lies`, through the gate and the verifier.

Each must be refuted under the obligation that was broken, with a witness that `witness` confirms; every hundredth is
also put to the solver's rows, which must not discharge it, and to the command. Figures are printed for each obligation.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

from proofs import verify_plan
from proofs.obligations import OBLIGATIONS, PRELUDE
from proofs.obligations.context import view_of
from proofs.obligations.discharge import discharge
from proofs.readers.sharing import permitted
from proofs.solvers.process import Z3
from proofs.verify_plan import Options
from tests.soak.lies import LIES
from tests.soak.witness import confirmed
from tests.strategies.models import numbered
from tests.strategies.objections import objections
from tmmu import canonical
from tmmu.errors import TmmuError
from tmmu.plan import file
from tmmu.plan.columns import Plan
from tmmu.planner import plan_memory
from tmmu.vocabulary import Model

BY_ROWS = {obligation.NAME for obligation in OBLIGATIONS}
TRIES = 4
"""How often each way to lie is tried on each plan."""


@dataclass
class Figures:
    """What came of the lies about each obligation, and every one that was not caught as it must be."""

    told: Counter[str] = field(default_factory=Counter)
    no_plan: Counter[str] = field(default_factory=Counter)
    refuted: Counter[str] = field(default_factory=Counter)
    by_rows: Counter[str] = field(default_factory=Counter)
    by_command: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def table(self) -> str:
        """The figures as text, a line for each obligation."""
        lines = [f"{'obligation':26} {'told':>9} {'no plan':>9} {'refuted':>9} {'by rows':>8} {'by command':>11}"]
        for name in (*LIES, "hashes"):
            row = (self.told, self.no_plan, self.refuted, self.by_rows, self.by_command)
            told, rest, found, rows, commands = (column[name] for column in row)
            lines.append(f"{name:26} {told:>9} {rest:>9} {found:>9} {rows:>8} {commands:>11}")
        return "\n".join([*lines, f"{len(self.wrong)} not caught as they must be", *self.wrong[:20]])


class Soak:
    """A run: figures, a solver for the rows, and a folder for the command."""

    def __init__(self, folder: Path, sample: int = 100) -> None:
        self.figures, self.solver, self.folder, self.sample = Figures(), Z3(PRELUDE), folder, sample

    def close(self) -> None:
        """End the solver."""
        self.solver.close()

    def plan(self, number: int) -> None:
        """Every lie about the plan of one number; the plan itself must be right."""
        chance = random.Random(number)
        model = numbered(number)
        layout, mode = chance.choice(("slots", "packed")), chance.choice(("inference", "forward"))
        right = plan_memory(model, mode=mode, layout=layout).plan
        for found in islice(objections(right, model, model.bindings.donated), 1):
            self.figures.wrong.append(f"plan {number}: right, and refuted: {found}")
            return
        for name, lie in LIES.items():
            for k in range(TRIES):
                wrong = lie(right, chance)
                if wrong is not None:
                    self.judge(name, wrong, model, f"plan {number}, {name} {k}")
        self.hashes(right, chance, f"plan {number}, hashes")

    def judge(self, name: str, wrong: Plan, model: Model, where: str) -> None:
        """One lie: no plan at all, or refuted for the right reason with a witness that holds."""
        figures = self.figures
        figures.told[name] += 1
        data = file.encode(wrong)
        try:
            plan = file.decode(data).plan
        except TmmuError:
            figures.no_plan[name] += 1
            return
        donated = frozenset(model.bindings.donated)
        against = model if name == "steps_are_the_model" else None
        found = list(islice(objections(plan, against, donated), 200))
        mine = [item for item in found if getattr(item, "obligation", "steps_are_the_model") == name]
        if not found:
            figures.wrong.append(f"{where}: accepted")
        elif not mine:
            figures.wrong.append(f"{where}: refuted as {sorted({getattr(i, 'obligation', '?') for i in found})}")
        elif not all(confirmed(plan, item) for item in mine[:1]):
            figures.wrong.append(f"{where}: the witness does not hold: {mine[0]}")
        else:
            figures.refuted[name] += 1
        if figures.told[name] % self.sample == 1 % self.sample:
            self.more(name, plan, data, model, where)

    def more(self, name: str, plan: Plan, data: bytes, model: Model, where: str) -> None:
        """The solver's rows and the command on one lie."""
        donated = frozenset(model.bindings.donated)
        if name in BY_ROWS:
            view = view_of(plan, permitted(plan, None, donated), donated)
            results = discharge([obligation.rows(view) for obligation in OBLIGATIONS], [self.solver], 60)
            if all(result.proved for result in results):
                self.figures.wrong.append(f"{where}: every row is discharged")
            self.figures.by_rows[name] += 1
        if name == "steps_are_the_model" and plan.mode != "inference":
            return  # the command would derive the backward half of the model, which not every random model has
        path = self.folder / "wrong.plan.cbor"
        path.write_bytes(data)
        options = Options(donated=donated)
        if name == "steps_are_the_model":
            from tmmu.ir import files

            (self.folder / "model.ir.cbor").unlink(missing_ok=True)
            files.save(model, self.folder / "model.ir.cbor")
            options = Options(donated=donated, model=str(self.folder / "model.ir.cbor"))
        verdict = verify_plan.verify(str(path), options)
        broken = {entry["name"] for entry in verdict.obligations if entry["verdict"] == "REFUTED"}
        if verdict.exit != 1 or name not in broken or verdict.witness is None:
            self.figures.wrong.append(f"{where}: the command says {verdict.verdict}, {sorted(broken)}")
        self.figures.by_command[name] += 1

    def hashes(self, right: Plan, chance: random.Random, where: str) -> None:
        """A hash in the file with one bit turned: of those that the file's own content gives."""
        body = file.to_object(right)
        name = chance.choice(file.HASHES)
        bit = chance.randrange(256)
        turned = bytearray(body[name])
        turned[bit // 8] ^= 1 << bit % 8
        data = canonical.encode({**body, name: bytes(turned)})
        self.figures.told["hashes"] += 1
        if name in {field for field, _, _ in file.false_hashes(file.decode(data))}:
            self.figures.refuted["hashes"] += 1
        else:
            self.figures.wrong.append(f"{where}: {name} with bit {bit} turned is accepted")


def run(minutes: float, first: int, folder: Path) -> Iterator[Figures]:
    """The figures after every hundred plans until the time is up."""
    end = time.monotonic() + 60 * minutes
    soak = Soak(folder)
    try:
        for done, number in enumerate(count(first), 1):
            soak.plan(number)
            if done % 100 == 0 or time.monotonic() >= end:
                yield soak.figures
            if time.monotonic() >= end:
                return
    finally:
        soak.close()


def main() -> int:
    """Soak for the minutes that are asked for. Exit code 1 where anything was not caught as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.plans", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first model")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = Figures()
        for done, figures in enumerate(run(given.minutes, given.first, Path(folder)), 1):
            if done % 10 == 0:
                print(figures.table(), flush=True)
    print(figures.table())
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
