"""The obligations that a verdict lists, how each is discharged, and the record of one that a plan violates.

Whatever finds something false in a plan (the naive checker, the comparison with a model, the account of sharding)
reports a `Violation`, and every output format is made from it. spec: C1.4, C1.5, V4.4
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Any, NamedTuple


class Discharge(Enum):
    """How an obligation is discharged."""

    BY_COMPARISON = auto()
    """Values are compared and steps walked; no solver is asked."""
    BY_ROWS = auto()
    """Solvers evaluate its rows (`proofs.proving.obligations`)."""
    OVER_ENVELOPE = auto()
    """Solvers are asked for each size, where a plan has an envelope."""
    OF_SHARDED = auto()
    """Parts are compared, where a plan has a shard spec."""
    OF_FIXED = auto()
    """Offsets are compared, where some must be what they are."""
    OF_ALL_RANKS = auto()
    """The plans of all ranks are looked at together."""


class Obligation(StrEnum):
    """What must hold of a plan, in the order in which a verdict lists it."""

    discharge: Discharge

    def __new__(cls, name: str, discharge: Discharge) -> Obligation:
        """A member by its name in verdicts, with how it is discharged."""
        member = str.__new__(cls, name)
        member._value_, member.discharge = name, discharge
        return member

    HASHES = "hashes", Discharge.BY_COMPARISON
    STEPS_ARE_THE_MODEL = "steps_are_the_model", Discharge.BY_COMPARISON
    ARENAS_ARE_CONFIGURED = "arenas_are_configured", Discharge.BY_COMPARISON
    OFFSETS_ARE_FIXED = "offsets_are_fixed", Discharge.OF_FIXED
    BODIES_NEST = "bodies_nest", Discharge.BY_COMPARISON
    ROLES_HAVE_ARENAS = "roles_have_arenas", Discharge.BY_COMPARISON
    NO_LIVE_OVERLAP = "no_live_overlap", Discharge.BY_ROWS
    ALIGNMENT = "alignment", Discharge.BY_ROWS
    CAPACITY = "capacity", Discharge.BY_ROWS
    TENSORS_WITHIN_STORAGES = "tensors_within_storages", Discharge.BY_ROWS
    LIFETIMES_COVER_ACCESSES = "lifetimes_cover_accesses", Discharge.BY_ROWS
    SHARING_IS_SOUND = "sharing_is_sound", Discharge.BY_ROWS
    MUST_NOT_ALIAS = "must_not_alias", Discharge.BY_ROWS
    SLOT_COUNT = "slot_count", Discharge.BY_ROWS
    PEAK = "peak", Discharge.BY_ROWS
    SIZES_OVER_ENVELOPE = "sizes_over_envelope", Discharge.OVER_ENVELOPE
    SHARDS = "shards", Discharge.OF_SHARDED
    ONE_SHARD_SPEC = "one_shard_spec", Discharge.OF_ALL_RANKS
    EVERY_RANK_ONCE = "every_rank_once", Discharge.OF_ALL_RANKS
    LAYOUTS_AGREE = "layouts_agree", Discharge.OF_ALL_RANKS
    SHARDS_COVER = "shards_cover", Discharge.OF_ALL_RANKS
    RANKS_MEET = "ranks_meet", Discharge.OF_ALL_RANKS
    EACH_PLAN = "each_plan", Discharge.OF_ALL_RANKS

    @property
    def is_compared(self) -> bool:
        """Whether no solver is asked about it, of one plan."""
        return self.discharge in (Discharge.BY_COMPARISON, Discharge.OF_FIXED, Discharge.OF_SHARDED)


def discharged(*how: Discharge) -> tuple[Obligation, ...]:
    """The obligations that are discharged in one of these ways."""
    return tuple(one for one in Obligation if one.discharge in how)


OF_STEPS = (
    Obligation.STEPS_ARE_THE_MODEL, Obligation.BODIES_NEST, Obligation.ROLES_HAVE_ARENAS,
    Obligation.TENSORS_WITHIN_STORAGES, Obligation.LIFETIMES_COVER_ACCESSES, Obligation.SHARING_IS_SOUND,
)  # fmt: skip
"""Those about steps and tensors, which a plan of lifetimes alone does not have."""


class Violation(NamedTuple):
    """Something false in a plan: the obligation that it violates, a sentence, and where, in the plan's own names.

    `first_byte` and `last_byte` are of `arena`. `field` is what is stated falsely, with what is `stated` and what was
    `recomputed`; of a difference from the model, `node` is the model's. Over an envelope `shape` gives the dimensions
    at which the `sizes` are found; of all ranks together, `ranks` disagree, about an `element` if there is one.
    """

    obligation: Obligation
    text: str
    tensors: tuple[str, ...] = ()
    step: int | None = None
    arena: str = ""
    first_byte: int | None = None
    last_byte: int | None = None
    field: str = ""
    stated: str = ""
    recomputed: str = ""
    node: str = ""
    shape: dict[str, int] | None = None
    sizes: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    element: tuple[int, ...] | None = None

    def witness(self) -> dict[str, Any]:
        """The same in the fields of the JSON output (C1.5); those of its kind alone."""
        found: dict[str, Any] = {
            "obligation": self.obligation.value, "text": self.text, "tensors": list(self.tensors),
            "steps": [] if self.step is None else [self.step],
        }  # fmt: skip
        if self.obligation.discharge is Discharge.OF_ALL_RANKS:
            found["ranks"] = list(self.ranks)
        elif self.shape is not None:
            found |= {"shape": self.shape, "sizes": list(self.sizes)}
        elif not self.field:
            found |= {"arena": self.arena, "first_byte": self.first_byte, "last_byte": self.last_byte}
        if self.element is not None:
            found["element"] = list(self.element)
        if self.field:
            found |= {"node": self.node, "field": self.field, "stated": self.stated, "recomputed": self.recomputed}
        return found


def false_field(obligation: Obligation, field: str, stated: str, recomputed: str) -> Violation:
    """A field of the plan that states what does not hold."""
    text = f"{field} is stated as {stated}; it is {recomputed}"
    return Violation(obligation, text, field=field, stated=stated, recomputed=recomputed)
