"""The test vectors of the documents: 000 and 001 VII.B (chains, residual blocks), and MiCo's lists of tensors (004).

MiCo's networks are written here from its lists, as models: each row with its bytes and the steps at which it is written
and last read. A bypass (flatten, dropout) is a view, so what it shows lives to the bypass's last reader. The copy named
`output` ends each network, as MiCo's code does; nothing works in place there.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.objections import objections
from tmmu.core.vocabulary import ArenaConfiguration, Bindings, Body, Model, Node, Role, Tensor, View
from tmmu.planner import plan_memory
from tmmu.plans.sections import Usage

ACTIVATIONS = ArenaConfiguration("activations", (Role.INPUT, Role.ACTIVATION), alignment=1)
"""MiCo aligns nothing; every size below is a multiple of 8."""


@dataclass(frozen=True)
class Row:
    """A tensor of one of MiCo's lists, in the order of its nodes: what it is made of, its bytes, its lifetime."""

    name: str
    reads: tuple[str, ...]
    bytes: int
    birth: int
    death: int
    op: str = "Gemm"


VIEWS = ("Flatten", "Dropout")


def model(name: str, rows: list[Row]) -> Model:
    """The model of a list: row k is the result of node k - 1, the first row the input, the last the output."""
    place = {row.name: k for k, row in enumerate(rows)}
    tensors = []
    for k, row in enumerate(rows):
        view = View(place[row.reads[0]], 0, row.bytes) if row.op in VIEWS else None
        role = Role.INPUT if k == 0 else Role.ACTIVATION
        tensors.append(Tensor(row.name, (row.bytes // 4,), "float32", role, row.bytes, view=view))
    nodes = tuple(Node(row.name, row.op, tuple(place[r] for r in row.reads), (k,)) for k, row in enumerate(rows) if k)
    return Model(name, tuple(tensors), nodes, (Body(-1, "", (0,), (len(rows) - 1,)),))


def chain(*rows: tuple[str, str, int]) -> list[Row]:
    """The rows of a network without branches, (name, operator, bytes): each lives from its row to the next one's."""
    names = [name for name, _, _ in rows]
    last = len(rows) - 1
    return [
        Row(name, tuple(names[k - 1 : k]), size, k, min(k + 1, last), op) for k, (name, op, size) in enumerate(rows)
    ]


MLP = chain(
    ("x", "", 1024), ("flatten", "Flatten", 1024),
    ("layers_0", "Gemm", 256), ("layers_1", "Relu", 256), ("layers_2", "Gemm", 256), ("layers_3", "Relu", 256),
    ("layers_4", "Gemm", 256), ("layers_5", "Relu", 256), ("layers_6", "Gemm", 40), ("output", "Concat", 40),
)  # fmt: skip

LENET = chain(
    ("x", "", 3136), ("layers_0", "Conv", 18816), ("layers_1", "Relu", 18816), ("layers_2", "AveragePool", 4704),
    ("layers_3", "Conv", 6400), ("layers_4", "Relu", 6400), ("layers_5", "AveragePool", 1600),
    ("layers_6", "Flatten", 1600), ("layers_7", "Gemm", 256), ("layers_8", "Relu", 256), ("layers_9", "Gemm", 128),
    ("layers_10", "Relu", 128), ("layers_11", "Gemm", 40), ("output", "Concat", 40),
)  # fmt: skip

VGG = chain(
    ("x", "", 12288), ("layers_0", "Conv", 262144), ("layers_2", "Relu", 262144), ("layers_3", "MaxPool", 65536),
    ("layers_4", "Conv", 131072), ("layers_6", "Relu", 131072), ("layers_7", "MaxPool", 32768),
    ("layers_8", "Conv", 65536), ("layers_10", "Relu", 65536), ("layers_11", "Conv", 65536),
    ("layers_13", "Relu", 65536), ("layers_14", "MaxPool", 16384), ("layers_15", "Flatten", 16384),
    ("layers_16", "Gemm", 16384), ("layers_17", "Relu", 16384), ("layers_18", "Dropout", 16384),
    ("layers_19", "Gemm", 16384), ("layers_20", "Relu", 16384), ("layers_21", "Dropout", 16384),
    ("layers_22", "Gemm", 40), ("output", "Concat", 40),
)  # fmt: skip


def resnet8() -> list[Row]:
    """A stem and four blocks of 64 to 512 channels; the last three have a convolution on their shortcut."""
    rows = [("x", (), 12288, ""), ("conv1_0", ("x",), 262144, "Conv"), ("conv1_2", ("conv1_0",), 262144, "Relu")]
    start = "conv1_2"
    for block, size in ((2, 262144), (3, 131072), (4, 65536), (5, 32768)):
        name = f"conv{block}"
        first, relu, second = f"{name}_conv1", f"{name}_relu1", f"{name}_conv2"
        rows += [(first, (start,), size, "Conv"), (relu, (first,), size, "Relu"), (second, (relu,), size, "Conv")]
        if block > 2:
            rows.append((f"{name}_shortcut", (start,), size, "Conv"))
            start = f"{name}_shortcut"
        rows += [(f"{name}_add", (second, start), size, "Add"), (f"{name}_relu", (f"{name}_add",), size, "Relu")]
        start = f"{name}_relu"
    rows += [
        ("avg_pool", (start,), 2048, "GlobalAveragePool"), ("flatten", ("avg_pool",), 2048, "Flatten"),
        ("fc", ("flatten",), 40, "Gemm"), ("output", ("fc",), 40, "Concat"),
    ]  # fmt: skip
    readers = {row[0]: [k for k, other in enumerate(rows) if row[0] in other[1]] for row in rows}
    return [Row(name, reads, size, k, max([k, *readers[name]]), op) for k, (name, reads, size, op) in enumerate(rows)]


NETWORKS = {"mlp": MLP, "lenet": LENET, "vgg": VGG, "resnet8": resnet8()}


def usage(made: Model) -> Usage:
    """What the one arena of a right plan needs."""
    plan = plan_memory(made, (ACTIVATIONS,)).plan
    assert list(objections(plan, made)) == []
    return plan.usage[0]


@pytest.mark.parametrize("network", NETWORKS)
def test_lifetimes_are_those_of_micos_lists(network: str) -> None:
    """MiCo counts from the input, which has no step here: its lifetimes are later by one. spec: T1.2, T1.3, T1.4"""
    rows = NETWORKS[network]
    plan = plan_memory(model(network, rows), (ACTIVATIONS,)).plan
    found = dict(
        zip(
            plan.allocation.tensors.name,
            zip(plan.allocation.tensors.birth.tolist(), plan.allocation.tensors.death.tolist(), strict=True),
            strict=True,
        )
    )
    assert found == {row.name: (max(0, row.birth - 1), row.death - 1) for row in rows}


@pytest.mark.parametrize(
    ("network", "name", "lifetime"),
    [
        ("mlp", "x", (0, 2)), ("lenet", "layers_5", (6, 8)), ("vgg", "layers_14", (11, 13)),
        ("vgg", "layers_17", (14, 16)), ("vgg", "layers_20", (17, 19)), ("resnet8", "avg_pool", (26, 28)),
    ],
)  # fmt: skip
def test_what_a_bypass_shows_lives_to_the_last_reader_of_the_bypass(
    network: str, name: str, lifetime: tuple[int, int]
) -> None:
    """These are the tensors that MiCo's own lists let die too early. spec: T2.1, T2.4"""
    plan = plan_memory(model(network, NETWORKS[network]), (ACTIVATIONS,)).plan
    storage = int(plan.allocation.tensors.storage[plan.allocation.tensors.name.list().index(name)])
    birth, death = lifetime
    assert (int(plan.allocation.storages.birth[storage]), int(plan.allocation.storages.death[storage])) == (
        max(0, birth - 1),
        death - 1,
    )


@pytest.mark.parametrize(
    ("name", "lifetime"),
    [("conv1_2", (2, 6)), ("conv2_relu", (7, 11)), ("conv3_relu", (13, 17)), ("conv4_relu", (19, 23))],
)
def test_a_skipped_tensor_lives_to_where_the_branches_meet_or_its_shortcut_reads_it(
    name: str, lifetime: tuple[int, int]
) -> None:
    row = next(row for row in NETWORKS["resnet8"] if row.name == name)
    assert (row.birth, row.death) == lifetime


@pytest.mark.parametrize(
    ("network", "before", "footprint", "slots"),
    [("mlp", 2640, 1280, 2), ("lenet", 60720, 37632, 2), ("vgg", 1241168, 524288, 2), ("resnet8", 3225680, 786432, 3)],
)
def test_slots_reach_the_lower_bound_on_micos_networks(network: str, before: int, footprint: int, slots: int) -> None:
    """The footprint is the peak of live bytes; MiCo's pools take 1280, 42336, 589824 and 786432 bytes.

    spec: T6.4, A3.1, A3.3
    """
    rows = NETWORKS[network]
    assert sum(row.bytes for row in rows if row.op not in VIEWS) == before
    needed = usage(model(network, rows))
    assert (needed.footprint, needed.peak_live_bytes) == (footprint, footprint)
    assert (needed.slots, needed.max_live, needed.minimal) == (slots, slots, True)


def line(length: int, *, in_place: bool, donated: bool) -> Model:
    """`x` through `length` nodes, each in place where that is declared."""
    tensors = [Tensor(f"t{k}", (64,), "float32", Role.ACTIVATION if k else Role.INPUT, 256) for k in range(length + 1)]
    nodes = [Node(f"n{k}", "Relu", (k,), (k + 1,), in_place=((k + 1, k),) * in_place) for k in range(length)]
    bindings = Bindings(donated=("t0",) * donated)
    return Model("line", tuple(tensors), tuple(nodes), (Body(-1, "", (0,), (length,)),), bindings=bindings)


@pytest.mark.parametrize("length", [1, 2, 7, 50])
def test_a_chain_takes_one_slot_in_place_and_donated_and_else_two(length: int) -> None:
    """spec: T4.1, T4.2, T4.3"""
    one, two, also_two = (
        plan_memory(line(length, in_place=in_place, donated=donated), (ACTIVATIONS,)).plan.usage[0]
        for in_place, donated in ((True, True), (True, False), (False, True))
    )
    assert (one.slots, one.max_live, one.footprint) == (1, 1, 256)
    assert (two.slots, two.max_live, two.footprint) == (2, 2, 512)
    assert (also_two.slots, also_two.max_live, also_two.footprint) == (2, 2, 512)


def residual(blocks: int, *, in_place: bool) -> Model:
    """Blocks of two convolutions with a ReLU between, added to what came in."""
    tensors = [Tensor("x", (64,), "float32", Role.INPUT, 256)]
    nodes: list[Node] = []

    def node(op: str, reads: tuple[int, ...], *, over: bool = False) -> int:
        made = len(tensors)
        tensors.append(Tensor(f"t{made}", (64,), "float32", Role.ACTIVATION, 256))
        hints = ((made, reads[0]),) if over and in_place else ()
        nodes.append(Node(f"n{made}", op, reads, (made,), in_place=hints))
        return made

    value = 0
    for _ in range(blocks):
        inner = node("Relu", (node("Conv", (value,)),), over=True)
        value = node("Relu", (node("Add", (node("Conv", (inner,)), value), over=True),), over=True)
    return Model("residual", tuple(tensors), tuple(nodes), (Body(-1, "", (0,), (value,)),))


@pytest.mark.parametrize("blocks", [1, 2, 16])
@pytest.mark.parametrize("in_place", [False, True])
def test_residual_blocks_take_three_slots_however_many_there_are(blocks: int, in_place: bool) -> None:
    """The shortcut, an operand and a result are live at once, and never more. spec: T6.4"""
    needed = usage(residual(blocks, in_place=in_place))
    assert (needed.slots, needed.max_live, needed.footprint) == (3, 3, 768)


def test_every_list_of_mico_has_as_many_rows_as_the_table() -> None:
    assert {name: len(rows) for name, rows in NETWORKS.items()} == {"mlp": 10, "lenet": 14, "vgg": 21, "resnet8": 30}
