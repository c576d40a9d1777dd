"""What `tmmu run` prints: text, JSON, and the outputs as a file. spec: SIM1.7, SIM6.2, SIM6.4, SIM6.6, SIM8.5"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tmmu.cli.units import plain, seconds
from tmmu.core.output import count_noun, list_names, print_lines
from tmmu.plans.metrics import compute_footprints
from tmmu.plans.replan import convert_to_units
from tmmu.plans.shapes import at_shape
from tmmu.runtime.records.schema import STATUS

if TYPE_CHECKING:
    from tmmu.cli.recording import Recording
    from tmmu.cli.run_options import RunOptions
    from tmmu.plans.replan import ReplanRecord
    from tmmu.plans.sections import Plan
    from tmmu.simulator import SimulationReport


@dataclass(frozen=True)
class BatchResult:
    """One batch: its result, the outputs as arrays if kernels exist for them, and its record.

    `plan` was in force, since the safepoint before the batch if there is a `change`; `shape` are the sizes of the
    dimensions that the plan leaves open.
    """

    report: SimulationReport
    outputs: Mapping[str, Any]
    plan: Plan
    shape: Mapping[str, int]
    change: ReplanRecord | None = None
    record: Recording | None = None
    smaller: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of the tensors that were smaller than planned, by name. spec: SIM5.11"""
    borrowed: Mapping[str, str] = field(default_factory=dict)
    """The operators of the nodes that onnxruntime computed in place of onnx, by node. spec: SIM5.12"""

    def footprints(self) -> list[int]:
        """Return the bytes that each arena needed: of a symbolic plan those of the shape."""
        plan = self.plan
        if plan.envelope is not None and plan.envelope.symbolic:
            plan = at_shape(plan, convert_to_units(plan, self.shape))
        return compute_footprints(plan.allocation)


def _used(found: list[BatchResult]) -> Iterator[tuple[str, int, int]]:
    """Of each arena of the last plan in force: its name, the most bytes that batches used, and its footprint.

    Of a symbolic plan it is the largest footprint of a batch.
    """
    plan = found[-1].plan
    batches = [each for each in found if each.plan is plan]
    used = zip(*(each.report.touched for each in batches), strict=True)
    of_shapes = {tuple(each.shape.items()): each for each in batches}.values()  # batches of one shape need the same
    needed = zip(*(each.footprints() for each in of_shapes), strict=True)
    for arena, footprints, most in zip(plan.allocation.arenas, needed, used, strict=True):
        yield arena.name, max(most), max(footprints)


def _shape(shape: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in shape.items())


def _changes(found: list[BatchResult]) -> Iterator[str]:
    """Yield the shapes of the batches, and each new plan."""
    if any(each.shape for each in found):
        yield f"  shapes: {list_names([_shape(each.shape) for each in found])}"
    if borrowed := found[-1].borrowed:
        shown = [f"{op} ({node})" for node, op in borrowed.items()]
        yield f"  computed by onnxruntime, as onnx has no kernel: {list_names(shown)}"
    if smaller := found[-1].smaller:
        shown = [f"{name} [{', '.join(map(str, shape))}]" for name, shape in smaller.items()]
        yield f"  smaller than planned: {list_names(shown)}"
    for number, each in enumerate(found):
        if each.change is not None:
            old, new = each.change.old_tmmu_plan_hash.hex(), each.change.new_tmmu_plan_hash.hex()
            yield f"  replanned before batch {number + 1}, proved: {each.change.reason}"
            yield f"    {old} -> {new}"


def text(name: str, computing: RunOptions, found: list[BatchResult], made: bool) -> Iterator[str]:
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
        yield from _changes(found)
        yield from _sealed(found[-1].record)
        return
    looks = sum(each.report.looks for each in found)
    seeds = f"seed {seed}" if len(found) == 1 else f"seeds {seed} to {seed + len(found) - 1}"
    own = " (planned for this run, packed)" if made else ""
    compared = f"{count_noun(len(found[-1].plan.allocation.steps), 'step')}, {looks} reads and results compared"
    yield f"IDENTICAL {name}{own}: {compared}, kernels {computing.kernels}, {seeds}"
    yield from _changes(found)
    for arena, used, footprint in _used(found):
        if footprint:
            yield f"  {arena}: {used} bytes used of a footprint of {footprint}"
    yield from _sealed(found[-1].record)


def _sealed(record: Recording | None) -> Iterator[str]:
    """How a recorded run was completed, and the hashes that it ended with."""
    if record is not None and record.state is not None:
        yield f"  {STATUS[record.corruption is not None]}, applied in {seconds(record.allocation_time_ns or 0)}"
        yield f"  state {record.state.hex()}"
    if record is not None and record.chain is not None:
        yield f"  trace chain {record.chain.hex()}"


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def document(name: str, computing: RunOptions, found: list[BatchResult]) -> dict[str, Any]:
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
        "steps": len(found[-1].plan.allocation.steps),
        "compared": sum(each.report.looks for each in found),
        "arenas": [
            {"name": arena, "used_bytes": used, "footprint_bytes": footprint} for arena, used, footprint in _used(found)
        ],
        "shapes": [dict(each.shape) for each in found if each.shape],
        "borrowed": dict(found[-1].borrowed),
        "smaller": {name: list(shape) for name, shape in found[-1].smaller.items()},
        "replans": [
            {"batch": number + 1, **plain(each.change.to_object())}
            for number, each in enumerate(found)
            if each.change is not None
        ],
        "status": STATUS[corruption is not None],
        "failure_code": None if corruption is None else "CONTRACT_VIOLATION",
        "allocation_time_ns": record and record.allocation_time_ns,
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
