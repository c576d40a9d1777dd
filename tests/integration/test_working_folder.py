"""Commands in a folder that somebody else has prepared: nothing in it is executed, imported or trusted.

spec: RE1.1, RE1.2
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proofs.proving.kernel import installed
from tests.support.commands import program
from tmmu import examples
from tmmu.core import folders
from tmmu.core.reading import digest_file

ROOT = Path(__file__).resolve().parents[2]
RUN = "import sys; sys.path.remove(''); from {module} import main; main()"
TOUCH = 'touch "$ROOT_OF_THE_TEST/executed"; exit 1'


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A working folder with a kernel, caches, programs and modules under each name under which they might be found."""
    there = tmp_path / "work"
    there.mkdir()
    examples.write("text-plan", there / "p.plan.txt")
    for home in ("~", "."):
        kernel = there / home / ".local/share/tmmu/kernel" / installed.digest()
        program(kernel / installed.PROGRAM, TOUCH)
        digests = installed.KernelBuild(installed.digest(), digest_file(kernel / installed.PROGRAM), "0")
        (kernel / installed.STATED).write_text(json.dumps(digests._asdict()))
    for name in ("veripb", "cc", "java", "mvn"):
        for folder in (there, there / "bin"):
            program(folder / name, TOUCH)
    for name in ("z3", "numpy", "loky", "click", "argparse", "tmmu"):
        (there / f"{name}.py").write_text("import os; open(os.environ['ROOT_OF_THE_TEST'] + '/executed', 'w')")
    return there


WITHOUT_HOME = {"HOME": "~", "XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": ".local/share", "TMPDIR": "."}


@pytest.mark.parametrize(
    ("module", "line", "code"),
    [
        ("proofs.verify.entry", "p.plan.txt --optimum proofs", 0),
        ("proofs.verify.entry", "p.plan.txt --jobs 2", 0),
        ("tmmu.cli.entry", "kernel status", None),
        ("tmmu.cli.entry", "mnemosyne check --measure", 2),
        ("proofs.model_check.entry", "--list", None),
    ],
)
def test_nothing_of_the_working_folder_is_executed_or_trusted(
    module: str, line: str, code: int | None, prepared: Path
) -> None:
    own = {"PATH": ":.:bin", "ROOT_OF_THE_TEST": str(prepared.parent), "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **WITHOUT_HOME, **own}
    before = sorted(prepared.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(module=module), *line.split()], cwd=prepared, env=environment, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert not (prepared.parent / "executed").exists(), said
    assert "internal error" not in said
    assert code is None or done.returncode == code, said
    if "status" in line and not installed.PACKAGED.is_dir():
        assert folders.ELSEWHERE in said
    made = {path.relative_to(prepared).parts[0] for path in set(prepared.rglob("*")) - set(before)}
    assert made <= {"proofs"}
