"""The arenas that `tmmu run` runs in, and the files with its records: trace, ledger, journal, checkpoint.

spec: SIM8.5 to SIM8.9, U6.9
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tmmu.cli.options import RecordOptions
from tmmu.core.errors import TmmuError

if TYPE_CHECKING:
    from tmmu.plans.replan import ReplanRecord
    from tmmu.plans.sections import Plan
    from tmmu.runtime.execution import Execution
    from tmmu.runtime.memory import MappedMemory
    from tmmu.runtime.records.ledger import Ledger
    from tmmu.runtime.records.trace import Trace
    from tmmu.simulator import Corruption

APPLY = "UML_OS.TMMU.ApplyPlan_v1"


@dataclass
class Recording:
    """A run that is recorded, or not: where its arenas are, and how it ended.

    `refused` is why ApplyPlan refuses the plan; then it is run only for a witness. `state` and `chain` are the hashes
    that the run ended with, or None if it was not sealed or traced.
    """

    where: MappedMemory | Execution
    files: RecordOptions
    refused: TmmuError | None = None
    corruption: Corruption | None = None
    state: bytes | None = None
    chain: bytes | None = None
    allocation_time_ns: int | None = None
    """Return how long ApplyPlan took, of all plans together; None if it did not run."""

    def exchange(self, plan: Plan, change: ReplanRecord) -> None:
        """Go on under another plan, at the safepoint before the next batch; a checkpoint that is kept is of it then.

        Raises the errors of `tmmu.runtime.safepoint.exchange`, and the refusal of the first plan if it was refused.
        """
        from tmmu.runtime import checkpoint
        from tmmu.runtime.execution import Execution
        from tmmu.runtime.safepoint import exchange

        if self.refused is not None:
            raise self.refused
        assert isinstance(self.where, Execution)
        journal = self.files.journal and f"{self.files.journal}.{self.where.state.batches}"
        self.where = exchange(self.where, plan, change.reason, shape=change.shape, journal=journal)
        if self.files.checkpoint is not None:
            checkpoint.save(self.where, self.files.checkpoint)


@contextmanager
def recording(plan: Plan, files: RecordOptions, *, replans: bool = False) -> Iterator[Recording]:
    """Map the arenas of a plan; what was asked for is written when the run is over, also where it failed.

    `replans`: the plan may be exchanged; then the run must be an execution.

    Raises what `apply_plan` and `MappedMemory.map` raise, MODE_VIOLATION for a checkpoint in confidential or
    regulated mode.
    """
    from tmmu.runtime.checkpoint import check_contents
    from tmmu.runtime.memory import MappedMemory

    if files.checkpoint is not None:
        check_contents(files.mode)
    if not files.is_recorded and not replans:
        with MappedMemory.map(plan) as memory:
            yield Recording(memory, files)
        return
    from tmmu.runtime.apply import apply_plan
    from tmmu.runtime.events import EventLog
    from tmmu.runtime.recording import RunRecords
    from tmmu.runtime.records.ledger import Ledger
    from tmmu.runtime.records.trace import Trace

    trace, ledger = Trace(), Ledger()
    try:
        records = RunRecords(
            ledger=ledger, trace=trace, journal=files.journal, hash_contents=files.contents,
            events=None if files.events is None else EventLog(files.events),
        )  # fmt: skip
        execution = apply_plan(plan, execution_mode=files.mode, records=records)
    except TmmuError as error:
        _write(plan, files, trace, ledger, error)
        with MappedMemory.map(plan) as memory:
            yield Recording(memory, files, refused=error)
        return
    found = Recording(execution, files)
    try:
        try:
            yield found
        except TmmuError as error:
            execution = _running(found)
            trace.failed(error, plan.origin.replay_token, execution.state.batches, plan.origin.rank)
            _write(plan, files, trace, ledger, error, execution.state.batches)
            raise
        execution = _running(found)
        failure = None if found.corruption is None else corruption_error(found.corruption)
        found.allocation_time_ns = trace.allocation_time_ns
        if failure is not None:
            trace.failed(failure, plan.origin.replay_token, execution.state.batches, plan.origin.rank)
        found.chain = _write(plan, files, trace, ledger, failure, execution.state.batches)
        if files.is_recorded:
            found.state = execution.state.state_hash
        if files.checkpoint is not None and failure is None:
            from tmmu.runtime import checkpoint

            checkpoint.save(execution, files.checkpoint)
    finally:
        found.where.close()


def _running(found: Recording) -> Execution:
    """The execution that the run has come to."""
    from tmmu.runtime.execution import Execution

    assert isinstance(found.where, Execution)
    return found.where


def corruption_error(corruption: Corruption) -> TmmuError:
    """A corruption as a failure, for records."""
    fields: dict[str, Any] = {
        "step": corruption.step, "arena": corruption.arena, "first_byte": corruption.first_byte,
        "last_byte": corruption.last_byte, "tensors": ", ".join(corruption.tensors) or None,
    }  # fmt: skip
    return TmmuError(
        "CONTRACT_VIOLATION",
        corruption.text,
        fix="`verify-plan` reports what is wrong with the plan",
        operator=APPLY,
        failure_operator=APPLY,
        **{key: value for key, value in fields.items() if value is not None},
    )


def _write(
    plan: Plan, files: RecordOptions, trace: Trace, ledger: Ledger, failure: TmmuError | None, t: int = 0
) -> bytes | None:
    """Write the records that were requested, and return the last hash of the trace, or None."""
    from tmmu.core import canonical
    from tmmu.core import records as sequence
    from tmmu.runtime.records import errors

    if files.errors is not None and failure is not None:
        record = errors.of_error(failure, replay_token=plan.origin.replay_token, t=t, rank=plan.origin.rank)
        canonical.write_atomically(files.errors, canonical.encode(record))
    if files.ledger is not None:
        sequence.write(ledger.records, files.ledger)
    return trace.save(files.trace) if files.trace is not None else None
