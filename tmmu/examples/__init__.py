"""The examples that `tmmu example` writes: real architectures, their seeded weights, and the corpus of wrong plans.

Models are ONNX files written by small builders, one module each, or training graphs of large models, traced once and
stored compressed (`traced`). `broken/<kind>` is a plan that `verify-plan` must refute. A module is imported when its
example is first asked for, because importing `onnx` takes time.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tmmu.core import canonical
from tmmu.core.output import STANDARD, suggest_names
from tmmu.examples import traced

if TYPE_CHECKING:
    import onnx

MODELS = {
    "gpt2": "gpt2:build",
    "resnet50": "resnet50:build",
    "unet": "unet:build",
    "llama-block": "llama_block:build",
    "transformer-block": "transformer_block:build",
    "detector": "detector:build",
    "loop": "loop:build",
    "chain": "chain:build",
    "mico-mlp": "mico:mlp",
    "mico-lenet": "mico:lenet",
    "mico-vgg": "mico:vgg",
    "mico-resnet8": "mico:resnet8",
}
"""The module here and the function that builds the model, by the name of the model."""

LLAMAS = {"llama-15m": "LLAMA_15M", "llama-110m": "LLAMA_110M"}
"""Language models as GGUF files, always with weights: the shape in the module `llama`, by name."""

TEXTS = {
    "training-sgd": "training:SGD",
    "training-adam": "training:ADAM",
    "training-shards": "training:ZERO",
    "gpt2-shards": "shards:GPT2",
    "text-plan": "texts:PLAN",
    "text-model": "texts:MODEL",
    "streams-inception": "streams:INCEPTION",
    "streams-data-parallel": "streams:DATA_PARALLEL",
    "streams-pipeline": "streams:PIPELINE",
    "streams-gathered": "streams:GATHERED",
}
"""Training steps with an optimizer (IR as text), shard specs (TOML), a plan and a model written by hand, and models
whose steps overlap in time (IR as text).

