"""From a model to its plan: the facts in the columns, what is claimed of each arena, and that planning is pure.

spec: A1.3, A3.2, A3.3, A4.1, A4.3, A7.1, M1.3, M3.6, T5.1, T5.2, T6.4, T7.1, D1.1, D1.2, V1.10
"""

from __future__ import annotations

import ast
import gc
import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from proofs.definition.model.compare import differences
from proofs.readers.models.ir import read_ir
from proofs.readers.models.training import reference_in_mode
from tests.support.example_models import full
from tests.support.text_models import text_model
from tmmu.core.columns import NONE
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import (
    LAYOUTS,
    ORDERS,
    REPLAN_POLICIES,
    ArenaConfiguration,
    Body,
    Model,
    NodePart,
    Role,
    Shares,
)
from tmmu.ir import columns as ir_columns
from tmmu.planner import DEFAULT, PlanOptions, plan_memory, replay_token
from tmmu.planner.modes import prepare_graph
from tmmu.plans import file
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED, PARTS, ROLES, SHARES
from tmmu.plans.sections import Usage, amend_plan

ROOT = Path(__file__).resolve().parents[2]
ONE = (ArenaConfiguration("all", tuple(Role), alignment=1),)


def usage(model: Model, arenas: tuple[ArenaConfiguration, ...] = ONE) -> Usage:
    """What a plan in one arena claims of it."""
    [found] = plan_memory(model, arenas).plan.usage
    return found


