"""Plan files: bytes in, plan out, or one clear refusal; and every byte under a hash.

spec: P1.1, P1.2, P1.3, R1.3, R2.6
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import share
from tests.support.example_models import full
from tests.support.hostile import HOSTILE
from tests.support.text_models import text_model
from tmmu.core import canonical
from tmmu.core.columns import NONE, Names, build_column
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAX_PATTERNS, MAX_RULES, ArenaPolicy, DeviceConfiguration, Memory, Role, Rule
from tmmu.examples.broken.editing import changed
from tmmu.planner import DEFAULT, plan_memory, replay_token
from tmmu.plans import file
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.columns import Storages
from tmmu.plans.gate import StatedBuffers, StatedPlan, from_object
from tmmu.plans.provenance import HASHES
from tmmu.plans.sections import BufferPlan, Claims, Plan, Usage, amend_plan

POLICY = ArenaPolicy(
    (DeviceConfiguration("npu", (Memory("sram", 1 << 20),), ("relu*",), ("Add",)),),
    (
        Rule(("activations", "gradients"), (Role.ACTIVATION,), ("y*",), ("Relu",), ("npu",)),
        Rule(("parameters",), (), ("w",)),
    ),
)


def plan() -> Plan:
    """A plan in which every table and list has a row."""
    arenas = (*DEFAULT[:3], replace(DEFAULT[3], device="npu", memory="sram"))
    return plan_memory(full(), arenas, policy=POLICY).plan


PLAN = file.encode(plan())


def test_a_plan_is_read_from_the_file_that_it_was_written_to(tmp_path: Path) -> None:
    assert len(plan().allocation.steps) == 6
    for written in (
        plan(),
        plan_memory(text_model(outputs="x")).plan,
        plan_memory(text_model(inputs="", outputs="")).plan,
    ):
        file.save(written, tmp_path / "a.cbor")
        stated = file.load(tmp_path / "a.cbor")
        assert stated.plan == written
        assert file.find_false_hashes(stated) == []
        assert file.encode(stated.plan) == (tmp_path / "a.cbor").read_bytes()


BESIDE = ("format", "spec_version", "file_digest")


def test_a_section_is_there_where_it_is_needed() -> None:
    """The planner writes claims and provenance always, the envelope where a dimension has a range. spec: P2.2"""
    always = {*BESIDE, "allocation", "claims", "provenance"}
    assert set(canonical.decode(PLAN)) == always | {"envelope"}
    assert set(file.to_object(plan_memory(text_model(outputs="x")).plan)) == always


def test_an_allocation_is_a_plan_by_itself(tmp_path: Path) -> None:
    """With claims or without; provenance needs claims that are complete, shards provenance. spec: P2.1, P2.2"""
    full = plan()
    alone = Plan(full.allocation)
    for made in (alone, replace(alone, claims=Claims((Usage(),) * len(full.usage))), replace(full, provenance=None)):
        file.save(made, tmp_path / "a.cbor")
        stated = file.load(tmp_path / "a.cbor")
        assert stated.plan == made
        assert set(stated.hashes) == {"file_digest"}
        assert file.find_false_hashes(stated) == []
    for lacking in ("claims", "claims.slots", "claims.configuration"):
        root = file.to_object(full)
        table, key = at(root, lacking)
        del table[key]
        with pytest.raises(TmmuError) as refused:
            from_object(root)
        assert (refused.value.code_id, refused.value.place) == ("INVALID_PLAN", "provenance")
    for section in ("shards", "envelope"):
        root = file.to_object(full) | {section: {}}
        with pytest.raises(TmmuError) as refused:
            from_object(root)
        assert refused.value.place == section


def buffers() -> BufferPlan:
    """Three buffers of two arenas, two of which must not alias."""
    rows = [(0, 60, 1, 0, 3, 0), (0, 60, 1, 4, 9, 40), (1, 0, 4, 0, 9, 0)]
    types = (np.uint32, np.uint64, np.uint64, np.uint32, np.uint32, np.uint64)
    storages = Storages(
        *(build_column(list(values), dtype) for values, dtype in zip(zip(*rows, strict=True), types, strict=True))
    )
    arenas = (Arena("a", 100), Arena("b", 1, reuse=False))
    return BufferPlan(Buffers(arenas, storages, ((0, 2),), Names.of(["p", "q", "r"])))


def test_lifetimes_without_accesses_are_a_plan_of_their_own(tmp_path: Path) -> None:
    """What needs steps refuses them. spec: P2.6"""
    for made in (buffers(), replace(buffers(), claims=Claims((Usage(footprint=100), Usage(slots=1, minimal=True))))):
        file.save(made, tmp_path / "a.cbor")
        stated = file.load_any(tmp_path / "a.cbor")
        assert stated.plan == made
        assert file.find_false_hashes(stated) == []
        with pytest.raises(TmmuError) as refused:
            file.load(tmp_path / "a.cbor")
        assert (refused.value.code_id, refused.value.place) == ("INVALID_PLAN", "buffers")
    for wrong, place in (
        ({"allocation": {}}, "plan"), ({"provenance": {}}, "provenance"), ({"shards": {}}, "shards"),
        ({"envelope": {}, "claims": {}}, "envelope"),
    ):  # fmt: skip
        with pytest.raises(TmmuError) as refused:
            from_object(file.to_object(buffers()) | wrong)
        assert refused.value.place == place


def test_the_refusal_of_a_file_names_it(tmp_path: Path) -> None:
    """spec: R5.2, C2.6"""
    path = tmp_path / "a.cbor"
    for data in (b"", PLAN[:-1], PLAN + b"\0", canonical.encode({}), canonical.encode([])):
        path.write_bytes(data)
        with pytest.raises(TmmuError) as refused:
            file.load(os.fspath(path))
        assert (refused.value.code_id, refused.value.file) == ("INVALID_PLAN", str(path))
        assert refused.value.fix


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: P1.5"""
    (tmp_path / "a.cbor").write_bytes(PLAN)
    monkeypatch.setattr(file, "LIMIT", len(PLAN) - 1)
    with pytest.raises(TmmuError, match="more than the limit") as refused:
        file.load(tmp_path / "a.cbor")
    assert (refused.value.code_id, refused.value.file) == ("INVALID_PLAN", str(tmp_path / "a.cbor"))


