"""Plan files: bytes in, plan out, or one clear refusal; and every byte under a hash.

spec: P1.1, P1.2, P1.3, R1.3, R2.6
"""

from __future__ import annotations

import copy
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
from tests.support.small import changed, small
from tests.unit.test_canonical import HOSTILE
from tests.unit.test_ir_columns import full
from tmmu.core import canonical
from tmmu.core.columns import NONE
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaPolicy, Device, Memory, Role, Rule
from tmmu.plan import file
from tmmu.plan.columns import Plan
from tmmu.plan.gate import HASHES, KEYS, Stated, from_object
from tmmu.planner import DEFAULT, plan_memory, replay_token

POLICY = ArenaPolicy(
    (Device("npu", (Memory("sram", 1 << 20),), ("relu*",), ("Add",)),),
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
    assert len(plan().steps) == 6
    for written in (plan(), plan_memory(small(outputs="x")).plan, plan_memory(small(inputs="", outputs="")).plan):
        file.save(written, tmp_path / "a.cbor")
        stated = file.load(tmp_path / "a.cbor")
        assert stated.plan == written
        assert file.false_hashes(stated) == []
        assert file.encode(stated.plan) == (tmp_path / "a.cbor").read_bytes()


def test_a_file_holds_exactly_the_keys_of_the_schema() -> None:
    """The envelope is there where a dimension has a range."""
    assert set(canonical.decode(PLAN)) == {*KEYS, "envelope"}
    assert set(file.to_object(plan_memory(small(outputs="x")).plan)) == set(KEYS)


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
    with pytest.raises(TmmuError, match="No space left"):
        file.save(plan_memory(small("relu: x -> y")).plan, path)
    monkeypatch.undo()
    assert path.read_bytes() == PLAN
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.cbor"]


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bytes_are_no_plan(what: str) -> None:
    """As the whole file, and as the value of a key."""
    key = canonical.encode("spec_version")
    inside = PLAN.replace(key + canonical.encode("1.0"), key + HOSTILE[what])
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


TENSORS, STEPS, STORAGES, SLOTS = map(len, (plan().tensors, plan().steps, plan().storages, plan().slots))
ARENA = {"name": "a", "roles": [], "capacity": 1, "alignment": 1, "page_size": 1, "reuse": True, "device": "d"} | {
    "memory": ""
}
SRAM = {"name": "sram", "capacity": 1 << 20}
NPU = {"name": "npu", "memories": [SRAM], "nodes": [], "ops": []}
RULE = {"arenas": ["parameters"], "roles": [], "names": [], "ops": [], "devices": []}
WRONG: list[tuple[str, Any, str]] = [
    # Keys and single values.
    ("format", "tmmu-ir", "format: 'tmmu-ir' is not known"),
    ("format", u8(1, 2), "format: .* is no text"),
    ("spec_version", "0.9", "spec_version: '0.9' is not known; it is '1.0'"),
    ("layout", "heap", "layout: 'heap' is not known"),
    ("mode", "training", "mode: 'training' is not known; it is 'inference' or 'forward' or 'backward'"),
    ("mode", ["inference"], "mode: .* is no text"),
    ("extra", 0, "plan: the key 'extra' is unknown"),
    ("model", 5, "model: 5 is no text"),
    ("order", None, "order: None is no text"),
    ("rank", -1, "rank: -1 is no integer"),
    ("rank", True, "rank: True is no integer"),
    ("rank", 1, "rank: 1 of 1 ranks"),
    ("world_size", 0, "world_size: 0 is no integer from 1"),
    ("world_size", 1 << 32, "world_size"),
    ("shard_spec", {"mesh": 1}, "shard_spec: the key 'pad' is missing"),
    ("shard_spec", u8(1, 2), "shard_spec: no map"),
    ("replay_token", bytes(31), "replay_token: no SHA-256"),
    ("ir_hash", None, "ir_hash: no SHA-256"),
    ("source_digest", "0" * 32, "source_digest: no SHA-256"),
    ("source_digest", b"", "source_digest: no SHA-256"),
    ("plan_hash", bytes(33), "plan_hash: no SHA-256"),
    # Arenas and what is claimed of them.
    ("arena_config", [], "arena_config: no map"),
    ("arena_config.arenas.0", 5, r"arena_config.arenas\[0\]: no map"),
    ("arena_config.arenas.1.name", b"a", r"arena_config.arenas\[1\].name"),
    ("arena_config.arenas.1.name", "parameters", "arena_config.arenas: a name repeats"),
    ("arena_config.arenas.1.roles", "input", r"arena_config.arenas\[1\].roles: no array"),
    ("arena_config.arenas.1.roles", ["weights"], r"arena_config.arenas\[1\].roles: unknown role 'weights'"),
    ("arena_config.arenas.1.roles", [u8(0, 0)], r"arena_config.arenas\[1\].roles: .* is no text"),
    ("arena_config.arenas.1.capacity", 0, r"arena_config.arenas\[1\].capacity: 0 is no integer from 1"),
    ("arena_config.arenas.1.alignment", 0, r"arena_config.arenas\[1\].alignment"),
    ("arena_config.arenas.1.page_size", "4096", r"arena_config.arenas\[1\].page_size"),
    ("arena_config.arenas.1.reuse", 1, r"arena_config.arenas\[1\].reuse: no boolean"),
    ("arena_config.arenas.1.device", None, r"arena_config.arenas\[1\].device"),
    ("arena_config.arenas.1.memory", "flash", r"arena_config.arenas\[1\].memory: the device has no memory 'flash'"),
    ("arena_config.arenas", [ARENA], r"rules\[0\].arenas: 'activations' is not in the configuration"),
    ("arena_config.devices", {}, "arena_config.devices: no array"),
    ("arena_config.devices", [NPU, NPU], "arena_config.devices: a name repeats"),
    ("arena_config.devices", [NPU | {"memories": [SRAM, SRAM]}], r"arena_config.devices\[0\].memories: a name repeats"),
    ("arena_config.devices", [NPU | {"memories": [{"name": "m", "capacity": 0}]}], r"memories\[0\].capacity: 0"),
    ("arena_config.devices", [], r"arenas\[3\].memory: the device has no memory 'sram'"),
    ("arena_config.devices", [NPU | {"ops": ["Conv", 5]}], r"arena_config.devices\[0\].ops: 5 is no text"),
    ("arena_config.rules", [RULE | {"arenas": []}], r"arena_config.rules\[0\].arenas: no arena"),
    ("arena_config.rules", [RULE | {"arenas": ["here"]}], r"rules\[0\].arenas: 'here' is not in the configuration"),
    ("arena_config.rules", [RULE, RULE | {"arenas": ["parameters"] * 2}], r"rules\[1\].arenas: a name repeats"),
    ("arena_config.rules", [RULE | {"devices": ["gpu"]}], r"rules\[0\].devices: 'gpu' is not in the configuration"),
    ("arena_config.rules", [RULE | {"roles": ["weights"]}], r"rules\[0\].roles: unknown role 'weights'"),
    ("arena_config.rules", [RULE | {"more": 1}], r"rules\[0\]: the key 'more' is unknown"),
    ("usage", [], "usage: not one entry"),
    ("usage", 5, "usage: no array"),
    ("usage.2", {}, r"usage\[2\]: the key 'footprint' is missing"),
    ("usage.2.minimal", 1, r"usage\[2\].minimal: no boolean"),
    ("usage.2.footprint", 1 << 64, r"usage\[2\].footprint: 18446744073709551616 is no integer"),
    ("usage.2.slots", -1, r"usage\[2\].slots: -1 is no integer"),
    ("usage.2.peak_step", STEPS, rf"usage\[2\].peak_step: {STEPS} is no integer from 0 to {STEPS - 1}"),
    ("usage.2.max_live_step", STEPS, r"usage\[2\].max_live_step"),
    # Lists.
    ("ops", "Add", "ops: no array"),
    ("ops.0", ["Add"], r"ops\[0\]: no pair of domain and operator"),
    ("ops.0", "ab", r"ops\[0\]: no array"),
    ("ops.0", ["", 5], r"ops\[0\]: 5 is no text"),
    ("ops.0", [5, "Add"], r"ops\[0\]: 5 is no text"),
    ("ops", [], "steps.op row 0: points beyond 0 rows"),
    ("dtypes", ["uint7"], "dtypes: unknown dtype 'uint7'"),
    ("dtypes", [5], "dtypes: 5 is no text"),
    ("dtypes", ["uint8"], "tensors.dtype row .*: points beyond 1 rows"),
    ("must_not_alias", [[0]], r"must_not_alias\[0\]: no pair"),
    ("must_not_alias", [0], r"must_not_alias\[0\]: no array"),
    ("must_not_alias", [[0, TENSORS]], r"must_not_alias\[0\]: .* is no integer"),
    ("unproduced", "mask", "unproduced: no array"),
    ("unproduced", [5], "unproduced: 5 is no text"),
    # Bindings.
    ("bindings", [], "bindings: bindings is no map"),
    ("bindings.dims", None, "bindings: "),
    ("bindings.dims", {"n": 1 << 64}, "bindings.dims are no sizes"),
    ("bindings.shapes", {"x": u64(1)}, "bindings.shapes are no shapes"),
    ("bindings.donated", "x", "bindings.donated is no array"),
    ("bindings.values", {"rate": 1}, "a binding is no text"),
    ("bindings.more", {}, "unknown key 'more' in bindings"),
    ("bindings.trust_shapes", 0, "bindings.trust_shapes is no boolean"),
    # Tables.
    ("tensors", [], "tensors: no map"),
    ("tensors.extra", u8(), "tensors: the key 'extra' is unknown"),
    ("tensors.name", "x", "tensors.name: no byte string"),
    ("tensors.name", b"\xff" + bytes(TENSORS - 1), "tensors.name: no UTF-8"),
    ("tensors.name", b"x", f"tensors.name: 1 names where the table has {TENSORS} rows"),
    ("tensors.name", b"\0".join([b"x"] * TENSORS), "tensors.name: a name is empty or used twice"),
    ("tensors.name", bytes(TENSORS - 1), "tensors.name: a name is empty or used twice"),
    ("tensors.name", "\0".join(["", *"abcdefghijklmn"[: TENSORS - 1]]).encode(), "tensors.name: a name is empty"),
    ("tensors.role", u32(*[0] * TENSORS), "tensors.role: no column of uint8"),
    ("tensors.role", [0] * TENSORS, "tensors.role: no column of uint8"),
    ("tensors.role", u8(*[0] * (TENSORS - 1)), f"tensors.role: {TENSORS - 1} rows where the table has {TENSORS}"),
    ("tensors.role", u8(*[6] * TENSORS), "tensors.role row 0: points beyond 6 rows"),
    ("tensors.flags", u8(*[8] * TENSORS), "tensors.flags row 0: points beyond 8 rows"),
    ("tensors.shares", u8(*[4] * TENSORS), "tensors.shares row 0"),
    ("tensors.storage", u32(*[STORAGES] * TENSORS), "tensors.storage row 0"),
    ("tensors.storage", u32(*[0] * (TENSORS - 1), NONE), f"tensors.storage row {TENSORS - 1}"),
    ("tensors.writer", u32(*[STEPS] * TENSORS), "tensors.writer row 0"),
    ("tensors.of", u32(*[TENSORS] * TENSORS), "tensors.of row 0"),
    ("tensors.of", u32(*[0] * TENSORS), "tensors.of: a tensor shares with none and names one"),
    (
        "tensors.of",
        u32(*[NONE] * TENSORS),
        "tensors.of: a tensor shares with none and names one, or shares and names none",
    ),
    ("storages.arena", u32(*[4] * STORAGES), "storages.arena row 0: points beyond 4 rows"),
    ("storages.slot", u32(*[SLOTS] * STORAGES), "storages.slot row 0"),
    ("storages.bytes", u64(), f"storages.bytes: 0 rows where the table has {STORAGES}"),
    ("slots.arena", u32(*[4] * SLOTS), "slots.arena row 0"),
    # Steps.
    ("steps.count", STEPS + 1, "steps"),
    ("steps.count", NONE, "steps.count"),
    ("steps.node", b"\0".join([b"n"] * STEPS), "steps.node: a node is empty or executed twice"),
    ("steps.node", bytes(STEPS - 1), "steps.node: a node is empty or executed twice"),
    ("steps.node", "\0".join(["", *"abcdefghijklmn"[: STEPS - 1]]).encode(), "steps.node: a node is empty"),
    ("steps.part", u8(*[3] * STEPS), "steps.part row 0|executed twice"),
    ("steps.body", u32(*[2] * STEPS), "steps.body row 0"),
    ("steps.reads", u32(0), f"steps.reads_at: no bounds of {STEPS} rows"),
    ("steps.reads_at", u32(*[0] * STEPS), "steps.reads_at: no bounds"),
    ("steps.writes_at", u32(1, *[0] * STEPS), "steps.writes_at: no bounds"),
    ("steps.writes_at", u32(*plan().steps.writes_at.tolist(), len(plan().steps.writes)), "steps.writes_at: no bounds"),
    ("steps.writes_at", u32(1, *plan().steps.writes_at.tolist()[1:]), "steps.writes_at: no bounds"),
    ("steps.mutates_at", u32(0, 1, *[0] * (STEPS - 2), 1), "steps.mutates_at: no bounds"),
    # Bodies.
    ("bodies.name", b"\0", "bodies: the first body is not the main graph, or a body's name repeats"),
    ("bodies.name", b"main\0loop/body", "bodies: the first body"),
    ("bodies.parent", u32(0, 0), "bodies: the first body"),
    ("bodies.parent", u32(NONE, 2), "bodies.parent row 1"),
    ("bodies.enter", u32(NONE, STEPS), "bodies.enter row 1"),
    ("bodies.leave", u32(NONE, STEPS), "bodies.leave row 1"),
    ("bodies.enter", u32(0, 1), "bodies.enter row 0: 0, where the main graph has 4294967295: no node owns it"),
    ("bodies.leave", u32(0, 2), "bodies.leave row 0: 0, where"),
    ("bodies.iterates", u8(1, 1), "bodies.iterates row 0: 1, where the main graph has 0"),
    ("bodies.iterates", u8(0, 2), "bodies.iterates row 1"),
    ("bodies.exclusive", u8(1, 1), "bodies.exclusive row 0: 1, where the main graph has 0"),
    ("bodies.exclusive", u8(0, 2), "bodies.exclusive row 1"),
]


def at(root: Any, path: str) -> tuple[Any, Any]:
    """The container and the key of `path`, where numbers index arrays."""
    *folders, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in folders:
        root = root[key]
    return root, last


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=[f"{p}-{k}" for k, (p, _, _) in enumerate(WRONG)])
def test_what_is_no_plan_is_refused_with_its_place(path: str, value: Any, message: str) -> None:
    root = file.to_object(plan())
    table, key = at(root, path)
    table[key] = value
    with pytest.raises(TmmuError, match=message) as refused:
        from_object(root)
    assert refused.value.code_id == "INVALID_PLAN"
    assert refused.value.place


