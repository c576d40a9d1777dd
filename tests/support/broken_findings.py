"""What is found without a solver and without a model in each wrong plan of the corpus: obligation and place, no prose.

    python -m tests.support.broken_findings

writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from proofs.verify.checks import Subject, violations
from proofs.violations import Violation
from tmmu.examples.broken import KINDS, Broken
from tmmu.plans import file
from tmmu.plans.gate import Stated

KEPT = Path(__file__).resolve().parents[1] / "corpus" / "broken.json"


def findings(kind: Broken) -> list[str]:
    """A line for each violation, in their order."""
    stated = file.decode(kind.build().encode())
    assert isinstance(stated, Stated)
    return [_line(violation) for violation in violations(Subject(stated))]


def _line(found: Violation) -> str:
    """The obligation and the fields that say where; those that are empty are left out."""
    _, _, *places = found._asdict().items()
    return " ".join((found.obligation, *(f"{name}={value}" for name, value in places if value not in (None, "", ()))))


if __name__ == "__main__":
    KEPT.write_text(json.dumps({name: findings(kind) for name, kind in KINDS.items()}, indent=1) + "\n")
