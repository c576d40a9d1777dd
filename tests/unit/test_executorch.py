"""The algorithm for ExecuTorch's memory-planning pass, on stand-ins of its graphs: what lies where, and what is moved.

`tests/nightly/test_foreign_out.py` runs it in ExecuTorch. spec: FP12.1 to FP12.4
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tmmu.exporters.executorch import packed, searched


class Place(NamedTuple):
    mem_id: int
    mem_obj_id: int
    mem_offset: int


class Result(NamedTuple):
    spec_dict: dict[Any, Place]
    bufsizes: list[int]


@pytest.fixture(autouse=True)
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    """ExecuTorch's module with its two classes."""
    made = ModuleType("executorch.exir.memory_planning")
    made.__dict__.update(MemoryAlgoResult=Result, SpecAllocResult=Place)
    for name in ("executorch", "executorch.exir"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, made.__name__, made)


@dataclass(eq=False)
class Spec:
    """ExecuTorch's TensorSpec, as far as an algorithm uses it."""

    bytes: int
    lifetime: list[int]
    mem_id: int | None = None
    mem_offset: int | None = None
    storage_base: Spec | None = None
    storage_base_offset: int = 0
    alignment: int = 1

    def realign(self, alignment: int) -> None:
        self.alignment = alignment

    @property
    def allocated_memory(self) -> int:
        return -(-self.bytes // self.alignment) * self.alignment


@dataclass(eq=False)
class Node:
    """A node of a graph; `parts` are the arms and bodies that it runs."""

    name: str
    spec: Any = None
    operands: tuple[Node, ...] = ()
    op: str = "call_function"
    users: dict[Node, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.target: Any = self.name if self.op == "get_attr" else SimpleNamespace(__name__=self.name)
        self.meta = {} if self.spec is None else {"spec": self.spec}
        self.all_input_nodes = list(self.operands)
        for each in self.operands:
            each.users[self] = None


def graph(*nodes: Node, sizes: list[int] | None = None, **parts: Any) -> Any:
    """A graph; `sizes` are those of its memories, where it is planned."""
    meta = {} if sizes is None else {"non_const_buffer_sizes": sizes}
    return SimpleNamespace(graph=SimpleNamespace(nodes=nodes), meta=meta, **parts)


EMPTY = graph()


def test_bytes_are_used_again_and_aligned_and_padded() -> None:
    """spec: FP12.1"""
    a, b, c = Spec(20, [0, 1]), Spec(4, [1, 2]), Spec(20, [2, 3])
    for algorithm in (packed, searched(1000)):
        found = algorithm(16, [a, b, c], EMPTY, None, 64)
        assert found.bufsizes == [0, 48 + 64]
        assert found.spec_dict[a].mem_offset == found.spec_dict[c].mem_offset
        assert all(place.mem_offset % 16 == 0 for place in found.spec_dict.values())


def test_each_memory_is_planned_by_itself() -> None:
    """spec: FP12.1"""
    a, b = Spec(16, [0, 1], mem_id=3), Spec(16, [0, 1])
    found = packed(16, [a, b], EMPTY, None)
    assert found.bufsizes == [0, 16, 0, 16]
    assert (found.spec_dict[a].mem_id, found.spec_dict[b].mem_id) == (3, 1)
    assert packed(16, [], EMPTY, None) == Result({}, [0, 0])


def test_a_view_lies_where_its_base_does() -> None:
    """A view has the lifetime of its base: the same list. spec: FP12.2"""
    base = Spec(16, [0, 2])
    view = Spec(16, base.lifetime)
    found = packed(16, [view, base, Spec(16, [1, 1])], EMPTY, None)
    assert found.spec_dict[view].mem_offset == found.spec_dict[base].mem_offset
    assert found.bufsizes == [0, 32]


def test_what_lies_in_another_tensor_lies_there_at_its_distance() -> None:
    """spec: FP12.2"""
    base = Spec(64, [0, 3], mem_id=2)
    inner = Spec(32, [1, 2], storage_base=base, storage_base_offset=32)
    within = Spec(16, [1, 2], storage_base=inner, storage_base_offset=16)
    found = packed(16, [within, inner, base], EMPTY, None)
    of = found.spec_dict
    assert [of[each].mem_offset - of[base].mem_offset for each in (inner, within)] == [32, 48]
    assert {place.mem_id for place in of.values()} == {2}
    with pytest.raises(ValueError, match="not planned"):
        packed(16, [inner], EMPTY, None)


def conds(name: str = "cond") -> tuple[Any, list[Spec], list[Spec]]:
    """Two nodes in sequence that run two parts each, and an addition of what they return; tensors of graph and parts.

    ExecuTorch has planned each part from byte 0.
    """
    inner = [Spec(32, [0, 1], mem_id=1, mem_offset=0) for _ in range(4)]
    parts = {f"part{k}": graph(Node("add", spec), sizes=[0, 32]) for k, spec in enumerate(inner)}
    got = [Node(f"part{k}", op="get_attr") for k in range(4)]
    own = [Spec(16, [4, 8]), Spec(16, [7, 8])]
    x = Node("x", Spec(16, [0, 7]), op="placeholder")
    first = Node(name, (own[0],), (x, *got[:2]))
    item = Node("getitem", own[0], (first,))
    second = Node(name, [own[1]], (x, *got[2:]))
    end = Node("add", Spec(16, [8, 9]), (item, second))
    nodes = x, *got[:2], first, item, *got[2:], second, end
    return graph(*nodes, **parts), [x.spec, *own, end.spec], inner


def test_arms_stay_where_they_are_until_what_they_return_is_used() -> None:
    """The arms of a cond share bytes, those of two conds do not. spec: FP12.3"""
    parent, own, inner = conds()
    found = packed(16, own, parent, None)
    at = [found.spec_dict[spec].mem_offset for spec in inner]
    assert at[0] == at[1]
    assert at[2] == at[3]
    assert abs(at[0] - at[2]) >= 32
    assert found.bufsizes[1] >= max(at) + 32
    for spec in own[:3]:  # these live while the second cond runs
        assert not at[2] < found.spec_dict[spec].mem_offset + 16 <= at[2] + 32


def test_parts_of_a_loop_share_no_bytes() -> None:
    """spec: FP12.3"""
    parent, own, inner = conds("while_loop")
    at = [place.mem_offset for spec, place in packed(16, own, parent, None).spec_dict.items() if spec in inner]
    assert len({*at}) == 4


def test_parts_in_parts_are_moved_with_them() -> None:
    """spec: FP12.3"""
    deep = Spec(16, [0, 1], mem_id=1, mem_offset=48)
    inner = graph(Node("add", deep), sizes=[0, 64])
    get = Node("inner", op="get_attr")
    outer = graph(get, Node("map", None, (get,)), sizes=[0, 96], inner=inner)
    got = Node("outer", op="get_attr")
    large, call = Spec(256, [0, 9]), Node("map", None, (got,))
    parent = graph(got, call, outer=outer)
    found = packed(16, [large], parent, None)
    base = found.spec_dict[deep].mem_offset - 48
    assert base >= 256 or base + 96 <= found.spec_dict[large].mem_offset
    assert found.bufsizes == [0, 352]
    assert (deep.mem_offset, large.mem_offset) == (48, None)  # spec: FP12.4


def test_neither_torch_nor_executorch_is_loaded_before_it_is_used() -> None:
    """spec: FP12.4"""
    code = """import sys, tmmu.exporters.executorch
sys.exit(any(m.split('.')[0] in ('torch', 'executorch') for m in sys.modules))"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
