"""The entry of prove-lemmas: nothing that goes wrong escapes, loading its modules included. spec: C1.1"""

from __future__ import annotations

from tmmu.core import process


def main() -> None:
    """Run prove-lemmas and exit with its code."""
    process.make_printable()
    process.leave(process.code_of("proofs.proving.lemmas.command"))
