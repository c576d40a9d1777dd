"""Inputs that arrive late, in text plans and text models, in mode backward, and every way to state them wrongly.

spec: T1.9, M2.16, V1.18, X2.14, X3.12
"""

from __future__ import annotations

import re

import pytest

from proofs.proving.obligations import MODULES
from proofs.verify.verdict import EXECUTION, state_execution
from tests.support.objections import objections
from tests.support.text_models import text_model
from tests.support.three_checks import by_rows, by_the_checker
from tests.support.wrong_plans.row import of_text
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Phase
from tmmu.ir import text, text_writer
from tmmu.ir.arrivals import delay_inputs, settle_arrivals
from tmmu.ir.order import sort_topologically
from tmmu.ir.validate import validate_model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.modes import prepare_graph
from tmmu.plans import text as plan_text
from tmmu.plans import text_writer as plan_writer
from tmmu.plans.configuration import DEFAULT
from tmmu.plans.sections import Plan

NOTHING: frozenset[str] = frozenset()
LATE = (
    "tensor x 64 m 0 input; tensor late 64 m 0 input from third; tensor a 64 m 64; tensor b 64 m 128;"
    "tensor c 64 m 64; tensor y 64 m 0 output;"
    "step first Relu x -> a; step second Relu a -> b; step third Add b late -> c; step last Relu c -> y"
)
"""`late` has the bytes of `x`, which no step reads any more when it arrives."""


def plan_of(lines: str) -> Plan:
    found = of_text(lines)
    assert isinstance(found, Plan)
    return found


def find_faults(lines: str) -> tuple[set[str], set[str]]:
    """The obligations that the naive checker finds broken, and those that the rows do not show."""
    plan = plan_of(lines)
    return by_the_checker(plan, None, NOTHING), by_rows(plan, None, NOTHING)


def test_a_verdict_assumes_that_the_caller_writes_late_inputs_at_their_steps() -> None:
    """spec: V1.19"""
    assert state_execution(plan_of(LATE)) == f"{EXECUTION}; the caller writes late at step 2"
    assert state_execution(plan_of(LATE.replace(" 0 input from third", " 256 input"))) == EXECUTION


def test_the_bytes_of_a_late_input_are_free_until_it_arrives() -> None:
    plan = plan_of(LATE)
    assert list(objections(plan, None)) == []
    assert find_faults(LATE) == (set(), set())
    t = plan.allocation.tensors
    assert [(t.name[r], int(t.birth[r]), int(t.death[r])) for r in (0, 1)] == [("x", 0, 0), ("late", 2, 3)]
    assert plan.allocation.steps.node.list() == ["first", "second", "late.arrival", "third", "last"]
    checker, rows = find_faults(LATE.replace(" from third", ""))
    assert "no_live_overlap" in checker
    assert "no_live_overlap" in rows


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from third", "from first"),  # before x is read
        ("tensor late 64 m 0", "tensor late 64 m 64"),  # over a, which second reads before, and c, which third writes
        ("tensor y 64 m 0", "tensor y 64 m 128"),  # right: y may be anywhere else
    ],
)
def test_only_plans_whose_late_inputs_have_their_bytes_are_right(old: str, new: str) -> None:
    checker, rows = find_faults(LATE.replace(old, new))
    wrong = "y 64" not in new
    assert ("no_live_overlap" in checker, "no_live_overlap" in rows) == (wrong, wrong)


FEED = LATE.replace(" from third", "").replace("step third", "step feed tmmu.inputs::Arrive -> late; step third")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Arrive -> late", "Arrive b -> late"),  # it reads
        ("Arrive -> late", "Arrive late -> late changes late"),  # it changes
        ("Arrive -> late", "Arrive -> late z"),  # z is no input
        ("Arrive -> late", "Arrive -> late x"),  # x arrives after it is read
        ("tmmu.inputs::Arrive -> late", "Relu -> late"),  # no arrival
        ("tmmu.inputs::Arrive -> late", "tmmu::Arrive -> late"),  # an operator of another domain
        ("tensor late 64 m 0 input", "tensor late 64 m 0 parameter"),  # parameters do not arrive late
        ("step feed tmmu.inputs::Arrive -> late", "begin n If a ->; step feed tmmu.inputs::Arrive -> late; end n ->"),
        ("step last", "step again tmmu.inputs::Arrive -> late; step last"),  # it arrives twice
    ],
)
def test_an_arrival_does_nothing_but_write_inputs(old: str, new: str) -> None:
    assert find_faults(FEED) == (set(), set())
    assert old in FEED
    lines = FEED.replace(old, new).replace("tensor y", "tensor z 8 m 512; tensor y")
    checker, rows = find_faults(lines if " z" in new else lines.replace("tensor z 8 m 512; ", ""))
    assert "lifetimes_cover_accesses" in checker
    assert "lifetimes_cover_accesses" in rows


