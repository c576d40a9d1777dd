"""What solvers and kernel judge of a plan, and its digest: of plans with equal digests it is proved once.

The proof is of a plan that has only the contents that the digest covers. So nothing else, be it the rank, what
the rank holds, or the model, can be part of it. spec: V7.3
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from proofs.proving.obligations.context import Context, StorageContext, context_of, storage_context
from proofs.readers.sharing import Permissions
from proofs.verify.checks import BufferSubject, Subject
from tmmu.core import canonical
from tmmu.core.vocabulary import Bindings
from tmmu.plans import file
from tmmu.plans.sections import BufferPlan, Plan, Provenance


@dataclass(frozen=True)
class PlanWords:
    """Allocation, claims and envelope; the layout, as it says whether addresses are those of slots; the sharing that
    counts; and the donated inputs. For a plan with lifetimes only, its storages and claims.
    """

    plan: Plan | BufferPlan
    layout: str = ""
    permissions: Permissions = field(default_factory=Permissions)
    donated: frozenset[str] = frozenset()

    @classmethod
    def of(cls, subject: Subject | BufferSubject) -> PlanWords:
        """Those of a subject. O(permissions)."""
        plan = subject.stated.plan
        if isinstance(plan, BufferPlan):
            return cls(plan)
        assert isinstance(subject, Subject)
        return cls(
            Plan(plan.allocation, plan.claims, envelope=plan.envelope),
            "" if plan.provenance is None else plan.provenance.layout,
            Permissions(subject.permissions.views, subject.permissions.in_place),
            subject.donated,
        )

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of all of it. O(plan)."""
        views = [[row, *shown] for row, shown in sorted(self.permissions.views.items())]
        in_place = [list(pair) for pair in sorted(self.permissions.in_place.items())]
        whole = file.compute_hashes(self.plan)["file_digest"]
        return canonical.digest([whole, self.layout, views, in_place, sorted(self.donated)])

    def context(self) -> Context | StorageContext:
        """What rows and kernel are drawn from. O(plan × depth of bodies)."""
        if isinstance(self.plan, BufferPlan):
            return storage_context(self.plan)
        origin = Provenance("", "", self.layout, "", b"", b"", None, Bindings()) if self.layout else None
        plan = Plan(self.plan.allocation, self.plan.claims, origin, None, self.plan.envelope)
        return context_of(plan, self.permissions, self.donated)
