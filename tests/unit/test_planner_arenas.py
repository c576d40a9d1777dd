"""Arena configurations: the default, files, and everything that is wrong with one.

spec: M3.1, M3.3, M3.4, M3.5
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import (
    MAX_PATTERNS,
    MAX_RULES,
    ArenaConfiguration,
    ArenaPolicy,
    DeviceConfiguration,
    Memory,
    Role,
    Rule,
)
from tmmu.planner import DEFAULT, plan_memory
from tmmu.planner.arenas.permitted import Directory, RuleSubject
from tmmu.planner.patterns import match_pattern
from tmmu.plans import configuration
from tmmu.plans import configuration_file as file_of
from tmmu.plans.memories import Division, divide_memories, strictest_alignments


def test_the_default_is_the_documented_one() -> None:
    found = {
        a.name: (set(a.roles), a.capacity, a.alignment, a.reuse) for a in configuration.check_configuration(DEFAULT)
    }
    large = (1 << 64) - 1
    assert found == {
        "parameters": ({Role.PARAMETER}, large, 128, False),
        "optimizer": ({Role.OPTIMIZER}, large, 128, False),
        "activations": ({Role.INPUT, Role.ACTIVATION, Role.SCRATCH}, large, 128, True),
        "gradients": ({Role.GRADIENT}, large, 128, True),
    }


def test_every_role_has_an_arena_by_default() -> None:
    assert {role for arena in DEFAULT for role in arena.roles} == set(Role)


def replace_device(**fields: Any) -> DeviceConfiguration:
    return DeviceConfiguration("npu")._replace(**fields)


GOOD = ArenaConfiguration("a", (Role.INPUT,))
WRONG: list[tuple[tuple[ArenaConfiguration, ...], str]] = [
    ((), "arena '': there is no arena"),
    ((replace(GOOD, name=""),), "its name is empty or used twice"),
    ((replace(GOOD, name="a\0b"),), "its name is empty or used twice"),
    ((GOOD, replace(GOOD, roles=())), "arena 'a': its name is empty or used twice"),
    ((GOOD, replace(GOOD, name="b")), "arena 'b': the role input already belongs to 'a'"),
    ((replace(GOOD, roles=(Role.INPUT, Role.INPUT)),), "the role input already belongs to 'a'"),
    ((replace(GOOD, capacity=0),), "expected a capacity from 1 to .*, got 0;"),
    ((replace(GOOD, capacity=1 << 64),), "expected a capacity from 1 to .*, got 18446744073709551616"),
    ((replace(GOOD, alignment=0),), "alignment 0 is not a power of two"),
    ((replace(GOOD, alignment=96),), "alignment 96 is not a power of two"),
    ((replace(GOOD, alignment=-2),), "alignment -2 is not a power of two"),
    ((replace(GOOD, alignment=1 << 64),), "alignment 18446744073709551616 is not a power of two"),
    ((replace(GOOD, page_size=3000),), "page_size 3000 is not a power of two"),
    ((replace(GOOD, page_size=1 << 64),), "page_size 18446744073709551616 is not a power of two"),
]


NPU = DeviceConfiguration("npu", (Memory("sram", 1024),))
WRONG_POLICIES: list[tuple[ArenaPolicy, str]] = [
    (ArenaPolicy((NPU, NPU)), "device 'npu': its name is empty or used twice"),
    (ArenaPolicy((replace_device(name=""),)), "device '': its name is empty"),
    (
        ArenaPolicy((replace_device(memories=(Memory("m", 1), Memory("m", 2))),)),
        "memory 'm': its name is empty or used",
    ),
    (
        ArenaPolicy((replace_device(memories=(Memory("m", 0),)),)),
        "memory 'npu/m': expected a capacity from 1 to .*, got 0;",
    ),
    (
        ArenaPolicy((replace_device(memories=(Memory("m", 1 << 64),)),)),
        "memory 'npu/m': expected a capacity from 1 .*, got 184467",
    ),
    (ArenaPolicy((), (Rule(("a",)),) * (MAX_RULES + 1)), "the rules: there are more than 1024 rules or devices"),
    (
        ArenaPolicy((replace_device(nodes=("*", *(f"{k}*" for k in range(MAX_PATTERNS)))),)),
        "the rules: there are more than 1024 patterns with a star",
    ),
    (ArenaPolicy((), (Rule(()),)), "rule 1: it lists no arena"),
    (ArenaPolicy((), (Rule(("a",)), Rule(("x",)))), "rule 2: unknown arena 'x'"),
    (ArenaPolicy((), (Rule(("a", "b", "a")),)), "rule 1: it lists the arena 'a' twice"),
    (ArenaPolicy((), (Rule(("a", "kept")),)), "rule 1: one of 'a' and 'kept' reuses bytes and the other does not"),
    (ArenaPolicy((), (Rule(("a",), devices=("npu",)),)), "rule 1: unknown device 'npu'"),
    (ArenaPolicy((), (Rule(("a",), devices=("default",)),)), "rule 1: unknown device 'default'"),
]


@pytest.mark.parametrize(("policy", "message"), WRONG_POLICIES, ids=[message for _, message in WRONG_POLICIES])
def test_devices_and_rules_that_cannot_be_are_refused(policy: ArenaPolicy, message: str) -> None:
    """spec: M3.9"""
    arenas = (
        ArenaConfiguration("a", tuple(Role)),
        ArenaConfiguration("b", ()),
        ArenaConfiguration("kept", (), reuse=False),
    )
    with pytest.raises(TmmuError, match=message) as refused:
        plan_memory(text_model(outputs="x"), arenas, policy=policy)
    assert refused.value.code_id == "INVALID_ARENA_CONFIG"
    assert refused.value.fix


@pytest.mark.parametrize(
    ("arena", "message"),
    [
        (ArenaConfiguration("a", (), device="gpu"), "arena 'a': unknown device 'gpu'; name one of default, npu"),
        (ArenaConfiguration("a", (), device="npu", memory="dram"), "arena 'a': the device 'npu' has no memory 'dram'"),
        (ArenaConfiguration("a", (), memory="sram"), "arena 'a': the device 'default' has no memory 'sram'"),
    ],
)
def test_an_arena_of_a_device_or_memory_that_is_not_there_is_refused(arena: ArenaConfiguration, message: str) -> None:
    """spec: M3.9"""
    with pytest.raises(TmmuError, match=message):
        configuration.check_configuration((arena,), ArenaPolicy((NPU,)))


@pytest.mark.parametrize(("arenas", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_configuration_that_cannot_be_is_refused(arenas: tuple[ArenaConfiguration, ...], message: str) -> None:
    """spec: M3.4"""
    with pytest.raises(TmmuError, match=message) as refused:
        plan_memory(text_model(outputs="x"), arenas)
    assert refused.value.code_id == "INVALID_ARENA_CONFIG"
    assert refused.value.fix


def test_the_least_and_the_largest_that_an_arena_may_have_is_accepted() -> None:
    least = ArenaConfiguration("least", tuple(Role), capacity=1, alignment=1, page_size=1)
    most = ArenaConfiguration("most", (), capacity=(1 << 64) - 1, alignment=1 << 63, page_size=1 << 63)
    policy = ArenaPolicy((DeviceConfiguration("npu", (Memory("least", 1), Memory("most", (1 << 64) - 1))),))
    assert configuration.check_configuration((least, most), policy) == (least, most)


def loaded(folder: Path, text: str | bytes) -> file_of.Configuration:
    path = folder / "arenas.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file_of.load(path)


def test_a_file_is_read_in_its_own_order_with_the_defaults_filled_in(tmp_path: Path) -> None:
    text = """
        [devices.npu.memories]
        dram = 1048576
        [arenas.weights]
        roles = ["parameter", "optimizer"]
        reuse = false
        device = "npu"
        memory = "dram"
        [arenas."scratch pad"]
        roles = ["input", "activation", "gradient", "scratch"]
        capacity = 4096
        alignment = 64
        page_size = 16384
        [arenas.spare]
    """
    assert loaded(tmp_path, text).arenas == (
        ArenaConfiguration("weights", (Role.PARAMETER, Role.OPTIMIZER), reuse=False, device="npu", memory="dram"),
        ArenaConfiguration("scratch pad", (Role.INPUT, Role.ACTIVATION, Role.GRADIENT, Role.SCRATCH), 4096, 64, 16384),
        ArenaConfiguration("spare", ()),
    )


def test_the_example_in_the_documentation_is_a_configuration(tmp_path: Path) -> None:
    example = str(file_of.__doc__).split("```toml")[1].split("```")[0]
    found = loaded(tmp_path, example)
    lie = {a.name: a.memory for a in found.arenas}
    assert lie == {"weights": "dram", "fast": "sram", "activations": "dram"}
    assert found.policy.devices == (
        DeviceConfiguration(
            "npu", (Memory("sram", 1 << 20), Memory("dram", 1 << 33)), ("encoder/*",), ("Conv", "MatMul")
        ),
    )
    assert [rule.arenas for rule in found.policy.rules] == [("activations",), ("fast", "activations")]


BAD_FILES: list[tuple[str | bytes, str]] = [
    ("[arenas", "not TOML"),
    (b"\xff\xfe", "not TOML"),
    ("a = " + "[" * 5000 + "]" * 5000, "not TOML"),
    ("a = " + "9" * 5000, "not TOML"),
    ("", r"no \[arenas.NAME\] tables"),
    ("arenas = 5", r"no \[arenas.NAME\] tables"),
    ("[arenas]\n", "there is no arena"),
    ("[arena.a]\n[arenas.a]\n", "unknown key 'arena'"),
    ("[arenas]\na = 5\n", "arena 'a': expected a table"),
    ("[arenas.a]\nsize = 5\n", "arena 'a': unknown key 'size'"),
    ("[arenas.a]\nroles = 'input'\n", "arena 'a': roles: expected a list, got 'input'"),
    ("[arenas.a]\nroles = ['weights']\n", r"arena 'a': unknown roles in \['weights'\]"),
    ("[arenas.a]\nroles = [['input']]\n", "arena 'a': unknown roles"),
    ("[arenas.a]\ncapacity = 1.5\n", "arena 'a': capacity: expected an integer, got 1.5"),
    ("[arenas.a]\ncapacity = true\n", "arena 'a': capacity: expected an integer, got True"),
    ("[arenas.a]\ncapacity = 0\n", "arena 'a': expected a capacity from 1 to .*, got 0;"),
    ("[arenas.a]\nalignment = '128'\n", "arena 'a': alignment: expected an integer, got '128'"),
    ("[arenas.a]\nreuse = 1\n", "arena 'a': reuse: expected a boolean, got 1"),
    ("[arenas.a]\ndevice = 1\n", "arena 'a': device: expected a text, got 1"),
    (" " * (file_of.LIMIT + 1), "more than the limit"),
    ("devices = 5\n[arenas.a]\n", "expected tables of devices"),
    ("rules = 5\n[arenas.a]\n", "expected a list of tables of rules"),
    ("rules = [5]\n[arenas.a]\n", "rule 1: expected a table"),
    ("[devices]\nnpu = 5\n[arenas.a]\n", "device 'npu': expected a table"),
    ("[devices.npu]\nmemory = 5\n[arenas.a]\n", "device 'npu': unknown key 'memory'"),
    (
        "[devices.npu.memories]\nsram = '1 MiB'\n[arenas.a]\n",
        "device 'npu': the capacity of memory 'sram': expected an integer, got '1 MiB'",
    ),
    (
        "[devices.npu.memories]\nsram = true\n[arenas.a]\n",
        "device 'npu': the capacity of memory 'sram': expected an integer, got True",
    ),
    ("[devices.npu]\nops = ['a', 5]\n[arenas.a]\n", r"device 'npu': ops: expected a list of names, got \['a', 5\]"),
    ("[devices.npu]\nops = [5]\n[arenas.a]\n", r"device 'npu': ops: expected a list of names, got \[5\]"),
    ("[[rules]]\narenas = ['']\n[arenas.a]\n", r"rule 1: arenas: expected a list of names, got \[''\]"),
    ("[[rules]]\nroles = ['weights']\n[arenas.a]\n", r"rule 1: unknown roles in \['weights'\]"),
    ("[[rules]]\narena = ['a']\n[arenas.a]\n", "rule 1: unknown key 'arena'"),
    ("[[rules]]\n[arenas.a]\n", "rule 1: it lists no arena"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FILES, ids=[message for _, message in BAD_FILES])
def test_a_file_that_is_no_configuration_is_refused_by_its_name(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    """spec: C2.6"""
    with pytest.raises(TmmuError, match=message) as refused:
        loaded(tmp_path, text)
    assert (refused.value.code_id, refused.value.file) == ("INVALID_ARENA_CONFIG", str(tmp_path / "arenas.toml"))
    assert refused.value.fix


def test_the_arenas_of_a_memory_lie_one_behind_the_other_as_aligned_as_their_strictest_slots() -> None:
    """An arena that holds nothing takes no byte, whatever its alignment. spec: M3.10"""
    arenas = (
        ArenaConfiguration("a", (), alignment=8, device="npu", memory="dram"),
        ArenaConfiguration("own", (), alignment=8, device="npu"),
        ArenaConfiguration("b", (), alignment=8, device="npu", memory="dram"),
        ArenaConfiguration("empty", (), alignment=4096, device="npu", memory="dram"),
        ArenaConfiguration("c", (), alignment=2, device="npu", memory="dram"),
    )
    policy = ArenaPolicy(
        (
            DeviceConfiguration("npu", (Memory("sram", 64), Memory("dram", 1000))),
            DeviceConfiguration("dsp", (Memory("dram", 5),)),
        )
    )
    aligned = strictest_alignments(arenas, [(0, 16), (2, 64), (2, 8), (4, 2)])
    assert aligned == [16, 8, 64, 4096, 2]
    assert divide_memories(arenas, policy, [9, 7, 10, 0, 1], aligned) == [
        Division("npu/dram", 1000, [0, 2, 3, 4], [0, 64, 74, 74], 75)
    ]


@pytest.mark.parametrize(
    ("pattern", "name", "is_meant"),
    [
        ("", "", True), ("", "a", False), ("*", "", True), ("a", "ab", False), ("ab", "a", False),
        ("*a*", "a", True),  # what is looked for stands at the very beginning
        ("a*a", "aa", True), ("a*a", "a", False), ("ab*ba", "aba", False),  # both ends, but not of the same characters
        ("*ab*b", "ab", False), ("*ab*b", "abb", True), ("a*b*a", "aba", True),  # nor a piece those of the end
        ("*a*a*", "a", False), ("*a*a*", "aa", True), ("*aa*a*", "aaa", True),  # nor two pieces
    ],
)  # fmt: skip
def test_a_star_is_any_text_and_the_pieces_between_share_no_character(pattern: str, name: str, is_meant: bool) -> None:
    assert match_pattern(pattern, name) == is_meant


def test_the_first_rule_that_matches_in_all_that_it_asks_for_counts_and_else_the_role() -> None:
    """spec: M3.7, M3.8"""
    arenas = (ArenaConfiguration("a", (Role.INPUT,)), ArenaConfiguration("b", (Role.ACTIVATION,)))
    devices = (DeviceConfiguration("npu", (), nodes=("encoder/*",)), DeviceConfiguration("dsp", (), ops=("Mat*",)))
    rules = (
        Rule(("b", "a"), roles=(Role.INPUT,), names=("x*", "z")), Rule(("a",), ops=("*",), names=("op",)),
        Rule(("b",), devices=("npu",)), Rule(("a",), devices=("dsp",)),
    )  # fmt: skip
    directory = Directory(arenas, ArenaPolicy(devices, rules))
    for asked, choices, rule in (
        (RuleSubject(Role.INPUT, "x1", "n", "Relu"), (1, 0), 0),
        (RuleSubject(Role.INPUT, "z", None, None), (1, 0), 0),
        (RuleSubject(Role.ACTIVATION, "x1", "n", "Relu"), (1,), None),
        (RuleSubject(Role.INPUT, "y", "n", "Relu"), (0,), None),
        (RuleSubject(Role.ACTIVATION, "op", "n", "Relu"), (0,), 1),
        (RuleSubject(Role.ACTIVATION, "op", None, None), (1,), None),  # no step touches it: no operator is asked for
        (RuleSubject(Role.INPUT, "y", "encoder/1", "MatMul"), (1,), 2),  # the first device that fits
        (RuleSubject(Role.ACTIVATION, "y", "decoder/1", "MatMul"), (0,), 3),
        (RuleSubject(Role.GRADIENT, "y", "n", "Relu"), (), None),
    ):
        assert directory.look_up(asked) == (choices, rule), asked


def test_bytes_may_be_stated_with_their_unit(tmp_path: Path) -> None:
    """spec: M3.4"""
    texts = []
    for capacity, page, memory in ((8 << 30, 4096, 1 << 20), ('"8GiB"', '"4KiB"', '"1mib"')):
        path = tmp_path / "arenas.toml"
        path.write_text(
            f"[devices.d]\nmemories = {{ m = {memory} }}\n[arenas.a]\ncapacity = {capacity}\npage_size = {page}\n"
            f'device = "d"\nmemory = "m"\nroles = {[str(role) for role in Role]}\n'
        )
        texts.append(file_of.load(path))
    assert texts[0] == texts[1]
    for wrong in ('"8GB"', '"-1"', '"1.5GiB"', '"99999999TiB"'):
        path.write_text(f"[arenas.a]\ncapacity = {wrong}\n")
        with pytest.raises(TmmuError, match='or as "8GiB"'):
            file_of.load(path)
        path.write_text(f"[devices.d]\nmemories = {{ m = {wrong} }}\n[arenas.a]\n")
        with pytest.raises(TmmuError, match='or as "8GiB"'):
            file_of.load(path)
