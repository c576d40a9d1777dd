"""Graphs of torch.fx as plain traces: the joint graph of AOTAutograd, and the update of each parameter.

The storages of the fake tensors determine which tensors share bytes, the schemas of operations which operands they
change, and the descriptors of AOTAutograd the kind of each input. spec: M2.2, I2.4, I2.7, I2.14
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Role
from tmmu.importers.conversion import bad
from tmmu.importers.traced import Op, TracedValue, TrainingTrace
from tmmu.importers.windows import row_major
from tmmu.operators import row_of

DTYPES = {
    **{name: name for name in (
        "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
        "uint8", "bool", "complex64", "complex128",
    )},
    "float8_e4m3fn": "float8e4m3fn", "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2": "float8e5m2",
    "float8_e5m2fnuz": "float8e5m2fnuz", "float8_e8m0fnu": "float8e8m0",
}  # fmt: skip
"""The name in this project for each element type of torch."""


def _describe(place: str, tensor: Any, key: object = None) -> TracedValue:
    """Describe a fake tensor as a value; its storage identifies itself unless a key is given."""
    sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    if str(tensor.layout) != "torch.strided" or any(type(size) is not int for size in sizes):
        raise bad(
            f"value {place!r}", "its size is symbolic, or it is not dense", "trace with fixed sizes and dense tensors"
        )
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise TmmuError("INVALID_IR_SHAPES", f"unknown dtype {dtype!r}", place=f"value {place!r}", node_id=place)
    storage = tensor.untyped_storage()
    return TracedValue(
        tuple(tensor.shape), DTYPES[dtype], tuple(tensor.stride()), tensor.storage_offset(),
        storage._cdata if key is None else key, storage.nbytes(),
    )  # fmt: skip


class TorchReader:
    """A trace that is being filled from graphs of torch.fx."""

    def __init__(self, trace: TrainingTrace) -> None:
        self.trace = trace
        self.parameter: dict[str, Any] = {}

    def joint(self, module: Any, trainable: dict[str, int]) -> None:
        """Read the joint graph of a module; descriptors state the kind of each placeholder and output."""
        known: dict[str, str] = {}
        gradients: dict[str, str | None] = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                known[node.name] = self._add_given(node)
            elif node.op == "get_attr" and hasattr(held := getattr(module, node.target, None), "untyped_storage"):
                known[node.name] = self._add_constant(node.name, node.meta.get("val", held))
            elif node.op == "output":
                for result, desc in zip(node.args[0], node.meta["desc"], strict=True):
                    if result is not None:
                        self.trace.outputs.append(known[result.name])
                    if type(desc).__name__ == "GradAOTOutput" and type(desc.grad_of).__name__ == "ParamAOTInput":
                        gradients[desc.grad_of.target] = None if result is None else known[result.name]
            else:
                self.operation(node, known)
        self._add_gradients(gradients, trainable)

    def _add_gradients(self, gradients: dict[str, str | None], trainable: dict[str, int]) -> None:
        """Add one gradient for each parameter: the sum of those of its names, as autograd adds for tied weights."""
        trace, names = self.trace, dict[int, list[str]]()
        for place, tensor in trainable.items():
            names.setdefault(tensor, []).append(place)
        for places in names.values():
            parts = [part for part in (gradients.get(place) for place in places) if part is not None]
            trace.gradients[places[0]] = parts[0] if parts else None
            for k, part in enumerate(parts[1:]):
                total = f"{places[0]}.accumulate{k}"
                before = trace.gradients[places[0]] or ""
                value = trace.values[before]
                trace.values[total] = TracedValue(value.shape, value.dtype, value.strides)
                trace.ops.append(Op(total, "aten", "add.Tensor", (before, part), (total,), elementwise=True))
                trace.outputs = [name for name in trace.outputs if name not in (before, part)] + [total]
                trace.gradients[places[0]] = total

    def _add_given(self, node: Any) -> str:
        desc = node.meta.get("desc")
        kind = type(desc).__name__
        if kind in ("ParamAOTInput", "BufferAOTInput"):
            name, role = str(desc.target), Role.PARAMETER
            self.parameter[name] = node.meta["val"]
        elif kind == "PlainAOTInput":
            name, role = f"input{desc.idx}", Role.INPUT
        elif kind == "TangentAOTInput":
            name, role = f"output{getattr(desc.output, 'idx', 0)}.seed", Role.INPUT
            self.trace.seeds.add(name)
        else:
            raise bad(f"input {node.name!r}", f"its kind {kind} is not supported", "trace a module of plain tensors")
        self.trace.values[name] = _describe(name, node.meta["val"])
        self.trace.given[name] = role
        return name

    def _add_constant(self, name: str, tensor: Any) -> str:
        """Add a tensor that the module makes of numbers: a parameter that is not trained. spec: I2.14"""
        self.trace.values[name] = _describe(name, tensor)
        self.trace.given[name] = Role.PARAMETER
        return name

    def operation(self, node: Any, known: dict[str, str], template: Template | None = None) -> None:
        """Read one operation; `known` maps the names of the graph to those of the trace."""
        if getattr(node.target, "__name__", "") == "getitem":
            known[node.name] = f"{known[node.args[0].name]}.{node.args[1]}"
            return
        if not hasattr(node.target, "_schema"):
            what = (
                f"{node.op} of {node.target} is not supported: it is a constant, contains "
                "a graph, or computes with sizes"
            )
            raise bad(f"operation {node.name!r}", what, "trace without it: buffers for constants, numbers for sizes")
        name, results = f"{template.prefix if template else ''}{node.name}", []
        value = node.meta.get("val")
        many = isinstance(value, (tuple, list))
        for k, tensor in enumerate(value if many else (value,)):
            if hasattr(tensor, "untyped_storage"):
                results.append(f"{name}.{k}" if many else name)
                self.trace.values[results[-1]] = _describe(results[-1], tensor, template and template.key(tensor))
        known[node.name] = name
        schema, tags = node.target._schema, {tag.name for tag in node.target.tags}
        domain, _, op = schema.name.partition("::")
        elementwise = "pointwise" in tags and "nondeterministic_seeded" not in tags and not many
        self.trace.ops.append(
            Op(
                name,
                domain,
                f"{op}.{schema.overload_name}" if schema.overload_name else op,
                tuple(known[other] for other in _iterate_operands((node.args, node.kwargs))),
                tuple(results),
                tuple(known[other] for other in _iterate_changed(node)),
                elementwise,
                optimizer=template is not None,
                updates=bool(row_of(domain, op).takes) and not many,
            )
        )


def _iterate_operands(argument: Any) -> Iterator[str]:
    """Yield the names of the nodes in an argument, in order, including those in lists and keywords."""
    if isinstance(argument, (tuple, list)):
        for inner in argument:
            yield from _iterate_operands(inner)
    elif isinstance(argument, dict):
        yield from _iterate_operands(list(argument.values()))
    elif hasattr(argument, "op") and hasattr(argument, "target"):
        yield argument.name


def _iterate_changed(node: Any) -> Iterator[str]:
    """Yield the operands into which an operation writes, by its schema."""
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            yield from _iterate_operands(given)


class Template:
    """The update of one parameter as it is written into the trace: names with a prefix, and separate storages.

    `storages` maps the storages of the traced template to those of the tensors that this update works on.
    """

    def __init__(self, prefix: str, storages: dict[int, object]) -> None:
        self.prefix, self.storages = prefix, storages

    def key(self, tensor: Any) -> object:
        """Return the key in the trace for the storage of a tensor of the template."""
        own = tensor.untyped_storage()._cdata
        return self.storages.setdefault(own, (self.prefix, own))


class Optimizer:
    """The update of every parameter that has a gradient, traced once for each kind of parameter and gradient."""

    def __init__(self, reader: TorchReader, update: Any) -> None:
        self.reader, self.update = reader, update
        self.graphs: dict[object, tuple[Any, list[Any]]] = {}

    def run(self) -> None:
        """Append the updates in the order of the parameters."""
        trace = self.reader.trace
        for place, gradient in trace.gradients.items():
            if gradient is not None:  # `convert` refuses a parameter without one
                self._add_update(place, gradient)
        read = set(trace.gradients.values())
        trace.outputs = [name for name in trace.outputs if name not in read]

    def _add_update(self, place: str, gradient: str) -> None:
        trace = self.reader.trace
        graph, states = self._trace_update(trace.values[place], trace.values[gradient], place)
        names = [place, gradient, *(f"{place}.state{k}" for k in range(len(states)))]
        for name, tensor in zip(names[2:], states, strict=True):
            trace.values[name] = _describe(name, tensor, ("state", name))
            trace.given[name] = Role.OPTIMIZER
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        known = {node.name: name for node, name in zip(placeholders, names, strict=True)}
        storages = {
            node.meta["val"].untyped_storage()._cdata: trace.values[name].storage
            for node, name in zip(placeholders, names, strict=True)
        }
        template = Template(f"{place}.update/", storages)
        for node in graph.nodes:
            if node.op not in ("placeholder", "output"):
                self.reader.operation(node, known, template)

    def _trace_update(self, parameter: TracedValue, gradient: TracedValue, place: str) -> tuple[Any, list[Any]]:
        """Return the graph of one update and its states; it is cached for parameters and gradients of the same kind."""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx

        key = tuple((v.shape, v.dtype, v.strides) for v in (parameter, gradient))
        if key not in self.graphs:
            theirs = {ours: getattr(torch, name) for name, ours in DTYPES.items()}
            made = [
                torch.empty_strided(v.shape, v.strides or row_major(v.shape), dtype=theirs[v.dtype])
                for v in (parameter, gradient)
            ]
            with torch.no_grad():
                states = list(self.update.state(made[0]))
                graph = make_fx(self.update.step)(*made, *states).graph
            self.graphs[key] = graph, states
        return self.graphs[key]
