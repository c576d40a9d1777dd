"""Everything that is checked of a plan without a solver, for `verify-plan`, and for `tmmu plan` before it writes.

A `Subject` holds what several checks look at: the sharing that counts, the program that the naive checker runs, and
what rows and kernel are drawn from. Each is built once, when it is first needed. spec: V4.4, C2.1, V1.8
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from proofs.definition.checker import claims, configuration, envelope, execute, fixed, inputs, sharing, structure
from proofs.definition.checker.program import PlacedStorages, Program, build_program, place_storages
from proofs.definition.violations import Obligation, Violation, false_field
from proofs.proving.obligations.context import Context, StorageContext, context_of, storage_context
from proofs.readers.sharing import Permissions, decide_permissions
from tmmu.core.vocabulary import FixedByte
from tmmu.plans import file
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import Plan

if TYPE_CHECKING:  # what is about a model, other ranks or streams is loaded for a plan that has them
    from proofs.sharding.stages import RankModel


@dataclass(frozen=True)
class Subject:
    """A plan with steps that passed the gate, with the model and the options that it is checked against.

    `model` is the graph that its rank must run, in `mode`, or None without a model. `donated` are the names of the
    caller's tensors that the user gave up, whatever the plan states of it. `arenas` is the configuration that the user
    gives, if any, `asked` where tensors must begin.
    """

    stated: StatedPlan
    model: RankModel | None = None
    donated: frozenset[str] = frozenset()
    mode: str = "inference"
    arenas: Configuration | None = None
    asked: Mapping[str, FixedByte] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The plan itself."""
        return self.stated.plan

    @cached_property
    def permissions(self) -> Permissions:
        """The sharing that counts. The reasons why a reader denied other sharing are kept for the witness (FP4.15)."""
        found = decide_permissions(self.plan, None if self.model is None else self.model.reference, self.donated)
        denied = {} if self.stated.reading is None else self.stated.reading.denied
        if denied:
            names = enumerate(self.plan.allocation.tensors.name.list())
            found.refused.update((row, denied[name]) for row, name in names if name in denied)
        return found

    @cached_property
    def fate(self) -> inputs.InputFate:
        """What becomes of the caller's inputs."""
        return inputs.find_overwritten_inputs(self.plan, self.permissions.views, self.donated)

    @cached_property
    def run(self) -> Program:
        """Return the program that the naive checker runs."""
        return build_program(self.plan, self.permissions, self.donated)

    @cached_property
    def context(self) -> Context:
        """What rows and kernel are drawn from."""
        return context_of(self.plan, self.permissions, self.donated)


@dataclass(frozen=True)
class BufferSubject:
    """The same of a plan that states lifetimes without accesses."""

    stated: StatedBuffers
    arenas: Configuration | None = None
    asked: Mapping[str, FixedByte] = field(default_factory=dict)

    @cached_property
    def run(self) -> PlacedStorages:
        """The storages in their arenas."""
        return place_storages(self.stated.plan.buffers, self.stated.plan.claims)

    @cached_property
    def context(self) -> StorageContext:
        """What rows and kernel are drawn from."""
        return storage_context(self.stated.plan)


def violations(subject: Subject) -> Iterator[Violation]:
    """Everything false that is found without a solver, coarse things first, lazily."""
    plan = subject.plan
    if subject.model is not None:
        from proofs.definition.model import compare
        from proofs.sharding.parts import part_differences

        yield from compare.differences(plan, subject.model.reference, subject.donated, subject.mode)
        yield from part_differences(plan, subject.model)
    if subject.arenas is not None:
        yield from configuration.differences(plan, subject.run, subject.arenas)
    yield from fixed.find_misplaced(plan, fixed.find_arenas(plan, subject.asked, subject.arenas), fixed.USER)
    if plan.provenance is not None:
        stated: dict[str, fixed.PlacedByte] = {name: (None, at) for name, at in plan.provenance.fixed.items()}
        yield from fixed.find_misplaced(plan, stated, fixed.PROVENANCE)
    yield from envelope.violations(plan)
    yield from execute.violations(subject.run)
    if plan.allocation.streams:
        from proofs.streams import races

        yield from races.find_races(plan.allocation, subject.run)
    yield from inputs.find_lost_inputs(plan, subject.fate)
    yield from structure.violations(plan, subject.run)
    yield from sharing.find_false_sharing(plan, subject.run)
    if plan.claims is not None:
        yield from claims.find_false_claims(plan.claims, subject.run)
        if plan.allocation.streams:
            from proofs.streams import slots

            yield from slots.find_false_slots(plan.allocation, plan.claims, subject.run)
    if plan.shards is not None:
        from proofs.sharding.parts import find_false_parts

        yield from find_false_parts(plan)
    yield from _false_hashes(subject.stated)


def buffer_violations(subject: BufferSubject) -> Iterator[Violation]:
    """The same of lifetimes without accesses."""
    plan, run = subject.stated.plan, subject.run
    if subject.arenas is not None:
        yield from configuration.differences(plan, run, subject.arenas)
    yield from fixed.find_misplaced(plan, fixed.find_arenas(plan, subject.asked, subject.arenas), fixed.USER)
    yield from execute.check_storages(run)
    yield from execute.check_live_overlaps(run)
    yield from structure.check_must_not_alias(run)
    if plan.claims is not None:
        yield from structure.check_claimed_slots_and_memories(plan.claims, run, addressed=False)
        yield from claims.find_false_claims(plan.claims, run)
    yield from structure.check_reuse(run)
    yield from _false_hashes(subject.stated)


def _false_hashes(stated: StatedPlan | StatedBuffers) -> Iterator[Violation]:
    for name, old, new in file.find_false_hashes(stated):
        yield false_field(Obligation.HASHES, name, old.hex(), new.hex())
