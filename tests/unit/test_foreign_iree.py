"""IREE's dumps around LayoutSlices: slices, commands, regions, loops, and what is refused. spec: FP9.1 to FP9.12"""

from __future__ import annotations

import itertools
import random

import pytest

from proofs.readers.plans import iree, iree_commands, iree_values
from proofs.readers.plans.foreign_plan import ForeignPlan
from proofs.streams.races import find_races
from proofs.verify.checks import Subject
from tests.support.three_checks import by_the_checker
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.plans.columns import IS_INPUT, IS_RETURNED
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Plan

BEFORE = "// -----// IR Dump Before LayoutSlicesPass: iree-stream-layout-slices //----- //\n"
AFTER = BEFORE.replace("Before", "After")
T = "!stream.resource<transient>"
TIME = "=> !stream.timepoint"
PACK = "%p:4 = stream.resource.pack on(#hal.device) slices({\n[0, 1] = %c64,\n[1, 2] = %c64,\n[2, 3] = %c64\n}) : index"
AWAIT = f"%w = stream.timepoint.await %e => %r : {T}{{%s}}"
LOAD = f"%q = stream.resource.load %r[%o1] : {T}{{%s}} -> i8"
DEALLOCA = f"%f = stream.resource.dealloca await(%e) => %r : {T}{{%s}} {TIME}"


def command(*operands: str, name: str = "k") -> str:
    """A dispatch of operands such as `ro 1`, slice 1 of the allocation; 0 is what is imported."""
    lines = []
    for operand in operands:
        how, k = operand.split()
        window = f"%x[%c0 for %c64] : {T}{{%c64}}" if k == "0" else f"%a[%o{k} for %c64] : {T}{{%s}}"
        lines.append(f"{how} {window}")
    return f"stream.cmd.dispatch @{name}::@{name} {{\n" + ",\n".join(lines) + "\n}"


def function(
    *commands: str,
    offsets: tuple[int, int, int] = (0, 64, 0),
    size: int = 128,
    close: str = "",
    name: str = "main",
    top: str = "",
    ret: str = "%z",
) -> str:
    """A dump of both sides: three slices of 64 bytes in one allocation, and commands in one execute."""
    body = (
        "\n".join(
            (
                f"util.func public @{name}(%0: {T}) -> {T} {{",
                "%c0 = arith.constant 0 : index",
                "%c64 = arith.constant 64 : index",
                "%c32 = arith.constant 32 : index",
                "PACK",
                f"%r, %t = stream.resource.alloca uninitialized on(#hal.device) : {T}{{%s}} {TIME}",
                top,
                f"%e = stream.cmd.execute await(%t) => with(%0 as %x: {T}{{%c64}}, %r as %a: {T}{{%s}}) {{",
                *commands,
                f"}} {TIME}",
                close,
                f"%z = stream.timepoint.await %e => %0 : {T}{{%c64}}",
                f"util.return {ret} : {T}",
            )
        ).replace("\n", "\n  ")
        + "\n}\n"
    )
    before, after = body.replace("PACK", PACK), body.replace("  PACK\n", "")
    for k, offset in enumerate(offsets, 1):
        before = before.replace(f"%o{k}", f"%p#{k}")
        after = after.replace("%c64 =", f"%o{k} = arith.constant {offset} : index\n%c64 =", 1)
    after = after.replace("%c64 =", f"%s = arith.constant {size} : index\n%c64 =", 1)
    return BEFORE + before.replace("%s", "%p#0") + AFTER + after


def read(text: str) -> ForeignPlan:
    return iree.read(Source("m.iree", text.encode()))


def judged(found: ForeignPlan) -> set[str]:
    assert isinstance(found.plan, Plan)
    donated = frozenset(found.reading.donated)
    run = Subject(StatedPlan(found.plan, {}), None, donated).run
    races = {item.obligation.value for item in find_races(found.plan.allocation, run)}
    return by_the_checker(found.plan, None, donated) | races


def plan_names(found: ForeignPlan) -> list[str]:
    assert isinstance(found.plan, Plan)
    return found.plan.allocation.tensors.name.list()


LIVE = {"no_live_overlap", "sharing_is_sound"}
CHANGED = {"sharing_is_sound", "inputs_kept"}
RACES = {"races"}
CHAIN = (command("ro 0", "wo 1"), command("ro 1", "wo 2"), command("ro 2", "wo 3"), command("ro 3", "rw 0"))


FILE = f"%q = stream.file.read await(%t) => %file[%c0], %r[%o1], %c64 : !stream.file -> {T}{{%s}} {TIME}"
SUM = "%h = arith.addi %o2, %c32 : index"
HALF = f"stream.cmd.copy %a[%o1], %a[%o2], %c32 : {T}{{%s}} -> {T}{{%s}}"


def region(*commands: str) -> str:
    return "\n".join(("stream.cmd.concurrent {", *commands, "}"))


def serial(*commands: str) -> str:
    return region(*commands).replace("concurrent", "serial", 1)


