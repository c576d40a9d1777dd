"""Write a model as text: the inverse of `tmmu.ir.text`. A model that a text cannot represent is refused.

spec: X3.10
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tmmu.core.dims.expressions import Unwieldy
from tmmu.core.dims.text import format_shape
from tmmu.core.dtypes import SHORT, element_alignment
from tmmu.core.errors import TmmuError
from tmmu.core.statements import format_name, format_operator
from tmmu.core.vocabulary import MAIN, Body, Model, Node, Phase, Role, Tensor
from tmmu.ir import text


def write(model: Model) -> str:
    """Return the model as text. O(model).

    Raises INVALID_IR if the text would not be read as this model: a name is empty, an output is listed twice, the nodes
    or rows of a body do not follow the node that owns it, or a dimension takes more than 4,096 characters.
    """
    try:
        found = "".join(f"{line}\n" for line in _lines(model))
    except Unwieldy as error:
        raise TmmuError(
            "INVALID_IR", f"the model cannot be written as text: {error}", fix="keep it as .ir.cbor"
        ) from error
    again = text.read(found.encode(), "text")
    if again != model:
        part = next(name for name in Model.__slots__ if getattr(again, name) != getattr(model, name))
        raise TmmuError("INVALID_IR", f"the model's {part} cannot be written as text", fix="keep it as .ir.cbor")
    return found


def _name(name: str) -> str:
    return format_name(name, text.FORMAT)


def _lines(model: Model) -> Iterator[str]:
    yield f"{text.FORMAT.title} {text.FORMAT.version}"
    yield f"model {_name(model.name)}"
    if model.source_digest is not None:
        yield f"source {model.source_digest.hex()}"
    bound = model.bindings
    yield from (f"dim {_name(name)} {size}" for name, size in bound.dims.items())
    yield from (f"dim {_name(name)} {low} {high}" for name, (low, high) in bound.ranges.items())
    yield from (f"step {_name(name)} {_name(unit)} {first} {step}" for name, (unit, first, step) in bound.steps.items())
    yield from (f"shape {_name(name)} {format_shape(shape)}" for name, shape in bound.shapes.items())
    for word, values in (("value", bound.values), ("default", bound.defaults), ("stated", bound.stated)):
        yield from (f"{word} {_name(name)} {_name(value)}" for name, value in values.items())
    if bound.trust_shapes:
        yield "trusted shapes"
    if bound.keep_inputs:
        yield "kept inputs"
    names = [_name(tensor.name) for tensor in model.tensors]
    inputs, outputs, donated = frozenset(model.inputs), frozenset(model.outputs), frozenset(bound.donated)
    for t, tensor in enumerate(model.tensors):
        marks = (t in inputs and tensor.role is not Role.INPUT, t in outputs, tensor.name in donated)
        yield " ".join(_tensor(tensor, names, marks))
    for word, listed in (("inputs", model.inputs), ("outputs", model.outputs)):
        if list(listed) != sorted(listed):
            yield " ".join((word, *(names[t] for t in listed)))
    groups: dict[str, list[str]] = {}
    for t, tensor in enumerate(model.tensors):
        if tensor.alias_group is not None:
            groups.setdefault(tensor.alias_group, []).append(names[t])
    yield from (f"alias {_name(group)} {' '.join(members)}" for group, members in groups.items())
    yield from (f"apart {names[a]} {names[b]}" for a, b in model.must_not_alias)
    yield from (f"unproduced {_name(name)}" for name in model.unproduced)
    yield from _graph(model, names)


def _tensor(tensor: Tensor, names: list[str], marks: tuple[bool, bool, bool]) -> Iterator[str]:
    yield from ("tensor", _name(tensor.name), SHORT[tensor.dtype], format_shape(tensor.shape))
    if tensor.role is not Role.ACTIVATION:
        yield str(tensor.role)
    yield from (word for word, holds in zip(("input", "output", "donated"), marks, strict=True) if holds)
    if tensor.saved_for_backward:
        yield "saved"
    if tensor.alignment != element_alignment(tensor.dtype):
        yield f"align {tensor.alignment}"
    if tensor.fixed_offset is not None:
        yield f"at {tensor.fixed_offset}"
    if tensor.view is not None:
        yield f"view {names[tensor.view.base]} {tensor.view.offset}"
        if tensor.view.strides:
            yield f"strides {'x'.join(map(str, tensor.view.strides))}"


def _graph(model: Model, names: list[str]) -> Iterator[str]:
    """Yield nodes and bodies, with a stack of those still to be written."""
    inside: list[list[int]] = [[] for _ in model.bodies]
    for n, node in enumerate(model.nodes):
        inside[node.body].append(n)
    owned: dict[int, list[int]] = {}
    for b, body in enumerate(model.bodies[1:], 1):
        owned.setdefault(body.owner, []).append(b)
    work: list[Iterator[str | int]] = [iter(inside[MAIN])]
    while work:
        item = next(work[-1], None)
        if item is None:
            work.pop()
        elif isinstance(item, str):
            yield item
        else:
            node = model.nodes[item]
            yield " ".join(_node("begin" if item in owned else "node", node, names))
            if item in owned:
                work.append(_arms(model, item, owned[item], inside, names))


def _arms(
    model: Model, owner: int, owned: Iterable[int], inside: list[list[int]], names: list[str]
) -> Iterator[str | int]:
    for b in owned:
        yield " ".join(_arm(model.bodies[b], names))
        yield from inside[b]
    yield f"end {_name(model.nodes[owner].name)}"


def _arm(body: Body, names: list[str]) -> Iterator[str]:
    yield from ("arm", _name(body.attribute), *(names[t] for t in body.inputs))
    yield from ("->", *(names[t] for t in body.outputs))
    if body.iterates:
        yield "loop"


def _node(word: str, node: Node, names: list[str]) -> Iterator[str]:
    yield from (word, _name(node.name), _name(format_operator(node.domain, node.op)))
    yield from (names[t] for t in node.reads)
    yield from ("->", *(names[t] for t in node.writes))
    for result, operand in node.in_place:
        yield f"inplace {names[result]} {names[operand]}"
    if node.mutates:
        yield " ".join(("changes", *(names[t] for t in node.mutates)))
    for request in node.scratch:
        yield f"scratch {request.bytes}" + (f" align {request.alignment}" if request.alignment != 1 else "")
        if request.arena is not None:
            yield f"arena {_name(request.arena)}"
    if node.phase is not Phase.FORWARD:
        yield str(node.phase)
    if node.opaque:
        yield "opaque"
    if node.stream:
        yield f"on {_name(node.stream)}"
    if node.after:
        yield " ".join(("after", *map(_name, node.after)))
