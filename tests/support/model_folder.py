"""A folder of TLA+ modules with one configuration and a manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TEXT = """\\* Three storages.
SPECIFICATION Spec
CONSTANTS
    Count = 3
    Names = {a, b}  \\* two
INVARIANTS
    TypeOK
    Held
PROPERTY
    Ends
CHECK_DEADLOCK FALSE
"""


def written(folder: Path, content: Any, question: str = TEXT) -> Path:
    (folder / "toys").mkdir(exist_ok=True)
    (folder / "toys/Toy.cfg").write_text(question)
    (folder / "manifest.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder
