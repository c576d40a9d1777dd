"""What the stored plans of other producers are read as: a digest of the plan and of what the reading rests on, each,
with the visits that the reader counted (FP2.2).

    python -m tests.support.foreign_readings

writes them anew. Where a digest changes, `tmmu import` writes the plan as text, before and after: the difference is
what the reader takes for something else now.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from proofs.readers.plans import formats
from tmmu.core.flags import PLAN_SUFFIXES
from tmmu.core.source import Source

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "foreign"
KEPT = CORPUS / "readings.json"


def stored() -> list[Path]:
    """Every plan of the corpus that is in no format of ours, in folders too."""
    found = (path for path in sorted(CORPUS.glob("*ed/**/*")) if path.is_file() and formats.is_plan(str(path)))
    return [path for path in found if not path.name.endswith(PLAN_SUFFIXES)]


def reading_of(path: Path) -> str:
    """The digest of the plan that a file is read as and of how it was read, and the visits. Raises INVALID_PLAN."""
    source = Source.opened(path)
    form = formats.recognise_format(source.name, source.data[: formats.HEAD])
    assert form is not None
    stated = formats.read_through_gate(form, source)
    assert stated.reading is not None
    digest = hashlib.sha256(stated.hashes["file_digest"] + json.dumps(asdict(stated.reading)).encode())
    return f"{digest.hexdigest()[:16]} {source.work}"


def readings() -> dict[str, str]:
    """All of them, by the file's path in the corpus."""
    return {str(path.relative_to(CORPUS)): reading_of(path) for path in stored()}


if __name__ == "__main__":
    KEPT.write_text(json.dumps(readings(), indent=1) + "\n")
