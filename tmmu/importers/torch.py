"""Training steps of PyTorch modules, traced without memory: the joint graph of AOTAutograd as a plain trace.

The module is built and traced under FakeTensorMode, so that 405 billion parameters take no bytes. (On the device "meta"
a trace silently loses its backward half: it is refused here, and every trainable parameter must have a gradient.)
Which tensors share bytes is read from the storages of the fake tensors, which operations change an operand from their
schemas, what an input is from the descriptors that AOTAutograd gives. torch is imported when a trace is asked for.
spec: M2.2, M2.14
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tmmu.errors import TmmuError
from tmmu.importers.conversion import bad
from tmmu.importers.traced import Op, Trace, Value
from tmmu.vocabulary import Role

DTYPES = {
    **{name: name for name in (
        "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
        "uint8", "bool", "complex64", "complex128",
    )},
    "float8_e4m3fn": "float8e4m3fn", "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2": "float8e5m2",
    "float8_e5m2fnuz": "float8e5m2fnuz", "float8_e8m0fnu": "float8e8m0",
}  # fmt: skip
"""Our name of each element type of torch."""


class Update(NamedTuple):
    """An optimizer for tracing: `state(parameter)` makes its tensors, `step(parameter, gradient, *state)` works in place.

    The classes of `torch.optim` are no help here: those that can be captured refuse tensors of the CPU.
    """

    state: Callable[[Any], Sequence[Any]]
    step: Callable[..., None]


class Training(NamedTuple):
    """What a callable that is traced returns: `module(*arguments)` is the loss; a plain tuple will do as well.

    `note` is kept in the model's name: what the module is, at which sizes.
    """

    module: Any
    arguments: Sequence[Any]
    update: Update | None = None
    note: str = ""


def adamw() -> Update:
    """AdamW with two states of the parameter's type, each operation in place where AdamW allows it."""

    def state(parameter: Any) -> Sequence[Any]:
        return parameter.new_zeros(parameter.shape), parameter.new_zeros(parameter.shape)

    def step(parameter: Any, gradient: Any, mean: Any, square: Any) -> None:
        parameter.mul_(1 - 1e-5)
        mean.mul_(0.9).add_(gradient, alpha=0.1)
        square.mul_(0.95).addcmul_(gradient, gradient, value=0.05)
        parameter.addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-3)

    return Update(state, step)


def trace(make: Callable[[], Training | Sequence[Any]], name: str) -> Trace:
    """The joint forward and backward graph of one training step, and the update of the parameters if there is one.

    Parameters
    ----------
    make
        Called once under FakeTensorMode; what it builds has shapes and no bytes. It returns `Training`, or a tuple of
        its fields.
    name
        The model's name.

    Raises
    ------
    TmmuError
        INVALID_IR where `make` returns something else, a tensor is on the device meta, a parameter has no gradient,
        or an operation cannot be understood (one with a graph of its own, a result of unknown size).

    Notes
    -----
    `spec/tmmu.md` M2.2. A module of 30,000 operations takes about a minute and 700 MiB.
    """
    import torch
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
    from torch._subclasses.fake_tensor import FakeTensorMode

    with _tracing(torch), FakeTensorMode(allow_non_fake_inputs=True), contextlib.ExitStack() as stack:
        training = _training(make())
        module, arguments = training.module, tuple(training.arguments)
        parameters = dict(module.named_parameters(remove_duplicate=False))
        for kind, tensors in (("parameter", parameters.items()), ("buffer", module.named_buffers())):
            for place, tensor in tensors:
                if tensor.device.type == "meta":
                    what = "it is on the device meta, on which a trace loses its backward half"
                    raise bad(f"{kind} {place!r}", what, "build the module on the CPU: its tensors are fake already")
        graph = aot_export_joint_with_descriptors(stack, module, arguments).graph_module.graph
        reader = _Reader(Trace(name=f"{name} ({training.note + '; ' if training.note else ''}torch {torch.__version__})"))
        trainable = {place: id(tensor) for place, tensor in parameters.items() if tensor.requires_grad}
        reader.joint(graph, trainable)
        if training.update is not None:
            _Optimizer(reader, training.update, parameters).run()
    return reader.trace


