"""Run a solver in a child process: one thread, one context, frames of text on standard input and output.

A frame is its length in eight bytes, big-endian, and that many bytes. A request holds SMT-LIB text. A reply holds one
kind byte (`=` for the solver's output, `!` for an exception) and text. After an exception the context may answer
anything, so the process ends. The request `RESET`, which is not text, makes a new context. This file runs as a script
under `-P` with the solver's name, `z3` or `cvc5`, as its argument. It imports only that solver and the standard
library.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from typing import IO

MEMORY_MIB = 2048
"""The memory limit of a solver. A proof of a plan of 100,000 storages needs a tenth of it."""
RESET = b"\0"
"""The request to replace the old context by a new one."""
FRAME_LIMIT = 1 << 28
"""The maximum bytes of a frame. A greater number is not the length of a frame."""


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next frame, or None if the stream ends or holds no frame."""
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


Evaluate = Callable[[str], str]
"""Evaluates SMT-LIB text in the solver's one context and returns its output. Raises `Failed` for anything else."""


class Failed(Exception):
    """The solver raised an exception, which the message describes."""


def start_z3() -> tuple[str, Evaluate]:
    """Return the version of Z3, and a private context of it."""
    import z3

    z3.set_param("memory_max_size", MEMORY_MIB)
    context = z3.Context()

    def evaluate(text: str) -> str:
        try:
            return str(z3.Z3_eval_smtlib2_string(context.ref(), text))
        except z3.Z3Exception as error:
            raise Failed(error.value.decode() if isinstance(error.value, bytes) else str(error)) from error

    return f"z3 {z3.get_full_version()}", evaluate


def start_cvc5() -> tuple[str, Evaluate]:
    """Return the version of cvc5, and a context of it for all of SMT-LIB."""
    import cvc5

    resource.setrlimit(resource.RLIMIT_AS, (2 * MEMORY_MIB << 20, 2 * MEMORY_MIB << 20))
    terms = cvc5.TermManager()
    solver, symbols = cvc5.Solver(terms), cvc5.SymbolManager(terms)
    solver.setLogic("ALL")
    parser = cvc5.InputParser(solver, symbols)

    def evaluate(text: str) -> str:
        printed = []
        try:
            parser.setIncrementalStringInput(cvc5.InputLanguage.SMT_LIB_2_6, "request")
            parser.appendIncrementalStringInput(text)
            while not (command := parser.nextCommand()).isNull():
                printed.append(str(command.invoke(solver, symbols)))
        except RuntimeError as error:
            raise Failed(str(error)) from error
        return "".join(printed)

    return f"cvc5 {cvc5.__version__}", evaluate


SOLVERS = {"z3": start_z3, "cvc5": start_cvc5}
"""Every solver by the name that it is started with."""


def serve(name: str, requests: IO[bytes], replies: IO[bytes]) -> None:
    """Send the solver's version, then evaluate requests in a private context until they end or one raises."""
    request: bytes | None = RESET
    while request is not None:
        if request == RESET:
            printed, evaluate = SOLVERS[name]()
        else:
            try:
                printed = evaluate(request.decode())
            except Failed as error:
                write_frame(replies, f"!{error}".encode())
                return
        write_frame(replies, f"={printed}".encode())
        request = read_frame(requests)


def main() -> None:
    """Serve on the standard streams. The solver's own output goes to the error stream, never between frames."""
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)
        serve(sys.argv[1], sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
