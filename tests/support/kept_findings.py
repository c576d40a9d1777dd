"""What is found without a solver and a model in each wrong plan of the corpus, and what solvers are asked of plans.

    python -m tests.support.kept_findings

writes it anew: obligation and place of each violation, no prose, and of each obligation how many rows it has, with a
digest of them and of what they are about; of plans that are made here, most of them right, of all together. Where a
digest changes, `verify-plan --smt2` writes the rows themselves.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from proofs.definition.violations import Violation
from proofs.proving.obligations import MODULES
from proofs.proving.obligations.context import Context, context_of
from proofs.proving.obligations.rows import Unprovable
from proofs.readers.sharing import decide_permissions
from proofs.verify.checks import Subject, violations
from tests.support.synthetic import training_plan
from tmmu.core.vocabulary import LAYOUTS, ArenaPolicy, DeviceConfiguration, Memory
from tmmu.examples.broken import KINDS, Broken, exclusive
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Claims, Plan, Usage, amend_plan
from tmmu.testing.catalogue.entries import COLUMNS, corrupted, some_change
from tmmu.testing.strategies.models import numbered

KEPT = Path(__file__).resolve().parents[1] / "corpus" / "broken.json"
KEPT_OF_MADE = KEPT.with_name("made.json")

Findings = Mapping[str, list[str] | str]


def findings(kind: Broken) -> Findings:
    """A line for each violation, in their order, and each obligation that has rows."""
    stated = file.decode(kind.build().encode())
    assert isinstance(stated, StatedPlan)
    subject = Subject(stated)
    rows = (f"{name} {asked}" for name in MODULES if (asked := _rows(name, subject.context)))
    return {"violations": [_line(violation) for violation in violations(subject)], "rows": "; ".join(rows)}


def _line(found: Violation) -> str:
    """The obligation and the fields that say where; those that are empty are left out."""
    _, _, *places = found._asdict().items()
    return " ".join((found.obligation, *(f"{name}={value}" for name, value in places if value not in (None, "", ()))))


def made_plans() -> Iterator[Plan]:
    """Plans in every layout, with loops and exclusive arms, and arenas that divide a memory; each of the small ones
    again with an entry changed, in several ways.
    """
    small = [make() for make in exclusive.RIGHT.values()]
    for number in range(40):
        layout, mode = LAYOUTS[number % len(LAYOUTS)], ("inference", "forward")[number // len(LAYOUTS) % 2]
        token = bytes(range(64)) if layout == "hashed" else None
        small.append(plan_memory(numbered(number), options=PlanOptions(mode, layout, address_token=token)).plan)
    for number, plan in enumerate(small):
        yield plan
        counts = tuple(Usage(slots=use.slots, minimal=use.minimal) for use in plan.usage)
        yield replace(plan, provenance=None, shards=None, claims=Claims(counts))
        chance = random.Random(number)
        wrong = (
            corrupted(plan, [some_change(chance, COLUMNS)]) for _ in range(60 if number < len(exclusive.RIGHT) else 12)
        )
        yield from (one for one in wrong if one is not None)
    for seed in range(3):
        plan = training_plan(150, seed=seed, in_place=0.3, views=0.2, arenas=2)
        yield plan
        uses = tuple(use._replace(device="npu", memory="dram") for use in plan.configuration.uses)
        divided = amend_plan(plan, configuration=plan.configuration._replace(uses=uses))
        yield amend_plan(divided, policy=ArenaPolicy((DeviceConfiguration("npu", (Memory("dram", 1 << 40),)),)))


def asked_of_made_plans() -> dict[str, str]:
    """Of each obligation a digest of the rows of all these plans; and one of their accesses along the ways of arms."""
    contexts = [context_of(plan, decide_permissions(plan, None, frozenset())) for plan in made_plans()]
    asked = {str(name): [_rows(name, context) for context in contexts] for name in MODULES}
    ways = [
        [part.tolist() for each in context.ways for part in (each if isinstance(each, tuple) else (each,))]
        for context in contexts
    ]
    found = {**asked, "ways": list(map(str, ways))}
    return {name: hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] for name, lines in found.items()}


def _rows(name: str, context: Context) -> str:
    """How many rows an obligation has and their digest, or why there is no proof; "" where it has none."""
    count, digest = 0, hashlib.sha256()
    try:
        for batch in MODULES[name].rows(context):
            count += len(batch.rows)
            for k, row in enumerate(batch.rows):
                tensors, storages, step = batch.place(k)
                about = [[*map(int, tensors)], [*map(int, storages)], None if step is None else int(step)]
                digest.update(f"{row} {about} {batch.weight}\n".encode())
    except Unprovable as why:
        return str(why)
    return f"{count} {digest.hexdigest()[:16]}" if count else ""


if __name__ == "__main__":
    KEPT.write_text(json.dumps({name: findings(kind) for name, kind in KINDS.items()}, indent=1) + "\n")
    KEPT_OF_MADE.write_text(json.dumps(asked_of_made_plans(), indent=1) + "\n")