LOOP = ("begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "end loop1")


@pytest.mark.parametrize(
    ("model", "node"),
    [
        (text_model(*LOOP), "loop1"),
        (
            text_model("node relu Relu x -> a", "node change Change a -> a changes a", "node relu2 Relu a -> y"),
            "change",
        ),
    ],
)
def test_planner_and_verifier_refuse_forward_where_nobody_says_what_is_saved(model: Model, node: str) -> None:
    """spec: M2.12"""
    for refuse in (
        lambda: plan_memory(model, options=PlanOptions(mode="forward")),
        lambda: prepare_graph(model, "forward", DEFAULT),
        lambda: reference_in_mode(read_ir(model), "forward"),
    ):
        with pytest.raises(TmmuError) as refused:
            refuse()
        assert (refused.value.code_id, node in refused.value.place) == ("MODE_VIOLATION", True)
    declared = replace(model, tensors=tuple(replace(t, saved_for_backward=t.name == "x") for t in model.tensors))
    plan = plan_memory(prepare_graph(declared, "forward", DEFAULT), options=PlanOptions(mode="forward")).plan
    assert list(differences(plan, reference_in_mode(read_ir(declared), "forward"), frozenset(), "forward")) == []
    assert plan_memory(model, options=PlanOptions(mode="forward", is_stage=True)).plan.origin.mode == "forward"


def test_forward_is_planned_of_a_model_that_has_a_backward_half_or_changes_things_in_its_optimizer() -> None:
    """Nobody has to make a gradient of the loop, nor of the step. spec: M2.12"""
    own = text_model(*LOOP, "node back Back y -> g backward")
    step = text_model(
        "node relu Relu x -> y", "node sgd Sgd w y -> w changes w optimizer", "tensor w u8 64 donated", parameters="w"
    )
    for model in (own, step):
        assert plan_memory(model, options=PlanOptions(mode="forward")).plan.origin.mode == "forward"


def test_a_plan_holds_the_models_own_facts() -> None:
    """spec: P1.1, R2.3"""
    model = full()
    plan = plan_memory(model, options=PlanOptions(mode="forward")).plan
    t, s = plan.allocation.tensors, plan.allocation.steps
    assert (plan.origin.model, plan.origin.mode, plan.origin.layout, plan.origin.order) == (
        "small",
        "forward",
        "slots",
        "given",
    )
    assert (plan.origin.ir_hash, plan.origin.source_digest) == (ir_columns.model_digest(model), bytes(32))
    assert (plan.bindings, plan.allocation.unproduced, plan.allocation.must_not_alias) == (
        model.bindings,
        ("mask",),
        model.must_not_alias,
    )
    assert (plan.origin.rank, plan.origin.world_size, plan.origin.shard_spec) == (0, 1, {})
    row = {name: k for k, name in enumerate(t.name)}
    assert [name for name in row if t.flags[row[name]] & IS_INPUT] == ["x"]
    assert [name for name in row if t.flags[row[name]] & IS_OUTPUT] == ["y"]
    assert [name for name in row if t.flags[row[name]] & IS_SAVED] == ["sum"]
    assert [name for name in row if t.writer[row[name]] == NONE] == ["x", "w", "s"]
    assert {name: ROLES[t.role[row[name]]] for name in ("x", "w", "s", "sum", "z", "add.scratch0")} == {
        "x": Role.INPUT, "w": Role.PARAMETER, "s": Role.OPTIMIZER, "sum": Role.ACTIVATION, "z": Role.GRADIENT,
        "add.scratch0": Role.SCRATCH,
    }  # fmt: skip
    assert plan.allocation.dtypes[t.dtype[row["z"]]] == "float16"
    assert (t.bytes[row["z"]], t.alignment[row["z"]]) == (128, 2)
    assert list(s.node) == ["add", "reshape", "loop1", "relu", "loop1", "update"]
    assert [PARTS[part] for part in s.part] == [
        NodePart.WHOLE,
        NodePart.WHOLE,
        NodePart.ENTER,
        NodePart.WHOLE,
        NodePart.LEAVE,
        NodePart.WHOLE,
    ]
    assert [plan.allocation.ops[op] for op in s.op][-1] == ("com.example", "Update")
    assert (list(plan.allocation.bodies.name), plan.allocation.bodies.enter.tolist()) == (["", "loop1/body"], [NONE, 2])
    assert (plan.allocation.bodies.leave.tolist(), plan.allocation.bodies.iterates.tolist()) == ([NONE, 4], [0, 1])
    assert plan.allocation.bodies.parent.tolist() == [NONE, 0]
    shares = {name: SHARES[t.shares[row[name]]] for name in row}
    assert (shares["square"], shares["y"], shares["sum"]) == (Shares.VIEW, Shares.ALIAS, Shares.NONE)
    assert t.of[row["square"]] == row["sum"]


def test_every_storage_has_a_slot_and_its_address() -> None:
    plan = plan_memory(
        text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y"), ONE
    ).plan
    assert plan.slots.of.tolist() == [1, 0, 1, 0]  # `a` and `x` are born together: the name decides
    assert plan.allocation.storages.offset.tolist() == [64, 0, 64, 0]
    assert plan.slots.bytes.tolist() == [64, 64]


def test_an_arena_claims_its_footprint_its_peak_and_its_slots() -> None:
    """`x` and `a` are live at step 0, `a`, `b` and `c` at step 2."""
    model = text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b a -> c", "node relu4 Relu c -> y",
        sizes={"x": 500, "c": 10},
    )  # fmt: skip
    assert usage(model) == Usage(
        footprint=574, peak_live_bytes=564, peak_step=0, slots=3, max_live=3, max_live_step=2, minimal=True
    )


def test_an_arena_without_tensors_claims_nothing() -> None:
    assert plan_memory(text_model("node relu Relu x -> y")).plan.usage[3] == Usage(0, 0, 0, 0, 0, 0, True)


def test_a_tensor_of_no_bytes_has_a_slot_of_one_byte_and_counts_as_live() -> None:
    model = text_model("node relu Relu x -> a", "node add Add a x -> y", sizes={"a": 0})
    assert usage(model) == Usage(129, 128, 1, 3, 3, 1, True)
    plan = plan_memory(model, ONE).plan
    assert plan.slots.bytes.tolist() == [64, 1, 64]
    assert plan.allocation.storages.bytes.tolist() == [64, 0, 64]


