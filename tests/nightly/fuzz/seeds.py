"""Seeds of each reader: files of the corpus, and right files that the commands write."""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from proofs.proving.kernel import evidence, program
from proofs.proving.kernel.memory import Named
from proofs.readers.plans import formats
from proofs.verify import judge
from proofs.verify.checks import Subject
from proofs.verify.fleet.results import Results
from proofs.verify.options import Options
from tests.nightly.fuzz.targets import BESIDE, SECRET, context_of_file
from tests.support.gguf_parts import tiny
from tmmu.cli.entry import run
from tmmu.core import reading
from tmmu.core.pages import data_folder
from tmmu.examples.llama import SeededLlama
from tmmu.mnemosyne.vector_blocks import VectorLayout, encode_block
from tmmu.plans import text_writer
from tmmu.plans.gate import StatedPlan

FOREIGN = Path(__file__).resolve().parents[2] / "corpus" / "foreign"
LARGEST = 1 << 15
"""The largest seed, in bytes: what is short is changed where it matters."""
ENDS = {
    "executorch": ".pte", "tflite": ".tflite", "iree": ".iree", "relax": ".relax", "inductor": ".inductor",
    "minimalloc": ".csv", "vela": ".txt",
}  # fmt: skip
COMMANDS = (
    "example mico-mlp -o mlp.onnx --weights 1", "example chain -o chain.onnx", "example loop -o loop.onnx",
    "example transformer-block -o block.onnx", "example text-plan -o text.plan.txt",
    "example text-model -o text.ir.txt",
    "plan mlp.onnx -o mlp.plan.cbor", "plan chain.onnx -o chain.plan.cbor --layout packed",
    "plan loop.onnx -o loop.plan.cbor", "plan text.ir.txt -o ir.plan.cbor",
    "plan text.ir.txt -o slots.plan.cbor --layout slots",
    "plan mlp.onnx -o back.plan.cbor --mode backward", "plan text.ir.txt -o packed.plan.cbor --layout packed",
    "plan mlp.onnx -o pools.plan.cbor --layout pools", "apply ir.plan.cbor --trace run.trace --journal run.journal",
    "apply ir.plan.cbor --journal run.journal --events run.events",
    "checkpoint ir.plan.cbor -o none.checkpoint", "checkpoint ir.plan.cbor --journal run.journal -o one.checkpoint",
    "mnemosyne put st v.npy --key key --events store.events", "mnemosyne put st8 v.npy --key key --mode int8 --zstd",
    "session run m.gguf --prompt-tokens 1,2,3 --tokens 2 --context 64 --follow-log session.events",
)  # fmt: skip
ARENAS = b"""# three arenas
[devices.npu]
memories = { sram = 1048576, dram = "8GiB" }
nodes = ["encoder/*"]
ops = ["Conv", "MatMul"]
[arenas.weights]
roles = ["parameter", "optimizer"]
reuse = false
device = "npu"
memory = "dram"
[arenas.fast]
device = "npu"
memory = "sram"
capacity = 786432
alignment = 128
page_size = 4096
[arenas.activations]
roles = ["input", "activation", "gradient", "scratch"]
device = "npu"
memory = "dram"
[[rules]]
names = ["logits"]
arenas = ["activations"]
[[rules]]
roles = ["activation"]
devices = ["npu"]
arenas = ["fast", "activations"]
"""
SHARDS = b"""pad = true
[mesh]
pipeline = 2
data = 2
[zero]
axis = "data"
stage = 3
[pipeline]
axis = "pipeline"
stages = [["embed*"], ["*"]]
[[rules]]
roles = ["parameter"]
names = ["*.weight"]
split = ["", "data"]
[[operators]]
op = "Softmax"
across = [-1]
"""


LEAST = SeededLlama("least", 32, 1, 1, 1, 32, vocab=262, context_length=256)
"""A language model whose file fits into an input."""


def foreign() -> Iterator[tuple[str, bytes]]:
    """Yield the plans of other producers in the corpus."""
    for path in sorted(FOREIGN.glob("*/*")):
        for kind, end in ENDS.items():
            if path.name.endswith(end) and path.stat().st_size <= LARGEST:
                yield kind, path.read_bytes()
        for first in sorted(path.glob("*-buffer-assignment.txt")) if path.is_dir() else ():
            second = path / first.name.replace("-buffer-assignment", "")
            data = first.read_bytes() + BESIDE + (second.read_bytes() if second.exists() else b"")
            if len(data) <= 2 * LARGEST:
                yield "xla", data


SUFFIXES = {
    "plan-cbor": ".plan.cbor", "plan-text": ".plan.txt", "ir-text": ".ir.txt", "ir-cbor": ".ir.cbor", "onnx": ".onnx",
    "trace": ".trace", "journal": ".journal", "checkpoint": ".checkpoint", "events": ".events",
}  # fmt: skip


