"""An execution of a plan: its arenas in memory, batch after batch, each sealed by a commit.

A storage of a reused arena contains zeros when it is born (`births`). spec: U2.8 to U2.12, U4.11
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Role
from tmmu.plans.columns import ROLES
from tmmu.plans.sections import Plan
from tmmu.runtime.backing import Bytes
from tmmu.runtime.births import Births
from tmmu.runtime.handles import TensorMap
from tmmu.runtime.journal import Journal, JournalState
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records.ledger import Ledger, of_steps

APPLY, COMMIT = "UML_OS.TMMU.ApplyPlan_v1", "UML_OS.TMMU.CommitExecution_v1"


def violation(what: str, fix: str, operator: str = COMMIT) -> TmmuError:
    """Make the error CONTRACT_VIOLATION for a wrong call of an operator."""
    return TmmuError("CONTRACT_VIOLATION", what, fix=fix, operator=operator, failure_operator=operator)


class Execution:
    """An applied plan, made by `apply_plan`.

    For each batch call `begin`, `step` for each step, then `commit_execution`.

    Attributes
    ----------
    memory
        The arenas; their views may be written within a batch.
    tensor_map
        The handle of each tensor by name.
    state
        The state that was sealed last.
    origin
        The content of reused arenas when they were made: "zeroed", "filled with a pattern" or "restored".
    visible
        The number of batches whose writes downstream consumers may see, by arena.
    allocation_time_ns
        The duration of applying the plan; it varies, and no hash covers it.
    """

    def __init__(
        self,
        plan: Plan,
        memory: MappedMemory,
        *,
        plan_hash: bytes,
        execution_mode: str,
        state: JournalState,
        debug_seed: int | None,
        records: RunRecords,
        journal: Journal | None,
    ) -> None:
        self.plan, self.memory, self.plan_hash, self.execution_mode = plan, memory, plan_hash, execution_mode
        self.tensor_map = TensorMap(plan)
        self.state, self.debug_seed, self.journal = state, debug_seed, journal
        self.ledger, self.trace, self.events = records.ledger or Ledger(), records.trace, records.events
        self.hash_contents = records.hash_contents
        self.visible = {arena.name: state.batches for arena in plan.allocation.arenas}
        self.pending: dict[str, list[Callable[[], object]]] = {arena.name: [] for arena in plan.allocation.arenas}
        self.is_open, self._is_closed = True, False
        self.origin = "zeroed" if debug_seed is None else "filled with a pattern"
        self.births = Births(plan, memory, debug_seed, execution_mode)
        self.values: list[dict[str, Any]] = []
        self._applied_at = -1
        self.allocation_time_ns = 0

    @cached_property
    def _counters(self) -> list[dict[str, Any]]:
        """The ledger's counters of each step, made when the first step begins."""
        return list(of_steps(self.plan, self.bytes_allocated))

    @property
    def bytes_allocated(self) -> int:
        """The bytes of real memory that the arenas take."""
        return self.memory.bytes_allocated

    def begin(self) -> int:
        """Begin a batch and return its number: storages born at step 0 are zeroed, and the caller may write its inputs.

        Raises CONTRACT_VIOLATION if the last batch was not committed.
        """
        if self.is_open:
            raise violation("a batch cannot begin while another is open", "commit that one first")
        self.is_open = True
        if self.events is not None:
            self.events("begun", t=self.state.batches)
        self.births.begin(is_fresh=self.state.batches <= self._applied_at)
        self._log_births()
        return self.state.batches

    def step(self, step: int) -> None:
        """Begin a step: storages born at it are zeroed, and the ledger counts it.

        A step in the body of a loop may begin again and again. Raises CONTRACT_VIOLATION outside of a batch and for a
        step that the plan does not have.
        """
        if not self.is_open:
            raise violation(f"step {step} cannot begin outside of a batch", "begin a batch first")
        if not 0 <= step < len(self.plan.allocation.steps):
            raise violation(f"there is no step {step}", f"the plan has {len(self.plan.allocation.steps)} steps")
        if self.events is not None:
            self.events("step", step=step)
        self.births.step(step)
        self._log_births()
        self.ledger.stepped(self.state.batches, self._counters[step])

    def record_value(self, name: str, access: str, content: Bytes) -> None:
        """Let the commit of the open batch cover the bytes of a tensor, "given" by the caller or "returned" to it.

        Raises CONTRACT_VIOLATION outside of a batch. O(bytes).
        """
        if not self.is_open:
            raise violation(f"a value of {name!r} cannot be recorded outside of a batch", "begin a batch first")
        digest = hashlib.sha256(np.ascontiguousarray(content).data).digest()
        self.values.append(
            {"kind": "value", "t": self.state.batches, "tensor_id": name, "access": access, "content": digest}
        )

    def scratch(self, step: int) -> list[Bytes]:
        """Return the scratch that a step has declared: the only memory, except its tensors, that it may use."""
        role = ROLES.index(Role.SCRATCH)
        writes = self.plan.allocation.steps.writes[
            self.plan.allocation.steps.writes_at[step] : self.plan.allocation.steps.writes_at[step + 1]
        ]
        return [
            self.memory.tensor(row) for row in writes.tolist() if int(self.plan.allocation.tensors.role[row]) == role
        ]

    def enqueue(self, arena: str, operation: Callable[[], object]) -> None:
        """Add an operation on an arena to the next commit, which runs it at the barrier of the arena.

        Raises CONTRACT_VIOLATION outside of a batch, INVALID_ADDRESS for an unknown arena.
        """
        self.memory.arena(arena)
        if not self.is_open:
            raise violation("an operation cannot be enqueued outside of a batch", "begin a batch first")
        self.pending[arena].append(operation)

    def view_published(self, name: str) -> Bytes:
        """Return a read-only view of the bytes of a tensor after the last commit.

        Raises CONTRACT_VIOLATION while a batch is open, because its writes are not visible yet, and INVALID_ADDRESS for
        a tensor that the plan does not have.
        """
        if self.is_open:
            raise violation(f"{name!r} cannot be read while a batch is open", "commit the batch first")
        if name not in self.tensor_map:
            raise TmmuError(
                "INVALID_ADDRESS",
                f"the plan has no tensor {name!r}",
                fix="see `tmmu show --tensors`",
                operator=COMMIT,
                arena="",
                offset=0,
            )
        view = self.memory.tensor(self.tensor_map.row(name))
        view.flags.writeable = False
        return view

    def close(self) -> None:
        """Close the memory and the journal; a second call does nothing."""
        if self.events is not None and not self._is_closed:
            self.events("closed")
        self._is_closed = True
        self.memory.close()
        if self.journal is not None:
            self.journal.close()

    def __enter__(self) -> Execution:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def applied(self, *, is_fresh: bool) -> None:
        """Record that ApplyPlan has committed; if `is_fresh`, the next batch finds the reused arenas zero."""
        self.origin = self.origin if is_fresh else "restored"
        self._applied_at = self.state.batches if is_fresh else -1

    def _log_births(self) -> None:
        """Log each storage that was born, whether it was zeroed, and whether its bytes are zero."""
        if self.events is None:
            return
        s = self.plan.allocation.storages
        for k in self.births.born:
            found = self.memory.arenas[int(s.arena[k])].look(int(s.offset[k]), int(s.bytes[k]))
            zeroed = self.debug_seed is None and k in self.births.overwritten
            self.events("born", storage=k, zeroed=zeroed, is_zero=not found.any())
