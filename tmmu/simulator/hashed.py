"""Stand-in kernels for every operator: results that follow from each byte of each operand, and from nothing else.

With them a plan runs without a model: training graphs, foreign plans, random ones. A result that depends on its
operands element by element takes byte i from byte i of these and from all bytes of the others; a view shows its
operand; every other result mixes all bytes of all operands into each of its own. Loops make 0 to 3 rounds and an If
takes one of its branches, as seed and node decide: four seeds in a row show them all. spec: SIM4.1, SIM4.2, SIM4.3
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tmmu.simulator.bodies import Holder, PlanStep
from tmmu.simulator.memories import Raw
from tmmu.simulator.operators import bytewise, known, shows
from tmmu.simulator.program import PlanProgram

ROUNDS = 4
"""A node that iterates makes fewer rounds than this."""


LONG = 1 << 16
"""From so many bytes on, a result is drawn from a generator that the digest seeds, which is faster."""

BLOCK = 1 << 18
"""As many bytes of a long operand are worked on at one time: what is made on the way stays in the cache."""


def _state(key: str, operands: Sequence[Raw]) -> Any:
    """The hash of a key and of every byte of every operand, and of where one ends and the next begins.

    A long operand counts with its SHA-256: that is three times as fast where processors have instructions for it.
    """
    state = hashlib.shake_128(key.encode())
    for operand in operands:
        content = np.ascontiguousarray(operand).data
        state.update(len(operand).to_bytes(8, "little"))
        state.update(content if len(operand) < LONG else hashlib.sha256(content).digest())
    return state


def mixed(key: str, operands: Sequence[Raw], size: int) -> Raw:
    """`size` bytes that each depend on the key and on every byte of every operand."""
    state = _state(key, operands)
    if size < LONG:
        return np.frombuffer(bytearray(state.digest(size)), np.uint8)
    generator = np.random.SFC64(int.from_bytes(state.digest(32), "little"))
    words: npt.NDArray[np.uint64] = generator.random_raw(-(-size // 8))
    return words.astype("<u8", copy=False).view(np.uint8)[:size]


def _elementwise(key: str, columns: Sequence[Raw], others: Sequence[Raw], size: int) -> Raw:
    """Byte i from byte i of each column and from all bytes of the others."""
    result = mixed(key, others, size)
    for k, column in enumerate(columns):
        length = min(size, len(column))
        # An odd factor and a rotation: every byte of a column changes the result, whatever the columns before it hold.
        for first in range(0, length, BLOCK):
            here = result[first : min(first + BLOCK, length)]
            here *= np.uint8(5)
            here ^= column[first : first + len(here)] * np.uint8(2 * k + 3)
    return result


class HashKernels:
    """Kernels for every operator of a program; the seed chooses what the caller writes, branches and rounds."""

    def __init__(self, program: PlanProgram, seed: int = 0) -> None:
        self.program, self.seed = program, seed
        self.times: dict[tuple[int, bytes], int] = {}

    def given(self, t: int) -> Raw:
        """What the caller writes into a tensor: it follows from seed and name."""
        return mixed(f"given {self.seed} {self.program.names[t]}", (), self.program.sizes[t])

    def scratch(self, t: int) -> Raw:
        """What a step leaves in its scratch."""
        return mixed(f"scratch {self.program.names[t]}", (), self.program.sizes[t])

    def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
        """The results of a step; each operator is a function of its operands' bytes."""
        step, program = self.program.steps[n], self.program
        columns = self._columns(step)
        over = [k for k, t in enumerate(step.results) if program.is_over(step, t)]
        made = []
        for k, t in enumerate(step.results):
            key, size = f"{step.op} {k} of {len(step.results)}", program.sizes[t]
            base = self._shown(step, k)
            if base is not None:
                position, first = base
                made.append(operands[position][first : first + size])
            elif columns and (k == 0 if known(step.op[0]) and not step.mutates else k in over):
                others = [operand for p, operand in enumerate(operands) if p not in columns]
                made.append(_elementwise(key, [operands[p] for p in columns], others, size))
            else:
                made.append(mixed(key, operands, size))
        return made

    def _columns(self, step: PlanStep) -> list[int]:
        """The positions of operands that a result depends on element by element, each tensor once.

        Of operators that no table has these are the operands that the plan states as overwritten.
        """
        program = self.program
        if known(step.op[0]) and not step.mutates:
            allowed = [p for p in bytewise(*step.op) if p < len(step.operands) and step.results]
            return [p for p in allowed if program.sizes[step.operands[p]] == program.sizes[step.results[0]]]
        taken = {program.in_place[t] for t in step.results if t in program.in_place}
        taken.update(t for t in step.mutates if t in step.operands)
        return [p for p, t in enumerate(step.operands) if t in taken]

    def _shown(self, step: PlanStep, k: int) -> tuple[int, int] | None:
        """The position of the operand that result `k` shows, and the first byte of it; None for what is no view."""
        program, t = self.program, step.results[k]
        if not known(step.op[0]):
            of, first = program.views.get(t, (-1, 0))
            return (step.operands.index(of), first) if of in step.operands else None
        if not step.operands or not shows(*step.op, k) or program.sizes[step.operands[0]] != program.sizes[t]:
            return None
        origin = program.plan.provenance
        if step.op[1] == "Dropout" and (origin is None or origin.mode != "inference"):
            # With a training_mode operand it is a Dropout that trains.
            return None if any(program.dtypes[r] == "bool" for r in step.operands[1:]) else (0, 0)
        return 0, 0

    def rounds(self, holder: Holder, operands: Sequence[Raw]) -> HashRounds:
        """Begin to execute a node with bodies."""
        step = self.program.steps[holder.enter]
        digest: bytes = _state(f"{self.seed} {step.node}", operands).digest(32)
        turn = self.seed + zlib.crc32(step.node.encode())
        if self.program.steps[holder.enter].body:
            turn += digest[0]  # within a body: another branch or number of rounds in each of its rounds
        return HashRounds(self.program, holder, digest, turn)


