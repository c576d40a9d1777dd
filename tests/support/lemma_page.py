"""The page on which every lemma stands with its sentence, its mutants and its tests: `proofs/proving/lemmas/README.md`.

`python -m tests.support.lemma_page` writes it again; a test compares it with the lemmas. A file of lemmas names its
tests in its head, as `tests/…`; one about a machine names the module, as `tla/…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from proofs.proving.lemmas.engine.family import AnyLemma, Family, mutants_of
from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.machine import Inductive
from proofs.proving.lemmas.families import FAMILIES, VERDICTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "proofs/proving/lemmas/README.md"
OF_MACHINES = "tests/integration/models/test_lemmas.py"
OF_STEPS = "tests/integration/models/test_models.py"
NOT_BY_STEPS = ("execution", "zeroing")
"""Files whose statements are of a step of a plan, or of a rule, and not of single actions of their module."""
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)`")
NAMED_MODULE = re.compile(r"`(tla/\w+/\w+\.tla)`")

HEAD = """\
# Every lemma, with its mutants and its tests

Look up a lemma, and what shows that it is not empty.

**Verdicts rest on {verdicts} lemmas**, which are proved when they are first needed. **{others} more are about
algorithms and systems**: no verdict rests on them.

`prove-lemmas NAME --cases` proves a lemma and prints its cases. Each row has the name of a lemma, its sentence, and its
mutants. A mutant is a change of one place that makes the lemma false, in a case that is shown. The *vacuity check* of a
lemma asks for a case, among all integers, in which its hypotheses and its goal, taken from the same text, hold
together; `--cases` prints that case first. Lemmas about a list are proved by induction over it
([how](engine/induction.py), and [which recursion is accepted](../smt/descent.py)). An invariant of a
[machine](engine/machine.py) is one lemma with an obligation for Init and for each action. They are generated from the
machine, and a check that looks only at them accepts them as an induction. The other lemmas are
[statements](engine/statements.py) about all values of their constants and functions. Every formula is
[well sorted](../smt/sorts.py), and [no value is open](../smt/totality.py). A lemma counts as proved only if the lemmas
that it uses are. [A generator of false lemmas](../../../tests/support/false_lemmas.py) attacks each of these checks.

All are proved under ten seeds of Z3 and by cvc5: [test_every_lemma](../../../tests/nightly/test_every_lemma.py). Many
also have a written proof that a checker accepts, by `prove-lemmas --proofs DIR`:
[test_third_reader](../../../tests/nightly/test_third_reader.py).
"""
PARTS = {
    "plan": "What verdicts rest on", "planner": "Algorithms of the planner and the runtime", "systems": "Systems",
}  # fmt: skip


def head(family: Family) -> str:
    """The docstring of a file of lemmas."""
    return import_module(f"proofs.proving.lemmas.{family.file.replace('/', '.')}").__doc__ or ""


def tests(family: Family) -> list[str]:
    """The tests that tie a file of lemmas to the code or to a machine, by their paths."""
    named = NAMED_TEST.findall(head(family))
    if NAMED_MODULE.search(head(family)):
        named += [path for path in (OF_MACHINES, OF_STEPS) if path not in named]
    return [path for path in named if path != OF_STEPS or family.stem not in NOT_BY_STEPS]


def page() -> str:
    """The page as it must be."""
    count = {folder: sum(len(f.lemmas) for f in FAMILIES.values() if f.folder == folder) for folder in PARTS}
    return HEAD.format(verdicts=count.pop(VERDICTS), others=sum(count.values())) + "".join(_sections())


def _sections() -> Iterator[str]:
    for folder, title in PARTS.items():
        mine = [family for family in FAMILIES.values() if family.folder == folder]
        yield f"\n## {title}: {sum(len(family.lemmas) for family in mine)} lemmas\n"
        for family in mine:
            first = " ".join(head(family).split("\n\n")[0].split())
            tied = ", ".join(f"[`{path}`](../../../{path})" for path in tests(family))
            about = NAMED_MODULE.sub(_module, first.partition(" spec:")[0])
            yield f"\n### {family.stem}\n\n[`{family.file}.py`]({family.file}.py). {about}\n\nTests: {tied}.\n\n"
            yield "| lemma | in English | mutants that are refuted |\n|---|---|---|\n"
            yield from (_row(lemma) for lemma in family.lemmas)


def _row(lemma: AnyLemma) -> str:
    how = ""
    if isinstance(lemma, Inductive):
        how = f" ({', '.join(case.name for case in lemma.cases)})"
    elif isinstance(lemma, Lemma) and lemma.over is not None:
        how = " (by induction)"
    return f"| `{lemma.name}`{how} | {lemma.sentence} | {'; '.join(mutants_of(lemma))} |\n"


def _module(found: re.Match[str]) -> str:
    return f"[`{found[1]}`](../../../{found[1]})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
