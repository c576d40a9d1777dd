"""Every reader as a function of bytes, with the errors that may refuse them, and the mutator of its notation.

A plan that is read goes on through everything that its bytes decide except solvers and the kernel: the gate, the naive
checker, the words for the kernel, and the verdict in each format. Of one input in sixteen the commands are called too.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from proofs.model_check import config
from proofs.model_check.following import follow
from proofs.model_check.following.log import WrongLog
from proofs.model_check.manifest import WrongManifest, read_manifest
from proofs.proving.kernel import installed, program
from proofs.proving.kernel.answer import NOT_INSTALLED
from proofs.proving.kernel.arms import NotExpressed
from proofs.proving.kernel.evidence import file_columns
from proofs.proving.obligations.context import Context
from proofs.proving.optimum import statements
from proofs.proving.solvers import process as solver_process
from proofs.proving.solvers.child import read_frame
from proofs.readers.models.ir import read_ir
from proofs.readers.models.onnx import read_onnx
from proofs.readers.plans import formats
from proofs.verify import formats as written
from proofs.verify import judge, text
from proofs.verify.checks import BufferSubject, Subject
from proofs.verify.fleet.results import Results, _digest
from proofs.verify.options import DEFAULTS, Disagreement, Options, Solving
from proofs.verify.sources import Answers, Sources
from tests.nightly.fuzz.bounds import ReaderTarget, WrongEnd
from tests.nightly.fuzz.mutators import binary, cbor, mutate_bytes
from tests.nightly.fuzz.mutators.protobuf import mutate_protobuf
from tests.nightly.fuzz.mutators.python_code import mutate_python
from tests.nightly.fuzz.mutators.texts import mutate_text, with_words
from tests.support.kernel_objections import accepted, find_objections
from tmmu.cli.entry import run as run_tmmu
from tmmu.core.errors import TmmuError
from tmmu.core.npy import NotAnArray, load_archive, load_array, map_array
from tmmu.core.progress import Doing
from tmmu.core.source import Source
from tmmu.core.vocabulary import Bindings
from tmmu.foundry.shapes import open_llama
from tmmu.foundry.tokenizer import PromptTokenizer
from tmmu.ir import files as ir_files
from tmmu.mnemosyne import anchors, store, store_index
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.npy_files import open_npy_vectors
from tmmu.mnemosyne.regions import RegionStore
from tmmu.mnemosyne.sealed_log import RecordPlace
from tmmu.mnemosyne.store_blocks import StoreBlocks
from tmmu.planner import plan_memory
from tmmu.planner.sharding import spec as sharding
from tmmu.plans import configuration_file, failed_models
from tmmu.plans import file as plan_files
from tmmu.plans.gate import StatedPlan
from tmmu.runtime import checkpoint, journal
from tmmu.runtime.records import compare, trace
from tmmu.tasks import models
from tmmu.testing.answers import BadAnswer, Refusal, read_answer
from tmmu.testing.buffer import TimedBuffer
from tmmu.testing.problems import BufferProblem

REFUSED = (TmmuError,)
SECRET = bytes(range(32))
BESIDE = b"\n=== the file beside it ===\n"
"""Between the two files of a dump of XLA, and between a model and the file beside it."""


@cache
def scratch() -> Path:
    """Return the folder of this process for the files that are read, in memory if the system has one there."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") else None
    return Path(tempfile.mkdtemp(prefix="tmmu-fuzz-", dir=base))


def put(name: str, data: bytes) -> str:
    """Write an input to a file in the scratch folder, and return its path."""
    path = scratch() / name
    path.write_bytes(data)
    return str(path)


def is_one_in(number: int, data: bytes) -> bool:
    """Decide by the bytes of an input whether it is one of so many."""
    return hashlib.blake2b(data, digest_size=2).digest()[0] % number == 0


