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

from tmmu.importers.conversion import bad
from tmmu.importers.torch_reader import Optimizer, TorchReader
from tmmu.importers.traced import TrainingTrace


class Update(NamedTuple):
    """An optimizer: `state(parameter)` makes its tensors, `step(parameter, gradient, *state)` works in place.

    The classes of `torch.optim` are no help here: those that can be captured refuse tensors of the CPU.
    """

    state: Callable[[Any], Sequence[Any]]
    step: Callable[..., None]


class TorchTraining(NamedTuple):
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


def sgd(momentum: float = 0.9) -> Update:
    """Stochastic gradient descent with momentum: one state of the parameter's type."""

    def state(parameter: Any) -> Sequence[Any]:
        return (parameter.new_zeros(parameter.shape),)

    def step(parameter: Any, gradient: Any, velocity: Any) -> None:
        velocity.mul_(momentum).add_(gradient)
        parameter.add_(velocity, alpha=-1e-2)

    return Update(state, step)


def trace(make: Callable[[], TorchTraining | Sequence[Any]], name: str) -> TrainingTrace:
    """The joint forward and backward graph of one training step, and the update of the parameters if there is one.

    Parameters
    ----------
    make
        Called once under FakeTensorMode; what it builds has shapes and no bytes. It returns `TorchTraining`, or a tuple
        of its fields.
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
        _register(torch, module)
        joint = aot_export_joint_with_descriptors(stack, module, arguments).graph_module
        reader = TorchReader(
            TrainingTrace(name=f"{name} ({training.note + '; ' if training.note else ''}torch {torch.__version__})")
        )
        trainable = {place: id(tensor) for place, tensor in parameters.items() if tensor.requires_grad}
        reader.joint(joint, trainable)
        if training.update is not None:
            Optimizer(reader, training.update).run()
    return reader.trace


def _register(torch: Any, module: Any) -> None:
    """Make buffers of the tensors that modules hold as plain attributes, which an export takes for its own."""
    for part in module.modules():
        for name, held in [(name, held) for name, held in vars(part).items() if isinstance(held, torch.Tensor)]:
            delattr(part, name)
            part.register_buffer(name, held, persistent=False)


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


def _training(made: Any) -> TorchTraining:
    if isinstance(made, (tuple, list)) and 2 <= len(made) <= 4:
        training = TorchTraining(*made)
        if callable(getattr(training.module, "named_parameters", None)) and isinstance(
            training.arguments, (tuple, list)
        ):
            return training
    what = f"it returned {type(made).__name__}, not a module with its arguments"
    raise bad("the callable", what, "return (module, (tensor, ...)), where module(tensor, ...) is the loss")