def accepted(read: Callable[[], Stated]) -> Stated | None:
    """What `read` reads, or None where it refuses; whatever else it raises is raised."""
    try:
        return read()
    except TmmuError as error:
        if error.code_id != "INVALID_PLAN":
            raise
        return None


NOTHING: list[tuple[str, Any, str]] = [
    ("tensors.name", b"x", "tensors.name: 0 names where the table has 0 rows"),
    ("steps.node", b"n", "steps.node: 0 names where the table has 0 rows"),
    (
        "bodies",
        {"name": b"", "parent": u32(), "enter": u32(), "leave": u32(), "iterates": u8(), "exclusive": u8()},
        "bodies: the first body",
    ),
    ("usage.0.peak_step", 1, r"usage\[0\].peak_step: 1 is no integer from 0 to 0"),
]


@pytest.mark.parametrize(("path", "value", "message"), NOTHING)
def test_a_plan_of_nothing_holds_nothing(path: str, value: Any, message: str) -> None:
    root = file.to_object(plan_memory(small(inputs="", outputs="")).plan)
    assert from_object(root)
    table, key = at(root, path)
    table[key] = value
    with pytest.raises(TmmuError, match=message) as refused:
        from_object(root)
    assert refused.value.code_id == "INVALID_PLAN"


def places(value: Any, path: str = "") -> list[str]:
    """The path of every key of every map, the map itself apart."""
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, item in inner:
        found += [f"{path}{key}", *places(item, f"{path}{key}.")]
    return found