def test_arrivals_on_streams_are_ordered_with_their_readers() -> None:
    streams = FEED.replace("-> a", "-> a on s").replace("-> b", "-> b on s").replace("-> c", "-> c on s")
    streams = streams.replace("-> y", "-> y on s").replace("Arrive -> late", "Arrive -> late on copies after first")
    assert list(objections(plan_of(streams.replace("-> c on s", "-> c on s after feed")), None)) == []
    assert list(objections(plan_of(streams), None)) != []
    unordered = streams.replace(" after first", "").replace("-> c on s", "-> c on s after feed")
    assert list(objections(plan_of(unordered), None)) != []  # x is read while late arrives over it


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("input from third", "from third", "only an input arrives late"),
        ("input from third", "parameter from third", "only an input arrives late"),
        ("from third", "from thirds", "no line declares the step 'thirds'"),
        ("input from third", "input from", "expected a step"),
        (
            "step last",
            "begin n If c ->; step third2 Relu c -> y; end n ->; step last",
            "cannot arrive inside of a body",
        ),
        ("step first", "step late.arrival", "'late.arrival' is declared twice"),
        ("step", "on a stream", "cannot arrive with a step on a stream"),
    ],
)
def test_what_a_text_plan_cannot_mean_is_refused(old: str, new: str, what: str) -> None:
    lines = LATE.replace("from third", "from third2") if "third2" in new else LATE
    if new == "on a stream":
        lines, old, new = re.sub(r"(-> [abcy])", r"\1 on s", lines), "", ""
    with pytest.raises(TmmuError, match=what) as refused:
        of_text(lines.replace(old, new))
    assert refused.value.fix or "expected a step" in what


def test_a_plan_with_late_inputs_is_written_as_text_and_read_again() -> None:
    plan = plan_of(LATE)
    assert plan_text.read(plan_writer.write(plan).encode(), "again") == plan


MODEL = """tmmu-ir-text 1
tensor x f32 64 input
tensor late f32 64 input from third
tensor too f32 64 input from third
tensor a f32 64
tensor b f32 64
tensor c f32 64
tensor y f32 64 output
node first Relu x -> a
node second Relu a -> b
node third Add b late -> c
node last Add c too -> y
"""


def read(lines: str) -> Model:
    found = sort_topologically(text.read(lines.encode(), "g.ir.txt"))
    validate_model(found)
    return found


def test_a_model_with_late_inputs_is_planned_in_less_memory() -> None:
    model = read(MODEL)
    assert [node.name for node in model.nodes] == [
        "first", "second", "late.arrival", "too.arrival", "third", "last",
    ]  # fmt: skip
    assert text.read(text_writer.write(model).encode(), "again") == model
    plan = plan_memory(model, DEFAULT).plan
    assert list(objections(plan, model)) == []
    steps = plan.allocation.steps.node.list()
    assert steps == ["first", "second", "late.arrival", "third", "too.arrival", "last"], "each before its first reader"
    early = read(MODEL.replace(" from third", ""))
    footprint = [sum(use.footprint or 0 for use in plan_memory(one, DEFAULT).plan.usage) for one in (model, early)]
    assert footprint == [3 * 256, 4 * 256]
    assert list(objections(plan, early)) != []


