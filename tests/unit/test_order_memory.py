"""The order `memory` as a whole: lower peaks, edges kept, nothing worse, in the plan, in the file and in the proof.

spec: O1.1, O1.2, O1.4, O1.5, O1.6, O1.7, V3.4
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from proofs.definition.model.compare import differences
from proofs.definition.violations import Violation
from proofs.readers.models.ir import read_ir
from proofs.verify.command import command
from tests.support.example_models import BRANCHES
from tests.support.text_models import text_model
from tmmu import examples
from tmmu.cli.commands import tmmu
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Role
from tmmu.examples.broken.editing import reordered
from tmmu.ir import files
from tmmu.ir.order import find_dependencies
from tmmu.ir.program import ModelProgram
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.aliasing import Aliasing
from tmmu.planner.liveness import Liveness
from tmmu.planner.orders import REORDER, graph, portfolio
from tmmu.planner.orders.graph import OrderGraph
from tmmu.plans import file, gate
from tmmu.plans.sections import Plan


def ordered(model: Model) -> list[str]:
    return [node.name for node in REORDER["memory"](model, DEFAULT, "inference", True).nodes]


def peak(plan: Plan, arena: int = 2) -> int:
    return plan.usage[arena].peak_live_bytes


def waits(model: Model, *, grouped: bool = False) -> set[tuple[str, str]]:
    names = [node.name for node in model.nodes]
    return {(names[a], names[b]) for a, b in find_dependencies(model, grouped=grouped)}


def found(plan: Plan, model: Model) -> list[Violation]:
    return list(differences(plan, read_ir(model), frozenset()))


def test_a_branch_is_finished_before_the_next_one_begins() -> None:
    as_given, lower = (plan_memory(BRANCHES, options=PlanOptions(order=order)).plan for order in ("given", "memory"))
    assert (peak(as_given), peak(lower)) == (2010, 1011)
    assert lower.allocation.steps.node.list() == ["split", "up", "down", "up2", "down2", "join"]
    assert (as_given.origin.order, lower.origin.order) == ("given", "memory")


def test_a_model_that_cannot_be_bettered_is_returned_as_it_is() -> None:
    for model in (
        text_model(outputs="x"),
        text_model("node relu Relu x -> a", "node relu2 Relu a -> y"),
        replace(BRANCHES, nodes=()),
    ):
        assert REORDER["memory"](model, DEFAULT, "inference", True) is model
        assert REORDER["given"](model, DEFAULT, "inference", True) is model


def test_the_model_hash_is_that_of_the_given_order() -> None:
    as_given, lower = (plan_memory(BRANCHES, options=PlanOptions(order=order)).plan for order in ("given", "memory"))
    assert as_given.origin.ir_hash == lower.origin.ir_hash
    hashes = [file.compute_hashes(plan) for plan in (as_given, lower)]
    assert hashes[0]["execution_order_hash"] != hashes[1]["execution_order_hash"]


def test_in_place_results_count() -> None:
    """Without hints the first branch is best left for last; with them it costs nothing."""
    lines = (
        "node make Make x -> a", "node copy Copy x -> b", "node relu Relu a -> c inplace c a", "node pool Pool b -> d",
        "node join Join c d -> y",
    )  # fmt: skip
    model = text_model(*lines, sizes={"x": 1, "a": 100, "b": 60, "c": 100, "d": 1, "y": 1})
    plan = plan_memory(model, options=PlanOptions(order="memory")).plan
    assert peak(plan) < peak(plan_memory(model).plan)
    assert plan.allocation.steps.node.list() == ["copy", "pool", "make", "relu", "join"]


def test_the_peak_of_the_activations_is_not_traded_for_another_arena() -> None:
    model = text_model(
        "node a A x -> a", "node b B x -> b", "node c C a -> c", "node d D b -> d", "node e E c d -> y",
        "tensor a u8 100 gradient", "tensor b u8 100 gradient", sizes={"x": 1, "c": 1, "d": 1, "y": 1},
    )  # fmt: skip
    before, after = plan_memory(model).plan, plan_memory(model, options=PlanOptions(order="memory")).plan
    assert (peak(before, 3), peak(after, 3)) == (200, 100)
    assert peak(after) <= peak(before)
    # Here one gradient less at a time would cost 10 bytes of activations.
    dear = text_model(
        "node a A x -> a scratch 30", "node b B x -> b scratch 30", "node c C a -> c", "node d D b -> d",
        "node e E c d -> y", "tensor a u8 100 gradient", "tensor b u8 100 gradient",
        sizes={"x": 1, "c": 20, "d": 20, "y": 1},
    )  # fmt: skip
    assert REORDER["memory"](dear, DEFAULT, "inference", True) is dear


@pytest.mark.parametrize("size", [100, 150])
def test_a_lower_peak_of_the_activations_is_not_bought_with_as_much_in_another_arena(size: int) -> None:
    """With `free` first 100 bytes of activations less are live at once, and `size` bytes of gradients more."""
    model = text_model(
        "node take Take h -> t", "node free Free s -> g", inputs="s h", outputs="t g",
        sizes={"s": 100, "t": 100, "h": size, "g": size},
    )  # fmt: skip
    given = (replace(x, role=Role.GRADIENT) if x.name in "hg" else x for x in model.tensors)
    model = replace(model, tensors=tuple(given))
    assert REORDER["memory"](model, DEFAULT, "inference", True) is model
    cheap = replace(
        model, tensors=tuple(replace(x, shape=(9,), bytes=9) if x.name in "hg" else x for x in model.tensors)
    )
    assert ordered(cheap) == ["free", "take"]


def test_what_is_inside_nodes_is_ordered_before_what_is_around_them_and_each_way_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All arenas that are filled and activations alone, with and without in-place results, where there are two ways."""
    tried: list[tuple[frozenset[int], bool, list[int]]] = []

    def bodies(
        run: ModelProgram, live: Liveness, alias: Aliasing, weighed: frozenset[int], mode: str, hinted: bool
    ) -> list[tuple[list[int], OrderGraph]]:
        assert len(alias.storages) == len(run.tensors)
        tried.append((weighed, hinted, []))
        return graph.build_graphs(run, live, alias, weighed, mode, hinted)

    def lowered(graph: OrderGraph) -> list[int]:
        tried[-1][-1].append(len(graph))
        return list(range(len(graph)))

    monkeypatch.setattr(portfolio, "build_graphs", bodies)
    monkeypatch.setattr(portfolio, "lower_peak", lowered)
    lines = (
        "node up Up x -> b", "begin loop1 Loop x -> l", "arm body f -> g loop", "  node relu Relu f -> g", "end loop1",
        "node down Down b -> d inplace d b", "node add Add d l -> y",
    )  # fmt: skip
    plain, both = frozenset((2,)), frozenset((2, 3))
    several = text_model(*lines, "tensor l u8 64 gradient")
    ways = [(weighed, hinted, units) for weighed in (both, plain) for hinted in (True, False) for units in ([1], [4])]
    for model, in_place, expected in (
        (several, True, ways),
        (text_model(*lines), False, [(plain, False, [1]), (plain, False, [4])]),
        (BRANCHES, True, [(plain, False, [6])]),
    ):
        tried.clear()
        assert REORDER["memory"](model, DEFAULT, "inference", in_place) is model
        assert tried == expected


