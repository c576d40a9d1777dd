"""Every name that a verdict prints is explained by `tmmu explain`. spec: V9.1"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from proofs.definition import promises
from proofs.definition.violations import Obligation
from proofs.readers.plans import formats
from proofs.verify.judge import judge
from proofs.verify.options import REQUIRABLE, Options
from proofs.verify.text import LEMMAS, words
from proofs.verify.verdict import TYPES, absent
from tests.support.commands import ran
from tests.support.text_models import text_model
from tmmu.core.pages import verdict_page
from tmmu.planner import plan_memory
from tmmu.plans import file
from tmmu.plans.sections import amend_plan

PLAN = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y")).plan
READERS = Path(str(formats.__file__)).parent


def outside_names() -> set[str]:
    """Return the names that readers of other formats give to what is outside of a plan, without what follows them."""
    found = set[str]()
    for path in READERS.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("outside"):
                found.add(_text(node.slice))
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "outside":
                keys = [key for each in ast.walk(node.value) if isinstance(each, ast.Dict) for key in each.keys]
                found |= {_text(key) for key in keys if key is not None}
    return found - {""}


def _text(node: ast.expr) -> str:
    """Return the constant text that an expression is, or begins with; "" for a name."""
    if isinstance(node, ast.JoinedStr):
        return _text(node.values[0]).strip()
    return str(node.value) if isinstance(node, ast.Constant) else ""


def test_obligations_proofs_and_requirements_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for name in (*Obligation, LEMMAS, promises.NAME, "kernel", *REQUIRABLE, "PROVED", "REFUTED", "UNKNOWN", "ERROR"):
        code, out, _ = ran(capsys, "explain", name)
        assert (code, out.split(":")[0]) == (0, name), name
        assert ran(capsys, "explain", words(name))[1] == out


def test_assumptions_and_what_is_not_looked_at_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    stated = file.require_steps(file.decode(file.encode(PLAN)))
    verdict = judge("p.cbor", stated, Options())
    missing = {**absent(PLAN, Options()), **absent(amend_plan(PLAN, unproduced=(0,)), Options())}
    for name in (
        *verdict.assumptions,
        *verdict.not_looked_at,
        *missing,
        TYPES,
        "envelope.policy",
        "kernel.every_shape",
    ):
        assert ran(capsys, "explain", name)[0] == 0, name


def test_what_readers_leave_outside_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    found = outside_names()
    assert {"thread-local allocations", "scratch of", "constants without a buffer"} <= found
    for name in found:
        assert ran(capsys, "explain", name)[0] == 0, name


def test_a_name_that_no_verdict_prints_is_refused_with_one_that_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ran(capsys, "explain", "sharing_is_wound")
    assert (code, "did you mean sharing_is_sound" in err) == (2, True)


def test_every_row_says_something() -> None:
    assert all(row.meaning.endswith(".") for row in verdict_page().values())
