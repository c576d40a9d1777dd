"""What solvers are asked of plans stays what it was, row for row, of right plans as of the wrong ones of the corpus.

spec: V4.1, V4.6
"""

from __future__ import annotations

import json

from tests.support.kept_findings import KEPT_OF_MADE, asked_of_made_plans


def test_what_is_asked_of_plans_in_every_layout_is_the_same() -> None:
    """Run `python -m tests.support.kept_findings` where they should change, and say in the commit why."""
    kept = json.loads(KEPT_OF_MADE.read_text())
    found = asked_of_made_plans()
    assert found == kept
