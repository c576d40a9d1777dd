"""How the modules of TMMU are read in the words of their lemmas. spec: V4.11"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofs.proving.lemmas.planner import linear_scan
from proofs.proving.lemmas.systems import alias_references, bodies, plan_lifecycle, quota, ranks
from tests.support.tied_machines import Tie, Values, named
from tests.support.tlc_steps import State, Step, at


def _functions(state: State, *names: str) -> Values:
    return {name: lambda x, name=name: at(state[name], x) for name in names}


def _numbers(constants: Values, state: State | None = None) -> range:
    return range(1, constants["Count"] + 1)


# ---- LinearScan


def _given_out(constants: Values, state: State) -> list[int]:
    """The storages that have their slot, in the order in which they were given it."""
    slot = state["slot"]
    found = [s for s in _numbers(constants) if at(slot, s)]
    return sorted(found, key=lambda s: (at(state["birth"], s), -at(state["size"], s), s))


def _scan(constants: Values, state: State) -> Values:
    done, slot = _given_out(constants, state), state["slot"]
    last = {at(slot, s) - 1: s for s in done}  # who had each slot last
    opener = next((s for s in done if at(slot, s) == state["opened"]), None)
    crowd = {at(slot, s) - 1: s for s in done[: done.index(opener) + 1]} if opener is not None else {}
    return {
        "active": lambda x: x in state["active"], "done": lambda x: at(slot, x) > 0, "slot": lambda x: at(slot, x) - 1,
        "free": lambda k: k + 1 in state["free"], "tenant": lambda k: last.get(k, 1),
        "clique": lambda k: crowd.get(k, 1),
        "opened": state["opened"], "now": state["now"],
        "crowded": 0 if opener is None else at(state["birth"], opener),
    }  # fmt: skip


LINEAR_SCAN = Tie(
    linear_scan.MACHINE,
    lambda constants, state: _functions(state, "birth", "death"), _scan,
    lambda constants, state: {"Storage": _numbers(constants), "Int": range(-1, constants["Count"] + 1)},
    "LinearScan-half-open",
    lambda constants, step: named(x=_numbers(constants), k=range(constants["Count"])),
)  # fmt: skip


# ---- AliasReferences


def _counts(constants: Values, state: State) -> Values:
    home = state["home"]

    def members(s: int) -> list[int]:
        return sorted(t for t in state["live"] if at(home, t) == s)

    def member(s: int, k: int) -> int:
        return members(s)[k - 1] if 1 <= k <= len(members(s)) else 1

    return {
        "place": lambda t: members(at(home, t)).index(t) + 1 if t in state["live"] else 0, "member": member,
        "live": lambda t: t in state["live"], "count": lambda s: at(state["references"], s) if s else 0,
        "changed": lambda t: t in state["changed"], "now": state["at"], "holder": state["holder"],
    }  # fmt: skip


ALIAS_REFERENCES = Tie(
    alias_references.MACHINE,
    lambda constants, state: {
        "free": 0, **_functions(state, "birth", "death", "home"), "saved": lambda t: t in state["saved"],
    },
    _counts, lambda constants, state: {
        "Tensor": _numbers(constants), "Storage": range(3), "Int": range(constants["Count"] + 2),
    },
    "AliasReferences-freed-with-the-first",
    lambda constants, step: named(x=_numbers(constants)),
)  # fmt: skip


# ---- Quota


def _quota(constants: Values, state: State) -> Values:
    phase, size, promised = state["phase"], state["size"], state["promised"]
    total = {c: sum(size[c].values()) for c in size}
    return {
        "phase": lambda c: (phase[c].capitalize(),), "mapped": lambda c, a: a in state["mapped"][c],
        "promised": lambda c: promised[c], "total": lambda c: total[c], "in_use": sum(promised.values()),
        "committed": sum(total[c] for c in size if phase[c] == "committed"),
        "failed": sum(phase[c] == "failed" for c in size), "allocated": state["allocated"], "peak": state["peak"],
        "failures": state["failures"],
    }  # fmt: skip


def _asking(constants: Values, step: Step) -> Iterator[Values]:
    for values in named(x=constants["Clients"], y=constants["Arenas"]):
        yield {**values, "need": sum(step.after["size"][values["x"]].values())}


QUOTA = Tie(
    quota.MACHINE,
    lambda constants, state: {"budget": constants["Budget"]}, _quota,
    lambda constants, state: {"Client": constants["Clients"], "Arena": constants["Arenas"]},
    "Quota-keeps-the-promise", _asking,
)  # fmt: skip


# ---- PlanLifecycle


def _life(constants: Values, state: State) -> Values:
    loaded, files = state["loaded"], {"aside": state["partial"], "kept": state["disk"]}
    found = {
        "phase": (state["phase"].capitalize(),), "loaded": loaded["plan"], "stated": loaded["hash"],
        "traced": state["traced"], "asks": state["asked"] != 0, "asked": state["asked"], "damaged": state["damaged"],
        "stands_by": state["former"]["plan"] != 0, "former": state["former"]["plan"],
        "former_hash": state["former"]["hash"], "iteration": state["iteration"], "committed": state["committed"],
    }  # fmt: skip
    for name, file in files.items():
        parts = {f"{name}_{part}": file[part] for part in ("plan", "hash", "whole", "iteration")}
        found |= {name: file["plan"] != 0, **parts}
    return found


def _living(constants: Values, step: Step) -> Iterator[Values]:
    """Plans and shapes that a step may have chosen."""
    plans = range(constants["MaxShape"] + 1)
    yield from named(p=plans, a=plans)


PLAN_LIFECYCLE = Tie(
    plan_lifecycle.MACHINE,
    lambda constants, state: {"hash": lambda p: p, "fits": lambda p, a: 1 <= a <= p}, _life,
    lambda constants, state: {}, "PlanLifecycle-believes-files", _living,
)  # fmt: skip


# ---- Sharding


def _ring(constants: Values, spec: Any, rank: tuple[int, int], step: int) -> tuple[int, int]:
    """The rank so many places on, on the axis that splits."""
    if spec[rank] == "none":
        return rank
    if spec[rank] == "data":
        return (rank[0] + step) % constants["Data"], rank[1]
    return rank[0], (rank[1] + step) % constants["Tensor"]


def _parts(constants: Values, by: str) -> int:
    return int({"none": 1, "data": constants["Data"], "tensor": constants["Tensor"]}[by])


def _place(spec: Any, rank: tuple[int, int]) -> int:
    return {"none": 0, "data": rank[0], "tensor": rank[1]}[spec[rank]]


def _ranks(constants: Values, state: State) -> Values:
    spec, phase, got, mail = state["spec"], state["phase"], state["got"], state["mail"]

    def elements(rank: tuple[int, int], coordinate: int) -> frozenset[int]:
        length = state["size"] // _parts(constants, spec[rank])
        return frozenset(range(length * coordinate, length * (coordinate + 1)))

    def behind(rank: tuple[int, int], k: int) -> int:
        return (_place(spec, rank) - k) % _parts(constants, spec[rank])

    def sent(rank: tuple[int, int]) -> int:
        to = _ring(constants, spec, rank, 1)
        return got[to] + len(mail[to]) if phase[rank] in ("agreed", "gathered") else 0

    def shard(rank: tuple[int, int], k: int) -> int:
        """What is on its way, as it is; what has come was what it should have been, as its holder shows."""
        to = _ring(constants, spec, rank, 1)
        if not got[to] < k <= sent(rank):
            return behind(rank, k - 1)
        piece = mail[to][k - got[to] - 1]
        parts = _parts(constants, spec[rank])
        return next((c for c in range(parts) if elements(rank, c) == piece), -1)

    return {
        "phase": lambda r: (phase[r].capitalize(),), "informed": lambda r: bool(state["received"][r]),
        "holds": lambda r, c: 0 <= c < _parts(constants, spec[r]) and set() < elements(r, c) <= state["holds"][r],
        "sent": sent, "shard": shard, "got": lambda r: got[r],
    }  # fmt: skip


def _rings(constants: Values, state: State) -> Values:
    spec = state["spec"]
    return {
        "spec": lambda r: spec[r], "divides": lambda by: state["size"] % _parts(constants, by) == 0,
        "parts": lambda by: _parts(constants, by), "at": lambda r: _place(spec, r),
        "before": lambda r: _ring(constants, spec, r, -1),
    }  # fmt: skip


RANKS = Tie(
    ranks.MACHINE,
    _rings, _ranks,
    lambda constants, state: {
        "Rank": sorted(state["spec"]), "Spec": constants["Specs"], "Int": range(-1, max(state["size"], 3) + 1),
    },
    "Sharding-one-neighbour-is-enough",
    lambda constants, step: named(x=sorted(step.after["spec"])),
)  # fmt: skip


# ---- Bodies

WRITTEN_AT = {
    "captured": 0, "start": 0, "first": 1, "second": 1, "middle": 2, "last": 3, "kept": 4, "result": 5, "late": 6,
}  # fmt: skip
READ_LAST_AT = {
    "captured": 2, "start": 1, "first": 2, "second": 4, "middle": 3, "last": 5, "kept": 5, "result": 6, "late": 7,
}  # fmt: skip
OVER_THE_LOOP = ("captured", "start", "first", "second", "result")
SOURCE = {"first": "kept", "second": "last"}
ENTER, FIRST, LAST, LEAVE, END = 1, 2, 4, 5, 7


def _birth(tensor: str) -> int:
    return min(WRITTEN_AT[tensor], ENTER if tensor in OVER_THE_LOOP else END)


def _death(tensor: str) -> int:
    """Written out here once more: as the module's Death."""
    keeps = tensor in OVER_THE_LOOP or tensor in SOURCE.values()
    return max(READ_LAST_AT[tensor], LEAVE if keeps else 0)


