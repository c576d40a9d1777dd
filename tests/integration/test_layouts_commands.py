"""What the commands say of layouts, and what they refuse.

spec: A2.5, A2.6, A8.4, A8.5, A8.7 to A8.11, A8.13, A9.4, C3.1, C3.2, V5.6
"""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from proofs.verify.command import command
from tests.support.buffers import hard, model_of
from tests.support.example_models import large
from tmmu import examples
from tmmu.cli import entry
from tmmu.examples.broken.layouts import hashed, packed, uneven
from tmmu.ir import files
from tmmu.planner.layouts.boxes import Boxes, Packing
from tmmu.planner.layouts.search import Effort, Group
from tmmu.plans import file
from tmmu.plans.sections import Plan

Out = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> str:
    files.save(uneven(), tmp_path / "uneven.ir.cbor")
    return str(tmp_path / "uneven.ir.cbor")


@pytest.fixture
def token(tmp_path: Path) -> str:
    (tmp_path / "token").write_bytes(bytes(range(64)))
    return str(tmp_path / "token")


def tmmu(capsys: Out, *arguments: str) -> tuple[int, str, str]:
    code = entry.run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def verified(path: str, *flags: str) -> str:
    """What `verify-plan` prints of a plan that it proves."""
    result = CliRunner().invoke(command, [path, *flags], standalone_mode=False)
    assert (result.exception, result.return_value) == (None, 0)
    return result.stdout


def arenas(folder: Path, capacity: int) -> str:
    path = folder / "arenas.toml"
    path.write_text(f'[arenas.all]\nroles = ["input", "activation", "parameter"]\ncapacity = {capacity}\n')
    return str(path)


def test_packed_is_what_is_planned_where_no_layout_is_named(model: str, tmp_path: Path, capsys: Out) -> None:
    for name, flags in (("default", ()), ("packed", ("--layout", "packed"))):
        assert tmmu(capsys, "plan", model, "-o", str(tmp_path / name), *flags)[0] == 0
    assert (tmp_path / "default").read_bytes() == (tmp_path / "packed").read_bytes()
    assert file.load(tmp_path / "default").plan.origin.layout == "packed"


def test_a_plan_with_slots_says_what_packed_would_need(model: str, tmp_path: Path, capsys: Out) -> None:
    target = str(tmp_path / "p.cbor")
    said = "activations: packed would need 1408 (1.38 KiB), ratio 1.000"
    assert said in tmmu(capsys, "plan", model, "--layout", "slots", "-o", target)[1]
    assert said in tmmu(capsys, "show", target)[1]
    assert "packed would need" not in tmmu(capsys, "plan", model, "-o", target)[1]
    assert "packed would need" not in tmmu(capsys, "show", target)[1]


