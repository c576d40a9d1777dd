"""CommitExecution: barriers in the order of the arenas, then one record that seals the batch, then visibility.

spec: U4.1 to U4.5, U4.11
"""

from __future__ import annotations

import hashlib
from typing import Any

from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.runtime.execution import COMMIT, Execution
from tmmu.runtime.journal import JournalState, seal_commit


def commit_execution(execution: Execution) -> JournalState:
    """Seal the open batch and return the new state; if no batch is open, return the sealed state and change nothing.

    The pending operations of each arena are run and waited for, arena by arena in the order of the plan. Then the
    record of the batch is made, and its hash is the new state; if there is a journal, the record is synced there. Only
    then may downstream consumers see the arenas.

    Raises
    ------
    TmmuError
        TMMU_ALLOCATION_FAILURE if an operation fails or the journal cannot be synced: then nothing is sealed, the batch
        stays open and the old state remains.

    Notes
    -----
    O(arenas) and the operations, and O(bytes of the arenas) if contents are hashed.
    """
    if not execution.is_open:
        return execution.state
    for arena in execution.plan.allocation.arenas:
        _run_pending(execution, arena.name)
    record = _make_record(execution)
    if execution.journal is not None:
        state = execution.journal.append(record)
    else:
        state = JournalState(execution.state.batches + 1, record["state_hash"], record)
    execution.state, execution.is_open = state, False
    execution.visible = {arena.name: state.batches for arena in execution.plan.allocation.arenas}
    execution.ledger.seal()
    if execution.trace is not None:
        for each in (*execution.values, record):
            execution.trace.add(each)
    execution.values = []
    if execution.events is not None:
        execution.events("committed", t=state.batches)
    return state


def _run_pending(execution: Execution, arena: str) -> None:
    pending = execution.pending[arena]
    while pending:
        try:
            pending[0]()
        except Exception as error:
            raise TmmuError(
                "TMMU_ALLOCATION_FAILURE",
                f"a pending operation failed ({type(error).__name__}: {error}); nothing was committed",
                place=f"arena {arena!r}",
                fix="remove the cause, then commit again",
                operator=COMMIT,
                arena=arena,
                peak_required_bytes=0,
            ) from error
        pending.pop(0)


def _make_record(execution: Execution) -> dict[str, Any]:
    record: dict[str, Any] = {
        "kind": "commit",
        "t": execution.state.batches,
        "tmmu_plan_hash": execution.plan_hash,
        "arenas": [
            {
                "arena": found.arena.name,
                "high_water": found.high_water,
                "content": hashlib.sha256(found.content.data).digest() if execution.hash_contents else None,
            }
            for found in execution.memory.arenas
        ],
        "values_hash": canonical.digest(execution.values) if execution.values else None,
        "resource_ledger_hash": execution.ledger.digest(),
        "previous_state_hash": execution.state.state_hash,
    }
    return record | {"state_hash": seal_commit(record)}
