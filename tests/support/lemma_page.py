"""The page on which every lemma stands with its sentence, its mutants and its tests: `proofs/lemmas/README.md`.

`python -m tests.support.lemma_page` writes it again; a test compares it with the lemmas. A file of lemmas names its
tests in its head, as `tests/…`; one that speaks of a machine names the module, as `tla/…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from proofs.lemmas import proving
from proofs.lemmas.engine.induction import Lemma

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "proofs/lemmas/README.md"
OF_MACHINES = "tests/integration/models/test_lemmas.py"
OF_STEPS = "tests/integration/models/test_steps_of_lemmas.py"
NOT_BY_STEPS = ("execution", "zeroing")
"""Files whose statements are of a step of a plan, or of a rule, and not of single actions of their module."""
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)`")
NAMED_MODULE = re.compile(r"`(tla/\w+/\w+\.tla)`")

HEAD = """\
# Every lemma, with its twin, its mutants and its tests

A row is a lemma: its name, by which `prove-lemmas NAME --cases` proves it and prints the cases, what it says, and its
mutants, each a change of one place under which it is false in a case that is shown. Its hypotheses and its goal stand
under its name in the file that heads the section. Its *twin* is made of the same text, hypotheses and goal together,
and must hold in a case: the first that `--cases` prints. Those with a list are proved by induction over it
([how](induction.py), and [what may recur](descent.py)); the others are [statements](statements.py) about all values of
what they declare.

All are proved under ten seeds of Z3 and by cvc5: [test_every_lemma](../../tests/nightly/test_every_lemma.py). Many have
a proof that is written down and checked besides, by `prove-lemmas --proofs DIR`:
[test_third_reader](../../tests/nightly/test_third_reader.py).
"""


def head(file: str) -> str:
    """The docstring of a file of lemmas."""
    return import_module(f"proofs.lemmas.{file}").__doc__ or ""


def tests(file: str) -> list[str]:
    """The tests that tie a file of lemmas to the code or to a machine, by their paths."""
    named = NAMED_TEST.findall(head(file))
    if NAMED_MODULE.search(head(file)):
        named += [path for path in (OF_MACHINES, OF_STEPS) if path not in named]
    return [path for path in named if path != OF_STEPS or file not in NOT_BY_STEPS]


def page() -> str:
    """The page as it must be."""
    return HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    for file, lemmas in proving.by_file().items():
        first = " ".join(head(file).split("\n\n")[0].split())
        tied = ", ".join(f"[`{path}`](../../{path})" for path in tests(file))
        yield f"\n## {file}\n\n[`{file}.py`]({file}.py). {NAMED_MODULE.sub(_module, first.partition(' spec:')[0])}\n\n"
        yield f"Tests: {tied}.\n\n| lemma | in English | mutants that are refuted |\n|---|---|---|\n"
        for lemma in lemmas:
            by = " (by induction)" if isinstance(lemma, Lemma) and lemma.over is not None else ""
            mutants = "; ".join(mutant.name for mutant in lemma.mutants)
            yield f"| `{lemma.name}`{by} | {lemma.sentence} | {mutants} |\n"


def _module(found: re.Match[str]) -> str:
    return f"[`{found[1]}`](../../{found[1]})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
