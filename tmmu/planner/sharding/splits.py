"""Find the axis of the mesh that splits each dimension of a tensor, and the chunks.

A tensor is split by the first rule that names it. A gradient without a rule is split as its tensor, and a result
without a rule as its node makes it. ZeRO then splits one more dimension of optimizer state, gradients and parameters.
spec: R7.5 to R7.8, R7.12, R7.13, R7.14
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tmmu.core.dims.expressions import close_shape
from tmmu.core.vocabulary import Model, Role, Tensor
from tmmu.planner.patterns import NameMatcher
from tmmu.planner.sharding.spec import sharding_error
from tmmu.planner.training.gradients import is_floating
from tmmu.plans import sharding

Split = tuple[str, ...]
"""The axis of each dimension; "" if no axis splits it."""

_GRADIENT_OF = re.compile(r"(?P<base>.+)\.grad(?:\.(?:part|sum)[0-9]+)?", re.DOTALL)


@dataclass
class Splits:
    """The splits of a model's tensors, by row, as they become known; `zero` is the dimension that ZeRO splits."""

    model: Model
    spec: dict[str, Any]
    of: dict[int, Split] = field(default_factory=dict)
    zero: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # An axis of one rank splits nothing.
        self.sizes = {name: size for name, size in sharding.mesh_axes(self.spec) if size > 1}
        self._rules = [(rule, NameMatcher(rule["names"])) for rule in self.spec["rules"]]
        self.rows = {tensor.name: t for t, tensor in enumerate(self.model.tensors)}

    def settle(self, t: int, made: Split | None = None) -> Split:
        """Return the split of tensor `t`, decided at the first call. `made` is the split that its node makes it in.

        Raises INVALID_SHARDING if a dimension does not divide.
        """
        if t not in self.of:
            tensor = self.model.tensors[t]
            base = self.gradient_of(t)
            chosen = self._by_rule(tensor, gradient=base is not None)
            if chosen is None and base in self.of:
                chosen = self.without_zero(base)
            if chosen is None:
                chosen = made if made is not None else ("",) * len(tensor.shape)
            for d, axis in enumerate(chosen):
                self._check_divides(tensor, d, axis)
            self.of[t] = self._add_zero(t, tensor, base, chosen)
        return self.of[t]

    def without_zero(self, t: int) -> Split:
        """Return the split of a settled tensor without ZeRO's, which affects only how it is stored."""
        split = self.of[t]
        return tuple("" if self.zero.get(t) == d else axis for d, axis in enumerate(split))

    def gradient_of(self, t: int) -> int | None:
        """Return the tensor that `t` is the gradient of, a part of its gradient, or its seed; None if there is none.

        The name and the shape decide.
        """
        tensor = self.model.tensors[t]
        if tensor.role is Role.INPUT:
            name = tensor.name.removesuffix(".seed") if tensor.name.endswith(".seed") else ""
        else:
            found = _GRADIENT_OF.fullmatch(tensor.name) if tensor.role is Role.GRADIENT else None
            name = found["base"] if found else ""
        base = self.rows.get(name)
        return base if base is not None and self.model.tensors[base].shape == tensor.shape else None

    def chunk(self, size: int, axis: str) -> int:
        """Return how many places of a dimension of `size` elements a rank has."""
        return -(-size // self.sizes.get(axis, 1))

    def local_shape(self, shape: tuple[int, ...], split: Split) -> tuple[int, ...]:
        """Return the shape of a rank's part, padding included."""
        return tuple(self.chunk(size, axis) for size, axis in zip(shape, split, strict=True))

    def _by_rule(self, tensor: Tensor, gradient: bool) -> Split | None:
        for rule, names in self._rules:
            role = Role.GRADIENT if gradient else tensor.role
            if role in rule["roles"] and names(tensor.name):
                split = [axis if axis in self.sizes else "" for axis in rule["split"]]
                if len(split) > len(tensor.shape):
                    raise sharding_error(
                        f"a rule splits {len(split)} dimensions, it has {len(tensor.shape)}",
                        "write a separate rule for it, before that one",
                        place=f"tensor {tensor.name!r}",
                    )
                return (*split, *("",) * (len(tensor.shape) - len(split)))
        return None

    def _check_divides(self, tensor: Tensor, d: int, axis: str) -> None:
        if axis and not self.spec["pad"] and close_shape(tensor.shape)[d] % self.sizes[axis]:
            raise sharding_error(
                f"dimension {d} of {tensor.shape[d]} elements does not divide by the axis {axis!r} of "
                f"{self.sizes[axis]} ranks",
                "write pad = true, or a rule that does not split it",
                place=f"tensor {tensor.name!r}",
                axis=axis,
            )

    def _add_zero(self, t: int, tensor: Tensor, base: int | None, split: Split) -> Split:
        stage, axis = self.spec["zero_stage"], self.spec["zero_axis"]
        of_parameter = base is not None and self.model.tensors[base].role is Role.PARAMETER
        least = {Role.OPTIMIZER: 1, Role.PARAMETER: 3, Role.GRADIENT: 2 if of_parameter else 4}.get(tensor.role, 4)
        if stage < least or axis not in self.sizes or axis in split or not is_floating(tensor):
            return split
        free = [d for d, taken in enumerate(split) if not taken]
        if not free:
            return split
        whole = [d for d in free if close_shape(tensor.shape)[d] % self.sizes[axis] == 0]
        d = whole[0] if whole else free[0]
        self._check_divides(tensor, d, axis)
        self.zero[t] = d
        return (*split[:d], axis, *split[d + 1 :])
