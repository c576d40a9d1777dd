"""Golden traces: what a few graphs' plans must stay, for ten seeds and every legal pair of mode and preset (VIII.C).

Of the layout `slots` the whole trace is on record, every field of every record, and two planners leave it: ours and
the second one (`second_planner`, `second_trace`), which was written from 001's text alone. 001 defines no other rule
for addresses. The files are in `tests/corpus/golden`, one for each graph; since seeds change the token and the hashes
and nothing else, a trace is there once, with those fields under each seed. Of `packed` and `hashed`, which are not
001's, `golden.json` has the layout digest and the plan hash, which covers slots, addresses and lifetimes.

A trace that is on record changes only with a new major version of the specification:

    python -m tests.support.golden [--write | --show NAME]

adds what is missing, and refuses to change what is there while the version's major number is the recorded one; `--show`
prints the file of a graph, which is compressed where the graph is large.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.second_trace import COMPLETED
from tests.support.text_models import text_model
from tmmu.core.vocabulary import PRESETS, Bindings, Model
from tmmu.examples import write
from tmmu.importers.onnx import import_onnx
from tmmu.ir import files, order
from tmmu.planner import DEFAULT, PlanOptions, plan_memory, replay_token
from tmmu.planner.modes import prepare_graph
from tmmu.planner.remat.choose import measure_peak
from tmmu.plans import file
from tmmu.plans.gate import SPEC_VERSION
from tmmu.runtime.records.trace import Trace

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
DIGESTS, RECORDS = CORPUS / "golden.json", CORPUS / "golden"
SEEDS = range(10)
LAYOUTS = ("packed", "hashed")
"""The layouts of which a digest is on record."""
PAIRS = [(mode, preset) for preset, modes in sorted(PRESETS.items()) for mode in sorted(modes)]
"""The legal pairs of mode and preset."""

EXAMPLES: Mapping[str, Mapping[str, int]] = {
    "chain": {},
    "mico-mlp": {},
    "mico-resnet8": {},
    "llama-block": {"batch": 1, "seq": 128},
    "loop": {},
    "gpt2": {"batch": 1, "seq": 16},
    "llama-8b": {},
}
"""Shipped models, with the dimensions that are bound."""

LARGE = ("gpt2", "llama-8b")
"""Models with thousands of tensors, of which no digest of other layouts is kept."""

COMPRESSED = ("llama-block", *LARGE)
"""Models whose golden files are compressed; `--show` prints them."""

NAMES = ("residual", *EXAMPLES)

FORWARD_ALONE = ("loop",)
"""Graphs whose bodies have no gradients: they have no plan of mode `backward`, nor one of mode `forward` that saves."""

PERCENT = {"chain": 60, "residual": 90}
"""How much of the bytes that training needs at its peak the budget is, where recomputation can save any."""

VARYING = ("replay_token_prefix", "replay_token_digest", "tmmu_plan_hash")
"""The fields of a header that differ between seeds; of the other records, only the end's last hash does."""


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


def graph(name: str) -> Model:
    """The golden graph of a name, valid and in execution order."""
    if name == "residual":
        return residual()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.ir.cbor" if name == "llama-8b" else f"{name}.onnx")
        write(name, path)
        found = files.load(path) if name == "llama-8b" else import_onnx(path, Bindings(dims=EXAMPLES[name]))
    return order.sort_topologically(found)


def planned(name: str) -> Iterator[tuple[str, str, Model, int | None]]:
    """For each legal pair of a graph its key, its mode, what is planned, and the budget that it was fitted to."""
    model = graph(name)
    for mode, preset in PAIRS:
        if name not in FORWARD_ALONE or mode == "inference":
            budget: int | None = None
            if preset == "remat_enabled":
                budget = measure_peak(prepare_graph(model, mode, DEFAULT), DEFAULT) * PERCENT.get(name, 100) // 100
            yield f"{name}/{mode}/{preset}", mode, prepare_graph(model, mode, DEFAULT, budget), budget


