"""Sessions of small Llamas, which take milliseconds: a file that is written once a process, and a session on it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tmmu.core.vocabulary import Model
from tmmu.examples.llama import SeededLlama, file_pieces
from tmmu.foundry.compiled import CompiledModel
from tmmu.foundry.cpu import CpuDevice
from tmmu.foundry.cpu_kernels import CpuKernels
from tmmu.foundry.device import Device
from tmmu.foundry.graph import SessionPlans
from tmmu.foundry.session import ModelSession, Prove, initialize_session
from tmmu.tasks.language_session import SessionOptions, plan_session, prepare_session

SMALL = SeededLlama("small", 64, 2, 4, 2, 96, vocab=300, context_length=1024, tied=False)
"""Two layers, four heads that share two."""

TIED = SeededLlama("tied", 96, 1, 3, 1, 64, vocab=270, context_length=500)
"""The embedding for the logits, three heads that share one, a maximum that is no multiple of 128."""


@cache
def file_of(shape: SeededLlama = SMALL, seed: int = 1, file_type: str = "f32") -> Path:
    """A GGUF file of that shape."""
    descriptor, name = tempfile.mkstemp(suffix=".gguf")
    os.close(descriptor)
    path = Path(name)
    path.write_bytes(b"".join(file_pieces(shape, seed, file_type)))
    return path


def unproved(_plans: SessionPlans, _models: Mapping[str, Model]) -> None:
    """In the place of a proof, where a test is about what comes after it."""


def model_of(path: Path | None = None, device: Device | None = None) -> CompiledModel:
    """A model on a device of its own, if none is given."""
    device = device or CpuDevice()
    return CompiledModel(path or file_of(), device, CpuKernels(device))


def session_of(
    model: CompiledModel | None = None,
    options: SessionOptions = SessionOptions(initial=128),  # noqa: B008 it is frozen
    environment: Mapping[str, str] | None = None,
    prove: Prove = unproved,
    **given: Any,
) -> ModelSession:
    """A session that is ready."""
    session = prepare_session(model or model_of(), options, environment=environment or {}, **given)
    return initialize_session(session, plan_session(session.forward), prove)