def test_a_failure_while_saving_leaves_the_old_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: P1.4"""
    path = tmp_path / "a.cbor"
    file.save(plan(), path)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        file.save(plan_memory(text_model("node relu Relu x -> y")).plan, path)
    monkeypatch.undo()
    assert path.read_bytes() == PLAN
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.cbor"]


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bytes_are_no_plan(what: str) -> None:
    """As the whole file, and as the value of a key."""
    key = canonical.encode("spec_version")
    inside = PLAN.replace(key + canonical.encode("2.0"), key + HOSTILE[what])
    for data in (HOSTILE[what], inside):
        with pytest.raises(TmmuError) as refused:
            file.decode(data)
        assert refused.value.code_id == "INVALID_PLAN"


# The gate.


def u8(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.uint8)


def u32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.uint32)


def u64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.uint64)


TENSORS, STEPS, STORAGES, SLOTS = map(
    len, (plan().allocation.tensors, plan().allocation.steps, plan().allocation.storages, plan().slots)
)
USE = {"roles": [], "page_size": 1, "device": "d", "memory": ""}
SRAM = {"name": "sram", "capacity": 1 << 20}
NPU = {"name": "npu", "memories": [SRAM], "nodes": [], "ops": []}
RULE = {"arenas": ["parameters"], "roles": [], "names": [], "ops": [], "devices": []}
STARRED = [f"{k}*" for k in range(MAX_PATTERNS + 1)]
WRONG: list[tuple[str, Any, str]] = [
    # Keys and single values.
    ("format", "tmmu-ir", "format"),
    ("format", u8(1, 2), "format"),
    ("spec_version", "0.9", "spec_version"),
    ("provenance.layout", "heap", "provenance.layout"),
    ("provenance.mode", "training", "provenance.mode"),
    ("provenance.mode", ["inference"], "provenance.mode"),
    ("extra", 0, "plan"),
    ("provenance.model", 5, "provenance.model"),
    ("provenance.order", None, "provenance.order"),
    ("provenance.rank", -1, "provenance.rank"),
    ("provenance.rank", True, "provenance.rank"),
    ("provenance.rank", 1, "provenance.rank"),
    ("provenance.world_size", 0, "provenance.world_size"),
    ("provenance.world_size", 1 << 32, "provenance.world_size"),
    ("provenance.shard_spec", {"mesh": 1}, "provenance.shard_spec"),
    ("provenance.shard_spec", u8(1, 2), "provenance.shard_spec"),
    ("provenance.replay_token", bytes(31), "provenance.replay_token"),
    ("provenance.ir_hash", None, "provenance.ir_hash"),
    ("provenance.source_digest", "0" * 32, "provenance.source_digest"),
    ("provenance.source_digest", b"", "provenance.source_digest"),
    ("provenance.plan_hash", bytes(33), "provenance.plan_hash"),
    # Arenas and what is claimed of them.
    ("claims.configuration", [], "claims.configuration"),
    ("allocation.arenas.0", 5, "arenas[0]"),
    ("allocation.arenas.1.name", b"a", "arenas[1].name"),
    ("allocation.arenas.1.name", "parameters", "arenas"),
    ("claims.configuration.arenas.1.roles", "input", "claims.configuration.arenas[1].roles"),
    ("claims.configuration.arenas.1.roles", ["weights"], "claims.configuration.arenas[1].roles[0]"),
    ("claims.configuration.arenas.1.roles", [u8(0, 0)], "claims.configuration.arenas[1].roles[0]"),
    ("allocation.arenas.1.capacity", 0, "arenas[1].capacity"),
    ("allocation.arenas.1.alignment", 0, "arenas[1].alignment"),
    ("claims.configuration.arenas.1.page_size", "4096", "claims.configuration.arenas[1].page_size"),
    ("allocation.arenas.1.reuse", 1, "arenas[1].reuse"),
    ("claims.configuration.arenas.1.device", None, "claims.configuration.arenas[1].device"),
    ("claims.configuration.arenas.1.memory", "flash", "claims.configuration.arenas[1].memory"),
    ("claims.configuration.arenas", [USE], "claims.configuration.arenas"),
    ("claims.configuration.devices", {}, "claims.configuration.devices"),
    ("claims.configuration.devices", [NPU, NPU], "claims.configuration.devices"),
    ("claims.configuration.devices", [NPU | {"memories": [SRAM, SRAM]}], "claims.configuration.devices[0].memories"),
    (
        "claims.configuration.devices",
        [NPU | {"memories": [{"name": "m", "capacity": 0}]}],
        "claims.configuration.devices[0].memories[0].capacity",
    ),
    ("claims.configuration.devices", [], "claims.configuration.arenas[3].memory"),
    ("claims.configuration.devices", [NPU | {"ops": ["Conv", 5]}], "claims.configuration.devices[0].ops"),
    ("claims.configuration.rules", [RULE | {"arenas": []}], "claims.configuration.rules[0].arenas"),
    ("claims.configuration.rules", [RULE | {"arenas": ["here"]}], "claims.configuration.rules[0].arenas"),
    (
        "claims.configuration.rules",
        [RULE, RULE | {"arenas": ["parameters"] * 2}],
        "claims.configuration.rules[1].arenas",
    ),
    ("claims.configuration.rules", [RULE | {"devices": ["gpu"]}], "claims.configuration.rules[0].devices"),
    ("claims.configuration.rules", [RULE | {"roles": ["weights"]}], "claims.configuration.rules[0].roles[0]"),
    ("claims.configuration.rules", [RULE | {"more": 1}], "claims.configuration.rules[0]"),
    ("claims.configuration.rules", [RULE] * (MAX_RULES + 1), "claims.configuration.rules"),  # spec: P1.8
    ("claims.configuration.rules", [RULE | {"names": STARRED}], "claims.configuration.rules"),
    ("claims.usage", [], "claims.usage"),
    ("claims.usage", 5, "claims.usage"),
    ("claims.usage.2", {}, "claims.usage[2]"),
    ("claims.usage.2.minimal", 1, "claims.usage[2].minimal"),
    ("claims.usage.2.footprint", 1 << 64, "claims.usage[2].footprint"),
    ("claims.usage.2.slots", -1, "claims.usage[2].slots"),
    ("claims.usage.2.peak_step", STEPS, "claims.usage[2].peak_step"),
    ("claims.usage.2.max_live_step", STEPS, "claims.usage[2].max_live_step"),
    # Lists.
    ("allocation.ops", "Add", "ops"),
    ("allocation.ops.0", ["Add"], "ops[0]"),
    ("allocation.ops.0", "ab", "ops[0]"),
    ("allocation.ops.0", ["", 5], "ops[0]"),
    ("allocation.ops.0", [5, "Add"], "ops[0]"),
    ("allocation.ops", [], "steps.op row 0"),
    ("allocation.dtypes", ["uint7"], "dtypes[0]"),
    ("allocation.dtypes", [5], "dtypes[0]"),
    ("allocation.dtypes", ["uint8"], "tensors.dtype row 5"),
    ("allocation.must_not_alias", [[0]], "must_not_alias[0]"),
    ("allocation.must_not_alias", [0], "must_not_alias[0]"),
    ("allocation.must_not_alias", [[0, TENSORS]], "must_not_alias[0]"),
    ("allocation.unproduced", "mask", "unproduced"),
    ("allocation.unproduced", [5], "unproduced"),
    # Bindings.
    ("provenance.bindings", [], "provenance.bindings"),
    ("provenance.bindings.dims", None, "provenance.bindings"),
    ("provenance.bindings.dims", {"n": 1 << 64}, "provenance.bindings"),
    ("provenance.bindings.shapes", {"x": u64(1)}, "provenance.bindings"),
    ("provenance.bindings.donated", "x", "provenance.bindings"),
    ("provenance.bindings.values", {"rate": 1}, "provenance.bindings"),
    ("provenance.bindings.more", {}, "provenance.bindings"),
    ("provenance.bindings.trust_shapes", 0, "provenance.bindings"),
    # Tables.
    ("allocation.tensors", [], "tensors"),
    ("allocation.tensors.extra", u8(), "tensors"),
    ("allocation.tensors.name", "x", "tensors.name"),
    ("allocation.tensors.name", b"\xff" + bytes(TENSORS - 1), "tensors.name"),
    ("allocation.tensors.name", b"x", "tensors.name"),
    ("allocation.tensors.name", b"\0".join([b"x"] * TENSORS), "tensors.name"),
    ("allocation.tensors.name", bytes(TENSORS - 1), "tensors.name"),
    ("allocation.tensors.name", "\0".join(["", *"abcdefghijklmn"[: TENSORS - 1]]).encode(), "tensors.name"),
    ("allocation.tensors.role", u32(*[0] * TENSORS), "tensors.role"),
    ("allocation.tensors.role", [0] * TENSORS, "tensors.role"),
    ("allocation.tensors.role", u8(*[0] * (TENSORS - 1)), "tensors.role"),
    ("allocation.tensors.role", u8(*[6] * TENSORS), "tensors.role row 0"),
    ("allocation.tensors.flags", u8(*[16] * TENSORS), "tensors.flags row 0"),
    ("allocation.tensors.shares", u8(*[4] * TENSORS), "tensors.shares row 0"),
    ("allocation.tensors.storage", u32(*[STORAGES] * TENSORS), "tensors.storage row 0"),
    ("allocation.tensors.storage", u32(*[0] * (TENSORS - 1), NONE), "tensors.storage row 10"),
    ("allocation.tensors.writer", u32(*[STEPS] * TENSORS), "tensors.writer row 0"),
    ("allocation.tensors.of", u32(*[TENSORS] * TENSORS), "tensors.of row 0"),
    ("allocation.tensors.of", u32(*[0] * TENSORS), "tensors.of"),
    (
        "allocation.tensors.of",
        u32(*[NONE] * TENSORS),
        "tensors.of",
    ),
    ("allocation.storages.arena", u32(*[4] * STORAGES), "storages.arena row 0"),
    ("claims.slots.of", u32(*[SLOTS] * STORAGES), "claims.slots.of row 0"),
    ("allocation.storages.bytes", u64(), "storages.bytes"),
    ("claims.slots.arena", u32(*[4] * SLOTS), "claims.slots.arena row 0"),
    # Steps.
    ("allocation.steps.count", STEPS + 1, "steps.op"),
    ("allocation.steps.count", NONE, "steps.count"),
    ("allocation.steps.node", b"\0".join([b"n"] * STEPS), "steps.node"),
    ("allocation.steps.node", bytes(STEPS - 1), "steps.node"),
    ("allocation.steps.node", "\0".join(["", *"abcdefghijklmn"[: STEPS - 1]]).encode(), "steps.node"),
    ("allocation.steps.part", u8(*[3] * STEPS), "steps.node"),
    ("allocation.steps.body", u32(*[2] * STEPS), "steps.body row 0"),
    ("allocation.steps.reads", u32(0), "steps.reads_at"),
    ("allocation.steps.reads_at", u32(*[0] * STEPS), "steps.reads_at"),
    ("allocation.steps.writes_at", u32(1, *[0] * STEPS), "steps.writes_at"),
    (
        "allocation.steps.writes_at",
        u32(*plan().allocation.steps.writes_at.tolist(), len(plan().allocation.steps.writes)),
        "steps.writes_at",
    ),
    ("allocation.steps.writes_at", u32(1, *plan().allocation.steps.writes_at.tolist()[1:]), "steps.writes_at"),
    ("allocation.steps.mutates_at", u32(0, 1, *[0] * (STEPS - 2), 1), "steps.mutates_at"),
    # Bodies.
    ("allocation.bodies.name", b"\0", "bodies"),
    ("allocation.bodies.name", b"main\0loop/body", "bodies"),
    ("allocation.bodies.parent", u32(0, 0), "bodies"),
    ("allocation.bodies.parent", u32(NONE, 2), "bodies.parent row 1"),
    ("allocation.bodies.enter", u32(NONE, STEPS), "bodies.enter row 1"),
    ("allocation.bodies.leave", u32(NONE, STEPS), "bodies.leave row 1"),
    ("allocation.bodies.enter", u32(0, 1), "bodies.enter row 0"),
    ("allocation.bodies.leave", u32(0, 2), "bodies.leave row 0"),
    ("allocation.bodies.iterates", u8(1, 1), "bodies.iterates row 0"),
    ("allocation.bodies.iterates", u8(0, 2), "bodies.iterates row 1"),
]


def at(root: Any, path: str) -> tuple[Any, Any]:
    """The container and the key of `path`, where numbers index arrays."""
    *folders, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in folders:
        root = root[key]
    return root, last


@pytest.mark.parametrize(("path", "value", "place"), WRONG, ids=[f"{p}-{k}" for k, (p, _, _) in enumerate(WRONG)])
def test_what_is_no_plan_is_refused_with_its_place(path: str, value: Any, place: str) -> None:
    root = file.to_object(plan())
    table, key = at(root, path)
    table[key] = value
    with pytest.raises(TmmuError) as refused:
        from_object(root)
    assert (refused.value.code_id, refused.value.place) == ("INVALID_PLAN", place)


def accepted(read: Callable[[], StatedPlan | StatedBuffers]) -> StatedPlan | StatedBuffers | None:
    """What `read` reads, or None where it refuses; whatever else it raises is raised."""
    try:
        return read()
    except TmmuError as error:
        if error.code_id != "INVALID_PLAN":
            raise
        return None


NOTHING: list[tuple[str, Any, str]] = [
    ("allocation.tensors.name", b"x", "tensors.name"),
    ("allocation.steps.node", b"n", "steps.node"),
    (
        "allocation.bodies",
        {"name": b"", "parent": u32(), "enter": u32(), "leave": u32(), "iterates": u8()},
        "bodies",
    ),
    ("claims.usage.0.peak_step", 1, "claims.usage[0].peak_step"),
]


@pytest.mark.parametrize(("path", "value", "place"), NOTHING)
def test_a_plan_of_nothing_holds_nothing(path: str, value: Any, place: str) -> None:
    root = file.to_object(plan_memory(text_model(inputs="", outputs="")).plan)
    assert from_object(root)
    table, key = at(root, path)
    table[key] = value
    with pytest.raises(TmmuError) as refused:
        from_object(root)
    assert (refused.value.code_id, refused.value.place) == ("INVALID_PLAN", place)


def places(value: Any, path: str = "") -> list[str]:
    """The path of every key of every map, the map itself apart."""
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, item in inner:
        found += [f"{path}{key}", *places(item, f"{path}{key}.")]
    return found


FREE = tuple(f"provenance.bindings.{kind}." for kind in ("dims", "shapes", "values", "defaults"))
SECTIONS = ("claims", "provenance", "envelope", "claims.slots", "claims.configuration", "shards")
OPTIONAL = {name for name in Usage._fields if name != "minimal"}
OBJECT = file.to_object(plan())


def within(section: str) -> list[str]:
    """The paths in a section, itself included, of which the format says what may stand there."""
    fixed = [path for path in places(OBJECT) if not path.startswith((*FREE, "envelope.ranges."))]
    return [path for path in fixed if path.split(".")[0] == section]


@pytest.mark.parametrize("section", OBJECT)
def test_no_key_may_be_missing(section: str) -> None:
    for path in within(section):
        last = path.rsplit(".", 1)[-1]
        if not last.isdigit() and path not in SECTIONS and last not in OPTIONAL:
            root = copy.deepcopy(OBJECT)
            table, key = at(root, path)
            del table[key]
            with pytest.raises(TmmuError) as refused:
                from_object(root)
            assert refused.value.code_id == "INVALID_PLAN"
            assert str(key) in str(refused.value)


@pytest.mark.parametrize("section", OBJECT)
def test_no_value_may_be_of_another_type(section: str) -> None:
    """Whatever stands there instead is refused or is the same plan, and nothing but a refusal is raised."""
    values: list[Any] = [None, True, -1, 1 << 63, "", b"", [], {}, [[]], [{}], ["x"], u8(), u32(1, 2), u64(5)]
    for path, value in itertools.product(within(section), values):
        root = copy.deepcopy(OBJECT)
        table, key = at(root, path)
        old, table[key] = table[key], value
        stated = accepted(lambda root=root: from_object(root))  # type: ignore[misc]  # the loop's own root
        if stated is not None:
            assert type(value) is type(old) or path == "provenance.source_digest"
            assert file.encode(stated.plan, stated.hashes) == canonical.encode(root)


# Hashes.


@pytest.mark.parametrize("name", [*HASHES, "file_digest"])
def test_a_false_hash_is_found_with_both_values(name: str) -> None:
    """spec: V1.8"""
    right = file.compute_hashes(plan())[name]
    false = file.find_false_hashes(file.decode(file.encode(plan(), {name: bytes(32)})))
    assert false == [(name, bytes(32), right)]


def test_every_change_of_a_plan_shows_in_a_hash() -> None:
    """spec: R2.1, R2.2, R2.3, R2.4, R2.5, R2.6, A4.2"""
    old = file.compute_hashes(plan())
    changes: dict[str, tuple[str, ...]] = {
        "model": (), "order": (), "source_digest": (), "usage": (), "unproduced": (), "must_not_alias": (), "ops": (),
        "dtypes": (), "bodies": (), "replay_token": ("plan_hash",), "ir_hash": ("plan_hash", "layout_digest"),
        "mode": ("plan_hash", "layout_digest"), "bindings": ("plan_hash", "layout_digest"),
        "arena_config": ("arena_config_hash", "plan_hash", "layout_digest"),
    }  # fmt: skip
    others = {
        "model": amend_plan(plan(), model="other"),
        "order": amend_plan(plan(), order="other"),
        "source_digest": amend_plan(plan(), source_digest=None),
        "usage": amend_plan(plan(), usage=plan().usage[::-1]),
        "unproduced": amend_plan(plan(), unproduced=()),
        "must_not_alias": amend_plan(plan(), must_not_alias=()),
        "ops": amend_plan(plan(), ops=tuple(("ai.onnx", op) for _, op in plan().allocation.ops)),
        "dtypes": amend_plan(plan(), dtypes=plan().allocation.dtypes[::-1]),
        "bodies": changed(plan(), "bodies", 1, iterates=0),
        "replay_token": amend_plan(plan(), replay_token=replay_token(1)),
        "ir_hash": amend_plan(plan(), ir_hash=bytes(32)),
        "mode": amend_plan(plan(), mode="forward"),
        "bindings": amend_plan(plan(), bindings=replace(plan().bindings, donated=())),
        "arena_config": amend_plan(
            plan(), arenas=(replace(plan().allocation.arenas[0], capacity=5), *plan().allocation.arenas[1:])
        ),
    }
    for table in ("tensors", "storages", "slots"):
        changes[table] = ("plan_hash", "layout_digest")
        others[table] = changed(plan(), table, 0, alignment=2)
    changes["steps"] = ("execution_order_hash", "plan_hash", "layout_digest")
    others["steps"] = changed(plan(), "steps", 0, part=1)
    assert set(changes) == set(others)
    for key, other in others.items():
        new = file.compute_hashes(other)
        differing = {name for name in old if old[name] != new[name]}
        assert differing == {"file_digest", *changes[key]}, key


# Byte edits.


@settings(max_examples=share(2000), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(PLAN) - 1), st.integers(0, 2), st.binary(max_size=9)), min_size=1, max_size=3)
)
def test_an_edited_plan_is_refused_or_shows_it_in_a_hash(edits: list[tuple[int, int, bytes]]) -> None:
    """Bytes are replaced, inserted or removed; nothing but a refusal is ever raised. spec: R2.6, V1.8"""
    data = PLAN
    for position, kind, piece in edits:
        replaced = (0, len(piece), max(1, len(piece)))[kind]
        data = data[:position] + (b"" if kind == 2 else piece) + data[position + replaced :]
    stated = accepted(lambda: file.decode(data))
    assert stated is None or data == PLAN or file.find_false_hashes(stated)


def test_a_flipped_bit_is_refused_or_shows_it_in_a_hash() -> None:
    for position in range(0, len(PLAN), 700 // share(100)):
        data = bytearray(PLAN)
        data[position] ^= 1 << (position % 8)
        stated = accepted(lambda data=data: file.decode(bytes(data)))  # type: ignore[misc]  # the loop's own data
        assert stated is None or file.find_false_hashes(stated), position
