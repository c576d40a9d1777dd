"""Enter prove-lemmas: every fault is reported, even one while modules load. spec: C1.1"""

from __future__ import annotations

from tmmu.core import process


def main() -> None:
    """Run prove-lemmas and exit with its code."""
    process.begin()
    process.exit_now(process.run_command("proofs.proving.lemmas.command"))
