"""What is found without a solver and a model in each wrong plan of the corpus, and what solvers are asked of it.

    python -m tests.support.broken_findings

writes it anew: obligation and place of each violation, no prose, and of each obligation how many rows it has, with a
digest of them and of what they are about. Where a digest changes, `verify-plan --smt2` writes the rows themselves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from proofs.obligations import MODULES
from proofs.obligations.context import Context
from proofs.obligations.rows import Unprovable
from proofs.verify.checks import Subject, violations
from proofs.violations import Violation
from tmmu.examples.broken import KINDS, Broken
from tmmu.plans import file
from tmmu.plans.gate import Stated

KEPT = Path(__file__).resolve().parents[1] / "corpus" / "broken.json"

Findings = Mapping[str, list[str] | str]


def findings(kind: Broken) -> Findings:
    """A line for each violation, in their order, and each obligation that has rows."""
    stated = file.decode(kind.build().encode())
    assert isinstance(stated, Stated)
    subject = Subject(stated)
    rows = (f"{name} {asked}" for name in MODULES if (asked := _rows(name, subject.context)))
    return {"violations": [_line(violation) for violation in violations(subject)], "rows": "; ".join(rows)}


def _line(found: Violation) -> str:
    """The obligation and the fields that say where; those that are empty are left out."""
    _, _, *places = found._asdict().items()
    return " ".join((found.obligation, *(f"{name}={value}" for name, value in places if value not in (None, "", ()))))


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
