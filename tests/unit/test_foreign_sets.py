"""The programs in one file of another producer as a plan set: right ones, and each way to be wrong.

Files of ExecuTorch and of TensorFlow Lite's own writer are among them; the others are stated here.
spec: FP1.19, FP5.16, FP6.20, PS4.4, PS4.8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from proofs.definition.violations import Obligation, Violation
from proofs.readers.plans.formats import load_any, load_programs
from proofs.readers.plans.tflite import OPERATORS
from proofs.sets import calls
from proofs.sets.agreed import agree_by_names
from proofs.sets.members import SetMember
from proofs.sets.state import find_never_ready, find_state
from proofs.sets.violations import find_violations
from proofs.verify import entry
from proofs.verify.checks import Subject, violations
from proofs.verify.judge import open_programs
from proofs.verify.options import Disagreement, Options, ProofFolders
from tests.support.flatbuffer_files import FALSE, Fields, method, model, node, planned, program, stored, subgraph
from tmmu.core.errors import TmmuError
from tmmu.plans.gate import StatedPlan

CORPUS = Path(__file__).parents[1] / "corpus/foreign/proved"


@pytest.fixture(autouse=True)
def _few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BUDGET", 500)


RELU, ADD = "aten::relu.out", "aten::add.out"
COPY = "aten::copy_"


def uses(name: str, state: Fields, at: int = 0, **more: Any) -> Fields:
    """A method that adds its input to state, in place, and returns another result."""
    values = [planned(at), state, planned(at + 16)]
    return method(values, [(ADD, 0, 1, 1, 1), (RELU, 1, 2, 2)], [0], [2], name=name, **more)


def fills(name: str, state: Fields, *calls: tuple[Any, ...]) -> Fields:
    """A method that writes state, by default whole and from its input."""
    return method([planned(0), state, FALSE], calls or [(COPY, 1, 0, 2, 1)], [0], [], name=name, memories=FOUR)


def cache(offset: int = 0, memory: int = 2, name: str = "k", **more: Any) -> Fields:
    return planned(offset, memory=memory, name=name, **more)


def entries(offsets: Sequence[int], **tensors: Any) -> bytes:
    """Two entries of TensorFlow Lite that change a variable, and a subgraph that both call."""
    graphs = []
    for name in ("a", "b"):
        own = tensors.get(name, stored(16, "v", variable=True))
        ops = [node(1, [0, 1], [2]), node(2, [], [], options=[2])]
        graphs.append({**subgraph([stored(16, "x"), own, stored(16, "y")], ops, [0], [2]), 4: name})
    called = subgraph([stored(16, "x")], [node(0, [], [0])], [], [])
    return model([*graphs, called], offsets, [OPERATORS.index(op) for op in ("CONV_2D", "SVDF", "CALL_ONCE")])


FOUR = (0, 64, 64)


@dataclass(frozen=True)
class Case:
    """A file, the names that it shares, and what is found of it, with the calls of the witness."""

    title: str
    data: bytes | str
    shared: tuple[str, ...] = ("k",)
    initial: tuple[str, ...] = ()
    obligation: Obligation | None = None
    calls: tuple[str, ...] = ()
    suffix: str = "pte"

    def __str__(self) -> str:
        return self.title


UNTOUCHED, WRITTEN_FIRST = Obligation.STATE_IS_UNTOUCHED, Obligation.STATE_IS_WRITTEN_FIRST
TWO = [uses(name, cache(data=1), memories=FOUR) for name in ("a", "b")]
UNWRITTEN = [uses(name, cache(), memories=FOUR) for name in ("a", "b")]
VARIABLES = [0, 16, 32, 0, 16, 32, 48]

CASES = (
    Case("methods of ExecuTorch that share a buffer", "executorch-methods.pte", ("cache",)),
    Case("the same without share_mutable_buffers", "executorch-methods-apart.pte", ("cache",), ("cache",),
         Obligation.SHARED_AT_ONE_PLACE),
    Case("entries of TensorFlow Lite", "tflite-entries.tflite", ("cache",)),
    Case("an entry that knows nothing of the cache of the others", "tflite-entries-over-cache.tflite", ("cache",), (),
         UNTOUCHED, ("prefill", "classify", "decode")),
    Case("state that the file fills", program(*TWO)),
    Case("state that nothing fills", program(*UNWRITTEN), (), (), WRITTEN_FIRST, ("a",)),
    Case("state that the caller fills", program(*UNWRITTEN), ("k",), ("k",)),
    Case("state that a third method fills", program(*UNWRITTEN, fills("set", cache()))),
    Case("state that a method fills and reads", program(*UNWRITTEN, fills("set", cache(), (ADD, 0, 1, 1, 1))), ("k",),
         (), WRITTEN_FIRST, ("a",)),
    Case("state that a method fills in one branch",
         program(*UNWRITTEN, fills("set", cache(), ("jump", 2, 2), (RELU, 0, 1, 1))), ("k",), (),
         WRITTEN_FIRST, ("a",)),
    Case("state at two places", program(TWO[0], uses("b", cache(16, data=1), memories=FOUR)), ("k",), (),
         Obligation.SHARED_AT_ONE_PLACE),
    Case("state of two sizes", program(TWO[0], uses("b", cache(data=1, sizes=[8]), memories=FOUR)), ("k",), (),
         Obligation.SHARED_AT_ONE_PLACE),
    Case("state of two types", program(TWO[0], uses("b", cache(data=1, kind=1), memories=FOUR)), ("k",), (),
         Obligation.SHARED_AT_ONE_PLACE),
    Case("a result over state of another method",
         program(*TWO, method([planned(0), planned(8, memory=2)], [(RELU, 0, 1, 1)], [0], [1], memories=FOUR)), ("k",),
         (), UNTOUCHED, ("forward", "a")),
    Case("a result over state that one method has for itself",
         program(*TWO, uses("c", cache(16, name="own", data=1), memories=FOUR),
                 method([planned(0), planned(24, memory=2)], [(RELU, 0, 1, 1)], [0], [1], memories=FOUR)), ("k",), (),
         UNTOUCHED, ("forward", "c")),
    Case("a result in a third memory, which each method has for itself",
         program(*(uses(name, cache(memory=3, data=1, name=name), memories=(*FOUR, 64)) for name in "ab"), *TWO)),
    Case("a method that needs more than it states",
         program(*TWO, uses("c", cache(data=1), 56, memories=FOUR), uses("d", cache(data=1), memories=(0, 128, 64))),
         ("k",), (), Obligation.ONE_SET),
    Case("variables of two entries", entries(VARIABLES), ("v",), suffix="tflite"),
    Case("variables at two places", entries([*VARIABLES[:4], 64, *VARIABLES[5:]]), ("v",), (),
         Obligation.SHARED_AT_ONE_PLACE, suffix="tflite"),
    Case("a variable over which another entry writes",
         entries([0, 16, 64, 0, 32, 16, 48], b=stored(16, "u", variable=True)),
         ("a:x=b:x",), ("*",), UNTOUCHED, ("b", "a"), "tflite"),
)  # fmt: skip


def opened(case: Case, folder: Path) -> Mapping[str, SetMember]:
    """The programs of a file, each with what its plan shares."""
    if isinstance(case.data, str):
        path = CORPUS / case.data
    else:
        path = folder / f"m.{case.suffix}"
        path.write_bytes(case.data)
    found = {}
    for name, stated in load_programs(path).items():
        assert isinstance(stated, StatedPlan)
        assert stated.reading is not None
        subject = Subject(stated, donated=frozenset(stated.reading.donated))
        assert isinstance(load_any(path), StatedPlan)
        false = {each.obligation for each in violations(subject)}
        assert false == ({Obligation.CAPACITY} if case.obligation is Obligation.ONE_SET and name == "c" else set())
        found[name] = SetMember(name, name, stated.plan, subject.run, b"", stated.reading.exits, stated.reading.state)
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_programs_of_a_file_are_a_set(case: Case, tmp_path: Path) -> None:
    """Each program by itself is right. spec: FP1.19, FP5.16, FP6.20"""
    members = list(opened(case, tmp_path).values())
    found = list[Violation](find_violations(members, agree_by_names(members, case.shared or ("k",), case.initial)))
    assert {each.obligation for each in found} == ({case.obligation} if case.obligation else set())
    if case.calls:
        assert found[0].calls == case.calls


def test_what_a_method_writes_whole_it_need_not_find(tmp_path: Path) -> None:
    """The others are called after it. spec: FP5.16, PS1.8"""
    members = list(opened(CASES[0], tmp_path).values())
    agreement = agree_by_names(members, ["cache"], [])
    assert {name: tuple(use) for name, use in agreement.shared[0].uses.items()} == {
        "decode": ("cache", "cache"), "prefill": ("cache", "cache"), "reset": (None, "cache"),
    }  # fmt: skip
    _, before = find_never_ready(find_state(members, agreement), [member.name for member in members])
    assert before == {"decode": ["reset"], "prefill": ["reset"]}


def test_names_memories_and_what_no_program_is(tmp_path: Path) -> None:
    """State has the name of the file, all else that of its method; a memory is as large as the largest."""
    constant = method([], [], [], [], name="context_length", memories=(0,))
    data = program(*TWO, uses("a:b/c", cache(data=1), memories=(0, 128, 64, 8)), constant)
    members = opened(Case("", data), tmp_path)
    assert list(members) == ["a", "b", "a_b_c"]
    assert [list(member.rows) for member in members.values()][1] == ["b/value 0", "k", "b/value 2"]
    arenas = [[(one.name, one.capacity) for one in member.plan.allocation.arenas] for member in members.values()]
    assert arenas == [*[[("memory 1", 128), ("memory 2", 64)]] * 2,
                      [("memory 1", 128), ("memory 2", 64), ("a_b_c/memory 3", 8)]]  # fmt: skip
    assert list(load_programs(_file(tmp_path, program(TWO[0], constant)))) == [""]
    with pytest.raises(TmmuError, match="no instruction uses a tensor of planned memory"):
        load_programs(_file(tmp_path, program(constant)))


def _file(folder: Path, data: bytes, name: str = "m.pte") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def test_entries_of_a_model_have_their_signatures_names_and_sizes(tmp_path: Path) -> None:
    """A subgraph without a place for a tensor is none, and an open dimension has one size in all. spec: FP6.16"""
    members = opened(CASES[2], tmp_path)
    assert list(members) == ["prefill", "decode", "classify"]
    plain = [subgraph([stored(16, "x"), stored(16, "y")], [node(0, [0], [1])], [0], [1]) for _ in range(3)]
    found = load_programs(_file(tmp_path, model(plain, [0, 16, 0, 16, -1, -1], [0]), "m.tflite"))
    assert list(found) == ["subgraph 0", "subgraph 1"]
    with pytest.raises(TmmuError, match="all tensors are left to the runtime"):
        load_programs(_file(tmp_path, model(plain, [-1] * 6, [0]), "m.tflite"))
    shapes = [[16], [16]], [[16], [8]]
    for number, inputs in enumerate(shapes):
        graphs = [
            subgraph([stored(name="x", shape=shape, signature=[-1]), stored(16, "y")], [node(0, [0], [1])], [0], [1])
            for shape in inputs
        ]
        file = _file(tmp_path, model(graphs, [0, 16, 0, 16], [0]), "m.tflite")
        if number:
            with pytest.raises(TmmuError, match="the open dimension x:0 has two sizes"):
                load_programs(file, dims={"x:0": 16})
        else:
            assert len(load_programs(file, dims={"x:0": 16})) == 2


def test_the_command_names_each_program_and_its_set(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """spec: PS4.8, C1.2"""
    path = _file(tmp_path, program(*UNWRITTEN))
    assert entry.run([str(path), "--shared", "k", "-q"]) == 1
    ran = capsys.readouterr().out.replace(str(path), "m.pte")
    assert [line.split(" for ")[0] for line in ran.splitlines()] == [
        "PROVED m.pte:a", "PROVED m.pte:b",
        "REFUTED set of m.pte:a, m.pte:b as a set of 2 programs, called in any order",
    ]  # fmt: skip
    assert entry.run([str(path), "--shared", "nothing", "-q"]) == 2
    assert "no plan has an input, parameter or output of this name" in capsys.readouterr().err
    options = Options(folders=ProofFolders(coq=str(tmp_path / "coq")))
    with pytest.raises(Disagreement, match="give a file with one program"):
        open_programs(str(path), options)
