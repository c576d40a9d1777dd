"""MiCo's module of this name (004): batch normalization folded into the convolution before it. spec: MC8.5, MC8.9"""

from __future__ import annotations

import copy
from typing import Any

import onnx

from tmmu.core.errors import TmmuError
from tmmu.mico.export import is_module
from tmmu.mico.fusion import fuse_batch_normalizations
from tmmu.mico.stored import load_with_weights


def fuse_model(model: Any) -> Any:
    """Return a copy of the network in which each batch normalization is folded into the convolution before it.

    A convolution is folded only if the normalization alone reads it.

    Parameters
    ----------
    model
        An `nn.Module` that torch.fx can trace, in which an `nn.Identity` replaces the normalization; or an
        `onnx.ModelProto`, or the path of an ONNX model, for which an `onnx.ModelProto` is returned.

    Raises
    ------
    TmmuError
        INVALID_IR for a module that cannot be traced, and for a file that cannot be read with its weights.
    """
    if isinstance(model, onnx.ModelProto):
        return fuse_batch_normalizations(model)
    if not is_module(model):
        return fuse_batch_normalizations(load_with_weights(model))
    import torch
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    fused = copy.deepcopy(model).eval()
    try:
        nodes = list(torch.fx.symbolic_trace(fused).graph.nodes)
    except Exception as error:
        raise TmmuError(
            "INVALID_IR", f"torch.fx does not trace it ({error})", place=f"module {type(model).__name__}",
            fix="export it to ONNX, and fuse that",
        ) from error  # fmt: skip
    modules = dict(fused.named_modules())
    calls = [node.target for node in nodes if node.op == "call_module"]
    for node in nodes:
        before = node.args[0] if node.op == "call_module" and node.args else None
        if before is None or getattr(before, "op", "") != "call_module" or len(before.users) != 1:
            continue
        first, second = modules[before.target], modules[node.target]
        pair = (torch.nn.Conv1d, torch.nn.BatchNorm1d), (torch.nn.Conv2d, torch.nn.BatchNorm2d)
        fits = any(type(first) is convolution and type(second) is norm for convolution, norm in pair)
        if fits and calls.count(before.target) == calls.count(node.target) == 1:
            fused.set_submodule(before.target, fuse_conv_bn_eval(first, second))
            fused.set_submodule(node.target, torch.nn.Identity())
    return fused.train(model.training)
