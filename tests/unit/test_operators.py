"""Every operator that the documents name is one callable here, with the signature and codes of the page. spec: U7.8

The names below were taken from the documents by hand, with their clauses: 000 0.G, 4, 5, 6 and 001 0.G, 4, 5, 6, II.K.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tmmu.core.errors import REGISTRY

ROOT = Path(__file__).resolve().parents[2]

NAMES = {
    "UML_OS.TMMU.PrepareMemory_v2": "000 5, 001 5",
    "UML_OS.TMMU.PlanMemory_v2": "001 5",
    "UML_OS.TMMU.ApplyPlan_v1": "001 5",
    "UML_OS.Model.AnalyzeLiveness_v1": "000 5, 001 5",
    "UML_OS.TMMU.AssignLogicalSlots_v1": "000 5, 001 5",
    "UML_OS.TMMU.MapToVirtualAddresses_v1": "000 5, 001 5",
    "UML_OS.TMMU.ZeroTensor_v1": "000 5, 001 5",
    "UML_OS.TMMU.DebugFillTensor_v1": "001 5",
    "UML_OS.TMMU.CommitExecution_v1": "000 5, 001 5",
    "UML_OS.Error.Emit_v1": "000 5, 001 5",
    "ComputeMetrics": "000 6.6, 001 6.6",
    "compute_bytes": "000 6.4, 001 6.4",
    "align_up": "001 5",
    "CBOR_CANONICAL": "001 II.K",
}


class Row(NamedTuple):
    """A row of the page's table."""

    operator: str
    where: str
    callable: str
    signature: str
    purity: str
    codes: str


def rows(page: str) -> list[Row]:
    found = re.findall(r"^\| (`(?!ai\.onnx)\S+`.*) \|$", page, re.MULTILINE)
    return [Row(*(cell.strip().strip("`") for cell in line.split(" | "))) for line in found]


def page() -> str:
    return (ROOT / "spec/operators.md").read_text()


def resolved(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def signature(function: Callable[..., Any]) -> str:
    """The parameters of a function, as the page writes them."""
    parts: list[str] = []
    by_name = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not by_name:
            parts.append("*")
            by_name = True
        parts.append(parameter.name + ("" if parameter.default is parameter.empty else "="))
    return ", ".join(parts)


def named(row: Row) -> str:
    return row.operator.split("`")[0].split(" ")[0]


def test_no_operator_is_missing_and_none_is_made_up() -> None:
    assert {named(row) for row in rows(page())} == set(NAMES)


def test_each_operator_names_the_clauses_that_define_it() -> None:
    found: dict[str, set[str]] = {}
    for row in rows(page()):
        found.setdefault(named(row), set()).update(row.where.split(", "))
    assert {name: ", ".join(sorted(where)) for name, where in found.items()} == NAMES


@pytest.mark.parametrize("row", rows(page()), ids=lambda row: row.operator)
def test_each_operator_is_one_callable_with_its_signature_purity_and_codes(row: Row) -> None:
    assert signature(resolved(row.callable)) == row.signature
    assert row.purity in ("PURE", "STATEFUL", "IO")
    codes = re.findall(r"\b[A-Z]+_[A-Z_]+\b", row.codes)
    assert set(codes) <= set(REGISTRY)
    assert codes or re.match(r"none|those of|the one", row.codes)


@pytest.mark.parametrize("row", rows(page()), ids=lambda row: row.operator)
def test_what_is_pure_stands_below_the_runtime(row: Row) -> None:
    """A pure operator is planning, encoding or counting; whatever touches memory or files is in the runtime."""
    stateful = (
        row.callable.startswith(("tmmu.runtime", "tmmu.tasks.prepare")) and ".records.metrics." not in row.callable
    )
    assert (row.purity != "PURE") == stateful


@pytest.mark.parametrize(
    "name", sorted({code for row in rows(page()) for code in re.findall(r"\b[A-Z]+_[A-Z_]+\b", row.codes)})
)
def test_each_code_of_the_page_is_raised_somewhere(name: str) -> None:
    sources = "".join(path.read_text() for path in (ROOT / "tmmu").rglob("*.py") if path.name != "errors.py")
    assert f'"{name}"' in sources


def test_operators_that_fail_name_themselves_as_the_documents_do() -> None:
    """Every `operator=` that is written down is a name of the documents."""
    sources = "".join(path.read_text() for path in (ROOT / "tmmu").rglob("*.py"))
    written = set(re.findall(r'"(UML_OS\.[\w.]+)"', sources))
    assert len(written) > 3
    assert written <= set(NAMES)


def test_a_wrong_row_is_noticed() -> None:
    def function(a: int, *, b: int = 0, c: int) -> None:
        """Nothing."""

    assert signature(function) == "a, *, b=, c"
    [row] = rows("| `UML_OS.X_v1` | 001 5 | `a.b` | `x, y=` | PURE | none |")
    assert row == Row("UML_OS.X_v1", "001 5", "a.b", "x, y=", "PURE", "none")
    assert signature(resolved("tmmu.core.canonical.encode")) == "value"
    with pytest.raises(AttributeError):
        resolved("tmmu.core.canonical.no_such")
