"""How regions and stores advise the system of their reads. spec: MN2.10"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.support.stored_vectors import put, store
from tmmu.mnemosyne.address_space import PAGE, TILE, AddressSpace
from tmmu.mnemosyne.mapped_file import open_mapped_file
from tmmu.mnemosyne.regions import RegionStore


class Told(AddressSpace):
    """Notes the advice."""

    def __init__(self) -> None:
        self.advice: list[tuple[int, int, str]] = []

    def advise(self, address: int, size: int, access: str) -> None:
        self.advice.append((address, size, access))
        super().advise(address, size, access)


def test_a_region_is_read_as_it_was_said_to_be(tmp_path: Path) -> None:
    """Also a tile that comes back after it was released."""
    path, space, memory = tmp_path / "f", Told(), [-(-20 * TILE // 7)]
    path.write_bytes(bytes(range(256)) * (4 * TILE // 256))
    with RegionStore(lambda: memory[0], space=space) as regions:
        region = regions.map(path, size=2 * TILE, access="random")
        assert space.advice == [(region.base, 2 * TILE, "random")]
        part = region.view(100, 100 + PAGE)
        assert space.advice[1:] == [(region.base + 100, PAGE, "will need")]
        assert bytes(part[:3]) == bytes([100, 101, 102])
        del part
        region.view(7, 7)
        space.advice.clear()
        other = regions.map(path, size=2 * TILE)  # releases both tiles
        other.view()
        assert space.advice == []
        assert region.view(TILE, TILE + 9)[0] == 0
        assert [(size, access) for _, size, access in space.advice] == [(TILE, "random"), (9, "will need")]
        with pytest.raises(ValueError, match="access, got 'backwards'"):
            regions.map(path, access="backwards")


def test_pages_that_random_access_does_not_need_stay_on_the_disk(tmp_path: Path) -> None:
    """Where the system drops them from memory at all: a folder in memory keeps every page."""
    path, space = tmp_path / "f", AddressSpace()
    path.write_bytes(os.urandom(256 * TILE))
    found = {}
    for access in ("normal", "random"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with RegionStore() as regions:
            region = regions.map(path, access=access)
            if space.resident(region.base, region.size).any():
                pytest.skip("the pages stay in memory")  # reason: a folder in memory has no other place for them
            first = region.view(64 * TILE, 64 * TILE + 2 * PAGE)
            first.sum()
            found[access] = int(space.resident(region.base, region.size).sum())
            del first
    assert found["random"] == 2
    assert found["random"] <= found["normal"]


def test_scans_are_sequential_and_gets_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space, path = Told(), tmp_path / "f"
    path.write_bytes(bytes(TILE))
    with (
        RegionStore(space=space) as regions,
        open(path, "rb") as file,
        open_mapped_file(regions, str(path), file.fileno()) as mapped,
    ):
        mapped.read(0, 9)
    assert [access for *_, access in space.advice] == ["sequential"]
    put(tmp_path, np.zeros((9, 4), np.uint8))
    told: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *given: told.append(given[3]))
    with store(tmp_path) as opened:
        opened.get(3)
        assert told == [os.POSIX_FADV_RANDOM]
        list(opened)
        assert told == [os.POSIX_FADV_RANDOM, os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_RANDOM]
