"""The naive checker on plans made by hand: each is right but for one thing, and that thing is named.

A plan here has one storage for each tensor unless a test says otherwise; a tensor is given as
(first byte, birth, death, writer).

spec: V1.1, V1.2, V1.3, V1.4, V1.5, V1.6, V1.7, V1.9, V1.10, V1.11, T7.2, T3.1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from proofs.definition.checker import execute
from proofs.definition.checker.execute import executed, placed, violations
from proofs.definition.checker.program import PlacedArena, PlacedStorage, PlacedTensor, Program, RunStep, exact, program
from proofs.definition.violations import Violation
from proofs.readers.sharing import Permissions
from tests.support.written import Written

Given = tuple[int, int, int, int | None]
SIZE = 64


def run(
    tensors: Mapping[str, Given],
    steps: Sequence[tuple[str, str]] = (),
    *,
    returned: str = "",
    views: Mapping[str, tuple[str, int]] | None = None,
    in_place: Mapping[str, str] | None = None,
    together: Sequence[str] = (),
    sizes: Mapping[str, int] | None = None,
    mutates: Mapping[int, str] | None = None,
    again: Mapping[int, str] | None = None,
    completes: Sequence[int] = (),
    begins: Mapping[int, str] | None = None,
    donated: str = "",
    arena_of: Mapping[str, int] | None = None,
) -> Program:
    """A plan of `tensors` and `steps` (reads, writes); the tensors of each word of `together` are in one storage."""
    names = list(tensors)
    row = {name: k for k, name in enumerate(names)}

    def rows(text: str) -> tuple[int, ...]:
        return tuple(row[name] for name in text.split())

    size = {name: (sizes or {}).get(name, SIZE) for name in names}
    arena = {name: (arena_of or {}).get(name, 0) for name in names}
    groups = [group.split() for group in together]
    members = groups + [[name] for name in names if not any(name in group for group in groups)]
    storages: list[PlacedStorage] = []
    storage_of: dict[str, int] = {}
    for k, group in enumerate(members):
        offset = min(tensors[name][0] for name in group)
        end = max(tensors[name][0] + size[name] for name in group)
        birth, death = min(tensors[name][1] for name in group), max(tensors[name][2] for name in group)
        storages.append(PlacedStorage(arena[group[0]], end - offset, 1, birth, death, offset))
        storage_of |= dict.fromkeys(group, k)
    placed = [
        PlacedTensor(name, storage_of[name], first - storages[storage_of[name]].offset, size[name], 1, birth, death,
                     writer, arena[name], first)
        for name, (first, birth, death, writer) in tensors.items()
    ]  # fmt: skip
    made = [
        RunStep(
            rows(reads),
            rows(writes),
            rows((mutates or {}).get(n, "")),
            rows((again or {}).get(n, "")),
            n in completes,
            rows((begins or {}).get(n, "")),
        )
        for n, (reads, writes) in enumerate(steps)
    ]
    return Program(
        [PlacedArena(name, 1 << 20, 1, 1 << 20, 1 << 20, True, False) for name in ("memory", "other")],
        storages,
        [group[0] for group in members],
        [],
        max(0, len(steps) - 1),
        placed,
        made,
        [f"node{n}" for n in range(len(steps))],
        {row[name]: (row[base], offset) for name, (base, offset) in (views or {}).items()},
        {row[result]: row[operand] for result, operand in (in_place or {}).items()},
        list(rows(returned)),
        frozenset(rows(donated)),
    )


def found(plan: Program) -> list[tuple[str, tuple[str, ...], int | None]]:
    """The obligations that are broken, with tensors and step."""
    return [(problem.obligation, problem.tensors, problem.step) for problem in violations(plan)]


CHAIN: dict[str, Given] = {"x": (0, 0, 0, None), "a": (64, 0, 1, 0), "y": (0, 1, 1, 1)}
CHAIN_STEPS = [("x", "a"), ("a", "y")]


def test_a_right_plan_has_no_problem() -> None:
    assert found(run(CHAIN, CHAIN_STEPS, returned="y")) == []
    assert found(run({})) == []
    assert found(run({"x": (0, 0, 0, None)}, returned="x")) == []


# Places.


def with_storage(plan: Program, k: int, **changes: int) -> Program:
    storages = [s._replace(**changes) if i == k else s for i, s in enumerate(plan.storages)]
    return replace(plan, storages=storages)


def with_tensor(plan: Program, k: int, **changes: Any) -> Program:
    tensors = [t._replace(**changes) if i == k else t for i, t in enumerate(plan.tensors)]
    return replace(plan, tensors=tensors)


def with_arena(plan: Program, **changes: Any) -> Program:
    return replace(plan, arenas=[plan.arenas[0]._replace(**changes), *plan.arenas[1:]])


RIGHT = run(CHAIN, CHAIN_STEPS, returned="y")
PLACES: list[tuple[str, Program, list[tuple[str, str]]]] = [
    ("a storage that lives beyond the steps", with_storage(RIGHT, 1, death=2), [("tensors_within_storages", "a")]),
    (
        "a storage that dies before its birth",
        with_storage(run({"x": (0, 0, 0, None)}), 0, birth=1, death=0),
        [("tensors_within_storages", "x"), ("tensors_within_storages", "x")],
    ),
    ("a storage that ends beyond the arena", with_arena(RIGHT, limit=127), [("capacity", "a")]),
    ("a footprint that just suffices", with_arena(RIGHT, footprint=128, capacity=128), []),
    (
        "a footprint beyond the capacity",
        with_arena(RIGHT, footprint=200, capacity=199),
        [("capacity", "a")],
    ),
    ("a storage beyond the capacity", with_arena(RIGHT, footprint=128, limit=128, capacity=100), [("capacity", "a")]),
    (
        "slots at scattered addresses that need more than the capacity together",
        with_arena(RIGHT, footprint=128, limit=1 << 64, capacity=100, scattered=True),
        [("capacity", "a")],
    ),
    (
        "a storage that ends beyond 64 bits, of a sum that does not wrap",
        with_arena(with_storage(RIGHT, 1, offset=(1 << 64) - 32), limit=1 << 64, capacity=(1 << 64) - 1),
        [("capacity", "a")],
    ),
    ("a storage at an odd offset", with_storage(RIGHT, 1, alignment=128), [("alignment", "a")]),
    ("a storage whose alignment is not a power of two", with_storage(RIGHT, 0, alignment=3), [("alignment", "x")]),
    ("a storage whose alignment is 0", with_storage(RIGHT, 0, alignment=0), [("alignment", "x")]),
    ("an arena aligned more strictly than its storages", with_arena(RIGHT, alignment=128), [("alignment", "a")]),
    (
        "an arena whose alignment is not a power of two",
        with_arena(run({"x": (0, 0, 0, None)}), alignment=96),
        [("alignment", "x")],
    ),
    ("a tensor at an odd address", with_tensor(RIGHT, 1, alignment=128), [("alignment", "a")]),
    (
        "a tensor at an odd byte of a storage that is as strict",
        with_tensor(with_storage(RIGHT, 1, alignment=64), 1, alignment=64, address=96),
        [("alignment", "a")],
    ),
    ("a tensor whose alignment is not a power of two", with_tensor(RIGHT, 0, alignment=6), [("alignment", "x")]),
    ("a tensor whose alignment is 0", with_tensor(RIGHT, 0, alignment=0), [("alignment", "x")]),
    ("a tensor stricter than its storage", with_tensor(RIGHT, 0, alignment=4), [("alignment", "x")]),
    ("a tensor that reaches beyond its storage", with_tensor(RIGHT, 0, window=1), [("tensors_within_storages", "x")]),
    (
        "a tensor that dies before its birth, in its storage",
        with_tensor(RIGHT, 1, birth=1, death=0),
        [("tensors_within_storages", "a")],
    ),
    (
        "what is misaligned and all else at its bound is misaligned alone",
        with_tensor(with_storage(RIGHT, 1, alignment=128), 1, alignment=128),
        [("alignment", "a"), ("alignment", "a")],
    ),
    (
        "scattered slots may end beyond the capacity, each by itself within 64 bits",
        with_arena(
            with_storage(RIGHT, 1, offset=(1 << 64) - 64), footprint=128, limit=1 << 64, capacity=128, scattered=True
        ),
        [],
    ),
    ("a tensor that is born before its storage", with_storage(RIGHT, 2, birth=0), []),
    ("a tensor that dies after its storage", with_storage(RIGHT, 1, death=0), [("tensors_within_storages", "a")]),
]


@pytest.mark.parametrize(("plan", "expected"), [row[1:] for row in PLACES], ids=[row[0] for row in PLACES])
def test_places_and_sizes_are_checked(plan: Program, expected: list[tuple[str, str]]) -> None:
    of_places = {"alignment", "capacity", "tensors_within_storages"}
    assert [(p.obligation, p.tensors[0]) for p in placed(plan) if p.obligation in of_places] == expected


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (with_storage(RIGHT, 0, alignment=3), "x at 0 has the alignment 3: not a power of two"),
        (with_storage(RIGHT, 0, alignment=0), "x at 0 has the alignment 0: not a power of two"),
        (with_arena(RIGHT, alignment=96), "the arena of x has the alignment 96: not a power of two"),
        (with_tensor(RIGHT, 1, alignment=6), "a at 64 has the alignment 6: not a power of two"),
        (with_storage(RIGHT, 1, alignment=128), "a at 64 is not aligned to 128"),
        (with_arena(RIGHT, alignment=128), "a at 64 is not aligned to 128"),
        (with_tensor(RIGHT, 1, alignment=128), "a at 64 is not aligned to 128"),
    ],
)
def test_the_alignment_that_is_named_is_the_one_that_is_wrong(plan: Program, text: str) -> None:
    """Another one may well divide the address. spec: V1.2"""
    assert next(p.text for p in violations(plan) if p.obligation == "alignment") == text


def test_columns_hold_sums_of_two_exactly() -> None:
    large = 1 << 62
    kinds = {
        tuple(v): exact(v).dtype.kind for v in ([large - 1], [large], [-large], [-large - 1], [large, 0], [1 << 64])
    }
    assert "".join(kinds.values()) == "iOiOOO"
    assert all(exact(values).tolist() == list(values) for values in kinds)
    assert (exact([large - 1]) + exact([large - 1])).tolist() == [2 * large - 2]
    assert (exact([-large]) + exact([-large])).tolist() == [-2 * large]


def test_a_tensor_born_before_its_storage_is_outside_it() -> None:
    plan = with_tensor(RIGHT, 2, birth=0)
    assert ("tensors_within_storages", ("y",), None) in found(plan)


@pytest.mark.parametrize("over", [64, 96, 127])
def test_a_read_of_which_any_byte_was_overwritten_is_found(over: int) -> None:
    """By a step that reads and writes nothing else. spec: V1.5"""
    tensors = {"x": (0, 0, 1, None), "a": (64, 0, 2, 0), "b": (over, 1, 1, 1), "y": (200, 2, 2, 2)}
    plan = run(tensors, [("x", "a"), ("x", "b"), ("a", "y")], returned="y", sizes={"b": 1})
    assert [(p.obligation, p.tensors[:1], p.step) for p in executed(plan)] == [("sharing_is_sound", ("a",), 2)]


# Overlap.


def overlaps(*storages: tuple[int, int, int, int], arenas: Sequence[int] = ()) -> list[Violation]:
    """The overlaps of storages, each (first byte, end, birth, death)."""
    names = [chr(ord("a") + k) for k in range(len(storages))]
    tensors: dict[str, Given] = {
        n: (first, birth, death, None) for n, (first, _, birth, death) in zip(names, storages, strict=True)
    }
    sizes = {n: end - first for n, (first, end, _, _) in zip(names, storages, strict=True)}
    plan = run(tensors, [("", "")] * 10, sizes=sizes, arena_of=dict(zip(names, arenas, strict=False)))
    return [problem for problem in violations(plan) if problem.obligation == "no_live_overlap"]


def test_one_shared_byte_at_one_shared_step_is_an_overlap() -> None:
    [problem] = overlaps((0, 65, 0, 3), (64, 128, 3, 5))
    assert (problem.tensors, problem.step, problem.arena) == (("a", "b"), 3, "memory")
    assert (problem.first_byte, problem.last_byte) == (64, 64)
    assert problem.text == "a and b are both live at step 3"


@pytest.mark.parametrize(
    "storages",
    [
        [(0, 64, 0, 3), (64, 128, 0, 3)],  # neighbours
        [(0, 64, 0, 2), (0, 64, 3, 3)],  # one after the other
        [(0, 64, 0, 3), (32, 32, 0, 3)],  # of no bytes, inside another
        [(0, 0, 0, 3), (0, 0, 0, 3)],
    ],
)
def test_storages_apart_in_bytes_or_steps_do_not_overlap(storages: list[tuple[int, int, int, int]]) -> None:
    assert overlaps(*storages) == []


def test_storages_of_two_arenas_do_not_overlap() -> None:
    assert overlaps((0, 64, 0, 3), (0, 64, 0, 3), arenas=[0, 1]) == []
    assert len(overlaps((0, 64, 0, 3), (0, 64, 0, 3), arenas=[1, 1])) == 1


def test_a_storage_inside_another_and_one_around_two_are_found() -> None:
    assert [p.tensors for p in overlaps((0, 100, 0, 3), (10, 20, 1, 1))] == [("a", "b")]
    assert [p.tensors for p in overlaps((0, 10, 0, 3), (20, 30, 0, 3), (5, 25, 1, 1))] == [("a", "c"), ("b", "c")]


def test_the_neighbour_on_either_side_is_looked_at() -> None:
    assert [p.tensors for p in overlaps((10, 20, 0, 3), (30, 40, 0, 3), (5, 15, 1, 1))] == [("a", "c")]
    assert [p.tensors for p in overlaps((10, 20, 0, 3), (30, 40, 0, 3), (35, 45, 1, 1))] == [("b", "c")]


def test_a_storage_that_dies_before_its_birth_does_not_end_another() -> None:
    assert [p.tensors for p in overlaps((0, 10, 5, 2), (20, 30, 0, 9), (25, 35, 8, 9))] == [("b", "c")]


def test_two_storages_at_the_very_same_place_are_found() -> None:
    assert [p.tensors for p in overlaps((0, 10, 0, 3), (0, 10, 0, 3))] == [("a", "b")]
    assert [p.tensors for p in overlaps((0, 10, 0, 5), (0, 10, 1, 2), (0, 10, 3, 4))] == [("a", "b"), ("a", "c")]


# The run.

EXECUTED: list[tuple[str, Program, list[tuple[str, tuple[str, ...], int | None]]]] = [
    (
        "a read before its tensor's birth",
        run({"x": (0, 1, 1, None)}, [("x", ""), ("x", "")]),
        [("lifetimes_cover_accesses", ("x",), 0)],
    ),
    (
        "a read after its tensor's death",
        run({"x": (0, 0, 0, None)}, [("", ""), ("x", "")]),
        [("lifetimes_cover_accesses", ("x",), 1)],
    ),
    (
        "a write outside its tensor's life",
        run({"a": (0, 1, 1, 0)}, [("", "a"), ("", "")]),
        [("lifetimes_cover_accesses", ("a",), 0)],
    ),
    (
        "a read by the caller after death",
        run({"a": (0, 0, 0, 0)}, [("", "a"), ("", "")], returned="a"),
        [("lifetimes_cover_accesses", ("a",), 2)],
    ),
    (
        "a read before the write",
        run({"a": (0, 0, 1, 1)}, [("a", ""), ("", "a")]),
        [("lifetimes_cover_accesses", ("a",), 0)],
    ),
    (
        "a read in the step that writes",
        run({"a": (0, 0, 0, 0)}, [("a", "a")]),
        [("lifetimes_cover_accesses", ("a",), 0), ("sharing_is_sound", ("a", "a"), 0)],
    ),
    ("a read of what nobody writes", run({"a": (0, 0, 0, 5)}, [("a", "")]), [("lifetimes_cover_accesses", ("a",), 0)]),
    (
        "an output that nobody writes",
        run({"a": (0, 0, 0, 5)}, [("", "")], returned="a"),
        [("lifetimes_cover_accesses", ("a",), 1)],
    ),
    ("a second write", run({"a": (0, 0, 1, 0)}, [("", "a"), ("", "a")]), [("sharing_is_sound", ("a",), 1)]),
    ("a write over what the caller gave", run({"x": (0, 0, 0, None)}, [("", "x")]), [("sharing_is_sound", ("x",), 0)]),
    (
        "a mutation that is declared",
        run({"a": (0, 0, 1, 0)}, [("", "a"), ("a", "a")], mutates={1: "a"}, returned="a"),
        [],
    ),
    (
        "a mutation of what is not donated",
        run({"x": (0, 0, 0, None)}, [("x", "x")], mutates={0: "x"}),
        [("sharing_is_sound", ("x",), 0)],
    ),
    ("a mutation of what is donated", run({"x": (0, 0, 0, None)}, [("x", "x")], mutates={0: "x"}, donated="x"), []),
    (
        "a mutation of a view of what is not donated",
        run(
            {"x": (0, 0, 2, None), "v": (0, 0, 2, 0)},
            [("x", "v"), ("v", "v"), ("", "")],
            mutates={1: "v"},
            views={"v": ("x", 0)},
            together=["x v"],
        ),
        [("sharing_is_sound", ("v",), 1)],
    ),
    # Bytes that hold something else.
    (
        "a read of what was overwritten",
        run({"a": (0, 0, 2, 0), "b": (32, 1, 1, 1)}, [("", "a"), ("", "b"), ("a", "")], together=["a b"]),
        [("sharing_is_sound", ("a", "b"), 2)],
    ),
    (
        "an output that was overwritten",
        run({"a": (0, 0, 1, 0), "b": (0, 1, 1, 1)}, [("", "a"), ("", "b")], together=["a b"], returned="a"),
        [("sharing_is_sound", ("a", "b"), 2)],
    ),
    (
        "a parameter that was overwritten",
        run({"w": (0, 0, 1, None), "b": (0, 1, 1, 1)}, [("w", ""), ("", "b")], together=["w b"], returned="w"),
        [("sharing_is_sound", ("w", "b"), 2)],
    ),
    (
        "an input overwritten before its first reader",
        run({"x": (0, 0, 1, None), "b": (0, 0, 0, 0)}, [("", "b"), ("x", "")], together=["x b"]),
        [("sharing_is_sound", ("x", "b"), 1)],
    ),
    (
        "two inputs on the same bytes",
        run({"x": (0, 0, 0, None), "w": (0, 0, 0, None)}, [("x w", "")], together=["x w"]),
        [("sharing_is_sound", ("w", "x"), 0), ("sharing_is_sound", ("x", "w"), 0)],
    ),
    (
        "an input that no step reads on the bytes of another, whichever the caller writes first",
        run({"x": (0, 0, 0, None), "w": (0, 0, 0, None)}, [("w", "")], together=["x w"]),
        [("sharing_is_sound", ("w", "x"), 0)],
    ),
    (
        "a write outside its arena's bytes is seen there alone",
        run({"a": (0, 0, 1, 0), "b": (0, 0, 1, 0)}, [("", "a b"), ("a b", "")], arena_of={"b": 1}),
        [],
    ),
    # Results over operands.
    (
        "a result over an operand",
        run({"x": (0, 0, 0, None), "a": (0, 0, 0, 0)}, [("x", "a")], together=["x a"]),
        [("sharing_is_sound", ("a", "x"), 0)],
    ),
    (
        "a result in place",
        run(
            {"a": (0, 0, 1, 0), "y": (0, 1, 1, 1)},
            [("", "a"), ("a", "y")],
            together=["a y"],
            in_place={"y": "a"},
            returned="y",
        ),
        [],
    ),
    (
        "a result in place of another operand",
        run(
            {"a": (0, 0, 1, 0), "b": (64, 0, 1, 0), "y": (64, 1, 1, 1)},
            [("", "a b"), ("a b", "y")],
            together=["b y"],
            in_place={"y": "a"},
        ),
        [("sharing_is_sound", ("y", "b"), 1)],
    ),
    (
        "a result in place of half an operand",
        run(
            {"a": (0, 0, 1, 0), "y": (0, 1, 1, 1)},
            [("", "a"), ("a", "y")],
            together=["a y"],
            in_place={"y": "a"},
            sizes={"y": 32},
        ),
        [("sharing_is_sound", ("y", "a"), 1)],
    ),
    (
        "a result in place but shifted",
        run({"a": (0, 0, 1, 0), "y": (1, 1, 1, 1)}, [("", "a"), ("a", "y")], together=["a y"], in_place={"y": "a"}),
        [("sharing_is_sound", ("y", "a"), 1)],
    ),
    (
        "a result in place while another operand shows the same bytes",
        run(
            {"a": (0, 0, 2, 0), "v": (0, 1, 2, 1), "y": (0, 2, 2, 2)},
            [("", "a"), ("a", "v"), ("a v", "y")],
            together=["a v y"],
            views={"v": ("a", 0)},
            in_place={"y": "a"},
        ),
        [("sharing_is_sound", ("y", "v"), 2)],
    ),
    (
        "a result in place of an operand that is read later",
        run(
            {"a": (0, 0, 2, 0), "y": (0, 1, 2, 1)},
            [("", "a"), ("a", "y"), ("a y", "")],
            together=["a y"],
            in_place={"y": "a"},
        ),
        [("sharing_is_sound", ("a", "y"), 2)],
    ),
    # Two results.
    (
        "two results on the same bytes",
        run({"a": (0, 0, 0, 0), "b": (32, 0, 0, 0)}, [("", "a b")], together=["a b"]),
        [("sharing_is_sound", ("b", "a"), 0)],
    ),
    ("two results side by side", run({"a": (0, 0, 0, 0), "b": (64, 0, 0, 0)}, [("", "b a")], together=["a b"]), []),
    (
        "two results of no bytes",
        run({"a": (0, 0, 0, 0), "b": (0, 0, 0, 0)}, [("", "a b")], together=["a b"], sizes={"a": 0, "b": 0}),
        [],
    ),
    (
        "a result with a view of it",
        run(
            {"a": (0, 0, 1, 0), "v": (0, 0, 1, 0)}, [("", "a v"), ("a v", "")], together=["a v"], views={"v": ("a", 0)}
        ),
        [],
    ),
    ("a result listed twice", run({"a": (0, 0, 0, 0)}, [("", "a a")]), []),
    (
        "two results that overlap around one of no bytes",
        run(
            {"a": (0, 0, 0, 0), "z": (32, 0, 0, 0), "b": (40, 0, 0, 0)},
            [("", "a z b")],
            together=["a z b"],
            sizes={"z": 0},
        ),
        [("sharing_is_sound", ("b", "a"), 0)],
    ),
    (
        "a mutation over another operand",
        run({"a": (0, 0, 1, 0), "b": (32, 0, 1, 0)}, [("", "b"), ("a b", "a")], mutates={1: "a"}, together=["a b"]),
        [("lifetimes_cover_accesses", ("a",), 1), ("sharing_is_sound", ("a", "b"), 1)],
    ),
    (
        "results of one step that are listed in another order than they lie",
        run({"a": (0, 0, 0, 0), "b": (128, 0, 0, 0), "c": (32, 0, 0, 0)}, [("", "a b c")], together=["a b c"]),
        [("sharing_is_sound", ("c", "a"), 0)],
    ),
    (
        "a result that its loop reads again and its leave completes",
        run({"a": (0, 0, 1, 1)}, [("", "a"), ("", "a")], again={1: "a"}, completes=[1], begins={0: "a"}),
        [],
    ),
    # Views.
    (
        "a view",
        run(
            {"a": (0, 0, 2, 0), "v": (16, 1, 2, 1)},
            [("", "a"), ("a", "v"), ("v", "")],
            together=["a v"],
            sizes={"v": 16},
            views={"v": ("a", 16)},
        ),
        [],
    ),
    (
        "a view of a view",
        run(
            {"a": (0, 0, 3, 0), "v": (16, 1, 3, 1), "w": (24, 2, 3, 2)},
            [("", "a"), ("a", "v"), ("v", "w"), ("w", "")],
            together=["a v w"],
            sizes={"v": 16, "w": 8},
            views={"v": ("a", 16), "w": ("v", 8)},
        ),
        [],
    ),
    (
        "a view at another window",
        run(
            {"a": (0, 0, 1, 0), "v": (16, 1, 1, 1)},
            [("", "a"), ("a", "v")],
            together=["a v"],
            sizes={"v": 16},
            views={"v": ("a", 0)},
        ),
        [("sharing_is_sound", ("v", "a"), 1)],
    ),
    (
        "a view beside its base",
        run({"a": (0, 0, 1, 0), "v": (64, 1, 1, 1)}, [("", "a"), ("a", "v")], views={"v": ("a", 0)}),
        [("sharing_is_sound", ("v", "a"), 1)],
    ),
    (
        "a view beyond its base",
        run({"a": (0, 0, 1, 0), "v": (32, 1, 1, 1)}, [("", "a"), ("a", "v")], together=["a v"], views={"v": ("a", 32)}),
        [("sharing_is_sound", ("v", "a"), 1)],
    ),
    (
        "a view in another arena",
        run({"a": (0, 0, 1, 0), "v": (0, 1, 1, 1)}, [("", "a"), ("a", "v")], views={"v": ("a", 0)}, arena_of={"v": 1}),
        [("sharing_is_sound", ("v", "a"), 1)],
    ),
    (
        "a view of bytes that were overwritten",
        run(
            {"a": (0, 0, 3, 0), "v": (0, 1, 3, 1), "b": (0, 2, 2, 2)},
            [("", "a"), ("a", "v"), ("", "b"), ("v", "")],
            together=["a v b"],
            views={"v": ("a", 0)},
        ),
        [("sharing_is_sound", ("v", "b"), 3)],
    ),
    (
        "a write that is called a view by nobody",
        run({"a": (0, 0, 2, 0), "v": (0, 1, 2, 1)}, [("", "a"), ("a", "v"), ("v", "")], together=["a v"]),
        [("sharing_is_sound", ("v", "a"), 1)],
    ),
    # Loops.
    (
        "what a loop reads again holds something else",
        run({"a": (0, 0, 2, 0), "b": (0, 1, 1, 1)}, [("", "a"), ("", "b"), ("", "")], together=["a b"], again={2: "a"}),
        [("sharing_is_sound", ("a", "b"), 2)],
    ),
    (
        "what a loop reads again is dead",
        run({"a": (0, 0, 0, 0)}, [("", "a"), ("", "")], again={1: "a"}),
        [("lifetimes_cover_accesses", ("a",), 1)],
    ),
    (
        "a result that a leave completes",
        run({"a": (0, 0, 1, 1)}, [("", "a"), ("", "a")], completes=[1], begins={0: "a"}),
        [],
    ),
    (
        "a leave that writes what its body wrote",
        run({"a": (0, 0, 1, 0)}, [("", "a"), ("", "a")], completes=[1]),
        [("sharing_is_sound", ("a",), 1)],
    ),
    (
        "a result that is read while its loop runs",
        run({"a": (0, 0, 3, 2)}, [("", "a"), ("a", ""), ("", "a"), ("a", "")], completes=[2], begins={0: "a"}),
        [("lifetimes_cover_accesses", ("a",), 1)],
    ),
    (
        "a result that no leave completes",
        run({"a": (0, 0, 2, 1)}, [("", "a"), ("", "a"), ("a", "")], begins={0: "a"}),
        [("sharing_is_sound", ("a",), 1), ("lifetimes_cover_accesses", ("a",), 2)],
    ),
]


@pytest.mark.parametrize("few", [0, execute.FEW_PAIRS])
@pytest.mark.parametrize(("plan", "expected"), [row[1:] for row in EXECUTED], ids=[row[0] for row in EXECUTED])
def test_a_run_finds_what_is_wrong_and_nothing_else(
    plan: Program, expected: list[Any], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether operands and results are compared each with each, or by a sweep."""
    monkeypatch.setattr(execute, "FEW_PAIRS", few)
    assert found(plan) == expected


