"""The options of `plan_memory` beside a model and its arenas, and the check that they fit together.

spec: A4.1, M1.2, M1.3, O1.8, R6.7
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import EFFORT_END, LAYOUTS, MODES, ORDERS, REPLAN_POLICIES, FixedByte, Model, Phase
from tmmu.planner.streams.assignment import StreamAssignment


@dataclass(frozen=True)
class PlanOptions:
    """How a model is planned.

    Attributes
    ----------
    mode
        "inference" retains nothing; "forward" keeps tensors saved for backward to the end; "backward" runs both halves
        of a joint graph. `tmmu.planner.modes.prepare_graph` makes a joint graph, and marks saved tensors.
    layout
        One of `LAYOUTS`.
    order
        One of `ORDERS`: the execution order that is planned.
    listed
        The names of all nodes in the order to run them, in place of that of the model; empty for none.
    replay_token
        The 32-byte replay token; by default that of seed 0. It moves no slot and no offset.
    address_token
        The token from which the layout `hashed` derives addresses, at least 64 bytes; no other layout takes one.
    fallback
        "packed": used if the layout is `slots`, if slots do not fit an arena or 64 bits or miss fixed offsets, and if
        packed fits.
    effort
        In the layout `packed`: the number of looks spent on finding lower placements; None is only the portfolio.
    is_stage
        Whether the model is a part of a joint graph (a pipeline stage, or its forward half): it may then have no
        backward nodes, and none of the tensors that they read.
    replan_policy
        The reaction to a shape outside the envelope, if the model has one: a word of `REPLAN_POLICIES`.
    symbolic
        Whether offsets follow from the sizes at each shape of the envelope: in the layout `slots`, without fallback.
    fixed
        The offsets at which tensors must begin, in addition to those that the model states: a byte, or the name of an
        arena and a byte. The arena must be named if several may hold the tensor.
    streams
        The streams of the nodes of a model that states none.
    late_seeds
        Whether seeds of gradients arrive when they are first read (M2.16), in mode `backward` without streams.
    """

    mode: str = "inference"
    layout: str = "slots"
    order: str = "given"
    replay_token: bytes | None = None
    address_token: bytes | None = None
    fallback: str | None = None
    is_stage: bool = False
    replan_policy: str = "ABORT"
    effort: int | None = None
    symbolic: bool = False
    fixed: Mapping[str, FixedByte] = field(default_factory=dict)
    streams: StreamAssignment | None = None
    listed: tuple[str, ...] = ()
    late_seeds: bool = False


DEFAULT_OPTIONS = PlanOptions()
"""Inference in 001's slots, in the given order."""


