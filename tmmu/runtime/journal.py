"""The journal of commits: what is sealed stays sealed, whenever the process or the machine stops.

A file of records: a header that binds it to a plan, then one commit after the other, each with the hash of the state
before it. A commit counts when its bytes are synced. At most the last record can then be torn, and is dropped when the
journal is opened again; anything else that is wrong is damage, and refused. spec: U4.5 to U4.10
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
"""The bytes with which every commit begins, after its number: farther on in a torn end they belong to a commit after
the torn one, so that this one is no torn end but damage."""

MARK_END = 16
"""How far from the beginning of a commit the mark begins at most."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """What has been sealed: how many batches, and the hash of the last one's state.

    `commit` is the record that the hash is of; None where nothing has run, and at the beginning of a journal that goes
    on from a state.
    """

    batches: int
    state_hash: bytes
    commit: dict[str, Any] | None = field(default=None, compare=False, repr=False)


def genesis(plan_hash: bytes) -> JournalState:
    """The state of a plan of which nothing has run."""
    return JournalState(0, canonical.commitment("tmmu_state_v1", [plan_hash]))


def sealed(record: dict[str, Any]) -> bytes:
    """The state hash of a commit: the commitment of everything else in it."""
    rest = {key: value for key, value in record.items() if key != "state_hash"}
    return canonical.commitment("tmmu_state_v1", rest)


def _failure(path: str, what: str, fix: str) -> TmmuError:
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE", what, file=path, fix=fix, operator=OPERATOR, arena="", peak_required_bytes=0
    )


class Journal:
    """An open journal. One process at a time; a context manager.

    Attributes
    ----------
    state
        What is sealed on the disk.
    """

    def __init__(self, path: str, descriptor: int, state: JournalState, end: int) -> None:
        self.path, self.state = path, state
        self._descriptor, self._end = descriptor, end

    @classmethod
    def open(cls, path: str | os.PathLike[str], plan_hash: bytes, start: JournalState | None = None) -> Self:
        """Open the journal at `path`, or begin one that starts at `start` (by default nothing has run).

        Raises REPLAY_DIVERGENCE where the journal is of another plan, or does not end at a `start` that is given,
        INVALID_RECORD where it is damaged, TMMU_ALLOCATION_FAILURE where it cannot be written or another process has
        it. Nothing is changed then. O(journal).
        """
        name = os.fspath(path)
        first = genesis(plan_hash) if start is None else start
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _failure(name, f"cannot be opened ({error.strerror})", "choose a file that you may write") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise _failure(name, "another process has it open", "wait for that process to end") from error
            data = _begun(name, descriptor, canonical.encode(_header(plan_hash, first)))
            try:
                state, end = replay(data, plan_hash)
            except TmmuError as error:
                error.in_file(name)
                raise
            if start is not None and state != start:
                raise _diverged(name, "its last state is not the one to go on from", start.state_hash, state.state_hash)
            if end < len(data):
                os.ftruncate(descriptor, end)
                os.fsync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(name, descriptor, state, end)

    def append(self, record: dict[str, Any]) -> JournalState:
        """Add a commit and sync it. Where that fails the state stays what it was, and the journal takes no more."""
        if self._descriptor < 0:
            raise _failure(self.path, "the journal is closed, or a write to it failed", "open it again")
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
            raise _failure(self.path, what, "make room, then open it again") from error
        self._end += len(data)
        self.state = JournalState(self.state.batches + 1, record["state_hash"], record)
        return self.state

    def close(self) -> None:
        """Give the file and its lock up."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _begun(name: str, descriptor: int, header: bytes) -> bytes:
    """The bytes of a journal, which is begun where there is none, or where a crash has cut its very header off."""
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
        raise _failure(name, f"cannot be written ({error.strerror})", "make room") from error
    return header


def _header(plan_hash: bytes, start: JournalState) -> dict[str, Any]:
    return {
        "format": FORMAT, "spec_version": SPEC_VERSION, "tmmu_plan_hash": plan_hash, "batches": start.batches,
        "state_hash": start.state_hash,
    }  # fmt: skip


def load(path: str | os.PathLike[str], plan_hash: bytes) -> JournalState:
    """The sealed state in a journal, without opening it for writing."""
    try:
        return replay(canonical.read_bounded(path, sequence.LIMIT, "INVALID_RECORD"), plan_hash)[0]
    except TmmuError as error:
        error.in_file(os.fspath(path))
        raise


def replay(data: bytes, plan_hash: bytes) -> tuple[JournalState, int]:
    """The last state in a journal's bytes, and how many bytes are whole.

    The bytes after these are one torn commit, or INVALID_RECORD is raised. REPLAY_DIVERGENCE for another plan.
    """
    found = sequence.items(data)
    head = next(found, None)
    if head is None:
        raise sequence.refusal("record 0", "the journal is empty")
    state = _read_header(head.value, plan_hash)
    end = head.end
    while end < len(data):
        try:
            item = next(found)
            _check_commit(item.value, state, plan_hash)
        except TmmuError:
            if data.find(MARK, end + MARK_END) >= 0:
                raise
            return state, end
        state, end = JournalState(state.batches + 1, item.value["state_hash"], item.value), item.end
    return state, end


def _read_header(value: Any, plan_hash: bytes) -> JournalState:
    shape = _header(bytes(32), JournalState(0, bytes(32)))
    if not isinstance(value, dict) or {k: type(v) for k, v in value.items()} != {k: type(v) for k, v in shape.items()}:
        raise sequence.refusal("record 0", "it is not the header of a journal")
    if (value["format"], value["spec_version"]) != (FORMAT, SPEC_VERSION):
        raise sequence.refusal(
            "record 0", f"{value['format']!r} {value['spec_version']!r} is not a known format of journals"
        )
    if value["tmmu_plan_hash"] != plan_hash:
        raise _diverged(None, "the journal is of another plan", plan_hash, value["tmmu_plan_hash"])
    if value["batches"] == 0 and value["state_hash"] != genesis(plan_hash).state_hash:
        raise sequence.refusal("record 0", "its state is not that of a plan of which nothing has run")
    return JournalState(value["batches"], value["state_hash"])


def _check_commit(record: Any, state: JournalState, plan_hash: bytes) -> None:
    place = f"batch {state.batches}"
    check_record(record, state.batches + 1)
    if record["kind"] != "commit":
        raise sequence.refusal(place, "it is not a commit")
    if record["tmmu_plan_hash"] != plan_hash or record["t"] != state.batches:
        raise sequence.refusal(place, "it is of another plan or iteration")
    if record["previous_state_hash"] != state.state_hash or record["state_hash"] != sealed(record):
        raise sequence.refusal(place, "its state does not follow from the one before")


def _diverged(file: str | None, what: str, expected: bytes, found: bytes) -> TmmuError:
    return TmmuError(
        "REPLAY_DIVERGENCE",
        f"{what} (expected {expected.hex()[:16]}…, found {found.hex()[:16]}…)",
        file=file,
        fix="use the journal of this plan, or begin a new one",
        operator=OPERATOR,
        expected=expected,
        found=found,
    )
