"""Arenas, memories and rules from the command line: what is planned, why, and every refusal.

spec: M3.7, M3.8, M3.10, M3.13, M3.14, M3.15, M3.16, A8.4, A8.5, C2.6
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from proofs.verify import entry
from tests.support.text_models import text_model
from tmmu.cli.entry import run
from tmmu.ir import files
from tmmu.plans import file
from tmmu.plans.sections import amend_plan

CHAIN = text_model(
    "node matmul1 Matmul x w -> a", "node relu Relu a -> b inplace b a", "node matmul2 Matmul b w -> c",
    "node matmul3 Matmul c a -> y", parameters="w", sizes={"a": 512, "b": 512, "c": 64, "x": 64, "y": 64, "w": 128},
)  # fmt: skip
"""Steps 0 to 3; `a` lives to the last step, so that `b` is no result in place."""

MEMORIES = """
[devices.npu]
memories = {{ sram = {sram}, dram = {dram} }}
ops = ["Mat*"]
[arenas.fast]
device = "npu"
memory = "sram"
[arenas.slow]
roles = ["input", "activation", "gradient", "scratch"]
device = "npu"
memory = "dram"
[arenas.weights]
roles = ["parameter", "optimizer"]
reuse = false
device = "npu"
memory = "dram"
"""
RULES = """
[[rules]]
names = ["y"]
arenas = ["slow"]
[[rules]]
roles = ["activation"]
arenas = ["fast", "slow"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files.save(CHAIN, tmp_path / "m.ir.cbor")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configured(folder: Path, *, sram: int = 1 << 20, dram: int = 1 << 20, rules: str = RULES) -> None:
    (folder / "a.toml").write_text(MEMORIES.format(sram=sram, dram=dram) + rules)


def planned(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    """The exit code of `tmmu plan`, and what it printed."""
    code = run(["plan", "m.ir.cbor", "-o", "p.cbor", "--arenas", "a.toml", *flags])
    streams = capsys.readouterr()
    return code, streams.out + streams.err


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    assert run(["show", "p.cbor", "--storages", "--format", "json"]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)["storages"]}


@pytest.mark.parametrize("layout", ["packed", "slots", "pools"])
def test_a_plan_by_rules_is_proved_and_says_why(folder: Path, capsys: pytest.CaptureFixture[str], layout: str) -> None:
    configured(folder, sram=640)
    code, said = planned(folder, capsys, "--layout", layout)
    assert code == 0, said
    assert "memory npu/sram: fast end at" in said
    assert "memory npu/dram: slow, weights end at" in said
    assert entry.run(["p.cbor", "--model", "m.ir.cbor"]) == 0
    capsys.readouterr()
    rows = shown(capsys)
    assert (rows["w"]["arena"], rows["w"]["why"]) == ("weights", "the arena of its role")
    assert (rows["y"]["arena"], rows["y"]["why"]) == ("slow", "pinned by rule 1")
    assert rows["c"]["why"] == "choice 1 of rule 2"
    large = {rows["a"]["arena"], rows["b"]["arena"]}
    assert large == {"fast", "slow"}, "640 bytes hold one of the two and c"
    [other] = [rows[name] for name in "ab" if rows[name]["arena"] == "slow"]
    assert other["choices"] == ["fast", "slow"]
    assert re.match("choice 2 of rule 2; .*npu/sram.* at step [0-9]+, by [0-9]+ ", other["why"])


def verified(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any]]:
    """The exit code of `verify-plan` and its verdict on the plan."""
    code = entry.run(["p.cbor", "--format", "json", *flags])
    return code, json.loads(capsys.readouterr().out)["files"][0]


EDITS = {
    "capacity = 700": "arenas[fast].capacity", "alignment = 64": "arenas[fast].alignment",
    "page_size = 8192": "arenas[fast].page_size",
    'roles = ["scratch"]': "arenas[slow].roles",
}  # fmt: skip


