"""The envelope of a plan: where each tensor is largest, and a size that is not the largest refused.

spec: R6.1, R6.3
"""

from __future__ import annotations

import pytest

from tmmu.core.dims.expressions import symbol
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Role, Tensor
from tmmu.planner import envelope

RANGES = {"n": (2, 7), "m": (1, 64)}
M, N = (symbol(name, *RANGES[name]) for name in ("m", "n"))


def tensor(name: str, dim: object, size: int) -> Tensor:
    return Tensor(name, (dim,), "uint8", Role.ACTIVATION, size)  # type: ignore[arg-type]  # an expression or an int


def test_each_tensor_is_largest_at_a_point_where_what_it_does_not_depend_on_is_least() -> None:
    """Points are written once, with dimensions in the order of their names."""
    tensors = (tensor("a", M, 64), tensor("b", 65 - M, 64), tensor("c", M, 64), tensor("d", N, 7), tensor("e", 5, 5))
    found = envelope.build_envelope(tensors, RANGES, "ABORT")
    assert found is not None
    assert found.policy == "ABORT"
    points = [tuple(found.points.tolist()[i : i + 2]) for i in range(0, len(found.points), 2)]
    assert [points[at] for at in found.largest_at.tolist()] == [(64, 2), (1, 2), (64, 2), (1, 7), (1, 2)]
    assert len(points) == len(set(points)) == 3
    assert envelope.build_envelope(tensors, {}, "ABORT") is None


@pytest.mark.parametrize("size", [63, 65])
def test_a_size_that_is_not_the_largest_is_refused(size: int) -> None:
    with pytest.raises(TmmuError, match=f"{size} bytes .* of m") as refused:
        envelope.build_envelope((tensor("a", M, size),), RANGES, "ABORT")
    assert (refused.value.code_id, refused.value.place) == ("INVALID_IR_SHAPES", "tensor 'a'")


def test_a_size_whose_maximum_is_not_shown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "maximum", lambda size: None)
    with pytest.raises(TmmuError, match=r"64 bytes .* of m;") as refused:
        envelope.build_envelope((tensor("a", M, 64),), RANGES, "ABORT")
    assert refused.value.code_id == "INVALID_IR_SHAPES"
