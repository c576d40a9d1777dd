"""Streams in text plans, text models and their binary files: what is read, and what is refused, with its place.

spec: X2.10, X2.11, X2.12, X2.13, X3.11, X5.1, X5.5, X5.6, X5.8
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tmmu.core.columns import build_column
from tmmu.core.errors import TmmuError
from tmmu.core.streams import WAIT
from tmmu.ir import columns as ir_columns
from tmmu.ir import order, text_writer, validate
from tmmu.ir import text as ir_text
from tmmu.plans import file, text
from tmmu.plans import text_writer as plan_writer
from tmmu.plans.sections import Plan

HEAD = "arena a 1024\ntensor x 64 a 0 input\ntensor t 64 a 64\ntensor u 64 a 128\ntensor y 64 a 192 output\n"
STEPS = "step p Gemm x -> t on 1\nstep q Gemm x -> u on 2\nstep r Add t u -> y on 1 after q\n"
BODY = "begin n Loop x -> t loop{}\nstep p Gemm t -> u{}\nend n u -> y\n"
MODEL = "tensor x f32 4 input\ntensor t f32 4\ntensor u f32 4\ntensor y f32 4 output\n"


def plan_of(lines: str) -> Plan:
    found = text.read(f"tmmu-plan-text 1\n{HEAD}{lines}".encode(), "p")
    assert isinstance(found, Plan)
    return found


def test_a_plan_states_streams_and_waits_and_keeps_them_in_text_and_file() -> None:
    plan = plan_of(STEPS)
    body = plan.allocation
    assert body.streams == ("1", "2")
    assert body.steps.stream.tolist() == [0, 1, 0]
    assert [column.tolist() for column in body.waits] == [[2], [1]]
    assert file.decode(file.encode(plan)).plan == plan
    assert "step r Add t u -> y on 1 after q" in plan_writer.write(plan)


def test_without_streams_nothing_of_them_is_in_a_file() -> None:
    found = file.to_object(plan_of("step p Gemm x -> t\nstep q Gemm t -> y\n"))["allocation"]
    assert "streams" not in found
    assert not {"stream", "after_at", "after"} & set(found["steps"])


def test_words_of_streams_are_names_where_a_tensor_or_step_has_them() -> None:
    lines = "tensor on 8 a 256\ntensor after 8 a 264\nstep after Gemm x -> on after\nstep on Gemm on after -> y\n"
    plan = plan_of(lines)
    assert plan.allocation.streams == ()
    assert plan.allocation.steps.listed("reads") == [(0,), (4, 5)]
    assert text.read(plan_writer.write(plan).encode(), "p") == plan


def test_a_node_with_bodies_has_one_stream() -> None:
    plan = plan_of(BODY.format(" on s", "") + "step z Gemm y -> on 2 after n\n")
    assert plan.allocation.steps.stream.tolist() == [0, 0, 0, 1]
    assert plan.allocation.steps.listed("after") == [(), (), (), (2,)]
    assert text.read(plan_writer.write(plan).encode(), "p") == plan


def test_an_asynchronous_operation_is_a_step_on_a_lane_that_is_used_again_after_its_wait() -> None:
    lines = "".join(f"start c{k} Copy x -> t on 1\nwait w{k} c{k} on 1\n" for k in range(2))
    lines = lines.replace("-> t", "-> u", 1) + "start d Copy x -> y on 1\nstart e Copy x -> on 2\n"
    body = plan_of(lines + "wait v d on 2\nwait w e on 1 after v\n").allocation
    on = [body.streams[k] for k in body.steps.stream]
    assert on == ["async/0", "1", "async/0", "1", "async/0", "async/1", "2", "1"]
    assert body.steps.listed("after") == [(), (0,), (1,), (2,), (3,), (), (4,), (5, 6)]
    assert body.ops[body.steps.op[1]] == WAIT


REFUSED_PLANS = {
    "unknown step": ("step p Gemm x -> t on 1 after z", "7:31", "no line declares the step 'z'"),
    "cycle": ("step p Gemm x -> t on 1 after q\nstep q Gemm x -> u on 1", "7:31", "events must not form a cycle"),
    "itself": ("step p Gemm x -> t on 1 after p", "7:31", "events must not form a cycle"),
    "only some": ("step p Gemm x -> t on 1\nstep q Gemm x -> u", "8:18", "states no stream, and others do"),
    "only later": ("step q Gemm x -> u\nstep p Gemm x -> t on 1", "8:23", "states a stream, and others do not"),
    "after alone": ("step p Gemm x -> t\nstep q Gemm x -> u after p", "8:26", "expected on STREAM beside after"),
    "after nothing": ("step p Gemm x -> t on 1 after", "7:30", "expected a step after after"),
    "twice": (STEPS.replace("after q", "after q q"), "9:34", "'q' is listed twice"),
    "inside": (BODY.format(" on 1", " on 1"), "8:23", "streams inside of a body are not supported"),
    "start inside": (BODY.format(" on 1", "").replace("step p", "start p"), "8:1", "start inside of a body"),
    "no start": ("wait w c on 1", "7:8", "wait for 'c', which no start before it begins"),
    "second wait": ("start c Copy x -> t on 1\nwait v c on 1\nwait w c on 1", "9:8", "'v' waits for 'c' already"),
    "no wait": ("start c Copy x -> t on 1", "7:1", "'c' is started, and no step waits for it"),
    "start on none": ("start c Copy x -> t\nwait w c on 1", "7:19", "expected on STREAM, the stream that issues"),
    "wait on none": ("start c Copy x -> t on 1\nwait w c", "8:8", "expected on STREAM, the stream that waits"),
    "start among others": ("step p Gemm x -> u\nstart c Copy x -> t on 1", "8:24", "other lines state no stream"),
    "lane": ("start c Copy x -> t on 1\nwait w c on async/0", "8:13", "is the stream of an asynchronous operation"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_PLANS)
def test_a_text_plan_with_wrong_streams_is_refused_at_its_place(name: str) -> None:
    lines, place, what = REFUSED_PLANS[name]
    with pytest.raises(TmmuError, match=what) as raised:
        plan_of(lines + "\n")
    assert (raised.value.code_id, raised.value.file) == ("INVALID_PLAN", f"p:{place}")


def columns_of(**changes: list[int]) -> Plan:
    plan = plan_of(STEPS)
    columns: dict[str, Any] = {name: build_column(rows, np.uint32) for name, rows in changes.items()}
    return replace(plan, allocation=replace(plan.allocation, steps=replace(plan.allocation.steps, **columns)))


REFUSED_COLUMNS = {
    "stream": ({"stream": [0, 2, 0]}, "steps.stream row 1"),
    "rows": ({"stream": [0, 1]}, "steps.stream"),
    "bounds": ({"after_at": [0, 0, 0, 2]}, "steps.after_at"),
    "cycle": ({"after_at": [0, 0, 1, 1]}, "steps.after of step 1"),
    "unsorted": ({"after_at": [0, 0, 0, 2], "after": [1, 1]}, "steps.after of step 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_COLUMNS)
def test_the_gate_refuses_wrong_columns_of_streams(name: str) -> None:
    changes, place = REFUSED_COLUMNS[name]
    with pytest.raises(TmmuError) as raised:
        file.decode(file.encode(columns_of(**changes)))
    assert (raised.value.code_id, raised.value.place) == ("INVALID_PLAN", place)


@pytest.mark.parametrize("streams", [("1", "1"), ("1", "")])
def test_the_gate_refuses_names_of_streams_that_are_empty_or_not_unique(streams: tuple[str, ...]) -> None:
    plan = plan_of(STEPS)
    with pytest.raises(TmmuError, match="streams"):
        file.decode(file.encode(replace(plan, allocation=replace(plan.allocation, streams=streams))))


INSIDE = {
    "stream": {"stream": [0, 1, 0, 0]},
    "waited for": {"after": [1]},
    "waits": {"after": [0], "after_at": [0, 0, 1, 1, 1]},
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_the_gate_refuses_streams_inside_of_bodies(name: str) -> None:
    plan = plan_of(BODY.format(" on s", "") + "step z Gemm y -> on s after n\n")
    changed: dict[str, Any] = {column: build_column(rows, np.uint32) for column, rows in INSIDE[name].items()}
    body = replace(plan.allocation, streams=("s", "t"), steps=replace(plan.allocation.steps, **changed))
    with pytest.raises(TmmuError, match="inside of a body"):
        file.decode(file.encode(replace(plan, allocation=body)))


def test_a_model_states_streams_and_keeps_them_in_text_and_file() -> None:
    lines = "start q Gemm x -> u on 1\nnode p Gemm x -> t on 1\nwait w q on 2\nnode r Add t u -> y on 2 after p\n"
    model = ir_text.read(f"tmmu-ir-text 1\n{MODEL}{lines}".encode(), "m")
    validate.validate_model(model)
    assert [(node.stream, node.after) for node in model.nodes] == [
        ("async/0", ()), ("1", ()), ("2", ("q",)), ("2", ("p",)),
    ]  # fmt: skip
    assert ir_columns.from_object(ir_columns.to_object(model)) == model
    assert ir_text.read(text_writer.write(model).encode(), "m") == model
    assert (0, 2) in order.find_stream_edges(model)
    assert (2, 3) in order.find_stream_edges(model)


REFUSED_MODELS = {
    "unknown": ("node p Gemm x -> t on 1 after z", "INVALID_IR", "no line declares the node 'z'"),
    "cycle": ("node p Gemm x -> t on 1 after q\nnode q Gemm x -> u on 1", "LIVENESS_CYCLE", "depends on its own"),
    "only some": ("node p Gemm x -> t on 1\nnode q Gemm x -> u", "INVALID_IR", "states no stream"),
    "no start": ("wait w c on 1", "INVALID_IR", "which no start before it begins"),
    "no wait": ("start c Copy x -> t on 1", "INVALID_IR", "no step waits for it"),
    "inside": (
        "begin n Loop x ->\narm b t -> t loop\nnode p Gemm t -> u on 1\nend n", "INVALID_IR", "are not supported",
    ),
    "wait inside": (
        "start c Copy x -> on 1\nbegin n Loop x -> on 1\narm b t -> t loop\nwait w c\nend n", "INVALID_IR",
        "wait inside of a body",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_MODELS)
def test_a_text_model_with_wrong_streams_is_refused(name: str) -> None:
    lines, code, what = REFUSED_MODELS[name]
    with pytest.raises(TmmuError, match=what) as raised:
        order.sort_topologically(ir_text.read(f"tmmu-ir-text 1\n{MODEL}{lines}\n".encode(), "m"))
    assert raised.value.code_id == code


@pytest.mark.parametrize(
    "changes", [{"stream": ""}, {"after": ("p",)}, {"after": ("q", "q")}, {"after": ("z",)}, {"stream": "a\0b"}]
)  # fmt: skip
def test_a_model_with_wrong_streams_is_not_valid(changes: dict[str, object]) -> None:
    lines = "node p Gemm x -> t on 1\nnode q Gemm x -> u on 1\nnode r Add t u -> y on 1\n"
    model = ir_text.read(f"tmmu-ir-text 1\n{MODEL}{lines}".encode(), "m")
    validate.validate_model(model)
    last = replace(model.nodes[2], **changes)  # type: ignore[arg-type]  # a table of fields
    wrong = replace(model, nodes=(*model.nodes[:2], last))
    if changes == {"after": ("p",)}:
        validate.validate_model(wrong)
        return
    with pytest.raises(TmmuError, match="node"):
        validate.validate_model(wrong)
