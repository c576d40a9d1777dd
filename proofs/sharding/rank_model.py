"""Derive what the ranks of a mesh must run of a model, apart from stages, from the checker's reading of the shard spec.

All ranks run the same steps on parts of one size. For each step of the model, the partition specs of its operands
decide which loops are divided. Operands that are partitioned otherwise are resharded by collectives. Results that are
sums over ranks are reduced, and results that must be partitioned otherwise are resharded. All names are the
specification's. spec: R7.4 to R7.16, R7.30 to R7.33
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proofs.readers.models.reference import ReferenceProgram, ReferenceStep
from proofs.readers.operators import COLLECTIVES, GRADIENTS, ViewTime, draws, row_of
from proofs.readers.operators.loops import Loops, Place
from proofs.sharding.loops import loops, stated_loops, update_loops
from proofs.sharding.partitions import Partitioning, PartitionSpec, misfit
from tmmu.core.dims.expressions import Expression, close_shape
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import NodePart, Phase, Role


@dataclass
class ShardedModel:
    """The model as every rank runs it.

    `owner` maps each step to the model's, `partitions` each tensor to its partition spec.
    """

    reference: ReferenceProgram
    owner: dict[str, str]
    partitions: dict[str, PartitionSpec]
    assumed: set[str]


def shard_model(model: ReferenceProgram, spec: dict[str, Any]) -> ShardedModel:
    """Return the steps of all ranks.

    Raises INVALID_SHARDING if the spec does not fit the model. O(accesses x dimensions).
    """
    for step in model.steps:
        if step.part is not NodePart.WHOLE:
            raise misfit(step.node, "a body is not sharded")
        random = not _is_gradient(step) and draws(step.op)
        passes_on = row_of("", step.op).view is ViewTime.AT_INFERENCE and step.writes and step.writes[0] in model.views
        if random and not passes_on:
            raise misfit(step.node, f"{step.op} draws random numbers")
    if model.alias_groups:
        raise misfit(min(model.alias_groups), "an alias group is not sharded")
    for name, shape in model.shapes.items():
        if any(isinstance(dim, Expression) for dim in shape):
            raise misfit(name, "a dynamic shape is not sharded")
    work = _Work(model, spec)
    for step in model.steps:
        work.add(step)
    return work.finish()


def _is_gradient(step: ReferenceStep) -> bool:
    return step.domain == GRADIENTS or step.domain.startswith(f"{GRADIENTS}/")


class _Work:
    """The steps of all ranks as far as they are derived, with the partition specs that are decided."""

    def __init__(self, model: ReferenceProgram, spec: dict[str, Any]) -> None:
        self.model, self.spec, self.partitioning = model, spec, Partitioning(model, spec)
        self.mesh = self.partitioning.mesh
        self.by_name = {step.node: step for step in model.steps}
        self.owner: dict[str, str] = {}
        self.assumed: set[str] = set()
        self.shown: list[tuple[str, str]] = []  # views of whole tensors
        m = model
        self.new = replace(
            m, steps=[], sizes=dict(m.sizes), shapes=dict(m.shapes), alignments=dict(m.alignments), roles=dict(m.roles),
            views=dict(m.views), in_place=set(m.in_place), phases=dict(m.phases),
        )  # fmt: skip

    def finish(self) -> ShardedModel:
        for name, role in self.model.roles.items():
            if role is not Role.SCRATCH:
                self._resize(name, name, self.partitioning.of(name))
        made = {name for step in self.model.steps for name in step.writes}
        for name, (base, _) in self.model.views.items():
            if name not in made and self._is_split(name, base) and not self._are_partitioned_alike(name, base):
                raise misfit(name, f"the caller writes it as a view of {base}, which is partitioned otherwise")
        for name, base in self.shown:
            if self.new.sizes[name][0] != self.new.sizes[base][0]:
                raise misfit(name, f"a view of {base}, but a rank has different parts of the two")
        return ShardedModel(self.new, self.owner, self.partitioning.known, self.assumed)

    # The loops of a step.

    def _loops(self, step: ReferenceStep, ins: Sequence[str], outs: Sequence[str]) -> Loops:
        shapes_in, shapes_out = ([close_shape(self.model.shapes[n]) for n in names] for names in (ins, outs))
        if self.model.phases.get(step.node) is Phase.OPTIMIZER and step.domain:
            changed = next(iter((*step.mutates, *outs)), None)
            self.assumed.add(f"{step.domain}::{step.op} updates element by element")
            return update_loops(
                () if changed is None else close_shape(self.model.shapes[changed]), shapes_in, shapes_out
            )
        if _is_gradient(step):
            return self._of_gradient(step, ins, outs)
        entry = next((each for each in self.spec["operators"] if each["op"] == step.op), None)
        if entry is not None and not step.domain:
            across = ", ".join(map(str, entry["across"]))
            along = "dimension" if len(entry["across"]) == 1 else "dimensions"
            how = f"combines elements along {along} {across} only" if across else "works element by element"
            self.assumed.add(f"{step.op} {how} (shard spec)")
            return stated_loops(entry["across"], shapes_in, shapes_out)
        if step.node in self.model.opaque:
            return Loops()
        found = loops(step.domain, step.op, shapes_in, shapes_out)
        only = {} if step.domain or self.model.has_attributes else row_of("", step.op).only
        if found.sets and only:
            values = " and ".join(f"{name} {value}" for name, value in sorted(only.items()))
            self.assumed.add(f"{step.op} with {values}")
        return found

    def _of_gradient(self, step: ReferenceStep, ins: Sequence[str], outs: Sequence[str]) -> Loops:
        """Return the loops of a gradient: those of the forward step, if each of its tensors has one part in them."""
        forward = self.by_name.get(step.node[: -len(".grad")]) if step.node.endswith(".grad") else None
        if forward is None:
            return Loops()
        f_in, f_out = self._operands(forward.reads), self._operands(forward.writes)
        of = self._loops(forward, f_in, f_out)
        number = {place: k for k, places in enumerate(of.sets) for place in places}
        seen: dict[str, list[tuple[int | None, ...]]] = {}
        for side, own in (("in", f_in), ("out", f_out)):
            for p, name in enumerate(own):
                dims = range(len(self.model.shapes[name]))
                seen.setdefault(name, []).append(tuple(number.get((side, p, d)) for d in dims))
        unclear = {k for rows in seen.values() if len(set(rows)) > 1 for row in rows for k in row}
        sets: dict[int, set[Place]] = {}
        for side, touched in (("in", ins), ("out", outs)):
            for p, name in enumerate(touched):
                known = name if name in seen else self.partitioning.primal_of(name)
                for d, k in enumerate(seen[known][0] if known in seen else ()):
                    if k is not None and k not in unclear:
                        sets.setdefault(k, set()).add((side, p, d))
        return Loops(tuple(map(frozenset, sets.values())), adds=True, local=of.local)

    def _operands(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.model.roles[name] is not Role.SCRATCH]

    def _divided(
        self, partition_of: Sequence[PartitionSpec], ins: Sequence[str], outs: Sequence[str], found: Loops
    ) -> dict[int, str]:
        """Return the axis that divides each loop. Operands decide, the first one first."""
        where = {place: k for k, places in enumerate(found.sets) for place in places}
        taken: dict[int, str] = {}
        for p, partition in enumerate(partition_of):
            for d, axis in enumerate(partition):
                k = where.get(("in", p, d))
                if not axis or k is None or k in taken or axis in taken.values():
                    continue
                if self._divisible(found, k, self.mesh.size[axis], ins, outs):
                    taken[k] = axis
        return taken

    def _divisible(self, found: Loops, k: int, ranks: int, ins: Sequence[str], outs: Sequence[str]) -> bool:
        lengths = {
            close_shape(self.model.shapes[(ins if side == "in" else outs)[p]])[d] for side, p, d in found.sets[k]
        }
        reached = {p for side, p, _ in found.sets[k] if side == "out"} | found.untouched
        in_all = reached.issuperset(range(len(outs)))
        if all(length % ranks == 0 for length in lengths):
            return in_all or found.adds
        return found.local and in_all  # all have the length of an operand that may be padded

    # Steps.

    def add(self, step: ReferenceStep) -> None:
        """Add a step of the model with the collectives before and after it."""
        ins, outs = self._operands(step.reads), self._operands(step.writes)
        stored = [self.partitioning.of(name) for name in ins]
        update = self.model.phases.get(step.node) is Phase.OPTIMIZER
        brought = [
            self.partitioning.in_use(n) if self.model.roles[n] is Role.PARAMETER and not update else partition
            for n, partition in zip(ins, stored, strict=True)
        ]
        found = self._loops(step, ins, outs)
        taken = self._divided(brought, ins, outs, found)
        if taken and found.shape_only:
            self.assumed.add(f"{step.op} of what is divided is that of the whole")
        axis_at = {place: taken[k] for k, places in enumerate(found.sets) if k in taken for place in places}

        def wanted(side: str, p: int, name: str) -> PartitionSpec:
            return tuple(axis_at.get((side, p, d), "") for d in range(len(self.model.shapes[name])))

        at: dict[tuple[str, PartitionSpec], str] = {}
        reads: list[str] = []
        for p, name in enumerate(ins):
            partition = wanted("in", p, name)
            if (name, partition) not in at:
                at[name, partition] = self._move(
                    step, f"{step.node}.in{p}", name, name, self._way(stored[p], partition)
                )
            reads.append(at[name, partition])
        changed = {name: reads[ins.index(name)] for name in step.mutates}
        index = len(self.new.steps)
        self._emit(step, step)  # replaced below: what follows it is emitted after it
        writes = []
        for q, name in enumerate(outs):
            if name in changed:
                writes.append(changed[name])
                continue
            made = wanted("out", q, name)
            missing = [] if q in found.untouched else [
                taken[k] for k in taken if not any(side == "out" and p == q for side, p, _ in found.sets[k])
            ]  # fmt: skip
            missing.sort(key=self.mesh.axes.index)
            way = self._way(made, self.partitioning.of(name, made), missing)
            raw = name if not way else self._hold(f"{step.node}.out{q}", name, made)
            self._move(step, f"{step.node}.out{q}", name, raw, way, final=name)
            writes.append(raw)
        scratch = [name for name in step.writes if name not in outs]  # a step reads only its own scratch
        self.new.steps[index] = step._replace(
            reads=(*reads, *scratch), writes=(*writes, *scratch), mutates=tuple(changed[n] for n in step.mutates)
        )
        self._share(step, ins, outs, reads, writes)
        for name, buffer in changed.items():
            if buffer != name:
                back = self._way(wanted("in", ins.index(name), name), self.partitioning.of(name))
                self._move(step, f"{step.node}.out{outs.index(name)}", name, buffer, back, final=name)

    def _way(
        self, have: PartitionSpec, want: PartitionSpec, sums: Sequence[str] = ()
    ) -> list[tuple[str, str, PartitionSpec]]:
        """Return the collectives from one partition spec to another, as (operator, axis, spec after it)."""
        partition, way = list(have), []
        for axis in sums:
            target = want.index(axis) if axis in want else None
            if target is not None and not partition[target]:
                partition[target] = axis
                way.append((f"ReduceScatter.{target}", axis, tuple(partition)))
            else:
                way.append(("AllReduce", axis, tuple(partition)))
        for d in range(len(partition)):
            if partition[d] not in ("", want[d]):
                axis, partition[d] = partition[d], ""
                way.append((f"AllGather.{d}", axis, tuple(partition)))
        for d in range(len(partition)):
            if partition[d] != want[d]:
                partition[d] = want[d]
                way.append((f"Shard.{d}", want[d], tuple(partition)))
        return way

    def _move(
        self,
        step: ReferenceStep,
        prefix: str,
        name: str,
        source: str,
        way: list[tuple[str, str, PartitionSpec]],
        final: str = "",
    ) -> str:
        """Add the steps of a path of collectives, and return the name of the last result.

        The last step writes `final`, if it is given.
        """
        for k, (op, axis, partition) in enumerate(way, 1):
            node = f"{prefix}.{op}.{axis}"
            target = final if final and k == len(way) else self._hold(node, name, partition)
            overwrites = target == final and name in step.mutates
            if op == "AllReduce":
                self.new.in_place.add((target, source))
            self._emit(
                step,
                ReferenceStep(
                    node, f"{COLLECTIVES}{axis}", op, NodePart.WHOLE, "", (source, target) if overwrites else (source,),
                    (target,), (target,) if overwrites else (),
                ),
            )  # fmt: skip
            source = target
        return source

    def _hold(self, name: str, like: str, partition: PartitionSpec) -> str:
        """Add a buffer that is not a tensor of the model."""
        if name in self.new.sizes:
            raise misfit(name, "the model has a tensor of this name already")
        self.new.alignments[name] = self.model.alignments[like]
        self.new.roles[name] = Role.GRADIENT if self.model.roles[like] is Role.GRADIENT else Role.ACTIVATION
        self._resize(name, like, partition)
        return name

    def _resize(self, name: str, like: str, partition: PartitionSpec) -> None:
        dtype = self.model.sizes[like][1]
        shape = self.mesh.chunks(close_shape(self.model.shapes[like]), partition)
        elements = 1
        for n in shape:
            elements *= n
        self.new.shapes[name], self.new.sizes[name] = shape, (-(-elements * BITS[dtype] // 8), dtype)

    def _emit(self, step: ReferenceStep, made: ReferenceStep) -> None:
        if made.node in self.owner:
            raise misfit(made.node, "the model has a node of this name already")
        self.owner[made.node] = step.node
        if step.node in self.model.phases:
            self.new.phases[made.node] = self.model.phases[step.node]
        self.new.steps.append(made)

    def _share(
        self, step: ReferenceStep, ins: Sequence[str], outs: Sequence[str], reads: Sequence[str], writes: Sequence[str]
    ) -> None:
        """Record views and in-place pairs of the step, for the tensors that replace its operands and results."""
        now = {name: reads[ins.index(name)] for name in ins}
        for name, new in zip(outs, writes, strict=True):
            if name in step.mutates:  # its first writer decided what it shows, and whose bytes it took
                continue
            for operand in dict.fromkeys(ins):
                if (name, operand) in self.model.in_place:
                    self.new.in_place.update((new, r) for n, r in zip(ins, reads, strict=True) if n == operand)
            view = self.model.views.get(name)
            if view is None:
                continue
            base, offset = view
            if base not in now:
                raise misfit(name, f"a view of {base}, which its step does not read, is not sharded")
            window = self.model.sizes[name][0] != self.model.sizes[base][0]
            if window and (self._is_split(name, base) or (name, base) != (new, now[base])):
                raise misfit(name, f"a window of {base}, which is split")
            if not window:
                self.shown.append((new, now[base]))
            del self.new.views[name]
            self.new.views[new] = (now[base], offset)

    def _is_split(self, name: str, base: str) -> bool:
        return any((*self.partitioning.of(name), *self.partitioning.of(base)))

    def _are_partitioned_alike(self, name: str, base: str) -> bool:
        shapes, sizes = self.model.shapes, self.model.sizes
        of = self.partitioning.of
        return (shapes[name], sizes[name], of(name)) == (shapes[base], sizes[base], of(base))