The value is the module here and the text in it, by name.
"""

BROKEN = "broken/"
"""The prefix of the names of wrong plans."""


def names() -> list[str]:
    """Return every name that `write` takes: models, traced graphs and texts, then the wrong plans in their order."""
    from tmmu.examples.broken import KINDS

    return [*MODELS, *LLAMAS, *traced.DIGESTS, *TEXTS, *(f"{BROKEN}{kind}" for kind in KINDS)]


def model(name: str) -> onnx.ModelProto:
    """Build the model of that name. Raises KeyError for another name."""
    module, function = MODELS[name].split(":")
    loaded = importlib.import_module(f"tmmu.examples.{module}")
    built: onnx.ModelProto = getattr(loaded, function)()
    return built


def write(
    name: str,
    path: str | os.PathLike[str],
    seed: int | None = None,
    file_type: str | None = None,
    convert: Callable[[onnx.ModelProto], onnx.ModelProto] | None = None,
) -> list[str]:
    """Write an example, and return the paths that were written.

    Parameters
    ----------
    name
        One of `names()`.
    path
        The file for the model or the plan. A wrong plan that needs a model to refute it also writes the model, beside
        the plan and with the suffix `.onnx`; one that needs plans of other ranks writes these, as `.other0.cbor` and so
        on.
    seed
        For an ONNX model: draw its weights from this integer below 2^64, as `tmmu.examples.weights` defines. Weights of
        more than 1 MiB are stored in the file `path`.data, which is written first. A Llama requires a seed.
    file_type
        For a Llama: the encoding of its matrices, f32 (the default), f16, q8_0 or q4_0.
    convert
        For an ONNX model with weights: what is written is the result of this function for the model.

    Raises
    ------
    ValueError
        The name is unknown (the message lists the closest ones), or the path of a plan is that of its model, or the
        path of a traced graph does not end in `.ir.cbor`; or the seed is out of range, is given to an example without
        weights or is missing for a Llama; or the type is not one of a Llama's or is given to another example.
    TmmuError
        INVALID_IR if a stored graph is damaged; MISSING_PACKAGE if the example needs gguf, which is not installed;
        another code if the file cannot be written, whole or not at all.

    Notes
    -----
    spec: C2.5, MC7.4, MC7.5, FD5.11
    """
    target = Path(path)
    if convert is not None and (name not in MODELS or seed is None):
        raise ValueError(f"{name} has no weights to convert; name an ONNX model and give --weights SEED")
    if name in LLAMAS:
        return _write_llama(name, target, seed, file_type)
    if file_type is not None:
        raise ValueError(f"{name} is not a GGUF file, and only matrices of a GGUF file have a type; leave out the type")
    if name in MODELS:
        return _write_model(model(name), target, seed, convert)
    if seed is not None:
        raise ValueError(
            f"{name} is neither an ONNX model nor a GGUF file, and has no weights to draw; leave out the seed"
        )
    if name in TEXTS:
        module, text = TEXTS[name].split(":")
        found: str = getattr(importlib.import_module(f"tmmu.examples.{module}"), text)
        canonical.write_atomically(target, found.encode())
        return [str(target)]
    if name in traced.DIGESTS:
        if not target.name.endswith(".ir.cbor") and str(target) != STANDARD:
            raise ValueError(f"{name} is an IR file; choose a path that ends in .ir.cbor")
        canonical.write_atomically(target, traced.read(name))
        return [str(target)]
    from tmmu.examples.broken import KINDS
    from tmmu.plans import file

    kind = KINDS.get(name.removeprefix(BROKEN)) if name.startswith(BROKEN) else None
    if kind is None:
        hint = suggest_names(name, names(), "`tmmu example --list` prints the names")
        raise ValueError(f"there is no example {name!r}; {hint}")
    made = kind.build()
    written = []
    if made.model is not None:
        _check_named(target)
        beside = target.with_suffix(".onnx")
        if beside == target:
            raise ValueError(f"{target} would be both the plan and its model; choose a path that does not end in .onnx")
        canonical.write_atomically(beside, made.model)
        written.append(str(beside))
    for k, other in enumerate(made.others):
        _check_named(target)
        beside = target.with_name(f"{target.stem}.other{k}{target.suffix}")
        file.save(other, beside)
        written.append(str(beside))
    canonical.write_atomically(target, made.encode())
    return [str(target), *written]


def _check_named(target: Path) -> None:
    """Raise ValueError if a second file would be written beside the standard output."""
    if str(target) == STANDARD:
        raise ValueError("it is more than one file; name one with -o FILE")


def _write_llama(name: str, target: Path, seed: int | None, file_type: str | None) -> list[str]:
    """Write a GGUF file, which always contains its weights; return its path."""
    from tmmu.examples import llama

    if seed is None:
        raise ValueError(f"{name} is a file of weights; give --weights SEED")
    shape: llama.SeededLlama = getattr(llama, LLAMAS[name])
    canonical.write_atomically(target, llama.file_pieces(shape, seed, file_type or "f32"))
    return [str(target)]


def _write_model(
    made: onnx.ModelProto,
    target: Path,
    seed: int | None,
    convert: Callable[[onnx.ModelProto], onnx.ModelProto] | None,
) -> list[str]:
    """Write a model, and before it a separate file of its weights if needed; return the paths."""
    written = [str(target)]
    if seed is not None:
        from tmmu.examples import weights

        beside = target.with_name(f"{target.name}.data")
        if convert is None:
            made, data = weights.with_weights(made, seed, beside.name)
        else:
            made = convert(weights.with_weights(made, seed, beside.name, sys.maxsize)[0])
            data = weights.move_outside(made, beside.name)
        if data is not None:
            _check_named(target)
            canonical.write_atomically(beside, data)
            written.append(str(beside))
    canonical.write_atomically(target, made.SerializeToString(deterministic=True))
    return written