def check_options(options: PlanOptions, model: Model) -> None:
    """Raise MODE_VIOLATION or INVALID_BINDING for unknown options, or options that do not fit together or to the
    model.
    """
    mode = options.mode
    if mode not in MODES:
        raise TmmuError("MODE_VIOLATION", f"unknown mode {mode!r}", fix=f"use one of {', '.join(MODES)}", mode=mode)
    if (
        mode == "backward"
        and not options.is_stage
        and model.nodes
        and all(node.phase is Phase.FORWARD for node in model.nodes)
    ):
        raise TmmuError(
            "MODE_VIOLATION",
            "mode 'backward' needs backward nodes, and the model has only forward nodes",
            place=f"model {model.name!r}",
            fix="expand it to a joint graph first",
            mode=mode,
        )
    if mode == "forward" and not options.is_stage and (node := _without_gradient(model)) is not None:
        raise TmmuError(
            "MODE_VIOLATION",
            "it has bodies or mutates a tensor, so that no gradient is made, and the model marks nothing as saved",
            place=f"node {node!r}",
            fix="mark what backward reads as saved, or plan it with --mode inference",
            mode=mode,
        )
    if options.late_seeds and (mode != "backward" or options.streams is not None or model.has_streams):
        raise TmmuError(
            "MODE_VIOLATION", "seeds of gradients arrive late only in mode 'backward', without streams",
            place=f"model {model.name!r}", fix="plan it with --mode backward, or without --late-seeds", mode=mode,
        )  # fmt: skip
    _check_word("layout", options.layout, LAYOUTS)
    _check_word("order", options.order, ORDERS)
    _check_word("replan_policy", options.replan_policy, REPLAN_POLICIES)
    if options.fallback is not None:
        _check_word("fallback", options.fallback, ("packed",))
    token = options.replay_token
    if token is not None and len(token) != 32:
        raise TmmuError(
            "INVALID_BINDING",
            f"expected a replay token of 32 bytes, got {len(token)}",
            fix="give 32 bytes",
            binding="replay_token",
        )
    if options.address_token is not None and options.layout != "hashed":
        raise TmmuError(
            "INVALID_BINDING",
            f"the layout {options.layout} takes no address token",
            fix="drop it, or choose --layout hashed",
            binding="address_token",
        )
    if options.effort is not None and options.layout != "packed":
        what = f"the layout {options.layout} has no search, and so takes no effort"
        raise TmmuError("INVALID_BINDING", what, fix="drop it, or choose --layout packed", binding="effort")
    if options.listed and options.order != "given":
        what = f"the order {options.order} and a list of nodes are both given"
        raise TmmuError("INVALID_BINDING", what, fix="give one of the two", binding="execution_order")
    if options.symbolic:
        _check_symbolic(options, model)
    if model.has_streams:
        _check_streams(options, model)
    if options.effort is not None and not 0 <= options.effort < EFFORT_END:
        fix = f"give a number below {EFFORT_END}"
        raise TmmuError("INVALID_BINDING", f"the effort is {options.effort}", fix=fix, binding="effort")


def _check_symbolic(options: PlanOptions, model: Model) -> None:
    """Raise INVALID_BINDING unless offsets can follow from sizes: slots, an open dimension, nothing fixed."""
    if options.layout != "slots" or options.fallback is not None:
        what = f"the layout {options.layout}" if options.layout != "slots" else f"the fallback {options.fallback}"
        what, fix = f"{what} has no expression for an offset", "plan with --layout slots, without --fallback"
    elif not model.bindings.ranges:
        what, fix = "no dimension is open, so that all offsets are numbers", "give a range: --dim NAME=1..8"
    elif options.fixed or any(tensor.fixed_offset is not None for tensor in model.tensors):
        what, fix = "a tensor has a fixed offset, and offsets move with the shape", "leave --fix or --symbolic out"
    else:
        return
    raise TmmuError("INVALID_BINDING", what, place=f"model {model.name!r}", fix=fix, binding="symbolic")


def _check_streams(options: PlanOptions, model: Model) -> None:
    """Raise INVALID_BINDING for an order of the list, for a model whose streams state the order of its nodes.

    spec: X6.5, X6.10
    """
    if options.order == "given" and not options.listed:
        return
    binding = "execution_order" if options.listed else "order"
    raise TmmuError(
        "INVALID_BINDING",
        "its streams state the order of its nodes, and another order of the list would save no bytes",
        place=f"model {model.name!r}",
        fix=f"drop --{binding.replace('_', '-')}",
        binding=binding,
    )


def _check_word(binding: str, word: str, known: tuple[str, ...]) -> None:
    """Raise INVALID_BINDING for a word that is not one of those known."""
    if word not in known:
        what = f"unknown {binding.replace('_', ' ')} {word!r}"
        raise TmmuError("INVALID_BINDING", what, fix=f"use one of {', '.join(known)}", binding=binding)


def _without_gradient(model: Model) -> str | None:
    """Return the first node for which neither the model nor a joint graph states what backward reads, or None."""
    if any(node.phase is Phase.BACKWARD for node in model.nodes) or any(t.saved_for_backward for t in model.tensors):
        return None
    owners = {body.owner for body in model.bodies[1:]}
    for n, node in enumerate(model.nodes):
        if n in owners or (node.phase is Phase.FORWARD and node.mutates):
            return node.name
    return None
