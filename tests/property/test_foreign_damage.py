"""Damaged plans of other producers: whatever the damage, a file is refused with one error, or is a plan.

spec: FP1.12, FP2.1 to FP2.4
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs.readers.plans import formats, xla
from tests.support.foreign_readings import stored
from tests.support.objections import objections
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.plans.sections import Plan

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "foreign"
TEXTS = ("minimalloc", "relax", "inductor", "iree")
FILES = [p for p in sorted((CORPUS / "proved").iterdir()) if p.name.startswith(TEXTS) and p.stat().st_size < 1 << 16]
BYTES = {
    kind: [p for p in sorted(CORPUS.glob("*/*")) if p.name.endswith(ends) and p.stat().st_size <= 9000]
    for kind, ends in (("executorch", ".pte"), ("tflite", ".tflite"), ("vela", ".txt"))
}
"""What is damaged by byte."""
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


OUTCOMES = {"refused", "refuted", "right", "buffers"}


def outcome(kind: str, data: bytes) -> str:
    """The one error, or whether the naive checker objects to the plan."""
    try:
        stated = formats.read_through_gate(formats.BY_KIND[kind], Source("damaged", data))
    except TmmuError as error:
        return "refused" if (error.code_id, error.file) == ("INVALID_PLAN", "damaged") else str(error)
    if not isinstance(stated.plan, Plan):
        return "buffers"
    assert stated.reading is not None
    return "refuted" if any(objections(stated.plan, None, stated.reading.donated)) else "right"


@given(damaged())
def test_a_damaged_text_is_refused_or_is_a_plan(case: tuple[str, bytes]) -> None:
    assert outcome(*case) in OUTCOMES


@pytest.mark.parametrize("kind", BYTES)
def test_a_file_with_other_bytes_is_refused_or_is_a_plan(kind: str) -> None:
    """Both outcomes are reached; now and then nothing is changed, as in a text almost any other byte is refused."""
    seen: Counter[str] = Counter()

    @settings(max_examples=120)  # a few dozen of one file are all refused now and then
    @given(st.sampled_from([path.read_bytes() for path in BYTES[kind]]), st.data())
    def changed(whole: bytes, data: st.DataObject) -> None:
        found, places = bytearray(whole), st.integers(0, len(whole) - 1)
        values = st.one_of(st.integers(0, 255), st.sampled_from((0, 1, 127, 128, 255)))
        for at, value in data.draw(st.lists(st.tuples(places, values), max_size=4)):
            found[at] = value
        cut = data.draw(st.one_of(st.just(len(found)), places))
        seen[outcome(kind, bytes(found[:cut]))] += 1

    changed()
    assert set(seen) <= OUTCOMES
    assert 0 < seen["refused"] < seen.total()


UNSEEN = {"minimalloc": "", "relax": "return ", "iree": "}", "inductor": "return (|return [|call = |runner = "}
"""Of which formats an end cannot be seen, and how the last line begins where it cannot: behind a whole function."""


@pytest.mark.parametrize("kind", [*TEXTS, "executorch", "tflite", "vela", "xla"])
def test_a_file_that_is_cut_off_is_refused_or_is_the_whole(kind: str) -> None:
    """spec: FP1.12, FP5.13"""
    for path in (path for path in stored() if "proved" in path.parts and of(path).kind == kind):
        data = path.read_bytes()
        if len(data) > 8000 and kind not in ("executorch", "iree"):
            continue
        whole = plan_of(Source(str(path), data, path))
        lines = [0] if kind in ("executorch", "tflite") else [m.end() for m in re.finditer(rb"\n", data)]
        cuts = [len(data) // 2, len(data) - 7, *lines[:: max(1, len(lines) // 3)], *lines[-4:-1]]
        for cut in cuts:
            found = plan_of(Source(str(path), data[:cut], path))
            if found not in (None, whole):
                last = data[:cut].decode().rstrip().rpartition("\n")[2].strip()
                assert last.startswith(tuple(UNSEEN[kind].split("|"))), (path, cut)


@pytest.mark.parametrize("name", ["xla-async", "xla-switch"])
def test_a_schedule_that_is_cut_off_is_refused(name: str) -> None:
    """spec: FP1.12, FP4.1"""
    [path] = (CORPUS / "proved" / name).glob(f"*{xla.SUFFIX}")
    lines = Path(xla.schedule_of(str(path))).read_bytes().rstrip().splitlines(keepends=True)
    for count in {*range(0, len(lines), 20), *range(len(lines) - 4, len(lines))}:
        with pytest.raises(TmmuError, match="INVALID_PLAN"):
            xla.flatten(Source("m", b"".join(lines[:count])), xla.read_assignment(Source.opened(path)))


def of(path: Path) -> formats.PlanFormat:
    form = formats.recognise_format(str(path), path.read_bytes()[: formats.HEAD])
    assert form is not None
    return form


def plan_of(source: Source) -> bytes | None:
    """The digest of the plan that is read; None for what is refused."""
    assert source.path is not None
    try:
        return formats.read_through_gate(of(source.path), source).hashes["file_digest"]
    except TmmuError:
        return None


@given(st.sampled_from([*BYTES, *TEXTS]), st.binary(max_size=4000))
def test_any_bytes_are_refused(kind: str, data: bytes) -> None:
    """Behind the identifier of the format as well."""
    for identifier in (b"", b"\x08\0\0\0ET12", b"\x08\0\0\0TFL3"):
        assert outcome(kind, identifier + data) == "refused"


@pytest.mark.parametrize("kind", ["relax", "inductor", "iree"])
@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"(" * 50_000, b"a = " + b"-" * 50_000 + b"1", b"x" * 100_000, b"%" * 100_000, b"\n" * 100_000,
     b"[" * 90 + b"]" * 90, b"a,\n" * 50_000, b"if a:\n", b"// -----// IR Dump After LayoutSlices" * 3000],
)  # fmt: skip
def test_what_is_hostile_is_refused_at_once(kind: str, data: bytes) -> None:
    """spec: FP2.2, FP2.3"""
    with pytest.raises(TmmuError, match="INVALID_PLAN"):
        formats.read_through_gate(formats.BY_KIND[kind], Source("hostile", data))
