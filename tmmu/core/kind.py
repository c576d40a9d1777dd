"""Is a file a plan, a model or a checkpoint? Decided by its first bytes, whatever the file is called. spec: C2.9

A text begins with its title. All else but ONNX is a map of CBOR whose shortest key stands first: `ops` in an IR file,
`plan` in a checkpoint, `claims` or `format` in a plan. An ONNX file begins with the version of its format, where one
byte begins no map.
This only selects the reader of the file; that reader decides whether it is what it looks like.
"""

from __future__ import annotations

import os
import stat

from tmmu.core.errors import TmmuError

PLAN, IR, ONNX, CHECKPOINT = "plan", "IR", "ONNX", "checkpoint"
TEXT = {b"tmmu-plan-text": PLAN, b"tmmu-ir-text": IR}
"""What a text begins with."""
HEAD = 18
"""As many bytes as are looked at."""

WORDS = {PLAN: "a plan", IR: "a model (IR)", ONNX: "a model (ONNX)", CHECKPOINT: "a checkpoint"}
"""What a file is to people."""


def kind(head: bytes) -> str | None:
    """The kind of a file that begins so, or None where it is neither.

    >>> kind(b"\\xb1cops\\x80"), kind(b"\\xa5fclaims"), kind(b"\\x08\\x0a"), kind(b"no")
    ('IR', 'plan', 'ONNX', None)
    """
    if (found := is_text(head)) is not None:
        return found
    if len(head) < 2:
        return None
    if head[0] == 0x08 and 0 < head[1] < 0x80:
        return ONNX
    if not 0xA0 < head[0] < 0xB8:
        return None
    if head[1:8] == b"fclaims" or head[1:18] == b"fformatitmmu-plan":
        return PLAN
    return IR if head[1:5] == b"cops" else CHECKPOINT if head[1:6] == b"dplan" else None


def is_text(head: bytes) -> str | None:
    """The kind of a text file that begins so, None where it is none of ours.

    >>> is_text(b"tmmu-ir-text 1\\n"), is_text(b"tmmu")
    ('IR', None)
    """
    return next((found for title, found in TEXT.items() if head.startswith(title)), None)


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """The kind of the file at `path`; None also for what its reader will refuse: unreadable, or not a regular file."""
    try:
        # Its type is checked before it is opened: opening a named pipe would block.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return kind(file.read(HEAD))
    except OSError:
        return None


def is_ir(path: str) -> bool:
    """Whether a model is read as an IR file: by its content, or, where that is unclear, by its suffix: `.cbor`,
    or `.ir.txt`, of which the reader reports what its first line lacks.

    Raises INVALID_IR for a plan and for a checkpoint.
    """
    found = kind_of(path)
    if found in (PLAN, CHECKPOINT):
        raise _refusal("INVALID_IR", path, found, "a model", "name the model that was planned")
    return found == IR or (found is None and path.endswith((".cbor", ".ir.txt")))


def is_plan(path: str) -> bool:
    """Whether what is to be run is a plan: by its content, or, where that is unclear, by the suffix `.cbor`."""
    found = kind_of(path)
    return found == PLAN or (found is None and path.endswith(".cbor"))


def check_plan(path: str, head: bytes) -> None:
    """Raise INVALID_PLAN for bytes that begin like a model or a checkpoint."""
    found = kind(head)
    if found in (IR, ONNX):
        raise _refusal("INVALID_PLAN", path, found, "a plan", f"make one: tmmu plan {path} -o FILE")
    if found == CHECKPOINT:
        raise _refusal("INVALID_PLAN", path, found, "a plan", f"look at it with tmmu restore {path}")


def check_record(path: str, head: bytes, wanted: str) -> None:
    """Raise INVALID_RECORD for bytes that begin like something else than a checkpoint, or than records, is."""
    found = kind(head)
    if found is not None and WORDS[found] != wanted:
        fix = "make one of a plan with tmmu checkpoint" if wanted == WORDS[CHECKPOINT] else "name the file of records"
        raise _refusal("INVALID_RECORD", path, found, wanted, fix)


def _refusal(code: str, path: str, found: str, wanted: str, fix: str) -> TmmuError:
    what = f"it is {WORDS[found]}, and {wanted} is needed"
    return TmmuError(code, what, file=path, place="the file", fix=fix)
