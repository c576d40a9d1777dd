"""`tmmu run SET`: the programs of a plan set called one after the other, each beside private memory.

If the models of all programs are given and onnxruntime is installed, it computes the same calls by itself, and the
outputs are compared. spec: SIM9.1 to SIM9.7, U5.23
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from tmmu.cli import options
from tmmu.cli.options import RecordOptions
from tmmu.cli.run_options import RunOptions
from tmmu.core.extras import require_package
from tmmu.core.output import count_noun, format_json, list_names, print_lines, print_text
from tmmu.core.progress import Doing, progress
from tmmu.simulator import Corrupted, HashKernels, PlanProgram, SimulationReport
from tmmu.simulator.calls import CalledProgram, SetCalls, find_initial, find_state

if TYPE_CHECKING:
    from tmmu.simulator.onnx_kernels import OnnxKernels
    from tmmu.simulator.onnx_model import OnnxModel
    from tmmu.simulator.onnxruntime_calls import Difference, SessionCalls
    from tmmu.tasks.opened_sets import OpenedSet

MOST_CALLS = 1 << 20
"""The most calls of one run."""


def parse_calls(text: str | None, programs: Sequence[str]) -> list[str]:
    """Return the programs to call, in order. Raises UsageError for a name that is no program.

    >>> parse_calls("prefill,decode*3", ["prefill", "decode"])
    ['prefill', 'decode', 'decode', 'decode']
    """
    if text is None:
        return list(programs)
    calls: list[str] = []
    for part in text.split(","):
        name, times, count = part.strip(), "", ""
        if name not in programs:
            name, times, count = name.rpartition("*")
            name, count = name.strip(), count.strip()
        if name not in programs or (times and not (count.isascii() and count.isdigit())):
            raise click.UsageError(
                f"--calls {part!r}: expected PROGRAM or PROGRAM*N; the programs are {list_names(programs)}"
            )
        number = int(count) if times and len(count) < 8 else MOST_CALLS + 1 if times else 1
        if not 0 < number <= MOST_CALLS - len(calls):
            raise click.UsageError(f"--calls {part!r}: expected 1 to {MOST_CALLS} calls in all")
        calls += [name] * number
    return calls


@dataclass
class CalledMember:
    """A program of the set with what computes it."""

    state: CalledProgram
    model: OnnxModel | None = None
    kernels: OnnxKernels | None = None

    def kernels_at(self, seed: int) -> HashKernels | OnnxKernels:
        """Return the kernels for a call."""
        if self.kernels is None:
            return HashKernels(self.state.program, seed)
        self.kernels.seed = seed
        return self.kernels


@dataclass
class CallResult:
    """A call: the program, its result, and how far its outputs are from onnxruntime's."""

    name: str
    report: SimulationReport
    difference: Difference | None = None


def run_set(folder: str, computing: RunOptions, files: RecordOptions, style: str) -> int:
    """Run the calls of a set, print the result, and return the exit code. Raises `TmmuError` and UsageError."""
    from tmmu.tasks.opened_sets import open_set

    if replace(files, events=None).is_recorded:
        raise click.UsageError("of the records, only --events is for a plan set")
    opened = open_set(folder)
    calls = parse_calls(computing.calls, opened.manifest.agreement.programs)
    computing = _choose_kernels(computing, opened)
    if files.events is not None:
        computing = replace(computing, sanitize=True)  # a log states which call wrote what a read found
    options.check_apart(*opened.paths.values(), *computing.models.values(), files.events)
    with progress(folder) as doing:
        try:
            members = {name: _member(name, opened, computing) for name in opened.plans}
        except Corrupted as error:
            found, why = [CallResult(calls[0], SimulationReport(error.corruption, 0, [], []))], None
        else:
            judge, why = _judge(opened, members, computing.models)
            found = list(_run_calls(opened, members, calls, computing, files.events, judge, doing))
    if style == "json":
        print_text(format_json(_document(opened, computing, found, why)))
    else:
        print_lines(*_text(opened, computing, found, why))
    return _exit_code(found)


def _choose_kernels(computing: RunOptions, opened: OpenedSet) -> RunOptions:
    """Return the options with the kernels that compute: stand-ins unless every program has its model."""
    unknown = sorted(computing.models.keys() - opened.plans.keys())
    lacking = sorted(opened.plans.keys() - computing.models.keys())
    if unknown:
        raise click.UsageError(f"--model {unknown[0]}: the set has the programs {list_names(list(opened.plans))}")
    if computing.models and lacking:
        raise click.UsageError(f"--model: name the models of all programs; {list_names(lacking)} has none")
    kernels = computing.kernels or ("onnx" if computing.models else "hash")
    if kernels != "hash" and not computing.models:
        raise click.UsageError(f"--kernels {kernels} needs the models: --model PROGRAM=FILE")
    if kernels == "onnxruntime":
        require_package("onnxruntime", "--kernels onnxruntime", "judges")
    return replace(computing, kernels=kernels)


