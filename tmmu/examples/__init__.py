"""What `tmmu example` writes: real architectures, their weights if a seed is given, and the corpus of wrong plans.

Models are ONNX files written by small builders, one module each, or training graphs of large models, traced once and
stored compressed (`traced`); `broken/<kind>` is a plan that `verify-plan` must refute. Nothing here is loaded before
it is asked for, as `onnx` takes its time.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tmmu.core import canonical
from tmmu.core.output import STANDARD, did_you_mean
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
"""Every model by its name: the module here and the function that builds it."""

LLAMAS = {"llama-15m": "LLAMA_15M", "llama-110m": "LLAMA_110M"}
"""Language models as GGUF files, always with weights, by name: the shape in the module `llama`."""

TEXTS = {
    "training-sgd": "training:SGD",
    "training-adam": "training:ADAM",
    "training-shards": "training:ZERO",
    "gpt2-shards": "shards:GPT2",
    "text-plan": "texts:PLAN",
    "text-model": "texts:MODEL",
}
"""Training steps with an optimizer (IR as text), shard specs (TOML), and a plan and a model by hand, by name: the
module here and the text in it."""

BROKEN = "broken/"
"""What the names of wrong plans begin with."""


def names() -> list[str]:
    """Every name that `write` takes: the models, traced graphs and texts, then the wrong plans in their order."""
    from tmmu.examples.broken import KINDS

    return [*MODELS, *LLAMAS, *traced.DIGESTS, *TEXTS, *(f"{BROKEN}{kind}" for kind in KINDS)]


def model(name: str) -> onnx.ModelProto:
    """The model of that name, built anew; KeyError for another name."""
    module, function = MODELS[name].split(":")
    loaded = importlib.import_module(f"tmmu.examples.{module}")
    built: onnx.ModelProto = getattr(loaded, function)()
    return built


def write(name: str, path: str | os.PathLike[str], seed: int | None = None, file_type: str | None = None) -> list[str]:
    """Write an example and return the paths that were written.

    Parameters
    ----------
    name
        One of `names()`.
    path
        Where the model or the plan goes. A wrong plan that takes a model to refute also writes it, beside the plan
        and with the suffix `.onnx`; one that takes plans of other ranks writes these, as `.other0.cbor` and so on.
    seed
        Of an ONNX model: draw its weights from this integer below 2^64, as `tmmu.examples.weights` says. More than
        1 MiB of them stand in the file `path`.data, which is written first. A Llama needs one.
    file_type
        Of a Llama: how its matrices are stored, f32 (the default), f16, q8_0 or q4_0.

    Raises
    ------
    ValueError
        For an unknown name, with the closest ones, for a plan whose path is that of its model, for a traced graph
        whose path does not end in `.ir.cbor`, for a seed that is out of range, is given to what has no weights or is
        missing for a Llama, and for a type that is none of a Llama's or is given to something else.
    TmmuError
        INVALID_IR where a stored graph is damaged; MISSING_PACKAGE where the example needs gguf, which is not
        installed; else where the file cannot be written, whole or not at all.

    Notes
    -----
    spec: C2.5, MC7.4, MC7.5, FD5.11
    """
    target = Path(path)
    if name in LLAMAS:
        return _llama(name, target, seed, file_type)
    if file_type is not None:
        raise ValueError(f"{name} is no GGUF file, whose matrices have a type; leave it out")
    if name in MODELS:
        return _model(model(name), target, seed)
    if seed is not None:
        raise ValueError(f"{name} is no ONNX model and no GGUF file, and has no weights to draw; leave out the seed")
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
        hint = did_you_mean(name, names(), "`tmmu example --list` prints the names")
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
    """ValueError where a second file would lie beside the standard output."""
    if str(target) == STANDARD:
        raise ValueError("it is more than one file; name one with -o FILE")


def _llama(name: str, target: Path, seed: int | None, file_type: str | None) -> list[str]:
    """Write a GGUF file, whose weights always lie in it."""
    from tmmu.examples import llama

    if seed is None:
        raise ValueError(f"{name} is a file of weights; give --weights SEED")
    shape: llama.SeededLlama = getattr(llama, LLAMAS[name])
    canonical.write_atomically(target, llama.file_pieces(shape, seed, file_type or "f32"))
    return [str(target)]


def _model(made: onnx.ModelProto, target: Path, seed: int | None) -> list[str]:
    """Write a model, before it the file of its weights if they lie outside, and return the paths."""
    written = [str(target)]
    if seed is not None:
        from tmmu.examples import weights

        beside = target.with_name(f"{target.name}.data")
        made, data = weights.with_weights(made, seed, beside.name)
        if data is not None:
            _check_named(target)
            canonical.write_atomically(beside, data)
            written.append(str(beside))
    canonical.write_atomically(target, made.SerializeToString(deterministic=True))
    return written
