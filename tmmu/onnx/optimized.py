"""The graph that ONNX Runtime makes of a model file before it runs it: fused, folded, laid out for this CPU.

ONNX Runtime writes that graph itself, with the data of its weights. No dimension is bound before, so that the graph is
the one of every run of the file. This is the only module of the package that runs a program on the file; planner and
verifier both take the graph from here, as both take the file. spec: T10.16, T10.17, T10.18
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import onnx

from tmmu.core.errors import TmmuError
from tmmu.core.extras import MissingPackage, require_import
from tmmu.core.vocabulary import RUNTIMES, RuntimeGraph
from tmmu.onnx.canonical_graph import canonicalize
from tmmu.onnx.naming import bodies_of, domain_of
from tmmu.onnx.reading import parse
from tmmu.onnx.sizes import DTYPES
from tmmu.onnx.table import NCHWC

if TYPE_CHECKING:
    import onnxruntime

PACKAGE, EXTRA = "onnxruntime", "judges"
LEVELS = {level: f"ORT_ENABLE_{level.upper()}" for level in RUNTIMES[PACKAGE]}
"""What ONNX Runtime calls each level."""


def load_runtime(doing: str) -> Any:
    """Return the package onnxruntime. Raises MISSING_PACKAGE with the command that installs it."""
    with require_import(PACKAGE, doing, EXTRA):
        import onnxruntime

    return onnxruntime


def optimize(path: str | os.PathLike[str], asked: RuntimeGraph) -> tuple[onnx.ModelProto, RuntimeGraph, bytes]:
    """Return the graph that ONNX Runtime makes of a model, with its weights, what it is, and the model's SHA-256.

    Parameters
    ----------
    path
        The model; the files of its weights must be beside it.
    asked
        The level, by default the highest. With a version and a block, as a plan states them, no other graph is made.

    Raises
    ------
    TmmuError
        MISSING_PACKAGE if onnxruntime, or the version that `asked` states, is not installed; INVALID_SETTING if the CPU
        has blocks of another size; INVALID_IR if ONNX Runtime does not load the model, with its reason.

    Notes
    -----
    Loads, rewrites and stores the whole model, weights included: about as long as it takes ONNX Runtime to load it.
    """
    runtime = load_runtime(f"the graph of {asked.name}")
    version, block = str(runtime.__version__), find_block(runtime)
    if asked.version not in ("", version):
        what = f"the plan is of the graph of {asked.name} {asked.version}, but {version} is installed"
        raise MissingPackage(PACKAGE, what, f"pip install {PACKAGE}=={asked.version}, or plan again")
    if asked.version and asked.block != block:
        what = f"the plan is of the graph for blocks of {asked.block} channels, but this CPU has blocks of {block}"
        fix = "verify and run it on a CPU of that kind, or plan again with --ort-level extended"
        raise TmmuError("INVALID_SETTING", what, fix=fix, setting="onnxruntime's layout for the CPU")
    level = asked.level or RUNTIMES[asked.name][-1]
    original, digest = parse(path)
    model = _rewrite(runtime, os.fspath(path), level)
    canonicalize(model, original.graph)
    return model, replace(asked, level=level, version=version, block=block, digest=digest_graph(model)), digest


def _rewrite(runtime: Any, path: str, level: str) -> onnx.ModelProto:
    """Load a model with optimizations, and return the graph that ONNX Runtime then writes."""
    with TemporaryDirectory(prefix="tmmu-onnxruntime-") as folder:
        options = make_options(runtime)
        options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[level])
        options.optimized_model_filepath = os.path.join(folder, "optimized.onnx")
        try:
            runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            model: onnx.ModelProto = onnx.ModelProto.FromString(Path(options.optimized_model_filepath).read_bytes())
            return model
        except Exception as error:  # onnxruntime raises exceptions of a dozen unrelated kinds
            reason = next(iter(str(error).splitlines()), type(error).__name__)[:300]
            fix = "give it a model that it runs, with its weights (tmmu example NAME --weights SEED)"
            raise TmmuError(
                "INVALID_IR", f"{PACKAGE} cannot load it: {reason}", place="the file", fix=fix, node_id=""
            ) from error


def make_options(runtime: Any) -> onnxruntime.SessionOptions:
    """Return options for a session of one thread that prints nothing."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


@cache
def find_block(runtime: Any) -> int:
    """Return how many channels the runtime's layout for this CPU keeps together, 0 if it has no such layout.

    No function of its interface states that, so that a convolution with one channel more than a number of blocks of any
    size is optimized: the number of filters that its weights then have shows the size.
    """
    channels = 17
    weights = onnx.helper.make_tensor("w", 1, [channels, 16, 1, 1], bytes(4 * channels * 16), raw=True)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(n, 1, ["n", c, 4, 4]) for n, c in (("x", 16), ("y", channels))]
    graph = onnx.helper.make_graph([node], "probe", ends[:1], ends[1:], [weights])
    with TemporaryDirectory(prefix="tmmu-onnxruntime-") as folder:
        path = os.path.join(folder, "probe.onnx")
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
        made = _rewrite(runtime, path, "all")
    if not any(domain_of(node) == NCHWC for node in made.graph.node):
        return 0
    return int(next(tensor.dims[0] for tensor in made.graph.initializer if len(tensor.dims) == 4)) - 16


def digest_graph(model: onnx.ModelProto) -> str:
    """Return the SHA-256 of a graph and its operator sets, without the elements of floating-point tensors.

    Constants that were computed while the graph was made differ in their last bits from CPU to CPU. They decide neither
    steps nor sizes. spec: T10.17
    """
    bare = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    bare.graph.CopyFrom(model.graph)
    graphs = [bare.graph]
    for graph in graphs:  # grows
        stored = list(graph.initializer)
        for node in graph.node:
            graphs.extend(body for _, body in bodies_of(node))
            stored += [each.t for each in node.attribute if each.type == onnx.AttributeProto.TENSOR]
        for tensor in stored:
            if DTYPES.get(tensor.data_type, "").startswith(("float", "bfloat")):
                for name in ("raw_data", "float_data", "int32_data", "double_data"):
                    tensor.ClearField(name)
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).hexdigest()
