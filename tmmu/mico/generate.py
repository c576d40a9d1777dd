"""Generation of a folder of C files from a proved plan and its model, written whole or not at all.

spec: MC1.1 to MC1.8
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.reading import digest_file
from tmmu.core.vocabulary import Bindings, NodePart, Shares
from tmmu.mico import build, offsets, source
from tmmu.mico import weights as constants
from tmmu.mico.blocks import BlockPlace, blocks_of
from tmmu.mico.code import ModelCode, StepCode
from tmmu.mico.identifiers import Identifiers
from tmmu.mico.kernels import calls_of
from tmmu.mico.kernels.functions import kernels
from tmmu.mico.kernels.node import NodeCall, NoKernel, Operand
from tmmu.mico.network import OnnxNetwork, attributes
from tmmu.onnx.naming import domain_of
from tmmu.plans import file
from tmmu.plans.columns import PARTS, SHARES
from tmmu.plans.sections import Plan

WEIGHTS = ("embed", "file")
WORD = re.compile(r"\w+")

OTHER_FILES = ("kernels", "weights", "main", "math", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string")
"""The names that the header and the source of `model` must not have."""


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
    weights: str = "embed",
    static: bool = False,
    name: str = "model",
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
    weights
        `embed` (C literals up to 1 MiB, else as `file`) or `file` (`weights.bin`, which the assembler includes).
    static
        Whether to use arrays instead of malloc.
    name
        The name of the header, the source and the program.
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
    if weights not in WEIGHTS:
        raise ValueError(f"expected weights to be one of {', '.join(WEIGHTS)}, got {weights!r}")
    check_name(name)
    check_folder(folder)
    _check_streams(plan)
    read = _hash_file(model)
    answer = prove(plan, model)
    if answer.verdict != "PROVED":
        raise PlanNotProved(answer)
    if plan.envelope is not None and plan.envelope.symbolic:
        _write(folder, {f"{name}.h": _encode(offsets.write_offsets(plan, name, answer.line))})
        return [os.path.join(folder, f"{name}.h")]
    _check_scope(plan)
    digest = None if plan.provenance is None else plan.provenance.source_digest
    network = OnnxNetwork(model, plan.bindings if bindings is None else bindings, {read, digest or read})
    program = _build_program(plan, network, name=name, static=static, verdict=answer.line)
    used = program.constants
    as_file = weights == "file" or sum(each.bytes for each in used) > constants.LITERALS
    declared, defined = kernels(call for step in program.steps for call in step.calls)
    prefix = name.upper()
    files: dict[str, Iterable[bytes]] = {
        f"{name}.h": _encode(source.header(program)),
        f"{name}.c": _encode(source.forward(program)),
        "kernels.h": _encode(source.kernels_header(declared, prefix)),
        "kernels.c": _encode(source.kernels_source(defined)),
        "weights.h": _encode(constants.header(used, as_file, prefix)),
        "weights.c": _encode(constants.source(used, as_file)),
        "main.c": _encode(source.main(program)),
        "Makefile": _encode(build.makefile(program, as_file and bool(used))),
        "CMakeLists.txt": _encode(build.cmake(program, as_file and bool(used))),
    }
    if as_file and used:
        files["weights.bin"] = constants.content(used)
    _write(folder, files)
    return [os.path.join(folder, each) for each in files]


def _check_streams(plan: Plan) -> None:
    """Refuse a plan whose steps may overlap: the C runs them one after another. spec: X6.8"""
    if len(plan.allocation.streams) > 1:
        what = f"its steps run on {len(plan.allocation.streams)} streams, and C runs them one after another"
        fix = "plan the model without streams, which needs no more bytes"
        raise TmmuError("MODE_VIOLATION", what, place="streams", fix=fix, mode="streams")


def check_name(name: str) -> None:
    """Raise ValueError if a name cannot be that of files and of a program."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is None or name.lower() in OTHER_FILES:
        raise ValueError(
            f"{name!r} cannot be a name: expected letters, digits and underscores, and none of {', '.join(OTHER_FILES)}"
        )


