"""What `tmmu run` prints: text, JSON, and the outputs as a file. spec: SIM1.7, SIM6.2, SIM6.4, SIM6.6, SIM8.5"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tmmu.core.output import counted, print_lines
from tmmu.plan.metrics import footprints

if TYPE_CHECKING:
    from tmmu.cli.recording import Recording
    from tmmu.cli.run_options import RunOptions
    from tmmu.plan.sections import Plan
    from tmmu.simulator import SimulationReport


@dataclass(frozen=True)
class BatchResult:
    """One batch: what it showed, the outputs as arrays where there are kernels for them, and how it was recorded."""

    report: SimulationReport
    outputs: Mapping[str, Any]
    record: Recording | None = None


def _used(found: list[BatchResult]) -> list[int]:
    """The most bytes of each arena that a run used."""
    return [max(used) for used in zip(*(each.report.touched for each in found), strict=True)]


def text(name: str, plan: Plan, computing: RunOptions, found: list[BatchResult], made: bool) -> Iterator[str]:
    """The answer in lines: the verdict, then the witness or how much of each arena was used."""
    corruption, seed = found[-1].report.corruption, computing.seed
    if corruption is not None:
        yield f"CORRUPTED {name}: {corruption.text}"
        if corruption.tensors:
            yield f"  tensors: {', '.join(corruption.tensors)}"
        if corruption.step is not None:
            yield f"  step: {corruption.step}"
        if corruption.arena is not None:
            yield f"  bytes: {corruption.first_byte} to {corruption.last_byte} of {corruption.arena}"
        batch = f" (batch {len(found)} from seed {seed})" if len(found) > 1 else ""
        yield f"  kernels {computing.kernels}, seed {seed + len(found) - 1}{batch}"
        yield from _sealed(found[-1].record)
        return
    looks = sum(each.report.looks for each in found)
    seeds = f"seed {seed}" if len(found) == 1 else f"seeds {seed} to {seed + len(found) - 1}"
    own = " (planned for this run, packed)" if made else ""
    compared = f"{counted(len(plan.allocation.steps), 'step')}, {looks} reads and results compared"
    yield f"IDENTICAL {name}{own}: {compared}, kernels {computing.kernels}, {seeds}"
    for arena, footprint, used in zip(plan.allocation.arenas, footprints(plan.allocation), _used(found), strict=True):
        if footprint:
            yield f"  {arena.name}: {used} bytes used of a footprint of {footprint}"
    yield from _sealed(found[-1].record)


def _sealed(record: Recording | None) -> Iterator[str]:
    """The hashes that a recorded run ended with."""
    if record is not None and record.state is not None:
        yield f"  state {record.state.hex()}"
    if record is not None and record.chain is not None:
        yield f"  trace chain {record.chain.hex()}"


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def document(name: str, plan: Plan, computing: RunOptions, found: list[BatchResult]) -> dict[str, Any]:
    """The same as an object of JSON."""
    corruption, record = found[-1].report.corruption, found[-1].record
    witness = corruption and {
        "text": corruption.text, "tensors": list(corruption.tensors), "step": corruption.step,
        "arena": corruption.arena, "first_byte": corruption.first_byte, "last_byte": corruption.last_byte,
        "seed": computing.seed + len(found) - 1,
    }  # fmt: skip
    return {
        "file": name,
        "verdict": "IDENTICAL" if corruption is None else "CORRUPTED",
        "exit": 0 if corruption is None else 1,
        "kernels": computing.kernels,
        "sanitize": computing.sanitize,
        "seed": computing.seed,
        "batches": len(found),
        "steps": len(plan.allocation.steps),
        "compared": sum(each.report.looks for each in found),
        "arenas": [
            {"name": arena.name, "used_bytes": used, "footprint_bytes": footprint}
            for arena, footprint, used in zip(
                plan.allocation.arenas, footprints(plan.allocation), _used(found), strict=True
            )
        ],
        "state_hash": record and _hex(record.state),
        "trace_final_hash": record and _hex(record.chain),
        "witness": witness,
    }


def write(path: str, outputs: Mapping[str, Any]) -> None:
    """Write outputs as an .npz file, whole or not at all."""
    import numpy as np

    from tmmu.core.canonical import write_atomically

    buffer = io.BytesIO()
    np.savez(buffer, **outputs)
    write_atomically(path, buffer.getvalue())
    print_lines(f"wrote {path}", err=True)
