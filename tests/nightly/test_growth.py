"""Ten times as much to check takes less than 25 times the time, however hostile it is (`tests/support/worst_cases.py`).

What is measured is the time of the processor in a command and its children, less what a plan of a single step takes,
without the kernel, whose figures are in `spec/soundness.md`. spec: V1.16
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from proofs.readers.patterns import fits
from tests.support import worst_cases as worst
from tests.support.worst_cases import plan, wide_step
from tmmu.planner.patterns import match_pattern

SIZE, TIMES, GROWTH = 1_000, 10, 25
NOTICEABLE = 0.1
"""Seconds: less is not told from the noise of starting."""

REFUTED = (worst.in_one_place, worst.wide_change)
"""Not right: something that the caller has not given up is changed, or live tensors share bytes."""
PLANS = (
    *REFUTED, worst.steps_in_place, worst.wide_step, worst.wide_scratch, worst.wide_loop,
    worst.chain_of_steps, worst.chain_of_views, worst.views_of_one, worst.windows_of_one, worst.all_live,
    worst.many_arenas,
    worst.kept_apart, worst.lifetimes, worst.many_loops, worst.deep_loops, worst.many_branches,
    worst.many_arms, worst.branches_that_return, worst.values_of_many, worst.large_and_small,
    worst.deep_branches,
)  # fmt: skip
MODELS = (
    worst.model_wide, worst.model_chain, worst.model_views, worst.model_alias_group, worst.model_dims,
    worst.model_of_sizes, worst.model_changes, worst.model_bodies, worst.model_branches, worst.model_deep,
    worst.model_wide_loop,
    worst.onnx_chain, worst.onnx_wide, worst.onnx_shapes, worst.onnx_branches, worst.onnx_deep,
    worst.onnx_wide_loop, worst.onnx_calls,
)  # fmt: skip


class Grew(AssertionError):
    """Too much."""


def seconds(command: list[str], folder: Path, expected: int = 0) -> float:
    """The processor's time that a command and its children take. It must end with the expected code."""
    environment = os.environ | {"XDG_DATA_HOME": str(folder)}  # where no kernel is installed
    with open(folder / "printed", "w") as printed:
        child = subprocess.Popen(command, env=environment, stdout=printed, stderr=printed, cwd=folder)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == expected, (command, child.returncode, (folder / "printed").read_text()[-2000:])
    return usage.ru_utime + usage.ru_stime


def grows(cost: Callable[[int], float], start: float) -> None:
    """Raise `Grew` where ten times the size costs 25 times the time or more, measured a second time too."""
    small, large = (max(NOTICEABLE, cost(size) - start) for size in (SIZE, SIZE * TIMES))
    if large >= GROWTH * small:  # lemmas may have been proved anew, where another version of them was used meanwhile
        large = min(large, cost(SIZE * TIMES) - start)
    print(f"{small:.2f} s, then {large:.2f} s: {large / small:.1f} times")
    if large >= GROWTH * small:
        raise Grew(f"{small:.2f} s, then {large:.2f} s")


def written(path: Path, content: str | bytes) -> str:
    """The path of a new file."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def verifying(path: str, *options: str) -> list[str]:
    """The command that verifies a plan, without the query from the definition, which has a limit of its own."""
    return ["verify-plan", "--definition-limit", "0", *options, path]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> float:
    """What a plan of a single step takes, once the lemmas are recorded."""
    folder = tmp_path_factory.mktemp("start")
    path = written(folder / "p.plan.txt", plan(["step s com.x::Read x ->"], room=16))
    return min(seconds(verifying(path), folder) for _ in range(3))


@pytest.mark.parametrize("family", PLANS, ids=lambda family: family.__name__)
def test_a_plan_is_verified_in_time_that_grows_as_its_size(
    family: Callable[[int], str], start: float, tmp_path: Path
) -> None:
    def cost(size: int) -> float:
        path = written(tmp_path / f"{size}.plan.txt", family(size))
        return seconds(verifying(path), tmp_path, expected=int(family in REFUTED))

    grows(cost, start)


@pytest.mark.parametrize("family", MODELS, ids=lambda family: family.__name__)
def test_a_model_is_planned_and_its_plan_verified_in_time_that_grows_as_its_size(
    family: Callable[[int], str | bytes], start: float, tmp_path: Path
) -> None:
    suffix = ".onnx" if family.__name__.startswith("onnx") else ".ir.txt"

    def path(size: int) -> str:
        return written(tmp_path / f"{size}{suffix}", family(size))

    def made(size: int) -> str:
        return str(tmp_path / f"{size}.plan.cbor")

    donated = ["--donate", "*"] if family in (worst.model_wide, worst.model_changes) else []
    grows(lambda size: seconds(["tmmu", "plan", path(size), "-o", made(size), *donated], tmp_path), start)
    grows(lambda size: seconds(verifying(made(size), "--model", path(size), *donated), tmp_path), start)


def test_all_ranks_are_planned_and_verified_together_in_time_that_grows_as_their_size(
    start: float, tmp_path: Path
) -> None:
    spec = written(tmp_path / "shards.toml", worst.SHARDS)

    def path(size: int) -> str:
        return written(tmp_path / f"{size}.ir.txt", worst.model_of_layers(size))

    def ranks(size: int) -> list[str]:
        return [str(tmp_path / f"{size}.rank{rank}.cbor") for rank in range(2)]

    def planning(size: int) -> list[str]:
        return ["tmmu", "plan", path(size), "-o", str(tmp_path / f"{size}.cbor"), "--shard", spec]

    grows(lambda size: seconds(planning(size), tmp_path), start)
    together = ("--require", "ranks", "--model")
    grows(lambda size: seconds([*verifying(ranks(size)[0], *together, path(size)), ranks(size)[1]], tmp_path), start)


@pytest.mark.parametrize("reading", [fits, match_pattern], ids=["the verifier's", "the planner's"])
def test_a_pattern_is_compared_in_time_that_grows_as_the_name(reading: Callable[[str, str], bool]) -> None:
    """What follows the star begins at each place of the name, and ends at none. spec: P1.8"""

    def cost(size: int) -> float:
        began = time.process_time()
        assert not any(reading(f"*{'a' * size}b{more}", "a" * 2 * size) for more in ("", "*"))
        return time.process_time() - began

    grows(cost, 0)


def test_what_grows_as_the_square_is_noticed(tmp_path: Path) -> None:
    """A stand-in that looks at each pair."""
    pairs = "import sys; n = int(sys.argv[1]); sum(1 for a in range(2 * n) for b in range(2 * n))"

    def cost(size: int) -> float:
        return seconds([sys.executable, "-c", pairs, str(size)], tmp_path)

    with pytest.raises(Grew):
        grows(cost, cost(1))


def test_a_command_that_stops_early_is_no_fast_one(tmp_path: Path) -> None:
    path = written(tmp_path / "p.plan.txt", wide_step(2) + "no statement\n")
    with pytest.raises(AssertionError, match="INVALID_PLAN"):
        seconds(verifying(path), tmp_path)
