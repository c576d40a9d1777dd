"""Modes and presets: which part of training is planned, and how a model is changed for it (M1).

`inference` runs the forward nodes and retains nothing. `forward` runs them and keeps for the caller the tensors that
backward will read. `backward` runs both halves, and the optimizer nodes if there are any. A preset decides how training
is planned: `train_full` computes everything once, `remat_enabled` recomputes values that do not fit a budget.
spec: M1.4, M1.5, M1.6, M1.7
"""

from __future__ import annotations

from dataclasses import replace

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, MAIN, PRESETS, ArenaConfiguration, ArenaPolicy, Model, Node, Phase
from tmmu.ir.program import view_root
from tmmu.planner.remat import rematerialise
from tmmu.planner.training.expand import expand_to_joint, mark_saved


def choose_mode(mode: str | None, preset: str | None, budget: int | None) -> tuple[str, str]:
    """Return the requested mode and preset, completed if one is None. Raises MODE_VIOLATION for an impossible pair.

    >>> choose_mode(None, None, None), choose_mode("backward", None, None), choose_mode(None, "remat_enabled", 1 << 30)
    (('inference', 'inference'), ('backward', 'train_full'), ('backward', 'remat_enabled'))
    """
    if preset is None:
        preset = "inference" if mode in (None, "inference") else "train_full"
    if preset not in PRESETS:
        raise _violation(f"unknown preset {preset!r}", f"use one of {', '.join(PRESETS)}", preset)
    if mode is None:
        mode = PRESETS[preset][0]
    if mode not in PRESETS[preset]:
        raise _violation(
            f"mode {mode!r} does not go with preset {preset!r}", f"use mode {' or '.join(PRESETS[preset])}", mode
        )
    if (budget is not None) != (preset == "remat_enabled"):
        raise _violation(
            "a budget and the preset 'remat_enabled' belong together",
            "give both --preset remat_enabled and --budget, or neither",
            mode,
        )
    return mode, preset


def _violation(what: str, fix: str, mode: str) -> TmmuError:
    return TmmuError("MODE_VIOLATION", what, place="mode and preset", fix=fix, mode=mode)


def prepare_graph(
    model: Model,
    mode: str,
    arenas: tuple[ArenaConfiguration, ...],
    budget: int | None = None,
    policy: ArenaPolicy = ANYWHERE,
) -> Model:
    """Return the graph to plan in `mode`: unused halves removed, missing ones added, and fitted to a budget.

    Parameters
    ----------
    model
        A valid model in execution order.
    mode
        A mode that `choose_mode` returned.
    arenas, policy
        Where tensors are placed: only arenas that reuse bytes count for the budget.
    budget
        The most bytes that may be live at a step in the arenas that reuse bytes, or None for no limit.

    Raises
    ------
    TmmuError
        MODE_VIOLATION as `expand_to_joint` does; ARENA_TOO_SMALL if the budget cannot be satisfied,
        naming the least peak
        reached.
    """
    if mode == "inference":
        return forward_half(model)
    if mode == "forward":
        own = has_backward(model)
        # A model without a backward half may declare its saved tensors.
        declared = not own and any(tensor.saved_for_backward for tensor in model.tensors)
        return forward_half(model if declared else _mark_reads(expand_to_joint(model)))
    joint = expand_to_joint(model)
    return joint if budget is None else rematerialise(joint, arenas, budget, policy)


def has_backward(model: Model) -> bool:
    """Return whether the model itself has a backward half."""
    return any(node.phase is Phase.BACKWARD for node in model.nodes)


def _mark_reads(joint: Model) -> Model:
    """Return `joint` with marks on the tensors that its backward half reads, in addition to those that it declares."""
    forward, backward = (_half(joint, phase) for phase in (Phase.FORWARD, Phase.BACKWARD))
    _check_order(joint, {node.name for node in forward}, {node.name for node in backward})
    marked = mark_saved(list(joint.tensors), forward, backward)
    both = (tensor if tensor.saved_for_backward else old for tensor, old in zip(marked, joint.tensors, strict=True))
    return replace(joint, tensors=tuple(both))


