"""Every model of `tla/` ends under TLC as the manifest says, and so does every twin and non-property.

Here each check is violated by the first of its twins; `make test-full` runs the others too, with the larger bounds.
spec: T8.2, T8.3, T8.5, T8.8, T8.9
"""

from __future__ import annotations

import pytest

from proofs.model_check import entry, manifest
from proofs.model_check.manifest import Module

MODULES = manifest.read(manifest.installed())


def names(module: Module) -> list[str]:
    """The runs of a module, and of the twins that violate one check the first."""
    twins = {run.expected: run.name for run in reversed(module.runs) if run.kind == "twin"}
    assert set(twins) == set(module.checks)
    others = [run.name for run in module.runs if run.kind != "twin" and run.size == "ci"]
    return [*others, *twins.values()]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_holds_and_each_of_its_checks_can_fail(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    code = entry.run(names(module))
    assert code == 0, "".join(capsys.readouterr())