def call(run: Callable[[list[str]], int], *arguments: str) -> None:
    """Run a command in this process; raises WrongEnd for an exit code that no file may lead to."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = run(list(arguments))
    if code not in range(5):
        raise WrongEnd(f"exit {code} of {arguments[0]}: {out.getvalue()[-2000:]}")


class _WithoutSolvers(Sources):
    """Answers nothing, after it has made the words that solvers and kernel would read."""

    def answers(self, subject: Subject | BufferSubject, solving: Solving, progress: Doing) -> Answers:
        context = subject.context
        if isinstance(context, Context):
            with contextlib.suppress(NotExpressed):
                file_columns(context)
        return Answers([], {"answer": NOT_INSTALLED, "sources": ""})


def judge_plan(stated: Any, name: str, options: Options = DEFAULTS) -> None:
    """Judge a plan without solvers, and write the verdict in every format."""
    try:
        verdict = judge.judge(name, stated, options, sources=_WithoutSolvers())
    except Disagreement:
        return
    list(text.lines(verdict, verbose=True))
    for write in written.WRITERS.values():
        write([verdict], ())


def read_plan(name: str, data: bytes) -> None:
    """Read a plan of ours, judge it, and show it."""
    stated = plan_files.read_any(data, name)
    judge_plan(stated, name)
    if is_one_in(16, data):
        path = put(name, data)
        call(run_tmmu, "show", path)
        call(run_tmmu, "explain", path)
        call(run_tmmu, "apply", path, "--budget", "1MiB")
        call(run_tmmu, "diff", path, path)


def read_foreign(kind: str, suffix: str, data: bytes) -> None:
    """Read a plan of another producer, and judge it."""
    form, (first, _, second) = formats.BY_KIND[kind], data.partition(BESIDE)
    folder = scratch() / kind
    folder.mkdir(exist_ok=True)
    path = folder / f"m{suffix}"
    if kind == "xla":
        (folder / "m.txt").write_bytes(second)
    source = Source(str(path), first, path, None if form.has_capacity else 1 << 20)
    judge_plan(formats.read_through_gate(form, source), str(path))
    if is_one_in(32, data):
        path.write_bytes(first)
        call(run_tmmu, "import", kind, str(path), "-o", str(scratch() / "o.plan.cbor"))


def read_ir_file(name: str, data: bytes) -> None:
    """Read a model of ours by both readers, and plan it."""
    path = put(name, data)
    model = ir_files.load(path)
    read_ir(model)
    if len(model.nodes) < 64 and is_one_in(4, data):
        plan_memory(models.load(path))


def read_onnx_file(data: bytes) -> None:
    """Read an ONNX model by both readers, without and with sizes for open dimensions."""
    path = put("m.onnx", data)
    for bindings in (Bindings(), Bindings(dims={"batch": 2, "seq": 3, "N": 1})):
        for read in (models.load, read_onnx):
            with contextlib.suppress(TmmuError):
                read(path, bindings)


def read_gguf(data: bytes) -> None:
    """Read weights of a language model and its vocabulary."""
    file = open_llama(put("m.gguf", data))
    PromptTokenizer(file).encode("Once upon")


def read_store(data: bytes) -> None:
    """Read a sealed store whose key is known, with the anchor behind it."""
    first, _, second = data.partition(BESIDE)
    path, anchor = put("store", first), put("store.anchor", second) if second else None
    store.VectorStore(path, MasterKey(SECRET), anchor).read(lambda *_: None)


def read_blocks(data: bytes) -> None:
    """Read the records of a store, as they are after they were decrypted."""
    blocks = StoreBlocks("store", MasterKey(SECRET), lambda first, block: void(store.decoded(block, "store", first)))
    for number, frame in enumerate(binary.split_frames(data)):
        blocks.take(RecordPlace(b"", number, 0), store_index.ROOT_TOKEN, frame)


def read_anchor(data: bytes) -> None:
    """Read an anchor of a store."""
    found = anchors.read(put("anchor", data))
    anchors.decode_statements(MasterKey(SECRET), found or b"")


def read_npy(data: bytes) -> None:
    """Read an array in three ways."""
    path = put("v.npy", data)
    for load in (map_array, lambda path: load_array(path, 1 << 30)):
        with contextlib.suppress(NotAnArray):
            load(path).tobytes()
    with RegionStore() as regions, open_npy_vectors(path, regions) as vectors:
        vectors.rows(0, min(vectors.count, 4))
    if is_one_in(8, data):
        call(run_tmmu, "mnemosyne", "delta", path, "--report")


def read_npz(data: bytes) -> None:
    """Read an archive of arrays of at most 64 KiB each."""
    load_archive(put("x.npz", data), lambda name: 1 << 16)


def read_trace(data: bytes) -> None:
    """Read a trace, describe its records, and compare it with itself."""
    path = put("x.trace", data)
    found = trace.load(path)
    list(map(compare.describe_record, found))
    compare.first_difference(found, found)
    if is_one_in(4, data):
        call(run_tmmu, "trace", "show", path)


def read_checkpoint(data: bytes) -> None:
    """Read a checkpoint, and restore it."""
    found = checkpoint.decode(data)
    if is_one_in(4, data):
        checkpoint.resume(found, memory_bytes_budget=1 << 20).close()


def read_journal(data: bytes) -> None:
    """Read a journal of the plan that its header names."""
    match = re.search(rb"tmmu_plan_hash\x58\x20", data)
    journal.replay(data, data[match.end() : match.end() + 32] if match else bytes(32))


def read_result(data: bytes) -> None:
    """Take a kept verdict, with the digest that belongs to it, and print it."""
    folder = scratch() / "results"
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        stated = json.loads(data)
        data = json.dumps(stated | {"key": "k", "digest": _digest(stated["verdict"])}).encode()
    (folder / "k.json").write_bytes(data)
    verdict = Results(str(folder)).taken("k", "p", None)
    if verdict is not None:
        list(text.lines(verdict, verbose=True))
        written.as_json([verdict])
        asdict(verdict)


def read_events(data: bytes) -> None:
    """Read an event log, and find the paths of its modules in it."""
    follow.read_log(Path(put("x.events", data)))


def read_manifest_file(data: bytes) -> None:
    """Read a manifest of TLA+ models, and the configuration behind it."""
    first, _, second = data.partition(BESIDE)
    folder = scratch() / "manifest"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmmu").mkdir(parents=True)
    (folder / "manifest.json").write_bytes(first)
    (folder / "tmmu" / "Quota.cfg").write_bytes(second)
    read_manifest(folder)


def read_solver_frames(data: bytes) -> None:
    """Read what a solver's process sends: frames, and the answers in them."""
    stream = io.BytesIO(data)
    while (frame := read_frame(stream)) is not None:
        solver_process._judge(frame.decode(errors="replace"))