@contextlib.contextmanager
def _tracing(torch: Any) -> Iterator[None]:
    """The flags under which libraries make no choices by the values of tensors; the default type is put back."""
    flags, before = ("_is_compiling_flag", "_is_exporting_flag"), torch.get_default_dtype()
    old = {flag: getattr(torch.compiler, flag, None) for flag in flags}
    try:
        for flag in flags:
            setattr(torch.compiler, flag, True)
        yield
    finally:
        torch.set_default_dtype(before)
        for flag, value in old.items():
            setattr(torch.compiler, flag, value)


def _training(made: Any) -> Training:
    if isinstance(made, (tuple, list)) and 2 <= len(made) <= 4:
        training = Training(*made)
        if callable(getattr(training.module, "named_parameters", None)) and isinstance(training.arguments, (tuple, list)):
            return training
    what = f"it returned {type(made).__name__}, not a module with its arguments"
    raise bad("the callable", what, "return (module, (tensor, ...)), where module(tensor, ...) is the loss")


def _value(place: str, tensor: Any, key: object = None) -> Value:
    """A fake tensor in plain words; its storage stands for itself unless a key is given."""
    sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    if tensor.layout.__str__() != "torch.strided" or any(type(size) is not int for size in sizes):
        raise bad(f"value {place!r}", "its size is not a number", "trace with fixed sizes and dense tensors")
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise TmmuError("INVALID_IR_SHAPES", f"unknown dtype {dtype!r}", place=f"value {place!r}", node_id=place)
    storage = tensor.untyped_storage()
    return Value(
        tuple(tensor.shape), DTYPES[dtype], tuple(tensor.stride()), tensor.storage_offset(),
        storage._cdata if key is None else key, storage.nbytes(),
    )  # fmt: skip


class _Reader:
    """A trace that is being filled from graphs of torch.fx."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.parameter: dict[str, Any] = {}

    def joint(self, graph: Any, trainable: dict[str, int]) -> None:
        """Read a joint graph: its placeholders and outputs say what they are by descriptors."""
        known: dict[str, str] = {}
        gradients: dict[str, str | None] = {}
        for node in graph.nodes:
            if node.op == "placeholder":
                known[node.name] = self._given(node)
            elif node.op == "output":
                for result, desc in zip(node.args[0], node.meta["desc"], strict=True):
                    if result is not None:
                        self.trace.outputs.append(known[result.name])
                    if type(desc).__name__ == "GradAOTOutput" and type(desc.grad_of).__name__ == "ParamAOTInput":
                        gradients[desc.grad_of.target] = None if result is None else known[result.name]
            else:
                self.operation(node, known)
        # Tied weights are one parameter under several names: a gradient of one of them is that of all.
        found = {trainable[place] for place, value in gradients.items() if value is not None and place in trainable}
        self.trace.gradients = {
            place: gradients.get(place)
            for place, tensor in trainable.items()
            if tensor not in found or gradients.get(place) is not None
        }

    def _given(self, node: Any) -> str:
        desc = node.meta.get("desc")
        kind = type(desc).__name__
        if kind in ("ParamAOTInput", "BufferAOTInput"):
            name, role = desc.target, Role.PARAMETER
            self.parameter[name] = node.meta["val"]
        elif kind == "PlainAOTInput":
            name, role = f"input{desc.idx}", Role.INPUT
        elif kind == "TangentAOTInput":
            name, role = f"output{getattr(desc.output, 'idx', 0)}.seed", Role.INPUT
            self.trace.seeds.add(name)
        else:
            raise bad(f"input {node.name!r}", f"what it is ({kind}) is not known", "trace a module of plain tensors")
        self.trace.values[name] = _value(name, node.meta["val"])
        self.trace.given[name] = role
        return name

    def operation(self, node: Any, known: dict[str, str], template: _Template | None = None) -> None:
        """Read one operation; `known` maps the names of the graph to those of the trace."""
        import torch

        if getattr(node.target, "__name__", "") == "getitem":
            known[node.name] = f"{known[node.args[0].name]}.{node.args[1]}"
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            what = f"{node.op} of {node.target}: a constant, a graph of its own, or arithmetic on sizes"
            raise bad(f"operation {node.name!r}", what, "trace without it: buffers for constants, numbers for sizes")
        name, results = f"{template.prefix if template else ''}{node.name}", []
        value = node.meta.get("val")
        many = isinstance(value, (tuple, list))
        for k, tensor in enumerate(value if many else (value,)):
            if isinstance(tensor, torch.Tensor):
                results.append(f"{name}.{k}" if many else name)
                self.trace.values[results[-1]] = _value(results[-1], tensor, template and template.key(tensor))
        known[node.name] = name
        schema, tags = node.target._schema, node.target.tags
        domain, _, op = schema.name.partition("::")
        elementwise = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags and not many
        self.trace.ops.append(
            Op(
                name,
                domain,
                f"{op}.{schema.overload_name}" if schema.overload_name else op,
                tuple(known[other] for other in _operands((node.args, node.kwargs))),
                tuple(results),
                tuple(known[other] for other in _changed(node)),
                elementwise,
                optimizer=template is not None,
            )
        )


def _operands(argument: Any) -> Iterator[str]:
    """The names of the nodes in an argument, in order, through lists and keywords."""
    if isinstance(argument, (tuple, list)):
        for inner in argument:
            yield from _operands(inner)
    elif isinstance(argument, dict):
        yield from _operands(list(argument.values()))
    elif hasattr(argument, "op") and hasattr(argument, "target"):
        yield argument.name


def _changed(node: Any) -> Iterator[str]:
    """The operands into which an operation writes, by its schema."""
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            yield from _operands(given)


class _Template:
    """One parameter's update as it is written into the trace: names with a prefix, storages of its own.

    `storages` maps the storages of the traced template to those of the tensors that this update works on.
    """

    def __init__(self, prefix: str, storages: dict[int, object]) -> None:
        self.prefix, self.storages = prefix, storages

    def key(self, tensor: Any) -> object:
        """What tells the storage of a template's tensor apart in the trace."""
        own = tensor.untyped_storage()._cdata
        return self.storages.setdefault(own, (self.prefix, own))