def test_arenas_without_reuse_ask_for_no_order() -> None:
    kept = tuple(replace(arena, reuse=False) for arena in DEFAULT)
    assert REORDER["memory"](BRANCHES, kept, "inference", True) is BRANCHES


def test_accesses_through_views_keep_their_order_around_a_change() -> None:
    model = text_model(
        "node make Make x -> t", "node view1 View t -> v", "node read Read v -> a",
        "node change Change t -> t changes t", "node read2 Read v -> b", "node add Add a b -> y",
        "tensor v u8 64 view t 0",
    )  # fmt: skip
    assert waits(model) >= {("read", "change"), ("change", "read2")}


def test_accesses_to_an_alias_group_keep_their_order_around_each_write() -> None:
    model = text_model(
        "node one One x -> t", "node view1 View t -> v", "node read Read v -> a", "node two Two x -> u",
        "node read2 Read u -> b", "node add Add a b -> y", "tensor v u8 64 view t 0", "alias g t u",
    )  # fmt: skip
    assert waits(model, grouped=True) >= {("read", "two"), ("one", "two")}
    assert not waits(model) & {("read", "two"), ("one", "two")}
    # A view that is itself of a group brings its base along.
    viewed = text_model(
        "node one One x -> t", "node view1 View t -> v", "node read Read t -> a", "node two Two x -> u",
        "node add Add a u -> y", "tensor v u8 64 view t 0", "alias g v u",
    )  # fmt: skip
    assert ("read", "two") in waits(viewed, grouped=True)


