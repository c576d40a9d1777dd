"""Small orders of steps and storages, by hand; models, files of streams and options that the planner refuses; events.

spec: X5.10, X6.1, X6.2, X6.3, X6.4, X6.5, X6.6, X6.8, X6.9, X6.11
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.commands import ran
from tests.support.partial_orders import StreamProgram
from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Model
from tmmu.ir.text_writer import write
from tmmu.mico import ProgramSource, generate, generate_set
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.layouts import packed
from tmmu.planner.layouts.boxes import COMPARED, Boxes, Packing
from tmmu.planner.streams.antichain import find_antichain
from tmmu.planner.streams.assignment import StreamAssignment, assign_streams, load_streams, read_streams
from tmmu.planner.streams.chains import assign_chains
from tmmu.planner.streams.events import find_races, find_repair, measure_events
from tmmu.planner.streams.program import is_antichain_of_plan, streams_of_plan
from tmmu.planner.streams.steps import order_steps
from tmmu.plans import metrics, text
from tmmu.plans.sections import Plan
from tmmu.plans.sets import Agreement, PlanSet
from tmmu.tasks.checking import check

ORDERS = {
    "two streams, nothing shared": (StreamProgram([0, 1, 0, 1], [], [], [[0], [1], [2], [3]]), 2),
    "an event makes one chain": (StreamProgram([0, 1, 0, 1], [(1, 0), (2, 1), (3, 2)], [], [[0], [1], [2], [3]]), 1),
    "a barrier between two and two": (StreamProgram([0, 1, 0, 0, 1], [], [2], [[0], [1], [3], [4]]), 2),
    "accessed on two streams": (StreamProgram([0, 1, 0, 1], [(1, 0)], [], [[0, 1], [2], [3]]), 2),
    # Written at the start, read once on each stream, early; the others live late, one on each stream: all three are
    # pairwise not ordered, and never live at one moment.
    "an antichain that is never live at once": (
        StreamProgram([0, 1] * 8, [(1, 0)], [], [[0, 2, 3], [11, 13], [10, 12]]),
        3,
    ),
    # Two iterations of a pipelined loop: the second A may begin before the first B has ended.
    "a loop that is pipelined": (StreamProgram([0, 0, 1, 1], [(2, 0), (3, 1)], [], [[0], [1], [2], [3]]), 2),
}
"""A program, and the fewest slots of its storages."""


@pytest.mark.parametrize("name", ORDERS)
def test_the_slots_of_a_small_order(name: str) -> None:
    program, slots = ORDERS[name]
    found = find_antichain(program.storage_order())
    assert (len(found.storages), len(found.chains())) == (slots, slots)


def test_nothing_has_an_empty_order() -> None:
    order = StreamProgram([0], [], [], []).storage_order()
    assert (find_antichain(order).storages, assign_chains(order, [], {}).slots) == ([], 0)
    assert assign_chains(order, [], {}, exact=-1).antichain == []


@pytest.mark.parametrize("wait", [(1, 1), (1, 2), (1, -1)])
def test_a_wait_for_a_step_that_is_not_earlier_is_refused(wait: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="does not precede it"):
        order_steps([0, 1, 0], [wait])


def test_a_wait_that_says_nothing_new_begins_no_segment() -> None:
    order = order_steps([0, 0, 1, 1, 1], [(2, 1), (3, 0), (4, 1)])
    assert (len(order.known), len(order)) == (3, 5)


def boxes_of(program: StreamProgram, copies: int) -> Boxes:
    """The storages of a program as boxes of a byte each, repeated one after the other in time on the same streams."""
    steps = len(program.stream)
    many = StreamProgram(
        program.stream * copies,
        [(s + k * steps, e + k * steps) for k in range(copies) for s, e in program.waits],
        [], [[s + k * steps for s in of] for k in range(copies) for of in program.accesses],
    )  # fmt: skip
    order = many.storage_order()
    birth, death = order.begins[:, -1].tolist(), (order.ends[:, -1] - 1).tolist()
    return Boxes(birth, death, [1] * len(birth), [1] * len(birth), {}, order=order)


def test_many_boxes_of_streams_that_never_wait_are_placed_in_a_region_for_each() -> None:
    """Beyond the boxes that are compared in pairs: each stream needs as much as it would alone. spec: X6.1"""
    program = StreamProgram([0, 1, 0, 1], [], [], [[0, 2], [1, 3], [2], [3]])
    boxes = boxes_of(program, COMPARED // 3)
    first = Packing(list(range(len(boxes))), len(boxes))
    assert packed.pack(boxes, first).height == 4
    assert boxes.meetings == len(boxes) * (len(boxes) - 1)
    assert max(boxes.widened().death) == max(boxes.birth)


def branches(*more: str, wait: str = " after n4") -> Model:
    """Two branches on two streams, joined by an event."""
    return text_model(
        "node n1 Gemm x x -> a on 1", "node n2 Gemm a a -> b on 1", "node n3 Gemm x x -> c on 2",
        "node n4 Gemm c c -> d on 2", f"node n5 Add b d -> y on 1{wait}", *more,
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["packed", "slots", "pools"])
def test_the_claim_of_a_plan_is_an_antichain(layout: str) -> None:
    plan = plan_memory(branches(), options=PlanOptions(layout=layout)).plan
    [used] = [used for used in plan.usage if used.slots]
    names = plan.allocation.storage_names()
    assert (used.slots, used.minimal, [names[k] for k in used.antichain or ()]) == (5, True, list("xabcd"))


@pytest.mark.parametrize(
    ("parameters", "donated", "antichain"),
    [("v w", (), ["v", "w"]), ("v w empty", (), None), ("v w", ("v",), ["v", "w"]), ("", (), None)],
)
def test_parameters_keep_slots_of_their_own(
    parameters: str, donated: tuple[str, ...], antichain: list[str] | None
) -> None:
    """Each has one, in an arena that reuses no byte. spec: X6.9"""
    model = text_model(
        "node n1 Gemm x x -> a on 1", "node n2 Gemm a x -> y on 2 after n1", parameters=parameters, sizes={"empty": 0}
    )
    plan = plan_memory(replace(model, bindings=Bindings(donated=donated))).plan
    used = dict(zip((arena.name for arena in plan.allocation.arenas), plan.usage, strict=True))["parameters"]
    names = plan.allocation.storage_names()
    assert (used.slots, used.minimal) == (len(parameters.split()), antichain is not None)
    assert (used.antichain and [names[k] for k in used.antichain]) == antichain


def test_slots_that_are_reused_nowhere_may_be_more_than_needed() -> None:
    """Without reuse the three results have three slots, and two would do. spec: X6.9"""
    model = text_model("node n1 Relu x -> a on 1", "node n2 Relu a -> b on 1", "node n3 Relu b -> y on 1")
    plan = plan_memory(model, tuple(replace(arena, reuse=False) for arena in DEFAULT)).plan
    [used] = [used for used in plan.usage if used.slots]
    assert (used.slots, used.minimal, used.antichain) == (4, False, None)


def test_an_antichain_of_lifetimes_that_no_access_keeps_apart_is_not_claimed() -> None:
    """An input that nothing reads is there at step 0 in the list, and its bytes are free for all that is written."""
    model = text_model("node n1 Relu x -> y on 1", inputs="x unread")
    plan = plan_memory(model).plan
    [used] = [used for used in plan.usage if used.slots]
    names = plan.allocation.storage_names()
    row = {name: k for k, name in enumerate(names)}
    assert (used.slots, used.minimal, used.antichain) == (3, False, None)
    streams = streams_of_plan(plan.allocation)
    assert streams is not None
    assert is_antichain_of_plan(plan.allocation, [row["x"], row["y"]], streams.order())
    assert not is_antichain_of_plan(plan.allocation, [row["unread"], row["y"]], streams.order())


def test_a_model_in_which_two_nodes_race_is_refused_with_the_wait_that_it_lacks() -> None:
    with pytest.raises(TmmuError) as refused:
        plan_memory(branches(wait=""))
    assert (refused.value.code_id, refused.value.place, refused.value.fix) == (
        "INVALID_IR", "node 'n5'", "let it wait: after n4",
    )  # fmt: skip
    changed = text_model(
        "node n1 Relu x -> a on 1", "node n2 Relu a -> b on 2 after n1", "node n3 Add a x -> a changes a on 1",
        "node n4 Add a b -> y on 1 after n2",
    )  # fmt: skip
    with pytest.raises(TmmuError, match="'n3' writes 'a' while 'n2' may still use it"):
        plan_memory(changed)


def test_a_model_in_which_a_view_is_read_before_it_is_made_is_refused() -> None:
    """spec: X5.13"""
    view, made, read = "tensor v u8 64 view x 0", "node n1 my::Cut x -> v on 1", "node n2 Relu v -> y on 2"
    with pytest.raises(TmmuError, match="'n2' reads 'v' while 'n1' may still use it"):
        plan_memory(text_model(view, made, read))
    plan_memory(text_model(view, made, f"{read} after n1"))


@pytest.mark.parametrize(
    ("options", "binding"),
    [(PlanOptions(order="memory"), "order"), (PlanOptions(listed=("n1",)), "execution-order")],
)
def test_another_order_is_refused_if_the_streams_state_one(options: PlanOptions, binding: str) -> None:
    with pytest.raises(TmmuError, match=f"drop --{binding}"):
        plan_memory(branches(), options=options)


def test_an_order_comes_before_a_file_of_streams() -> None:
    """Of three results that are read one after another, one at a time is live in the better order. spec: X6.10"""
    model = text_model(
        "node n1 Relu x -> a", "node n2 Relu x -> b", "node n3 Relu x -> c", "node n4 Sum a -> p", "node n5 Sum b -> q",
        "node n6 Sum c -> r", "node n7 Sum p q r -> y", sizes=dict.fromkeys("pqr", 1),
    )  # fmt: skip
    streams = read_streams({"default": "1", "streams": {"2": ["n7"]}})
    orders = ("given", "memory")
    plans = [
        plan_memory(model, options=PlanOptions(layout="packed", order=order, streams=streams)).plan for order in orders
    ]
    assert [list(plan.allocation.steps.node)[:2] for plan in plans] == [["n1", "n2"], ["n1", "n4"]]
    given, memory = (sum(metrics.compute_footprints(plan.allocation)) for plan in plans)
    assert memory < given


def uneven(count: int) -> Model:
    """Return chains of uneven results on two streams that wait for each other now and then."""
    lines, sizes, last = [], dict[str, int](), ["x", "x"]
    for n in range(count):
        own = n * 3 // 2 % 2
        other = last[1 - own] if n % 3 == 2 and last[1 - own] != "x" else ""
        after = f" after n{other[1:]}" if other else ""
        lines.append(f"node n{n} Sum {last[own]} {other} -> t{n} on {own}{after}")
        sizes[f"t{n}"], last[own] = 1 + n * 263 % 997, f"t{n}"
    return text_model(*lines, f"node end Sum {' '.join(last)} -> y on 0 after n{last[1][1:]}", sizes=sizes)


def test_an_effort_finds_a_lower_placement_of_steps_on_streams() -> None:
    """spec: X6.11, A8.8, A8.9"""
    model = uneven(30)
    plain, some, enough = (
        plan_memory(model, options=PlanOptions(layout="packed", effort=effort)).plan for effort in (None, 4096, 100_000)
    )
    sizes = [sum(metrics.compute_footprints(plan.allocation)) for plan in (plain, some, enough)]
    assert sizes[0] >= sizes[1] > sizes[2]
    check(enough, model, is_ir=True)
    assert enough.provenance is not None
    assert [bound.by for bound in enough.provenance.bounds] == ["sequence", "sequence", "antichain", "antichain"]
    assert 0 < enough.provenance.bounds[2].bytes <= sizes[2]
    again = plan_memory(model, options=PlanOptions(layout="packed", effort=enough.provenance.effort)).plan
    assert again.allocation.storages.offset.tolist() == enough.allocation.storages.offset.tolist()


def test_an_effort_ends_where_nothing_is_lower() -> None:
    """A bound that is met is not searched below, and a fixed storage may end above all others. spec: X6.11"""
    for model, origin in ((branches(), "antichain"), (uneven(3), "antichain")):
        plan = plan_memory(model, options=PlanOptions(layout="packed", effort=1 << 20)).plan
        assert plan.provenance is not None
        assert plan.provenance.effort == 0
        assert plan.provenance.bounds[2].by == origin
    fixed = PlanOptions(layout="packed", effort=1 << 12, fixed={"a": 1 << 16})
    plan = plan_memory(branches(), options=fixed).plan
    assert plan.provenance is not None
    assert plan.provenance.bounds[2].by == "fixed"


def test_a_node_that_was_added_without_a_stream_is_refused() -> None:
    """As a pass that inserts nodes would leave it; the reader refuses such a model before."""
    model = branches()
    *nodes, last = model.nodes
    with pytest.raises(TmmuError, match="added to a model with streams") as refused:
        plan_memory(replace(model, nodes=(*nodes, replace(last, stream="", after=()))))
    assert refused.value.place == "node 'n5'"


def test_c_is_not_generated_of_several_streams(tmp_path: Path) -> None:
    plan, folder = plan_memory(branches()).plan, str(tmp_path / "c")
    with pytest.raises(TmmuError, match="its steps run on 2 streams") as refused:
        generate(plan, "model.onnx", folder, prove=lambda *_: None)  # type: ignore[arg-type]
    assert (refused.value.code_id, refused.value.place) == ("MODE_VIOLATION", "the plan")
    manifest = PlanSet(Agreement(("p",), (), ()), "packed")
    with pytest.raises(TmmuError, match="its steps run on 2 streams") as refused:
        generate_set(manifest, {"p": ProgramSource(plan, "m.onnx")}, folder, prove=lambda: None)  # type: ignore[arg-type, return-value]
    assert refused.value.place == "program 'p'"
    assert not (tmp_path / "c").exists()


# Files of streams.


def test_nodes_wait_for_the_last_node_of_each_other_stream_that_they_need() -> None:
    model = text_model(
        "node n1 Relu x -> a", "node n2 Relu a -> b", "node n3 Add a b -> c", "node n4 Add c x -> y",
    )  # fmt: skip
    found = assign_streams(model, read_streams({"default": "1", "streams": {"2": ["n3"]}, "after": {"n4": ["n1"]}}))
    assert [(node.stream, node.after) for node in found.nodes] == [
        ("1", ()), ("1", ()), ("2", ("n2",)), ("1", ("n1", "n3")),
    ]  # fmt: skip


WRONG = {
    'other = "1"': "unknown key",
    "default = 1": "expected the name of a stream, got 1",
    "streams = 1": "expected a table, got 1",
    "[streams]\n2 = 'n1'": "expected a list of nodes, got 'n1'",
    "[streams]\n2 = [1]": r"expected a list of nodes, got \[1\]",
    "[streams": "not TOML",
    "default = 'async/0'": "'async/0' is the stream of an asynchronous operation",
    "default = '1'\n[streams]\n'async/0' = ['n1']": "'async/0' is the stream of an asynchronous operation",
    "[streams]\n2 = ['n1']": "no pattern names the node 'n2'",
    "default = '1'\n[streams]\n2 = ['m*']": "no node of the main graph fits 'm",
    "default = '1'\n[after]\nn2 = ['n9']": "'n9' is not a node of the main graph",
    "default = '1'\n[after]\nn1 = ['n2']": "'n1' waits for 'n2', which is not earlier",
}
"""Files of streams, and what is said of them."""


@pytest.mark.parametrize("content", WRONG)
def test_a_wrong_file_of_streams_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(content)
    model = text_model("node n1 Relu x -> a", "node n2 Relu a -> y")
    with pytest.raises(TmmuError, match=WRONG[content]) as refused:
        assign_streams(model, load_streams(tmp_path / "s.toml"))
    assert refused.value.code_id == "INVALID_BINDING"


def test_a_model_that_states_streams_takes_no_file() -> None:
    with pytest.raises(TmmuError, match="drop --streams"):
        assign_streams(branches(), StreamAssignment((), "1", {}))


# Events.


def stated(third: str, fourth: str = " after s3", place: int = 256) -> Plan:
    """A plan whose `c` is in the bytes of `a` by default."""
    found = text.read(
        f"""tmmu-plan-text 1
        arena act 1280 align 64
        tensor x 256 act 0 input
        tensor a 256 act 256
        tensor b 256 act 512
        tensor c 256 act {place}
        tensor y 256 act 768 output
        step s1 Gemm x -> a on 1
        step s2 Gemm a -> b on 1
        step s3 Gemm x -> c on 2{third}
        step s4 Add b c -> y on 1{fourth}
        """.encode(), "stated.plan.txt",
    )  # fmt: skip
    assert isinstance(found, Plan)
    return found


@pytest.mark.parametrize(
    ("plan", "races", "repair"),
    [
        (stated(""), [(0, 2), (1, 2)], (2, 1)),
        (stated(" after s1"), [(1, 2)], (2, 1)),
        (stated(" after s2"), [], None),
        (stated("", place=1024), [], None),
        (stated("", "", 1024), [(2, 3)], (3, 2)),
        (stated("", ""), [(0, 2), (1, 2), (2, 3)], None),
    ],
)
def test_the_event_that_repairs_all_races(
    plan: Plan, races: list[tuple[int, int]], repair: tuple[int, int] | None
) -> None:
    """spec: RP3.7"""
    streams = streams_of_plan(plan.allocation)
    assert streams is not None
    order = streams.order()
    found = find_races(plan.allocation, order)
    assert [(race.earlier, race.later) for race in found] == races
    assert (find_repair(order, found) if found else None) == repair
    assert len(find_races(plan.allocation, order, most=1)) == min(1, len(races))


def test_what_events_save_is_slots_and_bytes() -> None:
    """spec: RP3.7"""
    [first, second] = measure_events(stated(" after s2").allocation, 9)
    assert (first.event, first.slots, first.bytes, first.races) == ((2, 1), (4,), (1024,), False)
    assert (second.event, second.races) == ((3, 2), True)
    assert measure_events(stated(" after s2").allocation, 1) == [first]
    assert measure_events(plan_memory(text_model("node n1 Relu x -> y")).plan.allocation, 9) == []


def test_the_command_states_the_antichain_and_what_overlap_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: X6.7"""
    (tmp_path / "m.ir.txt").write_text(write(branches()))
    code, out, _ = ran(capsys, "plan", str(tmp_path / "m.ir.txt"), "-o", str(tmp_path / "m.plan.cbor"))
    assert code == 0
    assert "5 storages form an antichain" in out
    assert "one after another the steps would need 320 (320 B); overlap costs +80.0%" in out
