"""Ask VeriPB whether a proof shows that the formula of a lower placement has no solution.

VeriPB gets copies of the formula and of the bytes of the proof that were looked at here. Its answer counts only if it
prints nothing but what it prints of a proof, to the letter. spec: V5.7, V5.8, V5.10
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from proofs.proving.optimum import formula, refutation, statements
from tmmu.core import canonical, children, folders
from tmmu.core.errors import TmmuError
from tmmu.core.output import escape_line
from tmmu.plans.allocation import Placement

UNSATISFIABLE = "s VERIFIED UNSATISFIABLE"
"""The one answer that counts."""
EXPECTED = re.compile(rf"Running VeriPB version (\S+)\n{UNSATISFIABLE}\n")
"""All that VeriPB prints of a proof: a warning, or any other line, is none."""
PROOF_BYTES = 1 << 28
"""The most bytes of a proof that is given."""
ERROR_BYTES = 300
"""The length to which an error of VeriPB is shortened."""


class Optimality(NamedTuple):
    """Whether no placement of an arena ends lower, and who showed that, or why it is not known."""

    proved: bool
    reason: str


def prove_no_lower_placement(
    placement: Placement, arena: int, footprint: int, folder: Path, timeout_s: float
) -> Optimality:
    """Show that every placement of the arena's storages ends at `footprint` or above.

    The formula is written to `folder`, as `optimum-N.opb` for arena N. An existing proof (`optimum-N.pbp`) is checked
    unchanged; without one, a proof is searched for. `timeout_s` is VeriPB's. Raises TmmuError or OSError if the folder
    cannot be written to.
    """
    spans, apart = formula.live_storages_of(placement, arena)
    lower = formula.build_lower_placement(spans, apart, footprint - 1)
    if lower is None:
        most = f"at most {formula.SPANS} storages and {formula.LITERALS} literals"
        return Optimality(False, f"the formula for {len(spans)} storages is too large: {most}")
    stated, proof = folder / f"optimum-{arena}.opb", folder / f"optimum-{arena}.pbp"
    folder.mkdir(parents=True, exist_ok=True)
    opb = "".join(f"{line}\n" for line in lower.opb_lines()).encode()
    canonical.write_atomically(str(stated), opb)
    given = proof.exists()
    if not given:
        found = refutation.refute(lower)
        if found is None:
            return Optimality(False, f"no proof that it is optimal was found in {refutation.CONFLICTS} conflicts")
        canonical.write_atomically(str(proof), found.encode())
    checked = check_proof(opb, proof, timeout_s)
    if checked.proved or not given:
        return checked
    return Optimality(False, f"{checked.reason}; remove {proof} to have a proof searched for")


def check_proof(opb: bytes, proof: Path, timeout_s: float) -> Optimality:
    """Return VeriPB's answer about a formula and the proof in a file."""
    try:
        text = canonical.read_bounded(proof, PROOF_BYTES)
    except (OSError, TmmuError) as error:
        return Optimality(False, f"the proof cannot be read: {escape_line(str(error))}")
    if (objection := statements.find_objection(text)) is not None:
        return Optimality(False, f"{proof} is no proof that counts: {objection}")
    program = folders.find_program("veripb")
    if program is None:
        return Optimality(False, f"VeriPB is not installed (cargo install veripb), so {proof} is unchecked")
    with tempfile.TemporaryDirectory(prefix="tmmu-veripb-", dir=folders.temporary_folder()) as folder:
        copies = Path(folder, "formula.opb"), Path(folder, "proof.pbp")
        for copy, content in zip(copies, (opb, text), strict=True):
            copy.write_bytes(content)
        try:
            done = children.run([program, "--opb", *copies], timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return Optimality(False, f"VeriPB did not end within {timeout_s:g} s")
        except OSError as error:
            return Optimality(False, f"VeriPB cannot be started: {error.strerror}")
    printed, errors = (data.decode(errors="replace") for data in (done.stdout, done.stderr))
    expected = EXPECTED.fullmatch(printed)
    if done.returncode == 0 and expected is not None and not errors:
        return Optimality(True, f"VeriPB {expected[1]} has checked {proof}")
    return Optimality(False, f"VeriPB does not accept {proof}: {_refusal(printed, errors, done.returncode)}")


def _refusal(printed: str, errors: str, code: int) -> str:
    """Return what VeriPB prints beyond what it prints of a proof, else how it ended."""
    others = [line for line in printed.splitlines() if not line.startswith("Running VeriPB") and line != UNSATISFIABLE]
    return escape_line(
        (errors.strip() or "; ".join(others) or (f"exit code {code}" if code else "no answer"))[:ERROR_BYTES]
    )