def _check_order(joint: Model, forward: set[str], backward: set[str]) -> None:
    """Raise MODE_VIOLATION if the forward half mutates a tensor whose old value backward reads. spec: M1.12"""
    read: dict[int, str] = {}
    for node in joint.nodes:
        if node.name in backward:
            read.update({view_root(joint.tensors, t): joint.tensors[t].name for t in node.reads})
        for t in node.mutates if node.name in forward else ():
            if t in read:
                raise TmmuError(
                    "MODE_VIOLATION",
                    f"it mutates {joint.tensors[t].name!r}, and a backward node before it reads {read[t]!r}",
                    place=f"node {node.name!r}",
                    fix="save a copy, or plan both halves with --mode backward",
                    mode="forward",
                )


def _half(joint: Model, phase: Phase) -> list[Node]:
    """Return the nodes of one phase. Their reads include what their bodies return, their writes what bodies receive.

    A node in a body has the phase of the node that owns the body, unless that is a forward node: backward reads what a
    backward node captures. spec: M1.1, T8.4
    """
    of_body: dict[int, Phase] = {MAIN: Phase.FORWARD}
    returned: dict[int, tuple[int, ...]] = {}
    given: dict[int, tuple[int, ...]] = {}
    for b, body in enumerate(joint.bodies[1:], 1):  # outer ones first
        owner = joint.nodes[body.owner]
        around = of_body[owner.body]
        of_body[b] = owner.phase if around is Phase.FORWARD else around
        returned[body.owner] = (*returned.get(body.owner, ()), *body.outputs)
        given[body.owner] = (*given.get(body.owner, ()), *body.inputs)
    return [
        replace(node, reads=(*node.reads, *returned.get(n, ())), writes=(*node.writes, *given.get(n, ())))
        for n, node in enumerate(joint.nodes)
        if (node.phase if of_body[node.body] is Phase.FORWARD else of_body[node.body]) is phase
    ]


def forward_half(model: Model) -> Model:
    """Return `model` without its backward and optimizer nodes and the tensors that only they touch. spec: M1.4"""
    body = _forward_bodies(model)
    position = [n for n, node in enumerate(model.nodes) if node.phase is Phase.FORWARD and node.body in body]
    if len(position) == len(model.nodes):
        return model
    kept = [model.nodes[n] for n in position]
    touched = {t for node in kept for t in (*node.reads, *node.writes)}
    touched.update(t for b in body if b != MAIN for t in (*model.bodies[b].inputs, *model.bodies[b].outputs))
    elsewhere = {t for node in model.nodes for t in (*node.reads, *node.writes)}
    elsewhere.update(t for inner in model.bodies[1:] for t in (*inner.inputs, *inner.outputs))
    stays = [t in touched or t not in elsewhere for t in range(len(model.tensors))]
    for t in range(len(model.tensors)):
        base = t
        while stays[t] and (view := model.tensors[base].view) is not None:  # a view keeps its base
            base = view.base
            stays[base] = True
    row = dict(zip((t for t, stay in enumerate(stays) if stay), range(len(stays)), strict=False))

    def rows(old: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(row[t] for t in old if t in row)

    def node_of(node: Node) -> Node:
        hints = tuple((row[result], row[operand]) for result, operand in node.in_place)
        return replace(
            node,
            body=body[node.body],
            reads=rows(node.reads),
            writes=rows(node.writes),
            mutates=rows(node.mutates),
            in_place=hints,
        )

    tensors = [
        replace(tensor, view=tensor.view._replace(base=row[tensor.view.base])) if tensor.view is not None else tensor
        for t, tensor in enumerate(model.tensors)
        if t in row
    ]
    place = {-1: -1} | {n: k for k, n in enumerate(position)}
    bodies = tuple(
        replace(inner, owner=place[inner.owner], inputs=rows(inner.inputs), outputs=rows(inner.outputs))
        for b, inner in enumerate(model.bodies)
        if b in body
    )
    names = {tensor.name for tensor in tensors}
    bindings = replace(model.bindings, donated=tuple(name for name in model.bindings.donated if name in names))
    return replace(
        model,
        tensors=tuple(tensors),
        nodes=tuple(map(node_of, kept)),
        bodies=bodies,
        must_not_alias=tuple((row[a], row[b]) for a, b in model.must_not_alias if a in row and b in row),
        bindings=bindings,
    )


def _forward_bodies(model: Model) -> dict[int, int]:
    """Return the bodies that forward nodes own, the main graph included, with their numbers in the forward half."""
    found = {MAIN: MAIN}
    for b, body in enumerate(model.bodies[1:], 1):
        owner = model.nodes[body.owner]
        if owner.phase is Phase.FORWARD and owner.body in found:
            found[b] = len(found)
    return found
