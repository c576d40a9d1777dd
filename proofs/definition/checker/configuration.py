"""Compare a plan's arenas, devices and rules with the configuration that the user gives.

Without a configuration, the plan's statements about its arenas are an assumption of the verdict. With one, each field
that the plan states must equal the file's. If the plan claims no roles, rules or memories, those of the file are
applied to its tensors. spec: V3.11
"""

from __future__ import annotations

from collections.abc import Iterator

from proofs.definition.checker import arenas
from proofs.definition.checker.program import PlacedStorages, Program
from proofs.definition.violations import Obligation, Violation, false_field
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.sections import ArenaUse, BufferPlan, ClaimedConfiguration, Plan

STATED = ("capacity", "alignment", "reuse")
"""The statements of an allocation about an arena, by their names in a configuration."""


def differences(plan: Plan | BufferPlan, run: PlacedStorages, given: Configuration) -> Iterator[Violation]:
    """Yield every field that differs from the user's configuration, and what does not fit that configuration.

    O(plan).
    """
    names = [arena.name for arena in plan.placement.arenas], [arena.name for arena in given.arenas]
    if names[0] != names[1]:
        yield _false("arenas", ", ".join(names[0]), ", ".join(names[1]))
        return
    claimed = None if plan.claims is None else plan.claims.configuration
    for a, (arena, configured) in enumerate(zip(plan.placement.arenas, given.arenas, strict=True)):
        stated = [(name, getattr(arena, name)) for name in STATED]
        stated += [] if claimed is None else claimed.uses[a]._asdict().items()
        for name, value in stated:
            asked = getattr(configured, name)
            if set(value) != set(asked) if name == "roles" else value != asked:
                yield _false(f"arenas[{arena.name}].{name}", _text(value), _text(asked))
    if claimed is None:
        uses = tuple(map(ArenaUse.of, given.arenas))
        yield from _unclaimed(plan, run, ClaimedConfiguration(uses, given.policy))
        return
    for name, ours, theirs in zip(given.policy._fields, claimed.policy, given.policy, strict=True):
        if ours != theirs:
            yield _false(name, repr(ours), repr(theirs))


def _unclaimed(
    plan: Plan | BufferPlan, run: PlacedStorages, configuration: ClaimedConfiguration
) -> Iterator[Violation]:
    """Check the plan as if it claimed this configuration."""
    yield from arenas.check_memory_capacity(configuration, run)
    if isinstance(plan, Plan) and isinstance(run, Program):
        yield from arenas.check_arena_assignment(plan, configuration, run)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _false(field: str, stated: str, recomputed: str) -> Violation:
    return false_field(Obligation.ARENAS_ARE_CONFIGURED, field, stated or "nothing", recomputed or "nothing")
