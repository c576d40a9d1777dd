"""Find out by its first bytes whether a file is a plan, a model or a checkpoint, whatever its name. spec: C2.9

A text begins with its title. Every other file except ONNX is a CBOR map whose shortest key comes first: `ops` in an IR
file, `plan` in a checkpoint, `set`, `claims` or `format` in a plan, `format` in the manifest of a plan set. An ONNX
file begins with its format version, whose first byte does not begin a map. This only selects the reader; the reader
decides whether the file is valid.
"""

from __future__ import annotations

import os

from tmmu.core.errors import TmmuError
from tmmu.core.reading import read_head

PLAN, IR, ONNX, CHECKPOINT, PLAN_SET = "plan", "IR", "ONNX", "checkpoint", "plan set"
TEXT = {b"tmmu-plan-text": PLAN, b"tmmu-ir-text": IR}
"""The first bytes of a text."""
HEAD = 18
"""How many bytes are read."""

MANIFEST = "set.cbor"
"""The file of a folder by which it is a plan set."""

WORDS = {
    PLAN: "a plan",
    IR: "a model (IR)",
    ONNX: "a model (ONNX)",
    CHECKPOINT: "a checkpoint",
    PLAN_SET: "the manifest of a plan set",
}
"""The names of the kinds in messages."""
OF_TORCH = "export it to ONNX with torch.onnx.export, or trace its module: tmmu trace torch --help"
OTHERS = {
    ".tflite": "tmmu export tflite {path} -o FILE plans it",
    ".csv": "tmmu export minimalloc {path} -o FILE --capacity BYTES places buffers",
    ".gguf": "tmmu session plan {path} plans it",
    ".pte": "verify-plan {path} verifies the plan in it",
    **dict.fromkeys((".pt2", ".pt", ".pth", ".jit", ".ckpt"), OF_TORCH),
    ".safetensors": "it has weights and no steps: export the model that reads them to ONNX",
    **dict.fromkeys((".h5", ".keras", ".pb"), "convert it to ONNX with tf2onnx, or to .tflite for tmmu export tflite"),
}
"""What reads files that are no models of ours, by the suffix of their names."""


def kind_of_head(head: bytes) -> str | None:
    """Return the kind of a file with these first bytes, or None if it is unknown.

    >>> kind_of_head(b"\\xb1cops\\x80"), kind_of_head(b"\\xa5fclaims"), kind_of_head(b"\\x08\\x0a"), kind_of_head(b"no")
    ('IR', 'plan', 'ONNX', None)
    """
    if (found := text_kind(head)) is not None:
        return found
    if len(head) < 2:
        return None
    if head[0] == 0x08 and 0 < head[1] < 0x80:
        return ONNX
    if not 0xA0 < head[0] < 0xB8:
        return None
    if head[1:8] == b"fclaims" or head[1:5] == b"cset" or head[1:18] == b"fformatitmmu-plan":
        return PLAN
    if head[1:17] == b"fformathtmmu-set":
        return PLAN_SET
    return IR if head[1:5] == b"cops" else CHECKPOINT if head[1:6] == b"dplan" else None


def text_kind(head: bytes) -> str | None:
    """Return the kind of a text file with these first bytes, None if it is not one of ours.

    >>> text_kind(b"tmmu-ir-text 1\\n"), text_kind(b"tmmu")
    ('IR', None)
    """
    return next((found for title, found in TEXT.items() if head.startswith(title)), None)


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of the file at `path`; None also if it is unreadable or not a regular file."""
    try:
        return kind_of_head(read_head(path, HEAD))
    except OSError:
        return None


def is_set(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a plan set: it has a manifest."""
    return os.path.isfile(os.path.join(folder, MANIFEST))


def advise(path: str | os.PathLike[str], otherwise: str) -> str:
    """Return how to fix that a file is not a model: the command for its kind, if its name says that."""
    name = os.fspath(path)
    return OTHERS.get(os.path.splitext(name)[1].lower(), otherwise).format(path=name)


def is_ir(path: str) -> bool:
    """Return whether a model is read as an IR file: by its content, or by its suffix if the content is unclear.

    The suffixes are `.cbor` and `.ir.txt`; the reader reports what is missing. Raises INVALID_IR for a plan and for a
    checkpoint.
    """
    found = kind_of(path)
    if found in (PLAN, CHECKPOINT, PLAN_SET):
        raise _refusal("INVALID_IR", path, found, "a model", "name the model that was planned")
    return found == IR or (found is None and path.endswith((".cbor", ".ir.txt")))


def is_plan(path: str) -> bool:
    """Return whether a file to run is a plan: by its content, or by the suffix `.cbor` if the content is unclear."""
    found = kind_of(path)
    return found == PLAN or (found is None and path.endswith(".cbor"))


def check_plan(path: str, head: bytes) -> None:
    """Raise INVALID_PLAN for bytes that begin like a model or a checkpoint."""
    found = kind_of_head(head)
    if found in (IR, ONNX):
        raise _refusal("INVALID_PLAN", path, found, "a plan", f"make one: tmmu plan {path} -o FILE")
    if found == PLAN_SET:
        raise _refusal("INVALID_PLAN", path, found, "a plan", "name a plan beside it, or its folder to verify the set")
    if found == CHECKPOINT:
        raise _refusal("INVALID_PLAN", path, found, "a plan", f"inspect it with tmmu restore {path}")


def check_record(path: str, head: bytes, wanted: str) -> None:
    """Raise INVALID_RECORD for bytes that begin like another kind of file than `wanted`."""
    found = kind_of_head(head)
    if found is not None and WORDS[found] != wanted:
        fix = "make one of a plan with tmmu checkpoint" if wanted == WORDS[CHECKPOINT] else "name the file of records"
        raise _refusal("INVALID_RECORD", path, found, wanted, fix)


def _refusal(code: str, path: str, found: str, wanted: str, fix: str) -> TmmuError:
    what = f"expected {wanted}, got {WORDS[found]}"
    return TmmuError(code, what, file=path, place="the file", fix=fix)
