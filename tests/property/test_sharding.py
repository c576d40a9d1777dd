"""Sharded models compute what one machine computes, and their plans are proved by a verifier that knows no planner.

spec: R7.5 to R7.29
"""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proofs.sharding.loops import loops
from proofs.sharding.mesh import Mesh as CheckersMesh
from proofs.verify import ranks
from proofs.verify.judge import judge, open_plan
from proofs.verify.options import Options
from proofs.verify.verdict import PROVED
from tests.support.both_ranks import agreed
from tests.support.effort import share
from tests.support.loop_notation import of_planner, of_verifier
from tests.support.mesh_run import Machine, Mesh, alone, part_of
from tests.support.meshes import Example, examples, specs, trained
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Model, Role
from tmmu.ir import files
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.modes import prepare_graph
from tmmu.planner.patterns import match_pattern
from tmmu.planner.sharding import Local, build_local_models, build_shards
from tmmu.planner.sharding.local import coordinates
from tmmu.planner.sharding.relations import relation
from tmmu.plans import file, sharding
from tmmu.plans.sections import amend_plan


def sharded(model: Model, spec: dict[str, Any]) -> list[Local]:
    """The models of all stages; a spec that does not divide is not what is asked about here."""
    try:
        return build_local_models(model, spec)
    except TmmuError as error:
        assume(error.code_id != "INVALID_SHARDING")
        raise


def stage_of(rank: int, spec: dict[str, Any]) -> int:
    return coordinates(rank, spec).get(spec["pipeline_axis"], 0)


def run_everywhere(example: Example, spec: dict[str, Any]) -> None:
    """Every rank ends with its part of every tensor that it holds, to the last of what one machine computes."""
    model, locals_ = example.model, sharded(example.model, spec)
    chance = np.random.default_rng(3)
    given_values = {
        tensor.name: np.floor(chance.uniform(0, 6, tensor.shape))
        if tensor.name.startswith("i")
        else chance.uniform(0.5, 1.0, tensor.shape)
        for t, tensor in enumerate(model.tensors)
        if tensor.role in (Role.PARAMETER, Role.OPTIMIZER) or t in model.inputs
    }
    right = alone(model, given_values, example.attributes)
    world = sharding.count_ranks(spec)
    machines, tables = [], []
    for rank in range(world):
        local = locals_[stage_of(rank, spec)]
        machine, table = Machine(local.model, model, example.attributes), build_shards(local, spec, rank)
        for k, row in enumerate(table.tensor.tolist()):
            name = local.model.tensors[row].name
            if name in given_values:
                machine.values[name] = part_of(given_values[name], table, k)[0]
        machines.append(machine)
        tables.append(table)
    stages: dict[int, list[int]] = {}
    for rank in range(world):
        stages.setdefault(stage_of(rank, spec), []).append(rank)
    with np.errstate(all="ignore"):
        Mesh(sharding.mesh_axes(spec), machines).run([stages[s] for s in sorted(stages)])
    for rank, (machine, table) in enumerate(zip(machines, tables, strict=True)):
        for k, row in enumerate(table.tensor.tolist()):
            name = machine.local.tensors[row].name
            wanted, own = part_of(right[name], table, k)
            np.testing.assert_allclose(
                machine.values[name][own], wanted[own], rtol=1e-7, atol=1e-7, err_msg=f"rank {rank}, {name}"
            )


@given(st.data(), examples())
def test_every_rank_computes_its_part_of_what_one_machine_computes(data: st.DataObject, example: Example) -> None:
    """spec: R7.6, R7.8 to R7.11, R7.15 to R7.18"""
    run_everywhere(example, data.draw(specs(example.model)))


@given(st.data(), trained())
def test_every_rank_trains_its_part_of_what_one_machine_trains(data: st.DataObject, example: Example) -> None:
    """spec: R7.7, R7.12, R7.13, R7.14"""
    run_everywhere(example, data.draw(specs(example.model)))


def plans_of(model: Model, spec: dict[str, Any], mode: str, folder: Path) -> list[str]:
    """A plan file for each rank."""
    paths = []
    locals_ = sharded(model, spec)
    for rank in range(sharding.count_ranks(spec)):
        local = locals_[stage_of(rank, spec)]
        made = plan_memory(local.model, options=PlanOptions(mode=mode, layout="packed", is_stage=True)).plan
        path = folder / f"plan.rank{rank}.cbor"
        whole = amend_plan(made, rank=rank, world_size=sharding.count_ranks(spec), shard_spec=spec,
                        shards=build_shards(local, spec, rank))  # fmt: skip
        file.save(whole, path)
        paths.append(str(path))
    return paths


