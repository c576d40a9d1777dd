"""How the modules of Mnemosyne, Foundry and MiCo are read in the words of their lemmas. spec: V4.11"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from proofs.proving.lemmas.planner import pools
from proofs.proving.lemmas.systems import (
    cache_growth,
    delta_encoding,
    eviction,
    mapped_regions,
    pool_generations,
    sealed_log,
    sealed_records,
    sessions,
    write_locks,
)
from tests.support.tied_machines import Tie, Values, named
from tests.support.tlc_steps import State, Step, at


def _phase(name: str) -> tuple[str]:
    return (name.capitalize(),)


# ---- MappedRegions


def _regions(constants: Values, state: State) -> Values:
    tile, size, base, mapped = constants["TilePages"], state["size"], state["base"], state["mapped"]
    pins, there = state["pins"], Counter(region for region, _ in mapped)
    return {
        "size": lambda r: at(size, r), "pages": lambda r: at(size, r) * tile, "base": lambda r: at(base, r),
        "first": lambda r: at(base, r) // tile, "there": lambda r: there[r], "mapped": lambda r, t: (r, t) in mapped,
        "pins": lambda r, t: pins.get((r, t), 0), "wanted": lambda r, t: (r, t) in state["wanted"],
        "used": state["used"], "working": len(mapped), "held": sum(pins[each] > 0 for each in mapped),
        "coming": len(state["wanted"]), "room": 7 * state["memory"] // (10 * tile), "gave_way": state["gaveWay"],
        "refused": state["refused"],
    }  # fmt: skip


def _region_numbers(constants: Values) -> range:
    return range(1, constants["Regions"] + 1)


def _placings(constants: Values, step: Step) -> Iterator[Values]:
    """Where what was reserved may have begun: only a region that is placed shows it."""
    tile = constants["TilePages"]
    for values in named(x=_region_numbers(constants), j=range(1, constants["MaxRegion"] + 1)):
        base = at(step.after["base"], values["x"])
        for reserved in range(max(0, base - tile + 1), base + 1) if step.action == "Place" else (0,):
            yield {**values, "reserved": reserved, "k": base // tile}


MAPPED_REGIONS = Tie(
    mapped_regions.MACHINE,
    lambda constants, state: {
        "tile": constants["TilePages"], "max_region": constants["MaxRegion"],
        "most": 7 * max(constants["Limits"]) // (10 * constants["TilePages"]),
    },
    _regions,
    lambda constants, state: {"Region": _region_numbers(constants), "Int": range(constants["MaxRegion"] + 2)},
    "MappedRegions-takes-the-hint", _placings,
)  # fmt: skip


# ---- Eviction


def _pages(constants: Values, state: State) -> Values:
    resident = sorted(state["resident"])
    return {
        "place": lambda p: resident.index(p) + 1 if p in resident else 0,
        "page": lambda k: resident[k - 1] if 1 <= k <= len(resident) else 1,
        "last": lambda p: at(state["last"], p), "weight": lambda p: at(state["weight"], p),
        "resident": lambda p: p in state["resident"], "pinned": lambda p: p in state["pinned"],
        "waits": lambda p: p in state["waiting"], "clock": state["clock"], "count": len(state["resident"]),
        "room": state["room"],
    }  # fmt: skip


def _page_numbers(constants: Values) -> range:
    return range(1, constants["Pages"] + 1)


EVICTION = Tie(
    eviction.MACHINE,
    lambda constants, state: {
        "number": lambda p: p, "most": max(constants["Rooms"]), "share": constants["Part"],
        "unit": constants["Parts"] * constants["MaxWeight"], "max_weight": constants["MaxWeight"],
    },
    _pages,
    lambda constants, state: {"Page": _page_numbers(constants), "Int": range(constants["Pages"] + 2)},
    "Eviction-minus-sign",
    lambda constants, step: named(
        x=_page_numbers(constants), w=range(constants["MaxWeight"] + 1), looks=(True, False),
    ),
)  # fmt: skip


# ---- DeltaEncoding


def _nearest(step: int, x: int) -> int:
    return step * ((2 * x + step) // (2 * step))


def _records(constants: Values, state: State) -> Values:
    def stored(items: tuple[int, ...]) -> Any:
        return lambda i: items[i - 1] if 1 <= i <= len(items) else 0

    exact, rounded = state["exact"], state["rounded"]
    back: list[int] = []
    near: list[int] = []
    for e, r in zip(exact, rounded, strict=True):
        back.append((back[-1] + e) % constants["Modulus"] if back else e)
        near.append(near[-1] + r if near else r)
    return {
        "vector": stored(state["vectors"]), "exact": stored(exact), "rounded": stored(rounded),
        "back": stored(tuple(back)), "near": stored(tuple(near)), "length": len(exact), "synced": state["synced"],
    }  # fmt: skip


DELTA_ENCODING = Tie(
    delta_encoding.MACHINE,
    lambda constants, state: {
        "modulus": constants["Modulus"], "step": constants["Step"],
        "difference": lambda v, a: (v - a) % constants["Modulus"], "sum": lambda a, d: (a + d) % constants["Modulus"],
        "nearest": lambda y: _nearest(constants["Step"], y),
    },
    _records,
    lambda constants, state: {"Int": range(-1, max(constants["Modulus"], constants["Most"] + 2))},
    "DeltaEncoding-open-loop",
    lambda constants, step: named(v=range(constants["Modulus"])),
)  # fmt: skip


# ---- WriteLocks


def _locks(constants: Values, state: State) -> Values:
    return {
        **{name: lambda t, a, name=name: a in state[name][t] for name in ("needs", "locks", "reads", "writes")},
        **{name: lambda t, name=name: state[name][t] for name in ("shared", "active")},
        "queued": lambda t, a: 1 <= a <= constants["Locks"] and t in at(state["queue"], a),
    }


def _coming(constants: Values, step: Step) -> Iterator[Values]:
    for values in named(x=constants["Threads"], lock=range(1, constants["Locks"] + 1)):
        after = {name: step.after[name][values["x"]] for name in ("reads", "writes", "needs", "shared")}
        sets = {letter: after[name].__contains__ for letter, name in (("r", "reads"), ("w", "writes"), ("n", "needs"))}
        yield {**values, **sets, "readers": after["shared"], "stays": after["shared"]}


WRITE_LOCKS = Tie(
    write_locks.MACHINE,
    lambda constants, state: {}, _locks,
    lambda constants, state: {
        "Thread": constants["Threads"], "Tile": range(1, constants["Tiles"] + 1), "Int": range(constants["Locks"] + 2),
    },
    "WriteLocks-writes-with-one-lock", _coming,
)  # fmt: skip


# ---- SealedLog

_PHASES = ("down", "reading", "running", "refused")


def _counts(constants: Values, state: State) -> Values:
    return {
        **{name: state[name] for name in ("durable", "named", "acked")},
        **{name: state[name]["records"] for name in ("renamed", "anchor")},
        **{name: len(state[of]) for name, of in (("length", "log"), ("disk", "disk"))},
        "phase": _PHASES.index(state["phase"]),
    }


def _left(constants: Values, step: Step) -> Iterator[Values]:
    truth = (False, True)
    yield from named(
        good=range(constants["Most"] + 1), hasName=truth, hasAnchor=truth, isRemoved=truth,
        isFresh=[step.after["phase"] == "reading"],
    )  # fmt: skip


SEALED_LOG = Tie(
    sealed_log.MACHINE,
    lambda constants, state: {}, _counts,
    lambda constants, state: {"Int": range(constants["Most"] + 2)},
    "SealedLog-anchor-before-the-data", _left, silent=("Copy",),
)  # fmt: skip


# ---- SealedRecords


def _sealed(constants: Values, state: State) -> Values:
    written, disk = state["written"], state["disk"]

    def there(items: tuple[Any, ...], i: int) -> Any:
        return items[i - 1] if 1 <= i <= len(items) else None

    def tokens(f: int) -> tuple[Any, ...]:
        return at(written, f) if f else ()

    return {
        "opened": lambda f: f <= state["opened"], "writing": lambda f: f in state["writing"],
        "closed": lambda f: f in state["closed"], "name": lambda f: at(state["name"], f),
        "length": lambda f: len(tokens(f)), "written": lambda f, i: there(tokens(f), i),
        "header": lambda n: _opening(at(disk, n)), "trailer": lambda n: at(disk, n)["trailer"]["count"],
        "trailer_of": lambda n: _opening(at(disk, n)["trailer"]), "count": lambda n: len(at(disk, n)["records"]),
        "disk": lambda n, i: there(at(disk, n)["records"], i), "used": lambda k, v, i: (k, (v, i)) in state["used"],
    }  # fmt: skip


def _opening(sealed: Any) -> int:
    """The number of the opening whose salt a file, a record or a trailer has; 0 for none."""
    return int(sealed["salt"]) // 10


def _sealings(constants: Values, step: Step) -> Iterator[Values]:
    for n, x in product(range(1, constants["Names"] + 1), range(1, constants["Openings"] + 1)):
        records = at(step.after["disk"], n)["records"]
        last = records[-1] if records else None
        yield {"x": x, "n": n, "r": last, "t": last["token"] if last else None}


SEALED_RECORDS = Tie(
    sealed_records.MACHINE,
    lambda constants, state: {
        "key": lambda f: ("key", 10 * f), "prefix": lambda f: at(state["prefix"], f), "no_file": 0,
        "salt": lambda r: _opening(r) if r else 0, "place": lambda r: r["place"] if r else -1,
        "token": lambda r: r["token"] if r else None,
    },
    _sealed,
    lambda constants, state: {
        "File": range(1, constants["Openings"] + 1), "Name": range(1, constants["Names"] + 1),
        "Key": [("key", 10 * f) for f in range(1, constants["Openings"] + 1)],
        "Prefix": sorted({0, *constants["Prefixes"]}), "Int": range(-1, constants["Records"] + 2),
    },
    "SealedRecords-counter-forgotten", _sealings, ("Read",),
)  # fmt: skip


# ---- PoolGenerations


def _pool(constants: Values, state: State) -> Values:
    content, cursor, sizes = state["content"], state["cursor"], state["sizes"]
    return {
        "given": lambda h: 1 <= h <= len(state["handles"]),
        "cursor": lambda c: cursor[c] if 0 <= c < len(cursor) else 0,
        "room": lambda c: sizes[c] if 0 <= c < len(sizes) else 0,
        "content": lambda c, b: content.get((c + 1, b), 0), "generation": state["generation"], "opened": len(cursor),
        "leased": lambda h: at(state["leases"], h) if 1 <= h <= constants["Handles"] else 0,
        "pending": lambda h: sum(h in command["reads"] | command["writes"] for command in state["queue"]),
    }  # fmt: skip


def _handles(constants: Values, state: State) -> Values:
    handles = state["handles"]

    def of(part: str) -> Any:
        return lambda h: handles[h - 1][part] - (part == "chunk") if 1 <= h <= len(handles) else 0

    return {
        "none": 0, "chunk": of("chunk"), "first": of("first"), "bytes": of("bytes"), "of": of("generation"),
        "last": constants["LastGeneration"],
    }  # fmt: skip


def _accesses(constants: Values, step: Step) -> Iterator[Values]:
    """The command that is submitted last, or executed first, and what it writes, if it does not fail."""
    before, after = step.before["queue"], step.after["queue"]
    command = after[-1] if len(after) > len(before) else before[0] if before else {"reads": set(), "writes": set()}
    writes = set() if step.action == "Fail" else command["writes"]
    written = {place: n for place, n in step.after["content"].items() if n in writes}
    for values in named(x=range(1, constants["Handles"] + 1), size=step.after["sizes"][-1:] or [0]):
        yield {
            **values, "accesses": lambda h: h in command["reads"] | command["writes"],
            "writer": lambda c, b: written.get((c + 1, b), 0),
        }  # fmt: skip


POOL_GENERATIONS = Tie(
    pool_generations.MACHINE,
    _handles, _pool,
    lambda constants, state: {"Handle": range(constants["Handles"] + 1), "Int": range(-1, 5)},
    "PoolGenerations-omits-the-bump", _accesses, ("Lack", "Read", "Refuse", "Ask", "GiveUp", "Exhaust"),
)  # fmt: skip


# ---- CacheGrowth


def _of_one_session(step: Step) -> Step:
    """The step as one of the session that it is of, or of the first."""
    count = len(step.before["capacity"])
    changes = [s for s in range(count) if any(step.before[name][s] != step.after[name][s] for name in _OF_A_SESSION)]
    at = changes[0] if changes else 0
    before, after = ({name: state[name][at] for name in _OF_A_SESSION} for state in (step.before, step.after))
    return Step(step.action, before, after)


_OF_A_SESSION = (
    "heads", "capacity", "length", "buffer", "asked", "next", "blits", "filled", "broken", "old", "queue",
)  # fmt: skip


def _pass(command: Any) -> tuple[int, int, int]:
    return command["of"], command["first"], command["count"]


def _cache(constants: Values, state: State) -> Values:
    def held(buffer: Any) -> Any:
        places = dict(enumerate(buffer, 1)) if isinstance(buffer, tuple) else buffer
        return lambda b: places.get(b, ())

    passes = [_pass(command) for command in state["queue"] if command["what"] == "pass"]
    copies = {command["head"] for command in state["queue"] if command["what"] == "copy"}
    return {
        "capacity": state["capacity"], "cache": held(state["buffer"]), "length": state["length"],
        "growing": state["next"]["capacity"] > 0, "larger": state["next"]["capacity"],
        "next": held(state["next"]["buffer"]), "filled": lambda h: h in state["filled"],
        "copying": lambda h: h in copies, "kept": state["old"]["capacity"] > 0,
        "kept_capacity": state["old"]["capacity"], "in_flight": passes.count,
        "writer": lambda p: next((c for c in passes if c[1] <= p < c[1] + c[2]), (0, 0, 0)),
    }  # fmt: skip


def _passes(constants: Values, state: State) -> list[tuple[int, int, int]]:
    """Every pass that may be in flight before or after a step that ends in this state."""
    buffers = {0, state["capacity"], state["old"]["capacity"]}
    return list(product(buffers, range(constants["Maximum"] + 1), range(constants["MostAtOnce"] + 1)))


def _choices(constants: Values, step: Step) -> Iterator[Values]:
    which = {"Pass": step.after["queue"][-1:], "End": step.before["queue"][:1]}.get(step.action)
    xs = range(step.after["heads"]) if which is None else map(_pass, which)
    return named(x=xs, wanted=[step.after["next"]["capacity"]], rest=[step.after["length"]])


CACHE_GROWTH = Tie(
    cache_growth.MACHINE,
    lambda constants, state: {
        "heads": state["heads"], "token": lambda h, p: (h, p), "place": lambda c, h, p: h * c + p,
        "head_of": lambda c, b: b // c if c else 0, "position_of": lambda c, b: b % c if c else 0,
        "of": lambda c: c[0], "first": lambda c: c[1], "count": lambda c: c[2],
    },
    _cache,
    lambda constants, state: {
        "Int": range(state["heads"] * max(state["capacity"], state["next"]["capacity"])),
        "Command": _passes(constants, state),
    },
    "CacheGrowth-one-copy", _choices, ("Ask", "Refuse"), _of_one_session,
)  # fmt: skip


# ---- Sessions


def _sessions(constants: Values, state: State) -> Values:
    completed, queue = state["completed"], state["queue"]
    commands = dict(enumerate(queue, completed + 1))

    def passed(s: int) -> int:
        return max((t for t, c in commands.items() if (c["kind"], c["session"]) == ("pass", s)), default=0)

    return {
        "phase": lambda s: _phase(at(state["phase"], s)),
        "stored": lambda s, w: at(at(state["private"], s), w) if 1 <= w <= len(at(state["private"], s)) else 0,
        **{name: lambda s, name=name: at(state[name], s) for name in (
            "made", "staging", "copies", "step", "hidden", "asked", "output", "sampled", "last")},
        "completed": completed, "submitted": completed + len(queue), "passed": passed,
        "kind": lambda t: _phase(commands[t]["kind"] if t in commands else "other"),
        "owner": lambda t: commands[t]["session"] or 1 if t in commands else 1,
        "of": lambda t: commands[t]["of"] if t in commands else 0,
    }  # fmt: skip


def _commands(constants: Values, step: Step) -> Iterator[Values]:
    completed = step.before["completed"]
    numbers = (completed + 1, completed + len(step.before["queue"]) + 1)
    return named(x=range(1, constants["Sessions"] + 1), n=dict.fromkeys(numbers))


SESSIONS = Tie(
    sessions.MACHINE,
    lambda constants, state: {
        **{name: lambda s, name=name: at(state[name], s) for name in ("buffers", "weights", "source")},
        "unowned": 1, "steps": constants["Steps"],
    },
    _sessions,
    lambda constants, state: {
        "Session": range(1, constants["Sessions"] + 1),
        "Int": range(-1, max(state["completed"] + len(state["queue"]), constants["Weights"]) + 2),
    },
    "Sessions-stages-over-a-copy", _commands,
)  # fmt: skip


# ---- Pools


def _ordered(constants: Values, state: State) -> list[int]:
    """Storages in the order in which they join."""
    return sorted(range(1, constants["Count"] + 1), key=lambda s: (-at(state["size"], s), s))


def _pools(constants: Values, state: State) -> Values:
    order, pool = _ordered(constants, state), state["pool"]

    def meets(s: int, t: int) -> bool:
        birth, death = state["birth"], state["death"]
        return bool(at(birth, s) <= at(death, t) and at(birth, t) <= at(death, s))

    def in_pool(p: int) -> Iterable[int]:
        return (t for t in order if p >= 0 and at(pool, t) == p + 1)

    return {
        "joined": lambda s: at(pool, s) > 0, "pool": lambda s: at(pool, s) - 1,
        "bytes": lambda p: at(state["bytes"], p + 1) if 0 <= p < constants["Count"] else 0,
        "opener": lambda p: next(iter(in_pool(p)), 1),
        "blocker": lambda s, p: next((t for t in in_pool(p) if p < at(pool, s) - 1 and meets(s, t)), s),
        "opened": sum(size > 0 for size in state["bytes"]),
    }  # fmt: skip


def _joining(constants: Values, step: Step) -> Iterator[Values]:
    after = _pools(constants, step.after)
    for values in named(x=range(1, constants["Count"] + 1), k=range(constants["Count"])):
        yield {**values, "meets": lambda p, x=values["x"]: after["blocker"](x, p)}


POOLS = Tie(
    pools.MACHINE,
    lambda constants, state: {
        **{name: lambda s, name=name: at(state[name], s) for name in ("birth", "death", "size")},
        "made": lambda s: s,
    },
    _pools,
    lambda constants, state: {"Storage": range(1, constants["Count"] + 1), "Int": range(-1, constants["Count"] + 1)},
    "Pools-half-open", _joining,
)  # fmt: skip
