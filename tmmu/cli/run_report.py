"""What `tmmu run` says: text, JSON, and the outputs as a file. spec: SIM1.7, SIM6.2, SIM6.4, SIM6.6"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tmmu.plan.columns import Plan
    from tmmu.runtime.simulator import Report


@dataclass(frozen=True)
class Run:
    """One run: what it showed, and the outputs as arrays where there are kernels for them."""

    report: Report
    outputs: Mapping[str, Any]


def _used(found: list[Run]) -> list[int]:
    """The most bytes of each arena that a run used."""
    return [max(used) for used in zip(*(each.report.touched for each in found), strict=True)]


def text(name: str, plan: Plan, kernels: str, seed: int, found: list[Run], made: bool) -> Iterator[str]:
    """The answer in lines: the verdict, then the witness or how much of each arena was used."""
    corruption = found[-1].report.corruption
    if corruption is not None:
        yield f"CORRUPTED {name}: {corruption.text}"
        if corruption.tensors:
            yield f"  tensors: {', '.join(corruption.tensors)}"
        if corruption.step is not None:
            yield f"  step: {corruption.step}"
        if corruption.arena is not None:
            yield f"  bytes: {corruption.first_byte} to {corruption.last_byte} of {corruption.arena}"
        yield f"  kernels {kernels}, seed {seed + len(found) - 1}"
        return
    looks = sum(each.report.looks for each in found)
    seeds = f"seed {seed}" if len(found) == 1 else f"seeds {seed} to {seed + len(found) - 1}"
    own = " (planned for this run, packed)" if made else ""
    compared = f"{len(plan.steps)} steps, {looks} reads and results compared"
    yield f"IDENTICAL {name}{own}: {compared}, kernels {kernels}, {seeds}"
    for arena, usage, used in zip(plan.arenas, plan.usage, _used(found), strict=True):
        if usage.footprint:
            yield f"  {arena.name}: {used} bytes used of a footprint of {usage.footprint}"


def document(name: str, plan: Plan, kernels: str, sanitize: bool, seed: int, found: list[Run]) -> dict[str, Any]:
    """The same as an object of JSON."""
    corruption = found[-1].report.corruption
    witness = corruption and {
        "text": corruption.text, "tensors": list(corruption.tensors), "step": corruption.step,
        "arena": corruption.arena, "first_byte": corruption.first_byte, "last_byte": corruption.last_byte,
        "seed": seed + len(found) - 1,
    }  # fmt: skip
    return {
        "file": name,
        "verdict": "IDENTICAL" if corruption is None else "CORRUPTED",
        "exit": 0 if corruption is None else 1,
        "kernels": kernels,
        "sanitize": sanitize,
        "seed": seed,
        "runs": len(found),
        "steps": len(plan.steps),
        "compared": sum(each.report.looks for each in found),
        "arenas": [
            {"name": arena.name, "used_bytes": used, "footprint_bytes": usage.footprint}
            for arena, usage, used in zip(plan.arenas, plan.usage, _used(found), strict=True)
        ],
        "witness": witness,
    }


def write(path: str, outputs: Mapping[str, Any]) -> None:
    """Write outputs as an .npz file, whole or not at all."""
    import numpy as np

    from tmmu.canonical import write_atomically

    buffer = io.BytesIO()
    np.savez(buffer, **outputs)
    write_atomically(path, buffer.getvalue())
    click.echo(f"wrote {path}", err=True)
