"""MiCo's own API (004): a network in, its lifetimes and memory pools, and C code that is proved before it is written.

`MiCoCodeGen` plans in the layout `pools`. What it states of lifetimes and pools is the plan's, which the verifier's own
function has checked; `convert` hands plan and model to `tmmu.mico` with the verifier as its judge. spec: MC8.1 to MC8.8
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from proofs.verify.judge import judge
from proofs.verify.options import Options
from proofs.verify.verdict import Verdict
from tmmu.core import canonical, folders
from tmmu.core.errors import TmmuError
from tmmu.core.output import print_lines
from tmmu.core.reading import read_file
from tmmu.core.vocabulary import Bindings
from tmmu.mico import CodeOptions, generate
from tmmu.mico.export import export_module, is_module, run
from tmmu.mico.fusion import fuse_batch_normalizations
from tmmu.mico.integers import quantize_model
from tmmu.mico.quantization import FLOAT, Ranges, bits_of, layers_of, observe_ranges
from tmmu.mico.stored import load_with_weights
from tmmu.onnx.reading import FILE_LIMIT
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.pools import Lifetime, find_pools, tensor_lifetimes, tensor_to_pool
from tmmu.plans.sections import Plan
from tmmu.tasks.checking import check
from tmmu.tasks.memory_pools import MemoryStatistics, format_statistics
from tmmu.tasks.models import load

NOT_TRACED = "call forward with example inputs first"


def prove(plan: Plan, model: str) -> Verdict:
    """The verifier's answer on `plan` against the model at a path; it names both files without their folders."""
    name = f"{Path(model).stem}.plan.cbor"
    stated = file.require_steps(file.decode(file.encode(plan)))
    return replace(judge(name, stated, Options(model=model)), model=Path(model).name)


