"""Plans and models of any size that are made to be slow: wide steps, chains, nesting, aliases, exclusive arms.

Each is a function of a size to the text of a plan or of a model, or to an ONNX model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from onnx import FunctionProto, NodeProto, TensorProto, ValueInfoProto, helper

from tmmu.core.vocabulary import MAX_BODY_DEPTH, MAX_EXCLUSIVE_ARMS

OPSET, OWN = helper.make_opsetid("", 17), helper.make_opsetid("own", 1)


def plan(*lines: Iterable[str], room: int) -> str:
    """A text plan of one arena, in which x is an input at byte 0 and c at byte 8."""
    head = ("tmmu-plan-text 1", f"arena a {room}", "tensor x 8 a 0 input", "tensor c 8 a 8 input")
    return "\n".join(chain(head, *lines)) + "\n"


def tensors(name: str, count: int, start: int = 16, apart: int = 16, rest: str = "") -> Iterator[str]:
    """Tensors of 8 bytes, each so many bytes after the one before; K in what follows is the number of each."""
    return (f"tensor {name}{k} 8 a {start + apart * k} {rest.replace('K', str(k - 1))}" for k in range(count))


def listed(name: str, count: int) -> str:
    """The names of tensors, in a row."""
    return " ".join(f"{name}{k}" for k in range(count))


def wide_step(n: int) -> str:
    """One step reads n tensors and writes n."""
    step = f"step s com.x::Many {listed('r', n)} -> {listed('w', n)}"
    return plan(tensors("r", n, rest="input"), tensors("w", n, 16 + 16 * n), [step], room=32 * n + 16)


def wide_change(n: int) -> str:
    """One step changes n tensors that the caller has not given up."""
    names = listed("r", n)
    step = f"step s com.x::Many {names} -> {names} changes {names}"
    return plan(tensors("r", n, rest="optimizer"), [step], room=16 * n + 16)


def wide_scratch(n: int) -> str:
    """One step has n scratch tensors."""
    return plan(
        tensors("s", n, rest="scratch"),
        [f"step s com.x::Many x {listed('s', n)} -> {listed('s', n)}"],
        room=16 * n + 16,
    )


def wide_loop(n: int) -> str:
    """A loop has n results."""
    lines = (
        "begin l Loop c -> loop", f"step s com.x::Many x -> {listed('b', n)}",
        f"end l {listed('b', n)} -> {listed('w', n)}",
    )  # fmt: skip
    return plan(tensors("b", n), tensors("w", n, 16 + 16 * n), lines, room=32 * n + 16)


def chain_of_steps(n: int) -> str:
    """Each step reads what the one before has written, in two places by turns."""
    made = (f"tensor t{k} 8 a {16 + 8 * (k % 2)}" for k in range(n))
    return plan(made, (f"step s{k} Gemm {f't{k - 1}' if k else 'x'} -> t{k}" for k in range(n)), room=32)


def chain_of_views(n: int) -> str:
    """Each is a view of the one before."""
    made = (f"tensor t{k} 8 a 0 view {f't{k - 1}' if k else 'x'} 0" for k in range(n))
    return plan(made, (f"step s{k} Reshape {f't{k - 1}' if k else 'x'} -> t{k}" for k in range(n)), room=16)


def views_of_one(n: int) -> str:
    """One step makes n views of one tensor."""
    made = (f"tensor t{k} 8 a 0 view x 0" for k in range(n))
    return plan(made, [f"step s com.x::Many x -> {listed('t', n)}"], room=16)


def windows_of_one(n: int) -> str:
    """Views of one tensor that overlap their neighbours, all read at the end."""
    made = (f"tensor t{k} 64 a {16 + 8 * k} view base {8 * k}" for k in range(n))
    steps = (f"step {word}{k} com.x::{word} {reads}" for word in ("Look", "Read") for k in range(n)
             for reads in (f"base -> t{k}" if word == "Look" else f"t{k} ->",))  # fmt: skip
    return plan([f"tensor base {8 * n + 64} a 16 input"], made, steps, room=8 * n + 80)


def steps_in_place(n: int) -> str:
    """Each step writes over the bytes that it reads."""
    made = (f"tensor t{k} 8 a 16 {f'inplace t{k - 1}' if k else ''}" for k in range(n))
    return plan(made, (f"step s{k} Relu {f't{k - 1}' if k else 'x'} -> t{k}" for k in range(n)), room=32)


def all_live(n: int) -> str:
    """Everything is written before anything is read."""
    steps = (f"step {word}{k} {does}" for word in "wr" for k in range(n)
             for does in (f"Gemm x -> t{k}" if word == "w" else f"com.x::Read t{k} ->",))  # fmt: skip
    return plan(tensors("t", n), steps, room=16 * n + 16)


def in_one_place(n: int) -> str:
    """All are live in the same bytes."""
    return plan(tensors("t", n, apart=0, rest="input"), [f"step s com.x::Many {listed('t', n)} ->"], room=32)


def many_arenas(n: int) -> str:
    """Each tensor has an arena of its own, and an exclusive node that writes it."""
    made = chain.from_iterable((f"arena a{k} 64", f"tensor t{k} 8 a{k} 0") for k in range(n))
    return plan(made, chain.from_iterable(map(_branch, range(n))), room=16)


def kept_apart(n: int) -> str:
    """One tensor is kept apart from n others."""
    return plan(
        tensors("t", n), (f"step s{k} Gemm x -> t{k}" for k in range(n)), (f"apart x t{k}" for k in range(n)),
        room=16 * n + 16,
    )  # fmt: skip


def lifetimes(n: int) -> str:
    """Buffers without steps."""
    made = (f"buffer b{k} 8 a {16 * (k % 7)} live {k} {k + 3}" for k in range(n))
    return "\n".join(("tmmu-plan-text 1", "arena a 128", *made)) + "\n"


def many_loops(n: int) -> str:
    """n loops one after the other, each reading a tensor from outside."""
    lines = (
        line
        for k in range(n)
        for line in (f"begin l{k} Loop c -> loop", f"step s{k} com.x::Read t{k} ->", f"end l{k} ->")
    )
    return plan(tensors("t", n, rest="input"), lines, room=16 * n + 16)


def deep_loops(n: int) -> str:
    """Loops in each other, as deep as the gate allows, and n steps in the innermost."""
    opened = (f"begin l{d} Loop c -> loop" for d in range(MAX_BODY_DEPTH))
    closed = (f"end l{d} ->" for d in reversed(range(MAX_BODY_DEPTH)))
    steps = (f"step s{k} com.x::Read t{k} ->" for k in range(n))
    return plan(tensors("t", n, rest="input"), opened, steps, closed, room=16 * n + 16)


def _branch(k: int, arms: int = 2) -> Iterator[str]:
    """An exclusive node of which each arm writes tensor k."""
    yield f"begin n{k} If c -> exclusive"
    for arm in range(arms):
        yield from (["arm"] if arm else [])
        yield f"step s{k}_{arm} Gemm x -> t{k}"
    yield f"end n{k} ->"


def many_branches(n: int) -> str:
    """n exclusive nodes of two arms."""
    return plan(tensors("t", n), chain.from_iterable(map(_branch, range(n))), room=16 * n + 16)


def many_arms(n: int) -> str:
    """n arms, as many a node as the gate allows."""
    nodes = n // MAX_EXCLUSIVE_ARMS
    lines = chain.from_iterable(_branch(k, MAX_EXCLUSIVE_ARMS) for k in range(nodes))
    return plan(tensors("t", nodes), lines, room=16 * n + 16)


def branches_that_return(n: int) -> str:
    """n exclusive nodes, the outputs of whose arms become their result."""
    lines = (
        line for k in range(n) for line in (
            f"begin n{k} If c -> exclusive", f"step s{k} Gemm x -> a{k}", "arm", f"step t{k} Gemm x -> b{k}",
            f"end n{k} a{k} b{k} -> t{k}",
        )
    )  # fmt: skip
    return plan(tensors("t", n), tensors("a", n), tensors("b", n), lines, room=16 * n + 16)


def values_of_many(n: int) -> str:
    """After each of n exclusive nodes the same bytes may hold one tensor more."""
    lines = (
        line for k in range(n) for line in (
            f"begin n{k} If c -> exclusive", f"step s{k} Gemm x -> t{k}", f"step r{k} com.x::Read t{k} ->", "arm",
            f"step o{k} com.x::Read x ->", f"end n{k} ->",
        )
    )  # fmt: skip
    return plan(tensors("t", n, apart=0), lines, room=32)


def large_and_small(n: int) -> str:
    """In one arm n tensors after one another in all bytes, and then n beside one another in the same."""
    steps = (f"step {name}{k} Gemm x -> {name}{k}" for name in "bt" for k in range(n))
    lines = ("begin n If c -> exclusive", *steps, "arm", "step o com.x::Read x ->", "end n ->")
    return plan((f"tensor b{k} {16 * n} a 16" for k in range(n)), tensors("t", n), lines, room=16 * n + 16)


def deep_branches(n: int) -> str:
    """Exclusive nodes in each other, sixteen deep, and n steps in the innermost arm."""
    opened = (
        line for d in range(16) for line in (f"begin n{d} If c -> exclusive", f"step o{d} com.x::Read x ->", "arm")
    )
    steps = (f"step s{k} Gemm x -> t{k}" for k in range(n))
    return plan(tensors("t", n), opened, steps, (f"end n{d} ->" for d in reversed(range(16))), room=16 * n + 16)


def model(*lines: Iterable[str]) -> str:
    """A text model, in which x and c are inputs."""
    return "\n".join(chain(("tmmu-ir-text 1", "tensor x float32 4 input", "tensor c float32 4 input"), *lines)) + "\n"


def typed(name: str, count: int, rest: str = "") -> Iterator[str]:
    """Tensors of four floats each; the last is an output."""
    return (f"tensor {name}{k} float32 4 {rest}{' output' if k == count - 1 else ''}" for k in range(count))


def model_wide(n: int) -> str:
    """One node reads n tensors and writes n in their place."""
    written = (f"tensor w{k} float32 4 output" for k in range(n))
    places = " ".join(f"inplace w{k} r{k}" for k in range(n))
    node = f"node s com.x::Many {listed('r', n)} -> {listed('w', n)} {places}"
    return model((f"tensor r{k} float32 4 input" for k in range(n)), written, [node])


def model_chain(n: int) -> str:
    """Each node reads what the one before has written, and the input."""
    return model(typed("t", n), (f"node n{k} Add {f't{k - 1}' if k else 'x'} x -> t{k}" for k in range(n)))


def model_views(n: int) -> str:
    """Each is a view of the one before."""
    before = [f"t{k - 1}" if k else "x" for k in range(n)]
    made = (f"tensor t{k} float32 4 view {of} 0{' output' if k == n - 1 else ''}" for k, of in enumerate(before))
    return model(made, (f"node n{k} Reshape {of} -> t{k}" for k, of in enumerate(before)))


def model_alias_group(n: int) -> str:
    """An alias group of n members."""
    nodes = (f"node n{k} com.x::F x -> t{k}" for k in range(n))
    return model(typed("t", n), nodes, [f"alias g {listed('t', n)}"])


def model_dims(n: int) -> str:
    """n dimensions, each with a range."""
    return model((f"dim d{k} 1 4" for k in range(n)), ["tensor y float32 d0 output", "node n com.x::F x -> y"])


def model_of_sizes(n: int) -> str:
    """A chain of n tensors whose size depends on a dimension with a range."""
    made = (f"tensor t{k} float32 bx4{' output' if k == n - 1 else ''}" for k in range(n))
    nodes = (f"node n{k} Relu {f't{k - 1}' if k else 'v'} -> t{k}" for k in range(n))
    return model(["dim b 1 4", "tensor v float32 bx4 input"], made, nodes)


SHARDS = """
[mesh]
data = 2
[zero]
axis = "data"
stage = 3
[[rules]]
names = ["v"]
split = ["data"]
"""
"""A spec for `model_of_layers`: the batch in halves, each parameter gathered for the step that computes with it."""


def model_of_layers(n: int) -> str:
    """n layers, with a parameter each."""
    made = (f"tensor w{k} float32 4x4 parameter" for k in range(n))
    results = (f"tensor t{k} float32 8x4{' output' if k == n - 1 else ''}" for k in range(n))
    nodes = (f"node n{k} MatMul {f't{k - 1}' if k else 'v'} w{k} -> t{k}" for k in range(n))
    return model(["tensor v float32 8x4 input"], made, results, nodes)


def model_changes(n: int) -> str:
    """One node changes n tensors."""
    names = listed("p", n)
    made = (f"tensor p{k} float32 4 optimizer" for k in range(n))
    return model(made, ["tensor y float32 4 output", f"node s com.x::Many {names} -> y {names} changes {names}"])


def model_bodies(n: int) -> str:
    """One node has n bodies."""
    arms = (line for k in range(n) for line in (f"arm b{k} -> loop", f"node n{k} Relu x -> t{k}"))
    return model((f"tensor t{k} float32 4" for k in range(n)), ["begin n com.x::Call c ->"], arms, ["end n"])


def model_branches(n: int) -> str:
    """n nodes of two arms."""
    made = (f"tensor {name}{k} float32 4{' output' if name == 't' else ''}" for name in "abt" for k in range(n))
    lines = (
        line for k in range(n) for line in (
            f"begin n{k} If c -> t{k}", f"arm then_branch -> a{k}", f"node s{k} Relu x -> a{k}",
            f"arm else_branch -> b{k}", f"node o{k} Relu x -> b{k}", f"end n{k}",
        )
    )  # fmt: skip
    return model(made, lines)


def model_deep(n: int) -> str:
    """Bodies in each other, as deep as may be, and n nodes in the innermost."""
    opened = (line for d in range(MAX_BODY_DEPTH) for line in (f"begin b{d} com.x::Call c ->", "arm body -> loop"))
    nodes = (f"node n{k} Relu x -> t{k}" for k in range(n))
    closed = (f"end b{d}" for d in reversed(range(MAX_BODY_DEPTH)))
    return model((f"tensor t{k} float32 4" for k in range(n)), opened, nodes, closed)


def model_wide_loop(n: int) -> str:
    """A loop carries n values."""
    made = (
        f"tensor {name}{k} float32 4 {role}"
        for name, role in (("x", "input"), ("f", ""), ("g", ""), ("y", "output")) for k in range(n)
    )  # fmt: skip
    lines = (
        f"begin l com.x::Loop c {listed('x', n)} -> {listed('y', n)}",
        f"arm body {listed('f', n)} -> {listed('g', n)} loop",
        *(f"node n{k} Relu f{k} -> g{k}" for k in range(n)), "end l",
    )  # fmt: skip
    return model(made, lines)


def value(name: str, *shape: int, dtype: int = TensorProto.FLOAT) -> ValueInfoProto:
    """An ONNX value."""
    return helper.make_tensor_value_info(name, dtype, shape)


def onnx_model(
    nodes: Iterable[NodeProto], outputs: Iterable[ValueInfoProto], inputs: Iterable[ValueInfoProto] = (),
    stored: Iterable[TensorProto] = (), functions: Iterable[FunctionProto] = (),
) -> bytes:  # fmt: skip
    """An ONNX model, in which x and c are inputs."""
    given = (value("x", 4), value("c", dtype=TensorProto.BOOL), *inputs)
    graph = helper.make_graph(list(nodes), "hostile", given, list(outputs), list(stored))
    made = helper.make_model(graph, opset_imports=[OPSET, OWN], ir_version=8, functions=list(functions))
    data: bytes = made.SerializeToString()
    return data


def relus(n: int, name: str = "t", first: str = "x") -> list[NodeProto]:
    """A chain of n nodes."""
    return [helper.make_node("Relu", [f"{name}{k - 1}" if k else first], [f"{name}{k}"]) for k in range(n)]


def onnx_chain(n: int) -> bytes:
    """Each node reads what the one before has written, and a stored value of its own."""
    nodes = (helper.make_node("Add", [f"t{k - 1}" if k else "x", f"w{k}"], [f"t{k}"]) for k in range(n))
    stored = (helper.make_tensor(f"w{k}", TensorProto.FLOAT, [4], [0.0] * 4) for k in range(n))
    return onnx_model(nodes, [value(f"t{n - 1}", 4)], stored=stored)


def onnx_wide(n: int) -> bytes:
    """One node makes n tensors of one, another one of n."""
    names = [f"t{k}" for k in range(n)]
    nodes = (helper.make_node("Split", ["r"], names, axis=0), helper.make_node("Concat", names, ["y"], axis=0))
    return onnx_model(nodes, [value("y", n)], [value("r", n)])


def onnx_shapes(n: int) -> bytes:
    """A shape is handed through n nodes before it is used."""
    passed = (helper.make_node("Identity", [f"s{k}"], [f"s{k + 1}"]) for k in range(n))
    ends = helper.make_node("Shape", ["x"], ["s0"]), helper.make_node("Reshape", ["x", f"s{n}"], ["y"])
    return onnx_model((ends[0], *passed, ends[1]), [value("y", 4)])


def onnx_branches(n: int) -> bytes:
    """n Ifs."""
    arms = (
        [helper.make_graph([helper.make_node("Relu", ["x"], [f"{a}{k}"])], a, [], [value(f"{a}{k}", 4)]) for a in "ab"]
        for k in range(n)
    )
    nodes = (
        helper.make_node("If", ["c"], [f"t{k}"], then_branch=then, else_branch=other)
        for k, (then, other) in enumerate(arms)
    )
    return onnx_model(nodes, [value(f"t{n - 1}", 4)])


def onnx_deep(n: int) -> bytes:
    """Ifs in each other, sixteen deep, and n nodes in the innermost arm."""
    nodes, out = relus(n), f"t{n - 1}"
    for d in range(16):
        then = helper.make_graph(nodes, "then", [], [value(out, 4)])
        other = helper.make_graph([helper.make_node("Relu", ["x"], [f"e{d}"])], "else", [], [value(f"e{d}", 4)])
        out = f"y{d}"
        nodes = [helper.make_node("If", ["c"], [out], then_branch=then, else_branch=other)]
    return onnx_model(nodes, [value(out, 4)])


def onnx_wide_loop(n: int) -> bytes:
    """A Loop carries n values."""
    carried = [f"t{k}" for k in range(n)]
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            *(helper.make_node("Relu", [f"f{k}"], [f"g{k}"]) for k in range(n)),
        ],
        "body",
        [
            value("i", dtype=TensorProto.INT64),
            value("go", dtype=TensorProto.BOOL),
            *(value(f"f{k}", 4) for k in range(n)),
        ],
        [value("on", dtype=TensorProto.BOOL), *(value(f"g{k}", 4) for k in range(n))],
    )
    loop = helper.make_node("Loop", ["m", "c", *["x"] * n], carried, body=body)
    return onnx_model([loop], [value(name, 4) for name in carried], [value("m", dtype=TensorProto.INT64)])


def onnx_calls(n: int) -> bytes:
    """A local function is called n times."""
    called = helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [OPSET])
    nodes = (helper.make_node("F", [f"t{k - 1}" if k else "x"], [f"t{k}"], domain="own") for k in range(n))
    return onnx_model(nodes, [value(f"t{n - 1}", 4)], functions=[called])
