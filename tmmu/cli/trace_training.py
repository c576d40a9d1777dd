"""`tmmu trace torch` and `tmmu trace jax`: a training step that a callable describes, written as an IR file.

The callable is the user's own code and is run. What it or the framework raises is reported in one line; `--traceback`
shows where. spec: C2.6, I2.8
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from tmmu.cli import options
from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_package
from tmmu.core.flags import OnceCommand, format_examples
from tmmu.core.output import STANDARD, count_noun, print_lines
from tmmu.core.progress import progress
from tmmu.core.vocabulary import Model, Phase, Role


def _command(framework: str, returns: str) -> click.Command:
    """One command of the group."""

    @click.command(
        framework,
        cls=OnceCommand,
        help=f"Trace the training step that MODULE:CALLABLE describes.\n\n{returns}",
        epilog=format_examples(
            f"tmmu trace {framework} steps:training", f"tmmu trace {framework} steps:training -o s.ir.cbor"
        ),
    )
    @click.argument("callable_", metavar="MODULE:CALLABLE")
    @click.option("-o", "--output", type=options.output, help="Where it goes [CALLABLE.ir.cbor].")
    @click.option("--traceback", "loud", is_flag=True, help="Show where the callable or the framework failed.")
    def command(callable_: str, output: str | None, loud: bool) -> int:
        module, colon, name = callable_.rpartition(":")
        if not colon or not module or not name:
            raise click.BadParameter(f"{callable_!r} is not MODULE:CALLABLE", param_hint="MODULE:CALLABLE")
        target = f"{name}.ir.cbor" if output is None else output
        if not target.endswith(".ir.cbor") and target != STANDARD:
            raise click.BadParameter(f"{target!r} does not end in .ir.cbor", param_hint="-o")
        require_package(framework, "tracing")
        from tmmu.importers.conversion import convert
        from tmmu.ir import files

        try:
            with progress(callable_) as doing, _explained(loud), _importing_from_here():
                doing(f"loading {framework}")
                tracer = importlib.import_module(f"tmmu.importers.{framework}")
                importlib.import_module(framework)
                doing("tracing")
                traced = tracer.trace(_found(module, name), name.replace("_", "-"))
                doing("converting")
                model = convert(traced)
        except TmmuError as error:
            raise error.in_file(callable_) from error.__cause__
        files.save(model, target)
        print_lines(f"wrote {target}")
        print_lines(*summary(model))
        return 0

    return command


torch = _command(
    "torch",
    "It is called without arguments under FakeTensorMode and returns (module, arguments), or (module, arguments, "
    "update), where module(*arguments) is the loss: see tmmu.importers.torch.TorchTraining.",
)
jax = _command(
    "jax",
    "It is called without arguments and returns (loss, parameters, arguments), shapes for arrays, where "
    "loss(parameters, *arguments) is a number, or tmmu.importers.jax.JaxTraining, with an update.",
)


def summary(model: Model) -> Iterator[str]:
    """Yield the size of a traced model: nodes by phase, and bytes of parameters."""
    counts = ", ".join(f"{sum(node.phase is phase for node in model.nodes)} {phase}" for phase in Phase)
    size = sum(tensor.bytes for tensor in model.tensors if tensor.role is Role.PARAMETER)
    yield f"  {model.name}"
    nodes, tensors = count_noun(len(model.nodes), "node"), count_noun(len(model.tensors), "tensor")
    yield f"  {nodes} ({counts}), {tensors}, {size} bytes of parameters"


def _found(module: str, name: str) -> Callable[[], Any]:
    """The callable of that name in a module by its dotted name, or in a file that ends in .py."""
    if module.endswith(".py"):
        spec = importlib.util.spec_from_file_location("traced_by_tmmu", module)
        assert spec is not None and spec.loader is not None  # noqa: PT018  # by its suffix it is a source file
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = loaded
        spec.loader.exec_module(loaded)
    else:
        loaded = importlib.import_module(module)
    found = getattr(loaded, name, None)
    if not callable(found):
        what = f"{module} has no callable {name!r}"
        raise TmmuError("INVALID_IR", what, fix="name a function of the module")
    return found  # type: ignore[no-any-return]  # what it returns is looked at by the importer


@contextmanager
def _importing_from_here() -> Iterator[None]:
    """The current folder is looked into first, as it is by `python -m`."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


@contextmanager
def _explained(loud: bool) -> Iterator[None]:
    """What other people's code raises, as one line."""
    try:
        yield
    except TmmuError:
        raise
    except Exception as error:
        raise _failed(error, loud) from error


def _failed(error: Exception, loud: bool) -> TmmuError:
    if loud:
        traceback.print_exception(error)
    lines = str(error).strip().splitlines()
    what = f"it cannot be traced: {type(error).__name__}{': ' + lines[0] if lines else ''}"
    return TmmuError("INVALID_IR", what, fix="run it again with --traceback to see where")
