"""A store of regions beside a plain model of it, whatever is done with it in whatever order.

The model has the bytes of each file, and which tiles are mapped, by the definitions of decisions N1 and N2. Memory is
as large as a few tiles. spec: MN1.1 to MN1.6, MN2.1 to MN2.4, MN2.6, MN2.7, MN3.1, MN3.5, MN3.6
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.effort import share
from tests.support.plain_replacement import PlainReplacement
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.address_space import PAGE, TILE
from tmmu.mnemosyne.regions import MappedRegion, RegionStore, TileState
from tmmu.mnemosyne.replacement import ONE

FILES = 3
FILE = 4 * TILE + 3 * PAGE + 17
MOST = 3 * TILE + PAGE + 1


SIZES = st.sampled_from([2 * TILE + 5, MOST, TILE, TILE + 1, 2 * TILE, 1, TILE - 1, 3 * TILE])
STARTS = st.sampled_from([0, 1, TILE - 1, TILE, 2 * TILE, 3 * TILE])


@dataclass
class Known:
    """A region, and what the model has of it; its tiles are `first`, `first` + 1, … in the store."""

    region: MappedRegion
    file: int
    offset: int
    size: int
    is_writable: bool
    first: int
    weights: list[int]
    is_lost: bool = False
    views: list[tuple[Any, int, int]] = field(default_factory=list)

    def tiles(self, start: int, stop: int) -> list[int]:
        """Those with a byte from `start` to `stop`."""
        return sorted({self.first + at // TILE for at in (*range(start, stop, TILE), stop - 1) if start <= at < stop})


class StoreMachine(RuleBasedStateMachine):
    """The model works out each answer before the store is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.content = [bytearray((7 * n + at // 3) % 251 + 1 for at in range(FILE)) for n in range(FILES)]
        for number, content in enumerate(self.content):
            self.path(number).write_bytes(content)
        self.known: list[Known] = []
        self.plain = PlainReplacement()
        self.next = 0

    @initialize(room=st.integers(4, 9), more=st.integers(0, TILE), pages=st.lists(st.integers(0, 6), max_size=4))
    def make(self, room: int, more: int, pages: list[int]) -> None:
        self.memory = -(-10 * TILE * room // 7) + more
        self.store = RegionStore(lambda: self.memory, MOST)
        for number, page in enumerate([0, *pages]):
            self.map(number % FILES, page, MOST - 4, number % 2 == 0)

    def teardown(self) -> None:
        for known in self.known:
            known.views.clear()
        if hasattr(self, "store"):
            self.store.close()
        self.folder.cleanup()

    def path(self, number: int) -> Path:
        return Path(self.folder.name) / str(number)

    def bound(self) -> int:
        return max(tiles for tiles in range(20) if 10 * tiles * TILE <= 7 * self.memory)

    def pinned(self) -> set[int]:
        return {tile for known in self.known for _, start, stop in known.views for tile in known.tiles(start, stop)}

    def relieved(self) -> int | None:
        over = 10 * len(self.plain) * TILE - 7 * self.memory
        excess = max(0, (over + 10 * TILE - 1) // (10 * TILE))
        order = sorted(self.plain.last, key=lambda tile: (self.plain.weight[tile], self.plain.last[tile]))
        gone = [tile for tile in order if tile not in self.plain.held][:excess]
        for tile in gone:
            self.plain.remove(tile)
        return len(gone) if excess else None

    def admitted(self, tiles: int) -> bool:
        self.relieved()
        if len(self.plain.held) + tiles > self.bound():
            return False
        while len(self.plain) + tiles > self.bound():
            victim = self.plain.victim()
            assert victim is not None
            self.plain.remove(victim)
        return True

    def refusal(self, call: Any) -> str:
        try:
            call()
        except TmmuError as error:
            return error.code_id
        return ""

    @rule(file=st.integers(0, FILES - 1), page=st.integers(-1, 12), size=SIZES, is_writable=st.booleans())
    def map(self, file: int, page: int, size: int, is_writable: bool) -> None:
        offset = page * PAGE
        there = os.path.getsize(self.path(file))
        made: list[MappedRegion] = []
        found = self.refusal(lambda: made.append(self.store.map(self.path(file), offset, size, is_writable)))
        if offset < 0 or size < 1 or offset + size > there or size > MOST:
            assert found == "REGION_REFUSED"
        elif not self.admitted(-(-size // TILE)):
            assert found == "MEMORY_BOUND"
        else:
            assert found == ""
            weights = [0] * -(-size // TILE)
            known = Known(made[0], file, offset, size, is_writable, self.next, weights)
            self.known.append(known)
            self.next += len(weights)
            for tile in known.tiles(0, size):
                self.plain.insert(tile)

    def one(self, data: st.DataObject) -> Known:
        return data.draw(st.sampled_from(self.known))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), views=st.lists(st.tuples(STARTS, SIZES, st.booleans()), min_size=1, max_size=4))
    def view(self, data: st.DataObject, views: list[tuple[int, int, bool]]) -> None:
        for start, length, held in views:
            self.view_one(self.one(data), start, length, held)

    def view_one(self, known: Known, start: int, length: int, held: bool) -> None:
        start = min(start, known.size)
        stop = min(start + length, known.size)
        got: list[Any] = []
        found = self.refusal(lambda: got.append(known.region.view(start, stop)))
        if known.is_lost:
            assert found == "REGION_LOST"
            return
        tiles = known.tiles(start, stop)
        absent = [tile for tile in tiles if tile not in self.plain]
        before = set(self.plain.held)
        self.plain.held |= set(tiles) - set(absent)
        if absent and not self.admitted(len(absent)):
            assert found == "MEMORY_BOUND"
            self.plain.held = before
            return
        assert found == ""
        for tile in absent:
            self.plain.insert(tile, known.weights[tile - known.first])
        for tile in tiles:
            self.plain.access(tile)
        view = got.pop()
        expected = self.content[known.file][known.offset + start : known.offset + stop]
        assert view.tobytes() == expected
        assert stop == start or view.ctypes.data == known.region.base + start
        assert stop == start or view.flags.writeable == known.is_writable
        if held:
            known.views.append((view, start, stop))
        del view
        self.plain.held = self.pinned()

    @precondition(lambda self: any(known.views for known in self.known))
    @rule(data=st.data(), value=st.integers(0, 255))
    def write_or_drop(self, data: st.DataObject, value: int) -> None:
        known = data.draw(st.sampled_from([known for known in self.known if known.views]))
        view, start, stop = known.views[0]
        if known.is_writable and not known.is_lost and value % 2:
            view[:] = value
            self.content[known.file][known.offset + start : known.offset + stop] = bytes([value]) * (stop - start)
            assert self.path(known.file).read_bytes() == self.content[known.file]
        else:
            del view
            known.views.pop(0)
            self.plain.held = self.pinned()

    @precondition(lambda self: self.known)
    @rule(data=st.data(), weight=st.sampled_from([0, 1, ONE // 2, ONE]), first=st.integers(0, 3))
    def attend(self, data: st.DataObject, weight: int, first: int) -> None:
        known = self.one(data)
        given = [weight] * (len(known.weights) - first)
        if not given:
            return
        found = self.refusal(lambda: known.region.attend(given, first))
        assert found == ("REGION_LOST" if known.is_lost else "")
        if not found:
            known.weights[first:] = given
            for tile in range(known.first + first, known.first + len(known.weights)):
                if tile in self.plain:
                    self.plain.attend(tile, weight)

    @rule(room=st.integers(0, 9), more=st.integers(0, TILE), back=st.booleans())
    def limit(self, room: int, more: int, back: bool) -> None:
        """Memory shrinks; it is as it was, or more, by the next time."""
        self.memory = self.memory * 2 if back and self.bound() < 5 else -(-10 * TILE * room // 7) + more

    @rule()
    def relieve(self) -> None:
        excess = -(-(10 * len(self.plain) * TILE - 7 * self.memory) // (10 * TILE))
        relief, released = self.store.relieve(), self.relieved()
        if released is None:
            assert relief is None
        else:
            assert relief is not None
            assert (relief.excess, relief.released) == (excess, released)
            assert relief.released + relief.skipped >= excess or len(self.plain.held) == len(self.plain)
            assert relief.resident_after <= relief.resident_before

    @precondition(lambda self: len(self.known) > 2)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        known = self.one(data)
        found = self.refusal(known.region.close)
        if any(stop > start for _, start, stop in known.views):
            assert found == "IN_USE"
            return
        assert found == ""
        assert self.refusal(known.region.view) == "USE_AFTER_FREE"
        self.known.remove(known)
        for tile in known.tiles(0, known.size):
            if tile in self.plain:
                self.plain.remove(tile)

    @precondition(lambda self: len(self.known) > 4)
    @rule(how=st.sampled_from(["replaced", "cut"]), size=st.integers(1, FILE))
    def damage(self, how: str, size: int) -> None:
        """One file alone: the others are whole in every run."""
        file = 0
        if how == "replaced":
            other = self.path(FILES)
            other.write_bytes(self.content[file])
            other.rename(self.path(file))
            self.content[file] = bytearray(self.content[file])
        else:
            os.truncate(self.path(file), min(size, len(self.content[file])))
            del self.content[file][size:]
        for known in self.known:
            if known.file == file and (how == "replaced" or known.offset + known.size > len(self.content[file])):
                known.is_lost = True
                assert self.refusal(known.region.check) == "REGION_LOST"

    @invariant()
    def is_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.mapped_bytes == len(self.plain) * TILE
        ranges = sorted((known.region.base, known.region.base + known.region.tiles * TILE) for known in self.known)
        assert all(base % TILE == 0 for base, _ in ranges)
        assert all(end <= base for (_, end), (base, _) in pairwise(ranges))
        for known in self.known:
            if not known.is_lost:
                mapped = [state is not TileState.UNMAPPED for state in known.region.states()]
                assert mapped == [tile in self.plain for tile in known.tiles(0, known.size)]
                for view, start, stop in known.views:
                    assert view.tobytes() == self.content[known.file][known.offset + start : known.offset + stop]


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=share(80), stateful_step_count=50)
