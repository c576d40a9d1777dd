"""Extract stores of regions, for MappedRegions: one path for each store, even if several processes write the log.

Addresses are counted in pages from a tile before the first region. Memory is counted in tiles within 7/10 of it, and
represented by the number of pages that have that room. spec: MN9.2, MN9.3
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from proofs.model_check.following.lines import Path, format_value
from proofs.model_check.following.log import Event, WrongLog

MODULE = "MappedRegions"


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path for each store."""
    yield from (_Store(of_store).path for of_store in split_stores(events))


def split_stores(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Yield the events of each store, from its `store made` on. A label that occurs again is another store's."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if "store" not in event.fields:
            continue
        label = event.fields["store"]
        if event.kind == "store made":
            yield from [found[label]] if label in found else []
            found[label] = []
        elif label not in found:
            raise WrongLog(event.line, f"{event.kind!r} of a store that was not made")
        found[label].append(event)
    yield from found.values()


def tiles_within_bound(made: Event, memory: int) -> int:
    """Return the number of tiles within 7/10 of memory."""
    return int(7 * memory // (10 * made.fields["tile"]))


class Numbers:
    """The regions of a store by the numbers of their tiles: the region of a tile, and its number in the region."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.next = 0

    def place(self, event: Event, tile: int) -> tuple[int, int]:
        """Return region and tile, both counted from 1."""
        if tile >= self.next:
            raise WrongLog(event.line, f"tile {tile} is not in a region")
        region = bisect_right(self.firsts, tile)
        return region, tile - self.firsts[region - 1] + 1

    def add(self, event: Event, tile_bytes: int) -> int:
        """Add a region that is mapped. Return its number of tiles."""
        fields = event.fields
        if fields["first"] != self.next:
            raise WrongLog(event.line, f"the next region begins at tile {self.next}")
        count: int = -(-fields["size"] // tile_bytes)
        self.firsts.append(self.next)
        self.next += count
        return count


class _Store:
    """A store of regions and the path of its events."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.made, *rest = events
        fields = self.made.fields
        self.tile, self.page = fields["tile"], fields["page"]
        if not self.page or self.tile % self.page or not self.tile:
            raise WrongLog(self.made.line, "a tile is not a multiple of a page")
        self.numbers, self.largest, self.pins = Numbers(), 1, 1
        begins = [event.fields["begin"] for event in rest if event.kind == "region mapped"]
        self.low = (min(begins, default=0) // self.tile - 1) * self.tile
        self.path = Path(MODULE, f"store of line {self.made.line}", self.made.line, folder="mnemosyne")
        self.memory = self._memory(fields["memory"])
        limits, last = [self.memory], 2 * self.tile
        self.path.given = {"memory": format_value(self.memory, self.made.line)}
        for event in rest:
            self._add(event)
            limits.append(self.memory)
            last = max(last, event.fields.get("end", 0) - self.low)
        self.path.constants = {
            "Regions": str(len(self.numbers.firsts) + 1), "TilePages": str(self.tile // self.page),
            "Space": format_value(-(-last // self.page) + 3 * self.tile // self.page, self.made.line),
            "MaxRegion": str(min(self.largest, -(-fields["max_region"] // self.tile))),
            "Limits": "{" + ", ".join(map(str, sorted(set(limits)))) + "}", "MaxPins": str(self.pins),
        }  # fmt: skip

    def _memory(self, memory: int) -> int:
        pages: int = -(-10 * tiles_within_bound(self.made, memory) * self.tile // (7 * self.page))
        return pages

    def _pages(self, event: Event, key: str, low: int = 0) -> int:
        pages, rest = divmod(event.fields[key] - low, self.page)
        if rest:
            raise WrongLog(event.line, f"{key} of {event.kind!r} is not a multiple of {self.page}")
        return int(pages)

    def _where(self, event: Event) -> dict[str, int]:
        """Return the system's mapping: first page, page after the last, page of the file."""
        ends = {key: self._pages(event, key, self.low) for key in ("begin", "end")}
        return {**ends, "offset": self._pages(event, "offset")}

    def _add(self, event: Event) -> None:
        fields, line, add = event.fields, event.line, self.path.add
        if "tile" in fields:
            region, tile = self.numbers.place(event, fields["tile"])
        match event.kind:
            case "store memory":
                memory = self._memory(fields["memory"])
                if memory != self.memory:
                    add(line, "Limit", pages=memory, bound=fields["bound"])
                elif fields["bound"] != tiles_within_bound(self.made, fields["memory"]):
                    raise WrongLog(line, "the bound is not 7/10 of memory")
                self.memory = memory
            case "tiles wanted":
                self._want(event)
            case "tiles refused":
                add(line, "Refuse", tiles=fields["tiles"], bound=fields["bound"], pinned=fields["pinned"])
            case "tiles failed":
                add(line, "Fail")
            case "tile released":
                action = "Evict" if fields["why"] == "evicted" else "Relieve"
                add(
                    line, action, region=region, tile=tile, mapped=fields["mapped"], isReserved=fields["is_reserved"]
                )  # fmt: skip
            case "region mapped":
                count = self.numbers.add(event, self.tile)
                region = len(self.numbers.firsts)
                pages = -(-fields["size"] // self.page)
                where = self._where(event)
                add(line, "Place", region=region, **where, pages=pages, asked=self._pages(event, "asked"))
                for k in range(1, count + 1):
                    add(line, "MapFirst", region=region, tile=k, mapped=fields["mapped"] - count + k)
            case "tile mapped":
                add(line, "Map", region=region, tile=tile, **self._where(event), mapped=fields["mapped"])
            case "tile pinned" | "tile unpinned":
                self.pins = max(self.pins, fields["pins"] + 1)
                add(line, "Pin" if event.kind == "tile pinned" else "Unpin", region=region, tile=tile,
                    pins=fields["pins"])  # fmt: skip
            case "region closed":
                region, _ = self.numbers.place(event, fields["first"])
                if fields["first"] != self.numbers.firsts[region - 1]:
                    raise WrongLog(line, f"no region begins at tile {fields['first']}")
                tiles = [self.numbers.place(event, tile) for tile in fields["tiles"]]
                add(line, "Close", region=region, tiles=tiles, mapped=fields["mapped"])
            case "store closed":
                self.path.ends(line, mapped=fields["mapped"])

    def _want(self, event: Event) -> None:
        """Add a request for the tiles of a new region, or for some of an existing one."""
        fields, numbers = event.fields, event.fields["tiles"]
        counts = {"mapped": fields["mapped"], "pinned": fields["pinned"]}
        self.largest = max(self.largest, len(numbers))
        if numbers and numbers[0] >= self.numbers.next:
            if numbers != list(range(self.numbers.next, self.numbers.next + len(numbers))):
                raise WrongLog(event.line, f"the tiles of a new region are numbered from {self.numbers.next}")
            region = len(self.numbers.firsts) + 1
            self.path.add(event.line, "AskRegion", region=region, count=len(numbers), **counts)
        else:
            tiles = [self.numbers.place(event, tile) for tile in numbers]
            self.path.add(event.line, "AskTiles", tiles=tiles, **counts)
