"""The mutation test can say yes and no, and the mutants that the specification argues away exist."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import targets
from tests.mutation.argued import argued
from tests.mutation.mutants import mutants
from tests.mutation.running import KILLED, ROOT, SURVIVED, TIMED_OUT

SOURCE = '''"""A module."""

RULE = "(define-fun f ((x Int)) Bool (and (<= 0 x) (< x 4))) ; (< not this)"


def f(x, items=()):
    """Says nothing (< 1 2)."""
    total = 3
    if x < 10 and items:
        unless = not items
        total += x
        items[0] = 1
    for item in items:
        if item is None:
            continue
        total = max(total, item)
    raise_if(x, f"{x} < 3")
    return total
'''


def names_of(source: str) -> list[str]:
    return [mutant.name for mutant in mutants(source)]


def test_places_of_every_kind_are_changed_and_texts_for_people_are_not() -> None:
    names = names_of(SOURCE)
    for name in (
        "f: x < 10 → x <= 10", "f: x < 10 → x >= 10", "f: not items → items", "f: total += x → nothing",
        "f: items[0] = 1 → nothing", "f: continue → nothing", "f: max(total, item) → min(total, item)",
        "f: return total → return None", "f: 3 → 4", "f: item is None → item is not None",
        "f: x < 10 and items → x < 10 or items", "f: x < 10 and items → x < 10",
        "f: if x < 10 and items → if False",
    ):  # fmt: skip
        assert name in names, name
    assert len([name for name in names if name.startswith("module: '(define-fun")]) == 3
    assert not any("says nothing" in name.lower() for name in names)
    assert len(set(names)) == len(names)


def test_a_mutant_is_the_source_with_one_place_changed() -> None:
    plain = ast.unparse(ast.parse(SOURCE))
    for mutant in mutants(SOURCE):
        assert mutant.source != plain
        ast.parse(mutant.source)
    assert ast.unparse(ast.parse(SOURCE)) == plain


def test_equal_places_of_one_function_are_told_apart_by_counting() -> None:
    names = names_of("def f(a):\n    return [a + 1, a + 1]\n")
    assert {"f: a + 1 → a - 1", "f: a + 1 → a - 1 (2)", "f: 1 → 2", "f: 1 → 2 (2)"} <= set(names)


def test_every_file_that_is_named_exists() -> None:
    for path, tests in targets.TARGETS.items():
        assert (ROOT / path).is_file(), path
        assert tests
        for test in tests:
            assert (ROOT / test).is_file(), test
    assert targets.tests_of("tmmu/errors.py") == ("tests/cover",)


def test_every_mutant_that_is_argued_away_exists_and_has_a_reason() -> None:
    known = argued()
    assert known
    by_file = {path: set(names_of((ROOT / path).read_text())) for path in {path for path, _ in known}}
    for (path, name), why in known.items():
        assert name in by_file[path], f"{path}: {name}"
        assert len(why) > 30


def test_a_table_of_reasons_is_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "| file | mutant | why |\n|---|---|---|\n| `a/b.py` | `` f: a \\| b → a & b `` | It is the same. |\n"
    )
    assert argued(page) == {("a/b.py", "f: a | b → a & b"): "It is the same."}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", SURVIVED),
        ("self.owner[i:j] = [tensor, self.owner[j - 1]]", "self.owner[i:j] = [tensor, self.owner[j - 2]]", KILLED),
        ("if first == end:", "while True:", TIMED_OUT),
    ],
)
def test_a_change_is_noticed_where_a_test_fails_for_it(old: str, new: str, expected: str) -> None:
    """In a process that has nothing of this project yet, as the command's."""
    program = f"""
import time
from pathlib import Path
from tests.mutation.running import ROOT, preload, start
preload()
path = "proofs/memory.py"
source = (ROOT / path).read_text().replace({old!r}, {new!r}) if {old!r} else (ROOT / path).read_text()
child = start(path, source.replace("while True:\\n            return", "while True:\\n            pass"),
              ("tests/cover/test_memory.py",), 20 if {expected!r} == "timed out" else 300)
while (result := child.finished()) is None:
    time.sleep(0.05)
print(result)
"""
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert found.stdout.strip() == expected, found.stderr
