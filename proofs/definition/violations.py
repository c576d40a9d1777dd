"""List the obligations of a verdict and how each is discharged, and record a violation of one.

The naive checker, the comparison with a model and the checks of sharding all report what is false in a plan as a
`Violation`. Every output format is made from it. `spec/soundness.md` has a row for each obligation.
spec: C1.4, C1.5, V4.4, V6.18
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Any, NamedTuple


class Discharge(Enum):
    """How an obligation is discharged."""

    BY_COMPARISON = auto()
    """Values are compared and steps are walked. No solver is asked."""
    BY_ROWS = auto()
    """Solvers evaluate its rows (`proofs.proving.obligations`)."""
    OF_STREAMS = auto()
    """Solvers evaluate its rows, if the steps of a plan are on streams."""
    OVER_ENVELOPE = auto()
    """Solvers are asked about each size, if a plan has an envelope."""
    OF_SHARDED = auto()
    """Parts are compared, if a plan has a shard spec."""
    OF_FIXED = auto()
    """Offsets are compared, if some are fixed."""
    OF_ALL_RANKS = auto()
    """The plans of all ranks are examined together."""
    OF_SET = auto()
    """The plans of a set are examined together."""


class Obligation(StrEnum):
    """A statement that must hold of a plan. The members have the order of a verdict's list."""

    discharge: Discharge

    def __new__(cls, name: str, discharge: Discharge) -> Obligation:
        """Make a member from its name in verdicts and how it is discharged."""
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
    INPUTS_KEPT = "inputs_kept", Discharge.BY_ROWS
    RACES = "races", Discharge.OF_STREAMS
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
    ONE_SET = "one_set", Discharge.OF_SET
    EVERY_PROGRAM = "every_program", Discharge.OF_SET
    SHARED_AT_ONE_PLACE = "shared_at_one_place", Discharge.OF_SET
    STATE_IS_UNTOUCHED = "state_is_untouched", Discharge.OF_SET
    STATE_IS_RETURNED = "state_is_returned", Discharge.OF_SET
    STATE_IS_WRITTEN_FIRST = "state_is_written_first", Discharge.OF_SET
    CONTENTS_OF_SHARED_WEIGHTS = "contents_of_shared_weights", Discharge.OF_SET
    EACH_PROGRAM = "each_program", Discharge.OF_SET

    @property
    def is_compared(self) -> bool:
        """Whether no solver is asked about it when one plan is verified."""
        return self.discharge in (Discharge.BY_COMPARISON, Discharge.OF_FIXED, Discharge.OF_SHARDED)


def obligations_discharged(*how: Discharge) -> tuple[Obligation, ...]:
    """Return the obligations that are discharged in one of these ways, in the order of a verdict."""
    return tuple(one for one in Obligation if one.discharge in how)


OF_STEPS = (
    Obligation.STEPS_ARE_THE_MODEL, Obligation.BODIES_NEST, Obligation.ROLES_HAVE_ARENAS,
    Obligation.TENSORS_WITHIN_STORAGES, Obligation.LIFETIMES_COVER_ACCESSES, Obligation.SHARING_IS_SOUND,
    Obligation.INPUTS_KEPT,
)  # fmt: skip
"""The obligations about steps and tensors. A plan that has only lifetimes does not have them."""


class Violation(NamedTuple):
    """Something false in a plan: the obligation that it violates, a sentence, and the place, in the plan's own names.

    `first_byte` and `last_byte` are of `arena`. `field` names a false statement, with the `stated` and the `recomputed`
    value. For a difference from the model, `node` is the model's node. Over an envelope, `shape` gives the dimensions
    that lead to these `sizes`. If all ranks are examined together, `ranks` are those that disagree, and `element` is
    the element of a tensor that they disagree about, if there is one. Of a plan set, `programs` are those that the
    violation is about, and `calls` a sequence of calls that shows it, if one does. `other_step` is the second step of a
    race.
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
    programs: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    other_step: int | None = None

    def witness(self) -> dict[str, Any]:
        """Return the violation in the fields of the JSON output (C1.5), with only the fields of its kind."""
        found: dict[str, Any] = {
            "obligation": self.obligation.value, "text": self.text, "tensors": list(self.tensors),
            "steps": [step for step in (self.step, self.other_step) if step is not None],
        }  # fmt: skip
        if self.obligation.discharge is Discharge.OF_ALL_RANKS:
            found["ranks"] = list(self.ranks)
        elif self.obligation.discharge is Discharge.OF_SET:
            found |= {"programs": list(self.programs), "calls": list(self.calls)}
            if self.first_byte is not None:
                found |= {"arena": self.arena, "first_byte": self.first_byte, "last_byte": self.last_byte}
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
    """Return the violation that a field of the plan states another value than is recomputed."""
    text = f"{field} is stated as {stated}; it is {recomputed}"
    return Violation(obligation, text, field=field, stated=stated, recomputed=recomputed)
