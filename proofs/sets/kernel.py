"""Ask the kernel about a set: what it keeps between calls, as the rows of each program's tensors.

spec: PS1.4, PS1.5, PS1.6, PS1.7, PS1.8, V6.24
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proofs.proving.kernel.sets import Ends, JudgedProgram, KeptTensor, judge_set
from proofs.sets.members import SetMember
from proofs.sets.state import StateTensor


def ask_kernel(
    members: Sequence[SetMember], state: Sequence[StateTensor], programs: Sequence[JudgedProgram], timeout_s: float
) -> dict[str, Any]:
    """Return the kernel's answer about a set: `programs` are what it reads of `members`, in their order."""
    return judge_set(programs, kept_tensors(members, state), timeout_s)


def kept_tensors(members: Sequence[SetMember], state: Sequence[StateTensor]) -> list[KeptTensor]:
    """Return the state with the rows of its entries and exits, by the position of the program. O(uses)."""
    position = {member.name: k for k, member in enumerate(members)}

    def ends(one: StateTensor) -> dict[int, Ends]:
        rows = {program: members[position[program]].rows for program in one.uses}
        return {
            position[program]: Ends(*(None if name is None else rows[program][name] for name in use))
            for program, use in one.uses.items()
        }

    return [KeptTensor(one.arena, one.address, one.bytes, one.is_initial, ends(one)) for one in state]