def test_the_users_configuration_is_the_plans_or_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: V3.11, V5.3, V5.4"""
    configured(folder)
    assert planned(folder, capsys)[0] == 0
    code, right = verified(capsys, "--arenas", "a.toml", "--require", "arenas")
    assert (code, right["verdict"], right["assumptions"]["arenas"]) == (0, "PROVED", [])
    assert "arenas_are_configured" in right["compared"]
    code, alone = verified(capsys)
    assert (code, "arenas_are_configured" in alone["not_looked_at"]) == (0, True)
    fast = alone["assumptions"]["arenas"][0]
    assert (fast["name"], fast["capacity"], fast["alignment"], fast["memory"]) == ("fast", 2**64 - 1, 128, "sram")
    assert [len(alone["assumptions"][what]) for what in ("devices", "rules")] == [1, 2]
    assert verified(capsys, "--require", "arenas")[0] == 3
    assert entry.run(["p.cbor", "-v"]) == 0
    assert (
        "arenas as the plan states them: fast slow weights (capacity unlimited, alignment 128)"
        in capsys.readouterr().out
    )
    text = (folder / "a.toml").read_text()
    for edit, field in EDITS.items():
        moved = text.replace(', "scratch"]', "]") if "roles" in edit else text
        (folder / "b.toml").write_text(moved.replace("[arenas.fast]", f"[arenas.fast]\n{edit}"))
        code, wrong = verified(capsys, "--arenas", "b.toml")
        refuted = [wrong["witness"]["field"], *(note.split(" is stated ")[0] for note in wrong["notes"])]
        assert (code, wrong["witness"]["obligation"]) == (1, "arenas_are_configured")
        assert field in refuted, edit
    for old, new, field in (
        ("sram = 1048576", "sram = 4096", "devices"), ('["y"]', '["z"]', "rules"),
        ("arenas.weights", "arenas.w", "arenas"),
    ):  # fmt: skip
        (folder / "b.toml").write_text(text.replace(old, new))
        assert verified(capsys, "--arenas", "b.toml")[1]["witness"]["field"] == field
    (folder / "b.toml").write_text("[arenas.fast]\nalignment = 3")
    assert entry.run(["p.cbor", "--arenas", "b.toml"]) == 2
    assert "power of two" in capsys.readouterr().err


def test_a_configuration_that_a_plan_does_not_claim_is_applied_to_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Roles, rules and memories of the file are those that a text, which states none, must fit. spec: V3.11"""
    configured(folder, rules="")
    assert planned(folder, capsys)[0] == 0
    capsys.readouterr()
    assert run(["show", "p.cbor", "--as", "text"]) == 0
    (folder / "p.plan.txt").write_text(capsys.readouterr().out)
    text = (folder / "a.toml").read_text()
    (folder / "b.toml").write_text(text.replace("sram = 1048576", "sram = 64").replace('"gradient", ', ""))
    (folder / "c.toml").write_text(text + '[[rules]]\nnames = ["y"]\narenas = ["fast"]\n')
    (folder / "d.toml").write_text(text.replace("dram = 1048576", "dram = 64"))
    (folder / "e.toml").write_text(text.replace("reuse = false\n", ""))
    found = {}
    for name in "abcde":
        code = entry.run(["p.plan.txt", "--arenas", f"{name}.toml", "--format", "json"])
        [verdict] = json.loads(capsys.readouterr().out)["files"]
        found[name] = code, (verdict["witness"] or {}).get("obligation")
    assert found == {
        "a": (0, None), "b": (0, None), "c": (1, "roles_have_arenas"), "d": (1, "capacity"),
        "e": (1, "arenas_are_configured"),
    }  # fmt: skip


def test_a_reason_is_true_of_the_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is said to be too much at a step is recomputed here from the storages."""
    configured(folder, rules='\n[[rules]]\nroles = ["activation"]\narenas = ["fast", "slow"]\n')
    text = (folder / "a.toml").read_text().replace("[arenas.fast]", "[arenas.fast]\ncapacity = 600")
    (folder / "a.toml").write_text(text)
    assert planned(folder, capsys)[0] == 0
    rows = shown(capsys)
    passed = [row for row in rows.values() if " full at step " in row["why"]]
    assert passed
    for row in passed:
        found = re.fullmatch("choice 2 of rule 1; fast is full at step ([0-9]+), by ([0-9]+) bytes", row["why"])
        assert found is not None
        step, over = map(int, found.groups())
        others = [other for other in rows.values() if other["arena"] == "fast"]
        live = sum(other["bytes"] for other in others if other["birth"] <= step <= other["death"])
        assert live + row["bytes"] - 600 == over > 0


def test_a_storage_is_where_its_node_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = text_model("node relu Relu x -> y scratch 8 arena fast")
    files.save(model, folder / "m.ir.cbor")
    configured(folder)
    assert planned(folder, capsys)[0] == 0
    assert "its node asks for this arena" in [row["why"] for row in shown(capsys).values()]


def test_a_rule_may_ask_for_the_device_and_the_operator_of_a_node(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the caller writes is of the node that reads it first. spec: M3.8"""
    rules = (
        '[[rules]]\ndevices = ["npu"]\nroles = ["activation", "input"]\narenas = ["fast"]\n'
        '[[rules]]\nops = ["Relu"]\narenas = ["slow"]\n'
    )
    configured(folder, rules=rules)
    assert planned(folder, capsys)[0] == 0
    why = {name: row["why"] for name, row in shown(capsys).items()}
    assert why == {
        **dict.fromkeys("xacy", "pinned by rule 1"), "b": "pinned by rule 2", "w": "the arena of its role",
    }  # fmt: skip


