"""A text model is the model that it states, and what is wrong with it is named by line and column. spec: X3.1"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.text_models import text_model
from tmmu.core import statements
from tmmu.core.dims import maxima
from tmmu.core.dims.expressions import symbol
from tmmu.core.dtypes import TYPES
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Body, Model, Phase, Role, Scratch, View
from tmmu.ir import files, text, text_writer
from tmmu.ir.text import FORMAT

HEAD = "tmmu-ir-text 1\n"
CHAIN = "tensor x f32 4 input\ntensor a f32 4\ntensor y f32 4 output\nnode r Relu x -> a\nnode s Relu a -> y\n"


def read(body: str) -> Model:
    return text.read((HEAD + body).encode(), "g.ir.txt")


def test_every_statement_says_what_it_says() -> None:
    """spec: X3.2, X3.3, X3.4, X3.5, X3.6, X3.7, X3.8, X3.9, X1.3"""
    model = text.read(
        rb"""tmmu-ir-text 1  # comments and empty lines are none

model "my model"
source 00000000000000000000000000000000000000000000000000000000000000ff
dim n 1 8
dim batch 2
shape images 1x3
value k "3 4"
default d 5
trusted shapes
tensor "a b" f32 batchxnx(2*n+1) input donated
tensor w bfloat16 scalar parameter input bytes 2 align 64
tensor v f32 4 view t 16 strides -1x2
tensor t f32 8 saved
tensor u f32 8 output
tensor f f32 8
tensor z f32 8 output
alias "g 1" u f
apart t u
unproduced mask
outputs z u
begin i If w -> z
arm then_branch -> u
end i
node n jax.lax::add t "a b" -> v inplace v t backward
node m Make w -> t u f changes t scratch 16 align 8 arena big scratch 4
order m n i
""",
        "g",
    )
    row = {tensor.name: t for t, tensor in enumerate(model.tensors)}
    assert (model.name, model.source_digest, model.unproduced) == ("my model", bytes(31) + b"\xff", ("mask",))
    assert model.bindings.ranges == {"n": (1, 8)}
    assert model.bindings.dims == {"batch": 2}
    assert (model.bindings.shapes, model.bindings.values) == ({"images": (1, 3)}, {"k": "3 4"})
    assert (model.bindings.defaults, model.bindings.donated) == ({"d": "5"}, ("a b",))
    assert model.bindings.trust_shapes
    first, w, v, t, u, f, z = model.tensors
    assert (first.shape[0], str(first.shape[2]), first.bytes, first.role) == (2, "2*n + 1", 2 * 8 * 17 * 4, Role.INPUT)
    assert (w.role, w.alignment, w.shape, t.saved_for_backward, z.alignment) == (Role.PARAMETER, 64, (), True, 4)
    assert v.view == View(row["t"], 16, 16, (-1, 2))
    assert (u.alias_group, f.alias_group) == ("g 1", "g 1")
    assert (model.inputs, model.outputs) == ((row["a b"], row["w"]), (row["z"], row["u"]))
    assert [node.name for node in model.nodes] == ["m", "n", "i"]
    assert model.nodes[0].scratch == (Scratch(16, 8, "big"), Scratch(4, 1))
    assert model.nodes[0].mutates == (row["t"],)
    assert (model.nodes[1].domain, model.nodes[1].op, model.nodes[1].phase) == ("jax.lax", "add", Phase.BACKWARD)
    assert model.nodes[1].in_place == ((row["v"], row["t"]),)
    assert model.bodies[1] == Body(2, "then_branch", (), (row["u"],))
    assert text.read(text_writer.write(model).encode(), "again") == model


@pytest.mark.parametrize(
    ("body", "at", "what"),
    [
        ("tensr x f32 4", "2:1", "unknown statement tensr"),
        ("tensor x f33 4", "2:10", "expected an element type, got f33"),
        ("tensor x f32 4y4", "2:14", "expected an x"),
        ("tensor x f32 4x", "2:14", "expected sizes"),
        ("tensor x f32 nx4", "2:14", "no dimension 'n'"),
        ("tensor x f32 99999999999999999999", "2:14", "below 2^64"),
        ("tensor x f32 " + "(" * 200 + "1" + ")" * 200, "2:14", "nests deeper"),
        ("tensor x f32 1" + "x1" * 300, "2:14", "more than 256 dimensions"),
        ("dim n 1 8\ntensor x f32 (4//(n-1))", "3:14", "may be zero"),
        ("dim n 1 8\ntensor x f32 (min(n))", "3:14", "expected ,"),
        ("dim n 1 18446744073709551615\ntensor x f32 (n*n)x0", "3:14", "2^64 or more"),
        ("dim n 2 1", "2:9", "an integer from 2"),
        ("dim n 1 2\ndim n 1 2", "3:5", "dimension 'n' is declared twice"),
        ("tensor x f32 4 input scratch", "2:22", "it already has the role input"),
        ("tensor x f32 4 input input", "2:22", "the word input occurs twice"),
        ("tensor x f32 4 green", "2:16", "unknown word green"),
        ("tensor x f32 4 bytes 15", "2:22", "expected 16 bytes by shape and element type, got 15"),
        ("tensor x f32 4 align 3", "2:22", "power of two"),
        ("tensor x f32 4 view z 0", "2:21", "no line declares the tensor 'z'; add one: tensor z …"),
        ("tensor x f32 4 strides 1", "2:16", "strides of a tensor that is not a view"),
        ("tensor v f32 4 view x 0 strides 1xx\ntensor x f32 4", "2:33", "integers with x between"),
        ("dim n 1 8\ntensor t f32 n" + "xn" * 40, "3:14", "a product of more than 32 dimensions"),
        ("tensor input f32 4", "2:8", "got the word input"),
        ("tensor a->b f32 4", "2:8", "JSON string"),
        ("tensor \u200bx f32 4", "2:8", "JSON string"),
        ('tensor "x f32 4', "2:8", "unterminated JSON string"),
        (r'tensor "\ud800" f32 4', "2:8", "not a valid JSON string"),
        (r'tensor "\u0000" f32 4', "2:8", "a NUL"),
        ("tensor", "2:7", "the end of the line"),
        (CHAIN + "tensor x f32 4", "7:8", "tensor 'x' is declared twice"),
        (CHAIN + "node r Relu x -> a", "7:6", "node 'r' is declared twice"),
        (CHAIN + "node t Relu x - a", "7:15", "no line declares the tensor '-'"),
        (CHAIN + "node t Relu x y", "7:16", "expected ->"),
        (CHAIN + "node t Relu -> a backward optimizer", "7:27", "it already has the phase backward"),
        (CHAIN + "alias g x a\nalias h x", "8:9", "already in the alias group 'g'"),
        (CHAIN + "alias g", "7:8", "a second tensor"),
        (CHAIN + "alias x a", "7:10", "a second tensor; write alias GROUP A B"),
        (CHAIN + "alias g x a\nalias g x a", "8:7", "alias group 'g' is declared twice"),
        (CHAIN + "apart x a y", "7:11", "expected the end"),
        (CHAIN + "order s r", "7:1", "'s' is before 'r', which it needs"),
        (CHAIN + "order r", "7:8", "'s' is missing"),
        (CHAIN + "order r r", "7:9", "listed twice"),
        (CHAIN + "order r s\norder r s", "8:1", "the statement order occurs twice"),
        (CHAIN + "inputs a", "7:8", "not a tensor with the word input"),
        (CHAIN + "end r", "7:1", "end without begin"),
        (CHAIN + "begin i If x ->\nend i", "8:1", "has no arm"),
        (CHAIN + "begin i If x ->\nnode t Relu x ->", "8:1", "is in no arm"),
        (CHAIN + "begin i If x ->\narm one ->", "7:1", "'i' has no end"),
        (CHAIN + "begin i If x ->\narm one ->\nend r", "9:5", "expected the end of 'i', got the end of 'r'"),
        ("source 12", "2:8", "64 hexadecimal digits"),
        ("trusted tensors", "2:9", "expected shapes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_line_and_column(body: str, at: str, what: str) -> None:
    """spec: X1.4, X1.2, X1.3, X3.2, X3.3, X3.4, X3.5, X3.6, X3.7"""
    with pytest.raises(TmmuError) as refused:
        read(body)
    assert refused.value.file == f"g.ir.txt:{at}"
    assert what in str(refused.value)
    assert refused.value.code_id in ("INVALID_IR", "INVALID_IR_SHAPES")


@pytest.mark.parametrize(
    ("data", "at"),
    [
        (b"tmmu-ir-text 2\n", ":1:1"),
        (b"", ":1:1"),
        (b"tmmu-ir-text 1\ntensor \xff", ":2:8"),
        (b"tmmu-ir-text 1\n" + b" " * 100, ""),
    ],
)
def test_what_is_no_text_of_ours_is_refused(data: bytes, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: X1.1"""
    monkeypatch.setattr(statements, "LIMIT", 100)
    with pytest.raises(TmmuError) as refused:
        text.read(data, "g")
    assert refused.value.file == f"g{at}"


