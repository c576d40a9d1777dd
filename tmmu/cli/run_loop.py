"""The loop of `tmmu run`: a safepoint, then a batch, until all have run or one is corrupted.

At the safepoint the shape of the next batch is known. One outside the envelope ends the run, or leads to a new plan
that is proved, takes the old one's place and is checkpointed before the batch begins, as the machine of
`tla/tmmu/PlanLifecycle.tla` does. spec: R6.7, R6.8, R6.13, SIM6.6 to SIM6.9, U8.1 to U8.7
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tmmu.cli.options import RecordOptions
from tmmu.cli.recording import Recording, recording
from tmmu.cli.replan import ReplanOptions, replan_for
from tmmu.cli.run_options import RunOptions
from tmmu.cli.run_report import BatchResult
from tmmu.core.bindings import convert_units
from tmmu.core.errors import TmmuError
from tmmu.core.kind import is_plan
from tmmu.core.progress import Doing, report_nothing
from tmmu.core.vocabulary import REPLAN_POLICIES, Bindings
from tmmu.plans import file, metrics
from tmmu.plans.replan import convert_to_units
from tmmu.plans.sections import Plan
from tmmu.plans.shapes import at_shape, shape_of
from tmmu.simulator import Batches, Corrupted, HashKernels, PlanProgram, SimulationReport
from tmmu.simulator.needs import check_memory

if TYPE_CHECKING:
    from tmmu.plans.replan import ReplanRecord
    from tmmu.simulator.onnx_kernels import OnnxKernels
    from tmmu.simulator.onnx_model import OnnxModel


class Runnable(NamedTuple):
    """A plan at one shape, as a program, with the model that it is of and its kernels, where these compute."""

    program: PlanProgram
    model: OnnxModel | None = None
    kernels: OnnxKernels | None = None


class BatchLoop:
    """The batches of a run.

    Parameters
    ----------
    target, name
        The files of what computes, and of the plan.
    plan
        The plan in force at the beginning.
    donated
        The inputs that the caller donates.
    sizes
        The sizes of each dimension, for the batches in turn; after the last comes the first again.
    computing, address_token
        What computes, and the token for a new plan with hashed addresses.
    """

    def __init__(
        self,
        target: str,
        name: str,
        plan: Plan,
        donated: Sequence[str],
        sizes: Mapping[str, Sequence[int]],
        computing: RunOptions,
        address_token: bytes | None = None,
    ) -> None:
        self.target, self.name, self.plan, self.donated = target, name, plan, frozenset(donated)
        self.sizes, self.computing, self.address_token = sizes, computing, address_token
        self.make = None if computing.kernels == "hash" else computing.node_kernel()
        self.known: dict[tuple[int, ...], Runnable] = {}

    def run(self, files: RecordOptions, doing: Doing = report_nothing) -> Iterator[BatchResult]:
        """One batch for each seed, up to the first that shows a corruption; `doing` is called with each step.

        Raises TmmuError where a shape is refused, a new plan cannot be made, proved or applied, and what batches raise.
        """
        try:
            if not self.beyond(0):
                self.runnable(shape_of(self.plan, self.asked(0)))
        except Corrupted as error:  # it is not a program: nothing is applied
            yield self.refuted(error, 0)
            return
        policy = None if self.plan.envelope is None else self.plan.envelope.policy
        with recording(self.plan, files, replans=policy == REPLAN_POLICIES[1]) as record:
            batches = None
            for number in range(self.computing.count):
                change = self.safepoint(record, number)
                shape = shape_of(self.plan, self.asked(number))
                try:
                    runnable = self.runnable(shape)
                    if batches is None:
                        batches = Batches(runnable.program, record.where, sanitize=self.computing.sanitize)
                    elif batches.program is not runnable.program:
                        batches.switch_program(runnable.program, record.where)
                except Corrupted as error:
                    record.corruption = error.corruption
                    yield self.refuted(error, number, record)
                    return
                report, arrays = self.batch(batches, runnable, number, doing)
                record.corruption = report.corruption
                smaller = {} if runnable.kernels is None else runnable.kernels.shapes_below()
                bound_to = convert_units(self.plan.bindings, shape)
                yield BatchResult(report, arrays, self.plan, bound_to, change, record, smaller, self.borrowed())
                if not report.identical:
                    return
            if record.refused is not None:
                raise record.refused

    def asked(self, number: int) -> dict[str, int]:
        """The sizes that are asked for in a batch, of a dimension with a step in its units."""
        shape = {name: each[number % len(each)] for name, each in self.sizes.items()}
        return convert_to_units(self.plan, shape)

    def beyond(self, number: int) -> bool:
        """Whether the plan in force does not hold for a batch; INVALID_BINDING for a dimension that it does not have.

        A plan without provenance states no dimensions: none is looked at.
        """
        from tmmu.planner.replan import find_outside

        return self.plan.provenance is not None and bool(find_outside(self.plan, self.asked(number)))

    def safepoint(self, record: Recording, number: int) -> ReplanRecord | None:
        """Where the plan in force does not hold for the next batch: refuse that, or put a proved plan in its place."""
        if not self.beyond(number):
            return None
        asked = ReplanOptions(iteration=number, address_token=self.address_token)
        made, change = replan_for(self.name, self.plan, self.target, self.asked(number), asked)
        prove(made, self.target)
        assert change is not None  # the shape is outside
        record.exchange(made, change)
        self.plan = made
        self.known.clear()
        return change

    def runnable(self, shape: Mapping[str, int]) -> Runnable:
        """Return the plan in force at a shape. Raises `Corrupted` for a plan of another model."""
        key = tuple(shape.values())
        if key not in self.known:
            program = PlanProgram(at_shape(self.plan, shape), self.donated)
            check_memory(program)
            self.known[key] = Runnable(program) if is_plan(self.target) else self.bound(program)
        return self.known[key]

    def bound(self, program: PlanProgram) -> Runnable:
        """A program with the ONNX model with which it agrees, and with the kernels of that which are asked for."""
        from tmmu.onnx import resolve
        from tmmu.simulator.onnx_model import OnnxModel

        bindings = program.plan.bindings
        model = OnnxModel(resolve(self.target, replace(bindings, ranges={})))
        model.bind(program, self.saved(bindings) if self.plan.origin.mode == "forward" else ())
        if self.computing.kernels == "hash":
            return Runnable(program, model)
        make = self.make
        assert make is not None  # there are kernels
        from tmmu.examples.graph import absent_weights_of
        from tmmu.simulator.onnx_kernels import OnnxKernels
        from tmmu.simulator.values import read_inputs

        if not self.computing.random_weights:
            model.check_weights(absent_weights_of(model.proto))
        path, given = self.computing.inputs, {name: model.sizes[name] for name in model.inputs}
        inputs = {} if path is None else read_inputs(path, given)
        return Runnable(program, model, OnnxKernels(program, model, inputs, make=make))

    def borrowed(self) -> dict[str, str]:
        """Return the operator of each node that onnxruntime computes because onnx has no kernel for it."""
        return dict(getattr(self.make, "taken", {}))

    def saved(self, bindings: Bindings) -> list[str]:
        """Return the tensors of the forward half that a backward half of the model would read. spec: M1.6, SIM5.7"""
        from tmmu.planner.modes import prepare_graph
        from tmmu.tasks.models import load

        forward = prepare_graph(load(self.target, bindings), "forward", ())
        return [tensor.name for tensor in forward.tensors if tensor.saved_for_backward]

    def batch(
        self, batches: Batches, runnable: Runnable, number: int, doing: Doing
    ) -> tuple[SimulationReport, dict[str, Any]]:
        """Run a batch: what it showed, and its outputs as arrays where the model's kernels compute."""
        program, seed = batches.program, self.computing.seed + number
        of = len(program.steps)

        def step(at: int) -> None:
            doing(f"seed {seed}, step", number * of + at, self.computing.count * of)

        if runnable.model is None or runnable.kernels is None:
            report, arrays = batches.run(HashKernels(program, seed), step), {}
        else:
            runnable.kernels.seed = seed
            report = batches.run(runnable.kernels, step)
            outputs = runnable.kernels.arrays(report.outputs)
            arrays = {name: array for name, array in outputs.items() if name in runnable.model.outputs}
        return report, arrays

    def refuted(self, error: Corrupted, number: int, record: Recording | None = None) -> BatchResult:
        """Return the result of a plan that is not a program."""
        needed = metrics.compute_footprints(self.plan.allocation)
        report = SimulationReport(error.corruption, 0, [0] * len(needed), needed)
        return BatchResult(report, {}, self.plan, shape_of(self.plan, self.asked(number)), None, record)


def prove(plan: Plan, model: str) -> None:
    """Raise CONTRACT_VIOLATION if the verifier does not prove a new plan against its model. spec: R6.13"""
    from proofs.verify.judge import judge
    from proofs.verify.options import Options
    from proofs.verify.verdict import PROVED

    stated = file.require_steps(file.decode(file.encode(plan)))
    granted = Bindings(
        donated=plan.bindings.donated, trust_shapes=plan.bindings.trust_shapes, stated=plan.bindings.stated,
        runtime=plan.bindings.runtime,
    )  # fmt: skip
    verdict = judge("the new plan", stated, Options(model=model, bindings=granted))
    if verdict.verdict != PROVED:
        found = next((entry for entry in verdict.obligations if entry["verdict"] != PROVED), {})
        raise TmmuError(
            "CONTRACT_VIOLATION",
            f"the new plan is {verdict.verdict}, the old one stands ({found.get('detail') or found.get('name', '')})",
            file=model,
            place=found.get("name"),
            fix="make it with tmmu replan and see what verify-plan reports of it",
            failure_operator="UML_OS.TMMU.PrepareMemory_v2",
        )
