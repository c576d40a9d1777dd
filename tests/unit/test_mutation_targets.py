"""The mutation test covers what decides, and what it argues away is there: each module, each test, each change."""

from __future__ import annotations

from tests.nightly.mutation.argued import argued
from tests.nightly.mutation.mutants import mutants
from tests.nightly.mutation.running import ROOT
from tests.nightly.mutation.targets import LEFT_OUT, TARGETS

DECIDING = ("proofs", "tmmu/planner", "tmmu/importers", "tmmu/ir", "tmmu/plans", "tmmu/core")


def names_of(path: str) -> list[str]:
    return [mutant.name for mutant in mutants((ROOT / path).read_text())]


def test_every_module_that_decides_anything_is_a_target_or_left_out_with_a_reason() -> None:
    paths = [str(path.relative_to(ROOT)) for folder in DECIDING for path in (ROOT / folder).rglob("*.py")]
    others = [path for path in paths if path not in TARGETS and not path.startswith(tuple(LEFT_OUT))]
    assert [path for path in others if names_of(path)] == []


def test_every_file_that_is_named_exists() -> None:
    for path in (*TARGETS, *LEFT_OUT, *(test for tests in TARGETS.values() for test in tests)):
        assert (ROOT / path).exists(), path
    assert all(TARGETS.values())


def test_every_mutant_that_is_argued_away_exists_and_has_a_reason() -> None:
    known = argued()
    there = {path: set(names_of(path)) for path in {path for path, _ in known}}
    assert [key for key in known if key[1] not in there[key[0]]] == []
    assert all(len(why) > 30 for why in known.values())
