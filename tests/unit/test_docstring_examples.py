"""The examples in docstrings are run, and give what they state."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for top in ("tmmu", "proofs")
    for path in sorted((ROOT / top).rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_docstrings_give_what_they_state(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
