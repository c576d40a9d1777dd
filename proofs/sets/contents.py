"""Compare the values that the model files of a set store of tensors that are shared: one memory holds one value.

Without the files nothing shows them: a plan states places, and a set is safe for any values. spec: PS1.12, PS4.10
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from proofs.definition.violations import Obligation, Violation
from proofs.sets.members import SetMember
from tmmu.core.output import list_names
from tmmu.plans.sets import Agreement, SharedUse

NO_MODEL = "no model is given"
LISTED = 4
"""The most names in a reason."""
FIX = "give both files one value, or do not share it"

End = tuple[str, str]
"""A program, and a tensor of it."""


class DifferentValues(NamedTuple):
    """Two values that files store of one shared tensor: the tensors, and a sentence with the digests."""

    shared: str
    ends: tuple[End, End]
    what: str

    def violation(self) -> Violation:
        """Return the difference as what is false in a set."""
        names, text = tuple(dict.fromkeys(name for _, name in self.ends)), f"{self.shared}: {self.what}; {FIX}"
        programs = tuple(program for program, _ in self.ends)
        return Violation(Obligation.CONTENTS_OF_SHARED_WEIGHTS, text, names, programs=programs)


class ComparedContents(NamedTuple):
    """What comparing the values of shared tensors found: the differing ones, how many agree, and why one is unknown."""

    differing: list[DifferentValues]
    agreeing: int = 0
    unknown: str = ""


def compare_contents(
    members: Sequence[SetMember], agreement: Agreement, models: Mapping[str, str | None]
) -> ComparedContents:
    """Compare the values that several programs' files store of one shared tensor.

    `models` has the model file of each program, or None. Of parameters and optimizer state the file gives the first
    value; others are the caller's. Raises OSError if a model cannot be read. O(bytes of the models).
    """
    by_name = {member.name: member for member in members}
    groups = {one.name: _stored_ends(by_name, one.uses) for one in agreement.shared}
    groups = {name: ends for name, ends in groups.items() if len(ends) > 1}
    asked: dict[str, set[str]] = {member.name: set() for member in members}
    for program, entry in (end for ends in groups.values() for end in ends):
        asked[program].add(entry)
    known: dict[End, bytes] = {}
    for program, names in asked.items():
        path, runtime = models.get(program), by_name[program].plan.bindings.runtime
        if path is not None and runtime is None:  # a runtime stores other values in its graph
            from proofs.readers.models.contents import digest_contents  # which plans without a model do not need

            known |= {(program, name): digest for name, digest in digest_contents(path, names).items()}
    differing, agreeing, unknown = list[DifferentValues](), 0, list[End]()
    for name, ends in groups.items():
        stored = [end for end in ends if end in known]
        unknown += [end for end in ends if end not in known]
        agreeing += stored == ends
        other = next((end for end in stored if known[end] != known[stored[0]]), None)
        if other is not None:
            differing.append(_difference(name, (stored[0], other), known))
    return ComparedContents(differing, agreeing, _why_unknown(unknown, models))


def _stored_ends(by_name: Mapping[str, SetMember], uses: Mapping[str, SharedUse]) -> list[End]:
    """Return the entries of a shared tensor whose first value is in a model's file."""
    entries = [(program, use.entry) for program, use in uses.items() if use.entry is not None]
    return [(program, name) for program, name in entries if by_name[program].is_persistent(by_name[program].rows[name])]


def _difference(name: str, ends: tuple[End, End], known: Mapping[End, bytes]) -> DifferentValues:
    names, digests = (" and ".join(each) for each in (map(":".join, ends), (known[end].hex() for end in ends)))
    return DifferentValues(name, ends, f"{names} have different values in their files (SHA-256 {digests})")


def _why_unknown(unknown: Sequence[End], models: Mapping[str, str | None]) -> str:
    """Return why values were not compared, or nothing if all were."""
    if absent := list(dict.fromkeys(program for program, _ in unknown if models.get(program) is None)):
        return f"no model of {list_names(absent, LISTED)} is given" if any(models.values()) else NO_MODEL
    names = [f"{program}:{name}" for program, name in unknown]
    return f"the models do not store the only values of {list_names(names, LISTED)}" if names else ""
