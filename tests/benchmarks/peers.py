"""`make bench-peers`: this verifier beside ExecuTorch's, and this planner beside tinygrad's, in one run.

`python -m tests.benchmarks.peers EXECUTORCH TINYGRAD [STORAGES BUFFERS]`, where the two are the Pythons of
environments that have them. All times are CPU seconds, those of child processes included, so that what else the machine
does counts little. The plan that ExecuTorch's verifier is given is ours: by its own planner it would have other offsets
and as many pairs.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from proofs.proving.kernel import installed, program
from proofs.proving.kernel.program import PlanFile
from proofs.verify.checks import Subject, violations
from tests.benchmarks.training import training_model
from tmmu.core.vocabulary import Role
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file

HERE = Path(__file__).parent
STORAGES, BUFFERS = 10_000, 100_000


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU seconds of this process and of the children that it waits for, and what came of it."""

    def spent() -> float:
        return sum(
            used.ru_utime + used.ru_stime
            for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        )

    before = spent()
    found = work()
    return spent() - before, found


def asked(python: str, script: str, given: Any, folder: Path) -> dict[str, Any]:
    """What a peer's script prints of what it is given."""
    path = folder / "given.json"
    path.write_text(json.dumps(given))
    command = [os.path.abspath(python), str(HERE / script), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{script} failed: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def verifiers(python: str, count: int, folder: Path) -> None:
    """One plan, by our naive checker, by the program of the kernel, by the whole command, and by ExecuTorch."""
    made = plan_memory(training_model(count), options=PlanOptions(layout="packed")).plan
    path = folder / "plan.cbor"
    file.save(made, path)
    s = made.allocation.storages
    rows = [
        list(row) for row in zip(*(c.tolist() for c in (s.arena, s.birth, s.death, s.offset, s.bytes)), strict=True)
    ]
    subject = Subject(file.load(path))
    naive, found = cpu(lambda: list(violations(subject)))
    assert found == []
    kernel, where = 0.0, installed.find_program()
    if where is not None:
        of = PlanFile.as_read(subject.stated)
        kernel, answer = cpu(lambda: program.ask(where, subject.context, of, 600))
        assert answer.accepted, answer
    command = [sys.executable, "-m", "proofs.verify.entry", str(path), "-q"]
    whole, done = cpu(lambda: subprocess.run(command, capture_output=True, text=True))
    assert done.stdout.startswith("PROVED"), done
    peer = asked(python, "peer_executorch.py", rows, folder)
    print(f"{f'verifying {len(rows)} storages':40} {'CPU s':>12} {'× faster':>12}")
    name = f"ExecuTorch {peer['version']}, verify_storage_reuse"
    print(f"{name:40} {peer['seconds']:>12.3f}")
    for name, seconds in (
        ("naive checker", naive),
        ("kernel's program, with its words", kernel),
        ("verify-plan", whole),
    ):
        if seconds:
            print(f"{name:40} {seconds:>12.3f} {peer['seconds'] / seconds:>12.0f}")


def planners(python: str, count: int, folder: Path) -> None:
    """One model, planned by us in two layouts, and by tinygrad."""
    model = training_model(count)
    print(f"\n{f'planning {count} tensors':40} {'CPU s':>12} {'÷ peak live':>12}")
    peak = 0
    for layout in ("slots", "packed"):
        seconds, made = cpu(lambda layout=layout: plan_memory(model, options=PlanOptions(layout=layout)).plan)
        names = [arena.name for arena in made.allocation.arenas]
        used = made.usage[names.index("activations")] if "activations" in names else max(made.usage)
        peak = used.peak_live_bytes
        print(
            f"tmmu {metadata.version('tmmu')}, {layout:32} {seconds:>12.3f} {used.footprint / peak:>12.3f}", flush=True
        )
    row = {t: k for k, t in enumerate(t for t, one in enumerate(model.tensors) if one.role is Role.ACTIVATION)}
    steps = [[row[t] for t in dict.fromkeys((*node.writes, *node.reads)) if t in row] for node in model.nodes]
    peer = asked(python, "peer_tinygrad.py", {"bytes": [model.tensors[t].bytes for t in row], "steps": steps}, folder)
    what = f"tinygrad {peer['version']}, memory_plan_rewrite"
    print(f"{what:40} {peer['seconds']:>12.3f} {peer['bytes'] / peak:>12.3f}")


def main(executorch: str, tinygrad: str, storages: int = STORAGES, buffers: int = BUFFERS) -> None:
    """Print both tables, and on what they were measured."""
    names = re.findall(r"^model name\s*: (.+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE) or [""]
    print(f"{len(names)} × {names[0]}, Python {platform.python_version()}, {time.strftime('%F')}")
    with tempfile.TemporaryDirectory() as folder:
        verifiers(executorch, storages, Path(folder))
        planners(tinygrad, buffers, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:5]))
