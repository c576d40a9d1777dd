"""Every model of `tla/` ends under TLC as the manifest says, and so does every twin and non-property.

Here each module holds, and one of its twins is refuted; `make models`, which CI runs too, has every twin and every
non-property, and `make test-full` the larger bounds.
spec: T8.2, T8.3, T8.5, T8.8, T8.9
"""

from __future__ import annotations

import pytest

from proofs.model_check import entry, manifest
from proofs.model_check.manifest import Module

MODULES = manifest.read(manifest.installed())


def names(module: Module) -> list[str]:
    """The models of a module, and its first twin; each of its checks has a twin that violates it."""
    twins = [run for run in module.runs if run.kind == "twin"]
    assert {run.expected for run in twins} == set(module.checks)
    return [*(run.name for run in module.runs if run.kind == "model" and run.size == "ci"), twins[0].name]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_holds_and_a_twin_of_it_does_not(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    code = entry.run(names(module))
    assert code == 0, "".join(capsys.readouterr())
