"""Ask the installed program: it reads a plan file and words beside it, and returns its answer.

The program decodes the file's bytes itself, and prints the SHA-256 that it computes of them and the kind of the plan.
Both must be the expected ones. A missing, late or malformed answer is a failure with its reason, whatever happens to
the process; it neither accepts nor rejects. spec: V6.1, V6.2, V6.6, V6.16, V6.23, RE6.3
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np

from proofs.proving.kernel.evidence import file_columns
from proofs.proving.kernel.memory import Column, KernelMemory, Named, lifetime_evidence
from proofs.proving.kernel.streams import StepStreams, stream_columns
from proofs.proving.obligations.context import Context
from tmmu.core import children, folders
from tmmu.plans import file
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import BufferPlan, Plan

PARTS = (
    "nothing", "placed", "no_live_overlap", "tensor_ok", "step_ok", "loop_ok", "sharing_is_sound", "kept_apart",
    "exclusive_ok", "stated", "straight", "step_ordered", "accesses_ordered", "version_ok",
)  # fmt: skip
"""The parts of `Check.check` and `Check.check_lifetimes`, by the number that the program prints if one fails. `stated`
is that the bytes state a plan. The last four are of `Races.races_ok`.
"""
Kind = Literal["accesses", "lifetimes", "streams"]
FIRST = re.compile(r"(accepted|rejected) (accesses|lifetimes|streams) ([0-9a-f]{64})(?: ([0-9]|1[0-3]))?")
CLAIM = r"(true|false|unclaimed)"
WHOLE = tuple(re.compile(f"{what} {CLAIM}") for what in ("slots", "footprints", "inputs", "symbolic"))
ARENA = re.compile(f"arena ([0-9]{{1,10}}) fewest_slots {CLAIM} least_footprint {CLAIM}")
HOLDS = {"true": True, "false": False, "unclaimed": None}


@dataclass(frozen=True)
class KernelAnswer:
    """The kernel's answer: accepted, rejected (`part` names the part of the check that failed), or neither.

    `failure` is the reason for neither. For an accepted plan, each claim is True if it holds by the kernel's theorem,
    False if the kernel cannot show it, and None if the plan does not make it. The claims are `slots`, `footprints`,
    `inputs` (that all inputs are kept), `symbolic` (that offsets follow from slots at every shape) and, for each arena,
    `fewest_slots` and `least_footprint`.
    """

    accepted: bool = False
    rejected: bool = False
    part: str = ""
    failure: str = ""
    slots: bool | None = None
    footprints: bool | None = None
    inputs: bool | None = None
    symbolic: bool | None = None
    fewest_slots: tuple[bool | None, ...] = ()
    least_footprint: tuple[bool | None, ...] = ()


@dataclass(frozen=True)
class PlanFile:
    """The bytes of a plan file: how to write a copy of them to a stream, and their SHA-256.

    The copy is written for the program. As it computes its digest, a copy that differs is noticed.
    """

    write: Callable[[IO[bytes]], object]
    sha256: bytes

    @classmethod
    def of(cls, plan: Plan | BufferPlan) -> PlanFile:
        """Return the file that a plan would be written to, with its true hashes. O(plan)."""
        data = file.encode(plan)
        return cls(lambda stream: stream.write(data), hashlib.sha256(data).digest())

    @classmethod
    def as_read(cls, stated: StatedPlan | StatedBuffers) -> PlanFile:
        """Return the file that a plan was read from, with the hashes that it states."""
        return cls(lambda stream: file.write_stated(stated, stream), stated.sha256)


def ask(program: Path, context: Context, of: PlanFile, timeout_s: float) -> KernelAnswer:
    """Ask about a plan that passed the gate. Raises `NotExpressed`, never for a fault of the program. O(n log n)."""
    return _ask(program, _numbers(file_columns(context)), of.sha256, timeout_s, "accesses", of)


def ask_lifetimes(program: Path, memory: KernelMemory, of: PlanFile, timeout_s: float) -> KernelAnswer:
    """Ask about lifetimes without accesses, from which nothing follows about runs. O(n log n). spec: V6.6"""
    return _ask(program, _numbers(lifetime_evidence(memory)), of.sha256, timeout_s, "lifetimes", of)


def ask_streams(program: Path, context: Context, streams: StepStreams, of: PlanFile, timeout_s: float) -> KernelAnswer:
    """Ask about a plan that passed the gate and whose steps run on these streams.

    Raises as `ask` and `stream_columns` do. spec: V6.25
    """
    words, beside = _numbers(file_columns(context)), _numbers(stream_columns(context, streams))
    return _ask(program, words, of.sha256, timeout_s, "streams", of, beside)


def _numbers(named: list[Named]) -> Iterator[Column]:
    """Yield the columns in turn and release each."""
    while named:
        yield named.pop(0)[1]


def ask_words(
    program: Path, row: Iterable[Column], digest: bytes, timeout_s: float, kind: Kind = "accesses"
) -> KernelAnswer:
    """Ask about a plan that a row of words describes whole, given in parts of any length.

    It should be of this kind. The program repeats the digest among the words.
    """
    return _ask(program, row, digest, timeout_s, kind)


def _ask(
    program: Path,
    row: Iterable[Column],
    digest: bytes,
    timeout_s: float,
    kind: Kind,
    of: PlanFile | None = None,
    streams: Iterable[Column] | None = None,
) -> KernelAnswer:
    output, failure = run_program([program], row, [] if of is None else [of], timeout_s, streams)
    return KernelAnswer(failure=failure) if failure else _parsed(output.splitlines(), digest, kind)


def run_program(
    command: Sequence[Path | str],
    row: Iterable[Column],
    files: Sequence[PlanFile],
    timeout_s: float,
    streams: Iterable[Column] | None = None,
) -> tuple[str, str]:
    """Run the program with copies of the files behind the command, and words as input, given in parts of any length.

    Words about streams, if there are any, are in a file behind the others.

    Returns its output and "", or anything and the reason for which it has no answer.
    """
    command = list(command)
    try:
        with contextlib.ExitStack() as stack:
            words = stack.enter_context(tempfile.TemporaryFile(dir=folders.temporary_folder()))
            _write(words, row)
            for of in files:
                copy = stack.enter_context(tempfile.NamedTemporaryFile(dir=folders.temporary_folder()))
                of.write(copy)
                copy.flush()
                command.append(copy.name)
            if streams is not None:
                beside = stack.enter_context(tempfile.NamedTemporaryFile(dir=folders.temporary_folder()))
                _write(beside, streams)
                command.append(beside.name)
            code, output, errors = _run(command, words, timeout_s)
    except subprocess.TimeoutExpired:
        return "", f"no answer within {timeout_s:g} s"
    except OSError as error:
        return "", f"it cannot be run: {error.strerror}"
    if code:
        last_line = (errors.strip().splitlines() or [f"exit code {code}"])[-1]
        return "", f"it ended without an answer: {last_line[:200]}"
    return output, ""


def _write(stream: IO[bytes], row: Iterable[Column]) -> None:
    """Write words to a file that the program maps, from its first byte."""
    for stretch in row:
        stream.write(np.ascontiguousarray(stretch, "<u8").data)
    stream.flush()


def _run(command: Sequence[Path | str], words: IO[bytes], timeout_s: float) -> tuple[int, str, str]:
    """Return the program's exit code and output. It ends with this process."""
    done = children.run(command, stdin=words, timeout=timeout_s)
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
    slots, footprints, inputs, symbolic = (HOLDS[match[1]] for match in whole if match is not None)
    fewest, least = (tuple(HOLDS[match[k]] for match in arenas if match is not None) for k in (2, 3))
    return KernelAnswer(
        True, slots=slots, footprints=footprints, inputs=inputs, symbolic=symbolic, fewest_slots=fewest,
        least_footprint=least,
    )  # fmt: skip
