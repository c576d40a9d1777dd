"""What the kernel's program takes beside Z3 on the same plan: every access of a synthetic training plan, in one arena.

`python -m tests.benchmarks.kernel [TENSORS...]`. The program's time is that of its whole process, reading included;
drawing the evidence is shown apart, since Z3's side draws its own. Wall seconds; memory of the program at its peak.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from proofs.proving import obligations
from proofs.proving.kernel import installed
from proofs.proving.kernel.evidence import file_columns
from proofs.proving.kernel.memory import join_columns
from proofs.proving.obligations.context import context_of
from proofs.readers.sharing import decide_permissions
from tests.support.synthetic import training_plan
from tmmu.plans import file
from tmmu.plans.sections import Plan, amend_plan

SIZES = (10_000, 100_000, 1_000_000)
NOBODY: frozenset[str] = frozenset()
LAUNCH = """
import resource, subprocess, sys, time
start = time.perf_counter()
said = subprocess.run(sys.argv[1:], check=True, capture_output=True, text=True).stdout
seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
print(said + f"{seconds} {used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024}", end="")
"""
"""A small process in between: a child's peak memory counts what its parent held when it was started."""


def of_program(plan: Plan) -> tuple[float, float, float, float]:
    """Seconds for the evidence, wall and processor seconds for the program, and its peak memory in MiB."""
    start = time.perf_counter()
    row = join_columns(file_columns(context_of(plan, decide_permissions(plan, None, NOBODY), NOBODY)))
    drawn = time.perf_counter() - start
    with tempfile.TemporaryFile() as words, tempfile.NamedTemporaryFile() as copy:
        row.astype("<u8").tofile(words)
        words.seek(0)
        file.save(plan, copy.name)
        command = [sys.executable, "-c", LAUNCH, str(installed.find_program()), copy.name]
        done = subprocess.run(command, stdin=words, capture_output=True)
    said, _, figures = done.stdout.decode().rpartition("\n")
    seconds, used, peak = map(float, figures.split())
    assert said.startswith("accepted"), said
    return drawn, seconds, used, peak


def of_z3(plan: Plan) -> float:
    """Seconds for every obligation of the plan, by two solver processes."""
    start = time.perf_counter()
    outcomes = obligations.prove(context_of(plan, decide_permissions(plan, None, NOBODY)), definition_limit=0)
    assert all(outcome.verdict == obligations.PROVED for outcome in outcomes), outcomes
    return time.perf_counter() - start


def main(sizes: tuple[int, ...] = SIZES) -> None:
    """Print a row for each size and layout."""
    if installed.find_program() is None:
        print("the kernel is not built: make kernel")
        return
    print(
        f"{'layout':8} {'tensors':>9} {'evidence':>9} {'kernel':>8} {'of that CPU':>12} {'MiB':>6} {'Z3':>8}   seconds"
    )
    for count in sizes:
        slots = training_plan(count, in_place=0.2, views=0.2)
        for layout in ("slots", "packed"):
            plan = amend_plan(slots, layout=layout)
            drawn, seconds, used, peak = of_program(plan)
            print(
                f"{layout:8} {count:>9} {drawn:>9.2f} {seconds:>8.2f} {used:>12.2f} {peak:>6.0f} {of_z3(plan):>8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
