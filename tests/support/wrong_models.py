"""The table of wrong models, with the places that the two validators name, and right models beside them.

The planner's side validates a model (`tmmu.ir.validate`) before it orders the nodes; the verifier reads the same form
by itself (`proofs.readers.models.ir`). If only one of them refuses a model, the row has the other's reason instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.support.text_models import text_model
from tmmu.core.dims.expressions import symbol
from tmmu.core.vocabulary import MAX_BODY_DEPTH, Body, Model, Role, Scratch, Tensor, View

SHAPES, OVERFLOW, ALIGNMENT = "INVALID_IR_SHAPES", "ALLOCATION_OVERFLOW", "ALIGNMENT_VIOLATION"
M = symbol("m", 1, 64)


@dataclass(frozen=True)
class Accepted:
    """The reason why one validator accepts a model that the other refuses."""

    why: str


ENOUGH = Accepted("a model file is validated before the verifier reads it, and its reading does not depend on this")
NO_FILE = Accepted("no file can state it: `tmmu.ir.columns` refuses an index that is not a row")
UNORDERED = Accepted("nodes are put into order afterwards (`tmmu.ir.order`), or are found to be in a circle there")
UNNAMED = Accepted("the planner gives copies and scratch names that no tensor has")
Answer = str | Accepted


@dataclass(frozen=True)
class WrongModel:
    """A model and the places that planner and verifier name. A place begins with the code unless it is INVALID_IR."""

    name: str
    model: Model
    planner: Answer
    verifier: Answer

    def __str__(self) -> str:
        return self.name


def of(model: Model, fields: Mapping[str, Mapping[str, Any]]) -> Model:
    """Change fields of the tensors and nodes that have these names."""
    tensors = tuple(replace(tensor, **fields.get(tensor.name, {})) for tensor in model.tensors)
    nodes = tuple(replace(node, **fields.get(node.name, {})) for node in model.nodes)
    return replace(model, tensors=tensors, nodes=nodes)


def body(model: Model, number: int, **fields: Any) -> Model:
    """Change fields of one body."""
    return replace(model, bodies=tuple(replace(b, **fields) if k == number else b for k, b in enumerate(model.bodies)))


def result(**fields: Any) -> Model:
    """Return a model with one node, whose result has these fields, and with a dimension."""
    return of(text_model("dim m 1 64", "node relu Relu x -> y"), {"y": fields})


def nested(depth: int) -> Model:
    """Return a model whose bodies nest `depth` deep."""
    begins = [line for n in range(depth) for line in (f"begin if{n} If x -> y{n}", f"arm then -> y{n + 1}")]
    ends = [f"end if{n}" for n in reversed(range(depth))]
    return text_model(*begins, f"node relu Relu x -> y{depth}", *ends, outputs="y0")


def branches(*arms: str, behind: str = "") -> Model:
    """Return a model with an If of these arms, each `INPUTS -> OUTPUTS; NODE`, and a node behind it."""
    lines = [line for k, arm in enumerate(arms) for line in f"arm b{k} {arm}".split(";")]
    return text_model("begin if If x -> y", *lines, "end if", *filter(None, behind.split(";")))


ONE = text_model("node relu Relu x -> y")
"""`x` and `y` are its tensors 0 and 1."""
LOOP = text_model(
    "node neg Neg x -> a", "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i a -> o", "end loop1"
)
"""`x`, `a`, `y`, `i` and `o` are its tensors 0 to 4."""
HANDED_ON = text_model("begin loop1 Loop x -> y", "arm body i -> i loop", "end loop1")
TWO = nested(2)

RIGHT: dict[str, Model] = {
    "one node": ONE,
    "an input that is an output": text_model(outputs="x"),
    "a loop that captures": LOOP,
    "bodies nested as deep as can be": nested(MAX_BODY_DEPTH),
    "an input that is mutated": text_model("node change Change x -> x changes x", outputs="x"),
    "donated tensors of the caller": text_model(
        "node relu Relu x -> y", "tensor x u8 64 donated", "tensor w u8 64 donated", parameters="w"
    ),
    "a view of a half": text_model("node view1 View x -> y", "tensor y u8 32 align 32 view x 32"),
    "a dimension": text_model("dim m 1 64", "node relu Relu x -> y", "tensor y u8 m"),
    "a view over a dimension": text_model("dim m 1 64", "node view1 View x -> y", "tensor y u8 m view x 0"),
    "tensors and scratch without bytes": text_model("node relu Relu x -> y scratch 0", sizes={"x": 0, "y": 0}),
    "an alias group": text_model("node relu Relu x -> y", "alias g x y"),
    "a view inside of a body": text_model(
        "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "  node relu2 Relu o -> p",
        "end loop1", "tensor p u8 64 view o 0",
    ),
    "the largest size and alignment": Model(
        "large", (Tensor("x", ((1 << 64) - 1,), "uint8", Role.INPUT, (1 << 64) - 1, 1 << 63),), (),
        (Body(-1, "", (0,), (0,)),),
    ),
}  # fmt: skip


def wrong(name: str, model: Model, planner: Answer, verifier: Answer) -> WrongModel:
    """Return a row."""
    return WrongModel(name, model, planner, verifier)


NAMES = [
    wrong("two tensors of one name", of(ONE, {"y": {"name": "x"}}), "tensor 'x'", "x"),
    wrong("two nodes of one name", of(LOOP, {"neg": {"name": "relu"}}), "node 'relu'", "relu"),
    wrong("a tensor without a name", of(ONE, {"y": {"name": ""}}), "tensor", ENOUGH),
    wrong("a node without a name", of(ONE, {"relu": {"name": ""}}), "node", ""),
    wrong("a name with a NUL", of(ONE, {"y": {"name": "a\0b"}}), "tensor", ENOUGH),
    wrong("a tensor with the name of a copy", of(HANDED_ON, {"x": {"name": "loop1/body/i.copy0"}}), UNNAMED,
          "loop1/body/i.copy0"),
    wrong("a tensor with the name of a scratch", text_model("node mul Mul x -> mul.scratch0 y scratch 1"), UNNAMED,
          "mul.scratch0"),
    wrong("a donated result", text_model("node relu Relu x -> y", "tensor y u8 64 donated"), "donated 'y'", ENOUGH),
]  # fmt: skip

SIZES = [
    wrong("a negative dimension", result(shape=(-1,)), f"{SHAPES} tensor 'y'", ENOUGH),
    wrong("a negative size", result(bytes=-1), f"{SHAPES} tensor 'y'", "y"),
    wrong("an unknown element type", result(dtype="float31", bytes=8), f"{SHAPES} tensor 'y'", "y"),
    wrong("a size beyond 64 bits", result(shape=(1 << 32, 1 << 32)), f"{OVERFLOW} tensor 'y'", ENOUGH),
    wrong("a size that is not the shape's", result(bytes=63), f"{SHAPES} tensor 'y'", ENOUGH),
    wrong("an alignment of 3", result(alignment=3), f"{ALIGNMENT} tensor 'y'", ENOUGH),
    wrong("an alignment of 0", result(alignment=0), f"{ALIGNMENT} tensor 'y'", "y"),
    wrong("an alignment of 2**64", result(alignment=1 << 64), f"{ALIGNMENT} tensor 'y'", ENOUGH),
    wrong("a size below its maximum", result(shape=(M,), bytes=63), f"{SHAPES} tensor 'y'", ENOUGH),
    wrong("a size at the wrong end", result(shape=(65 - M,), bytes=1), f"{SHAPES} tensor 'y'", ENOUGH),
    wrong("a dimension below 0", result(shape=(M - 2,), bytes=62), f"{SHAPES} tensor 'y'", "y"),
    wrong("a dimension without a range", replace(result(shape=(M,)), bindings=ONE.bindings), f"{SHAPES} tensor 'y'",
          ENOUGH),
    wrong("a scratch aligned to 3", of(ONE, {"relu": {"scratch": (Scratch(8, 3),)}}), "node 'relu'", ENOUGH),
    wrong("a scratch of a negative size", of(ONE, {"relu": {"scratch": (Scratch(-1, 1),)}}), "node 'relu'",
          "relu.scratch0"),
    wrong("a scratch beyond 64 bits", of(ONE, {"relu": {"scratch": (Scratch(1 << 64, 1),)}}), "node 'relu'", ENOUGH),
]  # fmt: skip

INDICES = [
    wrong("no main graph", replace(LOOP, bodies=()), NO_FILE, "small"),
    wrong("a node reads no row", of(LOOP, {"neg": {"reads": (99,)}}), NO_FILE, "neg"),
    wrong("a node writes no row", of(LOOP, {"neg": {"writes": (-1,)}}), NO_FILE, "neg"),
    wrong("a node mutates no row", of(LOOP, {"neg": {"mutates": (99,)}}), NO_FILE, "neg"),
    wrong("a node works in place of no row", of(LOOP, {"neg": {"in_place": ((0, 99),)}}), NO_FILE, "neg"),
    wrong("a node is in no body", of(LOOP, {"neg": {"body": 2}}), NO_FILE, "neg"),
    wrong("a body is given no row", body(LOOP, 1, inputs=(99,)), NO_FILE, "body 1"),
    wrong("a body returns no row", body(LOOP, 0, outputs=(-1,)), NO_FILE, "body 0"),
    wrong("a body is of no node", body(LOOP, 1, owner=9), NO_FILE, "body 1"),
    wrong("an inner body is of no node", body(LOOP, 1, owner=-1), NO_FILE, "body 1"),
    wrong("a view shows no row", of(LOOP, {"a": {"view": View(99, 0, 64)}}), NO_FILE, "a"),
    wrong("no row must not alias", replace(LOOP, must_not_alias=((0, 99),)), NO_FILE, "small"),
]  # fmt: skip

BODIES = [
    wrong("a main graph with an owner", body(LOOP, 0, owner=0), "body 0", "small"),
    wrong("a main graph that iterates", body(LOOP, 0, iterates=True), "body 0", ENOUGH),
    wrong("a body before the one that holds it", replace(TWO, bodies=tuple(TWO.bodies[k] for k in (0, 2, 1))),
          "body 'then' of node 'if1'", "if0"),
    wrong("a body that holds itself", of(LOOP, {"loop1": {"body": 1}}), "body 'body' of node 'loop1'",
          "the model's outputs"),
    wrong("bodies nested too deeply", nested(MAX_BODY_DEPTH + 1), f"body 'then' of node 'if{MAX_BODY_DEPTH}'", ENOUGH),
    wrong("a body without a name", body(LOOP, 1, attribute=""), "body '' of node 'loop1'", ENOUGH),
    wrong("a body's name with a slash", body(LOOP, 1, attribute="a/b"), "body 'a/b' of node 'loop1'", ENOUGH),
    wrong("a body's name with a NUL", body(LOOP, 1, attribute="a\0b"), "body 'a\\x00b' of node 'loop1'", ENOUGH),
    wrong("two bodies of one name", replace(LOOP, bodies=(*LOOP.bodies, LOOP.bodies[1])), "node 'loop1'", "loop1/body"),
]  # fmt: skip

WRITERS = [
    wrong("a formal input twice", body(LOOP, 1, inputs=(3, 3)), "tensor 'i'", "loop1"),
    wrong("a formal input of two bodies", branches("i -> i", "i -> i"), "tensor 'i'", "if"),
    wrong("a graph input that is formal too", text_model("begin loop1 Loop x -> y", "arm body x -> x", "end loop1"),
          "tensor 'x'", "loop1"),
    wrong("a graph input twice", body(ONE, 0, inputs=(0, 0)), "tensor 'x'", ENOUGH),
    wrong("a graph output twice", body(ONE, 0, outputs=(1, 1)), "tensor 'y'", "y"),
    wrong("a result listed twice", text_model("node relu Relu x -> y y"), "node 'relu'", "relu"),
    wrong("a result of two nodes", text_model("node relu Relu x -> y", "node neg Neg x -> y"), "node 'neg'", "neg"),
    wrong("a result that is a graph input", text_model("node neg Neg p -> y", "node relu Relu p -> x", parameters="p"),
          "node 'relu'", "relu"),
    wrong("a result that is a parameter", text_model("node relu Relu x -> w", parameters="w", outputs="x"),
          "node 'relu'", ENOUGH),
    wrong("a result that is a formal input", branches("f -> f; node neg Neg x -> f"), "node 'neg'", "neg"),
    wrong("a mutation that is not read", text_model("node change Change -> x changes x", outputs="x"), "node 'change'",
          ENOUGH),
    wrong("a mutation that is not written", text_model("node relu Relu x -> y changes x"), "node 'relu'", "relu"),
    wrong("a mutation of what nothing writes", text_model("node relu Relu x z -> y z changes z"), "tensor 'z'", "relu"),
    wrong("a mutation before the write", text_model("node relu Relu x a -> a changes a", "node neg Neg x -> a y"),
          UNORDERED, "relu"),
    wrong("a mutation by a node with bodies",
          text_model("begin loop1 Loop x -> x changes x", "arm body i -> i", "end loop1", outputs="x"), "node 'loop1'",
          ENOUGH),
    wrong("a read of what nothing writes", text_model("node add Add x a -> y"), "tensor 'a'", "add"),
    wrong("a graph output that nothing writes", text_model("node relu Relu x -> z"), "tensor 'y'",
          "the model's outputs"),
    wrong("a body's output that nothing writes", branches("-> z; node neg Neg x -> a"), "tensor 'z'", "if"),
    wrong("a tensor that nothing writes and nothing reads",
          replace(ONE, tensors=(*ONE.tensors, Tensor("lost", (1,), "int8", Role.ACTIVATION, 1))), "tensor 'lost'",
          "lost"),
    wrong("a graph input that the caller does not write", of(ONE, {"x": {"role": Role.ACTIVATION}}), "tensor 'x'",
          ENOUGH),
    wrong("a formal input that the caller writes", of(LOOP, {"i": {"role": Role.PARAMETER}}), "tensor 'i'", ENOUGH),
]  # fmt: skip

SCOPES = [
    wrong("a read before the write", text_model("node relu Relu a -> y", "node neg Neg x -> a"), UNORDERED, "relu"),
    wrong("a read by the node that writes", text_model("node relu Relu y -> y"), UNORDERED, "relu"),
    wrong("a body returns what its node writes",
          text_model("begin if If x -> a", "arm then -> a", "  node neg Neg x -> b", "end if", "node abs Abs a -> y"),
          UNORDERED, "if"),
    wrong("a read from inside another body", branches("-> a; node neg Neg x -> a", behind="node abs Abs a -> z"),
          "node 'abs'", "abs"),
    wrong("a read from the other arm", branches("-> a; node neg Neg x -> a", "-> b; node abs Abs a -> b"), "node 'abs'",
          "abs"),
    wrong("a body returns a value of another body", branches("-> a; node neg Neg x -> a", "-> a; node abs Abs x -> b"),
          "body 2", "if"),
    wrong("a graph output from inside a body", body(LOOP, 0, outputs=(2, 4)), "body 0", "the model's outputs"),
]  # fmt: skip

SHARING = [
    wrong("a view beyond its base", text_model("node view1 View x -> y", "tensor y u8 64 view x 1"), "tensor 'y'", "y"),
    wrong("a view before its base", of(ONE, {"y": {"view": View(0, -1, 64)}}), NO_FILE, "y"),
    wrong("a view of another size than its tensor", of(ONE, {"y": {"view": View(0, 0, 16)}}), "tensor 'y'", "y"),
    wrong("a view beyond its base at one shape",
          text_model("dim m 1 64", "node view1 View x -> y", "tensor x u8 m", "tensor y u8 (65-m) view x 0"),
          "tensor 'y'", ENOUGH),
    wrong("a view at an odd byte", text_model("node view1 View x -> y", "tensor y u8 32 align 4 view x 2"),
          f"{ALIGNMENT} tensor 'y'", ENOUGH),
    wrong("a view of a tensor that is not read",
          text_model("node view1 View x -> y", "node relu Relu x -> a", "tensor y u8 64 view a 0"), "tensor 'y'",
          ENOUGH),
    wrong("a view that the caller makes", text_model("node relu Relu x -> y", "tensor x u8 64 view y 0"), "tensor 'x'",
          "x"),
    wrong("views that show each other",
          text_model("node mul Mul p q r -> y", "tensor p u8 64 view q 0", "tensor q u8 64 view r 0",
                     "tensor r u8 64 view q 0", parameters="p q r"),
          "tensor 'p'", "q"),
    wrong("a view of a captured value", of(branches("-> v; node view1 View x -> v"), {"v": {"view": View(0, 0, 64)}}),
          "tensor 'v'", ENOUGH),
    wrong("a view of a formal input", of(LOOP, {"o": {"view": View(3, 0, 64)}}), "tensor 'o'", ENOUGH),
    wrong("a view in an alias group", text_model("node view1 View x -> y", "tensor y u8 64 view x 0", "alias g x y"),
          "tensor 'y'", ENOUGH),
    wrong("an alias group of one tensor", of(ONE, {"y": {"alias_group": "g"}}), "alias group 'g'", ENOUGH),
    wrong("an alias group across a body", of(LOOP, {"o": {"alias_group": "g"}, "a": {"alias_group": "g"}}),
          "alias group 'g'", ENOUGH),
    wrong("an alias group with a formal input", of(LOOP, {"o": {"alias_group": "g"}, "i": {"alias_group": "g"}}),
          "alias group 'g'", ENOUGH),
    wrong("a hint for a result that is not written", text_model("node relu Relu x -> y inplace x x"), "node 'relu'",
          ENOUGH),
    wrong("a hint for an operand that is not read", text_model("node relu Relu x -> y inplace y y"), "node 'relu'",
          ENOUGH),
    wrong("a tensor that must not alias itself", text_model("node relu Relu x -> y", "apart x x"), "must_not_alias",
          ENOUGH),
]  # fmt: skip

TABLE = [*NAMES, *SIZES, *INDICES, *BODIES, *WRITERS, *SCOPES, *SHARING]