def written(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Run the commands in an empty folder, and yield what they have written."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        np.save("v.npy", np.random.default_rng(1).standard_normal((16, 8)).astype("f4"))
        Path("key").write_bytes(SECRET)
        Path("key").chmod(0o600)
        tiny(folder, "q8_0", LEAST).rename("m.gguf")
        for line in COMMANDS:
            run(line.split())
        from tmmu.ir import files
        from tmmu.tasks import models

        for name in ("text.ir.txt", "chain.onnx", "loop.onnx"):
            files.save(models.load(name), f"{name}.ir.cbor")
        stated = formats.load_any("ir.plan.cbor")
        Results("results").keep("k", judge.judge("p", stated, Options()))
    for path in sorted(folder.iterdir()):
        for kind, end in SUFFIXES.items():
            if path.name.endswith(end) and path.stat().st_size <= 2 * LARGEST:
                yield kind, path.read_bytes()
    for name in ("chain", "ir", "loop", "packed"):
        yield "plan-text", text_writer.write(formats.load_any(folder / f"{name}.plan.cbor").plan).encode()
    yield "gguf", (folder / "m.gguf").read_bytes()
    for store in ("st", "st8"):
        anchor = (folder / f"{store}.anchor").read_bytes()
        yield "store", (folder / store).read_bytes() + BESIDE + anchor
        yield "anchor", anchor
    yield "resume", (folder / "results" / "k.json").read_bytes()
    if isinstance(stated, StatedPlan):
        digest = stated.hashes["file_digest"]
        context = Subject(stated, None, frozenset(), "inference", None, {}).context
        yield "kernel-words", _bytes_of(evidence.columns(context, digest))
    for name in ("ir", "loop", "slots"):
        data = (folder / f"{name}.plan.cbor").read_bytes()
        if (found := context_of_file(data)) is not None:
            yield "kernel-file", data + BESIDE + _bytes_of(evidence.file_columns(found))


def _bytes_of(named: list[Named]) -> bytes:
    """Return columns as words."""
    return b"".join(column.astype("<u8").tobytes() for column in program._numbers(named))


def made() -> Iterator[tuple[str, bytes]]:
    """Yield small right files that no command writes."""
    for array in (np.arange(12, dtype="<f4").reshape(3, 4), np.arange(6, dtype=">i8"), np.zeros((0, 4), "V2")):
        out = io.BytesIO()
        np.save(out, array)
        yield "npy", out.getvalue()
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, x=np.zeros((2, 3), "f4"), y=np.arange(4))
        yield "npz", out.getvalue()
    vectors = np.random.default_rng(1).standard_normal((4, 6)).astype("f4")
    for mode, compress in (("lossless", False), ("float", True), ("int8", True), ("int8", False)):
        layout, ids = VectorLayout(mode, "float32", 6), np.arange(2, dtype=np.uint64)
        records = [
            encode_block(layout, vectors[at : at + 2], at // 2, 2 - at, ids, compress=compress, first=at)
            for at in (0, 2)
        ]  # fmt: skip
        yield "store-blocks", b"".join(struct.pack(">Q", len(each)) + each for each in records)
    yield "arenas", ARENAS
    yield "shards", SHARDS
    tla = data_folder("tla")
    one = json.loads((tla / "manifest.json").read_bytes())
    one["modules"] = [module for module in one["modules"] if module["module"] == "Quota"]
    for module in one["modules"]:  # one configuration is beside it
        module["models"] = module["models"][:1]
    question = (tla / "tmmu" / "Quota.cfg").read_bytes()
    yield "manifest", json.dumps(one).encode() + BESIDE + question
    yield "tla-config", question
    yield "failed-models", b"tmmu-failed-models 1\nm.onnx\tno such operator\nn.onnx\tx\n"
    yield (
        "optimum-proof",
        b"pseudo-Boolean proof version 2.0\nf 2\nrup 1 x1 >= 1 ;\noutput NONE\nconclusion UNSAT : -1\n"
        b"end pseudo-Boolean proof\n",
    )
    yield "planner-answer", b'{"offsets": {"a": 0, "b": 64}, "footprint": 96}'
    yield "planner-answer", b"id,offset\na,0\nb,64\n"
    yield "planner-answer", b"[0, 64]"
    texts = (
        b"=z3 4.13",
        b"=unsat\nsat\n",
        b'=(error "line 1 column 2: unknown")',
        b"!memory",
        b"=unknown\n(:reason x)",
    )
    yield "solver-frames", b"".join(struct.pack(">Q", len(each)) + each for each in texts)
    zero = b"0" * 64
    yield (
        "kernel-answer",
        b"accepted accesses "
        + zero
        + b"\nslots true\nfootprints unclaimed\ninputs false\nsymbolic unclaimed\n"
        + b"arena 0 fewest_slots true least_footprint false\n",
    )
    yield "kernel-answer", b"rejected accesses " + zero + b" 3\n"
    yield "kernel-record", json.dumps({"sources": "a", "program": "b", "theorems": "c"}).encode()


def write_seeds(folder: Path, scratch: Path) -> dict[str, int]:
    """Write every seed into a folder for its reader; return how many each has."""
    counts: dict[str, int] = {}
    for kind, data in (*foreign(), *made(), *written(scratch)):
        place = folder / kind
        place.mkdir(parents=True, exist_ok=True)
        counts[kind] = counts.get(kind, 0) + 1
        (place / f"seed-{counts[kind]:02}").write_bytes(data)
    return counts


def read_seeds(folder: Path, kind: str) -> list[bytes]:
    """Return the inputs in the folder of a reader."""
    return (
        [reading.read_file(path, 1 << 24) for path in sorted((folder / kind).iterdir())]
        if os.path.isdir(folder / kind)
        else []
    )
