"""The process in which Z3 runs: one thread, one context, frames of text on its standard input and output.

A frame is its length in eight bytes, big-endian, and that many bytes: of a request SMT-LIB text, of a reply one kind
byte (`=` for what Z3 printed, `!` for an exception) and text. After an exception the context may answer anything, so
the process ends. It runs as a script under `-P`, and imports Z3 and the standard library alone.
"""

from __future__ import annotations

import os
import sys
from typing import IO

MEMORY_MIB = 2048
"""Beyond this Z3 gives up; a proof of a plan of 100,000 storages needs a tenth."""
FRAME_LIMIT = 1 << 28
"""Bytes beyond which a frame is no frame: whoever sent its length is out of step."""


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next frame, or None where the stream ends or holds no frame."""
    head = stream.read(8)
    length = int.from_bytes(head, "big")
    if len(head) < 8 or length > FRAME_LIMIT:
        return None
    body = stream.read(length)
    return body if len(body) == length else None


def write_frame(stream: IO[bytes], body: bytes) -> None:
    """Write one frame and flush it."""
    stream.write(len(body).to_bytes(8, "big") + body)
    stream.flush()


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Say which Z3 this is, then evaluate requests in one private context until they end or one raises."""
    import z3

    z3.set_param("memory_max_size", MEMORY_MIB)
    context = z3.Context()
    write_frame(replies, f"=z3 {z3.get_full_version()}".encode())
    while (request := read_frame(requests)) is not None:
        try:
            printed = z3.Z3_eval_smtlib2_string(context.ref(), request.decode())
        except z3.Z3Exception as error:
            reason = error.value.decode() if isinstance(error.value, bytes) else str(error)
            write_frame(replies, f"!{reason}".encode())
            return
        write_frame(replies, f"={printed}".encode())


def main() -> None:
    """Serve on the standard streams. What Z3 itself prints goes to the error stream, never between frames."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
