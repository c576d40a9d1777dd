"""Ask VeriPB whether a proof shows that the formula of a lower placement has no solution. spec: V5.7, V5.8"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from proofs.proving.optimum import formula, refutation
from tmmu.core import canonical
from tmmu.core.output import one_line
from tmmu.plans.allocation import Placement

UNSATISFIABLE = "s VERIFIED UNSATISFIABLE"
"""The one answer that counts."""
ERROR_BYTES = 300
"""The length to which an error of VeriPB is shortened."""


class Optimality(NamedTuple):
    """Whether no placement of an arena ends lower, and who showed that, or why it is not known."""

    proved: bool
    reason: str


def no_lower_placement(placement: Placement, arena: int, footprint: int, folder: Path, timeout_s: float) -> Optimality:
    """Show that every placement of the arena's storages ends at `footprint` or above.

    The formula is written to `folder`, as `optimum-N.opb` for arena N. An existing proof (`optimum-N.pbp`) is checked
    unchanged; without one, a proof is searched for. `timeout_s` is VeriPB's. Raises TmmuError or OSError if the folder
    cannot be written to.
    """
    spans, apart = formula.spans_of(placement, arena)
    lower = formula.lower_placement(spans, apart, footprint - 1)
    if lower is None:
        most = f"at most {formula.SPANS} storages and {formula.LITERALS} literals"
        return Optimality(False, f"the formula for {len(spans)} storages is too large: {most}")
    stated, proof = folder / f"optimum-{arena}.opb", folder / f"optimum-{arena}.pbp"
    folder.mkdir(parents=True, exist_ok=True)
    canonical.write_atomically(str(stated), "".join(f"{line}\n" for line in lower.opb()).encode())
    given = proof.exists()
    if not given:
        found = refutation.refute(lower)
        if found is None:
            return Optimality(False, f"no proof that it is optimal was found in {refutation.CONFLICTS} conflicts")
        canonical.write_atomically(str(proof), found.encode())
    checked = check(stated, proof, timeout_s)
    if checked.proved or not given:
        return checked
    return Optimality(False, f"{checked.reason}; remove {proof} to have a proof searched for")


def check(stated: Path, proof: Path, timeout_s: float) -> Optimality:
    """Return VeriPB's answer about a formula and a proof."""
    program = shutil.which("veripb")
    if program is None:
        return Optimality(False, f"VeriPB is not installed (cargo install veripb), so {proof} is unchecked")
    try:
        done = subprocess.run(
            [program, "--opb", os.fspath(stated), os.fspath(proof)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Optimality(False, f"VeriPB did not end within {timeout_s:g} s")
    except OSError as error:
        return Optimality(False, f"VeriPB cannot be started: {error.strerror}")
    lines = done.stdout.decode(errors="replace").splitlines()
    answers = [line for line in lines if line.startswith("s ")]
    if done.returncode == 0 and answers == [UNSATISFIABLE]:
        return Optimality(True, f"{_version(lines)} has checked {proof}")
    printed = (done.stderr.decode(errors="replace").strip() or "; ".join(answers) or "no answer")[:ERROR_BYTES]
    return Optimality(False, f"VeriPB does not accept {proof}: {one_line(printed)}")


def _version(lines: list[str]) -> str:
    """Return the name and version that VeriPB prints first."""
    head, _, version = (lines[0] if lines else "").partition(" version ")
    return f"VeriPB {version}" if head == "Running VeriPB" and version else "VeriPB"
