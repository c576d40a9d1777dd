"""Decide how the tensors of a model are partitioned over the mesh: by rules, by their parameter, as computed, by ZeRO.

spec: R7.5 to R7.8, R7.12, R7.13
"""

from __future__ import annotations

import re
from typing import Any

from proofs.readers.models.reference import ReferenceProgram
from proofs.readers.patterns import Patterns
from proofs.sharding.mesh import Mesh
from tmmu.core.dims.expressions import close_shape
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Role

PartitionSpec = tuple[str, ...]
"""The axis that splits each dimension of a tensor, or ""."""

_PART_OF_SUM = re.compile(r"\.(part|sum)[0-9]+\Z")


def misfit(place: str, what: str) -> TmmuError:
    """Return the error that the shard spec cannot be applied to the model."""
    return TmmuError("INVALID_SHARDING", what, place=place, fix="no rank can run this model under this spec", axis="")


class Partitioning:
    """The partition spec of each tensor, decided at its first use. `known` holds those that are decided."""

    def __init__(self, model: ReferenceProgram, spec: dict[str, Any]) -> None:
        self.model, self.spec, self.mesh = model, spec, Mesh(spec)
        self.real = {axis for axis in self.mesh.axes if self.mesh.size[axis] > 1}
        self.rules = [(rule, Patterns(rule["names"])) for rule in spec["rules"]]
        self.known: dict[str, PartitionSpec] = {}
        self.stored_apart: dict[str, int] = {}  # the tensors that ZeRO splits, each with its dimension

    def of(self, name: str, as_made: PartitionSpec | None = None) -> PartitionSpec:
        """Return the partition spec of a tensor. It is decided at the first call."""
        if name not in self.known:
            rank = len(self.model.shapes[name])
            of = self.primal_of(name)
            partition = self._ruled(name, Role.GRADIENT if of is not None else self.model.roles[name])
            if partition is None and of in self.known:
                partition = self.in_use(of)
            partition = partition or as_made or ("",) * rank
            for d, axis in enumerate(partition):
                self._must_fit(name, d, axis)
            self.known[name] = self._zero(name, of, partition)
        return self.known[name]

    def in_use(self, name: str | None) -> PartitionSpec:
        """Return the partition spec of a tensor without the split that ZeRO adds."""
        assert name is not None  # called for tensors whose spec is known
        apart = self.stored_apart.get(name)
        return tuple("" if d == apart else axis for d, axis in enumerate(self.known[name]))

    def primal_of(self, name: str) -> str | None:
        """Return the tensor that `name` is the gradient of, a part of the gradient, or the seed, or else None."""
        role, shapes = self.model.roles[name], self.model.shapes
        stem = ""
        if role is Role.INPUT and name.endswith(".seed"):
            stem = name[: -len(".seed")]
        elif role is Role.GRADIENT:
            without = _PART_OF_SUM.sub("", name)
            stem = without[: -len(".grad")] if without.endswith(".grad") else ""
        return stem if self._is_tensor(stem) and shapes[stem] == shapes[name] else None

    def _is_tensor(self, name: str) -> bool:
        return name in self.model.roles and self.model.roles[name] is not Role.SCRATCH

    def _ruled(self, name: str, role: Role) -> PartitionSpec | None:
        for rule, names in self.rules:
            if str(role) not in rule["roles"] or not names.match(name):
                continue
            rank = len(self.model.shapes[name])
            if len(rule["split"]) > rank:
                raise misfit(name, f"a rule splits {len(rule['split'])} dimensions of {rank}")
            axes = [axis if axis in self.real else "" for axis in rule["split"]]
            return tuple(axes + [""] * (rank - len(axes)))
        return None

    def _must_fit(self, name: str, d: int, axis: str) -> None:
        if axis and not self.spec["pad"] and close_shape(self.model.shapes[name])[d] % self.mesh.size[axis]:
            raise misfit(name, f"dimension {d} does not divide by the axis {axis!r}")

    def _zero(self, name: str, of: str | None, partition: PartitionSpec) -> PartitionSpec:
        axis, stage, role = self.spec["zero_axis"], self.spec["zero_stage"], self.model.roles[name]
        split = (
            role is Role.OPTIMIZER  # a spec that has an axis for ZeRO has a stage of it
            or (role is Role.GRADIENT and of is not None and self.model.roles[of] is Role.PARAMETER and stage >= 2)
            or (role is Role.PARAMETER and stage >= 3)
        )
        if not split or axis not in self.real or axis in partition or name not in self.model.floating:
            return partition
        shape, size = close_shape(self.model.shapes[name]), self.mesh.size[axis]
        choices = sorted((shape[d] % size != 0, d) for d in range(len(partition)) if not partition[d])
        if not choices:
            return partition
        d = choices[0][1]
        self._must_fit(name, d, axis)
        self.stored_apart[name] = d
        return (*partition[:d], axis, *partition[d + 1 :])