def test_sums_beyond_63_bits_are_exact() -> None:
    large = (1 << 63) - 8
    model = text_model("node relu Relu x -> a", "node relu2 Relu a -> y", sizes={"x": large, "a": 5, "y": large})
    assert usage(model) == Usage(large + 5, large + 5, 0, 2, 2, 0, True)
    model = text_model("node add Add x b -> y", inputs="x b", sizes={"x": large, "y": 5, "b": large})
    assert usage(model) == Usage(2 * large + 5, 2 * large + 5, 0, 3, 3, 0, True)
    model = text_model("node relu Relu x -> y", sizes={"x": 1 << 62, "y": 1 << 62})
    assert usage(model) == Usage(1 << 63, 1 << 63, 0, 2, 2, 0, True)


def test_a_footprint_beyond_64_bits_is_refused() -> None:
    with pytest.raises(TmmuError, match="ALLOCATION_OVERFLOW"):
        plan_memory(text_model("node relu Relu x -> y", sizes={"x": 1 << 63, "y": 1 << 63}), ONE)


def test_an_arena_that_does_not_reuse_claims_no_minimum_where_storages_could_share() -> None:
    kept = (replace(ONE[0], reuse=False),)
    found = usage(text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y"), kept)
    assert (found.slots, found.max_live, found.minimal) == (4, 2, False)
    parameters = plan_memory(text_model("node add Add x p q -> y", parameters="p q")).plan.usage[0]
    assert (parameters.slots, parameters.max_live, parameters.minimal) == (2, 2, True)


def test_must_not_alias_keeps_slots_apart_and_the_claim_is_not_made_where_it_could_matter() -> None:
    lines = ("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y")
    together = usage(text_model(*lines))
    apart = usage(text_model(*lines, "apart x b"))
    overlapping = usage(text_model(*lines, "apart x a"))
    assert (together.slots, together.minimal) == (2, True)
    assert (apart.slots, apart.max_live, apart.minimal) == (3, 2, False)
    assert (overlapping.slots, overlapping.minimal) == (2, True)  # they are live together anyway
    for pairs in ([("x", "b")], [("b", "x")], [("x", "a"), ("x", "b")]):
        plan = plan_memory(text_model(*lines, *(f"apart {a} {b}" for a, b in pairs)), ONE).plan
        assert plan.slots.of[0] != plan.slots.of[2]
        assert plan.usage[0].minimal is False


def test_a_conflict_costs_the_claim_also_where_as_many_slots_are_needed_anyway() -> None:
    """The graph is no interval graph any more: that the count is the minimum would be luck."""
    lines = ("node relu Relu x -> a", "node relu2 Relu a -> b", "node split Split b -> c d", "node add Add b c d -> y")
    for pairs in ([("b", "x")], [("x", "b")], [("x", "a"), ("x", "b")]):  # `x` and `a` live together anyway
        found = plan_memory(text_model(*lines, *(f"apart {a} {b}" for a, b in pairs))).plan.usage[2]
        assert (found.slots, found.max_live, found.minimal) == (4, 4, False)


def test_a_conflict_of_two_arenas_costs_neither_its_claim() -> None:
    model = text_model(
        "node relu Relu x -> g", "node relu2 Relu g -> a", "node relu3 Relu a -> y", "tensor g u8 64 gradient",
        "apart g y", "apart y g",
    )  # fmt: skip
    assert all(used.minimal for used in plan_memory(model).plan.usage)


def test_a_capacity_is_compared_with_the_footprint() -> None:
    model = text_model("node relu Relu x -> y")
    fits = usage(model, (replace(ONE[0], capacity=128),))
    assert fits.footprint == 128
    with pytest.raises(TmmuError, match="128 bytes are needed") as refused:
        usage(model, (replace(ONE[0], capacity=127),))
    assert (refused.value.code_id, refused.value.place) == ("ARENA_TOO_SMALL", "arena 'all'")
    assert refused.value.diagnostics == {"arena": "all", "capacity": 127, "required": 128}


def test_an_unknown_mode_is_refused() -> None:
    for mode, fix in (("training", "use one of"), ("backward", "expand it to a joint graph"), ("", "use one of")):
        with pytest.raises(TmmuError, match=fix) as refused:
            plan_memory(text_model("node relu Relu x -> y"), options=PlanOptions(mode=mode))
        assert (refused.value.code_id, refused.value.diagnostics["mode"]) == ("MODE_VIOLATION", mode)


def test_a_token_has_32_bytes_and_moves_nothing() -> None:
    model = text_model("node relu Relu x -> y")
    for wrong in (b"", bytes(31), bytes(33)):
        with pytest.raises(TmmuError, match="give 32 bytes"):
            plan_memory(model, options=PlanOptions(replay_token=wrong))
    one, other = plan_memory(model).plan, plan_memory(model, options=PlanOptions(replay_token=bytes(range(32)))).plan
    assert (one.origin.replay_token, other.origin.replay_token) == (replay_token(0), bytes(range(32)))
    assert amend_plan(other, replay_token=one.origin.replay_token) == one


def test_an_address_token_is_of_the_layout_hashed_and_its_digest_is_kept() -> None:
    """spec: A2.5"""
    model, token = text_model("node relu Relu x -> y"), bytes(range(64))
    with pytest.raises(TmmuError, match="layout slots") as refused:
        plan_memory(model, options=PlanOptions(address_token=token))
    assert refused.value.code_id == "INVALID_BINDING"
    plan = plan_memory(model, options=PlanOptions(layout="hashed", address_token=token)).plan
    assert plan.origin.address_token_digest == hashlib.sha256(token).digest()
    assert plan_memory(model).plan.origin.address_token_digest is None


@pytest.mark.parametrize(
    ("options", "permitted"),
    [
        (PlanOptions(layout="tight"), LAYOUTS),
        (PlanOptions(order="best"), ORDERS),
        (PlanOptions(fallback="slots"), ("packed",)),
        (PlanOptions(replan_policy="RETRY"), REPLAN_POLICIES),
    ],
)
def test_an_option_that_is_not_known_is_refused_with_those_permitted(
    options: PlanOptions, permitted: tuple[str, ...]
) -> None:
    with pytest.raises(TmmuError) as refused:
        plan_memory(text_model("node relu Relu x -> y"), options=options)
    assert refused.value.code_id == "INVALID_BINDING"
    assert all(word in str(refused.value) for word in permitted)


def test_mode_backward_needs_a_backward_node_but_of_a_stage_or_of_no_nodes() -> None:
    """spec: M1.3"""
    lines = ("node relu Relu x -> a", "node relu2 Relu a -> y")
    halves = text_model(lines[0], f"{lines[1]} backward")
    with pytest.raises(TmmuError, match="only forward nodes"):
        plan_memory(text_model(*lines), options=PlanOptions(mode="backward"))
    assert (
        plan_memory(text_model(*lines), options=PlanOptions(mode="backward", is_stage=True)).plan.origin.mode
        == "backward"
    )
    assert plan_memory(halves, options=PlanOptions(mode="backward")).plan.origin.mode == "backward"
    assert plan_memory(text_model(outputs="x"), options=PlanOptions(mode="backward")).plan.origin.mode == "backward"
    assert plan_memory(text_model(*lines)).plan.origin.mode == "inference"


def test_what_the_caller_has_not_donated_may_not_be_changed() -> None:
    model = text_model("node change Change w -> w changes w", parameters="w", outputs="x")
    with pytest.raises(TmmuError, match=r"'w'.* --donate w") as refused:
        plan_memory(model)
    assert (refused.value.code_id, refused.value.place) == ("INVALID_BINDING", "node 'change'")
    donated = plan_memory(replace(model, bindings=replace(model.bindings, donated=("w",)))).plan
    kept = plan_memory(text_model("node relu Relu w -> y", parameters="w", outputs="y")).plan
    for plan, is_returned in ((donated, False), (kept, True)):
        flags = dict(zip(plan.allocation.tensors.name, plan.allocation.tensors.flags.tolist(), strict=True))
        assert bool(flags["w"] & IS_RETURNED) == is_returned
    plan_memory(text_model("node relu Relu x -> a", "node change Change a -> a changes a", outputs="a"))


def test_a_view_is_not_read_in_the_step_that_changes_its_base_nor_made_there() -> None:
    """spec: I1.11"""
    reads = ("node relu Relu x -> a", "node view1 View a -> v", "node change Change a v -> a changes a")
    makes = ("node relu Relu x -> a", "node both Both a -> v a changes a", "node add Add v a -> y")
    for lines in (reads, makes):
        with pytest.raises(TmmuError, match="a view made before 'a' was mutated") as refused:
            plan_memory(text_model(*lines, "tensor v u8 64 view a 0", outputs="a"))
        assert refused.value.code_id == "INVALID_IR"
    plan_memory(
        text_model(
            "node relu Relu x -> a", "node view1 View a -> v", "node add Add v -> y",
            "node change Change a -> a changes a", "tensor v u8 64 view a 0",
        )
    )  # fmt: skip


def test_a_view_made_before_its_base_was_changed_is_no_graph_output_and_no_view_is_changed() -> None:
    """spec: I1.11, V1.10"""
    lines = ("node relu Relu x -> a", "node view1 View a -> v", "node change Change a -> a changes a")
    with pytest.raises(TmmuError, match=r"'v'.* 'a'") as refused:
        plan_memory(text_model(*lines, "tensor v u8 64 view a 0", outputs="a v"))
    assert (refused.value.code_id, refused.value.place) == ("INVALID_IR", "node 'view1'")
    plan_memory(text_model(*lines, "tensor v u8 64 view a 0", outputs="a"))
    with pytest.raises(TmmuError, match="it mutates 'v', a view; mutate its base") as refused:
        plan_memory(
            text_model(*lines[:2], "node change Change v -> v changes v", "tensor v u8 64 view a 0", outputs="a")
        )
    assert (refused.value.code_id, refused.value.place) == ("INVALID_IR", "node 'change'")


def test_a_view_made_before_its_base_was_changed_is_not_saved_for_backward() -> None:
    """spec: I1.11"""
    lines = ("node relu Relu x -> a", "node view1 View a -> v", "node change Change a -> a changes a")
    model = text_model(*lines, "tensor v u8 64 saved view a 0", outputs="a")
    plan_memory(model)
    with pytest.raises(TmmuError, match=r"'v'.* 'a'") as refused:
        plan_memory(model, options=PlanOptions(mode="forward"))
    assert (refused.value.code_id, refused.value.place) == ("INVALID_IR", "node 'view1'")


def test_a_body_may_run_from_the_first_step_on() -> None:
    plan = plan_memory(
        text_model("begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "end loop1")
    ).plan
    assert (plan.allocation.bodies.enter.tolist(), plan.allocation.bodies.leave.tolist()) == ([NONE, 0], [NONE, 2])


def test_an_empty_model_and_a_model_without_nodes_have_plans() -> None:
    empty = plan_memory(Model("empty", (), (), (Body(-1, "", (), ()),))).plan
    assert (len(empty.allocation.steps), len(empty.allocation.tensors), empty.usage[0]) == (
        0,
        0,
        Usage(0, 0, 0, 0, 0, 0, True),
    )
    passed = plan_memory(text_model(outputs="x")).plan
    assert (len(passed.allocation.steps), passed.usage[2]) == (0, Usage(64, 64, 0, 1, 1, 0, True))


def test_the_hints_that_were_refused_are_handed_back() -> None:
    """spec: T3.9"""
    planned = plan_memory(text_model("node relu Relu x -> y inplace y x"))
    assert [(r.node, r.result, r.operand) for r in planned.refused] == [("relu", "y", "x")]
    without = plan_memory(text_model("node relu Relu x -> y")).plan
    assert amend_plan(planned.plan, ir_hash=without.origin.ir_hash) == without


# Pure.


def test_planning_leaves_the_collector_as_it_was() -> None:
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            plan_memory(text_model("node relu Relu x -> y"))
            with pytest.raises(TmmuError):
                plan_memory(text_model("node relu Relu x -> y"), (ArenaConfiguration("a", ()),))
            assert gc.isenabled() is enabled
        finally:
            gc.enable()


def test_the_collector_is_off_while_a_plan_is_made_and_the_moves_of_its_scan_are_observed() -> None:
    moves: list[tuple[str, bool]] = []
    plan_memory(
        text_model("node relu Relu x -> y"), ONE, observer=lambda event, **_: moves.append((event, gc.isenabled()))
    )
    assert gc.isenabled()
    assert moves == [("scan", False), ("open", False), ("open", False), ("scanned", False)]


def test_planning_changes_neither_the_model_nor_a_second_plan() -> None:
    model = full()
    first = file.encode(plan_memory(model).plan)
    assert model == full()
    assert file.encode(plan_memory(model).plan) == first


PURE = [*(ROOT / "tmmu/planner").rglob("*.py"), *(ROOT / "tmmu/ir").rglob("*.py")]
IMPURE_MODULES = {"datetime", "locale", "platform", "random", "secrets", "socket", "threading", "time", "uuid"}
IMPURE_NAMES = {"environ", "getenv", "urandom", "float", "float32", "float64", "id", "hash"}


def impurities(source: str) -> list[str]:
    """Imports of clocks and random sources, reads of the environment, and whatever computes with a float."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.split(".")[0] in IMPURE_MODULES]
        elif isinstance(node, ast.ImportFrom):
            found += [str(node.module)] if str(node.module).split(".")[0] in IMPURE_MODULES else []
        elif isinstance(node, ast.Div):
            found.append("/")
        elif isinstance(node, ast.Constant) and isinstance(node.value, float):
            found.append(str(node.value))
        elif isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            found += [name] if name in IMPURE_NAMES else []
    return found


def test_planning_reads_no_clock_no_environment_no_random_source_and_computes_with_no_float() -> None:
    assert {path: found for path in PURE if (found := impurities(path.read_text()))} == {}


def test_an_impurity_is_seen() -> None:
    source = "import time, os\nfrom random import random\nx = 1 / 2 + 0.5\nos.environ\nfloat(hash(id(x)))\nx.urandom()"
    assert sorted(impurities(source)) == ["/", "0.5", "environ", "float", "hash", "id", "random", "time", "urandom"]


def executed_lines(model: Model) -> int:
    """How many lines of Python liveness and slots execute for a model."""
    count = 0

    def trace(*_: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # every event counts
    try:
        plan_memory(model, DEFAULT)
    finally:
        sys.settrace(before)
    return count


def chain(length: int) -> Model:
    return text_model(
        *(f"node add{k} Add a{k} a{k // 2} -> a{k + 1} inplace a{k + 1} a{k}" for k in range(length)), inputs="a0",
        outputs="a1",
    )  # fmt: skip


def test_planning_takes_as_much_more_work_as_the_model_is_larger() -> None:
    """Lines executed, which no clock disturbs; sorting and heaps add the logarithm. spec: T1.7, T6.5"""
    executed_lines(chain(50))  # what is done once in a process is not counted
    small_, middle, large = (executed_lines(chain(length)) for length in (100, 200, 400))
    assert middle - small_ == pytest.approx((large - middle) / 2, rel=0.02)
