"""The lemmas on liveness beside the planner's pass: deaths by the last access, and what loops keep. spec: V4.11"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from types import ModuleType

from proofs.proving.smt.expressions import parse, walk
from tests.support.ground import Ground
from tests.support.ties import Texts, split
from tmmu.core.vocabulary import MAIN, Model, Role
from tmmu.ir.program import ModelProgram, build_program


def lives(texts: Texts, code: ModuleType, example: tuple[Model, str]) -> str | None:
    """Deaths are those of the lemma's pass but for what the caller or a loop keeps, and what it says of loops holds."""
    model, mode = example
    run = build_program(model)
    live = code.analyze(run, mode)
    death = _passed(texts["DIES"], run)
    kept = set(model.outputs) | {
        t
        for t, tensor in enumerate(run.tensors)
        if tensor.role in (Role.PARAMETER, Role.OPTIMIZER) or (mode == "forward" and tensor.saved_for_backward)
    }
    looped = _in_loops(run)
    for t, tensor in enumerate(run.tensors):
        last = len(run.steps) - 1
        wanted = max(0, last) if t in kept else death.get(t, live.birth[t])
        if live.death[t] != wanted and not (t in looped and live.death[t] > wanted):
            return f"{tensor.name} dies at {live.death[t]}, by the lemma at {wanted}"
    for reader, enter, leave, t in _loop_reads(run):
        name = (
            "what_a_loop_captures_is_live_at_every_moment_until_it_is_read"
            if live.writer[t] < enter
            else "what_an_iteration_makes_is_live_until_it_is_read_there"
        )
        ends = {"birth": live.birth[t], "death": live.death[t], "enter": enter, "leave": leave, "reader": reader}
        if wrong := _at_every_moment(texts[name], ends):
            return f"{run.tensors[t].name}, read at {reader} in [{enter}, {leave}]: {wrong} is false of {ends}"
    return None


def _passed(dies: str, run: ModelProgram) -> dict[int, int]:
    """The deaths after the lemma's pass over all accesses."""
    death: dict[int, int] = {}
    for now, step in enumerate(run.steps):
        for t in (*step.writes, *step.reads):
            death[t] = Ground("").value(dies, now=now)
    return death


def _loops(run: ModelProgram, body: int) -> Iterator[tuple[int, int]]:
    """Enter and leave of each iterating body around a body, itself included."""
    while body != MAIN:
        if run.model.bodies[body].iterates:
            yield run.ranges[body]
        body = run.parents[body]


def _loop_reads(run: ModelProgram) -> Iterator[tuple[int, int, int, int]]:
    """Every read inside of a loop: its step, the loop's enter and leave, and the tensor."""
    for s, step in enumerate(run.steps):
        for enter, leave in _loops(run, step.body):
            yield from ((s, enter, leave, t) for t in step.reads)


def _in_loops(run: ModelProgram) -> set[int]:
    """What a loop may keep live: all that is touched in one, by its enter or by its leave."""
    found = set()
    for s, step in enumerate(run.steps):
        at_an_end = any(s in run.ranges[b] for b, body in enumerate(run.model.bodies) if body.iterates)
        if at_an_end or any(True for _ in _loops(run, step.body)):
            found.update((*step.reads, *step.writes))
    return found


def _at_every_moment(text: str, ends: Mapping[str, int]) -> str | None:
    """A hypothesis on the ends of a lifetime that is false, or the goal if it is at some moment of the loop."""
    hypotheses, goal = split(text)
    of_moments = [h for h in hypotheses if {"step", "iteration"} & set(filter(_is_symbol, walk(parse(h)[0])))]
    ends_only = Ground("", ends)
    if wrong := next((h for h in hypotheses if h not in of_moments and not ends_only.value(h)), None):
        return wrong
    for step, iteration, reads_in in product(range(ends["enter"], ends["leave"] + 1), (0, 1), (0, 1)):
        moment = Ground("", {**ends, "step": step, "iteration": iteration, "reads_in": reads_in})
        if all(moment.value(h) for h in of_moments) and not moment.value(goal):
            return goal
    return None


def _is_symbol(item: object) -> bool:
    return isinstance(item, str)
