"""No name that a lemma may declare has a meaning of Z3's: every word in its library is tried, in some minutes.

spec: V4.16
"""

from __future__ import annotations

import re
from pathlib import Path

import z3

from proofs.proving.smt.sorts import BUILT_IN

FREE = "{declared}(push)(assert {first})(check-sat)(pop)(push)(assert {second})(check-sat)(pop)"
SHAPES = (
    ("(declare-const {0} Int)", "(= {0} 7)", "(= {0} 8)"),
    ("(declare-fun {0} (Int) Int)", "(= ({0} 3) 7)", "(= ({0} 3) 8)"),
    ("(declare-fun {0} (Int) Bool)", "({0} 3)", "(not ({0} 3))"),
    ("(declare-fun {0} (Int Int) Int)", "(= ({0} 3 4) 7)", "(= ({0} 3 4) 8)"),
)
"""A declaration of a name, and two statements that are satisfiable if the name means nothing else."""


def words_of_library() -> set[str]:
    """Every text in Z3's library that could be a name, and short ends of such texts: linkers store `sin` in `asin`."""
    (library,) = (Path(z3.__file__).parent / "lib").glob("libz3.so")
    found = re.findall(rb"\x00([a-zA-Z][a-zA-Z0-9_.]{1,24})(?=\x00)", library.read_bytes())
    words = {word.decode() for word in found}
    ends = {word[k:] for word in words if len(word) <= 12 for k in range(1, len(word) - 1) if word[k].isalpha()}
    return words | {end for end in ends if len(end) <= 8}


def has_own_meaning(name: str) -> bool:
    """Whether Z3 accepts a declaration of the name, and means something else by it."""
    for declared, first, second in SHAPES:
        text = FREE.format(declared=declared, first=first, second=second).format(name)
        context = z3.Context()
        try:
            answer = z3.Z3_eval_smtlib2_string(context.ref(), f"(set-option :timeout 2000){text}")
        except z3.Z3Exception:
            continue
        if "error" not in answer and answer.split() != ["sat", "sat"]:
            return True
    return False


def test_what_has_a_meaning_for_the_solver_cannot_be_declared() -> None:
    words = words_of_library()
    assert {"sin", "exp", "seq.len"} <= words
    found = {word for word in words if has_own_meaning(word)}
    assert "sin" in found
    assert found <= BUILT_IN
