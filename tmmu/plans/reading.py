"""The provenance of a plan that was read from another producer's file: what the reading relies on.

A reader states here its extent, its assumptions, the parts of the file that are outside of the plan, and its
approximations; the verdict prints each on a separate line. spec: FP1.4, FP1.5
"""

from __future__ import annotations

from dataclasses import dataclass, field

LIFETIMES_STATED = "lifetimes as stated in the file"
ACCESSES_WORKED_OUT = "accesses and lifetimes worked out from the program in the file"


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
    """

    format: str
    extent: str
    assumptions: tuple[str, ...] = ()
    outside: dict[str, str] = field(default_factory=dict)
    approximations: tuple[str, ...] = ()
    donated: tuple[str, ...] = ()
