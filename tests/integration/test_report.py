"""What `tmmu report` writes: maps of arenas, pages, images, and files for other viewers."""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
import subprocess
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.support.commands import ran
from tests.support.screenshots import RACE
from tests.support.synthetic import training_plan
from tests.support.text_models import text_model
from tests.support.tools import require_compiler
from tmmu.ir import files
from tmmu.plans import file, metrics
from tmmu.plans.sections import Plan
from tmmu.report import records
from tmmu.report.arena_map import ArenaMap, arena_maps, step_names
from tmmu.report.lanes import find_lanes

PLAN = training_plan(60, seed=3, in_place=0.3, views=0.3, arenas=2)
HOSTILE = "</script><script>alert(1)</script>\"'&"


@pytest.fixture
def pages() -> ModuleType:
    """The module, which loads Bokeh: a worker that only collects these tests need not."""
    from tmmu.report import page

    return page


def named(name: str) -> Plan:
    """A plan with a tensor of this name."""
    from tmmu import Graph
    from tmmu import plan as planned

    g = Graph("g")
    g.output(g.node("Relu", g.input(name, (4,)), g.tensor("y", (4,))))
    found = planned(g).sections
    assert isinstance(found, Plan)
    return found


def test_ticks_are_at_round_numbers_of_a_unit(pages: ModuleType) -> None:
    """RP1.2: 50, 100 and 150 MiB, where a decimal axis has 47.68 and 95.37."""
    html = pages.page("map", [], [("map", arena_maps(PLAN), step_names(PLAN))])
    assert '"base":1024' in html
    assert f'"mantissas":{str(pages.ROUND).replace(" ", "")}' in html


def test_each_storage_is_a_rectangle_of_its_steps_and_bytes() -> None:
    """spec: RP1.1, RP1.2"""
    maps = {one.name: one for one in arena_maps(PLAN)}
    storages = PLAN.allocation.storages
    rows = metrics.tensor_records(PLAN)
    steps = metrics.step_records(PLAN)
    for a, arena in enumerate(PLAN.allocation.arenas):
        one, members = maps[arena.name], np.flatnonzero(storages.arena == a)
        assert one.footprint == metrics.compute_footprints(PLAN.allocation)[a]
        for k, storage in enumerate(members.tolist()):
            inside = [row for row in rows if row["storage"] == storage]
            assert one.names[k].split("\n") == [row["name"] for row in inside]
            assert (one.offset[k], one.bytes[k]) == (storages.offset[storage], storages.bytes[storage])
            assert (one.birth[k], one.death[k]) == (storages.birth[storage], storages.death[storage])
            assert one.slot[k] == inside[0]["slot"]
            assert one.role[k] == inside[0]["role"]
            names = {row["name"] for row in inside}
            reading = [step["step"] for step in steps if names & set(step["reads"])]
            assert one.reader[k] == max(reading, default=-1)
            writer = inside[0]["writer"]
            assert one.producer[k] == (-1 if writer is None else writer)
            assert one.operator[k] == ("the caller" if writer is None else steps[writer]["op"])
        live = [
            sum(int(storages.bytes[k]) for k in members if storages.birth[k] <= n <= storages.death[k])
            for n in range(len(steps))
        ]
        assert one.live.tolist() == live
        assert (one.peak, one.peak_step) == (max(live), live.index(max(live)))
        assert (one.peak, one.peak_step) == (PLAN.usage[a].peak_live_bytes, PLAN.usage[a].peak_step)
        assert [one.names[k].split("\n")[0] for k in one.at_peak(5)] == [
            name for name, *_ in metrics.storages_at_peak(PLAN, a)[:5]
        ]


def test_lifetimes_alone_have_a_map_too(pages: ModuleType, tmp_path: Path) -> None:
    """spec: RP1.1"""
    path = tmp_path / "b.plan.txt"
    path.write_text("tmmu-plan-text 1\narena a 512\nbuffer x 256 a 0 live 0 1\nbuffer y 256 a 256 live 1 9\n")
    plan = file.load_any(path).plan
    (one,) = arena_maps(plan)
    assert (one.names, one.live.tolist()) == (["x", "y"], [256, 512, *[256] * 8])
    assert "x" in pages.page("b", [], [("b", [one], step_names(plan))])
    assert records.c_header("b", plan).count(b"_OFFSET") == 2