def _member(name: str, opened: OpenedSet, computing: RunOptions) -> CalledMember:
    """Return a program with its kernels. Raises `Corrupted` if its plan is not one of its model."""
    from tmmu.plans.shapes import at_shape, shape_of

    plan = opened.plans[name]
    given_up = frozenset() if plan.provenance is None else frozenset(plan.bindings.donated)
    program = PlanProgram(at_shape(plan, shape_of(plan, {})), given_up)
    models = computing.models
    if name not in models:
        return CalledMember(find_state(name, program, opened.manifest.agreement))
    from tmmu.onnx import resolve
    from tmmu.simulator.onnx_kernels import OnnxKernels
    from tmmu.simulator.onnx_model import OnnxModel

    model = OnnxModel(resolve(models[name], replace(plan.bindings, ranges={})))
    model.bind(program)
    state = find_state(name, program, opened.manifest.agreement)
    if computing.kernels == "hash":
        return CalledMember(state, model)
    if not computing.random_weights:
        model.check_weights()
    return CalledMember(state, model, OnnxKernels(program, model, {}, computing.seed, computing.node_kernel()))


def _judge(
    opened: OpenedSet, members: Mapping[str, CalledMember], models: Mapping[str, str]
) -> tuple[SessionCalls | None, str | None]:
    """Return onnxruntime's own calls, or the reason why they are not compared (None without models)."""
    if not models or any(member.kernels is None for member in members.values()):
        return None, None
    try:
        from tmmu.simulator.onnxruntime_calls import SessionCalls
    except ImportError:
        return None, "onnxruntime is not installed (pip install 'tmmu[judges]')"
    try:
        return SessionCalls(opened.manifest.agreement, models), None
    except Exception as error:  # onnxruntime raises exceptions of any kind over a model that it cannot load
        return None, f"onnxruntime cannot load a model ({str(error).splitlines()[0][:120]})"


def _run_calls(
    opened: OpenedSet,
    members: Mapping[str, CalledMember],
    calls: Sequence[str],
    computing: RunOptions,
    events: str | None,
    judge: SessionCalls | None,
    doing: Doing,
) -> Iterator[CallResult]:
    """Yield the result of each call, up to the first that shows a corruption."""
    from tmmu.runtime.events import EventLog
    from tmmu.runtime.sets import SetMemory
    from tmmu.simulator.calls_log import CallsLog

    programs = {name: member.state for name, member in members.items()}
    initial = find_initial(opened.manifest.agreement, programs.values())
    plans = {name: state.program.plan for name, state in programs.items()}
    with SetMemory.map(plans) as memory:
        running = SetCalls(programs, initial, memory.of, sanitize=computing.sanitize)
        log = None if events is None else CallsLog(running, EventLog(events))
        for number, name in enumerate(calls):
            running.check_ready(name)

            def step(at: int, number: int = number, name: str = name) -> None:
                doing(f"call {number + 1} of {len(calls)}, {name}, step", at, len(programs[name].program.steps))

            kernels = members[name].kernels_at(computing.seed + number)
            if log is not None:
                log.begin(name)
            report = running.call(name, kernels, step, None if log is None else log.observe)
            if log is not None and report.identical:
                log.end()
            result = CallResult(name, report)
            if judge is not None and report.identical:
                result.difference = _compare(judge, members[name], report)
            yield result
            if not report.identical:
                return


def _compare(judge: SessionCalls, member: CalledMember, report: SimulationReport) -> Difference | None:
    """Return the largest difference from onnxruntime's call."""
    from tmmu.simulator.elements import decode
    from tmmu.simulator.onnxruntime_calls import compare

    model, kernels = member.model, member.kernels
    assert model is not None
    assert kernels is not None
    rows = {tensor: t for t, tensor in enumerate(member.state.program.names)}
    inputs = {name: decode(kernels.given(rows[name]), model.sizes[name]) for name in model.inputs if name in rows}
    outputs = judge.call(member.state.name, inputs)
    ours = kernels.arrays(report.outputs)
    return compare({name: ours[name] for name in model.outputs if name in ours}, outputs)


