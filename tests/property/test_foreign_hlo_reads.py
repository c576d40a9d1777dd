"""What the reader of HLO says that an instruction reads is what it reads: against an evaluation of single elements.

Random fused computations, and the operations by themselves, are evaluated for each element of their result by code that
shares nothing with the reader, and the elements of operands that this asks for are noted. spec: FP4.14
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import count, product

from hypothesis import given
from hypothesis import strategies as st

from proofs.readers.plans.hlo_in_place import InPlace, OperandRead
from proofs.readers.plans.hlo_index import IndexVariable, Linear
from tests.support import hlo, hlo_reading
from tests.support.hlo_elements import Elements, Index, indices, number
from tests.support.hlo_fusions import SHAPES, Fused
from tmmu.core.source import Source

SUM = "sum: %s.a = s32[] parameter(0); %s.b = s32[] parameter(1); ROOT %s.c = s32[] add(%s.a, %s.b)"
Element = tuple[int, int]
"""An operand, and the number of an element of it."""


def program(rng: random.Random) -> str:
    """A module with one fusion of its parameters."""
    shapes = [rng.choice(SHAPES) for _ in range(rng.randint(1, 3))]
    results = [rng.choice(SHAPES) for _ in range(rng.choice((1, 1, 2)))]
    body = Fused(rng, count(), shapes).text(results)
    given = "; ".join(f"%p{k} = {shape} parameter({k})" for k, shape in enumerate(shapes))
    listed = ", ".join(f"%p{k}" for k in range(len(shapes)))
    result = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return hlo.module(SUM, f"f: {body}", f"main: {given}; ROOT %r = {result} fusion({listed}), kind=kLoop, calls=%f")


def asked_for(text: str, part: Index) -> dict[int, set[Element]]:
    """For each element of a result, by its number in memory, the elements of operands that it is made from."""
    read = hlo_reading.program(text)
    rows = {row.name: row for row in read.computations["main"]}
    root = rows["r"]
    seen: set[Element] = set()

    def get(k: int, _part: Index, index: Index) -> int:
        array = rows[root.operands[k]].shape[()]
        assert array is not None
        seen.add((k, number(array, index)))
        return hash((k, index)) & 0xFFFF

    result = root.shape[part]
    assert result is not None
    elements, found = Elements(read, rows, root, get), {}
    for index in indices(result.dims):
        seen.clear()
        elements.of(part, index)
        found[number(result, index)] = set(seen)
    return found


def variables(*numbers: Linear) -> list[IndexVariable]:
    return list(dict.fromkeys(variable for each in numbers for variable in each.variables()))


def stated(read: OperandRead) -> Iterator[tuple[int, Element | None]]:
    """The elements of a result with what a read has for each; None for one that is not known."""
    over = variables(read.written, read.read, *read.inside)
    for values in product(*(range(each.size) for each in over)):
        at = dict(zip(over, values, strict=True))
        if not read.written.is_known:
            return
        if not (read.read.is_known and all(each.is_known for each in read.inside)):
            yield read.written.at(at), None
        elif all(0 <= each.at(at) < size for each, size in zip(read.inside, read.leaf.dims, strict=True)):
            yield read.written.at(at), (read.operand[0], read.read.at(at))


def reads_of(text: str) -> list[OperandRead]:
    """What the reader says that the root reads."""
    module = hlo.parsed(text)
    main = module.computations["main"]
    rules = InPlace(Source("m", b""), module)
    return rules.follow(main, main.result).reads


def compared(text: str) -> Counter[str]:
    """Compare the two, and count what was found."""
    found: Counter[str] = Counter()
    reads = reads_of(text)
    for part in {read.result.at for read in reads}:
        here = [read for read in reads if read.result.at == part]
        # A window at a place that is known at run time alone is written at any element.
        moving = {read.operand[0] for read in here if not read.written.is_known}
        exact: dict[int, set[Element]] = {}
        possible: dict[int, set[Element]] = {}
        wild: dict[int, set[int]] = {}
        for read in here:
            for made, element in stated(read):
                if element is None:
                    wild.setdefault(made, set()).add(read.operand[0])
                else:
                    possible.setdefault(made, set()).add(element)
                    if read.is_exact:
                        exact.setdefault(made, set()).add(element)
        for made, elements in asked_for(text, part).items():
            left = {(k, n) for k, n in elements - possible.get(made, set()) if k not in moving | wild.get(made, set())}
            assert not left, (part, made, left)
            if not moving and not wild.get(made):
                assert exact.get(made, set()) <= elements, (part, made, exact[made] - elements)
            found["exact" if exact.get(made) else "other"] += 1
    return found


@given(st.integers(0, 2**32))
def test_a_fusion_reads_the_elements_that_an_evaluation_asks_for(seed: int) -> None:
    compared(program(random.Random(seed)))


LINES = (
    "s32[4,2] transpose(%p), dimensions={1,0}", "s32[2,4] reverse(%p), dimensions={1}",
    "s32[2,4]{0,1} copy(%p)", "s32[8] reshape(%p)", "s32[4,2] bitcast(%p)", "s32[2,4]{0,1} bitcast(%p)",
    "s32[1,2] slice(%p), slice={[1:2], [0:4:3]}", "s32[2,8] concatenate(%p, %p), dimensions={1}",
    "s32[4,4] concatenate(%p, %q, %p), dimensions={0}".replace("%p, %q, %p", "%p, %p"),
    "s32[3,9] pad(%p, %z), padding=1_0x1_1_1", "s32[1,6] pad(%p, %z), padding=-1_0x2_0",
    "s32[3,2,4] broadcast(%p), dimensions={1,2}", "s32[4] reduce(%p, %z), dimensions={0}, to_apply=%sum",
    "s32[] reduce(%p, %z), dimensions={0,1}, to_apply=%sum", "s32[2,2] dot(%p, %q), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={1}", "s32[2,4,4] dot(%p, %q), lhs_batch_dims={0}, rhs_batch_dims={0}",
    "s32[4,4] dot(%p, %q), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "s32[2,4] add(%p, %q)", "s32[2,4] clamp(%z, %p, %z)", "s32[2,4] dynamic-update-slice(%p, %u, %o, %o)",
    "s32[2,4] dynamic-update-slice(%p, %q, %o, %o)", "s32[2,4] dynamic-slice(%p, %o, %o), dynamic_slice_sizes={2,4}",
    "s32[1,2] dynamic-slice(%p, %o, %o), dynamic_slice_sizes={1,2}", "s32[2,4] negate(%p)",
)  # fmt: skip


def test_each_rule_says_exactly_what_its_operation_reads() -> None:
    """Where nothing depends on data, all that is read is said, and nothing else."""
    for line in LINES:
        body = (
            "f: %p = s32[2,4] parameter(0); %q = s32[2,4] parameter(1); %u = s32[1,2] parameter(2); "
            f"%z = s32[] constant(0); %o = s32[] constant(1); ROOT %y = {line}"
        )
        shape = line.partition(" ")[0]
        main = (
            "main: %a = s32[2,4] parameter(0); %b = s32[2,4] parameter(1); %c = s32[1,2] parameter(2); "
            f"ROOT %r = {shape} fusion(%a, %b, %c), kind=kLoop, calls=%f"
        )
        text = hlo.module(SUM, body, main)
        found: dict[int, set[Element]] = {}
        for read in reads_of(text):
            for made, element in stated(read):
                assert element is not None, line
                found.setdefault(made, set()).add(element)
        asked = {made: elements for made, elements in asked_for(text, ()).items() if elements}
        assert found.keys() >= asked.keys(), line
        for made, elements in asked.items():
            assert found[made] - {(0, n) for n in range(8) if "dynamic-update" in line} <= elements <= found[made], line


def test_programs_read_exactly_and_by_data() -> None:
    """The comparison could not fail if all elements counted as read."""
    found = sum((compared(program(random.Random(seed))) for seed in range(60)), Counter[str]())
    assert found["exact"] > 200, found
