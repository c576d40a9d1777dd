"""The checker's quick path of plain steps says what running each step in full says, whatever a program looks like.

The programs are the checker's own, not plans that gate or structure let through: tensors of no bytes, steps that change
what they were not given, results of loops that are read too early, a node with exclusive arms.
"""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import event, given, settings
from hypothesis import strategies as st

from proofs.definition.checker import execute
from proofs.definition.checker.program import PlacedArena, PlacedStorage, PlacedTensor, Program, RunStep
from proofs.definition.violations import Violation
from proofs.readers.arms import Branch, BranchingNode
from tests.support.effort import share

STEPS = 6
ARENAS = [PlacedArena(name, 1 << 20, 1, 1 << 20, 1 << 20, reuse=True, scattered=False) for name in ("memory", "other")]
NODES = ((), (BranchingNode(1, 4, (Branch(2, 2), Branch(3, 3))),))
"""No node, or one of two arms, each of a step, between the enter step and the leave step."""
ANY = st.integers(0, STEPS - 1)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Step n reads an earlier tensor and writes the n-th, of two bytes of its own, but for a few faults."""
    steps = [
        RunStep(tuple(draw(st.lists(st.integers(0, n - 1), max_size=2))) if n else (), (n,), frozenset())
        for n in range(STEPS)
    ]
    tensors = [PlacedTensor(f"t{n}", n, 0, 2, 1, 0, STEPS - 1, n, 0, 2 * n) for n in range(STEPS)]
    views: dict[int, tuple[int, int]] = {}
    for n, t, fault in draw(st.lists(st.tuples(ANY, ANY, st.integers(0, 12)), min_size=1, max_size=4)):
        step, tensor = steps[n], tensors[t]
        match fault:
            case 0:
                steps[n] = step._replace(reads=(*step.reads, t))
            case 1:
                steps[n] = step._replace(writes=(t,))
            case 2:
                steps[n] = step._replace(writes=draw(st.sampled_from(((), (n, t)))))
            case 3:
                steps[n] = step._replace(mutates=frozenset((t, n)))
            case 4:
                steps[n] = step._replace(again=(t,))
            case 5:
                steps[n] = step._replace(begins=frozenset((t, n)))
            case 6:
                steps[n] = step._replace(completes=True)
            case 7:
                tensors[t] = tensor._replace(birth=n)
            case 8:
                tensors[t] = tensor._replace(death=n)
            case 9:
                tensors[t] = tensor._replace(address=2 * n, arena=draw(st.integers(0, 1)))
            case 10:
                tensors[t] = tensor._replace(bytes=0)
            case 11:
                tensors[t] = tensor._replace(writer=None)
            case _:
                views[t] = n, 0
    storages = [PlacedStorage(t.arena, t.bytes, 1, t.birth, t.death, t.address) for t in tensors]
    return Program(
        ARENAS, storages, [t.name for t in tensors], [], STEPS - 1, tensors, steps, [f"n{n}" for n in range(STEPS)],
        views, {}, draw(st.lists(ANY, max_size=2)), frozenset(draw(st.lists(ANY, max_size=1))),
        draw(st.sampled_from(NODES)),
    )  # fmt: skip


def in_full(run: Program) -> list[Violation]:
    """What the definition says where no step is taken for a plain one."""
    with patch.object(execute, "_plain", lambda *_: lambda *_: False):
        return list(execute.check_execution(run))


@settings(max_examples=share(3000))
@given(programs())
def test_a_plain_step_is_one_of_which_the_full_run_says_the_same(run: Program) -> None:
    """spec: V1.2, V1.3, V1.4, T8.3"""
    found = list(execute.check_execution(run))
    event("right" if not found else "wrong")
    assert found == in_full(run)
