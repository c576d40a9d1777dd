"""The table of wrong plan sets: plans as text, the names that they share, and what must be found.

Every row is run against the definition, the naive runs of calls and the rows that Z3 evaluates
(`tests/unit/test_wrong_sets.py`). A row without an obligation is right. `programs`, `tensors` and `calls` are those of
the witness. `runs` is whether calls alone show it; `open` are the obligations whose rows are false.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from proofs.definition.violations import Obligation
from proofs.sets.agreed import agree_by_names
from proofs.sets.members import SetMember
from proofs.verify.checks import Subject
from tmmu.plans import file, text
from tmmu.plans.sets import Agreement

ARENA = "arena memory 512"
FILL = """
tensor w 64 memory 0 parameter
tensor cache 64 memory 64 input donated
tensor new 64 memory 64 inplace cache output
tensor t 64 memory 128 input
tensor y 64 memory 192 output
step put my::Put t cache w -> new
step get my::Get new t -> y
"""
NEXT = """
tensor w 64 memory 0 parameter
tensor cache 64 memory 64 input donated
tensor new 64 memory 64 inplace cache output
tensor u 32 memory 128 input
tensor z 32 memory 160 output
step put my::Put u cache w -> new
step get my::Get new u -> z
"""
OTHER = """
tensor a 64 memory 128 input
tensor b 64 memory 192
tensor c 64 memory 128 output
step f my::F a -> b
step g my::G b -> c
"""
WRITER = """
tensor a 64 memory 128 input
tensor code 64 memory 64 output
step f my::F a -> code
"""
READER = """
tensor code 64 memory 64 input kept
tensor z 64 memory 192 output
step f my::F code -> z
"""
MUTATES = """
tensor h 64 memory 64 input output donated
tensor x 64 memory 128 input
tensor y 64 memory 192 output
step f my::F x h -> h y changes h
"""
BRANCHED = """
tensor c 1 memory 0 input
tensor a 64 memory 128 input
tensor code 64 memory 64 output
begin choose If c -> exclusive
step f my::F a -> code
arm
step g my::G a -> code
end choose ->
"""
LEARNS = """
tensor x 64 memory 128 input
tensor w 64 memory 0 parameter
tensor m 64 memory 64 optimizer
tensor y 64 memory 192 output
step f my::F x w -> y
step g my::G x m -> m changes m
"""


@dataclass(frozen=True)
class WrongSet:
    """A row: plans by program, shared and initial names, and what must be found."""

    title: str
    plans: Mapping[str, str]
    shared: tuple[str, ...] = ("cache", "w")
    initial: tuple[str, ...] = ("cache",)
    obligation: Obligation | None = None
    programs: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    runs: bool = True
    open: tuple[Obligation, ...] = ()

    def __str__(self) -> str:
        return self.title

    @cached_property
    def members(self) -> list[SetMember]:
        """The programs."""
        return [member_of(name, lines) for name, lines in self.plans.items()]

    @cached_property
    def agreement(self) -> Agreement:
        """What the names make the programs agree on."""
        return agree_by_names(self.members, self.shared, self.initial)


def member_of(name: str, lines: str, *, arena: str = ARENA) -> SetMember:
    """The program of a plan as text; what it says is donated, or changes of its parameters, counts as donated."""
    first = lines if lines.lstrip().startswith("arena") else f"{arena}\n{lines}"
    stated = file.require_steps(file.pass_gate(text.read(f"tmmu-plan-text 1\n{first}".encode(), f"{name}.plan.txt")))
    donated = frozenset(line.split()[1] for line in lines.splitlines() if " donated" in line)
    donated |= {line.split()[-1] for line in lines.splitlines() if " changes " in line}
    return SetMember(name, name, stated.plan, Subject(stated, donated=donated).run, stated.hashes["file_digest"])


def changed(lines: str, old: str, new: str) -> str:
    """A plan with another line."""
    assert lines.count(old) == 1, (old, lines)
    return lines.replace(old, new)


PLACE, UNTOUCHED = Obligation.SHARED_AT_ONE_PLACE, Obligation.STATE_IS_UNTOUCHED
FIRST = Obligation.STATE_IS_WRITTEN_FIRST
BOTH = {"fill": FILL, "next": NEXT}
OF_CODE = ("code",)


def _moved(title: str, old: str, new: str, *, runs: bool) -> WrongSet:
    plans = {"fill": FILL, "next": changed(NEXT, old, new)}
    both = ("fill", "next")
    return WrongSet(title, plans, obligation=PLACE, programs=both, tensors=("cache",), runs=runs, open=(PLACE,))


SMALL = "tensor cache 64 memory 64 input donated\ntensor new 64 memory 64 inplace cache output"
TYPED = SMALL.replace("donated", "donated type f32").replace("output", "output type f32")
WAITS = WRITER.replace("tensor a 64 memory 128 input", "tensor x 64 memory 128 input kept").replace("F a", "F x")

TABLE: list[WrongSet] = [
    WrongSet("prefill and decode", BOTH),
    WrongSet("three programs", {**BOTH, "other": OTHER}),
    WrongSet("a writer before its reader", {"w": WRITER, "r": READER}, OF_CODE, ()),
    WrongSet("a reader before its writer", {"r": READER, "w": WRITER}, OF_CODE, ()),
    WrongSet("state that both change", {"f": MUTATES, "g": MUTATES}, ("h",), ("h",)),
    _moved("a cache of other bytes", SMALL, SMALL.replace(" 64 memory", " 32 memory"), runs=True),
    _moved("a cache at other bytes", SMALL, SMALL.replace("memory 64", "memory 320"), runs=True),
    _moved("a cache of another alignment", SMALL, SMALL.replace("donated", "donated align 8"), runs=False),
    _moved("a cache of another type", SMALL, TYPED, runs=False),
    WrongSet(
        "an activation of another program over live state", {**BOTH, "other": changed(OTHER, "192", "96")},
        obligation=UNTOUCHED, programs=("other",), tensors=("b", "cache"), calls=("other", "fill"),
        open=(UNTOUCHED,),
    ),
    WrongSet(
        "an input of another program over live state",
        {**BOTH, "other": changed(OTHER, "tensor a 64 memory 128", "tensor a 64 memory 32")},
        obligation=UNTOUCHED, programs=("other",), tensors=("a", "cache"), calls=("other", "fill"),
        open=(UNTOUCHED,),
    ),
    WrongSet(
        "a parameter of another program over live state",
        {**BOTH, "other": changed(OTHER, "tensor a 64 memory 128 input", "tensor a 64 memory 32 parameter")},
        obligation=UNTOUCHED, programs=("fill", "next", "other"), tensors=("w", "other:a"), open=(UNTOUCHED,),
    ),
    WrongSet(
        "a weight that is written", {**BOTH, "other": changed(OTHER, "192", "0")},
        obligation=UNTOUCHED, programs=("other",), tensors=("b", "w"), calls=("other", "fill"),
        open=(UNTOUCHED,),
    ),
    WrongSet(
        "a reader that reuses the bytes that it has read", {
            "w": WRITER,
            "r": changed(changed(READER, " kept", ""), "tensor z 64 memory 192 output\nstep f my::F code -> z",
                         "tensor m 64 memory 192\ntensor z 64 memory 64 output\n"
                         "step f my::F code -> m\nstep g my::G m -> z"),
        }, OF_CODE, (),
        obligation=UNTOUCHED, programs=("r",), tensors=("z", "code"), calls=("w", "r", "r"), open=(UNTOUCHED,),
    ),
    WrongSet(
        "a first call that reads what was never written", BOTH, initial=(),
        obligation=FIRST, programs=("fill",), tensors=("cache",), calls=("fill",), runs=False,
    ),
    WrongSet(
        "two programs that wait for each other", {
            "f": WAITS,
            "g": changed(READER, "memory 192", "memory 128").replace(" z", " x"),
        }, ("code", "x"), (),
        obligation=FIRST, programs=("f",), tensors=("x",), calls=("f",), runs=False,
    ),
    WrongSet("state that each branch writes", {"w": BRANCHED, "r": READER}, OF_CODE, ()),
    WrongSet(
        "state that only one of two branches writes", {
            "w": changed(changed(BRANCHED, " exclusive", ""), "step g my::G a -> code", "step g my::G a ->"),
            "r": READER,
        }, OF_CODE, (),
        obligation=FIRST, programs=("w",), tensors=("code",), calls=("w",),
    ),
    WrongSet(
        "state that a loop without an iteration does not write", {
            "w": changed(BRANCHED, "begin choose If c -> exclusive\nstep f my::F a -> code\narm",
                         "begin choose my::While c -> loop"),
            "r": READER,
        }, OF_CODE, (),
        obligation=FIRST, programs=("w",), tensors=("code",), calls=("w",),
    ),
    WrongSet(
        "the next value of state that a loop without an iteration does not write", {
            "w": changed(BRANCHED, "begin choose If c -> exclusive\nstep f my::F a -> code\narm",
                         "tensor old 64 memory 64 input\nstep h my::H old ->\nbegin choose my::While c -> loop"),
            "r": READER,
        }, ("code", "w:old=w:code"), ("old",),
        obligation=FIRST, programs=("w",), tensors=("code",), calls=("w",),
    ),
    WrongSet("optimizer state of one program", {"learn": LEARNS, "other": OTHER}, ("learn:w=learn:w",), ()),
    WrongSet(
        "an activation over the optimizer state of another program",
        {"learn": LEARNS, "other": changed(OTHER, "192", "96")}, ("learn:w=learn:w",), (),
        obligation=UNTOUCHED, programs=("other",), tensors=("b", "learn:m"), calls=("other", "learn"),
        open=(UNTOUCHED,),
    ),
    WrongSet(
        "arenas of two capacities", {"fill": FILL, "next": f"arena memory 1024\n{NEXT}"},
        obligation=Obligation.ONE_SET, programs=("fill", "next"), runs=False,
    ),
]  # fmt: skip
