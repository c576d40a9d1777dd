"""Stand-in kernels for every operator: results that depend on each byte of each operand, and on nothing else.

With them a plan runs without a model: training graphs, foreign plans, random ones. An elementwise result takes byte i
from byte i of its elementwise operands and from all bytes of the others. A view shows its operand. Every other result
mixes all bytes of all operands into each of its own. Loops run 0 to 3 rounds and an If takes one of its branches,
determined by seed and node: four consecutive seeds cover them all. spec: SIM4.1, SIM4.2, SIM4.3
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
from tmmu.simulator.operators import elementwise_operands, has_domain, is_view_result
from tmmu.simulator.program import PlanProgram

ROUNDS = 4
"""A node that iterates runs fewer rounds than this."""


LONG = 1 << 16
"""From this size in bytes on, a result is drawn from a generator seeded by the digest, which is faster."""

BLOCK = 1 << 18
"""How many bytes of a long operand are processed at a time, so that intermediate results stay in the cache."""


def _state(key: str, operands: Sequence[Raw]) -> Any:
    """Hash a key, every byte of every operand, and the boundaries between operands.

    A long operand is replaced by its SHA-256, which is three times as fast on processors with instructions for it.
    """
    state = hashlib.shake_128(key.encode())
    for operand in operands:
        content = np.ascontiguousarray(operand).data
        state.update(len(operand).to_bytes(8, "little"))
        state.update(content if len(operand) < LONG else hashlib.sha256(content).digest())
    return state


def mix_bytes(key: str, operands: Sequence[Raw], size: int) -> Raw:
    """Return `size` bytes that each depend on the key and on every byte of every operand."""
    state = _state(key, operands)
    if size < LONG:
        return np.frombuffer(bytearray(state.digest(size)), np.uint8)
    generator = np.random.SFC64(int.from_bytes(state.digest(32), "little"))
    words: npt.NDArray[np.uint64] = generator.random_raw(-(-size // 8))
    return words.astype("<u8", copy=False).view(np.uint8)[:size]


def _elementwise(key: str, columns: Sequence[Raw], others: Sequence[Raw], size: int) -> Raw:
    """Compute byte i from byte i of each column and from all bytes of the others."""
    result = mix_bytes(key, others, size)
    for k, column in enumerate(columns):
        length = min(size, len(column))
        # An odd factor and a rotation: every byte of a column changes the result, whatever the columns before it hold.
        for first in range(0, length, BLOCK):
            here = result[first : min(first + BLOCK, length)]
            here *= np.uint8(5)
            here ^= column[first : first + len(here)] * np.uint8(2 * k + 3)
    return result


class HashKernels:
    """Kernels for every operator of a program. The seed determines the caller's values, branches and rounds."""

    def __init__(self, program: PlanProgram, seed: int = 0) -> None:
        self.program, self.seed = program, seed
        self.times: dict[tuple[int, bytes], int] = {}

    def given(self, t: int) -> Raw:
        """Return the caller's value of a tensor; it depends on seed and name."""
        return mix_bytes(f"given {self.seed} {self.program.names[t]}", (), self.program.sizes[t])

    def scratch(self, t: int) -> Raw:
        """Return the bytes that a step leaves in its scratch."""
        return mix_bytes(f"scratch {self.program.names[t]}", (), self.program.sizes[t])

    def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
        """Compute the results of a step; each operator is a function of its operands' bytes."""
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
            elif columns and (k == 0 if has_domain(step.op[0]) and not step.mutates else k in over):
                others = [operand for p, operand in enumerate(operands) if p not in columns]
                made.append(_elementwise(key, [operands[p] for p in columns], others, size))
            else:
                made.append(mix_bytes(key, operands, size))
        return made

    def _columns(self, step: PlanStep) -> list[int]:
        """Return the positions of the operands that a result depends on element by element, each tensor once.

        For operators in no table, these are the operands that the plan declares as overwritten.
        """
        program = self.program
        if has_domain(step.op[0]) and not step.mutates:
            allowed = [p for p in elementwise_operands(*step.op) if p < len(step.operands) and step.results]
            return [p for p in allowed if program.sizes[step.operands[p]] == program.sizes[step.results[0]]]
        taken = {program.in_place[t] for t in step.results if t in program.in_place}
        taken.update(t for t in step.mutates if t in step.operands)
        return [p for p, t in enumerate(step.operands) if t in taken]

    def _shown(self, step: PlanStep, k: int) -> tuple[int, int] | None:
        """Return the position of the operand that result `k` is a view of, and its first byte; None if not a view."""
        program, t = self.program, step.results[k]
        if not has_domain(step.op[0]):
            of, first = program.views.get(t, (-1, 0))
            return (step.operands.index(of), first) if of in step.operands else None
        if not step.operands or not is_view_result(*step.op, k) or program.sizes[step.operands[0]] != program.sizes[t]:
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
            turn += digest[0]  # within a body, branch and number of rounds differ from round to round
        return HashRounds(self.program, holder, digest, turn)


class HashRounds:
    """One execution of a node with bodies by stand-in kernels."""

    def __init__(self, program: PlanProgram, holder: Holder, digest: bytes, turn: int) -> None:
        self.program, self.holder, self.key = program, holder, digest.hex()
        self.turn, self.left, self.count = turn, turn % ROUNDS if holder.iterates else 1, 0
        self.total = self.left

    def choose(self, sources: Sequence[Raw]) -> list[int]:
        """Return all bodies of a node that iterates, as often as the seed determines; for an If, one body once."""
        if not self.left:
            return []
        self.left -= 1
        self.count += 1
        return list(range(len(self.holder.bodies))) if self.holder.iterates else [self.turn % len(self.holder.bodies)]

    def formals(self, operands: Sequence[Raw], sources: Sequence[Raw]) -> list[Raw | None]:
        """Compute formal inputs from the node's operands in the first round, then as copies of the returned values."""
        made: list[Raw | None] = []
        for k, t in enumerate(self.holder.formals):
            size = self.program.sizes[t]
            source = sources[k % len(sources)] if sources else None
            if source is not None and len(source):
                made.append(np.resize(source, size))
            else:
                made.append(mix_bytes(f"formal {self.count} {k}", operands, size))
        return made

    def collected(self, sources: Sequence[Raw]) -> list[tuple[int, int, Raw]]:
        """Compute a slice of each result for each round."""
        if not self.holder.iterates:
            return []
        parts = []
        for k, t in enumerate(self.holder.results):
            size = self.program.sizes[t]
            first, end = (size * done // self.total for done in (self.count - 1, self.count))
            parts.append((k, first, mix_bytes(f"part {k}", sources, end - first)))
        return parts

    def results(self, operands: Sequence[Raw], sources: Sequence[Raw], own: Sequence[Raw]) -> list[Raw]:
        """Compute results from the values that the branch returned; for a loop also from its operands and slices."""
        return [
            mix_bytes(
                f"result {k}", [*operands, *sources, *own] if self.holder.iterates else sources, self.program.sizes[t]
            )
            for k, t in enumerate(self.holder.results)
        ]
