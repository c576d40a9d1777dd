"""If, Loop and Scan: which body runs next, what it receives, and where its returned values go.

A slice of a stacked result is written to its place as soon as its round has made it. Only slices along another axis
than the first, and packed elements, are written at the end. spec: SIM5.1, T8.2, T8.3, T8.9
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tmmu.core.dtypes import BITS, nbytes
from tmmu.core.errors import TmmuError
from tmmu.simulator.elements import Array, Size, decode, encode
from tmmu.simulator.machine import Rounds
from tmmu.simulator.memories import Raw
from tmmu.simulator.onnx_node import KernelFailed


@dataclass(frozen=True)
class Sizes:
    """The sizes of a node with bodies: operands (None if absent), formals, returned values by body, results.

    `outputs` gives for each output of the node its position among the results, or None if it is not produced.
    `attributes` names the bodies that the plan has.
    """

    name: str
    node: onnx.NodeProto
    operands: list[Size | None]
    formals: list[Size]
    returned: list[list[Size]]
    results: list[Size]
    outputs: list[int | None]
    attributes: list[str]

    def failed(self, what: str) -> KernelFailed:
        """Return the error for a run that deviates from the plan."""
        return KernelFailed(
            "CONTRACT_VIOLATION", what, place=f"node {self.name!r}", fix="plan with the values that hold at run time",
            operator="UML_OS.TMMU.ApplyPlan_v1", failure_operator=self.name,
        )  # fmt: skip

    def arrays(self, operands: Sequence[Raw]) -> list[Array | None]:
        """Return the operands as arrays, None for absent ones."""
        present = iter(operands)
        return [None if size is None else decode(next(present), size) for size in self.operands]


class IfRounds:
    """Runs the branch that the condition chooses, once."""

    def __init__(self, sizes: Sizes, operands: Sequence[Raw]) -> None:
        condition = sizes.arrays(operands)[0]
        if condition is None or condition.size != 1:
            raise sizes.failed("expected a condition of one element")
        self.branch = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        self.sizes, self.done = sizes, False

    def choose(self, sources: Sequence[Raw]) -> list[int]:
        """Return the branch, then none."""
        if self.done:
            return []
        self.done = True
        if self.branch not in self.sizes.attributes:
            raise self.sizes.failed(f"the condition chooses the {self.branch}, which the plan's bindings rule out")
        return [self.sizes.attributes.index(self.branch)]

    def formals(self, operands: Sequence[Raw], sources: Sequence[Raw]) -> list[Raw | None]:
        """Return None for each: a branch has no formal inputs."""
        return [None] * len(self.sizes.formals)

    def collected(self, sources: Sequence[Raw]) -> list[tuple[int, int, Raw]]:
        """Return nothing: results are known when the branch has ended."""
        return []

    def results(self, operands: Sequence[Raw], sources: Sequence[Raw], own: Sequence[Raw]) -> list[Raw]:
        """Return the values that the branch returned."""
        made = [sources[k] for k, position in enumerate(self.sizes.outputs) if position is not None]
        for content, (shape, dtype) in zip(made, self.sizes.results, strict=True):
            if len(content) != nbytes(shape, dtype):
                raise self.sizes.failed(f"expected {nbytes(shape, dtype)} bytes from the branch, got {len(content)}")
        return made


class _RepeatedRounds:
    """Common parts of Loop and Scan: states pass from round to round, and results grow by a slice each round.

    A round returns `leading` values, then the states, then the slices. The first states are the operands before the
    last `trailing` ones. Each grown result has an axis and a direction.
    """

    def __init__(
        self, sizes: Sizes, states: int, leading: int, trailing: int, axes: Sequence[int], backward: Sequence[bool]
    ) -> None:
        self.sizes, self.states, self.leading, self.trailing = sizes, states, leading, trailing
        self.axes, self.backward, self.rounds = axes, backward, 0
        self.kept: dict[int, list[Array]] = {}

    def current(self, operands: Sequence[Raw], sources: Sequence[Raw]) -> list[Raw]:
        """Return the states: those that the last round returned, or the node's operands in the first round."""
        values, end = (sources, self.leading + self.states) if sources else (operands, len(operands) - self.trailing)
        return list(values[end - self.states : end])

    def collected(self, sources: Sequence[Raw]) -> list[tuple[int, int, Raw]]:
        """Return the slices of a round."""
        first, parts = self.leading + self.states, []
        for k, (content, size) in enumerate(zip(sources[first:], self.sizes.returned[0][first:], strict=True)):
            position = self.sizes.outputs[self.states + k] if self.states + k < len(self.sizes.outputs) else None
            if position is None:
                continue
            shape, dtype = self.sizes.results[position]
            length = shape[self.axes[k]]
            if self.rounds >= length:
                raise self.sizes.failed(f"expected at most {length} rounds, got more")
            if self.axes[k] or BITS[dtype] < 8:
                self.kept.setdefault(k, []).append(np.array(decode(content, size)))
                continue
            at = length - 1 - self.rounds if self.backward[k] else self.rounds
            parts.append((position, at * len(content), content))
        self.rounds += 1
        return parts

    def results(self, operands: Sequence[Raw], sources: Sequence[Raw], own: Sequence[Raw]) -> list[Raw]:
        """Return the last states, then the grown results."""
        states = self.current(operands, sources)
        return [
            states[k] if k < self.states else self._whole(k - self.states, position, own)
            for k, position in enumerate(self.sizes.outputs)
            if position is not None
        ]

    def _whole(self, k: int, position: int, own: Sequence[Raw]) -> Raw:
        """Return a grown result after all rounds."""
        shape, dtype = self.sizes.results[position]
        if shape[self.axes[k]] != self.rounds:
            raise self.sizes.failed(f"expected {shape[self.axes[k]]} rounds, got {self.rounds}")
        if not (slices := self.kept.get(k)):
            return own[position]
        return encode(np.stack(slices[::-1] if self.backward[k] else slices, axis=self.axes[k]), dtype)


