"""What a reader of other producers' plans does is counted: a visit runs few lines of Python, whatever the file holds.

Lines are counted, not seconds. A reading ends at `MAX_WORK` visits, so that this bounds its time; that it does end
there is tested with the readers. spec: FP2.2
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from proofs.readers.plans import formats
from tests.support.flatbuffer_files import FALSE, listed, method, model, node, planned, program, stored, subgraph
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source

ROOT = Path(__file__).resolve().parents[2]
PROVED = ROOT / "tests/corpus/foreign/proved"
LINES_PER_VISIT = 9
AT_FIRST = 2_000
"""The lines that any reading may run beside."""
OUR_FOLDERS = (str(ROOT / "proofs"), str(ROOT / "tmmu"))


def lines_of(run: Callable[[], object]) -> int:
    """The lines of this project that a call runs."""
    count = 0

    def line(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, _event: str, _arg: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(OUR_FOLDERS) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def lists(n: int) -> bytes:
    """Instructions of lists of n tensors, n of them."""
    values = [planned(16 * k) for k in range(n)] + [listed(*range(n)) for _ in range(n)]
    calls = [("aten::cat.out", n + k, k) for k in range(n)]
    return program(method(values, calls, list(range(n)), [0], (0, 16 * n)))


def jumps(n: int) -> bytes:
    """Conds without arms."""
    calls = [("jump", 0, k + 1) for k in range(n)]
    return program(method([planned(0), FALSE], calls, [0], [0]))


def moves(n: int) -> bytes:
    """Conds each of which moves another value."""
    values = [planned(0), FALSE, *(planned(16 * (k + 1)) for k in range(n))]
    calls = [call for k in range(n) for call in (("jump", 0, 2 * k + 2), ("move", 0, 2 + k))]
    return program(method(values, calls, [0], [0], (0, 16 * n + 16)))


def operators(n: int) -> bytes:
    """A chain of n operators of a TensorFlow Lite model."""
    tensors, nodes = [stored(16, str(k)) for k in range(n + 1)], [node(0, [k], [k + 1]) for k in range(n)]
    return model([subgraph(tensors, nodes, [0], [n])], [16 * k for k in range(n + 1)], [19])


def calls(n: int) -> bytes:
    """A subgraph that is run n times."""
    pair = [stored(16, "x"), stored(16, "y")]
    once = subgraph(pair, [node(1, [0], [1], options=[1])] * n, [0], [1])
    return model([once, subgraph(pair, [node(0, [0], [1])], [0], [1])], [0, 16, 32, 48], [19, 129])


def gaps(n: int) -> bytes:
    """A buffer with n gaps in one row."""
    stated = " ".join(f"{2 * k + 1}-{2 * k + 2}" for k in range(n))
    return f"id,lower,upper,size,gaps,offset\na,0,{2 * n + 2},4,{stated},0\n".encode()


def rows(n: int) -> bytes:
    """n buffers."""
    return ("id,lower,upper,size,offset\n" + "".join(f"b{k},{k},{k + 1},4,0\n" for k in range(n))).encode()


def table(n: int) -> bytes:
    """A table of Vela's with n rows."""
    head, row = (
        "Start Time - End Time  : Start Addr -   End Addr: Tensor Size: Memory Usage: Format: Name\n",
        "{0} - {0}: 0x0 - 0x10: 16: 16: NHWC: t{0}\n",
    )
    end = "Allocation Peak Tensor Size: 16 bytes == 0.01 KiB\nNetwork summary for m\n"
    return (head + "".join(row.format(k) for k in range(n)) + end).encode()


def ifs(n: int) -> bytes:
    """n Ifs of a Relax script, each of which hands on a tuple that grows."""
    head = "@I.ir_module\nclass Module:\n @R.function\n def main(x: R.Tensor((1,), dtype='int8')):\n"
    new = "R.builtin.alloc_tensor(R.shape([1]), R.dtype('int8'))"
    arm = f"   a = {new}\n   R.call_packed('f', a)\n   e = (e, a)\n"
    each = f"  if x:\n{arm}  else:\n{arm}"
    storage = "  s = R.memory.alloc_storage(R.shape([1]))\n"
    return f"# tvm.script\n{head}{storage}  e = x\n{each * n}  return e\n".encode()


def loops(n: int) -> bytes:
    """n loops of an Inductor wrapper, each with n names before it and with a cond in it."""
    head = "# AOT ID: torch._inductor\nimport torch\ndef call(args):\n x, = args\n y = x  # alloc\n"
    names = "".join(f" z{k} = x.clone()\n" for k in range(n))
    arm = " y = x.clone()\n"
    each = f" while x:\n  if y:\n  {arm}  else:\n  {arm}"
    return f"{head}{names}{each * n} return (y, {', '.join(f'z{k}' for k in range(n))})\n".encode()


HOSTILE: dict[str, tuple[str, Callable[[int], bytes], int]] = {
    "lists": ("executorch", lists, 30), "jumps": ("executorch", jumps, 300), "moves": ("executorch", moves, 60),
    "operators": ("tflite", operators, 200), "calls": ("tflite", calls, 200), "gaps": ("minimalloc", gaps, 600),
    "ifs": ("relax", ifs, 30), "loops": ("inductor", loops, 16),
    "rows": ("minimalloc", rows, 600), "table": ("vela", table, 600),
}  # fmt: skip


def is_charged(kind: str, opened: Callable[[], Source]) -> bool:
    """Whether the lines of a reading are paid for by its visits."""
    source = opened()
    lines = lines_of(lambda: formats.BY_KIND[kind].read(source))
    print(f"{lines} lines in {source.work} visits: {lines / max(1, source.work):.1f}")
    return lines <= LINES_PER_VISIT * source.work + AT_FIRST


@pytest.mark.parametrize("what", HOSTILE)
def test_a_structured_file_is_charged_for_what_it_costs(what: str) -> None:
    """spec: FP2.2"""
    kind, made, size = HOSTILE[what]
    assert is_charged(kind, lambda: Source("m", made(size)))


@pytest.mark.parametrize("name", ["executorch-nested-conds.pte", "inductor-sorts.inductor", "iree-products.iree",
    "relax-views.relax", "tflite-while.tflite", "vela-cnn.txt", "xla-cond-while", "xla-scan"])  # fmt: skip
def test_a_compilers_own_file_is_charged_for_what_it_costs(name: str) -> None:
    """spec: FP2.2"""
    path = PROVED / name
    path = next(path.glob("*-buffer-assignment.txt")) if path.is_dir() else path
    form = formats.recognise_format(str(path), path.read_bytes()[: formats.HEAD])
    assert form is not None
    assert is_charged(form.kind, lambda: Source.opened(path))


def test_work_that_is_not_counted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail."""
    monkeypatch.setattr("proofs.readers.plans.minimalloc.ROW_VISITS", 1)
    assert not is_charged("minimalloc", lambda: Source("m", rows(600)))


@pytest.mark.parametrize("what", HOSTILE)
def test_a_reading_ends_at_the_most_visits(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One error that names the file, as soon as the visits are spent: nothing is read beyond. spec: FP2.2, FP2.4"""
    kind, made, size = HOSTILE[what]
    monkeypatch.setattr("tmmu.core.source.MAX_WORK", 1_500)
    source = Source("m", made(size))
    with pytest.raises(TmmuError, match="takes more than 1500 visits") as refused:
        formats.BY_KIND[kind].read(source)
    assert (refused.value.code_id, refused.value.file) == ("INVALID_PLAN", "m")