def test_the_nodes_of_a_body_are_ordered_inside_their_node() -> None:
    model = text_model(
        "begin if If x -> y",
        "arm then -> r",
        "  node up Up x -> b",
        "  node up2 Up x -> c",
        "  node down Down b -> d",
        "  node down2 Down c -> e",
        "  node join Join d e -> r",
        "end if",
        "node relu Relu y -> z",
        outputs="z",
        sizes={"b": 1000, "c": 1000, "d": 1, "e": 1},
    )
    assert ordered(model) == ["if", "up", "down", "up2", "down2", "join", "relu"]
    plan = plan_memory(model, options=PlanOptions(order="memory")).plan
    assert peak(plan) < peak(plan_memory(model).plan)
    assert not found(plan, model)


def test_what_a_node_holds_moves_with_it() -> None:
    model = text_model(
        "node up Up x -> b", "begin loop1 Loop x -> l", "arm body f -> g loop", "  node relu Relu f -> h",
        "  node relu2 Relu h -> g", "end loop1", "node down Down b -> d", "node add Add d l -> y",
        sizes={"b": 1000, "h": 900, "d": 1, "f": 1, "g": 1, "l": 1, "x": 1, "y": 1},
    )  # fmt: skip
    names = ordered(model)
    assert names.index("down") < names.index("loop1") or names.index("relu2") < names.index("up")
    plan = plan_memory(model, options=PlanOptions(order="memory")).plan
    assert peak(plan) < peak(plan_memory(model).plan)
    assert not found(plan, model)


def test_what_is_saved_lives_to_the_end_in_every_order() -> None:
    saved = replace(
        BRANCHES, tensors=tuple(replace(x, saved_for_backward=x.name in {"b", "c"}) for x in BRANCHES.tensors)
    )
    assert peak(plan_memory(saved, options=PlanOptions(mode="forward", order="memory")).plan) >= 2000
    assert peak(plan_memory(saved, options=PlanOptions(order="memory")).plan) == 1011


def test_a_plan_in_another_order_is_the_models_and_one_against_an_edge_is_not() -> None:
    model = text_model(
        "node make Make x -> t", "node view1 Reshape t -> v", "node read Read v -> a",
        "node change Change t -> t changes t", "node add Add a t -> y", "tensor v u8 64 view t 0",
    )  # fmt: skip
    assert not found(plan_memory(model).plan, model)
    moved = reordered(plan_memory(model).plan, [0, 1, 3, 2, 4])
    (difference,) = [d for d in found(moved, model) if d.field == "order" and d.tensors == ("v",)]
    assert difference.node == "read"
    assert (difference.stated, difference.recomputed) == ("v as change leaves it", "v as make leaves it")


