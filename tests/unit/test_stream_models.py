"""The streams of a plan are those of its model: the stream of each step, its waits, and the order of each stream.

spec: X5.9
"""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.definition.model.compare import differences
from proofs.definition.violations import Violation
from proofs.proving.kernel.answer import NOT_INSTALLED
from proofs.readers.models.ir import read_ir
from proofs.verify.judge import judge
from proofs.verify.options import Options, ProofFolders
from proofs.verify.verdict import BARRIERS, EXECUTION, OVERLAPPING
from tmmu.ir import text as ir_text
from tmmu.plans import file, text
from tmmu.plans.sections import Plan

MODEL = (
    "tmmu-ir-text 1\ntensor x f32 4 input\ntensor a f32 4\ntensor b f32 4\ntensor c f32 4\ntensor y f32 4 output\n"
    "node p Gemm x -> a{}\nnode q Gemm x -> b{}\nnode r Gemm x -> c{}\nnode s Sum a b c -> y{}\n"
)
PLAN = (
    "tmmu-plan-text 1\narena m 256\ntensor x 16 m 0 input type f32\ntensor a 16 m 16 type f32\n"
    "tensor b 16 m 32 type f32\ntensor c 16 m 48 type f32\ntensor y 16 m 64 output type f32\n"
)
STATED = (" on 1", " on 2", " on 2", " on 1 after q r")
STEPS = {"p": "step p Gemm x -> a", "q": "step q Gemm x -> b", "r": "step r Gemm x -> c", "s": "step s Sum a b c -> y"}


def found(model: tuple[str, ...], order: str, plan: tuple[str, ...]) -> list[Violation]:
    """Return the differences of a plan, with these words behind its steps, which are in this order."""
    read = ir_text.read(MODEL.format(*model).encode(), "m")
    words = dict(zip(STEPS, plan, strict=True))
    steps = "".join(f"{STEPS[step]}{words[step]}\n" for step in order)
    stated = text.read(f"{PLAN}{steps}".encode(), "p")
    assert isinstance(stated, Plan)
    return list(differences(stated, read_ir(read), frozenset()))


DIFFERENCES = {
    "same": ("pqrs", STATED, ()),
    "another order of the list": ("qprs", STATED, ()),
    "another stream": ("pqrs", (" on 1", " on 2", " on 3", " on 1 after q r"), ("stream of r",)),
    "no streams": ("pqrs", ("",) * 4, ("stream",)),
    "a wait less": ("pqrs", (" on 1", " on 2", " on 2", " on 1 after r"), ("waits of s",)),
    "a wait more": ("pqrs", (" on 1", " on 2 after p", " on 2", " on 1 after q r"), ("waits of q",)),
    "another order of a stream": ("prqs", STATED, ("stream-order of q",)),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENCES)
def test_streams_of_a_model_are_those_of_its_plan(name: str) -> None:
    order, words, places = DIFFERENCES[name]
    assert tuple(violation.text.partition(":")[0] for violation in found(STATED, order, words)) == places


@pytest.mark.parametrize("words", [STATED, ("",) * 4])
def test_a_model_without_streams_leaves_them_to_the_plan(words: tuple[str, ...]) -> None:
    assert found(("",) * 4, "pqrs", words) == []


@pytest.mark.parametrize("words", [STATED, ("",) * 4])
def test_a_verdict_states_how_steps_are_taken_to_run(words: tuple[str, ...]) -> None:
    """The kernel is asked about either. spec: X5.7, X5.12"""
    steps = "".join(f"{step}{word}\n" for step, word in zip(STEPS.values(), words, strict=True))
    stated = file.read_any(f"{PLAN}{steps}".encode(), "p.plan.txt")
    verdict = judge("p", stated)
    assert verdict.verdict == "PROVED"
    assert verdict.assumptions["execution"] == (OVERLAPPING if any(words) else EXECUTION)
    assert ("races" in verdict.proved) == any(words)
    if any(words):
        assert verdict.kernel["answer"] in ("accepted", NOT_INSTALLED)


@pytest.mark.parametrize(("other", "assumed"), [("2", OVERLAPPING + BARRIERS), ("1", OVERLAPPING)])
def test_a_verdict_states_that_nodes_with_bodies_are_barriers(other: str, assumed: str) -> None:
    """Step k has the bytes of t, and no event orders it after the node. spec: X5.14"""
    lines = (
        "tmmu-plan-text 1", "arena m 256", "tensor x 64 m 0 input", "tensor t 64 m 64", "tensor y 64 m 128 output",
        "tensor z 64 m 64 output", "begin n If x -> on 1", "step i Gemm x -> t", "step j Gemm t -> y", "end n ->",
        f"step k Gemm x -> z on {other}", "",
    )  # fmt: skip
    verdict = judge("p", file.read_any("\n".join(lines).encode(), "p.plan.txt"))
    assert verdict.verdict == "PROVED"
    assert verdict.assumptions["execution"] == assumed


def test_nothing_is_written_for_coq_of_a_plan_with_streams(tmp_path: Path) -> None:
    """The theorem of that file is about steps that run one after another."""
    steps = "".join(f"{step}{word}\n" for step, word in zip(STEPS.values(), STATED, strict=True))
    stated = file.read_any(f"{PLAN}{steps}".encode(), "p.plan.txt")
    verdict = judge("p", stated, Options(folders=ProofFolders(coq=str(tmp_path))))
    assert verdict.verdict == "PROVED"
    assert list(tmp_path.iterdir()) == []
    assert any("one after another" in note for note in verdict.notes)
