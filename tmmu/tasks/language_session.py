"""A session of a language model in one call: its passes are planned as a set and proved, and its memory is made.

`tmmu.foundry` neither plans nor proves: here are the planner and the verifier that it is given.
spec: FD6.1, FD6.17, FD8.1, FD8.3
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from proofs.verify import sets as together
from proofs.verify.judge import judge
from proofs.verify.options import Options, SharedNames
from proofs.verify.sets import JudgedPlan
from proofs.verify.sources import ModelInMemory
from proofs.verify.verdict import PROVED, Verdict
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Model
from tmmu.foundry.compiled import CompiledModel
from tmmu.foundry.context import ContextConfig, KvBudget, KvShape, Layout
from tmmu.foundry.cpu import CpuDevice
from tmmu.foundry.cpu_kernels import CpuKernels
from tmmu.foundry.environment import Settings
from tmmu.foundry.failures import InvalidSetting
from tmmu.foundry.forward import SHARED, session_arenas, session_policy
from tmmu.foundry.graph import SessionPlans
from tmmu.foundry.kernels import DeviceKernels
from tmmu.foundry.session import ModelSession, initialize_session
from tmmu.ir import files
from tmmu.planner import PlanOptions
from tmmu.planner.sets.plan import SetOptions, plan_programs
from tmmu.planner.sets.programs import prepare_program
from tmmu.plans import file, sets
from tmmu.runtime.events import EventLog

ACTIVATIONS = {"f16": "float16", "f32": "float32"}
"""The types of activations, by the words of the option."""

DEVICES = ("numpy", "fast", "ggml")
"""The devices that run a session."""

MAX_THREADS = 512
"""The most threads of a graph of ggml."""

SET_NAME = "session"
"""The name of a session's plan set that is not in a folder."""


def plan_session(models: Mapping[str, Model]) -> SessionPlans:
    """Plan the passes of a session as one set, packed, with one cache. O(n log n) for n tensors."""
    layers = len(next(iter(models.values())).bindings.donated) // 2
    options, arenas, policy = PlanOptions(layout="packed"), session_arenas(layers), session_policy(layers)
    prepared = {name: prepare_program(model, arenas, options, policy) for name, model in models.items()}
    made = plan_programs(prepared, SetOptions(share=(SHARED,)), options.layout)
    return SessionPlans(made.plan_set, made.plans)


def verdicts_on(plans: SessionPlans, models: Mapping[str, Model]) -> list[Verdict]:
    """Return the verifier's answer on the plan of each pass, against its model, and then that on the set.

    It takes a second for a hundred nodes.
    """
    options, judged = Options(bindings=Bindings(donated=(SHARED,)), in_set=True), list[JudgedPlan]()
    for name, plan in plans.plans.items():
        path = sets.plan_path(SET_NAME, name)
        stated = file.require_steps(file.decode(file.encode(plan)))
        sources = ModelInMemory(models[name])
        verdict = judge(path, stated, replace(options, model=f"{name}.ir.cbor"), sources=sources)
        judged.append(JudgedPlan(path, stated, verdict, sources.subject))
    found = together.verdicts(judged, {SET_NAME: plans.plan_set}, SharedNames(), options)
    return [*(one.verdict for one in judged), *found]


def prove(plans: SessionPlans, models: Mapping[str, Model]) -> None:
    """Raise CONTRACT_VIOLATION unless the verifier answers PROVED of each plan and of the set."""
    for verdict in verdicts_on(plans, models):
        require(verdict)


def require(verdict: Verdict) -> None:
    """Raise CONTRACT_VIOLATION for a verdict other than PROVED, with the verdict's line."""
    if verdict.verdict != PROVED:
        raise TmmuError(
            "CONTRACT_VIOLATION", f"the plan set of the session is not proved: {verdict.line}", place=verdict.file,
            fix="this is a bug in tmmu: report it with the model", failure_operator="Foundry",
        )  # fmt: skip


def write_session(plans: SessionPlans, models: Mapping[str, Model], folder: str) -> list[str]:
    """Write the plan set and the model `NAME.ir.cbor` of each pass into a folder; return the paths. spec: FD8.3"""
    paths = sets.save(folder, plans.plan_set, {name: file.encode(plan) for name, plan in plans.plans.items()})
    for name, model in models.items():
        paths.append(os.path.join(folder, f"{name}.ir.cbor"))
        files.save(model, paths[-1])
    return paths


