"""Write the dumps of the corpus that no compiler made: `python -m tests.corpus.foreign.make.xla_edited`.

Wrong ones are dumps of XLA with one edit, each of which a compiler could have made; what XLA on a CPU does not make
(operations that are started and done, memory spaces) is a module written by hand, a right one and its wrong twin.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support import hlo

CORPUS = Path(__file__).resolve().parents[1]
Edit = Callable[[str], str]


def replacing(pattern: str, by: str, count: int = 1) -> Edit:
    """An edit that must change something."""

    def edit(text: str) -> str:
        found, times = re.subn(pattern, by, text, count=count, flags=re.MULTILINE | re.DOTALL)
        assert times, pattern
        return found

    return edit


def at(name: str, offset: int) -> Edit:
    """Another offset for a value."""
    return replacing(rf"(<\d+ {re.escape(name)}(?: \(phi\))? @0> \(size=\d+,offset=)\d+", rf"\g<1>{offset}")


def zeroed(text: str) -> str:
    """All temporary values at offset 0."""
    head, mark, temporary = text.partition("preallocated-temp")
    return head + mark + re.sub(r"offset=\d+", "offset=0", temporary)


EDITED: dict[str, tuple[str, str, Edit]] = {
    "zeroed-offsets": ("xla-scan", "buffers", zeroed),
    # A fusion takes its operand's bytes, 64 further on: the class of openxla/xla pull request 46543.
    "partial-overlap-in-place": ("xla-scan", "buffers", at("wrapped_tanh", 45120)),
    # What an iteration leaves is not where the next one looks for it.
    "loop-carry-moved": ("xla-scan", "buffers", at("bitcast_dynamic-update-slice_fusion.2", 16448)),
    # An arm's result is over what no later step reads, but not where the conditional has its result.
    "arm-result-moved": ("xla-cond-while", "buffers", at("copy.1", 256)),
    # An argument that nobody gave up is overwritten.
    "not-donated": ("xla-cond-while", "schedule", replacing(r" input_output_alias=\{.*?\) \},", "")),
    "aliased-elsewhere": ("xla-cond-while", "schedule", replacing(r"\{ \{0\}: \(1", "{ {2}: (1")),
    "result-in-temporary-memory": (
        "xla-cond-while", "buffers", replacing(r"(allocation 1: size 1024), maybe-live-out", r"\1"),
    ),
    # Half of the bytes that the shape needs, as of elements counted as 4 bits.
    "half-the-bytes": (
        "xla-cond-while", "buffers",
        replacing(r"(allocation 1: size )1024(, maybe-live-out:\n.*?\(size=)1024", r"\g<1>512\g<2>512"),
    ),
    # The schedule of another compilation: a value is read after its bytes were used again.
    "stale": ("xla-scan", "schedule", replacing(r"(%wrapped_reduce-window = \S+ fusion\()%[\w.\-]+", r"\1%copy.28")),
}  # fmt: skip

ASYNC = hlo.module(
    "main: %p = u8[64]{0} parameter(0); %a = u8[64]{0} add(%p, %p); "
    "%s = (u8[64]{0:S(1)}, u8[64]{0}, u32[]) copy-start(%a); %b = u8[64]{0} negate(%p); "
    "%d = u8[64]{0:S(1)} copy-done(%s); ROOT %r = u8[64]{0} add(%d, %b)"
)
ASYNC_SLICES = {
    "p": (0, 0, 64), "r": (1, 0, 64), "a": (2, 0, 64), "s{}": (2, 64, 24), "s{2}": (2, 88, 4), "b": (2, 128, 64),
    "s{0}": (3, 0, 64),
}  # fmt: skip
SWAP = hlo.module(
    "body: %t = (u8[8], u8[8]) parameter(0); %x = u8[8] get-tuple-element(%t), index=0; "
    "%y = u8[8] get-tuple-element(%t), index=1; ROOT %u = (u8[8], u8[8]) tuple(%y, %x)",
    "cond: %c = (u8[8], u8[8]) parameter(0); %z = u8[8] get-tuple-element(%c), index=0; "
    'ROOT %q = pred[] custom-call(%z), custom_call_target="any"',
    "main: %p = (u8[8], u8[8]) parameter(0); ROOT %w = (u8[8], u8[8]) while(%p), condition=%cond, body=%body",
)
SWAP_SLICES = {
    **{f"{name}{{0}}": (0, 0, 8) for name in "ptcw"}, **{f"{name}{{1}}": (1, 0, 8) for name in "ptcw"},
    "p{}": (2, 0, 16), "t{}": (2, 0, 16), "c{}": (2, 0, 16), "u{}": (2, 0, 16), "w{}": (2, 0, 16), "q": (3, 0, 1),
}  # fmt: skip
PARAMETERS = {k: f"parameter 0, shape |u8[8]| at ShapeIndex {{{k}}}, maybe-live-out" for k in range(3)}
DONOR = ", buffer_donor={ (0, {}) }"
HELD = {0: "parameter 0, shape |u8[64]| at ShapeIndex {}", 1: "maybe-live-out", 2: "preallocated-temp", 3: ""}
PRODUCT = hlo.module(
    "main: %x = f32[8,8]{1,0} parameter(0); %c = f32[8,8]{1,0} copy(%x); "
    "ROOT %r = f32[8,8]{1,0} dot(%c, %c), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
)
OF_PRODUCT = {0: "parameter 0, shape |f32[8,8]| at ShapeIndex {}", 1: "output shape is |f32[8,8]|, maybe-live-out"}
MADE: dict[str, tuple[str, str]] = {
    "proved/xla-async": (ASYNC, hlo.assignment(ASYNC, ASYNC_SLICES, HELD, {3: 1})),
    # The copy still reads a when b is written.
    "refuted/xla-async": (ASYNC, hlo.assignment(ASYNC, ASYNC_SLICES | {"b": (2, 0, 64)}, HELD, {3: 1})),
    # The two values change places by their pointers, which nothing at run time looks at.
    "refuted/xla-swapped-carry": (
        SWAP.replace(hlo.TITLE, hlo.TITLE + DONOR),
        hlo.assignment(SWAP, SWAP_SLICES, PARAMETERS | {3: "preallocated-temp"}),
    ),
    # A product is written over its operand, of which each element needs a row and a column.
    "refuted/xla-product-in-place": (
        PRODUCT, hlo.assignment(PRODUCT, {"x": (0, 0, 256), "c": (1, 0, 256), "r": (1, 0, 256)}, OF_PRODUCT)
    ),
}  # fmt: skip


def main() -> None:
    """Write all of them."""
    for name, (source, which, edit) in EDITED.items():
        target = CORPUS / "refuted" / f"xla-{name}"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(CORPUS / "proved" / source, target)
        for path in target.iterdir():
            if ("buffer-assignment" in path.name) == (which == "buffers"):
                path.write_text(edit(path.read_text()))
    for name, (text, assigned) in MADE.items():
        hlo.dump(CORPUS / name, text, assigned, "m.cpu_after_optimizations")


if __name__ == "__main__":
    main()
