"""Golden traces: the plans of a few graphs for ten seeds, every legal pair of mode and preset, three layouts (VIII.C).

`golden.json` beside this file holds, for each graph, pair and layout, the layout digest and the plan hash under each
seed. A plan hash covers slots, addresses and lifetimes, so that equal hashes are equal plans. A trace that is on
record changes only with a new major version of the specification:

    python -m tests.support.golden --write

adds what is missing, and refuses to change what is there while the version's major number is the recorded one.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.text_models import text_model
from tmmu.core.vocabulary import PRESETS, Model
from tmmu.examples import write
from tmmu.importers.onnx import import_onnx
from tmmu.ir import order
from tmmu.plan import file
from tmmu.plan.gate import SPEC_VERSION
from tmmu.planner import DEFAULT, PlanOptions, plan_memory, replay_token
from tmmu.planner.modes import prepare
from tmmu.planner.remat.choose import peak

ON_RECORD = Path(__file__).resolve().parents[1] / "corpus" / "golden.json"
SEEDS = range(10)
LAYOUTS = ("slots", "packed", "hashed")
PAIRS = [(mode, preset) for preset, modes in sorted(PRESETS.items()) for mode in sorted(modes)]
"""The legal pairs of mode and preset."""

EXAMPLES: Mapping[str, Mapping[str, int]] = {
    "chain": {},
    "mico-mlp": {},
    "mico-resnet8": {},
    "llama-block": {"batch": 1, "seq": 128},
    "loop": {},
}
"""Shipped models, with the dimensions that are bound."""

FORWARD_ALONE = ("loop",)
"""Graphs whose bodies have no gradients: they have no plan of mode `backward`, nor one of mode `forward` that saves."""

PERCENT = {"chain": 60, "residual": 90}
"""How much of the bytes that training needs at its peak the budget is, where recomputation can save any."""

FLOATS = {"dtype": "float32", "shape": (16,)}


def residual() -> Model:
    """Two residual blocks whose additions may work in place, with a view at the end."""
    lines = [
        "node mul0 Mul x w0 -> a0", "node relu0 Relu a0 -> b0 inplace b0 a0", "node add0 Add b0 x -> c0 inplace c0 b0",
    ]  # fmt: skip
    lines += [
        "node mul1 Mul c0 w1 -> a1",
        "node relu1 Relu a1 -> b1 inplace b1 a1",
        "node add1 Add b1 c0 -> c1 inplace c1 b1",
        "node identity Identity c1 -> v",
        "node exp Exp v -> y",
    ]
    return text_model(
        *lines, "tensor x f32 16 align 1", "tensor w0 f32 16 align 1", "tensor w1 f32 16 align 1",
        "tensor a0 f32 16 align 1", "tensor b0 f32 16 align 1", "tensor c0 f32 16 align 1", "tensor a1 f32 16 align 1",
        "tensor b1 f32 16 align 1", "tensor c1 f32 16 align 1", "tensor v f32 16 align 1 view c1 0",
        "tensor y f32 16 align 1", parameters="w0 w1",
    )  # fmt: skip


def graphs() -> dict[str, Model]:
    """The golden graphs by name, each valid and in execution order."""
    made = {"residual": residual()}
    with tempfile.TemporaryDirectory() as folder:
        for name, dims in EXAMPLES.items():
            path = Path(folder, f"{name}.onnx")
            write(name, path)
            made[name] = order.stable_topological(import_onnx(path, dims=dims))
    return made


def traces(name: str, model: Model) -> Iterator[tuple[str, dict[str, Any]]]:
    """The traces of one graph: its key, and the digest of the layout with the plan hash under every seed."""
    for mode, preset in PAIRS:
        if name in FORWARD_ALONE and mode != "inference":
            continue
        budget: int | None = None
        if preset == "remat_enabled":
            budget = peak(prepare(model, mode, DEFAULT), DEFAULT) * PERCENT.get(name, 100) // 100
        graph = prepare(model, mode, DEFAULT, budget)
        for layout in LAYOUTS:
            key = "/".join((name, mode, preset, layout))
            yield key, trace(graph, mode, layout) | ({} if budget is None else {"budget": budget})


def trace(graph: Model, mode: str, layout: str) -> dict[str, Any]:
    """The layout digest and the plan hash of `graph` under each seed, the first 16 digits of each.

    The layout digest of `slots` and `packed` is the same under every seed (A4.3, A4.4); an address token of its own
    for each seed gives `hashed` other addresses each time.
    """
    layouts, plans = [], []
    for seed in SEEDS:
        secret = hashlib.shake_256(b"golden %d" % seed).digest(64) if layout == "hashed" else None
        token = replay_token(seed)
        made = plan_memory(
            graph, options=PlanOptions(mode=mode, layout=layout, replay_token=token, address_token=secret)
        )
        hashes = file.hashes(made.plan)
        layouts.append(hashes["layout_digest"].hex()[:16])
        plans.append(hashes["plan_hash"].hex()[:16])
    return {"layout_digest": list(dict.fromkeys(layouts)), "plan_hash": plans}


def recorded() -> dict[str, Any]:
    """What is on record: the version of the specification, and the traces by their keys."""
    found: dict[str, Any] = json.loads(ON_RECORD.read_text())
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """A line for each trace of `old` that `new` has not or has otherwise, naming the first field and seed."""
    lines = []
    for key, trace_ in old.items():
        if key not in new:
            lines.append(f"{key}: no longer made")
        for field, value in trace_.items():
            now = new.get(key, trace_)[field]
            if now != value:
                at = next((k for k, (a, b) in enumerate(zip(value, now, strict=False)) if a != b), "length")
                lines.append(f"{key}: {field} under seed {at}" if isinstance(value, list) else f"{key}: {field}")
                break
    return lines


def updated(on_record: Mapping[str, Any] | None, new: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The record with `new` in it; ValueError where a trace would change under the same major version. spec: R8.2"""
    if on_record is not None and on_record["spec_version"].split(".")[0] == version.split(".")[0]:
        changed = differences(on_record["traces"], new)
        if changed:
            raise ValueError(f"{len(changed)} traces change without a new major version: {changed[0]}")
    return {"spec_version": version, "traces": dict(sorted(new.items()))}


def written(record: Mapping[str, Any]) -> str:
    """The record as JSON, a line for each trace."""
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(found)}" for key, found in record["traces"].items())
    return f'{{\n "spec_version": {json.dumps(record["spec_version"])},\n "traces": {{\n{lines}\n }}\n}}\n'


def main() -> None:
    """Print what differs from the record; with `--write`, record what is new."""
    new = {key: found for name, model in graphs().items() for key, found in traces(name, model)}
    before = recorded() if ON_RECORD.exists() else None
    print("\n".join(differences(before["traces"], new)) if before else f"{len(new)} traces, none on record")
    if "--write" in sys.argv[1:]:
        ON_RECORD.write_text(written(updated(before, new, SPEC_VERSION)))
        print(f"{len(new)} traces on record")


if __name__ == "__main__":
    main()