class MiCoCodeGen:
    """A network on its way to C, with the methods of MiCo's class of this name.

    Parameters
    ----------
    model
        The path of an ONNX model, an `onnx.ModelProto`, or, with the extra `torch`, an `nn.Module`, which `forward`
        exports; its `qscheme`, if it has one, is taken over.
    align_to
        The alignment of everything in memory, in bits: 32 are 4 bytes.

    Raises
    ------
    TmmuError
        INVALID_ARENA_CONFIG for bits that are not a power of two of at least 8; later INVALID_IR and INVALID_BINDING as
        the importer says, and where a method needs `forward` before it.

    Notes
    -----
    spec: MC8.1
    """

    def __init__(self, model: str | os.PathLike[str] | onnx.ModelProto | Any, align_to: int = 32) -> None:
        if align_to < 8 or align_to & (align_to - 1):
            raise TmmuError(
                "INVALID_ARENA_CONFIG", f"{align_to} bits are not an alignment", place="align_to",
                fix="give a power of two of at least 8: 32 bits are 4 bytes", arena="",
            )  # fmt: skip
        self.model, self.align_to = model, align_to
        self._graph: onnx.ModelProto | None = None
        self._path: str | None = None
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._ranges: Ranges = {}
        self._scheme: Sequence[Sequence[int]] | None = None
        self._plan: Plan | None = None
        if isinstance(model, (str, os.PathLike)):
            self._path = os.fspath(model)
        elif isinstance(model, onnx.ModelProto):
            self._graph = model
        elif not is_module(model):
            raise TmmuError(
                "INVALID_IR", f"a {type(model).__name__} is not a network", place="MiCoCodeGen",
                fix="give the path of an ONNX model, an onnx.ModelProto, or an nn.Module",
            )  # fmt: skip

    @property
    def n_layers(self) -> int:
        """How many layers a scheme has bits for."""
        return len(layers_of(self._read().graph))

    def set_qscheme(self, qscheme: Sequence[Sequence[int]]) -> None:
        """The bits of weights and of activations, a list each: 8 for integers or 32 for float32. spec: MC8.6, MC8.7

        Raises INVALID_BINDING for lists of another length, and for bits that no kernel has.
        """
        bits_of(qscheme, self.n_layers)
        self._scheme, self._plan = qscheme, None

    def fuse_model(self) -> None:
        """Fold each BatchNormalization into the Conv before it. spec: MC8.5"""
        self._graph, self._plan, self._path = fuse_batch_normalizations(self._read()), None, None

    def forward(self, *inputs: Any) -> Any:
        """Run the network on example inputs, which fix shapes and the scales of 8-bit tensors, and return its result.

        An `nn.Module` is exported and run by torch, an ONNX model run by onnx's reference evaluator, with results as
        NumPy arrays; several are a list. Another call widens the ranges that scales follow from. spec: MC8.2, MC8.7
        """
        if is_module(self.model):
            result = run(self.model, inputs)
            self._graph, self._path = export_module(self.model, inputs), None
            self._scheme = getattr(self.model, "qscheme", self._scheme)
        graph = self._read().graph
        stored = {tensor.name for tensor in graph.initializer}
        given = [value for value in graph.input if value.name not in stored]
        if len(given) != len(inputs):
            names = ", ".join(value.name for value in given)
            raise _unfit(f"{len(inputs)} inputs are given to a model of {len(given)}", f"give {names}")
        arrays = {value.name: _array(array) for value, array in zip(given, inputs, strict=True)}
        self._shapes = {
            value.name: arrays[value.name].shape
            for value in given
            if not all(dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)
        }
        self._plan = None
        if is_module(self.model) and not self._low_bits():
            return result
        results = observe_ranges(self._read(), arrays, self._ranges)
        return result if is_module(self.model) else results[0] if len(results) == 1 else results

    __call__ = forward

    def compute_tensor_lifetimes(self) -> dict[str, Lifetime]:
        """(first, last) time of each tensor that has memory or shows it; the caller writes at time 0. spec: MC8.4"""
        return tensor_lifetimes(self.plan)

    def allocate_memory_pools(self) -> tuple[list[dict[str, Any]], dict[str, tuple[int, int]]]:
        """The pools, each with its `size`, `tensors` and `intervals`, and (pool, 0) by tensor. spec: MC8.4"""
        pools = find_pools(self.plan)
        return [pool.record() for pool in pools], tensor_to_pool(pools)

    @property
    def tensor_to_pool(self) -> dict[str, tuple[int, int]]:
        """Return (pool, offset in it) of each tensor that has separate memory; the offset is 0."""
        return self.allocate_memory_pools()[1]

    @property
    def plan(self) -> Plan:
        """The plan of the network in the layout `pools`, checked by the verifier's function; made once."""
        if self._plan is None:
            with self._file("model.onnx") as path:
                model = load(path, Bindings(shapes=self._shapes))
            arenas = tuple(replace(arena, alignment=self.align_to // 8) for arena in DEFAULT)
            self._plan = plan_memory(model, arenas, PlanOptions(layout="pools")).plan
            check(self._plan, model, is_ir=False)
        return self._plan

    def convert(
        self,
        output_dir: str | os.PathLike[str] = "project",
        model_name: str = "model",
        verbose: bool = False,
        *,
        weights: str = "embed",
        static: bool = False,
    ) -> list[str]:
        """Prove the plan and write the C, with plan and model beside it; the paths that were written.

        Parameters and errors are those of `tmmu.mico.generate` and its options; `verbose` prints the memory statistics.
        The plan and a model without a file are written as MODEL_NAME.plan.cbor and MODEL_NAME.onnx, so that
        `verify-plan` can be asked again. spec: MC8.8
        """
        plan, target = self.plan, Path(output_dir)
        with self._file(f"{model_name}.onnx") as path:
            chosen = CodeOptions(weights, "static" if static else "malloc", model_name)
            written = generate(plan, path, os.fspath(target), prove=prove, options=chosen)
            if path != self._path:
                canonical.write_atomically(target / f"{model_name}.onnx", read_file(path, FILE_LIMIT))
                written.append(str(target / f"{model_name}.onnx"))
        file.save(plan, target / f"{model_name}.plan.cbor")
        written.append(str(target / f"{model_name}.plan.cbor"))
        if verbose:
            print_lines(*format_statistics(MemoryStatistics.of(plan)), *(f"wrote {name}" for name in written))
        return written

    def _read(self) -> onnx.ModelProto:
        """The network as ONNX, with its weights if it was read from a file."""
        if self._graph is None:
            if self._path is None:
                raise _unfit("an nn.Module has no graph yet", NOT_TRACED)
            self._graph = load_with_weights(self._path)
        return self._graph

    def _low_bits(self) -> bool:
        return self._scheme is not None and any(bits != FLOAT for bits in self._scheme[0])

    @contextmanager
    def _file(self, name: str) -> Iterator[str]:
        """The path of the model that is planned: the user's own file, or one called `name` that has the same bytes
        every time.
        """
        if self._path is not None and not self._low_bits():
            yield self._path
            return
        graph = self._read()
        if self._low_bits():
            assert self._scheme is not None
            if not self._ranges:
                raise _unfit("layers of 8 bits have no scales yet", NOT_TRACED)
            graph = quantize_model(graph, bits_of(self._scheme, self.n_layers), self._ranges)
        with tempfile.TemporaryDirectory(prefix="tmmu-mico-", dir=folders.temporary_folder()) as folder:
            path = os.path.join(folder, name)
            Path(path).write_bytes(graph.SerializeToString(deterministic=True))
            try:
                yield path
            except TmmuError as error:
                error.file = name if error.file == path else error.file  # the folder is gone when this is read
                raise


def _array(given: Any) -> np.ndarray[Any, Any]:
    """A tensor of torch, or anything else that NumPy takes, as an array."""
    return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)


def _unfit(what: str, fix: str) -> TmmuError:
    return TmmuError("INVALID_BINDING", what, place="MiCoCodeGen", fix=fix, binding="forward")