FREE = ("bindings.dims.", "bindings.ranges.", "bindings.shapes.", "bindings.values.", "bindings.defaults.")
OBJECT = file.to_object(plan())
FIXED = [path for path in places(OBJECT) if not path.startswith(FREE)]


@pytest.mark.parametrize("path", [path for path in FIXED if not path.rsplit(".", 1)[-1].isdigit()])
def test_no_key_may_be_missing(path: str) -> None:
    root = file.to_object(plan())
    table, key = at(root, path)
    del table[key]
    with pytest.raises(TmmuError) as refused:
        from_object(root)
    assert refused.value.code_id == "INVALID_PLAN"
    assert str(key) in str(refused.value)


@pytest.mark.parametrize("path", FIXED)
def test_no_value_may_be_of_another_type(path: str) -> None:
    """Whatever stands there instead is refused or is the same plan, and nothing but a refusal is raised."""
    values: list[Any] = [None, True, -1, 1 << 63, "", b"", [], {}, [[]], [{}], ["x"], u8(), u32(1, 2), u64(5)]
    for value in values:
        root = copy.deepcopy(OBJECT)
        table, key = at(root, path)
        old, table[key] = table[key], value
        stated = accepted(lambda root=root: from_object(root))  # type: ignore[misc]  # the loop's own root
        if stated is not None:
            assert type(value) is type(old) or path == "source_digest"
            assert canonical.encode(file.to_object(stated.plan) | stated.hashes) == canonical.encode(root)