class LoopRounds(_RepeatedRounds):
    """Runs the body while the limit permits it and the condition holds."""

    def __init__(self, sizes: Sizes, operands: Sequence[Raw]) -> None:
        limit, condition, *states = [*sizes.arrays(operands), None, None][: max(2, len(sizes.operands))]
        for what in (limit, condition):
            if what is not None and what.size != 1:
                raise sizes.failed("expected a limit and a condition of one element")
        grown = len(sizes.returned[0]) - 1 - len(states)
        super().__init__(sizes, len(states), 1, 0, [0] * grown, [False] * grown)
        self.limit = None if limit is None else int(limit.reshape(-1)[0])
        self.goes_on = condition is None or bool(condition.reshape(-1)[0])

    def choose(self, sources: Sequence[Raw]) -> list[int]:
        """Return the body, while the loop continues."""
        if sources:
            self.goes_on = bool(decode(sources[0], self.sizes.returned[0][0]).reshape(-1)[0])
        return [0] if self.goes_on and (self.limit is None or self.rounds < self.limit) else []

    def formals(self, operands: Sequence[Raw], sources: Sequence[Raw]) -> list[Raw | None]:
        """Return the number of the round, the condition and the states."""
        (shape, dtype), (bool_shape, _) = self.sizes.formals[:2]
        return [
            encode(np.full(shape, self.rounds, np.int64), dtype),
            encode(np.full(bool_shape, self.goes_on), "bool"),
            *self.current(operands, sources),
        ]


class ScanRounds(_RepeatedRounds):
    """Runs the body once for each slice of the scanned inputs."""

    def __init__(self, sizes: Sizes, operands: Sequence[Raw]) -> None:
        ints = {attribute.name: list(attribute.ints) for attribute in sizes.node.attribute}
        scanned = next(attribute.i for attribute in sizes.node.attribute if attribute.name == "num_scan_inputs")
        states = len(sizes.operands) - scanned
        self.scanned_axes = _normalize_axes(
            ints.get("scan_input_axes"), [len(f[0]) + 1 for f in sizes.formals[states:]]
        )
        self.scanned_backward = [bool(each) for each in ints.get("scan_input_directions") or [0] * scanned]
        given = sizes.returned[0][states:]
        axes = _normalize_axes(ints.get("scan_output_axes"), [len(shape) + 1 for shape, _ in given])
        directions = ints.get("scan_output_directions") or [0] * len(given)
        super().__init__(sizes, states, 0, scanned, axes, [bool(each) for each in directions])
        first = sizes.arrays(operands)[states]
        assert first is not None  # a scanned input is never absent
        self.length = first.shape[self.scanned_axes[0]]

    def choose(self, sources: Sequence[Raw]) -> list[int]:
        """Return the body, once for each slice."""
        return [0] if self.rounds < self.length else []

    def formals(self, operands: Sequence[Raw], sources: Sequence[Raw]) -> list[Raw | None]:
        """Return the states and one slice of each scanned input."""
        made: list[Raw | None] = [*self.current(operands, sources)]
        for k, array in enumerate(self.sizes.arrays(operands)[self.states :]):
            assert array is not None  # a scanned input is never absent
            at = self.length - 1 - self.rounds if self.scanned_backward[k] else self.rounds
            slice_ = None if at not in range(self.length) else np.take(array, at, axis=self.scanned_axes[k])
            made.append(None if slice_ is None else encode(slice_, self.sizes.formals[self.states + k][1]))
        return made


def _normalize_axes(axes: list[int] | None, ranks: list[int]) -> list[int]:
    """Return axes counted from the front, 0 for each that is not given."""
    return [axis % rank for axis, rank in zip(axes or [0] * len(ranks), ranks, strict=True)]


ROUNDS: dict[str, Callable[[Sizes, Sequence[Raw]], Rounds]] = {"If": IfRounds, "Loop": LoopRounds, "Scan": ScanRounds}
"""The classes that execute the operators with bodies."""


def no_body_kernel(name: str, op: str) -> TmmuError:
    """Return the error for any other operator with bodies."""
    return TmmuError(
        "INVALID_IR", f"no kernel of {op} runs its bodies step by step", place=f"node {name!r}",
        fix="run the plan alone, with --kernels hash", operator="UML_OS.TMMU.ApplyPlan_v1", node_id=name,
    )  # fmt: skip
