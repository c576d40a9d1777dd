"""Damaged plans of other producers: whatever the damage, a file is refused with one error, or is a plan.

spec: FP2.1 to FP2.4
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.readers.plans import formats
from proofs.readers.plans.source import Source
from tests.support.three_checks import by_the_checker
from tmmu.core.errors import TmmuError
from tmmu.plans.sections import Plan

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "foreign"
TEXTS = ("minimalloc", "relax", "inductor", "iree")
FILES = [p for p in sorted((CORPUS / "proved").iterdir()) if p.name.startswith(TEXTS) and p.stat().st_size < 1 << 16]
TOKEN = re.compile(rb"%?[\w.#]+|[^\w\s]")
WORDS = (
    b"",
    b"0",
    b"-1",
    b"4",
    b"18446744073709551615",
    b"9" * 30,
    b"(",
    b")",
    b"{",
    b"}",
    b"[",
    b"x",
    b"%c0",
    b"\xff",
)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A stored plan with a few changes: of bytes, of tokens (another one's text, or a word), and of lines."""
    path = draw(st.sampled_from(FILES))
    data = path.read_bytes()
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(("byte", "token", "token", "line", "cut")))
        if kind == "byte":
            at = draw(st.integers(0, len(data)))
            data = data[:at] + draw(st.binary(max_size=2)) + data[at + draw(st.integers(0, 2)) :]
        elif kind == "token":
            found = list(TOKEN.finditer(data))
            if found:
                k, other = (draw(st.integers(0, len(found) - 1)) for _ in range(2))
                word = draw(st.one_of(st.just(found[other][0]), st.sampled_from(WORDS)))
                data = data[: found[k].start()] + word + data[found[k].end() :]
        elif kind == "line":
            lines = data.split(b"\n")
            first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
            how = draw(st.sampled_from(("swap", "drop", "double")))
            if how == "swap":
                lines[first], lines[second] = lines[second], lines[first]
            else:
                lines[first : first + 1] = [lines[second]] * 2 if how == "double" else []
            data = b"\n".join(lines)
        else:
            data = data[: draw(st.integers(0, len(data)))]
    return path.name.split("-")[0], data


@given(damaged())
def test_a_damaged_file_is_refused_or_is_a_plan(case: tuple[str, bytes]) -> None:
    kind, data = case
    try:
        stated = formats.gated(formats.BY_KIND[kind], Source("damaged", data))
    except TmmuError as error:
        refused = error.code_id, error.file
    else:
        refused = None
    assert refused in (None, ("INVALID_PLAN", "damaged"))
    if refused is None and isinstance(stated.plan, Plan):
        by_the_checker(stated.plan, None, frozenset())


@pytest.mark.parametrize("kind", ["relax", "inductor", "iree"])
@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"(" * 50_000, b"a = " + b"-" * 50_000 + b"1", b"x" * 100_000, b"%" * 100_000, b"\n" * 100_000,
     b"[" * 90 + b"]" * 90, b"a,\n" * 50_000, b"if a:\n", b"// -----// IR Dump After LayoutSlices" * 3000],
)  # fmt: skip
def test_what_is_hostile_is_refused_at_once(kind: str, data: bytes) -> None:
    """spec: FP2.2, FP2.3"""
    with pytest.raises(TmmuError, match="INVALID_PLAN"):
        formats.gated(formats.BY_KIND[kind], Source("hostile", data))
