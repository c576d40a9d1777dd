"""How the modules of TMMU are read in the words of their lemmas. spec: V4.11"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.tied_machines import Machine, Values, named
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


LINEAR_SCAN = Machine(
    "linear_scan", "a_scan_begins_right",
    {
        "Advance": ("going_on_keeps_the_invariant",), "Expire": ("expiry_keeps_the_invariant",),
        "Reuse": ("taking_a_free_slot_keeps_the_invariant",), "Open": ("opening_a_slot_keeps_the_invariant",),
    },
    lambda constants, state: _functions(state, "birth", "death"), _scan,
    lambda constants, state: {"Storage": _numbers(constants), "Int": range(-1, constants["Count"] + 1)},
    "LinearScan-half-open",
    lambda constants, step: named(x=_numbers(constants), k=range(constants["Count"])),
)  # fmt: skip


# ---- AliasReferences


def _counts(constants: Values, state: State) -> Values:
    return {
        "alive": lambda t: t in state["alive"], "count": lambda s: at(state["references"], s) if s else 0,
        "changed": lambda t: t in state["changed"], "now": state["at"], "holder": state["holder"],
    }  # fmt: skip


ALIAS_REFERENCES = Machine(
    "alias_references", "counting_begins_right",
    {
        "Make": ("making_a_member_keeps_the_counts",), "Die": ("a_death_keeps_the_counts",),
        "WriteOver": ("writing_over_the_last_member_keeps_what_is_read",),
        "Proceed": ("proceeding_keeps_the_counts",),
    },
    lambda constants, state: {
        "nobody": 0, **_functions(state, "birth", "death", "home"), "saved": lambda t: t in state["saved"],
    },
    _counts, lambda constants, state: {"Tensor": _numbers(constants), "Storage": range(3)},
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


QUOTA = Machine(
    "quota", "a_budget_begins_unused",
    {
        "Ask": ("promising_what_the_budget_has_keeps_the_quota", "refusing_what_the_budget_has_not_keeps_the_quota"),
        "Map": ("mapping_an_arena_keeps_the_quota",), "Refuse": ("a_refusal_by_the_system_keeps_the_quota",),
        "Unmap": ("giving_an_arena_back_keeps_the_quota",), "Fail": ("failing_keeps_the_quota",),
        "Commit": ("committing_keeps_the_quota",), "Release": ("releasing_keeps_the_quota",),
    },
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
    """Plans and shapes that a step may have chosen; None is said of a file that is not there."""
    plans = range(constants["MaxShape"] + 1)
    for values in named(p=plans, a=plans):
        yield {**values, "q": 0, "b": False, "n": 0}


PLAN_LIFECYCLE = Machine(
    "plan_lifecycle", "a_run_begins_right",
    {
        "Plan": ("planning_keeps_the_run",), "Restore": ("restoring_keeps_the_run",),
        "Apply": ("applying_a_plan_whose_hash_recomputes_keeps_the_run",),
        "RefuseDamaged": ("refusing_a_plan_whose_hash_differs_keeps_the_run",), "Zero": ("zeroing_keeps_the_run",),
        "Ask": ("asking_for_an_iteration_keeps_the_run",), "Begin": ("beginning_an_iteration_keeps_the_run",),
        "Replan": ("replanning_at_a_safepoint_keeps_the_run",), "RefuseShape": ("refusing_a_shape_keeps_the_run",),
        "StandBy": ("going_back_to_the_former_plan_keeps_the_run",),
        "Finish": ("ending_an_iteration_keeps_the_run",),
        "WriteAside": ("writing_a_checkpoint_aside_keeps_the_run",),
        "Sync": ("syncing_a_checkpoint_keeps_the_run",), "Rename": ("renaming_a_checkpoint_keeps_the_run",),
        "Crash": ("a_crash_keeps_the_run",), "Damage": ("damage_keeps_the_run",),
    },
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
        """What is on its way, as it is; what has come was what it should have been, as who holds it shows."""
        to = _ring(constants, spec, rank, 1)
        if not got[to] < k <= sent(rank):
            return behind(rank, k - 1)
        piece = mail[to][k - got[to] - 1]
        parts = _parts(constants, spec[rank])
        return next((c for c in range(parts) if elements(rank, c) == piece), -1)

    return {
        "phase": lambda r: (phase[r].capitalize(),), "heard": lambda r: bool(state["heard"][r]),
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


RANKS = Machine(
    "ranks", "ranks_begin_right",
    {
        "Plan": ("planning_a_shard_keeps_the_ranks",), "RefuseSize": ("refusing_a_size_keeps_the_ranks",),
        "Hear": ("hearing_of_the_others_keeps_the_ranks",), "Agree": ("beginning_keeps_the_ranks",),
        "RefuseSpec": ("refusing_another_spec_keeps_the_ranks",), "Receive": ("receiving_a_shard_keeps_the_ranks",),
        "End": ("ending_keeps_the_ranks",),
    },
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


BODIES = Machine(
    "bodies", "a_program_begins_right",
    {
        "Read": (), "Write": ("writing_a_result_keeps_the_program",),
        "Carry": ("carrying_an_output_over_keeps_the_program",),
        "Proceed": ("going_on_keeps_the_program", "going_round_again_keeps_the_program"),
    },
    lambda constants, state: {
        "slot": lambda t: state["slot"][t], "writer": lambda t: WRITTEN_AT[t], "birth": _birth, "death": _death,
        "formal": lambda t: t in SOURCE, "source": lambda t: SOURCE.get(t, t), "enter": ENTER, "first": FIRST,
        "last": LAST, "leave": LEAVE, "trips": constants["Trips"],
    },
    _loop, lambda constants, state: {"Tensor": sorted(WRITTEN_AT), "Slot": sorted(WRITTEN_AT)},
    "Bodies-straight-lifetimes", _writing,
)  # fmt: skip
