"""The machines of `tla/` for all sizes: each file of lemmas on a module proves its invariant, action by action.

spec: V4.9
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from proofs.model_check import manifest
from proofs.proving.lemmas.engine import proving
from proofs.proving.lemmas.engine.family import Family, mutants_of, statements_of
from proofs.proving.lemmas.families import FAMILIES

ROOT = Path(__file__).parents[3]
MODULE = re.compile(r"`(tla/\w+/\w+\.tla)`")


def machines() -> dict[str, str]:
    """The module of `tla/` that a file of lemmas names in its head, by the file."""
    heads = {file: import_module(f"proofs.proving.lemmas.{file.replace('/', '.')}").__doc__ or "" for file in FAMILIES}
    return {file: named[1] for file, head in heads.items() if (named := MODULE.search(head))}


def table() -> str:
    return (ROOT / "tla" / "README.md").read_text("utf-8").split("| module | lemmas | for all sizes |")[1]


def test_each_lemma_file_names_a_module_that_is_there_and_the_table_names_both() -> None:
    assert len(machines()) >= 17
    for file, module in machines().items():
        assert (ROOT / module).is_file()
        name, stem = Path(module).stem, FAMILIES[file].stem
        assert (
            f"| [`{name}`]({module.removeprefix('tla/')}) | [`{stem}`](../proofs/proving/lemmas/{file}.py) |" in table()
        )


def test_every_module_has_a_row_with_its_lemma_or_the_reason_why_it_has_none() -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\((.+)\) \| (.+) \| (.+) \|$", table().split("\n\n")[0], re.MULTILINE)
    proved = set(machines().values())
    assert [name for name, *_ in rows] == [
        module.name for module in manifest.read_manifest(manifest.installed_folder())
    ]
    for name, path, lemma, words in rows:
        assert (ROOT / "tla" / path).is_file()
        assert (f"tla/{path}" in proved) == lemma.startswith("[`"), name
        assert lemma != "none" or words.startswith("nothing to prove: "), name


@pytest.mark.parametrize("file", [*machines(), "systems/totals"])
def test_invariants_are_inductive_for_all_sizes_and_every_mutant_breaks_one(file: str) -> None:
    family = FAMILIES[file]
    reports = list(proving.prove_all([family]))
    assert [report.name for report in reports] == [lemma.name for lemma in family.lemmas]
    for report, lemma in zip(reports, family.lemmas, strict=True):
        assert (report.verdict, report.open) == (proving.PROVED, [])
        assert list(report.mutants_refuted) == mutants_of(lemma)


@pytest.mark.parametrize(
    ("file", "statement", "hypothesis"),
    [
        ("quota", "Commit", "(forall ((a Arena)) (mapped x a))"),
        ("pool_generations", "Write", "(distinct g h)"),
        ("alias_references", "a_tensor_that_is_made_finds_its_bytes_available", "(=> (live t) (= holder (home t)))"),
        ("write_locks", "Take", "(=> (queued t a) (not (locks t a)))"),
        ("sealed_log", "Crash", "(=> (< 0 renamed) named)"),
        ("sealed_records", "what_is_accepted_is_what_was_written", "(distinct (trailer m) (- 1))"),
        ("cache_growth", "Switch", "(= (token h p) (next (place larger h p)))"),
        ("mapped_regions", "Place", "(distinct r t)"),
        ("eviction", "Evict", "(= k (place (page k)))"),
        ("delta_encoding", "Extend", "(= (near j)"),
        ("plan_lifecycle", "Rename", "aside_plan loaded"),
        ("sessions", "each_sample_is_of_its_own_step", "(or (= (output s) (asked s)) (and (< completed"),
        ("ranks", "what_was_gathered_is_the_whole_tensor", "(from_here r c)"),
        ("bodies", "GoRound", "(=> carries (and"),
    ],
)
def test_without_one_hypothesis_a_proof_does_not_go_through(file: str, statement: str, hypothesis: str) -> None:
    found = [each for lemma in FAMILIES[f"systems/{file}"].lemmas for each in statements_of(lemma)]  # type: ignore[arg-type]
    (whole,) = [each for each in found if each.name == statement]
    less = tuple(each for each in whole.hypotheses if hypothesis not in each)
    assert len(less) == len(whole.hypotheses) - 1
    (report,) = proving.prove_all([Family("here", (whole._replace(hypotheses=less, mutants=()),))], timeout_s=3)
    assert report.solvers["z3"] != proving.PROVED
    assert report.verdict != proving.PROVED
