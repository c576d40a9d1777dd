"""What Coq's own independent checker says of the compiled theory. It takes a minute, and reads all of the library."""

from __future__ import annotations

import re
import subprocess

import pytest

from proofs.proving.kernel import installed

pytestmark = pytest.mark.skipif(  # what is not built cannot be read
    installed.find_theory() is None, reason="the kernel is not built: make kernel"
)


def test_the_independent_checker_lists_no_assumption() -> None:
    theory = installed.find_theory()
    assert theory is not None
    command = ["coqchk", "-silent", "-o", "-Q", str(theory), "Tmmu", "Tmmu.SetExamples", "Tmmu.Table"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = done.stdout + done.stderr
    for what in ("Ax" + "ioms", "Constants/Inductives relying on type-in-type"):
        assert re.search(rf"\* {what}:\s*<none>", said), said
