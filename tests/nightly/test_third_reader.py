"""SMTInterpol, which shares no code with Z3 and cvc5: it reads what `--smt2` writes, and its proofs are checked.

A damaged proof is refused, and so is one of another query.
spec: V4.12, C4.3, C4.5
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from proofs.proving.lemmas import families
from proofs.proving.lemmas.engine import checked
from proofs.proving.solvers import smtinterpol
from proofs.proving.solvers.process import Z3
from proofs.proving.solvers.smtinterpol import SMTInterpol
from proofs.verify.entry import run
from tests.support.text_models import text_model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file

LEMMAS = families.by_name()
OF_ROWS = ("tenancy", "layout", "level", "holding", "tiling", "column", "clique_bound")
"""The files whose lemmas all have a checked proof: those that carry rows to properties, and the clique bound."""


@pytest.fixture(scope="module")
def tool() -> SMTInterpol:
    """The extra `java`, which the tests have, brings Java and what fetches the archive, as for TLC."""
    return smtinterpol.find_smtinterpol()


@pytest.mark.parametrize("name", [name for name, (family, _) in LEMMAS.items() if family.stem in OF_ROWS])
def test_every_lemma_of_the_rows_has_a_proof_that_is_checked(name: str, tool: SMTInterpol, tmp_path: Path) -> None:
    """spec: V4.12"""
    family, lemma = LEMMAS[name]
    found = checked.check_proofs(family, lemma, tool, tmp_path, 60)
    assert found.verdict == checked.CHECKED, found.detail


@pytest.mark.parametrize(
    "name",
    ["no_tile_is_written_while_another_thread_accesses_it", "what_an_iteration_makes_is_live_until_it_is_read_there"],
)
def test_statements_with_and_without_quantifiers_have_some_too(name: str, tool: SMTInterpol, tmp_path: Path) -> None:
    family, lemma = LEMMAS[name]
    assert checked.check_proofs(family, lemma, tool, tmp_path, 60).verdict == checked.CHECKED


@pytest.fixture(scope="module")
def proof(tool: SMTInterpol, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The queries of a lemma, and their proofs."""
    folder = tmp_path_factory.mktemp("proof")
    family, lemma = LEMMAS["at_most_one_tenant"]
    assert checked.check_proofs(family, lemma, tool, folder, 60).verdict == checked.CHECKED
    return folder / "at_most_one_tenant.smt2", folder / "at_most_one_tenant.proof"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"farkas 1 ", "farkas 2 "),  # other factors of what is added up
        (r"\(=\+1 ", "(=+2 "),  # another axiom
        (r"\(assume ", "(oracle "),  # steps on trust
        (r"(?s)(.{600}).*", r"\1"),  # cut off
        (r"(?m)^\(!.*$", ""),  # the answers alone
        (r"(?m)\Aunsat\n.*\n", ""),  # the first proof left out
    ],
)
def test_a_damaged_proof_is_refused(
    old: str, new: str, proof: tuple[Path, Path], tool: SMTInterpol, tmp_path: Path
) -> None:
    """spec: V4.12"""
    asked, right = proof
    assert tool.check(asked, 2, right).failure == ""
    damaged = tmp_path / "damaged.proof"
    damaged.write_text(re.sub(old, new, right.read_text()))
    assert right.read_text() != damaged.read_text()
    said = tool.check(asked, 2, damaged)
    assert said.failure.startswith(("the checker answers", "it ended with"))


def test_a_right_proof_of_another_query_is_refused(proof: tuple[Path, Path], tool: SMTInterpol, tmp_path: Path) -> None:
    other = tmp_path / "other.smt2"
    other.write_text(checked.proof_script(*LEMMAS["nothing_lives_before_its_turn"])[0])
    said = tool.check(other, 2, proof[1])
    assert (said.failure, said.wrong) == ("the checker answers invalid", True)


def test_a_lemma_that_is_false_has_no_proof(tool: SMTInterpol, tmp_path: Path) -> None:
    family, lemma = LEMMAS["no_tile_is_written_while_another_thread_accesses_it"]
    wrong = lemma._replace(goal="false")  # type: ignore[call-arg]
    assert checked.check_proofs(family, wrong, tool, tmp_path, 5).verdict == checked.NONE


HALF_TRUE = """
(set-logic ALL)(declare-const a Int)(declare-const b Int)(declare-const q Int)
(assert (<= 1 b))(assert (<= 0 a))(assert (= q (div a b)))
(push 1)(assert (not (<= (* q b) a)))(check-sat)(pop 1)
(push 1)(assert (not (<= 0 q)))(check-sat)(pop 1)
"""
"""Two questions without a model: a quotient times its divisor, and a quotient, of numbers that are not negative."""


def test_that_it_answers_sat_is_no_word_against_a_lemma(tool: SMTInterpol, tmp_path: Path) -> None:
    """It says so of a question without a model, behind one that it could not answer."""
    asked = tmp_path / "asked.smt2"
    asked.write_text(HALF_TRUE)
    command = [tool.java, *smtinterpol.MACHINE, "-jar", str(tool.archive), "-no-success", "-q", str(asked)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout.split()
    assert said == ["unknown", "sat"]
    with Z3() as z3:
        assert z3.evaluate(HALF_TRUE, 60).text.split() == ["unsat", "unsat"]
    family, lemma = LEMMAS["each_index_has_a_rank"]
    assert checked.check_proofs(family, lemma, tool, tmp_path, 5).verdict == checked.NONE


CHAIN = text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node add Add a b -> y")


@pytest.mark.parametrize("layout", ["slots", "packed"])
def test_it_reads_what_is_written_of_a_plan_and_answers_the_same(
    layout: str, tool: SMTInterpol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C4.3"""
    monkeypatch.chdir(tmp_path)
    file.save(plan_memory(CHAIN, options=PlanOptions(layout=layout)).plan, tmp_path / "chain.plan.cbor")
    assert run(["chain.plan.cbor", "--smt2", "out"]) == 0
    for path in sorted((tmp_path / "out/chain").iterdir()):
        command = [tool.java, *smtinterpol.MACHINE, "-jar", str(tool.archive), "-no-success", "-q", str(path)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout.split()
        stated = re.findall(r"\(set-info :status (\w+)\)\s*\(check-sat\)", path.read_text())
        assert said == stated, path
