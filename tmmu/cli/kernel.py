"""`tmmu kernel`: the checker that Coq has proved, built and installed, or looked for. spec: V6.3, V6.10"""

from __future__ import annotations

import click

from tmmu.core.flags import OnceGroup, format_examples
from tmmu.core.output import print_lines


@click.group(cls=OnceGroup)
def kernel() -> None:
    """The checker that Coq has proved, which verify-plan asks if it is installed."""


@kernel.command(
    epilog=format_examples(
        "tmmu kernel install",
    )
)
def install() -> int:
    """Prove the checker with Coq, make a program of it, and install that for this user.

    Takes a minute. Debian's Coq and OCaml are installed if permitted; otherwise the command for it is printed.
    """
    from proofs.proving.kernel import install as building

    return building.main()


@kernel.command(
    epilog=format_examples(
        "tmmu kernel status",
    )
)
def status() -> int:
    """Print which kernel verify-plan uses, and its path; exit code 1 without one."""
    from proofs.proving.kernel import installed

    program, theory = installed.find_program(), installed.find_theory()
    print_lines(installed.description())
    if program is not None:
        print_lines(f"  program: {program}")
        print_lines(f"  theory for --coq: {theory or 'not built here (tmmu kernel install)'}")
    return int(program is None)
