"""The provenance of a plan that was read from another producer's file: what the reading relies on.

A reader states here its extent, its assumptions, the parts of the file that are outside of the plan, and its
approximations; the verdict prints each on a separate line. spec: FP1.4, FP1.5, FP1.16
"""

from __future__ import annotations

from dataclasses import dataclass, field

LIFETIMES_STATED = "lifetimes as stated in the file"
ACCESSES_WORKED_OUT = "accesses and lifetimes worked out from the program in the file"


@dataclass(frozen=True)
class UndecidedConstruct:
    """A thing in a file that its reader cannot decide: the kind of construct, and a sentence with its place."""

    kind: str
    text: str


@dataclass(frozen=True)
class Reading:
    """How a plan was read from a file of another producer.

    `format` is the name of the format for people. `extent` is `LIFETIMES_STATED` or `ACCESSES_WORKED_OUT`.
    `assumptions` are sentences on what is assumed beyond operators; the verdict lists operators itself (an operator of
    a domain that is in no table is assumed to be a view or in place if the plan declares it so). `outside` maps each
    thing of the file that is in no plan to the reason. `approximations` are sentences on where the plan is stricter
    than the file (a region of concurrent steps that counts as one step), so that a refutation may be the reading's
    fault. `donated` are the names of callers' tensors that the file declares as donated; the verifier treats them as
    those of `--donate`.

    `denied` maps results that the file puts into an operand's bytes to the reason why the program does not permit that:
    the plan states no sharing for them, so that it is refuted. `exits` maps donated tensors to the results that the
    file declares to be returned in their bytes. `state` maps the tensors that the runtime keeps from one call to the
    next to whether they have a value before the first call. `undecided` lists the constructs that the verdict depends
    on and that the reader cannot decide: with any of it, no verdict is PROVED.
    """

    format: str
    extent: str
    assumptions: tuple[str, ...] = ()
    outside: dict[str, str] = field(default_factory=dict)
    approximations: tuple[str, ...] = ()
    donated: tuple[str, ...] = ()
    denied: dict[str, str] = field(default_factory=dict)
    undecided: tuple[UndecidedConstruct, ...] = ()
    exits: dict[str, str] = field(default_factory=dict)
    state: dict[str, bool] = field(default_factory=dict)
