"""Random wrappers of Inductor's form, judged by the reader and run by an executor that reads no text of theirs.

spec: FP8.11, FP8.12
"""

from __future__ import annotations

from collections import Counter

from proofs.readers.plans import formats
from proofs.verify.checks import Subject, violations
from tests.support.inductor_programs import is_corrupted, random_program, text_of
from tmmu.core.source import Source

TRIES = 150


def verdict(text: str) -> str:
    stated = formats.read_through_gate(formats.BY_KIND["inductor"], Source("m.inductor", text.encode()))
    assert stated.reading is not None
    if next(iter(violations(Subject(stated, None, frozenset(stated.reading.donated)))), None) is not None:
        return "REFUTED"
    return "UNKNOWN" if stated.reading.undecided else "PROVED"


def test_a_plan_that_corrupts_is_never_proved() -> None:
    """spec: FP8.11, FP8.12"""
    found: Counter[tuple[str, bool, bool]] = Counter()
    for seed in range(TRIES):
        program = random_program(seed)
        text = text_of(program)
        said, corrupted = verdict(text), is_corrupted(program, seed)
        assert (said, corrupted) != ("PROVED", True), (seed, text)
        assert program.hazards or said == "PROVED", (seed, said, text)
        found[said, corrupted, bool(program.hazards)] += 1
    # Programs of each kind occur, and most that are refuted or undecided compute something else in the pool.
    assert min(found["PROVED", False, False], found["REFUTED", True, True], found["UNKNOWN", True, True]) > 4, found
