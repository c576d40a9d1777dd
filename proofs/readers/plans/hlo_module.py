"""A module of HLO: its computations and instructions, and the check that they fit together.

spec: FP4.2, FP4.8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.readers.plans.hlo_opcodes import Opcode, Reads, is_start, opcode
from proofs.readers.plans.hlo_text import Index, Leaf, Shape, is_like, part


class Instruction(NamedTuple):
    """An instruction.

    `called` are the computations that it names, by attribute. `number` is the number in the brackets of a parameter, or
    `index=` of an element of a tuple. `attributes` are those that are not ignored, as text. `literal` is the value of a
    constant that is one number.
    """

    name: str
    shape: Shape
    op: str
    operands: tuple[str, ...]
    called: dict[str, tuple[str, ...]]
    number: int
    line: int
    attributes: Mapping[str, str] = {}
    literal: str = ""

    @property
    def row(self) -> Opcode:
        """The row of its operation."""
        found = opcode(self.op)
        assert found is not None  # others are refused when the line is read
        return found


@dataclass
class Computation:
    """A computation: its instructions, in order and by name, and the name of the root."""

    name: str
    line: int
    instructions: list[Instruction] = field(default_factory=list)
    root: str = ""
    by_name: dict[str, Instruction] = field(default_factory=dict)

    def parameters(self) -> dict[int, Instruction]:
        """Return the parameters by number, from 0 on without a gap."""
        return {each.number: each for each in self.instructions if each.op == "parameter"}

    @property
    def result(self) -> Instruction:
        """The root."""
        return self.by_name[self.root]


Parameter = tuple[int, Index]


@dataclass
class HloModule:
    """A module: its computations by name, the entry, and the parameters that the caller donates.

    `donated` are those, number and index; `aliased` has for places in the result the parameter whose bytes it takes.
    """

    computations: dict[str, Computation]
    entry: str
    donated: list[Parameter]
    aliased: dict[Index, Parameter]


def difference(computations: Mapping[str, Computation], within: Computation, each: Instruction) -> str:
    """Return why an instruction is invalid, "" if it is valid: computations, operands and result must fit together.

    O(operands + leaves of their shapes).
    """
    for name in (name for names in each.called.values() for name in names):
        if name not in computations:
            return f"computation {name!r} is not in the module"
    given = [within.by_name[name].shape for name in each.operands]
    if each.row.reads is Reads.ELEMENT and not is_like(part(given[0], (each.number,)), each.shape):
        return f"{each.name} is not element {each.number} of its operand"
    if each.row.reads is Reads.TUPLED and not is_like(each.shape, _tuple_of(given)):
        return f"{each.name} is not a tuple of its operands"
    if (each.row.reads is Reads.WHOLE or each.op == "copy") and not is_like(each.shape, given[0]):
        return f"{each.name} has another shape than its operand"
    if each.op in ("while", "conditional", "call", "fusion", "async-start"):
        return _of_calls(computations, each, given)
    if "to_apply" in each.called and each.op != "custom-call" and not is_start(each.op):
        taken = len(computations[each.called["to_apply"][0]].parameters())
        wanted = {"sort": 2 * len(given), "scatter": 2 * (len(given) // 2), "all-reduce": 2, "reduce-scatter": 2}
        if taken != wanted.get(each.op, len(given)):
            return f"{each.op} of {len(given)} operands applies a computation of {taken} parameters"
    return ""


def _tuple_of(shapes: Sequence[Shape]) -> Shape:
    """Return the shape of a tuple of these."""
    table = Leaf((), "", 0)
    return (table, *(leaf._replace(at=(k, *leaf.at)) for k, shape in enumerate(shapes) for leaf in shape))


def _of_calls(computations: Mapping[str, Computation], each: Instruction, given: Sequence[Shape]) -> str:
    """Return why computations of control flow do not fit its operands and result, "" if they do. spec: FP4.2"""
    result = part(each.shape, (1,)) if each.op == "async-start" else each.shape
    for key, names in each.called.items():
        for k, name in enumerate(names):
            wanted = given
            if each.op == "conditional":
                arm = k if key == "branch_computations" else int(key == "false_computation")
                wanted = given[1 + arm : 2 + arm]
            parameters = computations[name].parameters()
            if len(parameters) != len(wanted) or not all(
                is_like(parameters[n].shape, shape) for n, shape in enumerate(wanted)
            ):
                return f"{name} has other parameters than the operands of {each.name}"
            if key != "condition" and not is_like(computations[name].result.shape, result):
                return f"{name} has another result than {each.name}"
    return ""
