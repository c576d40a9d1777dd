"""What the naive side says of a plan, as far as the kernel looks at it.

The kernel does not look at roles, devices' memories, arenas that hold nothing, bodies' brackets, hashes, models and
claims. spec: V6.1
"""

from __future__ import annotations

from proofs.definition.checker import execute as checker
from proofs.definition.checker import structure
from proofs.definition.checker.program import build_program
from proofs.proving.kernel.program import KernelAnswer
from proofs.readers.sharing import Permissions
from tmmu.plans.sections import Plan

OUT_OF_SCOPE = ("bodies_nest", "roles_have_arenas")
NOT_ASKED = (
    "or declare it an input", "which no step writes by the plan", "of the memory",
    "the arena gradients has the alignment", "requires a base of",
)  # fmt: skip
EITHER_IS_RIGHT = ("one slot at two offsets", "is not aligned as its slot", "which the caller writes, but")


def accepted(answer: KernelAnswer) -> bool:
    """Whether the plan is accepted, with the slots and footprints that it claims."""
    return answer.accepted and answer.slots is not False and answer.footprints is not False


def find_objections(plan: Plan, permissions: Permissions, donated: frozenset[str] = frozenset()) -> list[str] | None:
    """Return what the naive side says that the kernel looks at; None if either answer of the kernel is right.

    Where bodies do not nest, loops are not what they seem; that storages of one slot begin at one byte is a rule of
    a layout, not a matter of safety; and of a role the kernel decides only if the caller reads the tensor and may
    change it, not that no step may write it.
    """
    run = build_program(plan, permissions, donated)
    found = [p for part in (checker.violations(run), structure.violations(plan, run)) for p in part]
    if any(p.obligation == "bodies_nest" or any(map(p.text.count, EITHER_IS_RIGHT)) for p in found):
        return None
    return [p.text for p in found if p.obligation not in OUT_OF_SCOPE and not any(map(p.text.count, NOT_ASKED))]
