"""The calls of each step of a plan, and the tensors that they name.

spec: MC1.1, MC1.5, MC3.3 to MC3.5, MC4.5
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial

from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import NodePart, Shares
from tmmu.mico.blocks import BlockPlace
from tmmu.mico.code import ProgramCode, StateCode, StepCode
from tmmu.mico.identifiers import Identifiers
from tmmu.mico.kernels import TABLE, calls_of
from tmmu.mico.kernels.node import NodeCall, NoKernel, Operand, StoredWeight
from tmmu.mico.network import OnnxNetwork, attributes
from tmmu.mico.weights import Constant, Constants
from tmmu.onnx.naming import domain_of
from tmmu.plans import file
from tmmu.plans.columns import PARTS, SHARES
from tmmu.plans.sections import Plan

WORD = re.compile(r"\w+")


def find_shown(plan: Plan, weights: list[int]) -> dict[int, int]:
    """Return the weight of each weight and of each tensor that shows the whole of one. spec: MC3.3"""
    tensors = plan.allocation.tensors
    shown = {row: row for row in weights}
    for row in (row for rows in plan.allocation.steps.listed("writes") for row in rows):
        of = int(tensors.of[row])
        is_whole = of in shown and tensors.bytes[of] == tensors.bytes[row]
        if is_whole and SHARES[tensors.shares[row]] is Shares.VIEW and tensors.window[of] == tensors.window[row]:
            shown.setdefault(row, shown[of])
    return shown


def check_weights(plan: Plan, names: list[str], shown: Mapping[int, int]) -> None:
    """Raise MODE_VIOLATION for a plan under which weights change. spec: MC3.3"""
    home = plan.allocation.tensors.storage.tolist()
    shared = {home[t] for t in range(len(home)) if t not in shown}
    for row in sorted(shown):
        if home[row] in shared:
            raise TmmuError(
                "MODE_VIOLATION", "the plan reuses its bytes for results, but the C keeps weights constant",
                place=f"weight {names[shown[row]]!r}", fix="plan the model without donating it", mode="inference",
            )  # fmt: skip


def write_program(
    plan: Plan, network: OnnxNetwork, held: Constants, shown: Mapping[int, int],
    places: Mapping[int, BlockPlace], label: str = "", state_inputs: Collection[str] = (),
) -> ProgramCode:  # fmt: skip
    """Return the calls of each step, and everything that they name.

    `shown` are the rows that are in no block, each with the row of a weight whose bytes it has.
    """
    allocation = plan.allocation
    tensors = allocation.tensors.name.list()
    rows = {tensor: row for row, tensor in enumerate(tensors)}
    fields = Identifiers(held.names.prefix)
    code: dict[str, str] = {}
    field: dict[str, str] = {}
    for row, tensor in enumerate(tensors):
        if row in shown:
            weight = tensors[shown[row]]
            code[tensor] = held.add(weight, *network.sizes[weight], partial(network.weight, weight))
        else:
            field[tensor] = fields.of(tensor)
            code[tensor] = f"model->{f'{label}.' if label else ''}{field[tensor]}.data"
    steps = []
    for node, op, part in zip(
        allocation.steps.node, allocation.steps.op.tolist(), allocation.steps.part.tolist(), strict=True
    ):
        if PARTS[part] is not NodePart.WHOLE:
            raise _make_unsupported(network, node, allocation.ops[op][1], "it has bodies")
        steps.append(_build_step(network, node, code, places, rows, held))
    return ProgramCode(
        label, file.plan_identity(plan).hex(), network, {tensors[row]: place for row, place in places.items()},
        field, code, steps, plan.bindings.keep_inputs, frozenset(state_inputs),
    )  # fmt: skip


def find_used(held: Constants, programs: list[ProgramCode], state: list[StateCode]) -> list[Constant]:
    """Return the constants that a call, an output or a reset reads."""
    calls = (call for program in programs for step in program.steps for call in step.calls)
    read = {word for call in calls for each in call.arguments for word in WORD.findall(each)}
    read.update(program.code[name] for program in programs for name in program.network.outputs)
    read.update(each.initial for each in state)
    return [each for each in held.all.values() if each.code in read]


def _build_step(
    network: OnnxNetwork,
    name: str,
    code: dict[str, str],
    places: Mapping[int, BlockPlace],
    rows: dict[str, int],
    held: Constants,
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
        fixed = network.is_weight(tensor) and not text.startswith("model->")
        weight = StoredWeight(tensor, partial(network.weight, tensor)) if fixed else None
        return Operand(text, shape, dtype, partial(network.known, tensor), weight)

    operands, results = [operand(each) for each in node.input], [operand(each) for each in node.output]
    domain = domain_of(node)
    op = f"{domain}.{node.op_type}" if domain else node.op_type
    seen = NodeCall(op, network.version, attributes(node), operands, results, held.literal, held.pack)
    try:
        if domain and op not in TABLE:
            raise NoKernel(f"its operator is of the domain {domain}")
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
