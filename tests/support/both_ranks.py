"""What ranks run and hold, worked out by the planner and by the verifier, which share no code: it must be the same."""

from __future__ import annotations

from typing import Any

from proofs.readers.models.ir import read_ir
from proofs.readers.operators import plain
from proofs.sharding.mesh import Mesh
from proofs.sharding.stages import RankModel, derive_rank_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Phase, Role
from tmmu.ir.validate import validate_model
from tmmu.planner.sharding import Local, build_local_models


def agreed(model: Model, spec: dict[str, Any]) -> list[Local]:
    """The planner's model of each stage, of which the verifier says the same; where one of them refuses, both do."""
    try:
        locals_ = build_local_models(model, spec)
    except TmmuError:
        assert verifiers_refusal(model, spec) is not None, "the verifier takes a shard spec that the planner refuses"
        raise
    if spec:
        refusal = verifiers_refusal(model, spec)
        assert refusal is None, f"the verifier refuses a shard spec that the planner takes: {refusal}"
        for stage, local in enumerate(locals_):
            validate_model(local.model)
            _same(local, derive_rank_model(read_ir(model), spec, _first_rank(spec, stage)))
    return locals_


def verifiers_refusal(model: Model, spec: dict[str, Any]) -> TmmuError | None:
    """What the verifier refuses a shard spec with, for the ranks of some stage; None where it takes it."""
    for stage in range(Mesh(spec).size.get(spec["pipeline_axis"], 1)):
        try:
            derive_rank_model(read_ir(model), spec, _first_rank(spec, stage))
        except TmmuError as error:
            return error
    return None


def _first_rank(spec: dict[str, Any], stage: int) -> int:
    return stage * Mesh(spec).stride[spec["pipeline_axis"]] if spec["pipeline_axis"] else 0


def _same(local: Local, rank_model: RankModel) -> None:
    tensors, expected = local.model.tensors, rank_model.reference

    def names(rows: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(tensors[t].name for t in rows)

    nodes = local.model.nodes
    scratch = {n.name: tuple(f"{n.name}.scratch{k}" for k in range(len(n.scratch))) for n in nodes}
    assert [tuple(step) for step in expected.steps] == [
        (n.name, plain(n.domain), n.op, "whole", "", names(n.reads) + scratch[n.name],
         names(n.writes) + scratch[n.name], names(n.mutates))
        for n in nodes
    ]  # fmt: skip
    assert (expected.inputs, expected.outputs) == (names(local.model.inputs), names(local.model.outputs))
    assert expected.roles == {t.name: t.role for t in tensors} | {
        name: Role.SCRATCH for of in scratch.values() for name in of
    }
    assert expected.sizes.keys() == expected.roles.keys()
    assert [(expected.sizes[t.name], expected.shapes[t.name], expected.alignments[t.name]) for t in tensors] == [
        ((t.bytes, t.dtype), t.shape, t.alignment) for t in tensors
    ]
    assert expected.saved == {t.name for t in tensors if t.saved_for_backward}
    assert expected.views == {
        t.name: (tensors[t.view.base].name, t.view.offset) for t in tensors if t.view is not None
    }  # fmt: skip
    assert expected.must_not_alias == {frozenset(names(pair)) for pair in local.model.must_not_alias}
    phases = {n.name: n.phase for n in nodes if n.phase is not Phase.FORWARD}
    assert {name: phase for name, phase in expected.phases.items() if name in scratch} == phases
    hints = {(tensors[a].name, tensors[b].name) for n in nodes for a, b in n.in_place}
    touched = {(to, source) for step in expected.steps for to in step.writes for source in step.reads}
    assert expected.in_place & touched == hints
    assert rank_model.held == {tensors[row].name: (shape, split) for row, shape, split in local.parts}
