"""Is a file a plan or a model? Told by its first bytes, whatever the file is called. spec: C2.9

Both of our files are maps of CBOR whose shortest key, `ops`, stands first; a plan has more keys than the 23 that one
byte can count, an IR file has fewer. An ONNX file begins with the version of its format, where one byte begins no map.
Nothing is concluded from this but who reads the file, and that says whether it is what it looks like.
"""

from __future__ import annotations

import os
import stat

from tmmu.errors import TmmuError

PLAN, IR, ONNX = "plan", "IR", "ONNX"
HEAD = 6
"""As many bytes as are looked at."""

MODELS = {IR: "a model (IR)", ONNX: "a model (ONNX)"}


def kind(head: bytes) -> str | None:
    """The kind of a file that begins so, or None where it is neither.

    >>> kind(b"\\xb1cops\\x80"), kind(b"\\xb8\\x20cops"), kind(b"\\x08\\x0a"), kind(b"no")
    ('IR', 'plan', 'ONNX', None)
    """
    if len(head) < 2:
        return None
    if head[0] == 0x08 and 0 < head[1] < 0x80:
        return ONNX
    if head[0] == 0xB8 and head[2:6] == b"cops":
        return PLAN
    return IR if 0xA0 < head[0] < 0xB8 and head[1:5] == b"cops" else None


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """The kind of the file at `path`; None also for what cannot be opened or is no regular file: its reader says so."""
    try:
        # Asked what it is before it is opened: a named pipe would have one wait for ever.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return kind(file.read(HEAD))
    except OSError:
        return None


def is_ir(path: str) -> bool:
    """Whether a model is read as an IR file: by its content, or, where that says nothing, by the suffix `.cbor`.

    Raises INVALID_IR for a plan.
    """
    found = kind_of(path)
    if found == PLAN:
        what, fix = "it is a plan, and a model is needed", "name the model that it was made of"
        raise TmmuError("INVALID_IR", what, file=path, place="the file", fix=fix)
    return found == IR or (found is None and path.endswith(".cbor"))


def check_plan(path: str, head: bytes) -> None:
    """Raise INVALID_PLAN for bytes that begin like a model."""
    found = kind(head)
    if found in MODELS:
        what, fix = f"it is {MODELS[found]}, and a plan is needed", f"make one: tmmu plan {path} -o FILE"
        raise TmmuError("INVALID_PLAN", what, file=path, place="the file", fix=fix)
