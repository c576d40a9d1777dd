"""The journal of commits: a sealed state stays sealed, whenever the process or the machine stops.

A file of records: a header that binds it to a plan, then the commits in order, each with the hash of the state before
it. A commit counts once its bytes are synced. Therefore at most the last record can be torn, and it is dropped when the
journal is opened again; any other error is damage, and is refused. spec: U4.5 to U4.10, RE5.2
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass, field
from typing import Any, Self

from tmmu.core import canonical
from tmmu.core import records as sequence
from tmmu.core.errors import TmmuError
from tmmu.plans.gate import SPEC_VERSION
from tmmu.runtime.records.schema import check_record

OPERATOR = "UML_OS.TMMU.CommitExecution_v1"
FORMAT = "tmmu-journal"
MARK = canonical.encode("kind") + canonical.encode("commit")
"""The bytes with which every commit begins, after its number.

If they occur later in a torn end, another commit follows the torn one, which is therefore damage and not a torn end.
"""

MARK_END = 16
"""The largest distance of the mark from the begin of a commit."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """A sealed state: the number of batches, and the hash of the state after the last one.

    `commit` is the record of the hash; None if nothing has run, and at the begin of a journal that continues a state.
    """

    batches: int
    state_hash: bytes
    commit: dict[str, Any] | None = field(default=None, compare=False, repr=False)


def genesis(plan_hash: bytes) -> JournalState:
    """Return the state of a plan that has not run."""
    return JournalState(0, canonical.commitment("tmmu_state_v1", [plan_hash]))


def seal_commit(record: dict[str, Any]) -> bytes:
    """Return the state hash of a commit: the commitment of all its other fields."""
    rest = {key: value for key, value in record.items() if key != "state_hash"}
    return canonical.commitment("tmmu_state_v1", rest)


def _make_failure(path: str, what: str, fix: str) -> TmmuError:
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE", what, file=path, fix=fix, operator=OPERATOR, arena="", peak_required_bytes=0
    )


class Journal:
    """An open journal. Only one process opens it at a time. It is a context manager.

    Attributes
    ----------
    state
        The state that is sealed on the disk.
    """

    def __init__(self, path: str, descriptor: int, state: JournalState, end: int) -> None:
        self.path, self.state = path, state
        self._descriptor, self._end = descriptor, end

    @classmethod
    def open(cls, path: str | os.PathLike[str], plan_hash: bytes, start: JournalState | None = None) -> Self:
        """Open the journal at `path`, or create one that starts at `start` (by default nothing has run).

        Raises REPLAY_DIVERGENCE if the journal belongs to another plan, or does not end at a given `start`,
        INVALID_RECORD if it is damaged, TMMU_ALLOCATION_FAILURE if it cannot be written or another process has opened
        it. Then nothing is changed. O(journal).
        """
        name = os.fspath(path)
        first = genesis(plan_hash) if start is None else start
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _make_failure(
                name, f"cannot be opened ({error.strerror})", "choose a file that you may write"
            ) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise _make_failure(name, "another process has it open", "wait for that process to end") from error
            data = _read_or_create(name, descriptor, canonical.encode(_make_header(plan_hash, first)))
            try:
                state, end = replay(data, plan_hash)
            except TmmuError as error:
                error.in_file(name)
                raise
            if start is not None and state != start:
                raise _make_divergence(
                    name, "its last state is not the one to continue from", start.state_hash, state.state_hash
                )
            if end < len(data):
                os.ftruncate(descriptor, end)
                os.fsync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(name, descriptor, state, end)

    def append(self, record: dict[str, Any]) -> JournalState:
        """Append a commit and sync it; return the new state.

        Raises TMMU_ALLOCATION_FAILURE if that fails: then the state is unchanged, and the journal is closed.
        """
        if self._descriptor < 0:
            raise _make_failure(self.path, "the journal is closed, or a write to it failed", "open it again")
        data = canonical.encode(record)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self._end + written)
            os.fsync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            self.close()
            what = f"cannot be written ({error.strerror})"
            raise _make_failure(self.path, what, "make room, then open it again") from error
        self._end += len(data)
        self.state = JournalState(self.state.batches + 1, record["state_hash"], record)
        return self.state

    def close(self) -> None:
        """Close the file and release its lock; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read_or_create(name: str, descriptor: int, header: bytes) -> bytes:
    """Read the bytes of a journal; create it if it is missing, or if a crash cut off its header."""
    data = canonical.read_bounded(name, sequence.LIMIT, "INVALID_RECORD")
    if len(data) >= len(header) or not header.startswith(data):
        return data
    try:
        written = 0
        while written < len(header):
            written += os.pwrite(descriptor, header[written:], written)
        os.fsync(descriptor)
        folder = os.open(os.path.dirname(os.path.realpath(name)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise _make_failure(name, f"cannot be written ({error.strerror})", "make room") from error
    return header


def _make_header(plan_hash: bytes, start: JournalState) -> dict[str, Any]:
    return {
        "format": FORMAT, "spec_version": SPEC_VERSION, "tmmu_plan_hash": plan_hash, "batches": start.batches,
        "state_hash": start.state_hash,
    }  # fmt: skip


def load(path: str | os.PathLike[str], plan_hash: bytes) -> JournalState:
    """Return the sealed state in a journal, without opening it for writing. Raises as `replay`."""
    try:
        return replay(canonical.read_bounded(path, sequence.LIMIT, "INVALID_RECORD"), plan_hash)[0]
    except TmmuError as error:
        error.in_file(os.fspath(path))
        raise


def replay(data: bytes, plan_hash: bytes) -> tuple[JournalState, int]:
    """Return the last state in the bytes of a journal, and the number of bytes that are whole.

    The bytes after these are one torn commit; else INVALID_RECORD is raised: a whole record whose kind is not text is
    not a torn commit. Raises REPLAY_DIVERGENCE for another plan. spec: RE3.6
    """
    found = sequence.read_items(data)
    head = next(found, None)
    if head is None:
        raise sequence.record_error("record 0", "the journal is empty")
    state = _read_header(head.value, plan_hash)
    end = head.end
    while end < len(data):
        is_foreign = False
        try:
            item = next(found)
            is_foreign = isinstance(item.value, dict) and not isinstance(item.value.get("kind", ""), str)
            _check_commit(item.value, state, plan_hash)
        except TmmuError:
            if is_foreign or data.find(MARK, end + MARK_END) >= 0:
                raise
            return state, end
        state, end = JournalState(state.batches + 1, item.value["state_hash"], item.value), item.end
    return state, end


def _read_header(value: Any, plan_hash: bytes) -> JournalState:
    shape = _make_header(bytes(32), JournalState(0, bytes(32)))
    if not isinstance(value, dict) or {k: type(v) for k, v in value.items()} != {k: type(v) for k, v in shape.items()}:
        raise sequence.record_error("record 0", "it is not the header of a journal")
    if (value["format"], value["spec_version"]) != (FORMAT, SPEC_VERSION):
        raise sequence.record_error(
            "record 0", f"{value['format']!r} {value['spec_version']!r} is not a known format of journals"
        )
    if value["tmmu_plan_hash"] != plan_hash:
        raise _make_divergence(None, "the journal belongs to another plan", plan_hash, value["tmmu_plan_hash"])
    if value["batches"] == 0 and value["state_hash"] != genesis(plan_hash).state_hash:
        raise sequence.record_error("record 0", "its state is not that of a plan that has not run")
    return JournalState(value["batches"], value["state_hash"])


def _check_commit(record: Any, state: JournalState, plan_hash: bytes) -> None:
    place = f"batch {state.batches}"
    check_record(record, state.batches + 1)
    if record["kind"] != "commit":
        raise sequence.record_error(place, "it is not a commit")
    if record["tmmu_plan_hash"] != plan_hash or record["t"] != state.batches:
        raise sequence.record_error(place, "it belongs to another plan or iteration")
    if record["previous_state_hash"] != state.state_hash or record["state_hash"] != seal_commit(record):
        raise sequence.record_error(place, "its state does not follow from the state before it")


def _make_divergence(file: str | None, what: str, expected: bytes, found: bytes) -> TmmuError:
    return TmmuError(
        "REPLAY_DIVERGENCE",
        f"{what} (expected {expected.hex()[:16]}…, found {found.hex()[:16]}…)",
        file=file,
        fix="use the journal of this plan, or begin a new one",
        operator=OPERATOR,
        expected=expected,
        found=found,
    )
