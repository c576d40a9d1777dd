"""Bindings on the command line: what each flag takes, and what it refuses in the user's own words. spec: C1.6, T10.7"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tmmu.core.flags import (
    Folder,
    bindings_of,
    existing,
    gather_options,
    parse_dims,
    parse_pairs,
    parse_shapes,
    parse_sizes,
)
from tmmu.core.vocabulary import Bindings

LARGEST = (1 << 64) - 1


def pairs(*given: str) -> dict[str, str]:
    return parse_pairs("--dim")(None, None, given)


def refusal(read: Callable[..., Any], *given: Any) -> str:
    with pytest.raises(click.BadParameter) as refused:
        read(*given)
    return refused.value.format_message()


def test_a_file_must_be_there_and_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "plan.cbor").touch()
    assert existing.convert(str(tmp_path / "plan.cbor"), None, None) == str(tmp_path / "plan.cbor")
    assert "does not exist" in refusal(existing.convert, str(tmp_path / "absent"), None, None)
    assert "is a directory" in refusal(existing.convert, str(tmp_path), None, None)


def test_a_folder_to_write_into_has_a_name_and_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made before there is something to write. spec: C4.3, C4.5"""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    for name in (".", "out", "new/out", str(tmp_path / "new" / "out")):
        assert Folder().convert(name, None, None) == name
    assert Folder(path_type=Path).convert("new/out", None, None) == Path("new/out")
    assert "the name of the folder is empty" in refusal(Folder().convert, "", None, None)
    assert "is a file" in refusal(Folder().convert, "file", None, None)
    for name in ("file/out", "nowhere/out", "/proc/out"):
        assert f"{name} cannot be written (" in refusal(Folder().convert, name, None, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "nowhere"]


def test_a_pair_is_split_at_its_last_equals_sign() -> None:
    assert pairs("n=4", "a=b=5", "n=4") == {"n": "4", "a=b": "5"}
    assert pairs() == {}


@pytest.mark.parametrize("text", ["", "n", "4", "=", "=4", "n="])
def test_what_lacks_a_name_or_a_value_is_no_pair(text: str) -> None:
    assert refusal(pairs, text) == f"Invalid value for --dim: expected NAME=VALUE, got {text!r}"


def test_a_name_is_bound_once() -> None:
    assert refusal(pairs, "n=4", "m=4", "n=5") == "Invalid value for --dim: 'n' is bound twice"


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("7", 7), ("0" * 19 + "7", 7), (str(LARGEST), LARGEST)])
def test_a_size_is_a_number_of_64_bits(text: str, size: int) -> None:
    assert parse_sizes("--dim", {"n": text}) == {"n": size}
    assert parse_dims({"n": text}) == ({"n": size}, {}, {})
    assert parse_shapes({"x": f"{text}x1"}, {})[0] == {"x": (size, 1)}


@pytest.mark.parametrize(
    "text",
    [
        "", "-1", "+1", "1.0", " 1", "1_0", "1e3", "٤", "²", str(LARGEST + 1), "9" * 20, "1" + "0" * 20, "9" * 5000,
        "0" * 20 + "7", "0" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused_wherever_one_is_due(text: str) -> None:
    assert (
        refusal(parse_sizes, "--dim", {"n": text})
        == f"Invalid value for --dim: n={text}: expected a size, got {text!r}"
    )
    for value in (text, f"{text}x1", f"1x{text}"):
        assert "expected sizes with x between them" in refusal(parse_shapes, {"x": value}, {})
    for value in (f"{text}..4", f"1..{text}", f"{text}..{text}"):
        said = refusal(parse_dims, {"n": value})
        assert (
            said
            == f"Invalid value for --dim: n={value}: expected a range such as n=1..4096, or with a step n=320..640:32"
        )


def test_a_range_has_both_ends_and_one_of_one_number_is_that_size() -> None:
    found = parse_dims({"m": "1..8", "n": "8..8", "k": "0..1", "a": "3", "b": f"0..{LARGEST}"})
    assert found == ({"n": 8, "a": 3}, {"m": (1, 8), "k": (0, 1), "b": (0, LARGEST)}, {})


@pytest.mark.parametrize("text", ["2..1", "..", "1...2", "1..2..3"])
def test_a_range_that_ends_before_it_begins_or_has_other_than_two_ends_is_refused(text: str) -> None:
    assert "expected a range such as n=1..4096" in refusal(parse_dims, {"n": text})


def test_a_shape_is_sizes_with_x_between_them_and_a_scalar_has_none() -> None:
    found = parse_shapes({"x": "1x3X640", "y": "7", "z": "scalar"}, {})[0]
    assert found == {"x": (1, 3, 640), "y": (7,), "z": ()}


@dataclass(frozen=True)
class Part:
    """What a command of the tests is given of two options."""

    size: int
    name: str = "nothing"


@dataclass(frozen=True)
class Whole:
    """The same, and one more."""

    part: Part
    loud: bool


def test_options_that_belong_together_come_as_one_object_in_the_order_of_the_help_text() -> None:
    """A group may have options of its own, or take those that are declared above, and be a part of another group."""
    taken: list[tuple[Any, ...]] = []

    @click.command()
    @click.option("--other")
    @gather_options("part", Part, click.option("--size", type=int), click.option("--name", default="n"))
    @click.option("--loud", is_flag=True)
    @gather_options("whole", Whole)
    def command(other: str | None, whole: Whole) -> None:
        taken.append((other, whole))

    runner = CliRunner()
    assert runner.invoke(command, ["--loud", "--size", "4"]).exit_code == 0
    assert taken == [(None, Whole(Part(4, "n"), True))]
    text = runner.invoke(command, ["--help"]).output
    assert sorted(["--other", "--size", "--name", "--loud"], key=text.index) == [
        "--other",
        "--size",
        "--name",
        "--loud",
    ]


def test_an_option_of_no_group_is_not_dropped() -> None:
    """One that is misspelt in a group, which has a default for it, reaches the command, and that does not know it."""

    @click.command()
    @gather_options("part", Part, click.option("--size", type=int), click.option("--nam"))
    def command(part: Part) -> None:
        raise AssertionError(part)

    with pytest.raises(TypeError, match="nam"):
        command.main(["--size", "1"], standalone_mode=False)


def test_bindings_are_read_from_the_words_of_all_their_flags() -> None:
    found = bindings_of({"n": "4", "h": "8..16:4"}, {"x": "1x3"}, {"y": "40"}, {"r": "1"}, ("x", "w*"), True)
    assert found == Bindings(
        dims={"n": 4}, shapes={"x": (1, 3)}, values={"r": "1"}, donated=("x", "w*"), trust_shapes=True,
        ranges={"h/4": (2, 4)}, stated={"y": "bytes:40"}, steps=parse_dims({"h": "8..16:4"})[2],
    )  # fmt: skip
