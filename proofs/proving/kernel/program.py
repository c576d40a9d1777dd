"""Ask the installed program: it reads a row of words and returns its answer, whatever happens to the process meanwhile.

The program answers for the kind of words and for the digest among them, and the answer must repeat both. A missing,
late or malformed answer is a failure with its reason; it neither accepts nor rejects. spec: V6.1, V6.2, V6.6
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np

from proofs.proving.kernel.evidence import columns
from proofs.proving.kernel.memory import Column, KernelMemory, Named, lifetime_columns
from proofs.proving.obligations.context import Context
from tmmu.core import children, folders

PARTS = (
    "nothing", "placed", "no_live_overlap", "tensor_ok", "step_ok", "loop_ok", "sharing_is_sound", "kept_apart",
    "exclusive_ok",
)  # fmt: skip
"""The parts of `Check.check` and `Check.check_lifetimes`, by the number that the program prints if one fails."""
Kind = Literal["accesses", "lifetimes"]
FIRST = re.compile(r"(accepted|rejected) (accesses|lifetimes) ([0-9a-f]{64})(?: ([0-8]))?")
CLAIM = r"(true|false|unclaimed)"
WHOLE = tuple(re.compile(f"{what} {CLAIM}") for what in ("slots", "footprints", "inputs"))
ARENA = re.compile(f"arena ([0-9]{{1,10}}) fewest_slots {CLAIM} least_footprint {CLAIM}")
HOLDS = {"true": True, "false": False, "unclaimed": None}


@dataclass(frozen=True)
class KernelAnswer:
    """The kernel's answer: accepted, rejected (`part` names the part of the check that failed), or neither.

    `failure` is the reason for neither. For an accepted plan, each claim is True if it holds by the kernel's theorem,
    False if the kernel cannot show it, and None if the plan does not make it. The claims are `slots`, `footprints`,
    `inputs` (that all inputs are kept) and, for each arena, `fewest_slots` and `least_footprint`.
    """

    accepted: bool = False
    rejected: bool = False
    part: str = ""
    failure: str = ""
    slots: bool | None = None
    footprints: bool | None = None
    inputs: bool | None = None
    fewest_slots: tuple[bool | None, ...] = ()
    least_footprint: tuple[bool | None, ...] = ()


def ask(program: Path, context: Context, digest: bytes, timeout_s: float) -> KernelAnswer:
    """Ask about a plan that passed the gate. Raises `NotExpressed`, never for a fault of the program. O(n log n)."""
    return ask_words(program, _numbers(columns(context, digest)), digest, timeout_s)


def ask_lifetimes(program: Path, memory: KernelMemory, digest: bytes, timeout_s: float) -> KernelAnswer:
    """Ask about lifetimes without accesses, from which nothing follows about runs. O(n log n). spec: V6.6"""
    return ask_words(program, _numbers(lifetime_columns(memory, digest)), digest, timeout_s, "lifetimes")


def _numbers(named: list[Named]) -> Iterator[Column]:
    """Yield the columns in turn and release each."""
    while named:
        yield named.pop(0)[1]


def ask_words(
    program: Path, row: Iterable[Column], digest: bytes, timeout_s: float, kind: Kind = "accesses"
) -> KernelAnswer:
    """Ask about a row of words, given in parts of any length. It should be of this kind."""
    try:
        with tempfile.TemporaryFile(dir=folders.temporary_folder()) as file:
            for stretch in row:
                file.write(np.ascontiguousarray(stretch, "<u8").data)  # the program maps it, from its first byte
            file.flush()
            code, output, errors = _run(program, file, timeout_s)
    except subprocess.TimeoutExpired:
        return KernelAnswer(failure=f"no answer within {timeout_s:g} s")
    except OSError as error:
        return KernelAnswer(failure=f"it cannot be run: {error.strerror}")
    if code:
        last_line = (errors.strip().splitlines() or [f"exit code {code}"])[-1]
        return KernelAnswer(failure=f"it ended without an answer: {last_line[:200]}")
    return _parsed(output.splitlines(), digest, kind)


def _run(program: Path, words: IO[bytes], timeout_s: float) -> tuple[int, str, str]:
    """Return the program's exit code and output. It ends with this process."""
    done = children.run([program], stdin=words, timeout=timeout_s)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def _parsed(lines: list[str], digest: bytes, kind: Kind) -> KernelAnswer:
    first = FIRST.fullmatch(lines[0]) if lines else None
    if first is None or (first[1] == "rejected") != (first[4] is not None):
        return KernelAnswer(failure="its answer is not understood")
    if (first[2], first[3]) != (kind, digest.hex()):
        return KernelAnswer(failure="its answer is for another file")
    if first[4] is not None:
        return KernelAnswer(rejected=True, part=PARTS[int(first[4])])
    whole = [pattern.fullmatch(line) for pattern, line in zip(WHOLE, lines[1:], strict=False)]
    arenas = [ARENA.fullmatch(line) for line in lines[1 + len(WHOLE) :]]
    if len(whole) < len(WHOLE) or None in whole or any(a is None or int(a[1]) != i for i, a in enumerate(arenas)):
        return KernelAnswer(failure="its claims are not understood")
    slots, footprints, inputs = (HOLDS[match[1]] for match in whole if match is not None)
    fewest, least = (tuple(HOLDS[match[k]] for match in arenas if match is not None) for k in (2, 3))
    return KernelAnswer(
        True, slots=slots, footprints=footprints, inputs=inputs, fewest_slots=fewest, least_footprint=least
    )