def test_a_page_is_one_file_that_loads_nothing(pages: ModuleType) -> None:
    """spec: RP1.3, RP1.4, RP1.7"""
    text = pages.page("a plan", ["PROVED a plan", "  of it"], [("a plan", arena_maps(PLAN), step_names(PLAN))])
    assert not re.search(r"""(src|href)\s*=\s*["']?https?:""", text)
    assert "PROVED a plan" in text
    assert "PROVED" not in pages.page("a plan", [], [("a plan", arena_maps(PLAN), step_names(PLAN))])
    plan = named(HOSTILE)
    hostile = pages.page(HOSTILE, [f"UNKNOWN {HOSTILE}"], [(HOSTILE, arena_maps(plan), step_names(plan))])
    assert "<script>alert" not in hostile
    assert len(re.findall("</script>", hostile)) == len(re.findall("</script>", text))


def test_an_arena_of_very_many_storages_is_drawn_in_part(pages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: RP1.6, RP1.12"""
    monkeypatch.setattr(pages, "MOST", 20)
    monkeypatch.setattr(pages, "DRAWN", 10)
    monkeypatch.setattr(pages, "GRID", (64, 64))
    plan = training_plan(300, seed=1)
    text = pages.page("p", [], [("p", arena_maps(plan), step_names(plan))])
    assert "The 10 largest visible of the 20 largest of " in text
    assert "are not in this page" in text
    (one, *_) = arena_maps(plan)
    picture, height = pages._compute_occupancy(one)
    # Where much is live much is grey: the picture's columns follow the live bytes.
    columns = picture.sum(0).astype(float)
    edges = np.linspace(0, one.last_step + 1, len(columns) + 1).astype(int)
    live = np.array([one.live[a : max(b, a + 1)].mean() for a, b in pairwise(edges)])
    assert height == one.footprint
    assert picture.max() <= 95
    assert np.corrcoef(columns, live)[0, 1] > 0.9


def test_streams_are_lanes_of_steps_and_waits(pages: ModuleType, tmp_path: Path) -> None:
    """Each step is a bar of its stream and each wait a line; of many, bars cover steps. spec: RP1.7, RP1.16"""
    path = tmp_path / "r.plan.txt"
    path.write_text(RACE.replace("copies", json.dumps(HOSTILE)))
    plan = file.load_any(path).plan
    assert isinstance(plan, Plan)
    steps, lanes = metrics.step_records(plan), find_lanes(plan)
    assert lanes is not None
    assert [lanes.names[k] for k in lanes.stream] == [step["stream"] for step in steps]
    bars = zip(lanes.lane.tolist(), lanes.first.tolist(), lanes.last.tolist(), strict=True)
    assert sorted((first, last, lanes.names[k]) for k, first, last in bars) == [
        (n, n, step["stream"]) for n, step in enumerate(steps)
    ]
    waits = list(zip(lanes.awaited.tolist(), lanes.waiting.tolist(), strict=True))
    assert waits == [(0, 2), (2, 3)]
    text = pages.page("r", [], [("r", arena_maps(plan), step_names(plan))], lanes=[lanes])
    assert "Streams: a bar is a step, a line is a wait." in text
    assert "<script>alert" not in text
    few = find_lanes(plan, most=1)
    assert few is not None
    assert (few.width, few.left_out, list(few.awaited)) == (4, 1, [0])
    assert list(zip(few.lane.tolist(), few.first.tolist(), few.last.tolist(), strict=True)) == [(0, 0, 3), (1, 0, 3)]
    assert "a bar is up to 4 steps" in few.describe()
    assert "(1 wait not drawn)" in few.describe()
    halves = find_lanes(plan, most=4 - 1)
    assert halves is not None
    assert halves.width == 4
    assert find_lanes(PLAN) is None
    assert "Streams:" not in pages.page("p", [], [("p", arena_maps(PLAN), step_names(PLAN))], lanes=[None])


def test_the_last_step_has_a_width_in_the_curve_of_live_bytes(pages: ModuleType) -> None:
    """spec: RP1.2"""
    (one, *_) = arena_maps(named("x"))
    live, (area, *_) = pages._draw_live(
        one, pages._make_range("steps", 2), pages._make_range("live", 20), pages.colour_storages(one)
    )
    assert list(area.data_source.data["x"])[-1] == one.last_step + 1
    assert live.xaxis.ticker.min_interval == 1


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_an_image_has_the_same_bytes_each_time(kind: str) -> None:
    """spec: RP2.1"""
    from tmmu.report.image import image

    maps = arena_maps(PLAN)
    made = image("plan", maps, kind)
    assert made == image("plan", maps, kind)
    assert made != image("plan", arena_maps(training_plan(60, seed=4, arenas=2)), kind)
    assert made.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind])
    if kind == "svg":
        ET.fromstring(made)


def test_a_trace_has_no_two_live_storages_on_one_thread(tmp_path: Path) -> None:
    """spec: RP2.2"""
    path = tmp_path / "b.plan.txt"
    path.write_text(
        "tmmu-plan-text 1\narena a 999\nbuffer x 9 a 0 live 0 1\nbuffer y 9 a 9 live 1 9\nbuffer z 1 a 0 live 2 3\n"
    )
    for plan in (PLAN, file.load_any(path).plan):
        maps = arena_maps(plan)
        events = json.loads(records.perfetto(maps, step_names(plan)))["traceEvents"]
        for pid, one in enumerate(maps, 1):
            boxes = [event for event in events if event["ph"] == "X" and event["pid"] == pid]
            assert len(boxes) == len(one.names)
            for a, b in combinations(boxes, 2):
                together = a["ts"] < b["ts"] + b["dur"] and b["ts"] < a["ts"] + a["dur"]
                assert not (together and a["tid"] == b["tid"]), (a, b)
            counted = {e["ts"]: e["args"]["bytes"] for e in events if e["ph"] == "C" and e["pid"] == pid}
            level, found = 0, []
            for n in range(one.last_step + 1):
                level = counted.get(n, level)
                found.append(level)
            assert found == one.live.tolist()


def test_a_snapshot_allocates_and_releases_each_storage_at_its_address() -> None:
    """spec: RP2.3"""
    maps = arena_maps(PLAN)
    snapshot = pickle.loads(records.memory_snapshot(maps))
    for one, segment, trace in zip(maps, snapshot["segments"], snapshot["device_traces"], strict=True):
        live: dict[int, int] = {}
        most = 0
        for event in trace[1:]:
            assert segment["address"] <= event["addr"]
            assert event["addr"] + event["size"] <= segment["address"] + segment["total_size"]
            if event["action"] == "alloc":
                assert event["addr"] not in live
                live[event["addr"]] = event["size"]
                most = max(most, sum(live.values()))
            elif event["action"] == "free_completed":
                assert live.pop(event["addr"]) == event["size"]
        assert (live, most) == ({}, one.peak)
        assert segment["allocated_size"] == sum(block["size"] for block in segment["blocks"])


def test_rows_are_the_storages_and_begin_no_formula() -> None:
    """spec: RP2.4"""
    maps = arena_maps(PLAN)
    found = json.loads(records.flat_json(maps))
    assert len(found) == len(PLAN.allocation.storages)
    table = list(csv.DictReader(io.StringIO(records.as_csv(maps).decode())))
    assert [(row["arena"], int(row["offset"])) for row in table] == [(row["arena"], row["offset"]) for row in found]
    hostile = list(csv.DictReader(io.StringIO(records.as_csv(arena_maps(named("=SUM(A1)"))).decode())))
    assert hostile[0]["tensors"] == "'=SUM(A1)"


def test_a_header_gives_c_the_address_of_each_tensor(tmp_path: Path) -> None:
    """Views lie at their window; names that C cannot tell apart get numbers. spec: RP2.5, RP2.7"""
    from tmmu import Graph
    from tmmu import plan as planned

    require_compiler("gcc", "-Wall", "-Werror")

    g = Graph("g")
    x = g.input("x.1", (4,))
    g.tensor("x/1", (8,))
    g.tensor("x/1.offset", (2,), view_of=("x/1", 8))
    g.tensor("1", (1,))
    g.output(g.node("A", x, "x/1"), g.node("B", "x/1", "x/1.offset"), g.node("C", x, "1"))
    found = planned(g)
    (tmp_path / "p.h").write_bytes(records.c_header("2.plan", found.sections))
    text = (tmp_path / "p.h").read_text()
    macros = re.findall(r"#define (\w+)_OFFSET \d", text)
    assert len(set(macros)) == len(macros) == len(found)
    prints = " ".join(f'printf("%llu %llu %d\\n", {m}_OFFSET, {m}_BYTES, {m}_ARENA);' for m in macros)
    bases = re.findall(r"#define (\w+)_ALIGNMENT 128ull", text)
    assert len(bases) == len(found.arenas)
    prints += "".join(f'printf("%d%d\\n", {m}_IS_BASE((char *)256), {m}_IS_BASE((char *)64));' for m in bases)
    (tmp_path / "p.c").write_text(f'#include <stdio.h>\n#include "p.h"\nint main(void) {{ {prints} return 0; }}\n')
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", tmp_path / "p", tmp_path / "p.c"], check=True)
    said = subprocess.run([tmp_path / "p"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    arenas = [arena.name for arena in found.arenas]
    places = [f"{found[n].offset} {found[n].bytes} {arenas.index(found[n].arena)}" for n in found]
    assert said == [*places, *["10"] * len(bases)]


def test_what_cannot_be_written_is_refused_before_anything_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: RP2.6"""
    monkeypatch.chdir(tmp_path)
    file.save(named("x"), "p.plan.cbor")
    for arguments, said in (
        (("-o", "p.txt"), "the suffix is of no kind"),
        (("-o", "p.plan.cbor", "--as", "csv"), "named twice"),
        (("-o", "p.png", "--compare", "p.plan.cbor"), "named twice"),
    ):
        code, _, err = ran(capsys, "report", "p.plan.cbor", *arguments)
        assert (code, said in err) == (2, True), err
    file.save(PLAN, "q.plan.cbor")
    code, _, err = ran(capsys, "report", "p.plan.cbor", "-o", "p.png", "--compare", "q.plan.cbor")
    assert (code, "--compare goes with a page" in err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.plan.cbor", "q.plan.cbor"]
    code, out, _ = ran(capsys, "report", "p.plan.cbor", "--compare", "q.plan.cbor", "--no-verdict")
    assert (code, out) == (0, "wrote p.html\n")
    text = Path("p.html").read_text()
    assert "q.plan.cbor" in text
    assert "PROVED" not in text
    code, _, _ = ran(capsys, "report", "p.plan.cbor", "-o", "v.html")
    assert (code, "PROVED p.plan.cbor" in Path("v.html").read_text()) == (0, True)
    for kind, suffix in (("perfetto", ".x"), ("memory-viz", ".x"), ("c", ".x"), ("json", ".x")):
        assert ran(capsys, "report", "p.plan.cbor", "--as", kind, "-o", f"{kind}{suffix}")[0] == 0
        assert Path(f"{kind}{suffix}").stat().st_size > 0


def test_a_map_that_does_not_change_comes_last() -> None:
    """spec: RP1.1"""
    maps = arena_maps(PLAN)
    flat = [bool(np.all(one.live == one.live[0])) for one in maps]
    assert flat == sorted(flat)
    assert isinstance(maps[0], ArenaMap)


def test_the_command_prints_the_verdict_that_the_page_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a plan of another producer as well."""
    for offset, word in (("4", "PROVED"), ("2", "REFUTED")):
        (tmp_path / "b.csv").write_text(f"id,lower,upper,size,offset\na,0,4,4,0\nb,3,5,4,{offset}\n")
        code, out, _ = ran(capsys, "report", str(tmp_path / "b.csv"), "-o", str(tmp_path / "b.html"))
        wrote, verdict = out.splitlines()
        assert code == 0
        assert wrote.startswith("wrote ")
        assert verdict.startswith(word)
        assert word in (tmp_path / "b.html").read_text()


def test_what_the_caller_gives_up_is_asked_for_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without it a plan that writes over an input is refuted; a name that fits nothing is refused. spec: RP1.4"""
    model, plan, page = (str(tmp_path / name) for name in ("m.ir.cbor", "m.plan.cbor", "m.html"))
    files.save(text_model("node relu Relu x -> y inplace y x"), model)
    assert ran(capsys, "plan", model, "--donate", "x", "-o", plan)[0] == 0
    for donate, word in (((), "REFUTED"), (("--donate", "x"), "PROVED")):
        code, out, _ = ran(capsys, "report", plan, "-o", page, *donate)
        assert (code, out.splitlines()[1].split()[0]) == (0, word)
    assert ran(capsys, "report", plan, "-o", page, "--donate", "z")[0] == 2


def test_a_page_names_the_line_of_source_code_beside_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: RP1.17"""
    from onnx import TensorProto, helper, save

    from tmmu.onnx.sources import TRACE

    monkeypatch.chdir(tmp_path)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    node = helper.make_node("Relu", ["x"], ["y"], name="act")
    node.metadata_props.add(key=TRACE, value='File "/home/me/net.py", line 31, in forward')
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "m.onnx")
    assert ran(capsys, "plan", "m.onnx", "-o", "m.cbor")[0] == 0
    for model, shown in ((("--model", "m.onnx"), True), ((), False)):
        assert ran(capsys, "report", "m.cbor", *model, "-o", "m.html")[0] == 0
        assert ("act (net.py:31)" in Path("m.html").read_text()) == shown
