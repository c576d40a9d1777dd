"""What a plan that was read from another producer's file rests on: the provenance of the reading.

A reader states here how far it went, what it took on trust, what of the file lies outside of the plan, and what it
approximated; the verdict prints each on a line of its own. spec: FP1.4, FP1.5
"""

from __future__ import annotations

from dataclasses import dataclass, field

LIFETIMES_STATED = "lifetimes as stated in the file"
ACCESSES_WORKED_OUT = "accesses and lifetimes worked out from the program in the file"


@dataclass(frozen=True)
class Reading:
    """How a plan was read from a file of another producer.

    `format` is the name of the format for people. `extent` is how far the reading went: `LIFETIMES_STATED` or
    `ACCESSES_WORKED_OUT`. `assumptions` are sentences on what was taken on trust beyond operators, which the verdict
    lists by itself (an operator of a domain that is in no table is assumed to view or to work in place where the plan
    has it so). `outside` has for each thing of the file that is in no plan the reason. `approximations` are sentences
    on what is stricter in the plan than in the file (a region of concurrent steps that counts as one step), so that a
    refutation may be the reading's fault. `donated` are the names of callers' tensors that the file states to be given
    up; the verifier grants them as it does those of `--donate`.
    """

    format: str
    extent: str
    assumptions: tuple[str, ...] = ()
    outside: dict[str, str] = field(default_factory=dict)
    approximations: tuple[str, ...] = ()
    donated: tuple[str, ...] = ()
