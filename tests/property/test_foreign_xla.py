"""XLA's plans: what is proved never corrupts a run, whatever arms and iterations it takes; and no bytes crash a reader.

Programs are small modules with loops, conditionals, calls and tuples, at slices of which some are wrong; the oracle
runs them (`tests/support/hlo_machine.py`). spec: FP2.4, FP4.3 to FP4.6, FP4.8, FP4.10
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from itertools import repeat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.readers.plans import formats, xla
from proofs.verify.checks import Subject, violations
from tests.support import hlo, hlo_programs
from tests.support.hlo_machine import Corrupted, Machine
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "foreign"
DUMPS = sorted((CORPUS / "proved").glob("xla-[as]*/*-buffer-assignment.txt")) + sorted(
    (CORPUS / "refuted").glob("xla-swap*/*-buffer-assignment.txt")
)


def is_proved(text: str, assigned: str) -> bool:
    """Whether the naive checker finds nothing wrong with what the reader makes of a dump."""
    stated = hlo.flat(text, assigned)
    assert stated.reading is not None
    donated = frozenset(stated.reading.donated)
    return next(iter(violations(Subject(stated, None, donated))), None) is None


def is_corrupted(text: str, assigned: str, runs: int) -> bool:
    """Whether one of some runs, with arms and iterations of all kinds, reads what is not there."""
    module, assignment = hlo.parsed(text), xla.assigned(Source("a", assigned.encode()))
    choices = [repeat(k) for k in range(4)]
    choices += [iter(random.Random(seed).choices(range(4), k=5000)) for seed in range(runs)]
    for each in choices:
        try:
            Machine(module, assignment, iter(each)).run()
        except Corrupted:
            return True
    return False


@given(st.integers(0, 2**32))
def test_what_is_proved_is_never_corrupted(seed: int) -> None:
    text, assigned = hlo_programs.program(random.Random(seed))
    if is_proved(text, assigned):
        assert not is_corrupted(text, assigned, 12)


@given(st.integers(0, 2**32))
def test_an_edited_dump_that_is_proved_is_never_corrupted(seed: int) -> None:
    """Most edits are refused: what is left reads as another program, or as another assignment."""
    rng = random.Random(seed)
    dump = hlo_programs.edited(rng, hlo_programs.program(rng))
    with contextlib.suppress(TmmuError):
        if is_proved(*dump):
            assert not is_corrupted(*dump, 6)


def test_programs_are_proved_and_refuted_and_the_oracle_finds_corruption() -> None:
    """The test before could not fail if all programs were refuted, or if the oracle accepted them all.

    What is refuted is corrupted in some run, but where two results that are never read share bytes.
    """
    found: Counter[tuple[bool, bool]] = Counter()
    for seed in range(60):
        text, assigned = hlo_programs.program(random.Random(seed))
        found[is_proved(text, assigned), is_corrupted(text, assigned, 4)] += 1
    assert found[True, True] == 0
    assert found[False, False] <= 2
    assert min(found[True, False], found[False, True]) >= 15, found


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
        assigned = xla.assigned(Source("a", texts[1]))
        formats.file.gated(*xla.flattened(Source("m", texts[0]), assigned))
    except TmmuError as error:
        refusal = error
    assert refusal is None or (refusal.code_id, refusal.file in ("a", "m")) == ("INVALID_PLAN", True), refusal


@pytest.mark.parametrize(
    "text", ["", "BufferAssignment:", "BufferAssignment:\n value: <0 x @0> (size=1,offset=0): u8[]"]
)
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(TmmuError, match="INVALID_PLAN"):
        hlo.flat("HloModule m, is_scheduled=true\n\nENTRY %m () -> () {\n}\n", text)
