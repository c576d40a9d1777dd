"""The theorem rests on nothing, by the word of Coq and of its independent checker. spec: V6.5"""

from __future__ import annotations

import re

import pytest

from proofs.proving.kernel import installed
from proofs.proving.kernel.install import CLOSED

THEOREMS = "".join((installed.SOURCES / f"{name}.v").read_text() for name in ("Theorems", "Examples"))
OPEN = re.compile(
    r"\b(" + "|".join(["Ad" + "mitted", "ad" + "mit", "Ax" + "iom", "Para" + "meter", "Conj" + "ecture"]) + r")\b"
)


@pytest.mark.checkout
def test_each_theorem_is_closed_under_the_global_context() -> None:
    """spec: V6.8, V6.20, V6.22"""
    printed = re.findall(r"^Print Assumptions (\w+)\.", THEOREMS, re.MULTILINE)
    assert printed == re.findall(r"^Theorem (\w+)", THEOREMS, re.MULTILINE)
    said = (installed.folder() / "assumptions.txt").read_text().strip().splitlines()
    assert said == [CLOSED] * len(printed)


def with_evidence(theorem: str) -> list[str]:
    """Where the statement of a theorem names a plan with evidence, except for the claims that the program confirms."""
    stated = re.sub(
        r"let m := allocation \(with_evidence p evidence\)|ClaimsHold p \(with_evidence p evidence\)", "", theorem
    )
    return re.findall(r"\b\w+ ?:?=? \(?with_evidence\b", stated.partition("Proof.")[0])


def test_a_theorem_about_the_plan_in_a_file_has_no_evidence_in_it() -> None:
    """spec: V6.22"""
    of_files = re.findall(r"^Theorem (?:\w+_of_)?accepted_\w*file\w* .*?^Proof\.", THEOREMS, re.MULTILINE | re.DOTALL)
    assert len(of_files) > 10
    assert [theorem for theorem in of_files if with_evidence(theorem)] == []
    assert with_evidence("Theorem t : exists p, let q := with_evidence p evidence in Safe q.\nProof.")


def test_no_source_leaves_a_proof_open() -> None:
    for path in sorted(installed.SOURCES.glob("*.v")):
        assert OPEN.search(path.read_text()) is None, path


@pytest.mark.parametrize("text", ["Ad" + "mitted.", "Ax" + "iom a : False.", "  ad" + "mit."])
def test_an_open_proof_would_be_noticed(text: str) -> None:
    assert OPEN.search(f"Lemma a : False. Proof.\n{text}\n")
