"""The machines of `tla/` for all sizes: each lemma file that speaks of a module proves its invariant step by step.

spec: V4.9
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from proofs.lemmas import families, proving
from proofs.model_check import manifest

ROOT = Path(__file__).parents[3]
MODULE = re.compile(r"`(tla/\w+/\w+\.tla)`")


def machines() -> dict[str, str]:
    """The module of `tla/` that a lemma file names in its head, by the file's name."""
    found = {}
    for file in families.STATEMENTS:
        head = import_module(f"proofs.lemmas.{file}").__doc__ or ""
        if named := MODULE.search(head):
            found[file] = named[1]
    return found


def test_each_lemma_file_names_a_module_that_is_there_and_the_table_names_both() -> None:
    table = (ROOT / "tla" / "README.md").read_text("utf-8").split("| module | lemmas | for all sizes |")[1]
    assert len(machines()) >= 17
    for file, module in machines().items():
        assert (ROOT / module).is_file()
        name = Path(module).stem
        assert f"| [`{name}`]({module.removeprefix('tla/')}) | [`{file}`](../proofs/lemmas/{file}.py) |" in table


def test_every_module_has_a_row_with_its_lemma_or_the_reason_why_it_has_none() -> None:
    table = (ROOT / "tla" / "README.md").read_text("utf-8").split("| module | lemmas | for all sizes |")[1]
    rows = re.findall(r"^\| \[`(\w+)`\]\((.+)\) \| (.+) \| (.+) \|$", table.split("\n\n")[0], re.MULTILINE)
    proved = set(machines().values())
    assert [name for name, *_ in rows] == [module.name for module in manifest.read(manifest.installed())]
    for name, path, lemma, words in rows:
        assert (ROOT / "tla" / path).is_file()
        assert (f"tla/{path}" in proved) == lemma.startswith("[`"), name
        assert lemma != "none" or words.startswith("nothing to prove: "), name


@pytest.mark.parametrize("file", [*machines(), "totals"])
def test_invariants_are_inductive_for_all_sizes_and_every_mutant_breaks_one(file: str) -> None:
    reports = list(proving.prove_all([file]))
    assert [report.name for report in reports] == [statement.name for statement in families.STATEMENTS[file]]
    for report, statement in zip(reports, families.STATEMENTS[file], strict=True):
        assert (report.verdict, report.open) == (proving.PROVED, [])
        assert set(report.mutants_refuted) == {mutant.name for mutant in statement.mutants}


@pytest.mark.parametrize(
    ("file", "statement", "clause"),
    [
        ("quota", "committing_keeps_the_quota", 4),
        ("pool_generations", "a_write_leaves_the_bytes_of_other_handles", 3),
        ("alias_references", "whoever_is_made_finds_the_bytes_free", 6),
        ("pools", "opening_a_pool_keeps_the_pools", 2),
        ("write_locks", "taking_a_free_lock_keeps_the_locks", 5),
        ("sealed_records", "what_is_accepted_is_what_was_written", 5),
        ("cache_growth", "switching_loses_nothing", 6),
        ("mapped_regions", "mapping_a_region_keeps_the_regions", 6),
        ("eviction", "nobody_goes_before_a_page_that_it_dominates", 3),
        ("delta_encoding", "a_next_vector_keeps_the_rounded_records", 2),
        ("plan_lifecycle", "renaming_a_checkpoint_keeps_the_run", 12),
        ("sessions", "each_sample_is_of_its_own_step", 5),
        ("ranks", "what_was_gathered_is_the_whole_tensor", 8),
        ("bodies", "going_round_again_keeps_the_program", 9),
    ],
)
def test_without_one_hypothesis_a_proof_does_not_go_through(
    file: str, statement: str, clause: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = next(found for found in families.STATEMENTS[file] if found.name == statement)
    less = whole._replace(
        hypotheses=whole.hypotheses[:clause] + whole.hypotheses[clause + 1 :],
    )
    monkeypatch.setitem(proving.STATEMENTS, file, (less,))
    (report,) = proving.prove_all([file], timeout_s=3)
    assert report.solvers["z3"] != proving.PROVED
    assert report.verdict != proving.PROVED