def read_kernel_answer(data: bytes) -> None:
    """Read the answer of the kernel's program."""
    program._parsed(data.decode("ascii", "replace").splitlines(), bytes(32), "accesses")


def read_kernel_record(data: bytes) -> None:
    """Read the record of what a kernel was built from."""
    put(installed.STATED, data)
    put(installed.PROGRAM, b"")
    installed.read_build(scratch())


@cache
def find_kernel() -> Path | None:
    """Return the installed program. It is looked for once: that reads all its sources."""
    return installed.find_program()


def read_kernel_words(data: bytes) -> None:
    """Give words to the kernel's program, if it is installed: it answers, or fails with a reason, a late answer too."""
    path = find_kernel()
    words = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
    digest = struct.pack(">4Q", *words[1:5].tolist()) if len(words) > 4 else bytes(32)
    if path is not None:
        program.ask_words(path, [words], digest, KERNEL_S)


class WrongAnswer(Exception):
    """The kernel's program ended otherwise than it may, or accepted a plan to which the naive checker objects."""


ENDS = ("index out of bounds", "modulo", "div", "more memory than its words can need", "no answer within", "Z.Overflow")
"""Why the program may end without an answer: words that are not there, or are no words of any plan."""


def read_kernel_file(data: bytes) -> None:
    """Give a plan file, permissions and evidence to the kernel's program, if it is installed.

    It answers or refuses. With its claims, it accepts no plan to which the naive checker objects, whatever the evidence
    is: the permissions are then those that the readers give, because the theorem believes them. spec: RE6.3
    """
    path, (of_plan, _, beside) = find_kernel(), data.partition(BESIDE)
    words = np.frombuffer(beside[: len(beside) // 8 * 8], "<u8")
    if path is None:
        return
    ask_kernel(path, of_plan, words)
    context = context_of_file(of_plan)
    if context is None or len(words) == 0:
        return
    granted = list_permissions(context)
    evidence = words[1 + min(int(words[0]), len(words) - 1) :]
    if not accepted(ask_kernel(path, of_plan, np.concatenate([granted, evidence]))):
        return
    said = find_objections(context.plan, context.permissions)
    if against := [text for text in said or () if "has the alignment" not in text]:  # nor does it look at empty arenas
        raise WrongAnswer(f"accepted, and the naive checker says: {against[0]}")


def ask_kernel(path: Path, of_plan: bytes, words: np.ndarray[Any, Any]) -> program.KernelAnswer:
    """Return the answer on these bytes and words. Raises WrongAnswer if the program ends as it may not."""
    of = program.PlanFile(lambda stream: stream.write(of_plan), hashlib.sha256(of_plan).digest())
    answer = program._ask(path, [words], of.sha256, KERNEL_S, "accesses", of)
    if answer.failure == "its answer is for another file":  # it states lifetimes
        answer = program._ask(path, [words], of.sha256, KERNEL_S, "lifetimes", of)
    if answer.failure and not any(map(answer.failure.count, ENDS)):
        raise WrongAnswer(answer.failure)
    return answer


def context_of_file(data: bytes) -> Context | None:
    """Return what the words of a plan are drawn from; None if the gate refuses its file, or it states no steps."""
    try:
        stated = plan_files.read_any(data, "x.plan.cbor")
        if not isinstance(stated, StatedPlan):
            return None
        return Subject(stated, None, frozenset(), "inference", None, {}).context
    except TmmuError:
        return None


def list_permissions(context: Context) -> np.ndarray[Any, Any]:
    """Return how many words the readers have for a plan, and these."""
    row = np.concatenate([column.astype("<u8").ravel() for column in program._numbers(file_columns(context))])
    return row[: 1 + int(row[0])]


KERNEL_S = 0.5
"""The seconds that the kernel has. Words for which it takes longer are no finding: no file of a user has its words."""
PROBLEM = BufferProblem([TimedBuffer("a", 0, 3, 64), TimedBuffer("b", 1, 2, 32)])


def read_planner_answer(data: bytes) -> None:
    """Read what a planner under test answers: text, JSON, CSV or a plan."""
    read_answer(data.decode(errors="replace"), PROBLEM)


HLO = with_words(
    b"fusion(", b"while(", b"conditional(", b"dynamic-update-slice(", b"get-tuple-element(", b"tuple(", b"parameter(0)",
    b"ROOT ", b"calls=", b"body=", b"f32[4]{0}", b"s4[3]", b"control-predecessors={", b"allocation 0: size 4",
    b"value: <",
)  # fmt: skip
MLIR = with_words(
    b"stream.resource.alloca", b"stream.cmd.execute", b"stream.cmd.concurrent", b"await(", b"stream.timepoint.join",
    b"!stream.resource<transient>", b"scf.if", b"scf.for", b"%c0", b"arith.constant 4 : index", b"util.func",
    b"stream.cmd.dispatch", b"stream.resource.dealloca", b"stream.resource.subview", b"yield",
)  # fmt: skip
RELAX = with_words(
    b"R.vm.alloc_storage", b"R.memory.alloc_tensor", b"R.vm.kill_object", b"R.call_packed", b"R.reshape",
    b"with R.dataflow():",
    b"R.Tensor((4,), dtype=\"float32\")", b"if cond:", b"else:", b"R.output(", b"T.int64()",
)  # fmt: skip
IR = with_words(b"node", b"tensor", b"input", b"output", b"inplace", b"view", b"body", b"->", b"parameter", b"saved")
PLAN = with_words(
    b"step", b"tensor", b"storage", b"arena", b"reads", b"writes", b"mutates", b"at", b"bytes", b"align", b"alias"
)
TOML = with_words(
    b"[arenas.a]", b"[devices.d]", b"[[rules]]", b"[mesh]", b"[zero]", b"[pipeline]", b"[[operators]]", b"capacity",
    b"alignment", b"reuse", b"roles", b"memories", b"split", b"names", b"stages", b"=", b"[[", b"{", b"a.b", b"1e400",
    b"'''", b"1979-05-27", b"0x1", b"inf",
)  # fmt: skip
JSON = with_words(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"1e400", b"NaN", b'"\\ud800"', b"9" * 5000)


def mutate_kernel_file(data: bytes, random: Random) -> bytes:
    """Change a plan file, or the words beside it."""
    of_plan, _, beside = data.partition(BESIDE)
    if random.random() < 0.5:
        of_plan = cbor.of_seal(cbor.seal_plan)(of_plan, random)
    else:
        beside = binary.mutate_words(beside, random)
    return of_plan + BESIDE + beside


def _repeat_lines(data: bytes, count: int) -> bytes:
    lines = data.splitlines(keepends=True)
    middle = lines[len(lines) // 2 : len(lines) // 2 + 1]
    return b"".join([*lines[: len(lines) // 2], *middle * count, *lines[len(lines) // 2 :]])


def _target(name: str, read: Callable[[bytes], None], mutate: Any, *refuses: type[BaseException]) -> ReaderTarget:
    return ReaderTarget(name, read, (*REFUSED, *refuses), mutate, _repeat_lines)


def _targets() -> Iterator[ReaderTarget]:
    yield _target("plan-cbor", partial(read_plan, "x.plan.cbor"), cbor.of_seal(cbor.seal_plan))
    yield _target("plan-text", partial(read_plan, "x.plan.txt"), PLAN)
    yield _target("ir-cbor", partial(read_ir_file, "x.ir.cbor"), cbor.of_seal(cbor.keep))
    yield _target("ir-text", partial(read_ir_file, "x.ir.txt"), IR)
    yield _target("onnx", read_onnx_file, mutate_protobuf)
    yield _target("executorch", partial(read_foreign, "executorch", ".pte"), binary.mutate_flatbuffer)
    yield _target("tflite", partial(read_foreign, "tflite", ".tflite"), binary.mutate_flatbuffer)
    yield _target("xla", partial(read_foreign, "xla", "-buffer-assignment.txt"), HLO)
    yield _target("iree", partial(read_foreign, "iree", ".iree"), MLIR)
    yield _target("relax", partial(read_foreign, "relax", ".relax"), RELAX)
    yield _target("inductor", partial(read_foreign, "inductor", ".inductor"), mutate_python)
    yield _target("minimalloc", partial(read_foreign, "minimalloc", ".csv"), mutate_text)
    yield _target("vela", partial(read_foreign, "vela", ".txt"), mutate_text)
    yield _target("gguf", read_gguf, binary.mutate_gguf)
    yield _target("store", read_store, mutate_bytes)
    yield _target("store-blocks", read_blocks, binary.mutate_blocks)
    yield _target("anchor", read_anchor, mutate_bytes)
    yield _target("npy", read_npy, binary.mutate_npy)
    yield _target("npz", read_npz, binary.mutate_npz, NotAnArray)
    yield _target("arenas", lambda data: void(configuration_file.load(put("a.toml", data))), TOML)
    yield _target("shards", lambda data: void(sharding.load(put("s.toml", data))), TOML)
    yield _target("trace", read_trace, cbor.of_seal(cbor.seal_trace))
    yield _target("checkpoint", read_checkpoint, cbor.of_seal(cbor.seal_checkpoint))
    yield _target("journal", read_journal, cbor.of_seal(cbor.seal_journal))
    yield _target("resume", read_result, JSON)
    yield _target("events", read_events, JSON, WrongLog)
    yield _target("manifest", read_manifest_file, JSON, WrongManifest)
    yield _target(
        "tla-config",
        lambda data: void(config.read_config(data.decode())),
        mutate_text,
        config.WrongConfig,
        UnicodeDecodeError,
    )
    yield _target("failed-models", lambda data: void(failed_models.load(put("failed.txt", data))), mutate_text)
    yield _target("optimum-proof", lambda data: void(statements.find_objection(data)), mutate_text)
    yield _target("planner-answer", read_planner_answer, JSON, BadAnswer, Refusal)
    yield _target("solver-frames", read_solver_frames, binary.mutate_frames)
    yield _target("kernel-answer", read_kernel_answer, mutate_text)
    yield _target("kernel-record", read_kernel_record, JSON)
    yield _target("kernel-words", read_kernel_words, binary.mutate_words)
    yield _target("kernel-file", read_kernel_file, mutate_kernel_file)


def void(_value: object) -> None:
    """Drop what a reader returns."""


TARGETS = {target.name: target for target in _targets()}
"""Every reader, by its name."""