def _loop(constants: Values, state: State) -> Values:
    now, trip, content = state["at"], state["trip"], state["content"]

    def is_written(t: str) -> bool:
        return WRITTEN_AT[t] < now or ("write", t) in state["done"]

    def made(t: str) -> int:
        """The iteration of the last write of a tensor, 0 before its first."""
        if t in SOURCE:
            return (
                trip + (("carry", t) in state["done"])
                if FIRST <= now <= LAST
                else (constants["Trips"] if now > LAST else int(is_written(t)))
            )
        if FIRST <= WRITTEN_AT[t] <= LAST:
            return constants["Trips"] if now > LAST else trip if is_written(t) else max(0, trip - 1)
        return constants["Trips"] if t == "result" and is_written(t) else 0

    return {
        "tenant": lambda s: content[s][0] if content[s] else "nothing",
        "stamp": lambda s: content[s][1] if content[s] else -1, "written": is_written, "made": made,
        "carried": lambda t: ("carry", t) in state["done"],
        "carries": any(what == "carry" for what, _ in state["done"]),
        "now": now, "trip": trip,
    }  # fmt: skip


def _writing(constants: Values, step: Step) -> Iterator[Values]:
    for values in named(x=WRITTEN_AT, when=range(constants["Trips"] + 2)):
        if step.action == "Proceed" and values["x"] != "late":
            continue
        yield values


BODIES = Tie(
    bodies.MACHINE,
    lambda constants, state: {
        "slot": lambda t: state["slot"][t], "writer": lambda t: WRITTEN_AT[t], "birth": _birth, "death": _death,
        "formal": lambda t: t in SOURCE, "source": lambda t: SOURCE.get(t, t), "enter": ENTER, "first": FIRST,
        "last": LAST, "leave": LEAVE, "trips": constants["Trips"],
    },
    _loop, lambda constants, state: {"Tensor": sorted(WRITTEN_AT), "Slot": sorted(WRITTEN_AT)},
    "Bodies-straight-lifetimes", _writing, ("Read",),
)  # fmt: skip