def _exit_code(found: Sequence[CallResult]) -> int:
    wrong = [each for each in found if each.difference is not None and not each.difference.is_rounding]
    return 0 if found[-1].report.identical and not wrong else 1


def _verdict(found: Sequence[CallResult]) -> str:
    if not found[-1].report.identical:
        return "CORRUPTED"
    return "IDENTICAL" if _exit_code(found) == 0 else "DIFFERENT"


def _calls_text(found: Sequence[CallResult]) -> str:
    """Return the calls as `--calls` writes them.

    >>> _calls_text([CallResult(name, None) for name in ("a", "b", "b")])
    'a,b*2'
    """
    runs: list[tuple[str, int]] = []
    for each in found:
        if runs and runs[-1][0] == each.name:
            runs[-1] = (each.name, runs[-1][1] + 1)
        else:
            runs.append((each.name, 1))
    return ",".join(name if count == 1 else f"{name}*{count}" for name, count in runs)


def _used(opened: OpenedSet, found: Sequence[CallResult]) -> Iterator[tuple[str, int, int]]:
    """Yield each arena of the set with the most bytes that a call has used of it, and its footprint."""
    used: dict[str, int] = {}
    for each in found:
        arenas = opened.plans[each.name].allocation.arenas
        for arena, count in zip(arenas, each.report.touched, strict=True):
            used[arena.name] = max(count, used.get(arena.name, 0))
    for one in opened.manifest.agreement.arenas:
        yield one.name, used.get(one.name, 0), one.bytes


def _text(opened: OpenedSet, computing: RunOptions, found: Sequence[CallResult], why: str | None) -> Iterator[str]:
    verdict, last = _verdict(found), found[-1]
    end = computing.seed + len(found) - 1
    seeds = f"seed {computing.seed}" if len(found) == 1 else f"seeds {computing.seed} to {end}"
    if (corruption := last.report.corruption) is not None:
        yield f"CORRUPTED {opened.folder}: call {len(found)}, {last.name}: {corruption.text}"
        yield f"  calls: {_calls_text(found)}"
        if corruption.tensors:
            yield f"  tensors: {', '.join(corruption.tensors)}"
        if corruption.step is not None:
            yield f"  step: {corruption.step}"
        if corruption.arena is not None:
            yield f"  bytes: {corruption.first_byte} to {corruption.last_byte} of {corruption.arena}"
        yield f"  kernels {computing.kernels}, {seeds}"
        return
    looks = sum(each.report.looks for each in found)
    compared = f"{count_noun(len(found), 'call')}, {looks} reads and results compared"
    yield f"{verdict} {opened.folder}: {compared}, kernels {computing.kernels}, {seeds}"
    yield f"  calls: {_calls_text(found)}"
    for arena, used, footprint in _used(opened, found):
        if footprint:
            yield f"  {arena}: {used} bytes used of a footprint of {footprint}"
    if why is not None:
        yield f"  not compared with onnxruntime: {why}"
    differences = [(n, each) for n, each in enumerate(found, 1) if each.difference is not None]
    if differences:
        n, most = max(differences, key=lambda item: item[1].difference.relative if item[1].difference else 0.0)
        assert most.difference is not None
        where = f"{most.difference.relative:.1e} of the largest magnitude, in {most.difference.tensor} of call {n}"
        yield f"  onnxruntime, which feeds outputs back as inputs: the largest difference is {where}"


def _document(opened: OpenedSet, computing: RunOptions, found: Sequence[CallResult], why: str | None) -> dict[str, Any]:
    """Return the same as an object of JSON."""
    corruption = found[-1].report.corruption
    witness = corruption and {
        "call": len(found), "program": found[-1].name, "text": corruption.text, "tensors": list(corruption.tensors),
        "step": corruption.step, "arena": corruption.arena, "first_byte": corruption.first_byte,
        "last_byte": corruption.last_byte, "seed": computing.seed + len(found) - 1,
    }  # fmt: skip
    return {
        "set": opened.folder, "verdict": _verdict(found), "exit": _exit_code(found), "kernels": computing.kernels,
        "sanitize": computing.sanitize, "seed": computing.seed,
        "calls": [
            {
                "program": each.name, "compared": each.report.looks,
                "onnxruntime": each.difference
                and {"tensor": each.difference.tensor, "relative": each.difference.relative},
            }
            for each in found
        ],
        "arenas": [
            {"name": arena, "used_bytes": used, "footprint_bytes": footprint}
            for arena, used, footprint in _used(opened, found)
        ],
        "not_compared": why, "witness": witness,
    }  # fmt: skip
