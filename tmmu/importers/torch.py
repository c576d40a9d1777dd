"""Training steps of PyTorch modules, traced without memory: the joint graph of AOTAutograd as a plain trace.

The module is built and traced under FakeTensorMode, so that 405 billion parameters take no bytes. (On the device
"meta", a trace silently loses its backward part: it is refused here, and every trainable parameter must have a
gradient.) The storages of the fake tensors determine which tensors share bytes, the schemas of operations which
operands they change, and the descriptors of AOTAutograd the kind of each input. torch is imported when a trace is
requested.
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

    The classes of `torch.optim` do not work here: those that can be captured refuse tensors of the CPU.
    """

    state: Callable[[Any], Sequence[Any]]
    step: Callable[..., None]


class TorchTraining(NamedTuple):
    """The result of a callable that is traced: `module(*arguments)` is the loss; a plain tuple works too.

    `note` is added to the name of the model: the module and its sizes.
    """

    module: Any
    arguments: Sequence[Any]
    update: Update | None = None
    note: str = ""


def adamw() -> Update:
    """Build AdamW with two states of the parameter's type, with each operation in place if AdamW allows it."""

    def state(parameter: Any) -> Sequence[Any]:
        return parameter.new_zeros(parameter.shape), parameter.new_zeros(parameter.shape)

    def step(parameter: Any, gradient: Any, mean: Any, square: Any) -> None:
        parameter.mul_(1 - 1e-5)
        mean.mul_(0.9).add_(gradient, alpha=0.1)
        square.mul_(0.95).addcmul_(gradient, gradient, value=0.05)
        parameter.addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-3)

    return Update(state, step)


def sgd(momentum: float = 0.9) -> Update:
    """Build stochastic gradient descent with momentum, with one state of the parameter's type."""

    def state(parameter: Any) -> Sequence[Any]:
        return (parameter.new_zeros(parameter.shape),)

    def step(parameter: Any, gradient: Any, velocity: Any) -> None:
        velocity.mul_(momentum).add_(gradient)
        parameter.add_(velocity, alpha=-1e-2)

    return Update(state, step)


def trace(make: Callable[[], TorchTraining | Sequence[Any]], name: str) -> TrainingTrace:
    """Trace the joint forward and backward graph of a training step, and the update of the parameters, if any.

    Parameters
    ----------
    make
        A function that is called once under FakeTensorMode; its tensors have shapes and no bytes. It returns
        `TorchTraining`, or a tuple of its fields.
    name
        The name of the model.

    Raises
    ------
    TmmuError
        INVALID_IR if `make` returns something else, a tensor is on the device meta, a parameter has no gradient, or an
        operation is not supported (one that contains a graph, or a result of unknown size).

    Notes
    -----
    `spec/tmmu.md` M2.2. A module of 30,000 operations takes about a minute and 700 MiB.
    """
    import torch
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
    from torch._subclasses.fake_tensor import FakeTensorMode

    with _set_flags(torch), FakeTensorMode(allow_non_fake_inputs=True), contextlib.ExitStack() as stack:
        training = _check_training(make())
        module, arguments = training.module, tuple(training.arguments)
        parameters = dict(module.named_parameters(remove_duplicate=False))
        for kind, tensors in (("parameter", parameters.items()), ("buffer", module.named_buffers())):
            for place, tensor in tensors:
                if tensor.device.type == "meta":
                    what = "it is on the device meta, where a trace loses its backward part"
                    raise bad(f"{kind} {place!r}", what, "build the module on the CPU: its tensors are fake already")
        _register_buffers(torch, module)
        joint = aot_export_joint_with_descriptors(stack, module, arguments).graph_module
        reader = TorchReader(
            TrainingTrace(name=f"{name} ({training.note + '; ' if training.note else ''}torch {torch.__version__})")
        )
        trainable = {place: id(tensor) for place, tensor in parameters.items() if tensor.requires_grad}
        reader.joint(joint, trainable)
        if training.update is not None:
            Optimizer(reader, training.update).run()
    return reader.trace


def _register_buffers(torch: Any, module: Any) -> None:
    """Turn tensors that are plain attributes of modules into buffers; an export would treat them as constants."""
    for part in module.modules():
        for name, held in [(name, held) for name, held in vars(part).items() if isinstance(held, torch.Tensor)]:
            delattr(part, name)
            part.register_buffer(name, held, persistent=False)


@contextlib.contextmanager
def _set_flags(torch: Any) -> Iterator[None]:
    """Set the flags that keep libraries from choosing by values of tensors; restore them and the default type."""
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


def _check_training(made: Any) -> TorchTraining:
    if isinstance(made, (tuple, list)) and 2 <= len(made) <= 4:
        training = TorchTraining(*made)
        if callable(getattr(training.module, "named_parameters", None)) and isinstance(
            training.arguments, (tuple, list)
        ):
            return training
    what = f"expected a module with its arguments, got {type(made).__name__}"
    raise bad("the callable", what, "return (module, (tensor, ...)), where module(tensor, ...) is the loss")
