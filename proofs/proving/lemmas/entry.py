"""Enter prove-lemmas: every fault is reported, even one while modules load. spec: C1.1"""

from __future__ import annotations

from tmmu.core import process


def main() -> None:
    """Run prove-lemmas and exit with its code."""
    process.make_printable()
    process.leave(process.code_of("proofs.proving.lemmas.command"))
