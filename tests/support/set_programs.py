"""Three programs that take turns in one memory, stated as text, and runs of them: right ones, and one fault each.

`prefill` writes the cache whole, `decode` takes it and leaves it in place, `classify` does not know it. All read one
weight. Scratch and activations of the three are at the same addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tmmu.cli.entry import run
from tmmu.plans import text
from tmmu.plans.sections import Plan
from tmmu.plans.sets import Agreement, SetArena, SharedTensor, SharedUse
from tmmu.runtime.events import EventLog
from tmmu.runtime.sets import SetMemory
from tmmu.simulator import HashKernels, PlanProgram, SimulationReport
from tmmu.simulator.calls import CalledProgram, SetCalls, find_initial, find_state
from tmmu.simulator.calls_log import CallsLog

TEXTS = {
    "prefill": """
arena act 1024 align 64
arena weights 64 align 64 persistent
tensor x   128 act 256 input
tensor w    64 weights 0 parameter
tensor a   128 act 384
tensor s    64 act 512 scratch
tensor kv  256 act   0 output
step first Gemm x w s -> a s
step write my::Fill a -> kv
""",
    "decode": """
arena act 1024 align 64
arena weights 64 align 64 persistent
tensor t    64 act 256 input
tensor w    64 weights 0 parameter
tensor past 256 act 0 input donated
tensor b    64 act 320
tensor v    64 act 320 view b 0
tensor next 256 act 0 output inplace past
tensor y    64 act 384 output
step first Gemm t w -> b
step shape Reshape b -> v
step put my::Put v past -> next
step last my::Attend v next -> y
""",
    "classify": """
arena act 1024 align 64
arena weights 64 align 64 persistent
tensor z   64 act 256 input
tensor w   64 weights 0 parameter
tensor c   64 act 320
tensor p   64 act 384 output
step first Gemm z w -> c
step last Relu c -> p
""",
}
SHARED: dict[str, tuple[str, int, int, dict[str, tuple[str | None, str | None]]]] = {
    "w": ("weights", 0, 64, dict.fromkeys(TEXTS, ("w", None))),
    "cache": ("act", 0, 256, {"prefill": (None, "kv"), "decode": ("past", "next")}),
}
"""The shared tensors: arena, offset, bytes, and the entry and exit in each program."""
MODELS = {
    "prefill": """tmmu-ir-text 1
tensor x f32 8x16 input
tensor w f32 16x16 parameter
tensor a f32 8x16
tensor kv f32 16x16 output
node first Gemm x w -> a
node fill my::Fill a -> kv
""",
    "decode": """tmmu-ir-text 1
tensor t f32 1x16 input
tensor w f32 16x16 parameter
tensor kv f32 16x16 input donated
tensor b f32 1x16
tensor kv1 f32 16x16 output
tensor y f32 1x16 output
node first Gemm t w -> b
node put my::Put b kv -> kv1 inplace kv1 kv
node last my::Attend b kv1 -> y
""",
}
"""Two models over one cache, as text."""
CALLS = ("prefill", "decode", "classify", "decode", "prefill", "decode")


def plans(faults: Mapping[str, tuple[str, str]] | None = None) -> dict[str, Plan]:
    """The plans, in which each program of `faults` has one piece of its text replaced, which occurs once."""
    made = {}
    for name, lines in TEXTS.items():
        old, new = (faults or {}).get(name, ("", ""))
        assert not old or lines.count(old) == 1, (old, name)
        found = text.read(f"tmmu-plan-text 1{lines.replace(old, new) if old else lines}".encode(), name)
        assert isinstance(found, Plan)
        made[name] = found
    return made


def agreement(*, cache_is_initial: bool = True) -> Agreement:
    """What the three programs agree on."""
    shared = tuple(
        SharedTensor(name, arena, offset, size, 64, "uint8", name == "w" or cache_is_initial,
                     {program: SharedUse(*use) for program, use in uses.items()})
        for name, (arena, offset, size, uses) in SHARED.items()
    )  # fmt: skip
    return Agreement(tuple(TEXTS), (SetArena("act", 576, 64), SetArena("weights", 64, 64)), shared)


def set_programs(made: Mapping[str, Plan]) -> dict[str, CalledProgram]:
    """The plans as programs of the set."""
    return {name: find_state(name, PlanProgram(plan), agreement()) for name, plan in made.items()}


def run_set(
    faults: Mapping[str, tuple[str, str]] | None = None,
    calls: Sequence[str] = CALLS,
    log: Path | None = None,
    *,
    cache_is_initial: bool = True,
) -> list[SimulationReport]:
    """The reports of the calls, up to the first that shows a corruption."""
    made = plans(faults)
    programs = set_programs(made)
    initial = find_initial(agreement(cache_is_initial=cache_is_initial), programs.values())
    found: list[SimulationReport] = []
    with SetMemory.map(made) as memory:
        running = SetCalls(programs, initial, memory.of, sanitize=True)
        logged = None if log is None else CallsLog(running, EventLog(log))
        for seed, name in enumerate(calls):
            kernels = HashKernels(programs[name].program, seed)
            if logged is None:
                found.append(running.call(name, kernels))
            else:
                logged.begin(name)
                found.append(running.call(name, kernels, observe=logged.observe))
                logged.end()
            if not found[-1].identical:
                break
    return found


def recurrent(path: Path, rows: int, seed: int) -> None:
    """A model of a state: its next value is what it was, with what some rows of input add."""
    random = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) * np.float32(0.3), name)
        for name, shape in (("W", (rows, 16)), ("U", (16, 16)), ("V", (16, 4)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["a"]), helper.make_node("MatMul", ["h", "U"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Tanh", ["s"], ["h_next"]),
        helper.make_node("MatMul", ["h_next", "V"], ["y"]),
    ]  # fmt: skip
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in pairs]
        for pairs in ((("x", rows), ("h", 16)), (("y", 4), ("h_next", 16)))
    ]
    graph = helper.make_graph(nodes, "g", ends[0], ends[1], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def plan_recurrent(folder: Path) -> list[str]:
    """Plan two recurrent models over one state into `folder/set`, and return the options that name the models."""
    for name, rows in (("warm", 32), ("step", 8)):
        recurrent(folder / f"{name}.onnx", rows, 1)
    models = [str(folder / "warm.onnx"), str(folder / "step.onnx")]
    assert run(["plan", *models, "--share", "h", "--donate", "h", "-o", str(folder / "set")]) == 0
    return [f"--model={name}={folder / name}.onnx" for name in ("warm", "step")]
