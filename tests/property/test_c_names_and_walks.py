"""Names of any characters as C, and walks over tensors in fewer dimensions. spec: MC2.3, MC4.3"""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tmmu.mico.identifiers import KEYWORDS, Identifiers, comment
from tmmu.mico.kernels.node import Operand, broadcast, collapse_dimensions, strides

names = st.lists(st.text(st.sampled_from("ab_0./*\\?é\n$"), max_size=4) | st.text(max_size=6), max_size=12)


@given(names)
def test_each_name_has_an_identifier_of_its_own(given_names: list[str]) -> None:
    made = Identifiers()
    found = {name: made.of(name) for name in given_names}
    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", each) and each not in KEYWORDS for each in found.values())
    assert {name: made.of(name) for name in given_names} == found


@given(st.text() | st.text(st.sampled_from("*/?\\\n")))
def test_a_comment_ends_where_it_is_to_end(text: str) -> None:
    made = comment(text)
    assert re.fullmatch(r"[ -~]*", made)
    assert not any(word in made for word in ("*/", "/*", "??", "\\"))
    assert len(made) == len(text)


@st.composite
def walks(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    shape = draw(st.lists(st.integers(1, 4), max_size=5))
    return shape, [draw(st.sampled_from([step, step, 0, -step, 2 * step])) for step in strides(shape)]


def visited(shape: list[int], steps: list[int]) -> list[int]:
    places = np.zeros([1] * len(shape), np.int64)
    for d, (dim, step) in enumerate(zip(shape, steps, strict=True)):
        places = places + (np.arange(dim) * step).reshape([-1 if k == d else 1 for k in range(len(shape))])
    return [int(place) for place in places.reshape(-1)]


@given(walks())
def test_a_walk_in_fewer_dimensions_visits_the_same_places(walk: tuple[list[int], list[int]]) -> None:
    shape, steps = walk
    dims, (found, own) = collapse_dimensions(shape, steps, strides(shape))
    assert visited(dims, found) == visited(shape, steps)
    assert visited(dims, own) == list(range(len(visited(shape, steps))))
    assert 1 <= len(dims) <= max(1, len(shape))


@given(st.lists(st.integers(1, 4), max_size=4), st.data())
def test_a_broadcast_reads_what_numpy_reads(shape: list[int], data: st.DataObject) -> None:
    own = [data.draw(st.sampled_from([1, dim])) for dim in shape[data.draw(st.integers(0, len(shape))) :]]
    rank, dims, steps = broadcast(shape, Operand("x", tuple(own), "float32"))
    numbers = ([int(each) for each in re.findall(r"\d+", text.split("{")[1])] for text in (dims, steps))
    found = visited(*numbers)
    elements = np.arange(int(np.prod(own))).reshape(own)
    assert found == np.broadcast_to(elements, shape).reshape(-1).tolist()
    assert int(rank) == dims.count(",") + 1
