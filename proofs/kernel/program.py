"""Asking the installed program: a plan in, its yes or no out, whatever happens to the process in between.

The program answers for the digest that stands among the words, and the answer must repeat it. No answer, a late one
or one that is not understood is a failure with its reason, never a yes and never a no. spec: V6.1, V6.2
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from proofs.kernel.evidence import Words, words
from proofs.readers.sharing import Permissions
from tmmu.plan.sections import Plan

PARTS = (
    "nothing", "placed", "no_live_overlap", "tensor_ok", "step_ok", "loop_ok", "sharing_is_sound", "kept_apart",
)  # fmt: skip
"""The parts of `Check.check`, by the number with which the program complains."""
YES = re.compile(r"yes ([0-9a-f]{64})")
NO = re.compile(r"no ([0-9a-f]{64}) ([0-7])")
CLAIMS = re.compile(r"arena (\d+) slots (true|false) footprint (true|false)")


@dataclass(frozen=True)
class Answer:
    """What the kernel said: yes, no (and `part` names which part of the check), or nothing, with `failure` as reason.

    `fewest_slots` and `least_footprint` say for each arena whether the theorems on optimality hold of it.
    """

    yes: bool = False
    no: bool = False
    part: str = ""
    failure: str = ""
    fewest_slots: tuple[bool, ...] = ()
    least_footprint: tuple[bool, ...] = ()


def ask(
    program: Path, plan: Plan, permissions: Permissions, donated: frozenset[str], digest: bytes, timeout_s: float
) -> Answer:
    """Ask about a plan that passed the gate. Never raises for what the program does. O(n log n)."""
    return ask_words(program, words(plan, permissions, donated, digest), digest, timeout_s)


def ask_words(program: Path, row: Words, digest: bytes, timeout_s: float) -> Answer:
    """Ask about a row of words as it is."""
    with tempfile.TemporaryFile() as file:
        row.astype("<u8").tofile(file)  # the program maps it, from its first byte
        try:
            done = subprocess.run(
                [str(program)], stdin=file, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            return Answer(failure=f"no answer within {timeout_s:g} s")
        except OSError as error:
            return Answer(failure=f"it cannot be run: {error.strerror}")
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Answer(failure=f"it ended without an answer: {said[:200]}")
    return _understood(done.stdout.splitlines(), digest)


def _understood(lines: list[str], digest: bytes) -> Answer:
    first = lines[0] if lines else ""
    yes, no = YES.fullmatch(first), NO.fullmatch(first)
    answered = yes or no
    if answered is None or answered[1] != digest.hex():
        return Answer(failure="its answer is not understood, or is for another file")
    if no is not None:
        return Answer(no=True, part=PARTS[int(no[2])])
    arenas = [CLAIMS.fullmatch(line) for line in lines[1:]]
    if any(arena is None or int(arena[1]) != i for i, arena in enumerate(arenas)):
        return Answer(failure="its claims are not understood")
    columns = [tuple(arena[k] == "true" for arena in arenas if arena is not None) for k in (2, 3)]
    return Answer(yes=True, fewest_slots=columns[0], least_footprint=columns[1])
