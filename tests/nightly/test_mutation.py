"""The mutation test notices and misses changes, and the mutants that are argued away exist."""

from __future__ import annotations

import ast
import gc
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.nightly.mutation import swapping
from tests.nightly.mutation.argued import argued
from tests.nightly.mutation.mutants import mutants
from tests.nightly.mutation.reached import Reached, digest_of, statement_of
from tests.nightly.mutation.reached import Test as Record
from tests.nightly.mutation.running import KILLED, ROOT, SURVIVED, TIMED_OUT, UNPREPARED, Child, separate

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
    assert len([name for name in names if name.startswith("RULE: '(define-fun")]) == 3
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
    assert {"f: a + 1 → a - 1", "f: a + 1 → a - 1 (2)", "f: a + 1 → a + 2", "f: a + 1 → a + 2 (2)"} <= set(names)


MODULE = """
LIMIT = 4

def small(x, most=LIMIT):
    return x < most and all(part >= 0 for part in [x])

class Kept:
    size = 3

    def fits(self, x):
        def inner():
            return x <= self.size
        return inner()
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """A module of a file of its own, as a process has it that runs many mutants."""
    path = tmp_path / "changed_by_a_test.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_swapped_function_does_what_its_changed_text_says_under_every_name(
    module: ModuleType, tmp_path: Path
) -> None:
    path, held, kept = Path(str(module.__file__)), module.small, module.Kept()
    gc.freeze()  # as `conftest.py` does when the tests are collected
    known = swapping.functions(tmp_path)
    found = {mutant.name: swapping.changes(path, mutant.source) for mutant in mutants(MODULE)}
    assert [held(3), held(4), kept.fits(3)] == [True, False, True]
    for name in ("small: x < most → x <= most", "Kept.fits.inner: x <= self.size → x < self.size"):
        changed = found[name]
        assert changed is not None
        assert len(changed) == 1
        swapping.swap(changed, known)
    assert [held(3), held(4), held(5), kept.fits(3), kept.fits(2)] == [True, True, False, False, True]


def test_what_is_decided_during_an_import_is_no_change_of_functions(module: ModuleType) -> None:
    path = Path(str(module.__file__))
    found = {mutant.name: swapping.changes(path, mutant.source) for mutant in mutants(MODULE)}
    assert {name for name, changed in found.items() if changed is None} == {"LIMIT: 4 → 5", "Kept.size: 3 → 4"}
    assert swapping.changes(path, MODULE) == {}
    assert all(changed for changed in found.values() if changed is not None)


def test_a_function_that_is_not_there_is_not_swapped_in_silence(module: ModuleType) -> None:
    [mutant] = [mutant for mutant in mutants(MODULE) if mutant.name == "small: x < most → x <= most"]
    changed = swapping.changes(Path(str(module.__file__)), mutant.source)
    assert changed
    with pytest.raises(KeyError):
        swapping.swap(changed, {})


def ended(child: Child) -> str:
    while (result := child.finished()) is None:
        time.sleep(0.01)
    return result


def test_a_mutant_that_cannot_be_put_into_place_ends_the_run() -> None:
    child = separate(lambda: UNPREPARED, 60)
    with pytest.raises(RuntimeError, match="nothing was tested"):
        ended(child)


def test_a_change_is_held_to_the_tests_that_run_its_statement_and_its_own_come_first(tmp_path: Path) -> None:
    lines = statement_of("a = (1,\n  2)\nif a:\n    b = 3\n")
    assert lines == {1: 0b110, 2: 0b110, 3: 0b1000, 4: 0b10000}
    path = "proofs/definition/checker/memory.py"
    own, other = "tests/unit/test_memory.py::test_own", "tests/unit/test_checker.py::test_"
    record = {
        own: Record("1", 1.0, False, {path: 0b100}), f"{other}quick": Record("1", 0.01, False, {path: 0b110}),
        f"{other}slow": Record("1", 9.0, False, {path: 0b100}),
        f"{other}elsewhere": Record("1", 0.01, False, {path: 1}),
    }  # fmt: skip
    kept = Reached(tmp_path / "reached.jsonl")
    kept.save(record)
    again = Reached(kept.path)
    again.load([path])
    assert again.tests == record
    again.keep(name for name in record if name != f"{other}elsewhere")  # since renamed
    assert again.tests.keys() == record.keys() - {f"{other}elsewhere"}
    assert again.of_lines(path, lines[1]) == [own, f"{other}quick", f"{other}slow"]
    assert again.within(again.of_lines(path, lines[1]), 1.5) == [own, f"{other}quick"]
    assert again.within([f"{other}quick", f"{other}slow", own], 1.5) == [f"{other}quick", own]
    assert again.within([f"{other}slow"], 1.5) == [f"{other}slow"]


def test_a_record_of_a_file_that_has_changed_is_no_record(tmp_path: Path) -> None:
    kept = Reached(tmp_path / "reached.jsonl")
    kept.save({"t": Record("1", 1.0, False, {"proofs/definition/checker/memory.py": 2})})
    kept.path.write_text(kept.path.read_text().replace(digest_of("proofs/definition/checker/memory.py"), "another"))
    for files, known in (
        (["proofs/definition/checker/memory.py"], False),
        (["proofs/definition/checker/execute.py"], True),
    ):
        again = Reached(kept.path)
        again.load(files)
        assert ("t" in again.tests) == known


def test_a_table_of_reasons_is_read(tmp_path: Path) -> None:
    table = tmp_path / "argued.toml"
    table.write_text('["a/b.py"]\n"f: a | b → a & b" = "It is the same."\n')
    assert argued(table) == {("a/b.py", "f: a | b → a & b"): "It is the same."}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("reading_nothing_gives_nothing", KILLED), ("a_name_that_it_had_before", "nothing was tested")],
)
def test_a_test_that_is_gone_notices_nothing_and_one_that_cannot_be_imported_does(name: str, expected: str) -> None:
    """pytest ends alike for both."""
    program = f"""
import time
from tests.nightly.mutation.running import preload, start
preload()
tests = ("tests/unit/test_memory.py::test_{name}",)
child = start("proofs/definition/checker/memory.py", "raise ImportError", tests, 300)
while (result := child.finished()) is None:
    time.sleep(0.05)
print(result)
"""
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert expected in found.stdout + found.stderr


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
from tests.nightly.mutation.running import ROOT, preload, start
preload()
path = "proofs/definition/checker/memory.py"
source = (ROOT / path).read_text().replace({old!r}, {new!r}) if {old!r} else (ROOT / path).read_text()
child = start(path, source.replace("while True:\\n            return", "while True:\\n            pass"),
              ("tests/unit/test_memory.py",), 20 if {expected!r} == "timed out" else 300)
while (result := child.finished()) is None:
    time.sleep(0.05)
print(result)
"""
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert found.stdout.strip() == expected, found.stderr