def test_a_text_file_is_ordered_and_validated_as_any_model(tmp_path: Path) -> None:
    """spec: X3.1, I1.7"""
    path = tmp_path / "anything"
    path.write_text(f"{HEAD}node s Relu a -> y\n{CHAIN.replace('node s Relu a -> y', '')}")
    assert [node.name for node in files.load(path).nodes] == ["r", "s"]
    path.write_text(f"{HEAD}{CHAIN}tensor b f32 4\n")
    with pytest.raises(TmmuError, match="no node writes it") as refused:
        files.load(path)
    assert refused.value.file == str(path)


def test_the_page_lists_every_element_type() -> None:
    """spec: X3.2"""
    page = (Path(__file__).parents[2] / "spec" / "text-ir.md").read_text()
    sentence = page.split("`TYPE` is one of", 1)[1].split("`alias` takes", 1)[0]
    assert set(re.findall("`([a-z0-9]+)`", sentence)) == set(TYPES)


def test_a_size_of_which_no_maximum_is_found_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: X3.4"""
    monkeypatch.setattr(maxima, "BOXES", 0)
    with pytest.raises(TmmuError, match="no maximum of its size") as refused:
        read("dim n 3 12345\ntensor t f32 n")
    assert (refused.value.file, refused.value.code_id) == ("g.ir.txt:3:14", "INVALID_IR_SHAPES")


def test_a_model_that_a_text_cannot_state_is_refused() -> None:
    """spec: X3.10"""
    model = text_model("node relu Relu x -> a", "node relu2 Relu a -> y")
    main = model.bodies[0]
    long = symbol("n" * 5000, 1, 2)
    for other, what in (
        (replace(model, name=""), "name"),
        (replace(model, bodies=(replace(main, outputs=(2, 2)),)), "bodies"),
        (replace(model, tensors=(replace(model.tensors[0], shape=(long,)), *model.tensors[1:])), "4096 characters"),
    ):
        with pytest.raises(TmmuError, match=what) as refused:
            text_writer.write(other)
        assert refused.value.code_id == "INVALID_IR"


def test_every_word_of_the_format_can_be_a_name() -> None:
    """spec: X1.3"""
    words = sorted((*FORMAT.words, "tensor", "a b", 'say "no"', "x#1", "a->b", "t\u2028", "naïve", "->", "x" * 1000))
    model = text_model("node relu Relu x -> y")
    named = replace(model, tensors=(replace(model.tensors[0], name="in"), replace(model.tensors[1], name="out")))
    for word in words:
        one = replace(named, tensors=(named.tensors[0], replace(named.tensors[1], name=word)), name=word)
        assert text.read(text_writer.write(one).encode(), "t") == one