def test_an_order_lists_the_nodes_that_a_person_wrote() -> None:
    model = read(MODEL + "order first second third last\n")
    assert [node.name for node in model.nodes] == ["first", "second", "late.arrival", "too.arrival", "third", "last"]
    with pytest.raises(TmmuError, match="is not a node of the main graph"):
        read(MODEL + "order first second late.arrival third last\n")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("64 input from third\ntensor too", "64 from third\ntensor too", "only an input arrives late"),
        ("from third\ntensor too", "from thirds\ntensor too", "no line declares the node 'thirds'"),
        ("node first", "node late.arrival", "'late.arrival' is declared twice"),
        ("node", "on a stream", "on a stream"),
        ("node second Relu a -> b", "node second Relu a late -> b", "LIVENESS_CYCLE|order|late"),
    ],
)
def test_what_a_text_model_cannot_mean_is_refused(old: str, new: str, what: str) -> None:
    assert old in MODEL
    lines = MODEL.replace(old, new)
    if "a late" in new:  # no refusal: the arrival is before the first of its readers
        assert [node.name for node in settle_arrivals(read(lines)).nodes][1] == "late.arrival"
        return
    if new == "on a stream":
        lines = re.sub(r"(-> [abcy])", r"\1 on s", MODEL)
    with pytest.raises(TmmuError, match=what):
        read(lines)


EXPLICIT = """tmmu-ir-text 1
tensor x f32 4 input
tensor y f32 4 output
node feed tmmu.inputs::Arrive -> x
node last Relu x -> y
"""


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("x f32 4 input", "x f32 4 parameter", "no input"),
        ("x f32 4 input", "x f32 4", "no input"),
        ("Arrive -> x", "Arrive ->", "writes inputs"),
        ("Arrive -> x", "Arrive x -> x changes x", "reads nothing"),
        ("Arrive -> x", "Arrive -> x scratch 4", "needs no scratch"),
        ("node last", "node more tmmu.inputs::Arrive -> x\nnode last", "already written"),
        ("tmmu.inputs::Arrive", "Relu", "already written"),
    ],
)
def test_a_node_that_is_no_arrival_is_refused(old: str, new: str, what: str) -> None:
    read(EXPLICIT)
    with pytest.raises(TmmuError, match=what):
        read(EXPLICIT.replace(old, new))


def test_seeds_of_gradients_arrive_when_they_are_first_read() -> None:
    joint = prepare_graph(text_model("node m MatMul x w -> y", parameters="w", each="f32 8x8"), "backward", DEFAULT)
    plan = plan_memory(joint, DEFAULT, PlanOptions(mode="backward", late_seeds=True)).plan
    assert list(objections(plan, joint)) == []
    t, steps = plan.allocation.tensors, plan.allocation.steps
    row = t.name.list().index("y.seed")
    first = next(n for n, reads in enumerate(steps.listed("reads")) if row in reads)
    assert (int(t.birth[row]), int(t.writer[row])) == (first - 1, first - 1)
    assert steps.node[first - 1] == "y.seed.arrival"
    early = plan_memory(joint, DEFAULT, PlanOptions(mode="backward")).plan
    assert list(objections(early, joint)) == [], "the verifier takes what the plan states"
    assert int(early.allocation.tensors.birth[early.allocation.tensors.name.list().index("y.seed")]) == 0


def test_only_seeds_arrive_late_and_only_in_mode_backward() -> None:
    model = text_model("node m MatMul x w -> y", parameters="w", each="f32 8x8")
    with pytest.raises(TmmuError, match="only in mode 'backward'"):
        plan_memory(model, DEFAULT, PlanOptions(late_seeds=True))
    joint = prepare_graph(model, "backward", DEFAULT)
    late = settle_arrivals(delay_inputs(joint, [joint.inputs[0]], Phase.FORWARD))
    plan = plan_memory(late, DEFAULT, PlanOptions(mode="backward")).plan
    assert list(objections(plan, late)) == []
    assert list(objections(plan, joint)) != [], "x is no seed"


def test_an_arrival_is_before_the_node_whose_body_reads_it() -> None:
    lines = (
        "tmmu-ir-text 1\ntensor k f32 1 input\ntensor s f32 4 input\ntensor a f32 1\ntensor t f32 4\n"
        "tensor u f32 4\ntensor y f32 4 output\nnode first Relu k -> a\nbegin choose If a -> y\n"
        "arm then_branch -> t\nnode one Relu s -> t\narm else_branch -> u\nnode two Relu s -> u\nend choose\n"
    )
    model = read(lines)
    late = sort_topologically(delay_inputs(model, [1], Phase.FORWARD))
    assert [node.name for node in settle_arrivals(late).nodes] == ["first", "s.arrival", "choose", "one", "two"]
    plan = plan_memory(late, DEFAULT).plan
    assert list(objections(plan, late)) == []


def test_every_obligation_that_these_tests_name_is_one() -> None:
    assert {"lifetimes_cover_accesses", "no_live_overlap"} <= set(MODULES)