def prove_all(model: Model, spec: dict[str, Any], mode: str) -> None:
    """Each rank's plan is proved against the model, and all of them together."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        files.save(model, folder / "model.ir.cbor")
        prepared = prepare_graph(model, mode, DEFAULT)
        paths = plans_of(prepared, spec, mode, folder)
        options = Options(
            model=str(folder / "model.ir.cbor"),
            bindings=Bindings(donated=model.bindings.donated),
            require=("ranks",),
        )
        members = []
        for path in paths:
            stated = open_plan(path, options)
            verdict = judge(path, stated, options)
            assert verdict.verdict == PROVED, (verdict.witness, verdict.notes)
            members.append(ranks.member(verdict, stated))
        (together,) = ranks.verdicts([one for one in members if one is not None], options)
        assert together.verdict == PROVED, (together.witness, together.notes)


@given(st.data(), st.one_of(examples(), trained()))
def test_planner_and_verifier_work_out_the_same_of_a_spec(data: st.DataObject, example: Example) -> None:
    """spec: R7.4 to R7.19, R7.30, R7.31"""
    with suppress(TmmuError):
        agreed(example.model, data.draw(specs(example.model)))


SHAPES = st.lists(st.lists(st.sampled_from((0, 1, 2, 3, 4, 6)), max_size=3).map(tuple), min_size=1, max_size=3)
OPERATORS = (
    "Add", "BatchNormalization", "Concat", "Conv", "Expand", "Gather", "Gemm", "MatMul", "MaxPool", "ReduceMax",
    "ReduceSum", "Reshape", "Shape", "Split", "Transpose",
)  # fmt: skip


@settings(max_examples=share(500))
@given(st.sampled_from(OPERATORS), SHAPES, SHAPES, st.booleans())
def test_both_tables_divide_the_same_loops_of_any_shapes(
    op: str, ins: list[tuple[int, ...]], outs: list[tuple[int, ...]], alike: bool
) -> None:
    """Also of shapes that the operator cannot have. spec: R7.9"""
    outs = [*ins[:1], *outs[1:]] if alike else outs
    assert of_planner(relation("", op, ins, outs), ins, outs) == of_verifier(loops("", op, ins, outs), ins, outs)


@settings(max_examples=4)
@given(st.data(), examples(5))
def test_plans_of_all_ranks_are_proved(data: st.DataObject, example: Example) -> None:
    """spec: R7.19 to R7.29"""
    prove_all(example.model, data.draw(specs(example.model, sizes=(1, 2, 2))), "inference")


@settings(max_examples=4)
@given(st.data(), trained(4))
def test_plans_of_all_ranks_in_training_are_proved(data: st.DataObject, example: Example) -> None:
    """spec: R7.12 to R7.14, R7.19 to R7.29"""
    prove_all(example.model, data.draw(specs(example.model, sizes=(1, 2, 2))), "backward")


@given(st.data(), examples(3))
def test_every_element_lies_in_one_place_and_padding_outside(data: st.DataObject, example: Example) -> None:
    """By brute force: each element is on the ranks of one place of the axes that split its tensor. spec: R7.24"""
    spec = data.draw(specs(example.model))
    locals_ = sharded(example.model, spec)
    axes = [name for name, _ in sharding.mesh_axes(spec)]
    found: dict[str, dict[tuple[int, ...], set[tuple[int, ...]]]] = {}
    for rank in range(sharding.count_ranks(spec)):
        local = locals_[stage_of(rank, spec)]
        table, place = build_shards(local, spec, rank), coordinates(rank, spec)
        for k, row in enumerate(table.tensor.tolist()):
            dims = range(int(table.dims_at[k]), int(table.dims_at[k + 1]))
            split = tuple(place[axes[a]] for a in (int(table.axis[d]) for d in dims) if a < len(axes))
            spans = [range(int(table.start[d]), int(table.start[d]) + int(table.held[d])) for d in dims]
            of = found.setdefault(local.model.tensors[row].name, {})
            for element in product(*spans):
                of.setdefault(element, set()).add(split)
            assert local.model.tensors[row].shape == tuple(int(table.chunk[d]) for d in dims)
    for tensor in example.model.tensors:
        of = found[tensor.name]
        assert set(of) == set(product(*map(range, tensor.shape))), tensor.name
        assert all(len(places) == 1 for places in of.values()), tensor.name


@given(st.text("ab*[", max_size=8), st.text("ab[", max_size=12))
def test_patterns_mean_the_same_to_planner_and_verifier(pattern: str, name: str) -> None:
    """spec: R7.5"""
    from proofs.readers.patterns import fits

    def naive(pattern: str, name: str) -> bool:
        if not pattern:
            return not name
        if pattern[0] == "*":
            return any(naive(pattern[1:], name[k:]) for k in range(len(name) + 1))
        return bool(name) and name[0] == pattern[0] and naive(pattern[1:], name[1:])

    assert match_pattern(pattern, name) == fits(pattern, name) == naive(pattern, name)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_a_rank_has_one_place_and_a_place_one_rank(sizes: list[int], data: st.DataObject) -> None:
    """spec: R7.1"""
    spec = {"mesh": [[f"a{k}", size] for k, size in enumerate(sizes)]}
    rank = data.draw(st.integers(0, int(np.prod(sizes)) - 1))
    place = np.unravel_index(rank, sizes)
    mesh = CheckersMesh(spec)
    assert [mesh.at(rank, f"a{k}") for k in range(len(sizes))] == [int(x) for x in place]
    assert coordinates(rank, spec) == {f"a{k}": int(x) for k, x in enumerate(place)}