class _Optimizer:
    """The update of every parameter that has a gradient, traced once for each kind of parameter and gradient."""

    def __init__(self, reader: _Reader, update: Update, parameters: dict[str, Any]) -> None:
        self.reader, self.update, self.parameters = reader, update, parameters
        self.graphs: dict[object, tuple[Any, list[Any]]] = {}

    def run(self) -> None:
        """Append the updates in the order of the parameters."""
        trace = self.reader.trace
        for place, gradient in trace.gradients.items():
            assert gradient is not None or place in trace.gradients  # `convert` refuses it with a clear line
            if gradient is not None:
                self._one(place, gradient)
        read = set(trace.gradients.values())
        trace.outputs = [name for name in trace.outputs if name not in read]

    def _one(self, place: str, gradient: str) -> None:
        trace = self.reader.trace
        graph, states = self._traced(trace.values[place], trace.values[gradient], place)
        names = [place, gradient, *(f"{place}.state{k}" for k in range(len(states)))]
        for name, tensor in zip(names[2:], states, strict=True):
            trace.values[name] = _value(name, tensor, ("state", name))
            trace.given[name] = Role.OPTIMIZER
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        known = {node.name: name for node, name in zip(placeholders, names, strict=True)}
        storages = {
            node.meta["val"].untyped_storage()._cdata: trace.values[name].storage
            for node, name in zip(placeholders, names, strict=True)
        }
        template = _Template(f"{place}.update/", storages)
        for node in graph.nodes:
            if node.op not in ("placeholder", "output"):
                self.reader.operation(node, known, template)

    def _traced(self, parameter: Value, gradient: Value, place: str) -> tuple[Any, list[Any]]:
        """The graph of one update and its states, from the cache where a parameter like this was updated before."""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx

        key = tuple((v.shape, v.dtype, v.strides) for v in (parameter, gradient))
        if key not in self.graphs:
            theirs = {ours: getattr(torch, name) for name, ours in DTYPES.items()}
            made = [
                torch.empty_strided(v.shape, v.strides, dtype=theirs[v.dtype])  # type: ignore[arg-type]  # never None
                for v in (parameter, gradient)
            ]
            with torch.no_grad():
                states = list(self.update.state(made[0]))
                graph = make_fx(self.update.step)(*made, *states).graph
            # Parameters alone and states are changed: whatever the step returns is nobody's.
            self.graphs[key] = graph, states
        return self.graphs[key]
