"""XLA's plans: what is proved never corrupts a run, whatever branches, iterations and orders of elements it takes; and
no bytes crash a reader.

Programs are small modules with fusions, loops, conditionals, calls and tuples, at slices of which some are wrong and
some are an operand's; the oracle reads them by itself and runs them (`tests/support/hlo_machine.py`).
spec: FP2.4, FP4.3 to FP4.8, FP4.10, FP4.13 to FP4.15
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.readers.plans import formats, xla
from proofs.verify.checks import Subject, violations
from tests.support import hlo, hlo_programs, hlo_reading
from tests.support.hlo_machine import Corrupted, Machine
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "foreign"
DUMPS = sorted((CORPUS / "proved").glob("xla-[as]*/*-buffer-assignment.txt")) + sorted(
    (CORPUS / "refuted").glob("xla-swap*/*-buffer-assignment.txt")
)


def verdict(text: str, assigned: str) -> str:
    """What the naive checker and the reader say of a dump; a solver would agree, or say less."""
    stated = hlo.flat(text, assigned)
    assert stated.reading is not None
    if next(iter(violations(Subject(stated, None, frozenset(stated.reading.donated)))), None) is not None:
        return "REFUTED"
    return "UNKNOWN" if stated.reading.undecided else "PROVED"


def is_corrupted(text: str, assigned: str, runs: int) -> bool:
    """Whether one of some runs, with branches, iterations and orders of all kinds, reads what is not there."""
    program, buffers = hlo_reading.program(text), hlo_reading.buffers(assigned)
    for seed in range(runs):
        try:
            Machine(program, buffers, random.Random(seed)).run()
        except Corrupted:
            return True
    return False


@given(st.integers(0, 2**32))
def test_what_is_proved_is_never_corrupted(seed: int) -> None:
    text, assigned = hlo_programs.program(random.Random(seed))
    if verdict(text, assigned) == "PROVED":
        assert not is_corrupted(text, assigned, 8)


@given(st.integers(0, 2**32))
def test_an_edited_dump_that_is_proved_is_never_corrupted(seed: int) -> None:
    """Most edits are refused: what is left reads as another program, or as another assignment."""
    rng = random.Random(seed)
    dump = hlo_programs.edited(rng, hlo_programs.program(rng))
    with contextlib.suppress(TmmuError):
        if verdict(*dump) == "PROVED":
            assert not is_corrupted(*dump, 4)


def test_programs_are_proved_and_refuted_and_the_oracle_finds_corruption() -> None:
    """The tests before could not fail if nothing were proved, or if the oracle accepted everything.

    A refuted program need not be corrupted in a few runs: elements may be equal by chance, results that share bytes may
    never be read, and a branch or a loop may not have run.
    """
    found: Counter[tuple[str, bool]] = Counter()
    denied = 0
    for seed in range(80):
        text, assigned = hlo_programs.program(random.Random(seed))
        found[verdict(text, assigned), is_corrupted(text, assigned, 4)] += 1
        reading = hlo.flat(text, assigned).reading
        denied += bool(reading and reading.denied)
    assert found["PROVED", True] == 0
    assert found["PROVED", False] >= 20, found
    assert found["REFUTED", True] >= 20, found
    assert found["UNKNOWN", True] + found["UNKNOWN", False] >= 1, found
    assert denied >= 5


@given(st.data())
def test_any_bytes_are_a_plan_or_one_refusal(data: st.DataObject) -> None:
    """Edits by byte, by word and by line of dumps, in either file."""
    path = data.draw(st.sampled_from(DUMPS))
    texts = [path.with_name(path.name.removesuffix(xla.SUFFIX) + ".txt").read_bytes(), path.read_bytes()]
    which = data.draw(st.integers(0, 1))
    text = bytearray(texts[which])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(text) - 1)))
        end = min(len(text), at + data.draw(st.integers(0, 40)))
        text[at:end] = data.draw(
            st.binary(max_size=8)
            | st.sampled_from(
                [b"{", b"}", b"(", b")", b",", b"%", b"\n", b'"', b"99999999999999999999", b"{0}", b"[-1]"]
            )
        )
    texts[which] = bytes(text)
    refusal = None
    try:
        assigned = xla.read_assignment(Source("a", texts[1]))
        formats.file.pass_gate(*xla.flatten(Source("m", texts[0]), assigned))
    except TmmuError as error:
        refusal = error
    assert refusal is None or (refusal.code_id, refusal.file in ("a", "m")) == ("INVALID_PLAN", True), refusal


@pytest.mark.parametrize(
    "text", ["", "BufferAssignment:", "BufferAssignment:\n value: <0 x @0> (size=1,offset=0): u8[]"]
)
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(TmmuError, match="INVALID_PLAN"):
        hlo.flat(hlo.module("m: ROOT %r = s32[] parameter(0)"), text)