@pytest.mark.parametrize(
    "other", ["%h = arith.muli %o2, %c32 : index", "%h = arith.addi %o2, %i : index", "%h = arith.addi %i, %o2 : index"]
)
def test_a_name_stands_for_what_was_last_made_of_it(other: str) -> None:
    """Regions beside each other have names of their own. spec: FP9.1, FP9.10"""
    half = HALF.replace("%o2]", "%h]")
    right = plan_names(read(function(CHAIN[0], HALF, half, *CHAIN[2:], top=SUM)))
    assert plan_names(read(function(CHAIN[0], HALF, half, *CHAIN[2:], top=f"{other}\n{SUM}"))) == right
    with pytest.raises(TmmuError, match="%h is not a constant"):
        read(function(CHAIN[0], HALF, half, *CHAIN[2:], top=f"{SUM}\n{other}"))


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        (function(*CHAIN), set()),
        (function(*CHAIN, offsets=(0, 32, 64)), LIVE),
        (function(*CHAIN, size=120), {"capacity"}),
        # Slice 1 is read when slice 3 has its bytes, and is not written at first.
        (function(*CHAIN, command("ro 1", "rw 0")), LIVE),
        (function(*CHAIN[1:]), {"lifetimes_cover_accesses"}),
        # A file's bytes are brought into slice 1; then others into slice 3, which lies there too.
        (function(*CHAIN[1:], top=FILE).replace("await(%t) => with", "await(%q) => with"), set()),
        (function(*CHAIN[1:], top=FILE + "\n" + FILE.replace("%o1", "%o3")), LIVE),
        # A dispatch changes a slice; a copy of half of one to the other half of another; a fill; a flush.
        (function(CHAIN[0], command("rw 1"), *CHAIN[1:]), set()),
        (function(CHAIN[0], f"stream.cmd.copy %a[%o1], %a[%o2], %c64 : {T}{{%s}} -> {T}{{%s}}", *CHAIN[2:]), set()),
        (
            function(
                CHAIN[0],
                f"stream.cmd.fill %v, %a[%o2 for %c64] : i8 -> {T}{{%s}}",
                f"stream.cmd.flush to(#hal.device) %a[%o2 for %c64] : {T}{{%s}}",
                *CHAIN[2:],
            ),
            set(),
        ),
        # Slice 3 is written while slice 1 may be read; in one serial part it is written after that.
        (function(CHAIN[0], region(CHAIN[1], command("ro 0", "wo 3")), command("ro 2", "ro 3", "rw 0")), RACES),
        (function(CHAIN[0], region(serial(CHAIN[1], CHAIN[2]), command("ro 0")), CHAIN[3]), set()),
        (function(CHAIN[0], region(serial(CHAIN[1], CHAIN[2]), command("ro 1")), CHAIN[3]), RACES),
        # A region in a region, and one directly behind another: what is behind waits for all that is before.
        (
            function(CHAIN[0], region(serial(CHAIN[1], region(CHAIN[2], command("ro 0"))), command("ro 0")), CHAIN[3]),
            set(),
        ),
        (function(CHAIN[0], region(command("ro 0"), CHAIN[1]), region(command("ro 0"), CHAIN[2]), CHAIN[3]), set()),
        (function(CHAIN[0], region(command("ro 1"), region(CHAIN[1], CHAIN[2])), CHAIN[3]), RACES),
        # Two halves of slice 2 are written at once, which is one step.
        (function(CHAIN[0], SUM, region(HALF, HALF.replace("%o2]", "%h]")), *CHAIN[2:]), set()),
        (function(CHAIN[0], SUM, region(HALF, HALF), *CHAIN[2:]), RACES),
        (
            function(
                CHAIN[0],
                region(CHAIN[1], command("ro 0", "wo 3")),
                command("ro 2", "ro 3", "rw 0"),
                offsets=(0, 64, 128),
                size=192,
            ),
            set(),
        ),
        # A flush moves no bytes, and may stand beside what writes them.
        (function(region(CHAIN[0], f"stream.cmd.flush %a[%o1 for %c64] : {T}{{%s}}"), *CHAIN[1:]), set()),
        # What is changed piece by piece is written by its first piece where nothing was there.
        (function(CHAIN[0], command("ro 1", "rw 2"), command("ro 1", "rw 2"), *CHAIN[2:]), set()),
        # A race: one command reads what another writes; in one serial part it is none.
        (function(region(*CHAIN[:2]), *CHAIN[2:]), RACES),
        (function(region(serial(*CHAIN[:2])), *CHAIN[2:]), set()),
        (function(CHAIN[0], region(command("rw 1"), CHAIN[1]), *CHAIN[2:]), RACES),
        (function(CHAIN[0], region(CHAIN[1], command("rw 1")), *CHAIN[2:]), RACES),
        (function(CHAIN[0], region(*[command("ro 1")] * 70, command("rw 1")), *CHAIN[1:]), RACES),
        (function(CHAIN[0], region(serial(*[command("ro 1")] * 70, command("rw 1"))), *CHAIN[1:]), set()),
        # Freed, and then used by the caller.
        (function(*CHAIN, close=DEALLOCA), set()),
        (function(*CHAIN, close=DEALLOCA, ret="%r"), LIVE),
        (function(*CHAIN[:2], close="util.global.store %r, @state : " + T), set()),
        (function(*CHAIN, close="util.global.store %r, @state : " + T), LIVE),
        # The host loads from what is freed.
        (function(*CHAIN[:2], close=f"{AWAIT}\n{LOAD}\n{DEALLOCA}"), set()),
        (function(*CHAIN[:2], close=f"{LOAD}\n{DEALLOCA}"), LIVE),
        (function(*CHAIN[:2], close=f"{AWAIT}\n{DEALLOCA}\n{LOAD}"), LIVE),
        # Half of slice 2 at an offset in it that is a sum, and at one that is no constant; slice 3 is over slice 1.
        (function(CHAIN[0], SUM, HALF, HALF.replace("%o2]", "%h]"), *CHAIN[2:]), set()),
        (function(CHAIN[0], SUM, *CHAIN[1:], HALF.replace("%o2]", "%h]")), LIVE),
        # A loop reads slice 1 in each iteration, and writes slice 3 over it.
        (
            function(
                CHAIN[0],
                close=f"%l = scf.for %i = %c0 to %n step %c64 iter_args(%b = %r) -> ({T}) {{\n"
                f"%g = stream.cmd.execute with(%b as %a: {T}{{%s}}, %0 as %x: {T}{{%c64}}) {{\n"
                + "\n".join(CHAIN[1:])
                + f"\n}} {TIME}\nscf.yield %b : {T}\n}}",
            ),
            LIVE,
        ),
        (
            function(
                CHAIN[0],
                close=f"%l = scf.if %i -> ({T}) {{\n"
                f"%g = stream.cmd.execute await(%e) => with(%r as %a: {T}{{%s}}, %0 as %x: {T}{{%c64}}) {{\n"
                + "\n".join(CHAIN[1:3])
                + f"\n}} {TIME}\nscf.yield %0 : {T}\n}} else {{\nscf.yield %0 : {T}\n}}",
            ),
            set(),
        ),
        (
            function(
                CHAIN[0],
                close=f"%l = scf.while (%b = %r) : ({T}) -> ({T}) {{\n"
                "scf.condition(%i) %b : x\n} do {\n^bb0(%d: x):\n"
                f"%g = stream.cmd.execute with(%d as %a: {T}{{%s}}, %0 as %x: {T}{{%c64}}) {{\n"
                + "\n".join(CHAIN[1:])
                + f"\n}} {TIME}\nscf.yield %d : {T}\n}}",
            ),
            LIVE,
        ),
        # Allocations of one name, in regions beside each other: the second one's slice 1 is not written.
        (
            function(
                CHAIN[0],
                close="".join(
                    f"%l{k} = scf.if %i -> (x) {{\n%d, %u = stream.resource.alloca uninitialized : {T}{{%s}} {TIME}\n"
                    f"%g = stream.cmd.execute await({when}) => with(%d as %a: {T}{{%s}}, %0 as %x: {T}{{%c64}}) {{\n"
                    + "\n".join(commands)
                    + f"\n}} {TIME}\nscf.yield\n}}\n"
                    for k, (when, commands) in enumerate((("%e", CHAIN), ("%l0", CHAIN[1:])))
                ),
            ),
            {"lifetimes_cover_accesses"},
        ),
        # Views of the allocation.
        (
            function(
                *CHAIN,
                top=f"%v = stream.resource.subview %r[%o2] : {T}{{%s}} -> {T}{{%c64}}",
                close="%w = stream.timepoint.await %e => %v : "
                f"{T}{{%c64}}\n%y = stream.tensor.export %w : tensor<16xf32> in {T}{{%c64}} -> !hal.buffer_view",
            ),
            set(),
        ),
    ],
)
def test_a_dump_has_the_faults_of_its_slices_and_regions(text: str, broken: set[str]) -> None:
    """What is used where it is not there may be seen to overlap as well. spec: FP9.1, FP9.3 to FP9.7, FP9.14"""
    found = judged(read(text))
    assert found >= broken
    assert bool(found) is bool(broken)