def test_a_read_moved_over_a_change_is_not_the_models() -> None:
    """spec: I1.6, V3.4"""
    model = text_model(
        "node make Make x -> t", "node read Read t -> a", "node change Change t -> t changes t", "node add Add a t -> y"
    )
    assert not found(plan_memory(model).plan, model)
    moved = reordered(plan_memory(model).plan, [0, 2, 1, 3])
    (difference,) = [d for d in found(moved, model) if d.field == "order"]
    assert (difference.node, difference.tensors) == ("read", ("t",))
    assert (difference.stated, difference.recomputed) == ("t as change leaves it", "t as make leaves it")


def test_views_of_views_and_views_in_a_circle_come_to_an_end() -> None:
    lines = [
        "node make Make x -> v0",
        *(f"node view{k} Reshape v{k} -> v{k + 1}" for k in range(50)),
        *(f"tensor v{k + 1} u8 64 view v{k} 0" for k in range(50)),
        "node read Read v50 -> a",
        "node change Change v0 -> v0 changes v0",
        "node add Add a v0 -> y",
    ]
    model = text_model(*lines)
    plan, expected = plan_memory(model).plan, read_ir(model)
    assert not list(differences(plan, expected, frozenset()))
    expected.views["v0"] = ("v50", 0)
    assert {difference.field for difference in differences(plan, expected, frozenset())} <= {"view", "order"}


@pytest.mark.parametrize("word", ["", "fast", "Given"])
def test_another_word_for_the_order_is_no_plan(word: str) -> None:
    value = file.to_object(plan_memory(BRANCHES, options=PlanOptions(order="memory")).plan)
    assert file.require_steps(gate.from_object(value)).plan.origin.order == "memory"
    with pytest.raises(TmmuError, match="INVALID_PLAN") as refused:
        gate.from_object(value | {"provenance": value["provenance"] | {"order": word}})
    assert refused.value.place == "provenance.order"


def test_the_command_plans_shows_and_proves_the_order_memory(tmp_path: Path) -> None:
    files.save(BRANCHES, tmp_path / "m.ir.cbor")
    model, plan = str(tmp_path / "m.ir.cbor"), str(tmp_path / "p.cbor")
    run = CliRunner().invoke(tmmu, ["plan", model, "-o", plan, "--order", "memory"], standalone_mode=False)
    assert run.exception is None, run.output
    assert "peak live 1011 " in run.output
    assert "order memory" in CliRunner().invoke(tmmu, ["show", plan]).output
    proved = CliRunner().invoke(command, [plan, "--model", model, "--format", "json"], standalone_mode=False)
    assert proved.return_value == 0, proved.output
    assert json.loads(proved.stdout)["files"][0]["scope"].startswith("against")


def test_an_onnx_network_in_the_order_memory_is_proved_against_its_file(tmp_path: Path) -> None:
    model, plan = str(tmp_path / "m.onnx"), str(tmp_path / "p.cbor")
    examples.write("llama-block", model)
    flags = ["--dim", "batch=1", "--dim", "seq=4096"]
    run = CliRunner().invoke(tmmu, ["plan", model, "-o", plan, "--order", "memory", *flags], standalone_mode=False)
    assert run.exception is None, run.output
    lower = file.load(plan).plan
    proved = CliRunner().invoke(command, [plan, "--model", model, *flags], standalone_mode=False)
    assert proved.return_value == 0, proved.output
    run = CliRunner().invoke(tmmu, ["plan", model, "-o", plan, *flags], standalone_mode=False)
    assert peak(lower) < peak(file.load(plan).plan)


def test_an_unknown_order_is_an_error_of_the_command_line(tmp_path: Path) -> None:
    files.save(BRANCHES, tmp_path / "m.ir.cbor")
    run = CliRunner().invoke(tmmu, ["plan", str(tmp_path / "m.ir.cbor"), "--order", "best"])
    assert run.exit_code == 2
    assert "'best' is not one of" in run.output
