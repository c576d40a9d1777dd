"""Every model of `tla/` ends under TLC as the manifest says, and so does every twin and non-property.

spec: T8.2, T8.3, T8.5, T8.8, T8.9
"""

from __future__ import annotations

import pytest

from proofs.model_check import entry, manifest

MODULES = [module.name for module in manifest.read(manifest.installed())]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_holds_and_each_of_its_checks_can_fail(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = entry.run([name, "--mutants"])
    assert code == 0, "".join(capsys.readouterr())