def test_a_memory_that_its_arenas_overfill_is_refused_with_what_is_needed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each arena has no bound of its own. spec: M3.10, M3.13"""
    configured(folder, sram=1 << 20, dram=192)
    code, said = planned(folder, capsys)
    assert code != 0
    assert ("memory 'npu/dram': " in said, re.findall("[0-9]+", said)) == (True, ["256", "64", "128", "192"])
    assert said.endswith("[ARENA_TOO_SMALL]\n")
    assert not (folder / "p.cbor").exists()


UNEVEN = text_model(
    "node relu1 Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> c", "node relu4 Relu b c -> y",
    sizes={"x": 256, "a": 512, "b": 128, "c": 1024, "y": 256},
)  # fmt: skip


def test_the_fallback_fits_every_arena_or_the_refusal_names_the_one_that_it_cannot(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.save(UNEVEN, folder / "m.ir.cbor")
    both = (
        "[arenas.inner]\ncapacity = {inner}\n[arenas.all]\ncapacity = {rest}\n"
        'roles = ["input", "activation", "gradient", "scratch", "parameter"]\n'
        '[[rules]]\nnames = ["x", "a", "b", "c"]\narenas = ["inner"]\n'
    )
    (folder / "a.toml").write_text(both.format(inner=1152, rest=512))
    code, said = planned(folder, capsys, "--layout", "slots")
    assert (code != 0, "packed needs 1152, which fits" in said) == (True, True)
    code, said = planned(folder, capsys, "--layout", "slots", "--fallback", "packed")
    assert code == 0
    assert file.load("p.cbor").plan.origin.layout == "packed"
    assert entry.run(["p.cbor", "--model", "m.ir.cbor"]) == 0
    capsys.readouterr()
    (folder / "a.toml").write_text(both.format(inner=1152, rest=128))
    code, said = planned(folder, capsys, "--layout", "slots", "--fallback", "packed")
    assert code != 0
    assert "arena 'all': 256 " in said


def test_a_plan_that_is_said_to_have_other_rules_is_refuted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: M3.16"""
    configured(folder)
    assert planned(folder, capsys)[0] == 0
    plan = file.load("p.cbor").plan
    pinned = plan.configuration.policy.rules[0]._replace(arenas=("fast",))
    file.save(amend_plan(plan, policy=plan.configuration.policy._replace(rules=(pinned,))), "q.cbor")
    assert entry.run(["q.cbor"]) == 1
    assert "y is in slow; rule 1 allows fast" in capsys.readouterr().out


def test_what_shares_bytes_may_use_the_same_arenas(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hint is refused with that as its reason, an alias group is refused whole. spec: T2.7, T3.3, T3.9"""
    model = text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b inplace b a", "node relu3 Relu b -> y inplace y b"
    )
    files.save(model, folder / "m.ir.cbor")
    configured(folder)
    code, said = planned(folder, capsys, "--why")
    assert code == 0
    assert ("relu3: y in place of b: " in said, "relu2" in said) == (True, False)
    files.save(text_model("node relu Relu x -> a", "node relu2 Relu a -> y", "alias g a y"), "m.ir.cbor")
    code, said = planned(folder, capsys)
    assert (code, "alias group 'g': 'a' and 'y' " in said) == (4, True)


def test_a_view_lies_with_its_base_whatever_rules_say(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = text_model(
        "node relu Relu x -> a", "node reshape Reshape a -> v", "node matmul Matmul v -> y", "tensor v u8 64 view a 0"
    )
    files.save(model, folder / "m.ir.cbor")
    configured(folder, rules='[[rules]]\nnames = ["v"]\narenas = ["fast"]\n')
    assert planned(folder, capsys)[0] == 0
    assert {row["arena"] for row in shown(capsys).values()} == {"slow"}
    assert entry.run(["p.cbor", "--model", "m.ir.cbor"]) == 0


def test_the_same_choice_is_made_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: M3.11"""
    configured(folder, sram=640)
    plans = []
    for _ in range(2):
        assert planned(folder, capsys)[0] == 0
        plans.append((folder / "p.cbor").read_bytes())
    assert plans[0] == plans[1]
