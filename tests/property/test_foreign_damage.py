"""Whatever becomes of a file of another producer, reading it ends with a plan or one error, and soon.

spec: FP2.1, FP2.2, FP2.4
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs.readers.plans import formats
from proofs.readers.plans.source import Source
from tests.support.objections import objections
from tmmu.core.errors import TmmuError
from tmmu.plans.sections import Plan

CORPUS = Path(__file__).parents[1] / "corpus" / "foreign"
SMALL = 9000
SECONDS = 20
"""What a damaged small file may take to read; the whole test takes a fraction of it."""
FILES = {
    path.name: (form, path.read_bytes())
    for path in sorted(CORPUS.glob("*/*"))
    if path.is_file() and path.stat().st_size <= SMALL and (form := formats.recognised(path.name, path.read_bytes()))
    if path.parent.name != "make"
}
KINDS = sorted({form.kind for form, _ in FILES.values()})


def outcome(form: formats.PlanFormat, name: str, data: bytes) -> str:
    """A plan, in which the naive checker then looks for what is false, or the code of the one error."""
    try:
        stated = formats.gated(form, Source(name, data))
    except TmmuError as error:
        return error.code_id if error.file == name else f"{error.code_id} without its file"
    if isinstance(stated.plan, Plan):
        assert stated.reading is not None
        return "REFUTED" if any(objections(stated.plan, None, stated.reading.donated)) else "PROVED"
    return "BUFFERS"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_a_plan_or_refused(kind: str) -> None:
    """Bytes that are changed, and a file that is cut off; both outcomes are reached."""
    names = [name for name, (form, _) in FILES.items() if form.kind == kind]
    seen: Counter[str] = Counter()
    start = time.monotonic()

    @settings(max_examples=120)
    @given(st.sampled_from(names), st.data())
    def damaged(name: str, data: st.DataObject) -> None:
        form, whole = FILES[name]
        found = bytearray(whole)
        places = st.integers(0, len(whole) - 1)
        values = st.one_of(st.integers(0, 255), st.sampled_from((0, 1, 127, 128, 255)))
        for at, value in data.draw(st.lists(st.tuples(places, values), min_size=1, max_size=4)):
            found[at] = value
        cut = data.draw(st.one_of(st.just(len(found)), places))
        seen[outcome(form, name, bytes(found[:cut]))] += 1

    damaged()
    assert seen["INVALID_PLAN"]
    assert seen["INVALID_PLAN"] < sum(seen.values())
    assert time.monotonic() - start < SECONDS


@given(st.sampled_from([form for form in formats.FORMATS if form.kind in KINDS]), st.binary(max_size=4000))
@settings(max_examples=60)
def test_any_bytes_are_refused(form: formats.PlanFormat, data: bytes) -> None:
    """Behind the identifier of the format as well."""
    for identifier in (b"", b"\x08\0\0\0ET12", b"\x08\0\0\0TFL3"):
        assert outcome(form, "r", identifier + data) == "INVALID_PLAN"
