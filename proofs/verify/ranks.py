"""All plans of one sharded model together: one verdict on whether the ranks fit.

Each plan has a separate verdict; this one states that the plans are of one spec and of every rank, that ranks which
must agree have one layout, that each element of each tensor is in exactly one place, and that the ranks meet. A
contradiction is REFUTED with the ranks that show it; a rank that is missing, or whose plan is not proved, is UNKNOWN.
spec: R7.24 to R7.29
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from proofs.definition.violations import Discharge, Obligation, Violation, obligations_discharged
from proofs.proving.lemmas.plan.cover import DEFINITIONS
from proofs.proving.solvers.kept import command_of
from proofs.proving.solvers.process import SolverProcess
from proofs.readers.donation import unmatched_patterns
from proofs.sharding import cover
from proofs.sharding.exchange import Communication, communications, find_deadlock
from proofs.sharding.mesh import Mesh
from proofs.sharding.parts import Dimension, stated_parts
from proofs.verify.options import Options, Solving
from proofs.verify.verdict import EXITS, PROVED, UNKNOWN, Verdict, refute
from tmmu.core.bindings import bindings_object
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import BufferPlan

OBLIGATIONS = obligations_discharged(Discharge.OF_ALL_RANKS)
"""The obligations that the verdict on all ranks lists."""


@dataclass(frozen=True)
class Member:
    """A plan of one rank: the rank, its parts, the ranks that it exchanges with, and the verdict."""

    path: str
    model: str
    rank: int
    spec: dict[str, Any]
    spec_hash: bytes
    layout_digest: bytes
    family: tuple[Any, ...]
    parts: dict[str, tuple[Dimension, ...]]
    meetings: list[Communication]
    verdict: Verdict


def member(verdict: Verdict, stated: StatedPlan | StatedBuffers) -> Member | None:
    """Return the facts on a plan that the other ranks need, or None for one without a shard spec."""
    plan = stated.plan
    if isinstance(plan, BufferPlan) or plan.provenance is None or not plan.provenance.shard_spec:
        return None
    bound = bindings_object(replace(plan.bindings, donated=()))
    family = (plan.origin.source_digest, plan.origin.mode, repr(sorted(bound.items())))
    return Member(
        verdict.file, plan.origin.model, plan.origin.rank, plan.origin.shard_spec, stated.hashes["shard_spec_hash"],
        stated.hashes["layout_digest"],
        family, stated_parts(plan), communications(plan), verdict,
    )  # fmt: skip


def misspelt(members: Sequence[Member], patterns: Iterable[str]) -> list[str]:
    """Return donated names that are in none of these plans; without plans none is returned. spec: C1.6"""
    return unmatched_patterns(patterns, _donated(members)) if members else []


def _donated(members: Iterable[Member]) -> set[str]:
    """Return the donated names that the plans have."""
    return {name for one in members for name in one.verdict.assumptions["donated"]}


def verdicts(members: Sequence[Member], options: Options) -> Iterator[Verdict]:
    """Yield a verdict for each family if several plans are given, or if every rank is required.

    A family is the plans of one model file, by its digest, in one mode under the same bindings. The name of the model
    is free text, and no part of it.
    """
    families: dict[tuple[Any, ...], list[Member]] = {}
    for one in members:
        families.setdefault(one.family, []).append(one)
    if len(members) > 1 or "ranks" in options.require:
        for family in families.values():
            yield _together(family, options.solving)


def _together(family: Sequence[Member], solving: Solving) -> Verdict:
    first = family[0]
    world = Mesh(first.spec).ranks
    verdict = Verdict(
        f"ranks of {first.model}", UNKNOWN, EXITS[UNKNOWN], first.verdict.scope, model=first.verdict.model,
        assumptions={
            **first.verdict.assumptions, "rank": None, "files": [one.path for one in family],
            "donated": sorted(_donated(family)),
        },
    )  # fmt: skip
    found = next(_contradictions(family), None)
    if found is not None:
        refute(verdict, [found], OBLIGATIONS)
        return verdict
    given = {one.rank for one in family}
    missing = _few((rank for rank in range(world) if rank not in given), world - len(given))
    unproved = [one for one in family if one.verdict.verdict != PROVED]
    reason = None
    if not missing:
        reason = _uncovered(family, solving)
    because = {
        Obligation.EVERY_RANK_ONCE: f"no plan of rank {missing} of {world}" if missing else "",
        Obligation.SHARDS_COVER: "ranks are missing" if missing else reason or "",
        Obligation.RANKS_MEET: "ranks are missing" if missing else "",
        Obligation.EACH_PLAN: f"{unproved[0].path} is {unproved[0].verdict.verdict}" if unproved else "",
    }
    verdict.obligations = [
        {"name": name, "verdict": UNKNOWN if because.get(name) else PROVED, "detail": because.get(name, "")}
        for name in OBLIGATIONS
    ]
    verdict.notes = [f"{name}: {text}" for name, text in because.items() if text]
    if not verdict.notes:
        verdict.verdict, verdict.exit = PROVED, EXITS[PROVED]
    return verdict


def _uncovered(family: Sequence[Member], solving: Solving) -> str | None:
    """Why not every solver that is asked proves that each element is held once, or None. spec: R7.25, V4.10"""
    by_rank = {one.rank: one.parts for one in family}
    for name in solving.solvers:
        with SolverProcess(DEFINITIONS, command_of(name)) as solver:
            reason = cover.prove_cover(Mesh(family[0].spec), by_rank, solver, solving.timeout)
        if reason is not None:
            return f"{name}: {reason}"
    return None


def _few(ranks: Iterable[int], count: int) -> str:
    """The first of some ranks, which may be billions."""
    shown = ", ".join(map(str, islice(ranks, 8)))
    return shown if count <= 8 else f"{shown} and {count - 8} more"


def _contradictions(family: Sequence[Member]) -> Iterator[Violation]:
    """What cannot be true of plans of one family, the coarsest first."""
    first, mesh = family[0], Mesh(family[0].spec)
    for one in family:
        if one.spec_hash != first.spec_hash or one.spec != first.spec:
            yield Violation(
                Obligation.ONE_SHARD_SPEC, f"{one.path} and {first.path} are of different shard specs",
                ranks=(first.rank, one.rank), field="shard_spec_hash", stated=one.spec_hash.hex(),
                recomputed=first.spec_hash.hex(),
            )  # fmt: skip
            return  # of two meshes nothing else can be said
    seen: dict[int, Member] = {}
    for one in family:
        other = seen.setdefault(one.rank, one)
        if other is not one:
            text = f"{other.path} and {one.path} are both plans of rank {one.rank}"
            yield Violation(Obligation.EVERY_RANK_ONCE, text, ranks=(one.rank,))
            return
    axis = first.spec["pipeline_axis"]
    by_stage: dict[int, Member] = {}
    for one in sorted(family, key=lambda member: member.rank):
        peer = by_stage.setdefault(mesh.at(one.rank, axis) if axis else 0, one)
        if one.layout_digest != peer.layout_digest:
            text = f"ranks {peer.rank} and {one.rank} are of one stage and have different layouts"
            yield Violation(
                Obligation.LAYOUTS_AGREE, text,
                ranks=(peer.rank, one.rank), field="layout_digest", stated=one.layout_digest.hex(),
                recomputed=peer.layout_digest.hex(),
            )  # fmt: skip
    if len(seen) < mesh.ranks:
        return
    yield from cover.find_holes(mesh, {one.rank: one.parts for one in family}, axis)
    waiting = find_deadlock({one.rank: one.meetings for one in family})
    if waiting is not None:
        yield waiting
