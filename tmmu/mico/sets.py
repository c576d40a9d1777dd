"""Generation of the C of a plan set: its programs in one memory, with one copy of kernels and of equal weights.

A shared tensor is in the memory of the set, unless it is a weight whose value every program has in its file. Such a
weight is a constant, as are those of one program. spec: MC11.1, MC11.3 to MC11.7
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.mico.blocks import blocks_of_set, memories_of
from tmmu.mico.code import CodeOptions, ModelCode, ProgramCode, StateCode
from tmmu.mico.generate import PlanNotProved, PlanVerdict, check_scope, check_streams, hash_file
from tmmu.mico.identifiers import Identifiers
from tmmu.mico.network import OnnxNetwork
from tmmu.mico.steps import check_weights, find_shown, find_used, write_program
from tmmu.mico.weights import Constants
from tmmu.mico.writing import check_folder, write_code
from tmmu.plans.sections import Plan
from tmmu.plans.sets import PlanSet, SharedTensor


class ProgramSource(NamedTuple):
    """A program of a set: its plan, the path of its model, and the bindings of its shapes [those of the plan]."""

    plan: Plan
    model: str
    bindings: Bindings | None = None


Networks = Mapping[str, OnnxNetwork]


def generate_set(
    plan_set: PlanSet,
    programs: Mapping[str, ProgramSource],
    folder: str,
    *,
    prove: Callable[[], PlanVerdict] | None = None,
    options: CodeOptions | None = None,
) -> list[str]:
    """Write the C of a plan set to a folder, and return the paths. `programs` are those of the agreement, by name.

    `prove` judges the set and each of its plans against its model; without it nothing is written. Raises as `generate`;
    MODE_VIOLATION also for a shared tensor whose values differ in two files, or that a file does not let change.
    """
    if prove is None:
        what = "no verifier was given, and only the C of a proved set is written"
        raise TmmuError("CONTRACT_VIOLATION", what, place="prove", fix="pass a function that judges the set")
    options = CodeOptions() if options is None else options
    check_folder(folder)
    for name, program in programs.items():
        check_streams(program.plan, f"program {name!r}")
    read = {one.model: hash_file(one.model) for one in programs.values()}
    answer = prove()
    if answer.verdict != "PROVED":
        raise PlanNotProved(answer)
    networks: dict[str, OnnxNetwork] = {}
    for name in plan_set.agreement.programs:
        plan, model, bindings = programs[name]
        check_scope(plan, f"program {name!r}")
        digest = None if plan.provenance is None else plan.provenance.source_digest
        known = {read[model], digest or read[model]}
        networks[name] = OnnxNetwork(model, plan.bindings if bindings is None else bindings, known)
    code = _build_set(plan_set, {name: programs[name].plan for name in networks}, networks, options, answer.line)
    return write_code(code, folder, options.weights)


def _build_set(
    plan_set: PlanSet, plans: Mapping[str, Plan], networks: Networks, options: CodeOptions, verdict: str
) -> ModelCode:
    """Return the content of the C: the memory of the set, and each program in it."""
    agreement = plan_set.agreement
    in_memory = [one for one in agreement.shared if not _is_constant(one, networks)]
    shown = {
        name: _find_constants(plan, networks[name], {use.entry for one in in_memory if (use := one.uses.get(name))})
        for name, plan in plans.items()
    }
    alignments = {arena.name: arena.alignment for arena in agreement.arenas}
    blocks, places = blocks_of_set([(plan, shown[name]) for name, plan in plans.items()], alignments)
    held, labels = Constants(options.names, by_content=True), Identifiers()
    programs = {}
    for (name, plan), at in zip(plans.items(), places, strict=True):
        entries = {use.entry for one in in_memory if (use := one.uses.get(name)) and use.entry}
        given = entries.intersection(networks[name].inputs)
        programs[name] = write_program(plan, networks[name], held, shown[name], at, labels.of(name.lower()), given)
    state = [_write_state(one, networks, programs, held) for one in in_memory]
    made = list(programs.values())
    used = find_used(held, made, state)
    return ModelCode(options.names, options.memory, verdict, blocks, memories_of(blocks, alignments), made, used, state)


def _find_constants(plan: Plan, network: OnnxNetwork, in_memory: set[str | None]) -> dict[int, int]:
    """Return the weight of each row that is outside of the memory. Raises MODE_VIOLATION if results take its bytes."""
    tensors = plan.allocation.tensors.name.list()
    weights = [row for row, name in enumerate(tensors) if network.is_weight(name) and name not in in_memory]
    shown = find_shown(plan, weights)
    check_weights(plan, tensors, shown)
    return shown


def _is_constant(one: SharedTensor, networks: Networks) -> bool:
    """Return whether a shared tensor is constant: no program writes it, and each has its value. spec: MC11.3"""
    entries = [(program, use.entry) for program, use in one.uses.items()]
    is_known = all(entry is not None and networks[program].is_weight(entry) for program, entry in entries)
    if one.is_weight and is_known:
        _find_initial(one, networks)
        return True
    return False


def _find_initial(one: SharedTensor, networks: Networks) -> tuple[str, str] | None:
    """Return a program and its initializer with the first value of a shared tensor, or None if no file has it.

    Raises MODE_VIOLATION for two values, and for one that changes although a file fixes it. spec: MC11.4, MC11.5
    """
    found: tuple[str, str] | None = None
    value = b""
    for program, use in one.uses.items():
        name = use.entry
        if name is None or not networks[program].is_weight(name):
            continue
        if not one.is_weight and name not in networks[program].main.listed:
            fix = "list it among the inputs of the model"
            raise _make_refusal(one, f"a program changes it, and the file of {program} fixes its value", fix)
        array = networks[program].weight(name)
        if found is not None and value != array.tobytes():
            fix = "give both files one value, or do not share it"
            raise _make_refusal(one, f"the files of {found[0]} and {program} have different values of it", fix)
        found, value = (program, name), array.tobytes()
    return found


def _make_refusal(one: SharedTensor, what: str, fix: str) -> TmmuError:
    return TmmuError("MODE_VIOLATION", what, place=f"shared tensor {one.name!r}", fix=fix, mode="inference")


def _write_state(
    one: SharedTensor, networks: Networks, programs: Mapping[str, ProgramCode], held: Constants
) -> StateCode:
    """Return a shared tensor that is in the memory. spec: MC11.3, MC11.4"""
    tensors = [(program, name) for program, use in one.uses.items() for name in use.names]
    first = _find_initial(one, networks)
    initial = ""
    if first is not None:
        network = networks[first[0]]
        initial = held.add(first[1], *network.sizes[first[1]], partial(network.weight, first[1]))
    changes, is_given = not one.is_weight or first is not None, one.is_initial and first is None
    labels = tuple(f"{programs[program].label}.{name}" for program, name in tensors)
    code = programs[tensors[0][0]].code[tensors[0][1]]
    return StateCode(one.name, labels, code, one.bytes, initial, changes, is_given)