def _hash_file(path: str) -> bytes:
    """Return the digest of the file that is proved, so that another file cannot be read after it."""
    try:
        return bytes.fromhex(digest_file(path))
    except OSError as error:
        what = f"it cannot be read ({error.strerror})"
        raise TmmuError("INVALID_IR", what, file=path, place="the file", fix="check the path") from error


def check_folder(folder: str) -> None:
    """Raise TMMU_ALLOCATION_FAILURE if the folder is not empty or is not a folder. spec: MC1.7"""
    if not os.path.lexists(folder) or (os.path.isdir(folder) and not os.listdir(folder)):
        return
    raise TmmuError(
        "TMMU_ALLOCATION_FAILURE", "it already exists, and nothing in it is overwritten", file=folder,
        fix="remove it, or choose another folder",
    )  # fmt: skip


def _check_scope(plan: Plan) -> None:
    """Raise MODE_VIOLATION unless the plan is an inference of a whole model at one size. spec: MC1.3"""

    def refuse(code: str, what: str, fix: str) -> TmmuError:
        return TmmuError(code, what, place="the plan", fix=fix, mode="inference")

    if plan.envelope is not None:
        fix = "plan for one size (--dim NAME=SIZE), or with --symbolic, for offsets without kernels"
        raise refuse("MODE_VIOLATION", "its sizes are open", fix)
    if plan.shards is not None or (plan.provenance is not None and plan.provenance.world_size > 1):
        raise refuse("MODE_VIOLATION", "it is the plan of one rank", "plan the whole model")
    if plan.provenance is not None and plan.provenance.mode != "inference":
        raise refuse("MODE_VIOLATION", f"its mode is {plan.provenance.mode}", "plan for inference")


def _build_program(plan: Plan, network: OnnxNetwork, *, name: str, static: bool, verdict: str) -> ModelCode:
    """Build the calls of each step, and everything that they name. spec: MC1.1, MC3.4"""
    allocation = plan.allocation
    tensors = allocation.tensors.name.list()
    rows = {tensor: row for row, tensor in enumerate(tensors)}
    weights = [row for row, each in enumerate(tensors) if network.is_weight(each)]
    shown = _find_shown(plan, weights)
    _check_weights(plan, tensors, shown)
    blocks, places = blocks_of(plan, shown)
    held, fields = constants.Constants(), Identifiers()
    code: dict[str, str] = {}
    field: dict[str, str] = {}
    for row, tensor in enumerate(tensors):
        if row in shown:
            weight = tensors[shown[row]]
            code[tensor] = held.add(weight, *network.sizes[weight], partial(network.weight, weight))
        else:
            field[tensor] = fields.of(tensor)
            code[tensor] = f"model->{field[tensor]}.data"
    steps = []
    for node, op, part in zip(
        allocation.steps.node, allocation.steps.op.tolist(), allocation.steps.part.tolist(), strict=True
    ):
        if PARTS[part] is not NodePart.WHOLE:
            raise _make_unsupported(network, node, allocation.ops[op][1], "it has bodies")
        steps.append(_build_step(network, node, code, places, rows, held))
    read = {word for step in steps for call in step.calls for each in call.arguments for word in WORD.findall(each)}
    read.update(code[name] for name in network.outputs)
    used = [each for each in held.all.values() if each.code in read]
    return ModelCode(
        name, static, verdict, file.plan_identity(plan).hex(), network.digest.hex(), network, blocks,
        {tensors[row]: place for row, place in places.items()}, field, code, steps, used,
        plan.bindings.keep_inputs,
    )  # fmt: skip


def _find_shown(plan: Plan, weights: list[int]) -> dict[int, int]:
    """Return the weight of each weight and of each tensor that shows the whole of one. spec: MC3.3"""
    tensors = plan.allocation.tensors
    shown = {row: row for row in weights}
    for row in (row for rows in plan.allocation.steps.listed("writes") for row in rows):
        of = int(tensors.of[row])
        is_whole = of in shown and tensors.bytes[of] == tensors.bytes[row]
        if is_whole and SHARES[tensors.shares[row]] is Shares.VIEW and tensors.window[of] == tensors.window[row]:
            shown.setdefault(row, shown[of])
    return shown