# Hashes.


@pytest.mark.parametrize("name", HASHES)
def test_a_false_hash_is_found_with_both_values(name: str) -> None:
    """spec: V1.8"""
    root = file.to_object(plan())
    right, root[name] = root[name], bytes(32)
    false = file.false_hashes(from_object(root))
    assert (name, bytes(32), right) in false
    assert {field for field, _, _ in false} == {name, "file_digest"}


def test_every_change_of_a_plan_shows_in_a_hash() -> None:
    """spec: R2.1, R2.2, R2.3, R2.4, R2.5, R2.6, A4.2"""
    old = file.to_object(plan())
    changes: dict[str, tuple[str, ...]] = {
        "model": (), "order": (), "source_digest": (), "usage": (), "unproduced": (), "must_not_alias": (), "ops": (),
        "dtypes": (), "bodies": (), "replay_token": ("plan_hash",), "ir_hash": ("plan_hash", "layout_digest"),
        "mode": ("plan_hash", "layout_digest"), "bindings": ("plan_hash", "layout_digest"),
        "arena_config": ("arena_config_hash", "plan_hash", "layout_digest"),
    }  # fmt: skip
    others = {
        "model": replace(plan(), model="other"),
        "order": replace(plan(), order="other"),
        "source_digest": replace(plan(), source_digest=None),
        "usage": replace(plan(), usage=plan().usage[::-1]),
        "unproduced": replace(plan(), unproduced=()),
        "must_not_alias": replace(plan(), must_not_alias=()),
        "ops": replace(plan(), ops=tuple(("ai.onnx", op) for _, op in plan().ops)),
        "dtypes": replace(plan(), dtypes=plan().dtypes[::-1]),
        "bodies": changed(plan(), "bodies", 1, iterates=0),
        "replay_token": replace(plan(), replay_token=replay_token(1)),
        "ir_hash": replace(plan(), ir_hash=bytes(32)),
        "mode": replace(plan(), mode="forward"),
        "bindings": replace(plan(), bindings=replace(plan().bindings, donated=())),
        "arena_config": replace(plan(), arenas=(replace(plan().arenas[0], capacity=5), *plan().arenas[1:])),
    }
    for table in ("tensors", "storages", "slots"):
        changes[table] = ("plan_hash", "layout_digest")
        others[table] = changed(plan(), table, 0, alignment=2)
    changes["steps"] = ("execution_order_hash", "plan_hash", "layout_digest")
    others["steps"] = changed(plan(), "steps", 0, part=1)
    assert set(changes) == set(others)
    for key, other in others.items():
        new = file.to_object(other)
        differing = {name for name in KEYS if canonical.encode(old[name]) != canonical.encode(new[name])}
        assert differing == {key, "file_digest", *changes[key]}, key


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
    assert stated is None or data == PLAN or file.false_hashes(stated)


@pytest.mark.parametrize("position", range(0, len(PLAN), 7))
def test_a_flipped_bit_is_refused_or_shows_it_in_a_hash(position: int) -> None:
    data = bytearray(PLAN)
    data[position] ^= 1 << (position % 8)
    stated = accepted(lambda: file.decode(bytes(data)))
    assert stated is None or file.false_hashes(stated)
