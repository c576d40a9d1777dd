"""Add the workspaces that the user states to the steps of a model, as scratch. spec: M4.1, V3.14"""

from __future__ import annotations

from dataclasses import replace

from proofs.readers.models.reference import ReferenceProgram, ReferenceStep
from proofs.readers.operators import plain, qualify_name
from tmmu.core.vocabulary import NodePart, Role
from tmmu.plans.workspace_file import Workspace


def add_workspace(reference: ReferenceProgram, stated: Workspace) -> ReferenceProgram:
    """Return a program whose steps also write and read the scratch `<node>.scratch0` that they need.

    Nodes with bodies have none. Raises INVALID_BINDING for a node or an operator that no other step has. O(steps).
    """
    whole = [step for step in reference.steps if step.part is NodePart.WHOLE]
    stated.check_names((step.node, _named(step)) for step in whole)
    found = replace(
        reference, steps=[], sizes=dict(reference.sizes), shapes=dict(reference.shapes), roles=dict(reference.roles),
        alignments=dict(reference.alignments),
    )  # fmt: skip
    for step in reference.steps:
        need = stated.needed_by(step.node, _named(step)) if step.part is NodePart.WHOLE else None
        if need is not None:
            name = f"{step.node}.scratch0"
            found.sizes[name], found.shapes[name] = (need.bytes, "uint8"), (need.bytes,)
            found.roles[name], found.alignments[name] = Role.SCRATCH, need.alignment
            step = step._replace(reads=(*step.reads, name), writes=(*step.writes, name))
        found.steps.append(step)
    return found


def _named(step: ReferenceStep) -> str:
    return qualify_name(plain(step.domain), step.op)
