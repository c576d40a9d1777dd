"""A handful of programs through each planner that is installed, and each finding that is kept, shown again.

`HUNT_VENVS` names the folder with their environments; `make hunt` makes them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nightly.hunt import rerun
from tests.nightly.hunt.__main__ import replay
from tests.nightly.hunt.driver import Hunt, Worker, lines
from tests.nightly.hunt.planners import PLANNERS, name_missing, python_of
from tests.nightly.hunt.planted import KINDS, measure_power

FOUND = sorted((Path(__file__).parent / "hunt" / "found").glob("*.json"))
COUNT = 12
STATE_NO_PLAN = ("onnxruntime", "openvino", "mnn", "tract", "tflm")
"""Their results are compared, and nothing else."""


def test_every_planted_error_is_found() -> None:
    """And none in the planner without them."""
    found, used = measure_power(400)
    assert found["none"] == 0
    assert [kind for kind in KINDS if not found[kind]] == []
    assert all(used[name] > 40 for name in used)


def needs(name: str) -> None:
    if not PLANNERS[name].python.exists():
        pytest.skip(f"{name} is not installed: make hunt PLANNERS={name}")  # its compiler takes gigabytes


@pytest.mark.parametrize("name", PLANNERS)
def test_programs_go_through_a_planner(name: str, tmp_path: Path) -> None:
    """Most compile, our readers take what they made, and nothing hangs. LiteRT's composites are not decided."""
    needs(name)
    with Worker(PLANNERS[name].command) as worker:
        hunt = Hunt(name, worker, tmp_path, shrinks=False)
        hunt.run(float("inf"), COUNT)
        tried = list(lines(hunt.log))
    outcomes = [line["outcome"] for line in tried]
    assert len(outcomes) == COUNT
    assert not {"unread", "hung"} & set(outcomes)
    unknown = [line["detail"] for line in tried if line["outcome"] == "unknown"]
    assert all("STABLEHLO_COMPOSITE" in detail for detail in unknown), unknown
    compiled = ("right", "proved", "refuted", *(("no plan",) if name in STATE_NO_PLAN else ()))
    assert sum(outcome in compiled for outcome in outcomes) > COUNT // 3


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_is_shown_again(path: Path) -> None:
    """With the version that it was found in; a later one may have mended it, and the record then says so.

    What reads beyond its memory ends in one way or another, mostly as it did.
    """
    needs(path.stem.partition("-")[0])
    assert any(replay(path, None) == 0 for _ in range(3))


@pytest.mark.parametrize("name", sorted(path.stem for path in rerun.PROGRAMS.glob("*.py")))
def test_a_report_tells_its_state(name: str) -> None:
    """Its program runs to its end, and its counter-test gives the expected values."""
    environment = rerun.PROJECTS[name.partition("-")[0]]
    if not python_of(environment).exists() or name_missing(rerun.NEEDS.get(name, ())):
        pytest.skip(f"{environment} is not installed: make reports")  # the packages take gigabytes
    assert rerun.run_in(name, environment, "pinned").word in ("still wrong", "mended")
