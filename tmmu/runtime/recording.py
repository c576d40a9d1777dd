"""Where a run is recorded, and what a run goes on from. spec: U2.10, U6.9"""

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
"""What arenas hold when they are applied: the bytes of each, or what fills those that persist."""


@dataclass(frozen=True, kw_only=True)
class RunRecords:
    """Where a run is recorded; None for what is not kept.

    Attributes
    ----------
    ledger, trace
        Counters of each step, and the trace. A failure is recorded in both before it is raised.
    journal
        The file in which commits are kept; made if it is not there.
    events
        A log of all that happens. It looks at the bytes of each storage at its birth: O(bytes).
    hash_contents
        Whether each commit covers the bytes of all arenas.
    """

    ledger: Ledger | None = None
    trace: Trace | None = None
    journal: str | os.PathLike[str] | None = None
    events: EventLog | None = None
    hash_contents: bool = False


UNRECORDED = RunRecords()
"""Nothing is kept."""


@dataclass(frozen=True)
class Continuation:
    """What a run goes on from: the state that was sealed last, and what arenas hold; None is zeros.

    The journal of the run must end with `state`.
    """

    state: JournalState
    contents: Contents | None = None