def traces(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is to be on record of one graph, by its keys: the whole traces of `slots`, and digests of other layouts."""
    for key, mode, model, budget in planned(name):
        fitted = {} if budget is None else {"budget": budget}
        yield f"{key}/slots", packed([first_trace(model, mode, seed) for seed in SEEDS]) | fitted
        for layout in LAYOUTS if name not in LARGE else ():
            yield f"{key}/{layout}", digests(model, mode, layout) | fitted


def first_trace(model: Model, mode: str, seed: int) -> list[dict[str, Any]]:
    """The records of our planner's plan and their end, as a runtime writes them."""
    trace = Trace()
    trace.allocated(plan_memory(model, options=PlanOptions(mode=mode, replay_token=replay_token(seed))).plan)
    return trace.end()


def packed(found: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The traces of one plan under each seed as a golden file has them; ValueError where one would not be whole."""
    header, *tensors, summary, _ = found[0]
    entry = _plain(
        {
            "header": {key: value for key, value in header.items() if key not in VARYING},
            "seeds": [[*(trace[0][key] for key in VARYING), trace[-1]["trace_final_hash"]] for trace in found],
            "tensors": [_row(record) for record in tensors],
            "summary": summary,
        }
    )
    for seed, trace in enumerate(found):
        if unpacked(entry, seed) != trace:
            raise ValueError(f"the trace of seed {seed} differs in more than its token and hashes")
    return entry


def unpacked(entry: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """The trace under one seed: every record that the run of this seed leaves behind."""
    *varying, last = map(_value, entry["seeds"][seed])
    header = {key: _value(value) for key, value in entry["header"].items()}
    records = [header | dict(zip(VARYING, varying, strict=True)), *map(_tensor, entry["tensors"]), entry["summary"]]
    return [*records, {"kind": "end", "records": len(records), **COMPLETED, "trace_final_hash": last}]


def _row(record: Mapping[str, Any]) -> list[Any]:
    row = [
        record["tensor_id"], *record["logical_address"], record["logical_slot"], record["size"], *record["live_range"],
        record["bytes"], record["generation"],
    ]  # fmt: skip
    assert _tensor(row) == record  # nothing else is in it
    return row


def _tensor(row: Sequence[Any]) -> dict[str, Any]:
    name, arena, offset, slot, size, birth, death, backing, generation = row
    return {
        "kind": "tensor", "tensor_id": name, "arena": arena, "logical_slot": slot, "logical_address": [arena, offset],
        "size": size, "live_range": [birth, death], "bytes": backing, "generation": generation,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """`value` as JSON has it: bytes as `hex:` with their digits."""
    return json.loads(json.dumps(value, default=lambda data: f"hex:{data.hex()}"))


def _value(value: Any) -> Any:
    return bytes.fromhex(value[4:]) if isinstance(value, str) and value.startswith("hex:") else value


def digests(model: Model, mode: str, layout: str) -> dict[str, Any]:
    """The layout digest and the plan hash of `model` under each seed, the first 16 digits of each.

    The layout digest of `packed` is the same under every seed (A4.3, A4.4); an address token of its own
    for each seed gives `hashed` other addresses each time.
    """
    layouts, plans = [], []
    for seed in SEEDS:
        secret = hashlib.shake_256(b"golden %d" % seed).digest(64) if layout == "hashed" else None
        token = replay_token(seed)
        made = plan_memory(
            model, options=PlanOptions(mode=mode, layout=layout, replay_token=token, address_token=secret)
        )
        hashes = file.compute_hashes(made.plan)
        layouts.append(hashes["layout_digest"].hex()[:16])
        plans.append(hashes["plan_hash"].hex()[:16])
    return {"layout_digest": list(dict.fromkeys(layouts)), "plan_hash": plans}


def recorded() -> dict[str, Any]:
    """What is on record: the version of the specification, and the traces by their keys."""
    found: dict[str, Any] = json.loads(DIGESTS.read_text())
    for path in sorted(RECORDS.iterdir()):
        found["traces"] |= json.loads(_read(path))
    return found


def on_record(name: str) -> dict[str, Any]:
    """The whole traces of one graph, by their keys."""
    found: dict[str, Any] = json.loads(_read(path_of(name)))
    return found


def path_of(name: str) -> Path:
    """The golden file of a graph."""
    return RECORDS / (f"{name}.json.xz" if name in COMPRESSED else f"{name}.json")


def _read(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """A line for each trace of `old` that `new` has not or has otherwise, naming the first field and its row."""
    lines = []
    for key, trace in old.items():
        if key not in new:
            lines.append(f"{key}: no longer made")
        for field, value in trace.items():
            now = new.get(key, trace)[field]
            if now != value:
                at = next((k for k, (a, b) in enumerate(zip(value, now, strict=False)) if a != b), "length")
                lines.append(f"{key}: {field}[{at}]" if isinstance(value, list) else f"{key}: {field}")
                break
    return lines


def updated(before: Mapping[str, Any] | None, new: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The record with `new` in it; ValueError where a trace would change under the same major version. spec: R8.2"""
    if before is not None and before["spec_version"].split(".")[0] == version.split(".")[0]:
        changed = differences(before["traces"], new)
        if changed:
            raise ValueError(f"{len(changed)} traces change without a new major version: {changed[0]}")
    return {"spec_version": version, "traces": dict(sorted(new.items()))}


def written(record: Mapping[str, Any]) -> str:
    """The digests as JSON, a line for each trace."""
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(found)}" for key, found in record["traces"].items())
    return f'{{\n "spec_version": {json.dumps(record["spec_version"])},\n "traces": {{\n{lines}\n }}\n}}\n'


def written_whole(found: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Whole traces as JSON, a line for each seed and each tensor."""

    def rows(value: Any) -> str:
        short = [json.dumps(row, ensure_ascii=False) for row in value] if isinstance(value, list) else []
        return "[\n" + ",\n".join(short) + "\n]" if short else json.dumps(value, ensure_ascii=False)

    entries = [
        f"{json.dumps(key)}: {{" + ",\n".join(f'"{field}": {rows(value)}' for field, value in entry.items()) + "}"
        for key, entry in found.items()
    ]
    return ("{\n" + ",\n".join(entries) + "\n}\n").encode()


def save(record: Mapping[str, Any]) -> None:
    """Write the golden files."""
    whole = {key: found for key, found in record["traces"].items() if "header" in found}
    rest = {key: found for key, found in record["traces"].items() if key not in whole}
    DIGESTS.write_text(written({**record, "traces": rest}))
    for name in NAMES:
        data = written_whole({key: found for key, found in whole.items() if key.split("/")[0] == name})
        path = path_of(name)
        path.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME) if path.suffix == ".xz" else data)


def main() -> None:
    """Print what differs from the record; with `--write`, record what is new."""
    if sys.argv[1:2] == ["--show"]:
        sys.stdout.write(_read(path_of(sys.argv[2])).decode())
        return
    new = {key: found for name in NAMES for key, found in traces(name)}
    before = recorded() if DIGESTS.exists() else None
    print("\n".join(differences(before["traces"], new)) if before else f"{len(new)} traces, none on record")
    if "--write" in sys.argv[1:]:
        save(updated(before, new, SPEC_VERSION))
        print(f"{len(new)} traces on record")


if __name__ == "__main__":
    main()
