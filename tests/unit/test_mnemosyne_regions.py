"""Regions of files in memory: placement, files, states, the bound, and what is refused.

Memory is as large as a test says, so that some tiles fill 7/10 of it.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import faults
from tmmu.mnemosyne.address_space import PAGE, TILE, AddressSpace, resident_bytes
from tmmu.mnemosyne.failures import NoAddressSpace
from tmmu.mnemosyne.regions import MAX_REGION_SIZE, MappedRegion, RegionStore, TileState
from tmmu.mnemosyne.replacement import ONE
from tmmu.runtime.events import EventLog
from tmmu.runtime.ram import total_ram


def memory_for(tiles: int) -> int:
    """The least memory of which 7/10 hold some tiles."""
    return -(-10 * TILE * tiles // 7)


def written(path: Path, size: int, seed: int = 0) -> bytes:
    content = np.random.default_rng(seed).integers(1, 256, size, np.uint8).tobytes()
    path.write_bytes(content)
    return content


@pytest.fixture
def store() -> Iterator[RegionStore]:
    """Room for 8 tiles."""
    with RegionStore(lambda: memory_for(8)) as store:
        yield store
        gc.collect()


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(TmmuError) as raised:
        call()
    return raised.value.code_id


def mappings() -> list[tuple[int, int, str, str]]:
    """What the system has mapped: begin, end, access, file."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, _, _, _, *name = line.split(maxsplit=5)
        begin, end = (int(address, 16) for address in addresses.split("-"))
        found.append((begin, end, access, name[0] if name else ""))
    return found


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def mapped(region: MappedRegion) -> list[bool]:
    return [state is not TileState.UNMAPPED for state in region.states()]


def test_a_region_begins_at_a_tile_and_is_the_file(tmp_path: Path, store: RegionStore) -> None:
    """spec: MN1.1, MN1.2, MN2.4"""
    found = []
    for number, size in enumerate((1, PAGE, TILE - 1, TILE, 2 * TILE + 5)):
        content = written(tmp_path / str(number), size, number)
        region = store.map(tmp_path / str(number))
        view = region.view()
        assert region.base % TILE == 0
        assert view.ctypes.data == region.base
        assert not view.flags.owndata
        assert view.tobytes() == content
        found.append((region.base, region.base + region.tiles * TILE))
    found.sort()
    assert all(end <= begin for (_, end), (begin, _) in pairwise(found))


