"""Generation of a folder of C files from a proved plan and its model, written whole or not at all.

spec: MC1.1 to MC1.8
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from tmmu.core.dtypes import nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.reading import digest_file
from tmmu.core.vocabulary import Bindings
from tmmu.mico import offsets
from tmmu.mico import weights as constants
from tmmu.mico.blocks import MemoryBlock, blocks_of, memories_of
from tmmu.mico.code import CodeOptions, ModelCode, ProgramCode, StateCode
from tmmu.mico.network import OnnxNetwork
from tmmu.mico.state import find_state
from tmmu.mico.steps import check_weights, find_shown, find_used, write_program
from tmmu.mico.writing import check_folder, encode, write_code, write_files
from tmmu.plans.sections import Plan


class PlanVerdict(Protocol):
    """The answer of a verifier: `verdict` is PROVED or another word, `line` the line that states what it is about."""

    verdict: str

    @property
    def line(self) -> str:
        """The line that the header of the C repeats."""
        ...


Prove = Callable[[Plan, str], PlanVerdict]
"""A function that judges a plan against the model at a path. `tmmu.mico` has no verifier: its caller provides one."""


class PlanNotProved(Exception):
    """The plan is not PROVED: nothing was written."""

    def __init__(self, answer: PlanVerdict) -> None:
        self.answer = answer
        super().__init__(answer.line)


def generate(
    plan: Plan,
    model: str,
    folder: str,
    *,
    prove: Prove | None = None,
    options: CodeOptions | None = None,
    bindings: Bindings | None = None,
) -> list[str]:
    """Write the C of `model` under `plan` to `folder`, and return the paths that were written.

    Parameters
    ----------
    plan
        A plan of any layout, of the whole model (not of one rank), at one size, for inference. Of a symbolic plan only
        a header is written, which computes sizes and offsets from a shape.
    model
        The path of the ONNX model, whose weights are read as onnx reads them.
    folder
        A folder that does not exist, or is empty.
    prove
        A function that judges the plan against the model; without it nothing is written.
    options
        The choices of the user [weights embedded, memory by malloc, names without a prefix].
    bindings
        The bindings of the shapes of the model [those of the plan].

    Raises
    ------
    PlanNotProved
        The answer of `prove` is not PROVED.
    TmmuError
        CONTRACT_VIOLATION without `prove`; REPLAY_DIVERGENCE for a plan of another model; INVALID_IR for an operator
        without a kernel or for missing weights; MODE_VIOLATION for a plan that is not for inference, or that has
        several streams.

    Notes
    -----
    O(plan + weights), and the time of `prove`.
    """
    if prove is None:
        what = "no verifier was given, and only the C of a proved plan is written"
        raise TmmuError("CONTRACT_VIOLATION", what, place="prove", fix="pass a function that judges the plan")
    options = CodeOptions() if options is None else options
    names = options.names
    check_folder(folder)
    check_streams(plan)
    read = hash_file(model)
    answer = prove(plan, model)
    if answer.verdict != "PROVED":
        raise PlanNotProved(answer)
    if plan.envelope is not None and plan.envelope.symbolic:
        write_files(folder, {f"{names.stem}.h": encode(offsets.write_offsets(plan, names.stem, answer.line))})
        return [os.path.join(folder, f"{names.stem}.h")]
    _check_membership(plan)
    check_scope(plan)
    digest = None if plan.provenance is None else plan.provenance.source_digest
    network = OnnxNetwork(model, plan.bindings if bindings is None else bindings, {read, digest or read})
    held = constants.Constants(names)
    blocks, program, state = _build_program(plan, network, held)
    memories = memories_of(blocks, plan.allocation.needed_base_alignments())
    used = find_used(held, [program], state)
    code = ModelCode(names, options.memory, answer.line, blocks, memories, [program], used, state)
    return write_code(code, folder, options.weights)


def _check_membership(plan: Plan) -> None:
    """Raise MODE_VIOLATION for a program of a plan set, whose state is in the memory of the set. spec: MC11.9"""
    if plan.membership is not None:
        raise TmmuError(
            "MODE_VIOLATION", f"it is the program {plan.membership.program} of a plan set", place="the plan",
            fix="give the folder of the set", mode="inference",
        )  # fmt: skip


def check_streams(plan: Plan, place: str = "the plan") -> None:
    """Refuse a plan whose steps may overlap: the C runs them one after another. spec: X6.8"""
    if len(plan.allocation.streams) > 1:
        what = f"its steps run on {len(plan.allocation.streams)} streams, and C runs them one after another"
        fix = "plan the model without streams, which needs no more bytes"
        raise TmmuError("MODE_VIOLATION", what, place=place, fix=fix, mode="streams")


def hash_file(path: str) -> bytes:
    """Return the digest of the file that is proved, so that another file cannot be read after it."""
    try:
        return bytes.fromhex(digest_file(path))
    except OSError as error:
        what = f"it cannot be read ({error.strerror})"
        raise TmmuError("INVALID_IR", what, file=path, place="the file", fix="check the path") from error


def check_scope(plan: Plan, place: str = "the plan") -> None:
    """Raise MODE_VIOLATION unless the plan is an inference of a whole model at one size. spec: MC1.3"""

    def refuse(code: str, what: str, fix: str) -> TmmuError:
        return TmmuError(code, what, place=place, fix=fix, mode="inference")

    if plan.envelope is not None:
        fix = "plan for one size (--dim NAME=SIZE), or with --symbolic, for offsets without kernels"
        raise refuse("MODE_VIOLATION", "its sizes are open", fix)
    if plan.shards is not None or (plan.provenance is not None and plan.provenance.world_size > 1):
        raise refuse("MODE_VIOLATION", "it is the plan of one rank", "plan the whole model")
    if plan.provenance is not None and plan.provenance.mode != "inference":
        raise refuse("MODE_VIOLATION", f"its mode is {plan.provenance.mode}", "plan for inference")


def _build_program(
    plan: Plan, network: OnnxNetwork, held: constants.Constants
) -> tuple[list[MemoryBlock], ProgramCode, list[StateCode]]:
    """Build the blocks, the calls of each step with everything that they name, and the state. spec: MC1.1, MC3.4"""
    allocation = plan.allocation
    tensors = allocation.tensors.name.list()
    weights = [row for row, each in enumerate(tensors) if network.is_weight(each)]
    shown = find_shown(plan, weights)
    check_weights(plan, tensors, shown)
    blocks, places = blocks_of(plan, shown)
    program = write_program(plan, network, held, shown, places)
    state = [
        StateCode(name, (name, written), program.code[name], nbytes(*network.sizes[name]))
        for name, written in find_state(plan, network).items()
    ]
    return blocks, program, state