class HashRounds:
    """One execution of a node with bodies by stand-in kernels."""

    def __init__(self, program: PlanProgram, holder: Holder, digest: bytes, turn: int) -> None:
        self.program, self.holder, self.key = program, holder, digest.hex()
        self.turn, self.left, self.count = turn, turn % ROUNDS if holder.iterates else 1, 0
        self.total = self.left

    def choose(self, sources: Sequence[Raw]) -> list[int]:
        """All bodies of a node that iterates, as often as the seed decides; one body of an If."""
        if not self.left:
            return []
        self.left -= 1
        self.count += 1
        return list(range(len(self.holder.bodies))) if self.holder.iterates else [self.turn % len(self.holder.bodies)]

    def formals(self, operands: Sequence[Raw], sources: Sequence[Raw]) -> list[Raw | None]:
        """At first from the node's operands, then copies of what the last round returned."""
        made: list[Raw | None] = []
        for k, t in enumerate(self.holder.formals):
            size = self.program.sizes[t]
            source = sources[k % len(sources)] if sources else None
            if source is not None and len(source):
                made.append(np.resize(source, size))
            else:
                made.append(mixed(f"formal {self.count} {k}", operands, size))
        return made

    def collected(self, sources: Sequence[Raw]) -> list[tuple[int, int, Raw]]:
        """A slice of each result for each round."""
        if not self.holder.iterates:
            return []
        parts = []
        for k, t in enumerate(self.holder.results):
            size = self.program.sizes[t]
            first, end = (size * done // self.total for done in (self.count - 1, self.count))
            parts.append((k, first, mixed(f"part {k}", sources, end - first)))
        return parts

    def results(self, operands: Sequence[Raw], sources: Sequence[Raw], own: Sequence[Raw]) -> list[Raw]:
        """From what the branch returned; of a node that iterates also from its operands and the slices."""
        return [
            mixed(
                f"result {k}", [*operands, *sources, *own] if self.holder.iterates else sources, self.program.sizes[t]
            )
            for k, t in enumerate(self.holder.results)
        ]
