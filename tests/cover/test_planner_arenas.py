"""Arena configurations: the default, files, and everything that is wrong with one.

spec: M3.1, M3.3, M3.4, M3.5
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.strategies.small import small
from tmmu.errors import TmmuError
from tmmu.planner import DEFAULT, plan_memory
from tmmu.planner import arenas as configuration
from tmmu.vocabulary import Arena, Role


def test_the_default_is_the_documented_one() -> None:
    found = {a.name: (set(a.roles), a.capacity, a.alignment, a.reuse) for a in configuration.check(DEFAULT)}
    large = (1 << 64) - 1
    assert found == {
        "parameters": ({Role.PARAMETER}, large, 128, False),
        "optimizer": ({Role.OPTIMIZER}, large, 128, False),
        "activations": ({Role.INPUT, Role.ACTIVATION, Role.SCRATCH}, large, 128, True),
        "gradients": ({Role.GRADIENT}, large, 128, True),
    }


def test_every_role_has_an_arena_by_default() -> None:
    assert {role for arena in DEFAULT for role in arena.roles} == set(Role)


GOOD = Arena("a", (Role.INPUT,))
WRONG: list[tuple[tuple[Arena, ...], str]] = [
    ((), "arena '': there is no arena"),
    ((replace(GOOD, name=""),), "its name is empty or used twice"),
    ((replace(GOOD, name="a\0b"),), "its name is empty or used twice"),
    ((GOOD, replace(GOOD, roles=())), "arena 'a': its name is empty or used twice"),
    ((GOOD, replace(GOOD, name="b")), "arena 'b': the role input belongs to 'a' already"),
    ((replace(GOOD, roles=(Role.INPUT, Role.INPUT)),), "the role input belongs to 'a' already"),
    ((replace(GOOD, capacity=0),), "capacity 0 is not from 1"),
    ((replace(GOOD, capacity=1 << 64),), "capacity 18446744073709551616"),
    ((replace(GOOD, alignment=0),), "alignment 0 is no power of two"),
    ((replace(GOOD, alignment=96),), "alignment 96 is no power of two"),
    ((replace(GOOD, alignment=-2),), "alignment -2 is no power of two"),
    ((replace(GOOD, page_size=3000),), "page_size 3000 is no power of two"),
]


@pytest.mark.parametrize(("arenas", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_configuration_that_cannot_be_is_refused(arenas: tuple[Arena, ...], message: str) -> None:
    with pytest.raises(TmmuError, match=message) as refused:
        plan_memory(small(outputs="x"), arenas)
    assert refused.value.code_id == "INVALID_ARENA_CONFIG"
    assert refused.value.fix


def loaded(folder: Path, text: str | bytes) -> tuple[Arena, ...]:
    path = folder / "arenas.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return configuration.load(path)


def test_a_file_is_read_in_its_own_order_with_the_defaults_filled_in(tmp_path: Path) -> None:
    text = """
        [arenas.weights]
        roles = ["parameter", "optimizer"]
        reuse = false
        device = "npu"
        [arenas."scratch pad"]
        roles = ["input", "activation", "gradient", "scratch"]
        capacity = 4096
        alignment = 64
        page_size = 16384
        [arenas.spare]
    """
    assert loaded(tmp_path, text) == (
        Arena("weights", (Role.PARAMETER, Role.OPTIMIZER), reuse=False, device="npu"),
        Arena("scratch pad", (Role.INPUT, Role.ACTIVATION, Role.GRADIENT, Role.SCRATCH), 4096, 64, 16384),
        Arena("spare", ()),
    )


def test_the_example_in_the_documentation_is_a_configuration(tmp_path: Path) -> None:
    example = str(configuration.__doc__).split("```toml")[1].split("```")[0]
    [arena] = loaded(tmp_path, example)
    assert (arena.name, arena.capacity) == ("activations", 1 << 30)


BAD_FILES: list[tuple[str | bytes, str]] = [
    ("[arenas", "no TOML"),
    (b"\xff\xfe", "no TOML"),
    ("a = " + "[" * 5000 + "]" * 5000, "no TOML"),
    ("a = " + "9" * 5000, "no TOML"),
    ("", r"no \[arenas.NAME\] tables"),
    ("arenas = 5", r"no \[arenas.NAME\] tables"),
    ("[arenas]\n", "there is no arena"),
    ("[arena.a]\n[arenas.a]\n", "unknown key 'arena'"),
    ("[arenas]\na = 5\n", "arena 'a': it is no table"),
    ("[arenas.a]\nsize = 5\n", "arena 'a': unknown key 'size'"),
    ("[arenas.a]\nroles = 'input'\n", "arena 'a': roles 'input'"),
    ("[arenas.a]\nroles = ['weights']\n", r"arena 'a': roles \['weights'\]"),
    ("[arenas.a]\nroles = [['input']]\n", "arena 'a': roles"),
    ("[arenas.a]\ncapacity = 1.5\n", "arena 'a': capacity 1.5 is no int"),
    ("[arenas.a]\ncapacity = true\n", "arena 'a': capacity True is no int"),
    ("[arenas.a]\ncapacity = 0\n", "arena 'a': capacity 0"),
    ("[arenas.a]\nalignment = '128'\n", "arena 'a': alignment '128' is no int"),
    ("[arenas.a]\nreuse = 1\n", "arena 'a': reuse 1 is no bool"),
    ("[arenas.a]\ndevice = 1\n", "arena 'a': device 1 is no str"),
    (" " * (configuration.LIMIT + 1), "more than the limit"),
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
