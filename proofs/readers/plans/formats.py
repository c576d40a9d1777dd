"""The formats of other producers that are read, in one table, and how a file is recognised as one of them.

A module of this package reads a format: its `read` takes a `Source` and returns a `ForeignPlan`. It is loaded when a
file of its format is read. spec: FP1.1, FP1.2, FP1.6, FP1.7, FP1.11, FP1.13, FP1.17, FP1.18, FP1.19
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple, TypeVar

from proofs.readers.plans.foreign_plan import ForeignPlan
from tmmu.core import kind
from tmmu.core.errors import TmmuError
from tmmu.core.flags import PLAN_SUFFIXES
from tmmu.core.reading import read_head
from tmmu.core.source import NO_DIMS, PIPE, Source
from tmmu.plans import file
from tmmu.plans.gate import StatedBuffers, StatedPlan

HEAD = 1 << 16
"""The number of bytes at the start of a file that are used to recognise it."""
AOT_ID = re.compile(rb"^# AOT ID: ", re.MULTILINE)
"""The line that marks a wrapper of Inductor; text may come before it."""
CSV_ID = frozenset((b"id", b"buffer", b"buffer_id"))


class PlanFormat(NamedTuple):
    """A format: the word for `tmmu import`, its name for people, how its files are recognised, and its reader.

    A file whose name ends with one of `suffixes` is of the format, whatever it holds. Any other file, one whose name
    ends with one of `shared` and a pipe included, is of it if `recognises` accepts its first `HEAD` bytes.
    `has_capacity` is whether its files state how large the memory is; then `--capacity` is refused. `has_programs` is
    whether a file may have several programs, which `read_programs` of the module returns.
    """

    kind: str
    title: str
    suffixes: tuple[str, ...]
    shared: tuple[str, ...]
    recognises: Callable[[bytes], bool]
    module: str
    has_capacity: bool
    has_programs: bool = False

    def read(self, source: Source) -> ForeignPlan:
        """Return the plan in a file of this format. Raises INVALID_PLAN with file and place."""
        read: Callable[[Source], ForeignPlan] = import_module(f"proofs.readers.plans.{self.module}").read
        return _within_depth(source, read)

    def read_programs(self, source: Source) -> Mapping[str, ForeignPlan]:
        """Return the plans of the programs in a file, by name. Raises as `read`. spec: FP1.19"""
        if not self.has_programs:
            return {"": self.read(source)}
        module = import_module(f"proofs.readers.plans.{self.module}")
        read: Callable[[Source], Mapping[str, ForeignPlan]] = module.read_programs
        return _within_depth(source, read)


Found = TypeVar("Found")


def _within_depth(source: Source, read: Callable[[Source], Found]) -> Found:
    """Return what a reader returns. Raises INVALID_PLAN for a file that nests too deeply for it."""
    try:
        return read(source)
    except RecursionError as error:
        raise source.refuse("it nests too deeply", None, "use a flatter program") from error


def _is_csv(head: bytes) -> bool:
    first = {cell.strip() for cell in head.partition(b"\n")[0].split(b",")}
    return not CSV_ID.isdisjoint(first) and b"size" in first


def _is_xla(head: bytes) -> bool:
    return head.startswith(b"BufferAssignment:")


def _is_relax(head: bytes) -> bool:
    return b"tvm.script" in head and b"I.ir_module" in head


def _is_inductor(head: bytes) -> bool:
    return AOT_ID.search(head) is not None and b"torch._inductor" in head


def _is_iree(head: bytes) -> bool:
    return b"// -----// IR Dump" in head and b"LayoutSlices" in head


def _is_vela(head: bytes) -> bool:
    lines = head.splitlines()
    return any(line.lstrip().startswith(b"Start Time -") and b"Start Addr -" in line for line in lines)


def _is_flatbuffer(identifier: bytes) -> Callable[[bytes], bool]:
    return lambda head: head[4:8] == identifier


FORMATS = (
    PlanFormat("xla", "XLA buffer assignment", ("-buffer-assignment.txt",), (), _is_xla, "xla", has_capacity=True),
    PlanFormat("minimalloc", "MiniMalloc CSV", (), (".csv",), _is_csv, "minimalloc", has_capacity=False),
    PlanFormat("relax", "TVM Relax script", (".relax",), (".py",), _is_relax, "relax", has_capacity=True),
    PlanFormat("inductor", "Inductor wrapper", (".inductor",), (".py",), _is_inductor, "inductor", has_capacity=True),
    PlanFormat("iree", "IREE stream dump", (".iree",), (".mlir",), _is_iree, "iree", has_capacity=True),
    PlanFormat(
        "executorch",
        "ExecuTorch program",
        (".pte",),
        (),
        _is_flatbuffer(b"ET12"),
        "executorch",
        has_capacity=True,
        has_programs=True,
    ),
    PlanFormat(
        "tflite",
        "TensorFlow Lite offline plan",
        (".tflite",),
        (),
        _is_flatbuffer(b"TFL3"),
        "tflite",
        has_capacity=False,
        has_programs=True,
    ),
    PlanFormat("vela", "Vela's table", (), (".txt",), _is_vela, "vela", has_capacity=False),
)
"""Every format that is read, except our own. The first that fits counts."""
BY_KIND = {form.kind: form for form in FORMATS}
BY_TITLE = {form.title: form for form in FORMATS}


def recognise_format(name: str, head: bytes) -> PlanFormat | None:
    """Return the format of a file with this name and these first bytes.

    Return None for a plan of ours, and for a file that is not a plan at all.
    """
    name = name.lower()
    if kind.kind_of_head(head[: kind.HEAD]) is not None or name.endswith(PLAN_SUFFIXES):
        return None
    named = (form for form in FORMATS if name.endswith(form.suffixes))
    return next(named, None) or next((form for form in FORMATS if form.recognises(head)), None)


def is_plan(path: str) -> bool:
    """Decide whether a file of a folder counts as a plan.

    Its name decides, or its content if files that are not plans have such names too. A file that begins as a plan of
    ours is one whatever its name, unless the name begins with a dot, as those of unfinished files do. A file that
    cannot be opened is not a plan. spec: FP1.2, FP1.17
    """
    name = os.path.basename(path).lower()
    if name.endswith(PLAN_SUFFIXES) or any(name.endswith(form.suffixes) for form in FORMATS):
        return True
    forms = [form for form in FORMATS if name.endswith(form.shared)]
    head = _head(path, HEAD if forms else kind.HEAD)
    if kind.kind_of_head(head[: kind.HEAD]) == kind.PLAN and not name.startswith("."):
        return True
    return any(form.recognises(head) for form in forms)


def of_format(form: PlanFormat, files: Sequence[str]) -> list[str]:
    """Return the files of a folder that `verify-plan` would judge as of this format. spec: FP1.13"""
    return [path for path in files if is_plan(path) and recognise_format(path, _head(path)) is form]


def read_with(path: str) -> tuple[str, ...]:
    """Return the files that reading a plan reads: the plan, and the file beside it if the format has one."""
    from proofs.readers.plans import xla

    beside = xla.schedule_of(path)
    return (path, beside) if path.endswith(xla.SUFFIX) and os.path.exists(beside) else (path,)


def load_any(
    path: str | os.PathLike[str], capacity: int | None = None, dims: Mapping[str, int] = NO_DIMS
) -> StatedPlan | StatedBuffers:
    """Return the plan at `path`, ours or of another producer, after it has passed the gate. `-` is standard input.

    `dims` are sizes of open dimensions, which TensorFlow Lite models may have.

    Raises OSError if it cannot be read, INVALID_PLAN if it is not a plan, and ValueError if a `capacity` is given for a
    format that states its own.
    """
    form, source = _recognise(path, capacity, dims)
    return _read_ours(path, source) if form is None or source is None else read_through_gate(form, source)


def load_programs(
    path: str | os.PathLike[str], capacity: int | None = None, dims: Mapping[str, int] = NO_DIMS
) -> Mapping[str, StatedPlan | StatedBuffers]:
    """Return the plans of the programs in a file, by name, as programs of a set. Raises as `load_any`.

    A file with one program has the name "". spec: FP1.19
    """
    form, source = _recognise(path, capacity, dims)
    if form is None or source is None:
        return {"": _read_ours(path, source)}
    with _of_foreign(form, source):
        found = {name: file.pass_gate(*plan) for name, plan in form.read_programs(source).items()}
    return found if len(found) > 1 else {"": next(iter(found.values()))}


def _recognise(
    path: str | os.PathLike[str], capacity: int | None, dims: Mapping[str, int]
) -> tuple[PlanFormat | None, Source | None]:
    """Return the format of a file and what was read of it. A file of ours that is no pipe is not read here."""
    name = os.fspath(path)
    source = Source.opened(path, capacity, dims) if name == PIPE else None
    head = _head(name) if source is None else source.data[:HEAD]
    form = recognise_format(name, head)
    if form is None:
        _needs_none(capacity, "it")
        _check_known(name, head)
        return None, source
    return form, source or Source.opened(path, capacity, dims)


def _read_ours(path: str | os.PathLike[str], source: Source | None) -> StatedPlan | StatedBuffers:
    return file.load_any(path) if source is None else file.read_any(source.data, source.name)


def _head(path: str, size: int = HEAD) -> bytes:
    """Return the first bytes of a regular file; none if it is another one or cannot be opened: the reader says so."""
    try:
        return read_head(path, size)
    except OSError:
        return b""


def read_through_gate(form: PlanFormat, source: Source) -> StatedPlan | StatedBuffers:
    """Return the plan that a reader makes of a file, after it has passed the gate. Raises as `load_any`."""
    with _of_foreign(form, source):
        return file.pass_gate(*form.read(source))


@contextmanager
def _of_foreign(form: PlanFormat, source: Source) -> Iterator[None]:
    """Check what a file of another producer must be, and name file and format in the errors of its reader."""
    if form.has_capacity:
        _needs_none(source.capacity, form.title)
    try:
        file.check_content(source.data)
        yield
    except TmmuError as error:
        error.in_file(source.name)
        error.construct = f"{form.kind} {error.construct}" if error.construct else ""
        raise


def _check_known(name: str, head: bytes) -> None:
    """Refuse a file that is neither ours nor another producer's, by name and first bytes. spec: FP1.11"""
    if head and kind.kind_of_head(head[: kind.HEAD]) is None and not name.lower().endswith((*PLAN_SUFFIXES, ".cbor")):
        known = ", ".join(form.title for form in FORMATS)
        fix = kind.advise(name, "give a file of one of these (spec/foreign.md)")
        raise TmmuError("INVALID_PLAN", f"it begins neither as a plan of ours nor as {known}", file=name, fix=fix)


def _needs_none(capacity: int | None, what: str) -> None:
    if capacity is not None:
        raise ValueError(f"--capacity: {what} states its own")
