"""A machine that runs HLO at the slices of a buffer assignment, beside one in which every value has memory of its own.

An oracle for the reader of XLA's plans. It shares the parsing with it and nothing else: control flow is run, with arms
and numbers of iterations that are chosen beforehand, nothing is laid out flat, and no lifetimes are worked out. A
result is a number made of the instruction and of what was read, so that two machines agree exactly where reads do.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from proofs.readers.plans.hlo import Computation, HloModule, Index, Instruction
from proofs.readers.plans.xla import Assignment, Slice

Value = tuple[int, Slice | None]
"""What a place in a result holds on the machine with private memory, and where the program looks for it."""
Values = dict[Index, Value]
PASSES = ("bitcast", "get-tuple-element", "call", "while", "conditional", "parameter", "opt-barrier")


class Corrupted(Exception):
    """A read finds other bytes than the machine with private memory has."""


class Machine:
    """Memory by arena and byte; `choices` are the arms and numbers of iterations, in the order in which they come."""

    def __init__(self, module: HloModule, assignment: Assignment, choices: Iterator[int]) -> None:
        self.module, self.assignment, self.choices = module, assignment, choices
        self.memory: dict[tuple[int, int], tuple[int, int]] = {}
        self.constants: dict[str, Values] = {}

    def run(self) -> None:
        """Run the entry. Raises Corrupted where a step or the caller reads what is not there."""
        entry = self.module.computations[self.module.entry]
        given = [self.written(each, f"caller {each.name}") for _, each in sorted(entry.parameters().items())]
        for computation in self.module.computations.values():
            for each in computation.instructions:
                if each.op == "constant":
                    self.constants[each.name] = self.written(each, f"constant {each.name}")
        result = self.computation(entry, given, depth=0)
        for index, (number, place) in self.module.aliased.items():
            result[index] = result[index][0], given[number][place][1]
        for arena in self.assignment.temporary:
            for byte in range(self.assignment.arenas[arena].capacity):
                self.memory[arena, byte] = (0, 0)
        self.read(result)
        kept = {k: v for k, v in enumerate(given) if not any(number == k for number, _ in self.module.donated)}
        for values in (*kept.values(), *self.constants.values()):
            self.read(values)

    def computation(self, computation: Computation, given: Sequence[Values], depth: int = 1) -> Values:
        env: dict[str, Values] = {}
        for each in computation.instructions:
            operands = [env[name] for name in each.operands]
            if each.op == "parameter":
                env[each.name] = self.placed(each, given[each.number]) if depth else given[each.number]
            elif each.op == "constant":
                env[each.name] = self.constants[each.name]
            else:
                env[each.name] = self.instruction(each, operands)
        return env[computation.root]

    def instruction(self, each: Instruction, operands: list[Values]) -> Values:
        called = {key: [self.module.computations[name] for name in names] for key, names in each.called.items()}
        if each.op == "while":
            carried, (condition,), (body,) = operands[0], called["condition"], called["body"]
            for _ in range(next(self.choices)):
                self.read(self.computation(condition, [carried]))
                carried = self.computation(body, [carried])
            self.read(self.computation(condition, [carried]))
            return self.placed(each, carried)
        if each.op == "conditional":
            self.read(operands[0])
            arms = called["branch_computations"]
            k = next(self.choices) % len(arms)
            return self.placed(each, self.computation(arms[k], [operands[1 + k]]))
        if each.op == "call":
            return self.placed(each, self.computation(called["to_apply"][0], operands))
        if each.op == "tuple":
            parts = {(k, *index): value for k, part in enumerate(operands) for index, value in part.items()}
            return {**self.placed(each, parts), **self.tables(each, parts)}
        if each.op == "get-tuple-element":
            self.read({index: value for index, value in operands[0].items() if index == ()})
            part = {index[1:]: value for index, value in operands[0].items() if index[:1] == (each.number,)}
            return self.placed(each, part)
        if each.op in PASSES:
            return self.placed(each, operands[0])
        token = self.token(f"{each.op} {each.name}", [self.read(operand) for operand in operands])
        result = self.written(each, f"{token}")
        for _, place in result.values():
            for operand in operands:
                for _, other in operand.values():
                    if _overlap(place, other):  # a kernel may write an element before it reads another one
                        raise Corrupted
        return result

    def placed(self, each: Instruction, values: Values) -> Values:
        """What is passed on, where the program looks for it from now on."""
        return {
            leaf.at: (values[leaf.at][0], self.assignment.slices.get((each.name, leaf.at), values[leaf.at][1]))
            for leaf in each.shape
            if leaf.at in values
        }

    def tables(self, each: Instruction, parts: Values) -> Values:
        """The table of a tuple, which holds the places of what is in it and nothing else."""
        held = sorted((index, place) for index, (_, place) in parts.items())
        made = self.written(each, f"table {held}", tables=True)
        return {index: value for index, value in made.items() if index == ()}

    def written(self, each: Instruction, what: str, tables: bool = False) -> Values:
        found: Values = {}
        for leaf in each.shape:
            place = self.assignment.slices.get((each.name, leaf.at))
            if place is None or (tables and leaf.at != ()):
                continue
            token = self.token(what, [leaf.at])
            size = max(place.size, leaf.bytes)
            found[leaf.at] = token, place._replace(size=size)
            for k in range(size):
                self.memory[place.arena, place.offset + k] = token, k
        return found

    def read(self, values: Values) -> int:
        """What is read. Raises Corrupted."""
        for token, place in values.values():
            for k in range(0 if place is None else place.size):
                if place is not None and self.memory.get((place.arena, place.offset + k)) != (token, k):
                    raise Corrupted
        return self.token("read", [token for token, _ in values.values()])

    def token(self, what: str, parts: Sequence[object]) -> int:
        return zlib.crc32(f"{what} {parts}".encode()) | 1 << 40


def _overlap(one: Slice | None, other: Slice | None) -> bool:
    """Whether two places have a byte in common without being the same bytes."""
    if one is None or other is None or one.arena != other.arena or one == other:
        return False
    return max(one.offset, other.offset) < min(one.offset + one.size, other.offset + other.size)