def test_an_arena_that_holds_nothing_has_an_alignment_too() -> None:
    memory, other = RIGHT.arenas
    [problem] = violations(replace(RIGHT, arenas=[memory, other._replace(alignment=3)]))
    assert (problem.obligation, problem.tensors, problem.arena) == ("alignment", (), "other")


@pytest.mark.parametrize(("operands", "results", "pairs"), [(4, 4, 16), (5, 5, 13), (3, 8, 16), (30, 30, 88)])
def test_of_many_operands_under_many_results_some_are_named_with_each_result(
    operands: int, results: int, pairs: int
) -> None:
    """All where they are few; else as many as there are operands and results, and one for each further result."""
    reads, writes = ([f"{kind}{k}" for k in range(count)] for kind, count in (("a", operands), ("b", results)))
    tensors: dict[str, Given] = {**dict.fromkeys(reads, (0, 0, 1, 0)), **dict.fromkeys(writes, (0, 1, 1, 1))}
    plan = run(tensors, [("", " ".join(reads)), (" ".join(reads), " ".join(writes))], together=[" ".join(tensors)])
    found = [item.tensors[0] for item in violations(plan) if " over " in item.text and item.step == 1]
    assert len(found) == pairs
    assert set(found) == set(writes)


@pytest.mark.parametrize("few", [0, execute.FEW_PAIRS])
@pytest.mark.parametrize(("size", "expected"), [(0, []), (1, [("sharing_is_sound", ("b", "a"), 1)])])
def test_one_byte_is_shared_and_none_is_not(
    size: int, expected: list[Any], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one lies inside of the other, as an operand and as a result."""
    monkeypatch.setattr(execute, "FEW_PAIRS", few)
    for at, sizes in ((8, {"a": size}), (-8, {"b": size})):
        plan = run(
            {"a": (64 + at, 0, 1, 0), "b": (64, 1, 1, 1)}, [("", "a"), ("a", "b")], together=["a b"], sizes=sizes
        )
        assert found(plan) == expected


def test_a_footprint_beyond_the_capacity_is_shown_with_the_last_storage_to_its_last_byte() -> None:
    """Which may end where the arena does, or be of no bytes and take one. spec: T7.1, C1.5"""
    for size, at in ((64, 64), (0, 127)):
        plan = run({"x": (0, 0, 0, None), "y": (at, 0, 0, None)}, sizes={"y": size})
        [problem] = violations(with_arena(plan, footprint=129, capacity=128))
        assert problem.text.startswith("the footprint of memory is 129")
        assert (problem.obligation, problem.tensors, problem.first_byte, problem.last_byte) == (
            "capacity",
            ("y",),
            at,
            127,
        )


@pytest.mark.parametrize(("size", "last"), [(64, 191), (1, 128), (0, 128)])
def test_the_bytes_of_a_problem_are_the_first_and_the_last(size: int, last: int) -> None:
    """Of nothing both are where it would be. spec: C1.5"""
    plan = run({"a": (128, 0, 0, 0)}, [("", "a"), ("a", "")], sizes={"a": size}, completes=[0])
    late = with_storage(with_tensor(with_arena(plan, limit=1, capacity=1), 0, alignment=3), 0, alignment=3)
    found = [p for p in violations(late) if p.obligation in ("alignment", "capacity", "lifetimes_cover_accesses")]
    assert {p.obligation for p in found} == {"alignment", "capacity", "lifetimes_cover_accesses"}
    assert {(p.arena, p.first_byte, p.last_byte) for p in found} == {("memory", 128, last)}


def test_a_read_is_wrong_once_whatever_its_bytes_hold() -> None:
    plan = run(
        {"a": (0, 0, 3, 0), "b": (0, 1, 1, 1), "c": (32, 2, 2, 2)},
        [("", "a"), ("", "b"), ("", "c"), ("a", "")],
        together=["a b c"],
        sizes={"b": 32, "c": 32},
    )
    assert found(plan) == [("sharing_is_sound", ("a", "b"), 3)]


def test_a_stale_read_is_named_in_full() -> None:
    """spec: C1.5"""
    plan = run(
        {"a": (128, 0, 2, 0), "b": (160, 1, 1, 1)}, [("", "a"), ("", "b"), ("a", "")], together=["a b"], sizes={"b": 8}
    )
    [problem] = violations(plan)
    assert problem == Violation("sharing_is_sound", problem.text, ("a", "b"), 2, "memory", 160, 167)
    assert problem.text.startswith("step 2 (node2) reads a, ")


def test_bytes_that_nobody_has_written_are_named_nothing() -> None:
    """A view of a tensor outside of whose bytes it lies: what is read there was written by nobody."""
    plan = run({"a": (0, 0, 2, 0), "v": (32, 1, 2, 1)}, [("", "a"), ("a", "v"), ("v", "")], views={"v": ("a", 32)})
    last = list(violations(plan))[-1]
    assert (last.obligation, last.tensors, last.first_byte) == ("sharing_is_sound", ("v", "nothing"), 64)


def test_the_caller_is_named_after_the_last_step() -> None:
    plan = run({"a": (0, 0, 1, 0), "b": (0, 1, 1, 1)}, [("", "a"), ("", "b")], together=["a b"], returned="a")
    [problem] = violations(plan)
    assert (problem.obligation, problem.tensors) == ("sharing_is_sound", ("a", "b"))


def test_a_tensor_of_no_bytes_reads_and_writes_nothing() -> None:
    plan = run(
        {"a": (0, 0, 2, 0), "b": (32, 1, 2, 1), "c": (0, 2, 2, 2)},
        [("", "a"), ("", "b"), ("a b", "c")],
        together=["a b c"],
        sizes={"b": 0, "c": 0},
    )
    assert found(plan) == []


@pytest.mark.parametrize("names", ["x u z", "z u x", "u z x"])
def test_of_what_the_caller_writes_no_two_share_a_byte_wherever_they_stand(names: str) -> None:
    """`z` is in the last byte of `x`; `u` is elsewhere, or has no bytes and lies between the two. spec: V1.13"""
    for at, size in ((256, SIZE), (32, 0)):
        places: dict[str, Given] = {"x": (0, 0, 0, None), "u": (at, 0, 0, None), "z": (SIZE - 1, 0, 0, None)}
        plan = run({name: places[name] for name in names.split()}, together=["x u z"], sizes={"u": size})
        assert [(name, set(tensors)) for name, tensors, _ in found(plan)] == [("sharing_is_sound", {"x", "z"})]
        apart = {**places, "z": (SIZE, 0, 0, None)}
        assert found(run({name: apart[name] for name in names.split()}, together=["x u z"], sizes={"u": size})) == []


def test_a_view_of_what_the_caller_writes_is_written_with_it() -> None:
    """spec: V1.13"""
    given: dict[str, Given] = {"x": (0, 0, 0, None), "v": (16, 0, 0, None)}
    shape: dict[str, Any] = {"together": ["x v"], "sizes": {"v": 16}, "returned": "v"}
    assert found(run(given, views={"v": ("x", 16)}, **shape)) == []
    assert {name for name, *_ in found(run(given, **shape))} == {"sharing_is_sound"}


def test_problems_come_one_by_one() -> None:
    """The first is there before the steps are looked at: a hostile plan with a million of them costs one."""

    class Unread(list[RunStep]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("the steps were read")

    plan = replace(with_storage(RIGHT, 0, alignment=3), steps=Unread())
    stream = violations(plan)
    assert next(stream).obligation == "alignment"
    with pytest.raises(AssertionError, match="the steps were read"):
        list(stream)


def test_a_wide_step_is_checked_in_time_that_grows_as_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of n operands and n results in bytes of their own, no pair is looked at."""
    text = "a = Make x\n" + "".join(f"r{k} = Make x\n" for k in range(40))
    wide = f"{' '.join(f'y{k}' for k in range(40))} = Many {' '.join(f'r{k}' for k in range(40))}"
    looked = Counter[str]()
    original = execute._may_overwrite

    def counted(*arguments: Any) -> bool:
        looked["pairs"] += 1
        return original(*arguments)

    monkeypatch.setattr(execute, "_may_overwrite", counted)
    plan = Written(text + wide, given={"x": "input"}, outputs="y0").plan()
    assert list(violations(program(plan, Permissions()))) == []
    assert looked["pairs"] == 0