@dataclass(frozen=True)
class SessionOptions:
    """The options of a session.

    Attributes
    ----------
    context
        Tokens; none: what the model has.
    budget
        Bytes of keys and values; none: the environment's, or half of the recommended working set.
    layout
        "compact" has the heads that keys and values have, "expanded" repeats them for all heads of queries.
    activations
        "f16" or "f32"; none: the device's own, f16 with numpy and fast, f32 with ggml.
    initial
        Tokens that the cache has room for at first.
    strict
        Whether old and new buffers of a growth must fit into the budget together.
    device
        "numpy", "fast", whose products need the package numba, or "ggml", whose kernels need ggml-python.
    threads
        Those of ggml, which its plan binds; none: the processors that the process may use.
    """

    context: int | None = None
    budget: int | None = None
    layout: Layout = "compact"
    activations: str | None = None
    initial: int = 2048
    strict: bool = False
    device: str = "numpy"
    threads: int | None = None

    def __post_init__(self) -> None:
        """Read a setting. Raises INVALID_SETTING for a word that is not among those above and not an integer."""
        for name, known in (
            ("layout", ("compact", "expanded")), ("activations", (None, *ACTIVATIONS)), ("device", DEVICES),
        ):  # fmt: skip
            if (word := getattr(self, name)) not in known:
                raise InvalidSetting(f"{word!r} is not known", name, f"use {' or '.join(filter(None, known))}")
        for name in ("context", "budget", "initial", "threads"):
            value = getattr(self, name)
            if value is not None and type(value) is not int:
                raise InvalidSetting(f"{value!r} is not an integer", name, "give a number of tokens, or of bytes")
        if self.threads is not None and (self.device != "ggml" or not 1 <= self.threads <= MAX_THREADS):
            what = f"{self.threads} threads of the device {self.device}"
            raise InvalidSetting(what, "threads", f"state 1 to {MAX_THREADS} with --device ggml")


def prepare_session(
    model: CompiledModel,
    options: SessionOptions = SessionOptions(),
    *,
    environment: Mapping[str, str] | None = None,
    budget: KvBudget | None = None,
    number: int = 1,
    events: EventLog | None = None,
) -> ModelSession:
    """Return a session that has no memory yet. INVALID_SETTING for a variable or option that is wrong.

    `budget` is shared by the caches of several sessions, `number` the session's in the log `events`.
    spec: FD3.1, FD7.1
    """
    settings = Settings.of(os.environ if environment is None else environment)
    shape = model.shape
    kv = KvShape(shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, options.layout)
    context = ContextConfig.of(
        kv.bytes_per_token, model.device.recommended_working_set, model_maximum=shape.context_length,
        requested=options.context, budget=options.budget, settings=settings, initial=options.initial,
        strict=options.strict,
    )  # fmt: skip
    computed = model.kernels.activations
    dtype = computed[0] if options.activations is None else ACTIVATIONS[options.activations]
    if dtype not in computed:
        known = " or ".join(word for word, kind in ACTIVATIONS.items() if kind in computed)
        raise InvalidSetting(f"the device {options.device} does not compute them", "activations", f"use {known}")
    return ModelSession(
        model, context, settings=settings, layout=options.layout, dtype=dtype,
        budget=budget or KvBudget(context.budget, options.strict), number=number, events=events,
    )  # fmt: skip


def compile_model(path: str | os.PathLike[str], options: SessionOptions = SessionOptions()) -> CompiledModel:
    """Return a model on the CPU, with the kernels of the device that the options name.

    Raises INVALID_WEIGHTS for a file that cannot be run, MISSING_PACKAGE for a device whose package is not installed.
    """
    device = CpuDevice()
    kernels: DeviceKernels = CpuKernels(device, is_fast=options.device == "fast")
    if options.device == "ggml":
        from tmmu.foundry.ggml_kernels import GgmlKernels

        kernels = GgmlKernels(device, options.threads)
    return CompiledModel(path, device, kernels)


def open_session(
    path: str | os.PathLike[str],
    options: SessionOptions = SessionOptions(),
    *,
    environment: Mapping[str, str] | None = None,
    events: EventLog | None = None,
) -> ModelSession:
    """A session of a GGUF file on the CPU, ready to `generate`, in memory whose plan set is proved.

    Raises
    ------
    TmmuError
        INVALID_WEIGHTS for the file, INVALID_SETTING for options and variables, OUT_OF_MEMORY; CONTRACT_VIOLATION
        where the plan set is not proved.
    """
    session = prepare_session(compile_model(path, options), options, environment=environment, events=events)
    return initialize_session(session, plan_session(session.forward), prove)
