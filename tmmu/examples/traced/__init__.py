"""Training graphs of large models, traced once and stored compressed: neither torch nor transformers is needed.

Each is a canonical IR file under xz, at most 3.4 MB of it. `recipes` defines the graphs and how to trace them again;
the name inside a graph states the versions that traced it. spec: I2.9
"""

from __future__ import annotations

import hashlib
import lzma
from importlib import resources

from tmmu.core.errors import TmmuError

DIGESTS = {
    "llama-8b": "fe86d4e64fe802c009964e458e39cf11873a4f6cbcce2a1d6ff6ddf7ae6976c1",
    "llama-70b": "eff3616ff76334bf56238ba5e6fdac4100af52afbf9137e8b1de985c88f59b91",
    "llama-405b": "224d679d0e82f7fc90006909434a84be68d7115d64317efcaa19d8d0d2dfa419",
    "gpt3-175b": "ba58825d8a0bb38a35db9c986c8da5dc50c03c17a4540a798fe829e33f4d7773",
}
"""Every graph by its name, with the SHA-256 of its IR file."""

LIMIT, MEMORY = 1 << 24, 1 << 27
"""The limits on the bytes of an unpacked file, and on the memory of unpacking."""


def read(name: str) -> bytes:
    """Return the IR file of the graph of that name. Raises KeyError for another name.

    Raises INVALID_IR if the stored file is not the one that this version was shipped with: it is damaged, cut off, or
    would unpack to more than `LIMIT` bytes.
    """
    digest = DIGESTS[name]
    stored = resources.files(__package__).joinpath(f"{name}.ir.cbor.xz").read_bytes()
    try:
        data = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY).decompress(stored, max_length=LIMIT + 1)
    except lzma.LZMAError as error:
        raise _make_damaged(name, str(error)) from error
    if len(data) > LIMIT:
        raise _make_damaged(name, f"it unpacks to more than {LIMIT} bytes")
    if hashlib.sha256(data).hexdigest() != digest:
        raise _make_damaged(name, f"its SHA-256 is not {digest}")
    return data


def pack(data: bytes) -> bytes:
    """Compress an IR file as it is stored."""
    return lzma.compress(data, lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)


def _make_damaged(name: str, what: str) -> TmmuError:
    return TmmuError(
        "INVALID_IR", what, place=f"the stored graph {name}", fix="install tmmu again", ir_hash="", node_id=""
    )
