"""Emit: a failure as the documents' error record, written before the failure is raised (001 Error.Emit). spec: U5.6"""

from __future__ import annotations

import os
from typing import Any, NoReturn

from tmmu.core import canonical
from tmmu.core.errors import TmmuError

NO_TOKEN = bytes(32)
"""The replay token of a failure that happened before there was a plan."""


def of_error(error: TmmuError, *, replay_token: bytes = NO_TOKEN, t: int = 0, rank: int = 0) -> dict[str, Any]:
    """Make the error record: the fields of the registry, the message, and the diagnostics of the refusal."""
    record = error.record()
    return {
        "kind": "error_record",
        "code_id": record.code_id,
        "numeric_code": record.numeric_code,
        "severity": record.severity,
        "subsystem": record.subsystem,
        "t": t,
        "rank": rank,
        "failure_operator": record.failure_operator,
        "replay_token": replay_token,
        "message": record.message,
        "retryable": record.retryable,
        "privacy_class": record.privacy_class,
        "diagnostics": dict(record.diagnostics),
    }


def emit(
    error: TmmuError, path: str | os.PathLike[str] | None, *, replay_token: bytes = NO_TOKEN, t: int = 0, rank: int = 0
) -> NoReturn:
    """Write the error record to `path`, if one is given, whole and synced; then raise the failure. Never returns.

    If the record cannot be written, the message of the failure states that too.
    """
    if path is not None:
        try:
            data = canonical.encode(of_error(error, replay_token=replay_token, t=t, rank=rank))
            canonical.write_atomically(path, data)
        except (TmmuError, OSError) as second:
            why = second.what if isinstance(second, TmmuError) else f"cannot be written ({second.strerror})"
            error.what += f" (and its record {os.fspath(path)} {why})"
    raise error
