"""The records of a run, and the start of a run that continues another one. spec: U2.10, U6.9"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tmmu.runtime.events import EventLog
from tmmu.runtime.journal import JournalState
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.records.ledger import Ledger
from tmmu.runtime.records.trace import Trace

Contents = Sequence[bytes] | Callable[[MappedMemory], None]
"""The content of arenas when they are applied: the bytes of each, or a function that fills the persistent ones."""


@dataclass(frozen=True, kw_only=True)
class RunRecords:
    """The records of a run; None for those that are not kept.

    Attributes
    ----------
    ledger, trace
        The counters of each step, and the trace. A failure is recorded in both before it is raised.
    journal
        The file of commits; it is created if it does not exist.
    events
        A log of all events. It reads the bytes of each storage at its birth: O(bytes).
    hash_contents
        Whether each commit covers the bytes of all arenas.
    """

    ledger: Ledger | None = None
    trace: Trace | None = None
    journal: str | os.PathLike[str] | None = None
    events: EventLog | None = None
    hash_contents: bool = False


UNRECORDED = RunRecords()
"""Records nothing."""


@dataclass(frozen=True)
class Continuation:
    """The state that a run continues: the last sealed state, and the content of arenas; None stands for zeros.

    The journal of the run must end with `state`.
    """

    state: JournalState
    contents: Contents | None = None
