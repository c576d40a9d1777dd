"""No function has more than eight parameters, and none passes keyword arguments on that it does not read.

ruff keeps the first rule too (PLR0913). It does not know click's commands, which are called with one argument for each
option. Here their decorators exempt them, although each gathers its options into groups today (`gather_options`).
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import nodes

ROOT = Path(__file__).resolve().parents[2]
MOST = 8

RECORDS = {
    "fields": "what an event, or a record that is copied with changes, has under its own names",
    "attributes": "the attributes of an operator, under ONNX's names",
    "claims": "the claims of a plan that is made wrong",
    "whole": "the sections of a plan that is made wrong",
    "variant": "what is other in an example's network",
}
"""What may be passed on unread: the names are data, of a record that the function does not look into."""


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether click calls the function: it is decorated as a command."""
    called = [one.func if isinstance(one, ast.Call) else one for one in function.decorator_list]
    return any(ast.unparse(one).endswith((".command", ".group")) for one in called)


def width(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of parameters, keyword-only ones included; neither self nor cls, nor * and **."""
    named = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return len(named) - (named[:1] in (["self"], ["cls"])) + len(function.args.kwonlyargs)


def wide(source: str) -> list[str]:
    """Return the functions with too many parameters, each with their number."""
    found = ((one, width(one)) for one in functions(source) if not is_command(one))
    return [f"{one.name} {count}" for one, count in found if count > MOST]


def passed_on(source: str) -> list[str]:
    """Return the functions that hand their keyword arguments to another function and never look at them."""
    found = []
    for function in functions(source):
        if function.args.kwarg is None or function.args.kwarg.arg in RECORDS:
            continue
        name = function.args.kwarg.arg
        inner = [node for statement in function.body for node in ast.walk(statement)]
        calls = [keyword for node in inner if isinstance(node, ast.Call) for keyword in node.keywords]
        handed = {id(keyword.value) for keyword in calls if keyword.arg is None}
        uses = [node for node in inner if isinstance(node, ast.Name) and node.id == name]
        if uses and all(id(use) in handed for use in uses):
            found.append(function.name)
    return found


def sources() -> dict[str, str]:
    paths = sorted(path for folder in ("tmmu", "proofs") for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def test_no_function_has_more_than_eight_parameters() -> None:
    found = {path: wide(source) for path, source in sources().items()}
    assert len(found) > 400
    assert {path: names for path, names in found.items() if names} == {}


def test_no_function_passes_on_keyword_arguments_that_it_does_not_read() -> None:
    found = {path: passed_on(source) for path, source in sources().items()}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(a, b, c, d, e, f, g, h, i): pass", ["f 9"]),
        ("def f(a, b, /, c, d, e, f, *, g, h, i): pass", ["f 9"]),
        ("async def f(a, b, c, d, *, e, f, g, h, i): pass", ["f 9"]),
        ("class C:\n    def f(self, a, b, c, d, e, f, g, h, i): pass", ["f 9"]),
        ("@gathered('a', A)\ndef f(a, b, c, d, e, f, g, h, i): pass", ["f 9"]),
        ("def g():\n    def f(a, b, c, d, e, f, g, h, i): pass", ["f 9"]),
        ("def f(a, b, c, d, e, f, g, h, *rest, **more): pass", []),
        ("class C:\n    def f(self, a, b, c, d, e, f, g, h): pass", []),
        ("class C:\n    @classmethod\n    def f(cls, a, b, c, d, e, f, g, h): pass", []),
        ("@click.command()\ndef f(a, b, c, d, e, f, g, h, i): pass", []),
        ("@group.command(epilog='x')\n@click.option('-i')\ndef f(a, b, c, d, e, f, g, h, i): pass", []),
    ],
)
def test_a_wide_function_is_seen_and_a_command_is_none(source: str, found: list[str]) -> None:
    assert wide(source) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(**given): return g(**given)", ["f"]),
        ("def f(a, **given):\n    if a:\n        return g(1, b=2, **given)\n    return h(**given)", ["f"]),
        ("def f(**given): return g(given)", []),
        ("def f(**given): return g(**{**given, 'a': 1})", []),
        ("def f(**given):\n    given.pop('a')\n    return g(**given)", []),
        ("def f(**fields): return log(event=1, **fields)", []),
    ],
)
def test_keyword_arguments_that_are_passed_on_unread_are_seen(source: str, found: list[str]) -> None:
    assert passed_on(source) == found


def test_the_lint_rule_is_on_and_makes_no_exception_for_the_project() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "PLR0913" in lint["select"]
    assert lint["pylint"]["max-args"] == MOST
    ignores = lint["per-file-ignores"]
    assert [
        path for path, rules in ignores.items() if {"PLR0913", "PLR", "PL"} & {*rules} and "tests/" not in path
    ] == []