def _check_weights(plan: Plan, names: list[str], shown: Mapping[int, int]) -> None:
    """Raise MODE_VIOLATION for a plan under which weights change. spec: MC3.3"""
    home = plan.allocation.tensors.storage.tolist()
    shared = {home[t] for t in range(len(home)) if t not in shown}
    for row in sorted(shown):
        if home[row] in shared:
            raise TmmuError(
                "MODE_VIOLATION", "the plan reuses its bytes for results, but the C keeps weights constant",
                place=f"weight {names[shown[row]]!r}", fix="plan the model without donating it", mode="inference",
            )  # fmt: skip


def _build_step(
    network: OnnxNetwork,
    name: str,
    code: dict[str, str],
    places: dict[int, BlockPlace],
    rows: dict[str, int],
    held: constants.Constants,
) -> StepCode:
    node = network.nodes.get(name)
    if node is None:
        raise TmmuError(
            "INVALID_PLAN", "the model has no such node", place=f"step {name!r}", fix="plan the model again"
        )
    at: dict[BlockPlace, str] = {}

    def operand(tensor: str) -> Operand | None:
        if not tensor or tensor not in rows:
            return None
        shape, dtype = network.sizes[tensor]
        text = code[tensor]
        if rows[tensor] in places:
            # tensors at one place are one expression, so that a rule detects views and results in place
            text = at.setdefault(places[rows[tensor]], text)
        return Operand(text, shape, dtype, partial(network.known, tensor))

    operands, results = [operand(each) for each in node.input], [operand(each) for each in node.output]
    seen = NodeCall(node.op_type, network.version, attributes(node), operands, results, held.literal)
    try:
        if domain_of(node) != "":
            raise NoKernel(f"its operator is of the domain {domain_of(node)}")
        for each in (*operands, *results):
            if each is not None and BITS[each.dtype] < 8:
                raise NoKernel(f"it has no kernel for {each.dtype}")
        calls = calls_of(seen)
        if calls and any(each is not None and not each.code.startswith("model->") for each in results):
            raise NoKernel("it writes a tensor that is a view of a weight in the plan")
    except NoKernel as error:
        raise _make_unsupported(network, name, node.op_type, str(error)) from error
    return StepCode(name, node.op_type, [*filter(None, node.input)], [*filter(None, node.output)], calls)


def _make_unsupported(network: OnnxNetwork, name: str, op: str, reason: str) -> TmmuError:
    """Make the refusal of a node. spec: MC4.5"""
    fix = "replace the operator, or run the plan with tmmu run"
    return TmmuError(
        "INVALID_IR", f"{op} cannot be written as C: {reason}", file=network.path, place=f"node {name!r}", fix=fix,
        node_id=name,
    )  # fmt: skip


def _encode(text: str) -> list[bytes]:
    return [text.encode()]


def _write(folder: str, files: dict[str, Iterable[bytes]]) -> None:
    """Write all files to a folder beside the target, sync it, and rename it. spec: MC1.7"""
    target = os.path.abspath(folder)
    temporary = ""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        temporary = tempfile.mkdtemp(dir=os.path.dirname(target), prefix=".tmmu.", suffix=".tmp")
        for name, parts in files.items():
            with open(os.path.join(temporary, name), "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
        umask = os.umask(0o077)
        os.umask(umask)
        os.chmod(temporary, 0o777 & ~umask)
        os.rename(temporary, target)
        around = os.open(os.path.dirname(target), os.O_RDONLY)
        try:
            os.fsync(around)
        finally:
            os.close(around)
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        raise TmmuError("TMMU_ALLOCATION_FAILURE", what, file=folder, fix="choose another place") from error
    finally:
        if temporary and os.path.isdir(temporary):
            shutil.rmtree(temporary)