def test_a_dump_after_the_pass_alone_is_read_by_the_names_of_offsets() -> None:
    """spec: FP9.2"""
    both = function(*CHAIN)
    alone = read(both[both.index(AFTER) :])
    assert judged(alone) == set()
    assert len(alone.reading.assumptions) == len(read(both).reading.assumptions) + 1
    late = function(*CHAIN, command("ro 1", "rw 0"))
    assert judged(read(late[late.index(AFTER) :])) == LIVE


def test_a_dump_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: FP2.2"""
    monkeypatch.setattr(iree, "MAX_DUMP", 100)
    with pytest.raises(TmmuError, match="more than 100 bytes"):
        read(function(*CHAIN))


def execute(*commands: str, awaits: str = "%e", name: str = "g", of: str = "%r") -> str:
    """A further execute, with the same allocation as %a and the import as %x."""
    given = f"with({of} as %a: {T}{{%s}}, %0 as %x: {T}{{%c64}})"
    return "\n".join((f"%{name} = stream.cmd.execute await({awaits}) => {given} {{", *commands, f"}} {TIME}"))


def test_what_runs_at_once_in_a_region_is_what_its_definition_says() -> None:
    """Of any number of accesses; those of no bytes touch nothing. spec: FP9.5"""
    rng, answers, paths = random.Random(7), set(), ((), ((1, 0),), ((1, 1),), ((1, 1), (2, 0)), ((1, 1), (2, 1)))
    for _ in range(600):
        found = []
        for _ in range(rng.choice((2, 3, 5, 90))):
            start, writes = rng.randrange(40), rng.random() < 0.3
            found.append(
                iree_values.SliceAccess(0, start, start + rng.choice((0, 1, 3)), not writes, writes, rng.choice(paths))
            )
        expected = any(
            (a.writes or b.writes) and max(a.start, b.start) < min(a.end, b.end) and in_parallel(a.path, b.path)
            for a, b in itertools.combinations(found, 2)
        )
        assert iree_values.at_once(found, Source("m.iree", b"")) == expected
        answers.add((len(found) > 64, expected))
    side_by_side = [iree_values.SliceAccess(0, 4 * k, 4 * k + 4, False, True, ((1, k),)) for k in range(1000)]
    assert not iree_values.at_once(side_by_side, Source("m.iree", b""))
    assert iree_values.at_once([*side_by_side, side_by_side[500]._replace(path=((1, 2000),))], Source("m.iree", b""))
    assert answers >= {(False, True), (False, False), (True, True)}


def in_parallel(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> bool:
    """In two children of the innermost region that both stand in."""
    common = [(x, y) for (x, y) in zip(a, b, strict=False) if x[0] == y[0]]
    return any(x != y for x, y in common)


def test_executes_that_do_not_await_each_other_are_listed_or_refuted() -> None:
    """Slices apart are listed; one that is written by either is refuted, also where the host reads it. spec: FP9.8"""
    await_e = f"%w = stream.timepoint.await %e => %r : {T}{{%s}}\n"
    for awaits, commands, broken, count in (
        ("%e", CHAIN[1:2], set(), 1),
        ("%t", CHAIN[1:2], LIVE, 2),
        ("%t", [command("ro 0", "wo 2")], set(), 2),
        ("%t", [command("ro 0", "wo 1")], LIVE, 2),
    ):
        found = read(function(CHAIN[0], close=execute(*commands, awaits=awaits)))
        assert (judged(found), len(found.reading.assumptions)) == (broken, count)
        found = read(function(CHAIN[0], close=await_e + execute(*commands, awaits=awaits)))
        assert (judged(found), len(found.reading.assumptions)) == (set(), 1)
    for awaits, broken in (("%g", set()), ("%e", LIVE)):
        last = f"%w = stream.timepoint.await {awaits} => %r : {T}{{%s}}"
        assert judged(read(function(CHAIN[0], close=execute(command("rw 1")) + "\n" + last, ret="%w"))) == broken


OWN = f"%d, %u = stream.resource.alloca uninitialized await(%e) => {T}{{%s}} {TIME}\n"
NEVER = "lifetimes_cover_accesses"
WRITES, READS = command("ro 0", "wo 1"), command("ro 1", "wo 2")


def conditional(first: str, second: str | None, results: str = "%l = ", behind: str = "") -> str:
    """What stands behind an execute: an If of two arms, or of one, and more behind it."""
    arms = [
        arm if "scf.yield" in arm else f"{arm}\nscf.yield {'%g' if '%g =' in arm else '%e'} : x"
        for arm in (first, *([] if second is None else [second]))
    ]
    return f"{results}scf.if %i {{\n" + "\n} else {\n".join(arms) + f"\n}}\n{behind}"


@pytest.mark.parametrize(
    ("close", "broken"),
    [
        # What one arm alone writes is nothing in the other one, nor behind both.
        (conditional(execute(WRITES), execute(READS)), {NEVER}),
        (conditional(execute(WRITES), None, behind=execute(READS, awaits="%l", name="m")), {NEVER}),
        (conditional(execute(WRITES), execute(WRITES), behind=execute(READS, awaits="%l", name="m")), set()),
        # What the second arm reads from before both must be whole at the end of the first (X4.7).
        (execute(WRITES) + "\n" + conditional("", execute(READS, awaits="%g", name="m")), set()),
        (execute(WRITES) + "\n" + conditional(DEALLOCA, execute(READS, awaits="%g", name="m")), LIVE),
        (execute(WRITES) + "\n" + conditional(DEALLOCA, None, behind=execute(READS, awaits="%l", name="m")), LIVE),
        # Arms that return an allocation each, of which one has written nothing, and a loop that need not run.
        *(
            (
                conditional(
                    OWN + execute(WRITES, awaits="%u", of="%d") + "\nscf.yield %d, %g : x",
                    OWN + execute(second, awaits="%u", of="%d") + "\nscf.yield %d, %g : x",
                    results="%l:2 = ",
                    behind=execute(READS, awaits="%l#1", name="m", of="%l#0"),
                ),
                broken,
            )
            for second, broken in ((WRITES, set()), (command("ro 0", "wo 2"), {NEVER}))
        ),
        *(
            (
                f"{before}%l:2 = scf.for %i = %c0 to %n step %c64 iter_args(%b = %r, %z = {when}) -> ({T}, x) {{\n"
                + execute(WRITES, awaits="%z", of="%b", name="m")
                + "\nscf.yield %b, %m : x\n}\n"
                + execute(READS, awaits="%l#1", name="n", of="%l#0"),
                broken,
            )
            for before, when, broken in (
                (execute(WRITES) + "\n", "%g", set()),
                ("", "%e", {NEVER}),
            )
        ),
    ],
)  # fmt: skip
def test_arms_of_control_flow_are_exclusive(close: str, broken: set[str]) -> None:
    """What reads what nothing has written may be seen to overlap as well. spec: FP9.6, FP9.7"""
    found = judged(read(function(command("ro 0", "wo 2"), close=close)))
    assert found >= broken
    assert bool(found) is bool(broken)


def loop(*body: str, inits: str = "%b = %r, %z = %e", yields: str = "%b, %m", behind: str = "") -> str:
    """A loop that carries memory and a point in time."""
    head = f"%l:2 = scf.for %i = %c0 to %n step %c64 iter_args({inits}) -> ({T}, x) {{\n"
    return head + "\n".join(body) + f"\nscf.yield {yields} : x\n}}\n{behind}"


def carried(*commands: str, awaits: str = "%z") -> str:
    return execute(*commands, awaits=awaits, name="m", of="%b")


SECOND = OWN.replace("%d", "%s2").replace("%u", "%v2") + execute(WRITES, awaits="%v2", name="e2", of="%s2") + "\n"
WHILE = (
    f"%l:2 = scf.while (%b = %r, %z = %e) : ({T}, x) -> ({T}, x) {{\nscf.condition(%i) %b, %z : x\n}} do {{\n"
    "^bb0(%b2: x, %z2: x):\n"
)
UNTIL_DONE = execute(WRITES, awaits="%z2", name="m", of="%b2") + "\nscf.yield %b2, ENDS : x\n}\n"
LATER = execute(READS, awaits="%l#1", name="n", of="%l#0")


@pytest.mark.parametrize(
    ("close", "broken"),
    [
        # Each iteration changes slice 1 and writes slice 3 over it; or writes all of slice 1 first.
        (loop(carried(command("rw 1"), *CHAIN[1:3], command("ro 3"))), LIVE),
        (OWN + loop(execute(WRITES, *CHAIN[1:3], command("ro 3"), awaits="%z", name="m", of="%d"),
                    inits="%b = %0, %z = %u"), set()),
        (loop(carried(command("ro 1", "wo 2"))), set()),
        # A loop that by its constants runs once, twice, or not at all; bounds that are no constants of a step above 0.
        *(
            (
                loop(
                    execute(command("rw 1"), *CHAIN[1:3], command("ro 3"), awaits="%z", name="m"),
                    inits="%b = %0, %z = %e",
                ).replace("%c0 to %n step %c64", bounds),
                broken,
            )
            for bounds, broken in (
                ("%c0 to %c64 step %c64", set()),
                ("%c32 to %c64 step %c64", set()),
                ("%c0 to %c64 step %c32", LIVE),
                ("%c64 to %c0 step %c32", set()),
                ("%c0 to %c64 step %c0", LIVE),
                ("%c0 to %c64 step %n", LIVE),
            )
        ),
        # The next iteration reads an allocation that nothing has written, or the other one of two.
        (loop(OWN + carried(command("ro 1", "wo 2")), yields="%d, %m"), {NEVER}),
        (loop(OWN + carried(command("ro 1", "wo 2")) + "\n" + execute(WRITES, awaits="%u", name="m2", of="%d"),
              yields="%d, %m2"), set()),
        # Three are in turn: an iteration reads the first one, which the first iteration alone finds written, or all do.
        *(
            (
                f"{OWN}{OWN.replace('%d', '%d3').replace('%u', '%u3')}{more}"
                "%l:4 = scf.for %i = %c0 to %n step %c64 "
                f"iter_args(%b = %r, %b2 = %d, %b3 = %d3, %z = {when}) -> (x) {{\n"
                + carried(command("ro 1")) + "\nscf.yield %b2, %b3, %b, %m : x\n}",
                broken,
            )
            for more, when, broken in (
                ("", "%u3", {NEVER}),
                (execute(WRITES, awaits="%u", name="w1", of="%d") + "\n", "%w1", {NEVER}),
                (execute(WRITES, awaits="%u", name="w1", of="%d") + "\n%j = stream.timepoint.join max(%w1, %u3) => "
                 "!stream.timepoint\n" + execute(WRITES, awaits="%j", name="w2", of="%d3") + "\n", "%w2", set()),
            )
        ),
        # It does not await what the iteration before it does, or does.
        (loop(carried(command("rw 1")), yields="%b, %z"), LIVE),
        (loop(carried(command("rw 1"))), set()),
        (loop(carried(WRITES), yields="%b, %e", behind=LATER), LIVE),
        (WHILE + UNTIL_DONE.replace("ENDS", "%m") + LATER, set()),
        (WHILE + UNTIL_DONE.replace("ENDS", "%z2") + LATER, LIVE),
        # The memory of either arm and the point in time of the same arm belong together.
        *(
            (
                f"%l:2 = scf.if %i -> ({T}, x) {{\n" + OWN + execute(WRITES, awaits="%u", of="%d")
                + f"\nscf.yield %d, %g : x\n}} else {{\nscf.yield %r, {other} : x\n}}\n"
                + execute(command("ro 1"), awaits="%l#1", name="n", of="%l#0"),
                broken,
            )
            for other, broken in (("%e", set()), ("%t", LIVE))
        ),
        # A point in time that is one of two, and an await in one arm, await what both do.
        (conditional(execute(WRITES) + "\nscf.yield %g : x", "scf.yield %t : x", behind=execute(
            command("ro 2", "wo 3"), awaits="%l", name="m")), LIVE),
        ("%k = arith.select %i, %t, %e : !stream.timepoint\n" + execute(command("ro 2", "wo 3"), awaits="%k"), LIVE),
        ("%k = stream.timepoint.join max(%t, %e) => !stream.timepoint\n" + execute(
            command("ro 2", "wo 3"), awaits="%k"), set()),
        (conditional(AWAIT + "\nscf.yield", "scf.yield", results="", behind=execute(
            command("ro 2", "wo 3"), awaits="%t")), LIVE),
        (conditional(AWAIT + "\nscf.yield", AWAIT + "\nscf.yield", results="", behind=execute(
            command("ro 2", "wo 3"), awaits="%t")), set()),
        # Given back while it is used, before it is used, and twice; what awaits that awaits the uses.
        (DEALLOCA.replace("await(%e)", "await(%t)"), LIVE),
        (f"{DEALLOCA}\n{execute(WRITES, awaits='%f')}", {NEVER}),
        (f"{DEALLOCA}\n{DEALLOCA}", {NEVER}),
        (loop(f"{DEALLOCA}\n{carried(WRITES)}"), {NEVER}),
        (f"{DEALLOCA}\n{execute(command('rw 0'), awaits='%f').replace('%r as', '%0 as')}\n"
         f"%y = stream.timepoint.await %g => %0 : {T}{{%c64}}", set()),
        # Used before it is there.
        (OWN + execute(WRITES, of="%d"), LIVE),
        (OWN + execute(WRITES, awaits="%u", of="%d"), set()),
        # The host reads and writes without awaiting, and after it.
        (LOAD.replace("%o1", "%o2"), LIVE),
        (f"{AWAIT}\n{LOAD.replace('%o1', '%o2')}", set()),
        (f"{AWAIT}\n%q = arith.constant 3 : i8\nstream.resource.store %q, %r[%o2] : i8 -> {T}{{%s}}", set()),
        (f"%q = arith.constant 3 : i8\nstream.resource.store %q, %r[%o2] : i8 -> {T}{{%s}}", LIVE),
        (f"{execute(WRITES)}\n%w = stream.timepoint.await %g => %r : {T}{{%s}}\n%q = arith.constant 3 : i8\n"
         f"stream.resource.store %q, %w[%o3] : i8 -> {T}{{%s}}\n" + execute(command("ro 1", "wo 2"), name="m"), LIVE),
        (f"{execute(WRITES)}\n%y = stream.tensor.export %r : tensor<4xf32> in {T}{{%s}} -> !hal.buffer_view", LIVE),
        (f"{AWAIT}\n%y = stream.tensor.export %w : tensor<4xf32> in {T}{{%s}} -> !hal.buffer_view", set()),
        (f"{execute(WRITES)}\n%y = stream.tensor.export %r : tensor<4xf32> in {T}{{%s}} -> !hal.buffer_view\n"
         "stream.timepoint.chain_external on(x) %g => (%fence : !hal.fence)", set()),
        # Another name of the same memory: by a call, and by a view of what is exported.
        (f"{execute(WRITES)}\n%y = util.call @id(%r) : ({T}) -> {T}\n"
         + execute(command("ro 0", "wo 3"), awaits="%g", name="m", of="%y") + "\n"
         + execute(command("ro 1"), awaits="%m", name="n"), LIVE),
        (f"{AWAIT}\n%y = stream.tensor.export %w : tensor<4xf32> in {T}{{%s}} -> !hal.buffer_view\n"
         f"%j = stream.tensor.import %y : !hal.buffer_view -> tensor<4xf32> in {T}{{%s}}\n"
         + execute(command("rw 2"), awaits="%t", of="%j"), LIVE),
        # A global is stored in one arm, and what is loaded behind it may still be the old one.
        (f"%h = util.global.load @w : {T}\n" + execute(command("ro 0", "wo 2"), of="%h") + "\n"
         + conditional(f"{AWAIT}\nutil.global.store %w, @w : {T}\nscf.yield", "scf.yield", results="", behind="")
         + f"%k = util.global.load @w : {T}\n" + execute(command("ro 2", "wo 3"), name="m", of="%k"), LIVE),
        (conditional(
            OWN + execute(WRITES, awaits="%u", of="%d") + f"\n%w = stream.timepoint.await %g => %d : {T}{{%s}}\n"
            f"util.global.store %w, @w : {T}\nscf.yield", "scf.yield", results=""), set()),
        # One of two is written, and nothing says which: read by that name, and by that of one of them.
        (f"{SECOND}%k = arith.select %i, %r, %s2 : {T}\n" + execute(command("ro 0", "wo 3"), awaits="%e2", of="%k")
         + "\n" + execute(command("ro 3"), awaits="%g", name="m", of="%k"), set()),
        (f"{SECOND}%k = arith.select %i, %r, %s2 : {T}\n" + execute(command("ro 0", "wo 3"), awaits="%e2", of="%k")
         + "\n" + execute(command("ro 3"), awaits="%g", name="m"), {NEVER}),
    ],
)  # fmt: skip
def test_what_runs_again_beside_or_by_another_name_is_found(close: str, broken: set[str]) -> None:
    """Hostile dumps, each beside a right one where there is one. spec: FP9.3, FP9.6, FP9.7, FP9.8, FP9.11"""
    found = judged(read(function(command("ro 0", "wo 2"), CHAIN[0] if "m2" not in close else WRITES, close=close)))
    assert found >= broken
    assert bool(found) is bool(broken)


@pytest.mark.parametrize(
    ("close", "what"),
    [
        (f"stream.file.write await(%e) => %r[%o1], %file[%c0], %c64 : {T}{{%s}} -> !stream.file {TIME}", "file.write"),
        (f'%k = stream.cmd.parameter.read await(%e) => "x"[%c0] -> %r[%o3 for %c64] : {T}{{%s}} {TIME}', "parameter"),
        (
            "%l:5 = scf.for %i = %c0 to %n step %c64 "
            "iter_args(%b = %r, %b2 = %0, %b3 = %0, %b4 = %0, %b5 = %0) -> (x) {\n"
            "scf.yield %b2, %b3, %b4, %b5, %b : x\n}",
            "in turns of more than 4",
        ),
        ("%k = stream.resource.subview %r[%o2] : " + "x" * 70_000 + " !stream.resource<x>", "a line of more than"),
    ],
)
def test_what_touches_memory_in_ways_that_are_not_read_is_refused(close: str, what: str) -> None:
    """spec: FP9.6, FP9.10, FP2.2"""
    with pytest.raises(TmmuError, match=what):
        read(function(*CHAIN, close=close))


@pytest.mark.parametrize(
    "line",
    [
        f"%z = arith.constant 5 : i32 stream.cmd.fill %z, %r[%o1 for %c64] : i32 -> {T}{{%s}}",
        "%z = arith.addi %c64, %c64 : index util.return %r",
        f'%z = stream.timepoint.await %e => %0 : {T}{{%c64}} "stream.cmd.fill"() : () -> ()',
    ],
)
def test_two_operations_on_a_line_are_refused(line: str) -> None:
    """spec: FP1.15"""
    with pytest.raises(TmmuError, match="are on one line"):
        read(function(*CHAIN, close=line))


def test_an_operand_with_another_behind_it_is_refused() -> None:
    """spec: FP1.15"""
    text = function(*CHAIN)
    line = next(line for line in text.split("\n") if line.strip().startswith("ro "))
    with pytest.raises(TmmuError, match=r"line 48: ro %x.* is not read"):
        read(text.replace(line, f"{line} wo %a[%o1 for %c64]"))


@pytest.mark.parametrize(
    ("commands", "ret", "broken"),
    [
        ((CHAIN[0],), "%r", set()),
        ((), "%r", {"lifetimes_cover_accesses"}),
        ((), "%0", set()),
    ],
)
def test_what_is_returned_has_been_written(commands: tuple[str, ...], ret: str, broken: set[str]) -> None:
    """spec: FP9.3"""
    assert judged(read(function(*commands, ret=ret))) == broken


def test_what_comes_from_elsewhere_is_one_memory_by_whatever_name() -> None:
    """An import that a loop carries, and a global that is loaded twice. spec: FP9.3, FP9.11"""
    resource = "!stream.resource<external>"
    imported = IMPORT.format("i", "", resource)
    loop = (
        f"%l = scf.for %j = %c0 to %n step %c64 iter_args(%b = %i) -> ({resource}) {{\n"
        "%m = util.optimization_barrier %b : " + resource + "\n"
    )
    loop += execute(command("rw 0"), name="g").replace("%0 as %x", "%m as %x") + f"\nscf.yield %m : {resource}\n}}"
    assert judged(read(function(*CHAIN, top=imported, close=loop))) >= {"sharing_is_sound"}
    reads = execute(command("ro 0", "wo 2"), awaits="%t").replace("%0 as %x", "%z as %x")
    for kind, close, broken in (
        ("variable", "", set()),
        ("constant", "", CHANGED),
        ("variable", reads, LIVE),
        ("variable", reads.replace("await(%t)", "await(%e)"), set()),
    ):
        loads = "\n".join(f"%{name} = util.global.load @w.x : !stream.resource<{kind}>" for name in "yz")
        text = function(*CHAIN[:2], command("rw 0"), top=loads, close=close)
        assert judged(read(text.replace("%0 as %x", "%y as %x"))) == broken


def test_each_function_is_a_run_and_what_is_outside_is_stated() -> None:
    """spec: FP9.3, FP9.4, FP9.14"""
    found = read(function(*CHAIN) + function(region(*CHAIN[:1]), name="other"))
    assert isinstance(found.plan, Plan)
    assert {name.split(".")[0] for name in found.plan.allocation.tensors.name} == {"main", "other"}
    assert found.reading.donated == ("main.0",)
    assert not found.reading.approximations
    in_parts = function(CHAIN[0], SUM, region(HALF, HALF.replace("%o2]", "%h]")), *CHAIN[2:])
    in_branch = function(CHAIN[0], close=conditional(execute(region(CHAIN[1])), None, results=""))
    for text in (in_parts, in_branch):
        assert iree_commands.REGIONS in read(text).reading.approximations
    assert list(found.reading.outside) == ["alignment of slices"]


RIGHT = function(*CHAIN)


ROW = f"stream.cmd.copy %x[%i], %a[%o1], %c32 : {T}{{%c64}} -> {T}{{%s}}"
BACK = f"stream.cmd.copy %a[%o1], %x[%i], %c32 : {T}{{%s}} -> {T}{{%c64}}"


def test_functions_of_one_name_are_each_read() -> None:
    """In the order of the file, interleaved dumps as well; one whose dump after the pass is missing is cut off.

    spec: FP1.12, FP9.12
    """
    right, wrong = function(*CHAIN), function(*CHAIN, offsets=(0, 32, 64))
    for one, other in ((right, wrong), (wrong, right)):
        assert judged(read(one + other)) == LIVE
        apart = [text.partition(AFTER) for text in (one, other)]
        assert judged(read("".join(text[0] for text in apart) + "".join(AFTER + text[2] for text in apart))) == LIVE
    assert {name.partition(".")[0] for name in plan_names(read(right + right))} == {"main", "main #2"}
    for text in (right + right.partition(AFTER)[0], right + AFTER + right.partition(AFTER)[2]):
        with pytest.raises(TmmuError, match=r"the file is not whole: main has \d dumps before"):
            read(text)


def test_a_name_of_another_region_is_another_value() -> None:
    """A loop that carries a timepoint by the name that a resource had in the commands before. spec: FP9.6"""
    loop = "%l = scf.for %i = %c0 to %n step %c64 iter_args(%a = {}) -> (x) {{\nscf.yield %a : x\n}}"
    assert judged(read(function(*CHAIN, close=f"{DEALLOCA}\n{loop.format('%t')}"))) == set()
    assert judged(read(function(*CHAIN, close=f"{DEALLOCA}\n{loop.format('%r')}"))) == LIVE


def test_a_window_at_an_unknown_offset_is_all_of_what_it_lies_in() -> None:
    """spec: FP9.9"""
    found = read(function(ROW, BACK, *CHAIN[1:]))
    assert judged(found) == set()
    assert iree_commands.UNKNOWN in found.reading.approximations
    (changed,) = found.reading.donated
    assert changed == "0"
    for wrong in (ROW.replace("%x", "%a"), region(CHAIN[0], BACK)):
        with pytest.raises(TmmuError, match="not a constant"):
            read(function(CHAIN[0], wrong, *CHAIN[1:]))


IMPORT = "%{} = stream.tensor.import on(#hal.device) {}%v : !hal.buffer_view -> tensor<16xf32> in {}{{%c64}}"
FILL = f"stream.cmd.fill %z, %y[%c0 for %c64] : i8 -> {T}{{%c64}}"


@pytest.mark.parametrize(
    ("marks", "commands", "broken"),
    [
        (("",), CHAIN, CHANGED),
        (("",), CHAIN[:-1], set()),
        (("consume ",), CHAIN, set()),
        # A second import is the same memory, and gives up both.
        (("", "consume "), CHAIN, set()),
        (("consume ", ""), CHAIN, set()),
        (("", ""), CHAIN, CHANGED),
        (("", ""), (*CHAIN[:-1], FILL), CHANGED),
        (("", "consume "), (*CHAIN[:-1], FILL), set()),
        (("", "consume "), (region(CHAIN[0], FILL), *CHAIN[1:-1]), RACES),
    ],
)
def test_an_argument_stays_unless_an_import_consumes_it(
    marks: tuple[str, ...], commands: tuple[str, ...], broken: set[str]
) -> None:
    """spec: FP9.3, FP9.11, Z1.4"""
    resource = "!stream.resource<external>"
    imports = "\n".join(IMPORT.format(name, mark, resource) for name, mark in zip("ij", marks, strict=False))
    text = function(*commands, top=imports)
    both = "%i as %x" + (f": {resource}{{%c64}}, %j as %y" if len(marks) > 1 else "")
    found = read(text.replace("%0 as %x", both))
    assert (judged(found) & broken if broken == RACES else judged(found)) == broken
    assert set(found.reading.donated) <= ({"i"} if "consume " in marks else set())
    assert isinstance(found.plan, Plan)
    t = found.plan.allocation.tensors
    unkept = t.flags & (IS_INPUT | IS_RETURNED) == IS_INPUT
    assert "consume " in marks or not unkept.any()
    own = read(text.replace("%0 as %x", both).replace("@main(", "@jit_eval_2("))
    assert "functions that IREE evaluates as it compiles have separate memory" in own.reading.assumptions
    assert judged(own) == (judged(found) if broken == RACES else set())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\xff",
        BEFORE,
        RIGHT[: RIGHT.index(AFTER)],
        AFTER + "util.func @f() {\n}\n",
        RIGHT.replace("wo %a[%o3", "ro %a[%o3"),
        RIGHT[:-3],
        RIGHT.replace("%s = arith.constant 128", "%s = arith.constant -1"),
        RIGHT.replace("%s = arith.constant 128", "%s = arith.constant " + "9" * 5000),
        RIGHT.replace("%c64 =", "%c65 ="),
        function("stream.cmd.call @f(%a) : () -> ()"),
        function("stream.cmd.dispatch @f"),
        function("ro %a[%o1 for %c64] : x"),
        function(*CHAIN, close="cf.br ^bb1"),
        function(*CHAIN, close="^bb1:"),
        function(*CHAIN, close="}"),
        function(*CHAIN, close="%l = scf.forall (%i) in (4) {\n}"),
        function(*CHAIN, close="some.region {\n}"),
        function(*CHAIN, close="scf.yield %r : x"),
        function(*CHAIN, top="%v = stream.resource.subview %r : x"),
        function(*CHAIN, top=f"%v = stream.resource.alloca : {T} {TIME}"),
        function(*CHAIN, close="stream.cmd.execute with()"),
        function(*CHAIN, top="\n".join("scf.if %i {" for _ in range(70))),
        function(*["stream.cmd.serial {"] * 70, *CHAIN, *["}"] * 70),
        RIGHT.replace("wo %a[%o2 for", "wo %a[%o1 for").replace("wo %a[%p#2", "wo %a[%p#2"),
        function(
            *CHAIN,
            top=f"%v = stream.resource.subview %r[%o2] : {T}{{%s}} -> {T}{{%c64}}\n"
            f"%w = stream.resource.subview %v[%c32] : x\n%z = stream.resource.subview %w[%o2] : x",
        ),
        function("stream.cmd.copy %a[%o1] : x"),
        function("stream.cmd.fill %v, %a[%o1] : x"),
    ],
)
def test_what_is_no_dump_is_refused(text: str) -> None:
    """spec: FP2.3, FP2.4, FP9.1, FP9.10"""
    with pytest.raises(TmmuError) as error:
        read(text)
    assert (error.value.code_id, error.value.file) == ("INVALID_PLAN", "m.iree")


def refused_at(text: str) -> str:
    """The place at which a dump is refused."""
    with pytest.raises(TmmuError) as error:
        read(text)
    assert error.value.place
    return error.value.place


@pytest.mark.parametrize(
    "line",
    [
        "novel", "%n = novel.op", "util.novel %0 : !hal.buffer_view", "hal.buffer_view.novel<%0 : !hal.buffer_view>",
        "%n = arith.addi %c0, %c64 : index novel", "%n = arith.constant 1 : index {novel}", "^bb1 novel:", "} novel",
        "%n = stream.timepoint.immediate => !stream.timepoint // novel", "loc(novel)", "\"novel\"", "stream.cmd.novel",
        "%n = stream.timepoint.join max(%e, %t) novel => !stream.timepoint", "%n, = arith.addi %c0, %c64 : index",
        "%n = util.global.load @w {novel} : index", "util.global.store.novel %c0, @w : index",
        "%n = stream.timepoint.await %e => %r, %0 : !stream.resource<transient>{%s}",
    ],
)  # fmt: skip
def test_a_line_of_iree_that_is_not_known_is_refused(line: str) -> None:
    """spec: FP9.13"""
    assert refused_at(function(*CHAIN, close=line)).startswith("line ")


def test_what_is_around_functions_is_accounted_for() -> None:
    """Comments and dumps of other passes are ignored; functions without commands are listed. spec: FP9.13"""
    text = function(*CHAIN)
    plain = plan_names(read(text))
    other = text.replace(AFTER, AFTER.replace("LayoutSlicesPass: iree-stream-layout-slices", "CSEPass: cse"))
    comment = text.replace("  %c0 =", "// novel {\n\n  // } stream.cmd.fill\n  %c0 =")
    for right in (
        comment,
        f"// novel\n#map = 1\n{text}\n// }}\n",
        text + other[other.index("// -----// IR Dump After") :],
    ):
        assert plan_names(read(right)) == plain
    idle = AFTER + "util.func public @idle(%0: index) {\n  novel\n}\n"
    outside = read(text + idle).reading.outside
    assert outside["functions without commands"].endswith("idle")
    half = text.replace("stream.cmd.execute", "stream.cmd.other", 1)
    for wrong in (
        f"novel\n{text}", f"{text}novel\n", text.replace(AFTER, f"novel\n{AFTER}"), half,
        text.replace("slices //----- //", "slices novel //----- //"), text.replace("@main(", "@main novel("),
        text.replace("[0, 1] = %c64,", "[0, 1] = %c64, novel"), text.replace("}) : index", "}) : index novel"),
        text.replace(BEFORE, BEFORE + "novel\n", 1),
    ):  # fmt: skip
        refused_at(wrong)


def test_a_dealloca_that_awaits_nothing_gives_its_memory_back() -> None:
    """spec: FP9.7"""
    found = read(function(*CHAIN, close=DEALLOCA.replace(" await(%e) =>", "")))
    assert isinstance(found.plan, Plan)
    assert any("dealloca" in name for name in found.plan.allocation.tensors.name)
    assert by_the_checker(found.plan, None, frozenset(found.reading.donated))
