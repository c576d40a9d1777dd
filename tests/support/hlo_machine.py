"""A machine that runs HLO at the slices of a buffer assignment, beside one in which every value has memory of its own.

An oracle for the reader of XLA's plans: it has its own reading of the text (`hlo_reading`), control flow is run with
branches and numbers of iterations that are chosen at random, and nothing is laid out flat. A kernel makes the elements
of its results one after the other, in an order that is chosen at random; what it reads of its operands it reads from
the bytes as they are then. An operation that is started runs at its start or at its done.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.hlo_elements import Elements, Index, index_of, indices, number, token
from tests.support.hlo_reading import Array, Buffers, Program, Row, pairs

Place = tuple[int, int, int]
"""Allocation, offset and bytes."""
Value = tuple[Array | None, list[int], Place | None]
"""An array, its elements in memory order on the machine with private memory, and where the program looks for them.

Of the table of a tuple, one number that stands for the places in it.
"""
Values = dict[Index, Value]
WHOLE = ("sort", "triangular-solve", "set-dimension-size", "ragged-all-to-all", "collective-permute")
MOVES = ("bitcast", "opt-barrier", "domain", "add-dependency")


class Corrupted(Exception):
    """Bytes that are read are not those that were written for it."""


class Machine:
    """Memory by allocation and byte: the element that was last written there, and the byte of it."""

    def __init__(self, program: Program, buffers: Buffers, rng: random.Random) -> None:
        self.program, self.buffers, self.rng = program, buffers, rng
        self.memory: dict[tuple[int, int], tuple[int, int]] = {}
        self.constants: dict[str, Values] = {}
        self.order = rng.choice(("up", "down", "any", "window"))

    def run(self) -> None:
        """Run the entry. Raises Corrupted."""
        entry = self.program.computations[self.program.entry]
        given: dict[int, Values] = {}
        for row in entry:
            if row.op == "parameter":
                given[int(row.literal[0])] = self.written(row, "caller")
        for rows in self.program.computations.values():
            for row in rows:
                if row.op == "constant":
                    self.constants[row.name] = self.written(row, "constant", is_code=True)
        result = self.computation(entry, [given[k] for k in range(len(given))], is_entry=True)
        title = self.program.title
        aliased = pairs(title.get("input_output_alias", []))
        for out, (k, at) in aliased:
            if out in result and at in given[k]:
                result[out] = *result[out][:2], given[k][at][2]
        for allocation, kind in self.buffers.kinds.items():
            if not any(word in kind for word in ("parameter", "constant", "maybe-live-out")):
                for byte in range(self.buffers.sizes[allocation]):
                    self.memory[allocation, byte] = (0, 0)
        self.check(result)
        donated = [(k, at) for _, (k, at) in (*aliased, *pairs(title.get("buffer_donor", []), False))]
        for k, values in given.items():
            kept = {at: v for at, v in values.items() if not any(n == k and at[: len(i)] == i for n, i in donated)}
            self.check(kept)
        for values in self.constants.values():
            self.check(values)

    # Memory

    def place(self, row: Row, part: Index) -> Place | None:
        return self.buffers.values.get((row.name, part))

    def load(self, array: Array, place: Place, at: int) -> int:
        """The element of a number in memory; a number for itself if its bytes are not of one element."""
        width = max(1, array.bits // 8)
        first = place[1] + at * array.bits // 8
        found = [self.memory.get((place[0], first + k), (0, 0)) for k in range(width)]
        is_one = all(each == (found[0][0], k) for k, each in enumerate(found))
        return found[0][0] if is_one else token("mixed", found)

    def store(self, array: Array, place: Place, at: int, value: int) -> None:
        for k in range(max(1, array.bits // 8)):
            self.memory[place[0], place[1] + at * array.bits // 8 + k] = (value, k)

    def check(self, values: Values) -> None:
        """Raises Corrupted where the bytes are not those of the private machine."""
        for array, elements, place in values.values():
            if array is None and place is not None and self.memory.get((place[0], place[1])) != (elements[0], 0):
                raise Corrupted
            if array is not None and place is not None:
                for at, element in enumerate(elements):
                    if self.load(array, place, at) != element:
                        raise Corrupted

    def written(self, row: Row, what: str, is_code: bool = False) -> Values:
        """Fresh elements for all arrays of an instruction, written to its slices."""
        found: Values = {}
        for part, array in row.shape.items():
            place = self.place(row, part)
            if array is None or (place is None and not is_code):
                continue
            if is_code:
                elements = [
                    Elements(self.program, {}, row, lambda *_: 0).of(part, index_of(array, at))
                    for at in range(array.count)
                ]
            else:
                elements = [token(what, row.name, part, at) for at in range(array.count)]
            found[part] = array, elements, place
            if place is not None:
                for at, element in enumerate(elements):
                    self.store(array, place, at, element)
        return found

    def placed(self, row: Row, values: Values) -> Values:
        """What is passed on, in the shape of the instruction, where the program looks for it from now on."""
        found: Values = {}
        for part, array in row.shape.items():
            if part in values:
                found[part] = array, values[part][1], self.place(row, part) or values[part][2]
        return found

    def table(self, row: Row, values: Values) -> Values:
        """The table of a tuple, which holds the places of what is in it."""
        place = self.place(row, ())
        if place is None:
            return {}
        held = token("table", sorted((part, str(value[2])) for part, value in values.items() if part))
        for byte in range(place[2]):
            self.memory[place[0], place[1] + byte] = (held, byte)
        return {(): (None, [held], place)}

    # Control

    def computation(self, rows: list[Row], given: Sequence[Values], is_entry: bool = False) -> Values:
        env: dict[str, Values] = {}
        by_name = {row.name: row for row in rows}
        started: dict[str, tuple[Row, list[Values], Values | None]] = {}
        for row in rows:
            operands = [env[name] for name in row.operands]
            if row.op == "parameter":
                k = int(row.literal[0])
                env[row.name] = given[k] if is_entry else self.placed(row, given[k])
            elif row.op == "constant":
                env[row.name] = self.constants[row.name]
            elif row.op == "copy-start":
                made = self.copied(row, operands[0]) if self.rng.random() < 0.5 else None
                started[row.name] = row, operands, made
                env[row.name] = operands[0]
            elif row.op == "copy-done":
                start, of, made = started.pop(row.operands[0])
                self.check({(): of[0][()]} if made is None else {})
                env[row.name] = self.placed(row, self.copied(start, of[0]) if made is None else made)
            else:
                env[row.name] = self.instruction(by_name, row, operands)
        return env[next(row.name for row in rows if row.is_root)]

    def copied(self, row: Row, operand: Values) -> Values:
        """What a copy-start makes: the array at {0}, in the operand's order of elements."""
        array, elements, _ = operand[()]
        place = self.place(row, (0,))
        assert array is not None
        assert place is not None
        for at, element in enumerate(elements):
            self.store(array, place, at, element)
        return {(): (array, elements, place)}

    def instruction(self, by_name: dict[str, Row], row: Row, operands: list[Values]) -> Values:
        def called(key: str) -> list[list[Row]]:
            names = [name.lstrip("%") for name in row.attributes.get(key, []) if name not in ("{", "}", ",")]
            return [self.program.computations[name] for name in names]

        if row.op == "while":
            carried, (condition,), (body,) = operands[0], called("condition"), called("body")
            for _ in range(self.rng.randrange(4)):
                self.check(self.computation(condition, [carried]))
                carried = self.computation(body, [carried])
            self.check(self.computation(condition, [carried]))
            return self.placed(row, carried)
        if row.op == "conditional":
            self.check(operands[0])
            arms = called("branch_computations") or [*called("true_computation"), *called("false_computation")]
            k = self.rng.randrange(len(arms))
            return self.placed(row, self.computation(arms[k], [operands[1 + k]]))
        if row.op == "call":
            return self.placed(row, self.computation(called("to_apply")[0], operands))
        if row.op == "tuple":
            parts = {(k, *part): value for k, each in enumerate(operands) for part, value in each.items()}
            found = self.placed(row, parts)
            return {**found, **self.table(row, found)}
        if row.op == "get-tuple-element":
            self.check({part: value for part, value in operands[0].items() if part == ()})
            k = int(row.attributes["index"][0])
            return self.placed(row, {part[1:]: value for part, value in operands[0].items() if part[:1] == (k,)})
        if row.op == "copy" and len(row.shape) > 1:
            self.check({part: value for part, value in operands[0].items() if part == ()})
            found = self.placed(row, {part: value for part, value in operands[0].items() if part})
            return {**found, **self.table(row, found)}
        if row.op in MOVES:
            return self.placed(row, operands[0])
        return self.kernel(by_name, row, operands)

    # Kernels

    def kernel(self, by_name: dict[str, Row], row: Row, operands: list[Values]) -> Values:
        """Run an instruction on both machines. Raises Corrupted if the results differ."""

        def private(k: int, part: Index, index: Index) -> int:
            array, elements, _ = operands[k][part]
            assert array is not None
            return elements[number(array, index)]

        def shared(k: int, part: Index, index: Index) -> int:
            array, elements, place = operands[k][part]
            assert array is not None
            at = number(array, index)
            return elements[at] if place is None else self.load(array, place, at)

        right, now = (Elements(self.program, by_name, row, get) for get in (private, shared))
        found: Values = {}
        todo: list[tuple[Index, Index]] = []
        for part, array in row.shape.items():
            place = self.place(row, part)
            if array is None or place is None:
                continue
            elements = [right.of(part, index_of(array, at)) for at in range(array.count)]
            found[part] = array, elements, place
            todo += [(part, index) for index in indices(array.dims)]
        whole = self.is_whole(row, found, operands)
        for group in [todo] if whole else self.ordered(row, todo):
            values = [(part, index, now.of(part, index)) for part, index in group]
            for part, index, value in values:
                array, _, place = found[part]
                assert array is not None
                assert place is not None
                self.store(array, place, number(array, index), value)
        self.check(found)
        return {**found, **self.table(row, found)} if len(row.shape) > 1 else found

    def is_whole(self, row: Row, found: Values, operands: list[Values]) -> bool:
        """Whether all is read before anything is written: by definition, or because the call states it."""
        if row.op in WHOLE:
            return True
        if row.op != "custom-call":
            return False
        stated = [(out, of) for out, of in pairs(row.attributes.get("output_to_operand_aliasing", []))]
        for out, (_, _, place) in found.items():
            for k, operand in enumerate(operands):
                for part, (_, _, other) in operand.items():
                    if _overlap(place, other) and (out, (k, part)) not in stated:
                        raise Corrupted  # nothing says in which order it reads and writes
        return True

    def ordered(self, row: Row, todo: list[tuple[Index, Index]]) -> list[list[tuple[Index, Index]]]:
        """The elements in the order in which they are made; those at one index of several results together."""
        groups: dict[object, list[tuple[Index, Index]]] = {}
        for part, index in todo:
            array = row.shape[part]
            assert array is not None
            groups.setdefault((array.dims, array.minor, index), []).append((part, index))
        found = list(groups.values())
        if self.order == "down":
            found.reverse()
        elif self.order != "up":
            self.rng.shuffle(found)
        return found


def _overlap(one: Place | None, other: Place | None) -> bool:
    if one is None or other is None or one[0] != other[0]:
        return False
    return max(one[1], other[1]) < min(one[1] + one[2], other[1] + other[2])