def test_a_packed_plan_says_how_much_an_effort_could_save(
    buffers: str, model: str, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not if it was made with an effort, nor at the bound. Slots without the portfolio are loose. spec: A8.13"""
    target, lower = str(tmp_path / "p.cbor"), str(tmp_path / "lower.cbor")
    assert "searches for up to" not in tmmu(capsys, "plan", model, "-o", target)[1]
    assert "searches for up to" not in tmmu(capsys, "plan", buffers, "-o", target)[1], "it is 0.08 % above"
    monkeypatch.setattr("tmmu.planner.layouts.packed.PORTFOLIO", ())
    out = tmmu(capsys, "plan", buffers, "-o", target)[1]
    assert "searches for up to" not in tmmu(capsys, "plan", buffers, "-o", lower, "--effort", "1000")[1]
    least = file.load(lower).plan.origin.bounds[2].bytes
    more = file.load(target).plan.usage[2].footprint - least
    said = (
        f"activations: {more / least:.1%} above the bytes that any plan needs; --effort 1e9 searches for up to {more}"
    )
    assert f"{said} bytes less" in out
    assert said in tmmu(capsys, "show", target)[1]


def test_bytes_lost_to_alignment_are_not_promised(tmp_path: Path, capsys: Out) -> None:
    """Ten bytes below ten others take as many as their alignment: no placement is lower."""
    given = model_of(Boxes([0, 0], [1, 1], [10, 10], [64, 64], {}))
    files.save(given, tmp_path / "aligned.ir.cbor")
    out = tmmu(capsys, "plan", str(tmp_path / "aligned.ir.cbor"), "-o", str(tmp_path / "p.cbor"))[1]
    assert file.load(tmp_path / "p.cbor").plan.usage[2][:2] == (138, 20)
    assert "searches for up to" not in out


@pytest.mark.parametrize(
    ("capacity", "fallback", "layout"), [(1536, True, "slots"), (1407, True, ""), (1407, False, "")]
)
def test_the_fallback_is_used_only_where_it_is_needed_and_fits(
    capacity: int, fallback: bool, layout: str, model: str, tmp_path: Path, capsys: Out
) -> None:
    target = tmp_path / "p.cbor"
    flags = ["--layout", "slots", "--arenas", arenas(tmp_path, capacity), "-o", str(target)]
    code, _, said = tmmu(capsys, "plan", model, *flags, *(["--fallback", "packed"] if fallback else []))
    assert code == (0 if layout else 4)
    assert not layout or file.load(target).plan.origin.layout == layout
    assert layout or "raise the capacity" in said


def test_hashed_addresses_are_planned_shown_and_proved_with_the_note(
    model: str, token: str, tmp_path: Path, capsys: Out
) -> None:
    target = str(tmp_path / "p.cbor")
    code, planned, _ = tmmu(capsys, "plan", model, "--layout", "hashed", "--address-token", token, "-o", target)
    assert code == 0
    for said in (planned, tmmu(capsys, "show", target)[1]):
        assert "do not conform to 001 II.F" in said
        assert "address token: SHA-256 fdeab9acf371" in said
    assert "does not conform to 001 II.F" in verified(target)


def test_a_collision_is_one_clear_line(tmp_path: Path, capsys: Out) -> None:
    files.save(large(3, 1 << 61), tmp_path / "large.ir.cbor")
    for number, said in ((0, "[ADDRESS_COLLISION]"), (2, "[ALLOCATION_OVERFLOW]")):
        (tmp_path / "token").write_bytes(bytes([number]) * 64)
        flags = ("--layout", "hashed", "--address-token", str(tmp_path / "token"), "-o", str(tmp_path / "p.cbor"))
        code, _, error = tmmu(capsys, "plan", str(tmp_path / "large.ir.cbor"), *flags)
        assert (code, error.count("\n")) == (4, 1)
        assert said in error


def test_compare_prints_every_layout_and_what_pools_save(tmp_path: Path, token: str, capsys: Out) -> None:
    examples.write("mico-lenet", tmp_path / "m.onnx")
    model = str(tmp_path / "m.onnx")
    code, text, _ = tmmu(capsys, "compare", model, "--address-token", token)
    assert code == 0
    lines = [line.split() for line in text.splitlines()]
    assert [line[0] for line in lines[1:5]] == ["packed", "slots", "pools", "hashed"]
    assert lines[3][1:] == ["activations", "3", "42336", "37632", "1.125"]
    found = json.loads(tmmu(capsys, "compare", model, "--format", "json")[1])
    assert [row["layout"] for row in found] == ["packed", "slots", "pools"]
    assert (found[2]["pools"], found[2]["before_bytes"], found[2]["footprint_bytes"]) == (3, 60_720, 42_336)
    assert (found[0]["footprint_bytes"], found[0]["peak_live_bytes"]) == (23_520, 23_520)


def test_compare_of_nothing_prints_the_head_of_the_table(tmp_path: Path, capsys: Out) -> None:
    from tmmu.core.vocabulary import Body, Model

    files.save(Model("empty", (), (), (Body(-1, "", (), ()),)), tmp_path / "e.ir.cbor")
    code, text, _ = tmmu(capsys, "compare", str(tmp_path / "e.ir.cbor"))
    assert (code, len(text.splitlines())) == (0, 1)


@pytest.mark.parametrize("plan", [packed(), hashed()], ids=["packed", "hashed"])
def test_a_footprint_that_is_proved_to_be_the_live_bytes_is_reported_as_optimal(plan: Plan, tmp_path: Path) -> None:
    file.save(plan, tmp_path / "p.cbor")
    answer = json.loads(verified(str(tmp_path / "p.cbor"), "--format", "json"))["files"][0]
    assert answer["claims"]["activations"]["footprint_is_optimal"] == "proved"


def test_a_footprint_above_the_live_bytes_is_not_reported_as_optimal(model: str, tmp_path: Path, capsys: Out) -> None:
    target = str(tmp_path / "p.cbor")
    tmmu(capsys, "plan", model, "--layout", "slots", "-o", target)
    capsys.readouterr()
    claims = json.loads(verified(target, "--format", "json"))["files"][0]["claims"]
    assert claims["activations"]["footprint_is_optimal"] == "not proved"


def test_compare_prints_the_table_of_each_model_under_its_name(tmp_path: Path, capsys: Out) -> None:
    """MiCo's four networks, the footprints of its document. spec: C3.1"""
    wanted = {"mlp": 1280, "lenet": 42336, "vgg": 589824, "resnet8": 786432}
    paths = [str(tmp_path / f"{name}.onnx") for name in wanted]
    for name, path in zip(wanted, paths, strict=True):
        examples.write(f"mico-{name}", path)
    code, text, _ = tmmu(capsys, "compare", *paths)
    assert (code, [line for line in text.splitlines() if line in paths]) == (0, paths)
    found = json.loads(tmmu(capsys, "compare", *paths, "--format", "json")[1])
    pools = {row["model"]: row["footprint_bytes"] for row in found if row["layout"] == "pools"}
    assert pools == dict(zip(paths, wanted.values(), strict=True))
    assert tmmu(capsys, "compare", paths[0], str(tmp_path / "none.onnx"))[0] == 2


@pytest.fixture
def buffers(tmp_path: Path) -> str:
    """A model whose activations no simple order packs well."""
    files.save(model_of(hard(5)), tmp_path / "buffers.ir.cbor")
    return str(tmp_path / "buffers.ir.cbor")


def test_effort_lowers_the_footprint_and_the_effort_recorded_gives_the_same_bytes(
    buffers: str, tmp_path: Path, capsys: Out
) -> None:
    """spec: A8.8, A8.9"""
    plans = {}
    for name, flags in (("plain", ()), ("long", ("--effort", "3000000"))):
        assert tmmu(capsys, "plan", buffers, "-o", str(tmp_path / name), *flags)[0] == 0
        plans[name] = file.load(tmp_path / name).plan
    plain, long = plans["plain"].origin, plans["long"].origin
    assert (plain.effort, plain.bounds) == (None, ())
    assert plans["long"].usage[2].footprint < plans["plain"].usage[2].footprint
    assert [by for _, by in long.bounds] == ["sequence", "sequence", "live", "live"]
    assert long.bounds[2].bytes <= plans["long"].usage[2].footprint
    code, out, _ = tmmu(capsys, "plan", buffers, "-o", str(tmp_path / "again"), "--effort", str(long.effort))
    assert code == 0
    assert f"no placement is below {long.bounds[2].bytes} (live at one step, padded to the alignment)" in out
    assert (tmp_path / "again").read_bytes() == (tmp_path / "long").read_bytes()
    assert "provenance.effort" in verified(str(tmp_path / "long"), "-v")


def test_an_interrupt_keeps_the_best_plan_so_far(
    buffers: str, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes when something was found; the effort that the plan records leads to the same bytes. spec: A8.10"""
    usual = Group.take

    def interrupted(self: Group, found: Packing, effort: Effort) -> None:
        usual(self, found, effort)
        if effort.found and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Group, "take", interrupted)
    before = signal.getsignal(signal.SIGINT)
    stopped, again = tmp_path / "stopped", tmp_path / "again"
    code, out, _ = tmmu(capsys, "plan", buffers, "-o", str(stopped), "--effort", str(1 << 60))
    assert (code, out.count("stopped by Ctrl-C")) == (0, 1)
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.undo()
    effort = file.load(stopped).plan.origin.effort
    assert effort
    assert tmmu(capsys, "plan", buffers, "-o", str(again), "--effort", str(effort))[0] == 0
    assert again.read_bytes() == stopped.read_bytes()
    verified(str(stopped))


def test_a_capacity_fits_or_does_not_or_it_is_unknown(buffers: str, tmp_path: Path, capsys: Out) -> None:
    """spec: A8.11"""
    target = str(tmp_path / "plan")

    def asked(*flags: str) -> tuple[int, str]:
        code, _, err = tmmu(capsys, "plan", buffers, "-o", target, *flags)
        return code, err

    assert asked("--effort", "3000000")[0] == 0
    usage = file.load(target).plan.usage[2]
    assert asked("--effort", "3000000", "--capacity", f"activations={usage.footprint}") == (0, "")
    code, err = asked("--capacity", f"activations={usage.footprint}")
    assert (code, "ARENA_TOO_SMALL" in err, "unknown" in err) == (4, True, False)
    code, err = asked("--effort", "100", "--capacity", f"activations={usage.footprint}")
    assert (code, "whether a placement fits is unknown after this effort" in err) == (4, True)
    code, err = asked("--effort", "100", "--capacity", f"activations={usage.peak_live_bytes - 1}")
    found = re.search(r"no placement fits: none is below (\d+) \(live at one step, padded", err)
    assert code == 4
    assert found is not None
    assert usage.peak_live_bytes <= int(found[1]) <= usage.footprint
    for wrong in ("nowhere=1", "activations", "activations=many"):
        assert asked("--capacity", wrong)[0] == 2
    assert asked("--capacity", "activations=1", "--capacity", "activations=2")[0] == 2
    assert asked("--effort", "1", "--layout", "slots")[0] == 2
