"""How the modules of Mnemosyne, Foundry and MiCo are read in the words of their lemmas. spec: V4.11"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.support.tied_machines import Machine, Values, named
from tests.support.tlc_steps import State, Step, at


def _phase(name: str) -> tuple[str]:
    return (name.capitalize(),)


# ---- MappedRegions


def _regions(constants: Values, state: State) -> Values:
    tile, size, base = constants["TilePages"], state["size"], state["base"]
    return {
        "size": lambda r: size[r], "pages": lambda r: size[r] * tile, "base": lambda r: base[r],
        "first": lambda r: base[r] // tile, "pinned": lambda r: r in state["pinned"],
        "used": state["used"], "working": sum(size.values()), "memory": state["memory"], "wanted": state["wanted"],
    }  # fmt: skip


def _placings(constants: Values, step: Step) -> Iterator[Values]:
    """Where what was reserved may have begun: only a region that is mapped tells."""
    tile = constants["TilePages"]
    for values in named(x=constants["Regions"], looks=(True, False)):
        base = step.after["base"][values["x"]]
        for reserved in range(max(0, base - tile + 1), base + 1) if step.action == "Map" else (0,):
            yield {**values, "reserved": reserved, "k": base // tile}


_UNMAPS = ("unmapping_a_region_keeps_the_regions",)
_LOOKS = ("looking_at_a_region_keeps_the_regions",)
_ASKS = ("asking_for_a_region_keeps_the_regions",)
MAPPED_REGIONS = Machine(
    "mapped_regions", "regions_begin_right",
    {
        "Ask": _ASKS, "Refuse": _ASKS, "Map": ("mapping_a_region_keeps_the_regions",), "Evict": _UNMAPS,
        "GiveBack": _UNMAPS, "Pin": _LOOKS, "Unpin": _LOOKS, "Shrink": ("shrinking_memory_keeps_the_regions",),
    },
    lambda constants, state: {
        "tile": constants["TilePages"], "max_region": constants["MaxRegion"], "memory_at_first": constants["Memory"],
    },
    _regions,
    lambda constants, state: {"Region": constants["Regions"]},
    "MappedRegions-takes-the-hint", _placings,
)  # fmt: skip


# ---- Eviction


def _pages(constants: Values, state: State) -> Values:
    return {
        "last": lambda p: at(state["last"], p), "weight": lambda p: at(state["weight"], p),
        "resident": lambda p: p in state["resident"], "waits": lambda p: p == state["waiting"],
        "clock": state["clock"], "count": len(state["resident"]),
    }  # fmt: skip


def _page_numbers(constants: Values) -> range:
    return range(1, constants["Pages"] + 1)


EVICTION = Machine(
    "eviction", "pages_begin_right",
    {
        "Touch": ("touching_a_page_keeps_the_pages",), "Fault": ("a_fault_keeps_the_pages",),
        "Bring": ("bringing_a_page_in_keeps_the_pages",), "Evict": ("evicting_a_page_keeps_the_pages",),
        "Attend": ("a_change_of_attention_keeps_the_pages",),
    },
    lambda constants, state: {
        "number": lambda p: p, "room": constants["Room"], "unit": 2 * constants["MaxWeight"],
        "max_weight": constants["MaxWeight"],
    },
    _pages,
    lambda constants, state: {"Page": _page_numbers(constants)},
    "Eviction-minus-sign",
    lambda constants, step: named(x=_page_numbers(constants), w=range(constants["MaxWeight"] + 1)),
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


_EXTENDS = "a_next_vector_keeps_the_records and a_next_vector_keeps_the_rounded_records"
DELTA_ENCODING = Machine(
    "delta_encoding", "records_of_no_vectors_are_right",
    {
        "Begin": ("the_first_vector_is_stored_as_it_is",), "Extend": (_EXTENDS,),
        "Sync": ("syncing_a_record_keeps_the_records",), "Crash": ("a_crash_keeps_what_is_synced",),
    },
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
        **{name: lambda t, a, name=name: a in state[name][t] for name in ("wants", "locks", "writes")},
        "queued": lambda t, a: 1 <= a <= constants["Tiles"] and t in at(state["queue"], a),
    }


def _coming(constants: Values, step: Step) -> Iterator[Values]:
    for values in named(x=constants["Threads"], tile=range(1, constants["Tiles"] + 1)):
        yield {**values, "tiles": lambda a, x=values["x"]: a in step.after["wants"][x]}


WRITE_LOCKS = Machine(
    "write_locks", "threads_begin_right",
    {
        "Begin": ("coming_keeps_the_locks",), "Request": ("asking_for_the_lowest_lock_keeps_the_locks",),
        "Take": ("taking_a_free_lock_keeps_the_locks",), "Write": ("writing_with_all_locks_keeps_the_locks",),
        "End": ("ending_keeps_the_locks",),
    },
    lambda constants, state: {}, _locks,
    lambda constants, state: {"Thread": constants["Threads"], "Int": range(constants["Tiles"] + 2)},
    "WriteLocks-writes-with-one-lock", _coming,
)  # fmt: skip


# ---- SealedRecords


def _sealed(constants: Values, state: State) -> Values:
    written, disk = state["written"], state["disk"]

    def there(items: tuple[Any, ...], i: int) -> Any:
        return items[i - 1] if 1 <= i <= len(items) else None

    return {
        "opened": lambda f: f <= state["opened"], "writing": lambda f: f in state["writing"],
        "closed": lambda f: f in state["closed"], "length": lambda f: len(at(written, f)),
        "written": lambda f, i: there(at(written, f), i), "trailer": lambda f: at(disk, f)["trailer"],
        "count": lambda f: len(at(disk, f)["records"]), "disk": lambda f, i: there(at(disk, f)["records"], i),
        "used": lambda k, v, i: (k, (v, i)) in state["used"],
    }  # fmt: skip


def _sealings(constants: Values, step: Step) -> Iterator[Values]:
    before, files = step.before["disk"], range(1, constants["Openings"] + 1)
    for x in files:
        records = at(step.after["disk"], x)["records"]
        lies = {
            i: next(
                ((g, j) for g in files for j, other in enumerate(at(before, g)["records"], 1) if other == record),
                (x, 0),
            )
            for i, record in enumerate(records, 1)
        }
        last = records[-1] if records else None
        yield {
            "x": x, "r": last, "t": last["token"] if last else None,
            "of": lambda i, lies=lies, x=x: lies.get(i, (x, 0))[0],
            "from": lambda i, lies=lies, x=x: lies.get(i, (x, 0))[1],
        }  # fmt: skip


_ATTACK = ("an_attack_keeps_the_records",)
SEALED_RECORDS = Machine(
    "sealed_records", "records_begin_right",
    {
        "Open": ("opening_a_file_keeps_the_records",), "Seal": ("sealing_a_record_keeps_the_records",),
        "Close": ("closing_a_file_keeps_the_records",), "Crash": ("a_crash_keeps_the_records",),
        "CutOff": _ATTACK, "Replace": _ATTACK, "Repeat": _ATTACK, "Read": (),
    },
    lambda constants, state: {
        "key": lambda f: f, "prefix": lambda f: at(state["prefix"], f),
        "salt": lambda r: r["salt"] if r else -1, "place": lambda r: r["place"] if r else -1,
        "token": lambda r: r["token"] if r else None,
    },
    _sealed,
    lambda constants, state: {
        "File": range(1, constants["Openings"] + 1), "Key": range(1, constants["Openings"] + 1),
        "Prefix": sorted({0, *constants["Prefixes"]}), "Int": range(-1, constants["Records"] + 2),
    },
    "SealedRecords-counter-forgotten", _sealings,
)  # fmt: skip


# ---- PoolGenerations


def _pool(constants: Values, state: State) -> Values:
    content, cursor = state["content"], state["cursor"]
    return {
        "given": lambda h: 1 <= h <= len(state["handles"]),
        "cursor": lambda c: cursor[c] if 0 <= c < len(cursor) else 0,
        "content": lambda c, b: content.get((c + 1, b), 0), "generation": state["generation"], "opened": len(cursor),
    }  # fmt: skip


def _handles(constants: Values, state: State) -> Values:
    handles = state["handles"]

    def of(part: str) -> Any:
        return lambda h: handles[h - 1][part] - (part == "chunk") if 1 <= h <= len(handles) else 0

    return {
        "nobody": 0, "chunk": of("chunk"), "first": of("first"), "bytes": of("bytes"), "of": of("generation"),
        "room": lambda c: (2, 3)[c] if 0 <= c < 2 else 0,  # MCPoolGenerations
    }  # fmt: skip


POOL_GENERATIONS = Machine(
    "pool_generations", "a_pool_begins_right",
    {
        "Take": ("taking_from_a_chunk_with_room_keeps_the_pool",), "Grow": ("opening_a_chunk_keeps_the_pool",),
        "Reset": ("a_reset_keeps_the_pool",), "Write": ("a_write_through_a_handle_of_now_keeps_the_pool",),
        "Read": (), "Refuse": (),
    },
    _handles, _pool,
    lambda constants, state: {"Handle": range(constants["Handles"] + 1), "Int": range(-1, 5)},
    "PoolGenerations-forgets-to-bump",
    lambda constants, step: named(x=range(1, constants["Handles"] + 1)),
)  # fmt: skip


# ---- CacheGrowth


def _cache(constants: Values, state: State) -> Values:
    def held(buffer: Any) -> Any:
        places = dict(enumerate(buffer, 1)) if isinstance(buffer, tuple) else buffer
        return lambda b: places.get(b, ())

    return {
        "cache": held(state["buffer"]), "next": held(state["next"]["buffer"]), "length": state["length"],
        "filled": lambda h: h in state["filled"],
    }  # fmt: skip


def _layouts(constants: Values, step: Step) -> Iterator[Values]:
    old = step.before["capacity"]
    new = step.before["next"]["capacity"] or step.after["next"]["capacity"] or old
    found: dict[str, Any] = {
        "pending": step.before["pending"],
        "token": lambda h, p: (h, p),
        "heads": constants["Heads"],
    }
    for name, capacity in (("old", old), ("new", new)):
        found |= {
            f"{name}_place": lambda h, p, c=capacity: h * c + p, f"{name}_head_of": lambda b, c=capacity: b // c,
            f"{name}_position_of": lambda b, c=capacity: b % c, f"{name}_capacity": capacity,
        }  # fmt: skip
    for x in range(constants["Heads"]):
        yield {**found, "x": x}


CACHE_GROWTH = Machine(
    "cache_growth", "a_cache_begins_right",
    {
        "Come": (), "Store": ("storing_loses_nothing",), "Grow": ("growing_begins_with_nothing_copied",),
        "Copy": ("copying_a_head_loses_nothing",), "Switch": ("switching_loses_nothing",),
        "Fail": ("failing_to_grow_loses_nothing",), "Refuse": (),
    },
    lambda constants, state: {
        "heads": constants["Heads"], "token": lambda h, p: (h, p), "old_capacity": state["capacity"],
        "old_place": lambda h, p: h * state["capacity"] + p, "old_head_of": lambda b: b // state["capacity"],
        "old_position_of": lambda b: b % state["capacity"],
    },
    _cache,
    lambda constants, state: {
        "Int": range(constants["Heads"] * max(state["capacity"], state["next"]["capacity"])), "Token": (),
    },
    "CacheGrowth-one-copy", _layouts,
)  # fmt: skip


# ---- Sessions


def _session(constants: Values, state: State) -> Values:
    private = state["private"]
    return {
        "phase": _phase(state["phase"]), "made": lambda b: b in state["made"],
        "lies": lambda w: at(private, w) if 1 <= w <= len(private) else 0,
        **{name: state[name] for name in ("staging", "copying", "step", "logits", "output", "sampled")},
    }  # fmt: skip


SESSIONS = Machine(
    "sessions", "a_session_begins_right",
    {
        "Open": ("opening_keeps_the_session",), "Make": ("making_a_buffer_keeps_the_session",),
        "CannotMake": ("a_buffer_that_cannot_be_had_keeps_the_session",),
        "GiveBack": ("giving_a_buffer_back_keeps_the_session",), "Failed": ("failing_keeps_the_session",),
        "Stage": ("staging_a_weight_keeps_the_session",), "BeginCopy": ("beginning_a_copy_keeps_the_session",),
        "EndCopy": ("ending_a_copy_keeps_the_session",), "Start": ("starting_keeps_the_session",),
        "Compute": ("computing_keeps_the_session",), "CopyOut": ("copying_out_keeps_the_session",),
        "Sample": ("sampling_keeps_the_session",), "NextStep": ("going_on_to_the_next_step_keeps_the_session",),
        "Close": ("closing_keeps_the_session",),
    },
    lambda constants, state: {"weights": constants["Weights"], "steps": constants["Steps"]}, _session,
    lambda constants, state: {"Buffer": constants["Buffers"], "Int": range(-1, constants["Weights"] + 2)},
    "Sessions-stages-over-a-copy",
    lambda constants, step: named(x=constants["Buffers"], w=range(1, constants["Weights"] + 1)),
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


POOLS = Machine(
    "pools", "pools_begin_right",
    {"Join": ("joining_the_first_pool_that_fits_keeps_the_pools",), "Open": ("opening_a_pool_keeps_the_pools",)},
    lambda constants, state: {
        **{name: lambda s, name=name: at(state[name], s) for name in ("birth", "death", "size")},
        "made": lambda s: s,
    },
    _pools,
    lambda constants, state: {"Storage": range(1, constants["Count"] + 1), "Int": range(-1, constants["Count"] + 1)},
    "Pools-half-open", _joining,
)  # fmt: skip