def test_an_offset_is_of_the_file_and_a_multiple_of_the_page(tmp_path: Path, store: RegionStore) -> None:
    """spec: MN2.1"""
    content = written(tmp_path / "f", 5 * PAGE)
    region = store.map(tmp_path / "f", offset=PAGE, size=2 * PAGE)
    assert region.size == 2 * PAGE
    assert region.view().tobytes() == content[PAGE : 3 * PAGE]
    assert region.view(3, 12, np.dtype("<u1")).tobytes() == content[PAGE + 3 : PAGE + 12]
    assert store.map(tmp_path / "f", offset=PAGE).size == 4 * PAGE
    refused = [
        {"offset": 1}, {"offset": PAGE // 2, "size": 1}, {"offset": -PAGE, "size": 1}, {"size": 0}, {"size": -1},
        {"size": 5 * PAGE + 1}, {"offset": 5 * PAGE}, {"offset": 4 * PAGE, "size": PAGE + 1}, {"offset": 9 * PAGE},
    ]  # fmt: skip
    for arguments in refused:
        assert refusal(lambda given=arguments: store.map(tmp_path / "f", **given)) == "REGION_REFUSED", arguments
    (tmp_path / "empty").touch()
    assert refusal(lambda: store.map(tmp_path / "empty")) == "REGION_REFUSED"


def test_what_is_no_file_is_refused_at_once(tmp_path: Path, store: RegionStore) -> None:
    """spec: MN2.1"""
    os.mkfifo(tmp_path / "pipe")
    assert refusal(lambda: store.map(tmp_path / "pipe")) == "REGION_REFUSED"
    assert refusal(lambda: store.map(tmp_path)) == "REGION_REFUSED"
    assert refusal(lambda: store.map("/dev/zero")) == "REGION_REFUSED"
    assert refusal(lambda: store.map(tmp_path / "none")) == "TMMU_ALLOCATION_FAILURE"
    assert refusal(lambda: store.map(tmp_path / "a\0b")) == "TMMU_ALLOCATION_FAILURE"


def test_a_region_has_at_most_the_size_that_is_permitted(tmp_path: Path) -> None:
    """spec: MN1.5"""
    written(tmp_path / "f", 3 * PAGE)
    assert RegionStore().max_region_size == MAX_REGION_SIZE == 1 << 30
    with RegionStore(max_region_size=2 * PAGE) as store:
        assert store.map(tmp_path / "f", size=2 * PAGE).size == 2 * PAGE
        assert refusal(lambda: store.map(tmp_path / "f", size=2 * PAGE + 1)) == "REGION_REFUSED"


def test_a_region_for_reading_opens_its_file_for_reading_and_cannot_be_written(
    tmp_path: Path, store: RegionStore
) -> None:
    """spec: MN2.2"""
    written(tmp_path / "f", TILE)
    region = store.map(tmp_path / "f")
    flags = Path(f"/proc/self/fdinfo/{region._descriptor}").read_text().split("flags:")[1].split()[0]
    assert int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
    assert [access for begin, _, access, _ in mappings() if begin == region.base] == ["r--s"]
    view = region.view()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True


OTHER_PROCESS = """
import sys
from tmmu.mnemosyne.regions import RegionStore
region = RegionStore().map(sys.argv[1], is_writable=True)
view = region.view()
print(bytes(view[:5]).decode(), flush=True)
input()
print(bytes(view[:5]).decode(), flush=True)
view[5:10] = bytearray(b"other")
print("written", flush=True)
input()
"""


def test_two_processes_see_what_each_of_them_writes(tmp_path: Path, store: RegionStore) -> None:
    """spec: MN2.3"""
    (tmp_path / "f").write_bytes(b"first" + bytes(TILE))
    region = store.map(tmp_path / "f", is_writable=True)
    view = region.view()
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, tmp_path / "f"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "first\n"
        view[:5] = bytearray(b"again")
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "again\n"
        assert child.stdout.readline() == "written\n"
        assert bytes(view[:10]) == b"againother"
        child.stdin.write("\n")
    assert (tmp_path / "f").read_bytes()[:10] == b"againother"


def test_a_tile_is_unmapped_mapped_or_resident_as_the_system_reports(tmp_path: Path, store: RegionStore) -> None:
    """spec: MN2.7"""
    with (tmp_path / "f").open("wb") as file:
        file.truncate(3 * TILE + PAGE)  # holes: no page of it is in memory
    region = store.map(tmp_path / "f", is_writable=True)
    region.view(TILE, 2 * TILE)[:] = 1
    region.view(3 * TILE)[:] = 1
    states = region.states()
    assert (states[1], states[3]) == (TileState.RESIDENT, TileState.RESIDENT)
    store.map(tmp_path / "f", size=2 * TILE)  # 6 of 8 tiles
    written(tmp_path / "g", 4 * TILE)
    store.map(tmp_path / "g")
    assert region.states()[0] is TileState.UNMAPPED
    assert region.states()[1] is TileState.RESIDENT


class SparselyResident(AddressSpace):
    """Reports a page as not in memory."""

    def resident(self, address: int, size: int):  # type: ignore[no-untyped-def]
        found = super().resident(address, size)
        found[len(found) // 2] = False
        return found


def test_a_tile_with_a_page_that_is_not_in_memory_is_mapped_and_not_resident(tmp_path: Path) -> None:
    """spec: MN2.7"""
    written(tmp_path / "f", 2 * TILE)
    with RegionStore(space=SparselyResident()) as store:
        assert store.map(tmp_path / "f").states() == [TileState.MAPPED] * 2


def test_the_bound_is_seven_tenths_of_the_memory_of_this_process_in_integers(tmp_path: Path) -> None:
    """spec: MN1.3"""
    assert RegionStore().bound == 7 * total_ram() // (10 * TILE) * TILE
    written(tmp_path / "f", 3 * TILE)
    for memory, fits in ((memory_for(3), True), (memory_for(3) - 1, False)):
        with RegionStore(lambda memory=memory: memory) as store:
            if fits:
                store.map(tmp_path / "f")
            else:
                assert refusal(lambda store=store: store.map(tmp_path / "f")) == "MEMORY_BOUND"
            assert 10 * store.mapped_bytes <= 7 * memory


def test_what_does_not_fit_beside_pinned_tiles_is_refused_with_no_tile_released(
    tmp_path: Path, store: RegionStore
) -> None:
    """spec: MN1.4, MN3.5"""
    written(tmp_path / "f", 6 * TILE)
    first = store.map(tmp_path / "f")
    held = first.view(0, 3 * TILE + 1)  # 4 tiles
    assert refusal(lambda: store.map(tmp_path / "f", size=5 * TILE)) == "MEMORY_BOUND"
    assert mapped(first) == [True] * 6
    assert store.evicted == 0
    second = store.map(tmp_path / "f", size=4 * TILE)
    assert mapped(first) == [True] * 4 + [False] * 2
    assert (store.evicted, store.mapped_bytes) == (2, 8 * TILE)
    other = second.view()
    assert refusal(first.view) == "MEMORY_BOUND"
    del other
    assert first.view().tobytes() == (tmp_path / "f").read_bytes()
    assert held.tobytes() == (tmp_path / "f").read_bytes()[: 3 * TILE + 1]


def test_no_address_of_a_released_tile_is_free_and_none_can_be_accessed(tmp_path: Path, store: RegionStore) -> None:
    """spec: MN1.2"""
    content = written(tmp_path / "f", 6 * TILE)
    region = store.map(tmp_path / "f")
    store.map(tmp_path / "f", size=5 * TILE)
    assert mapped(region) == [False] * 3 + [True] * 3
    access = {
        address: mode
        for begin, end, mode, _ in mappings()
        for address in range(region.base, region.base + 6 * TILE, TILE)
        if begin <= address < end
    }
    assert [access[region.base + tile * TILE] for tile in range(6)] == ["---p"] * 3 + ["r--s"] * 3
    others = [mmap.mmap(-1, TILE) for _ in range(64)]
    assert region.view(0, 3 * TILE).tobytes() == content[: 3 * TILE]
    assert all(other[:] == bytes(TILE) for other in others)


def test_memory_that_has_shrunk_is_relieved_of_the_least_weighted_tiles(tmp_path: Path) -> None:
    """spec: MN3.6, MN3.3"""
    written(tmp_path / "f", 40 * TILE)
    memory = [memory_for(40)]
    with RegionStore(lambda: memory[0]) as store:
        region = store.map(tmp_path / "f")
        region.attend([ONE - tile for tile in range(40)])
        region.view().sum()
        held = region.view(38 * TILE)  # of the least weighted, two are pinned
        assert store.relieve() is None
        memory[0] = memory_for(30) - 1
        relief = store.relieve()
        assert relief is not None
        assert (relief.excess, relief.released, relief.skipped) == (11, 11, 2)
        assert mapped(region) == [True] * 27 + [False] * 11 + [True] * 2
        assert relief.resident_before - relief.resident_after == 11 * TILE
        assert relief.resident_after == resident_bytes([(region.base, region.base + 40 * TILE)]) == 29 * TILE
        assert store.relieve() is None
        memory[0] = memory_for(1)
        relief = store.relieve()
        assert relief is not None
        assert (relief.excess, relief.released, relief.skipped) == (28, 27, 2)
        assert refusal(lambda: region.view(0, 1)) == "MEMORY_BOUND"
        assert held.any()
        del held


def test_memory_that_has_shrunk_is_relieved_before_anything_is_admitted(tmp_path: Path) -> None:
    """spec: MN3.6"""
    written(tmp_path / "f", 8 * TILE)
    memory = [memory_for(8)]
    with RegionStore(lambda: memory[0]) as store:
        region = store.map(tmp_path / "f")
        region.attend([0, 0, 0, 0], first=4)
        region.attend([ONE] * 4)
        memory[0] = memory_for(4)
        store.map(tmp_path / "f", size=TILE)
        assert [relief.released for relief in store.reliefs] == [4]
        assert mapped(region) == [False] + [True] * 3 + [False] * 4


def test_weights_outlast_a_release(tmp_path: Path, store: RegionStore) -> None:
    """spec: MN3.3"""
    written(tmp_path / "f", 8 * TILE)
    region = store.map(tmp_path / "f", size=4 * TILE)
    other = store.map(tmp_path / "f", size=4 * TILE)
    region.attend([ONE])
    other.view()
    other.view()
    store.map(tmp_path / "f")  # all go
    assert mapped(region) == [False] * 4
    region.view()
    store.map(tmp_path / "f", size=5 * TILE)  # takes one of the 4
    assert mapped(region) == [True, False, True, True]
    for weights, first in (([ONE + 1], 0), ([-1], 0), ([0] * 5, 0), ([0], 4), ([0], -1)):
        with pytest.raises(ValueError, match="weights"):
            region.attend(weights, first)


def test_an_array_pins_its_tiles_until_the_last_one_derived_from_it_is_collected(
    tmp_path: Path, store: RegionStore
) -> None:
    """spec: MN2.4, MN3.5, MN1.6"""
    written(tmp_path / "f", 4 * TILE)
    region = store.map(tmp_path / "f")
    first, second = region.view(0, TILE + 1), region.view(TILE, 2 * TILE, np.float32)
    derived = memoryview(first[1:].reshape(-1, 4)[::2])
    assert region.pinned_tiles == 2
    del first
    assert region.pinned_tiles == 2
    assert refusal(region.close) == refusal(store.close) == "IN_USE"
    del derived
    assert region.pinned_tiles == 1
    written(tmp_path / "g", 7 * TILE + 1)
    assert refusal(lambda: store.map(tmp_path / "g")) == "MEMORY_BOUND"  # the tile of both is in use still
    del second
    assert region.pinned_tiles == 0
    assert any(begin == region.base for begin, *_ in mappings())
    before = len(descriptors())
    region.close()
    region.close()
    assert len(descriptors()) == before - 1
    assert not any(begin <= region.base < end for begin, end, *_ in mappings())
    for call in (region.view, region.check, region.states, lambda: region.attend([0])):
        assert refusal(call) == "USE_AFTER_FREE"
    store.close()
    assert refusal(lambda: store.map(tmp_path / "f")) == "USE_AFTER_FREE"


def test_a_tile_that_was_mapped_again_is_that_of_the_file_and_pinned(tmp_path: Path, store: RegionStore) -> None:
    """spec: MN3.5"""
    content = written(tmp_path / "f", 8 * TILE)
    region = store.map(tmp_path / "f", offset=PAGE, size=4 * TILE)
    store.map(tmp_path / "f")
    assert mapped(region) == [False] * 4
    view = region.view()
    assert refusal(lambda: store.map(tmp_path / "f", size=5 * TILE)) == "MEMORY_BOUND"
    store.map(tmp_path / "f", size=4 * TILE)
    store.map(tmp_path / "f", size=4 * TILE)
    assert mapped(region) == [True] * 4
    assert view.tobytes() == content[PAGE : 4 * TILE + PAGE]


def test_what_is_no_range_of_elements_is_refused(tmp_path: Path, store: RegionStore) -> None:
    """A file's bytes are never pointers. spec: MN2.4"""
    written(tmp_path / "f", TILE)
    region = store.map(tmp_path / "f")
    assert region.view(5, 5).size == 0
    for arguments in ((-1,), (0, TILE + 1), (2, 1), (0, 6, np.float32), (0, 8, object), (0, 8, "V0"), (TILE + 1,)):
        with pytest.raises(ValueError, match="bytes"):
            region.view(*arguments)
    assert region.pinned_tiles == 0


@pytest.mark.parametrize("damage", ["truncated", "replaced", "removed", "emptied"])
def test_a_file_that_is_no_longer_the_one_mapped_is_an_error_at_the_next_access(
    damage: str, tmp_path: Path, store: RegionStore
) -> None:
    """spec: MN2.6"""
    content = written(tmp_path / "f", 2 * TILE)
    region = store.map(tmp_path / "f")
    assert region.view().tobytes() == content
    if damage == "truncated":
        os.truncate(tmp_path / "f", 2 * TILE - 1)
    elif damage == "emptied":
        (tmp_path / "f").write_bytes(b"")
    elif damage == "removed":
        (tmp_path / "f").unlink()
    else:
        written(tmp_path / "g", 2 * TILE)
        (tmp_path / "g").rename(tmp_path / "f")
    for call in (region.view, region.check, region.states, lambda: region.attend([0])):
        assert refusal(call) == "REGION_LOST"
    (tmp_path / "f").write_bytes(content)
    assert refusal(region.view) == "REGION_LOST"  # it stays lost
    region.close()
    assert store.map(tmp_path / "f").view().tobytes() == content


def test_a_file_that_grows_and_a_name_that_is_a_link_are_no_error(
    tmp_path: Path, store: RegionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: MN2.6"""
    content = written(tmp_path / "f", TILE)
    (tmp_path / "link").symlink_to("f")
    monkeypatch.chdir(tmp_path)
    region = store.map("link")
    with (tmp_path / "f").open("ab") as file:
        file.write(b"more")
    monkeypatch.chdir("/")
    assert region.view().tobytes() == content


def test_a_reading_ends_with_an_error_where_the_file_was_damaged_meanwhile(tmp_path: Path, store: RegionStore) -> None:
    """spec: MN2.5, MN2.6"""
    content = written(tmp_path / "f", 4 * TILE)
    region = store.map(tmp_path / "f")
    with region.reading() as view:
        assert view.tobytes() == content

    def damaged() -> None:
        with region.reading() as view:
            os.truncate(tmp_path / "f", TILE)
            assert view.tobytes() == content[:TILE] + bytes(3 * TILE)

    assert refusal(damaged) == "REGION_LOST"
    assert refusal(region.reading().__enter__) == "REGION_LOST"


def test_a_reading_that_is_to_be_of_an_unchanged_file_notices_one_that_was_extended_again(
    tmp_path: Path, store: RegionStore
) -> None:
    """spec: MN2.9"""
    content = written(tmp_path / "f", 2 * TILE)
    region = store.map(tmp_path / "f")

    def damage() -> None:
        time.sleep(0.02)  # the time of a change is counted in steps of some milliseconds
        os.truncate(tmp_path / "f", PAGE)
        os.truncate(tmp_path / "f", 2 * TILE)

    def damaged(unchanged: bool) -> None:
        with region.reading(unchanged=unchanged) as view:
            damage()
            assert view.tobytes() == content[:PAGE] + bytes(2 * TILE - PAGE)

    damaged(False)  # its bytes are zeros of its own
    content = written(tmp_path / "f", 2 * TILE)
    assert refusal(lambda: damaged(True)) == "REGION_LOST"
    content = written(tmp_path / "f", 2 * TILE)
    with region.reading(unchanged=True) as view:
        assert view.tobytes() == content


def test_a_store_that_is_dropped_gives_everything_back(tmp_path: Path) -> None:
    """Not while an array of it is held. spec: MN1.8"""
    content = written(tmp_path / "f", 2 * TILE)
    gc.collect()
    before = descriptors(), [entry for entry in mappings() if entry[3] == str(tmp_path / "f")]
    store = RegionStore(lambda: memory_for(8))
    regions = [store.map(tmp_path / "f") for _ in range(3)]
    held = regions[0].view(TILE)
    del store, regions
    gc.collect()
    assert held.tobytes() == content[TILE:]
    assert len(descriptors()) == len(before[0]) + 3
    del held
    gc.collect()
    assert (descriptors(), [entry for entry in mappings() if entry[3] == str(tmp_path / "f")]) == before
    with RegionStore() as other:
        assert other.map(tmp_path / "f").view().tobytes() == content
        assert all(each.begin < each.end for each in faults._watched)  # those of the store before are watched no more


def test_within_the_bound_stays_within_until_memory_shrinks(tmp_path: Path) -> None:
    """And over it nothing is admitted. spec: MN1.3, MN1.7"""
    written(tmp_path / "f", 4 * TILE)
    looked, memory = [0], [memory_for(6)]

    def look() -> int:
        looked[0] += 1
        return memory[0]

    with RegionStore(look) as store:
        for calls in range(1, 6):
            store.map(tmp_path / "f").view(0, 2 * TILE)
            assert looked[0] >= calls
            assert store.mapped_bytes <= 6 * TILE
        before, held = looked[0], store.regions[-1].view()
        store.map(tmp_path / "f", size=TILE)
        assert looked[0] == before + 1
        memory[0] = memory_for(3)
        assert refusal(lambda: store.map(tmp_path / "f", size=1)) == "MEMORY_BOUND"
        assert refusal(lambda: store.regions[0].view(0, 1)) == "MEMORY_BOUND"
        assert store.mapped_bytes == 4 * TILE  # more than it permits, all pinned
        del held
        assert store.map(tmp_path / "f", size=1).view().any()
        assert store.mapped_bytes <= 3 * TILE


class Full(EventLog):
    """A log whose disk is full after some lines."""

    def __init__(self, left: int) -> None:
        self.left = left
        super().__init__()

    def __call__(self, event: str, **fields: object) -> None:
        self.left -= 1
        if self.left < 0:
            raise NoAddressSpace("the disk is full")
        super().__call__(event, **fields)


def test_a_log_that_cannot_be_written_is_an_error_once_and_the_store_goes_on(tmp_path: Path) -> None:
    """spec: MN9.4"""
    content = written(tmp_path / "f", 4 * TILE)
    for left in range(2, 24, 3):
        log, refused = Full(left), 0
        with RegionStore(lambda: memory_for(5), events=log) as store:
            while len(store.regions) < 2:
                try:
                    region = store.map(tmp_path / "f")
                    region.attend([7])
                except NoAddressSpace:
                    refused += 1
            region = store.regions[0]
            for _ in range(3):
                try:
                    assert region.view().tobytes() == content
                except NoAddressSpace:
                    refused += 1
            assert all(region.pinned_tiles == 0 for region in store.regions)
            assert store.mapped_bytes <= 5 * TILE
        assert refused == 1


def test_a_log_states_what_the_system_has_mapped(tmp_path: Path) -> None:
    """As /proc/self/maps has it, read another way. spec: MN9.1"""
    written(tmp_path / "f", 3 * TILE)
    log = EventLog()
    with RegionStore(lambda: memory_for(3), events=log) as store:
        region = store.map(tmp_path / "f", offset=PAGE, size=2 * TILE - PAGE - 5)
        (found,) = [(begin, end) for begin, end, _, name in mappings() if name == str(tmp_path / "f")]
        line = json.loads(log.lines[-1])
        assert (line["event"], line["begin"], line["end"], line["offset"]) == ("region mapped", *found, PAGE)
        assert found == (region.base, region.base + 2 * TILE - PAGE)
        store.map(tmp_path / "f", size=2 * TILE)
        assert [json.loads(text).get("is_reserved") for text in log.lines if "tile released" in text] == [True]
    assert RegionStore().bound  # and without a log there is none
    assert [json.loads(text)["event"] for text in log.lines][-1] == "store closed"


class FailingSpace(AddressSpace):
    """Refuses the n-th mapping, which leaves a hole as the system does, or places it elsewhere."""

    def __init__(self, fails: int, elsewhere: bool) -> None:
        self.left, self.elsewhere = fails, elsewhere

    def _mmap(self, address: int | None, size: int, *more: int) -> int:
        self.left -= 1
        if self.left:
            return super()._mmap(address, size, *more)
        if self.elsewhere:
            return super()._mmap(None, size, more[0], more[1] & ~0x10, *more[2:])
        if address is not None:
            self.unmap(address, size)
        raise NoAddressSpace("refused")


@pytest.mark.parametrize(("fails", "elsewhere"), [(1, False), (2, False), (2, True)])
def test_a_region_that_cannot_be_made_leaves_nothing_behind(fails: int, elsewhere: bool, tmp_path: Path) -> None:
    """spec: MN1.1, MN2.8"""
    written(tmp_path / "f", 3 * TILE)
    before = descriptors(), sum(end - begin for begin, end, _, name in mappings() if name in ("", str(tmp_path / "f")))
    with RegionStore(lambda: memory_for(4), space=FailingSpace(fails, elsewhere)) as store:
        assert refusal(lambda: store.map(tmp_path / "f")) == "TMMU_ALLOCATION_FAILURE"
        assert (store.mapped_bytes, store.regions) == (0, ())
        after = descriptors(), sum(e - b for b, e, _, name in mappings() if name in ("", str(tmp_path / "f")))
        assert after == before
        assert store.map(tmp_path / "f").view().any()


class Misaligned(AddressSpace):
    """Reserves addresses that begin at a page."""

    def reserve(self, size: int) -> int:
        return super().reserve(size + TILE) + 4096


def test_a_region_that_does_not_begin_at_a_tile_is_refused(tmp_path: Path) -> None:
    """spec: MN1.1"""
    written(tmp_path / "f", TILE)
    with RegionStore(space=Misaligned()) as store:
        assert refusal(lambda: store.map(tmp_path / "f")) == "TMMU_ALLOCATION_FAILURE"
        assert store.regions == ()


def test_a_tile_that_cannot_be_mapped_again_leaves_no_pin(tmp_path: Path) -> None:
    """spec: MN2.8"""
    content = written(tmp_path / "f", 4 * TILE)
    space = FailingSpace(0, False)
    with RegionStore(lambda: memory_for(4), space=space) as store:
        region = store.map(tmp_path / "f")
        other = store.map(tmp_path / "f", size=2 * TILE)
        space.left = 4  # two tiles are released, one is mapped, the next is refused
        assert refusal(lambda: region.view(0, 2 * TILE)) == "TMMU_ALLOCATION_FAILURE"
        assert (region.pinned_tiles, other.pinned_tiles) == (0, 0)
        for address in range(region.base, region.base + 4 * TILE, TILE):
            assert any(begin <= address < end for begin, end, _, _ in mappings())
        assert region.view().tobytes() == content
