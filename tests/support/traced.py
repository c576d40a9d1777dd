"""Traces as an importer gives them, written by hand, and the models made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from proofs.verify.entry import run as verify_plan
from proofs.verify.judge import verify
from proofs.verify.options import Options
from tmmu.cli.entry import run as command
from tmmu.core.vocabulary import Bindings, Model, Role
from tmmu.importers.traced import Op, TracedValue, TrainingTrace
from tmmu.ir import files
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.modes import prepare_graph
from tmmu.plans import file
from tmmu.simulator import HashKernels, PlanProgram, simulate

F = "float32"


def dense(*shape: int, storage: object = None, dtype: str = F, offset: int = 0, of: int | None = None) -> TracedValue:
    return TracedValue(shape, dtype, None, offset, storage, of)


def traced(values: dict[str, TracedValue], *ops: Op, **more: Any) -> TrainingTrace:
    trace = TrainingTrace("hand", dict(values), given={"x": Role.INPUT, "w": Role.PARAMETER}, ops=list(ops))
    for key, value in more.items():
        setattr(trace, key, value)
    return trace


def op(name: str, reads: str, results: str, **more: Any) -> Op:
    return Op(name, "test", name.rstrip("0123456789"), tuple(reads.split()), tuple(results.split()), **more)


def lines(model: Model) -> list[str]:
    def names(rows: tuple[int, ...]) -> str:
        return " ".join(model.tensors[t].name for t in rows)

    return [f"{n.phase.value[0]} {n.name}: {names(n.reads)} -> {names(n.writes)}" for n in model.nodes]


def proved(model: Model, folder: Path, mode: str = "backward") -> None:
    """The model is written, read, planned in both layouts, and each plan proved against it."""
    files.save(model, folder / "m.ir.cbor")
    loaded = files.load(folder / "m.ir.cbor")
    assert loaded == model
    for layout in ("slots", "packed"):
        plan = plan_memory(prepare_graph(loaded, mode, DEFAULT), options=PlanOptions(mode=mode, layout=layout)).plan
        file.save(plan, folder / "p.cbor")
        donated = frozenset(model.bindings.donated)
        verdict = verify(
            str(folder / "p.cbor"), Options(model=str(folder / "m.ir.cbor"), bindings=Bindings(donated=tuple(donated)))
        )
        assert verdict.verdict == "PROVED", verdict


def runs(model: Model, folder: Path) -> None:
    """A plan of the model in mode backward runs as in private memory, its tensors' owners looked at."""
    plan = plan_memory(prepare_graph(model, "backward", DEFAULT), options=PlanOptions(mode="backward")).plan
    program = PlanProgram(plan, frozenset(model.bindings.donated))
    for seed in range(2):
        assert simulate(program, HashKernels(program, seed), sanitize=True).identical


def sharded(model: Model, folder: Path) -> None:
    """Two ranks of each stage of ZeRO are proved together, and hold less with each stage."""
    held = []
    for stage in (0, 1, 2, 3):
        zero = f'[zero]\naxis = "data"\nstage = {stage}\n' if stage else ""
        (folder / "s.toml").write_text(f"pad = true\n[mesh]\ndata = 2\n{zero}")
        files.save(model, folder / "m.ir.cbor")
        flags = ("--mode", "backward", "--shard", str(folder / "s.toml"), "-o", str(folder / f"p{stage}.cbor"))
        assert command(["plan", str(folder / "m.ir.cbor"), *flags]) == 0
        ranks = [str(folder / f"p{stage}.rank{rank}.cbor") for rank in range(2)]
        donated = [word for name in model.bindings.donated for word in ("--donate", name)]
        assert verify_plan([*ranks, "--model", str(folder / "m.ir.cbor"), "--require", "ranks,model", *donated]) == 0
        plan = file.load(ranks[0]).plan
        held.append([sum(usage.peak_live_bytes or 0 for usage in plan.usage[:k]) for k in (1, 2)])
    parameters, both = zip(*held, strict=True)
    assert parameters[0] == parameters[1] == parameters[2] > parameters[3]
    assert both[0] > both[1] == both[2] > both[3]


STEP = {
    "x": dense(4, 8), "w": dense(8, 8), "wt": TracedValue((8, 8), F, (1, 8), 0, None, 256), "h": dense(4, 8),
    "r": dense(4, 8), "y": dense(), "seed": dense(), "dr": dense(4, 8), "dh": dense(4, 8), "dw": dense(8, 8),
}  # fmt: skip
"""The values of a layer's training step: y = sum(relu(x w)), and backward from the seed."""


def step(**more: Any) -> TrainingTrace:
    values = dict(STEP)
    values["w"] = replace(values["w"], storage="W", storage_bytes=256)
    values["wt"] = replace(values["wt"], storage="W")
    more = {
        "seeds": {"seed"}, "outputs": ["y", "dw"], "gradients": {"w": "dw"},
        "given": {"x": Role.INPUT, "w": Role.PARAMETER, "seed": Role.INPUT}, **more,
    }  # fmt: skip
    return traced(
        values,
        op("mm0", "x w", "h"),
        op("relu", "h", "r", elementwise=True),
        op("sum", "r", "y"),
        op("t", "w", "wt"),
        op("expand", "seed", "dr"),
        op("relu_backward", "dr r", "dh", elementwise=True),
        op("mm1", "x dh", "dw"),
        **more,
    )
