"""Every hash of a plan file is what `spec/tags.md` says: recomputed here with a CBOR library and SHA-256 alone.

spec: R1.5, R1.6, R2.1, R2.2, R2.3, R2.4, R2.5, R2.6, A4.1, A4.2, A4.3, A4.4
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import cbor2
import pytest

from tmmu.core import canonical
from tmmu.core.vocabulary import Body, Model, Node, Role, Tensor
from tmmu.ir import columns as ir_columns
from tmmu.planner import PlanOptions
from tmmu.planner.plan import plan_memory, replay_token
from tmmu.plans import file as plan_file
from tmmu.plans.provenance import HASHES

ROOT = Path(__file__).resolve().parents[2]


def model() -> Model:
    tensors = tuple(
        Tensor(name, (8,), "float32", role, 32)
        for name, role in (("x", Role.INPUT), ("w", Role.PARAMETER), ("h", Role.ACTIVATION), ("y", Role.ACTIVATION))
    )
    nodes = (Node("add", "Add", (0, 1), (2,)), Node("relu", "Relu", (2,), (3,)))
    return Model("small", tensors, nodes, (Body(-1, "", (0,), (3,)),), source_digest=bytes(range(32)))


def written(token: bytes | None = None) -> dict[str, Any]:
    """A plan file as an outsider reads it: typed arrays stay tags."""
    value: dict[str, Any] = cbor2.loads(
        plan_file.encode(plan_memory(model(), options=PlanOptions(replay_token=token)).plan)
    )
    return value


def sha256(value: Any) -> bytes:
    return hashlib.sha256(cbor2.dumps(value, canonical=True)).digest()


def expected(file: dict[str, Any]) -> dict[str, bytes]:
    """Each hash of the page, from the file's own keys."""
    allocation, claims, origin = file["allocation"], file["claims"], file["provenance"]
    steps, storages, slots = allocation["steps"], allocation["storages"], claims["slots"]
    uses = claims["configuration"]["arenas"]
    arenas = [
        {**{key: arena[key] for key in ("name", "capacity", "alignment", "reuse")}, **use}
        for arena, use in zip(allocation["arenas"], uses, strict=True)
    ]
    digests = {
        "execution_order_hash": sha256([steps["node"].decode().split("\0"), steps["part"]]),
        "arena_config_hash": sha256({**claims["configuration"], "arenas": arenas}),
        "shard_spec_hash": sha256(origin["shard_spec"]),
        "file_digest": sha256({key: value for key, value in file.items() if key != "file_digest"}),
    }
    table = [origin["bindings"], allocation["tensors"], storages, steps, slots]
    addresses = [storages["arena"], slots["of"], storages["offset"]]
    for name, assignment in (("plan_hash", [origin["replay_token"], *table]), ("layout_digest", table)):
        listed = [
            origin["ir_hash"], origin["mode"], digests["arena_config_hash"], digests["execution_order_hash"],
            origin["rank"], origin["world_size"], digests["shard_spec_hash"], assignment, addresses,
        ]  # fmt: skip
        digests[name] = sha256(["tmmu_plan_v1", listed])
    return digests


def test_every_hash_of_a_plan_is_that_of_the_page() -> None:
    plan = written()
    hashes = expected(plan)
    assert {name: (plan | plan["provenance"])[name] for name in hashes} == hashes
    assert set(hashes) == {*HASHES, "file_digest"}


def test_the_model_hash_is_the_digest_of_the_model_with_the_source_beside_it() -> None:
    plan = written()
    assert plan["provenance"]["ir_hash"] == hashlib.sha256(canonical.encode(ir_columns.to_object(model()))).digest()
    assert plan["provenance"]["source_digest"] == bytes(range(32))


@pytest.mark.parametrize("key", [key for key in written() if key != "file_digest"])
def test_a_change_of_any_key_changes_the_file_digest(key: str) -> None:
    plan = written()
    assert sha256({**{k: v for k, v in plan.items() if k != "file_digest"}, key: "changed"}) != plan["file_digest"]


def test_a_replay_token_changes_the_plan_hash_and_neither_slots_nor_offsets() -> None:
    one, other = written(), written(bytes(32))
    assert one["provenance"]["plan_hash"] != other["provenance"]["plan_hash"]
    assert one["provenance"]["layout_digest"] == other["provenance"]["layout_digest"]
    assert (one["allocation"], one["claims"]) == (other["allocation"], other["claims"])


def test_the_token_of_a_seed_is_the_commitment_of_the_page() -> None:
    nothing = sha256({})
    for seed in (0, 1, 2**64 - 1):
        assert replay_token(seed) == sha256(["replay_token_v1", ["1.0", *[nothing] * 5, seed]])


def tags_of(text: str) -> set[str]:
    """The tags that a source file commits with."""
    return set(re.findall(r'commitment\(\s*"([^"]+)"', text))


def test_the_page_lists_exactly_the_tags_that_the_code_uses() -> None:
    sources = [path for folder in ("tmmu", "proofs") for path in (ROOT / folder).rglob("*.py")]
    used = set().union(*(tags_of(path.read_text()) for path in sources))
    page = (ROOT / "spec/tags.md").read_text().split("## Digests")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)) == used


def test_a_tag_in_the_code_is_seen() -> None:
    assert tags_of('commitment(\n    "one_v1", [])\n x = commitment("two_v1", y)\ndef commitment(tag: str)') == {
        "one_v1",
        "two_v1",
    }
