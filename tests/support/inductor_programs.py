"""Random programs in the form of Inductor's wrappers, and what they compute, by an executor that reads no text.

A program is steps over buffers in one pool. Each step has a kernel of loop nests, which is written in C++ or in Triton
as Inductor writes it. `compute` runs the steps on NumPy, either in the pool or with memory of its own for each buffer.
In memory of its own a nest reads all of its elements before it writes any: that is what Inductor meant. In the pool the
elements are taken in the order of the text, in vectors in C++, and in blocks in any order in Triton.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZE = 24
"""The elements of a buffer."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """Where iteration `x` of a nest reads or writes, as a function and in both languages."""

    at: Callable[[int], int]
    cpp: str
    triton: str


WHOLE = "c10::div_floor_integer(static_cast<int64_t>(x0), static_cast<int64_t>(6L))"
REST = "(static_cast<int64_t>(x0) % static_cast<int64_t>(6L))"
PLACES = {
    "same": Place(lambda x: x, "x0", "x0"),
    "next": Place(
        lambda x: (x + 1) % SIZE, "(static_cast<int64_t>(1L + x0) % static_cast<int64_t>(24L))", "((1 + x0) % 24)"
    ),
    "back": Place(lambda x: SIZE - 1 - x, "23L + ((-1L)*x0)", "23 + ((-1)*x0)"),
    "turned": Place(
        lambda x: x // 6 + 4 * (x % 6),
        f"4L*({REST}) + {WHOLE}",
        "4*((x0 % 6)) + (x0 // 6)",
    ),
    "split": Place(
        lambda x: 6 * (x // 6) + x % 6,
        f"6L*({WHOLE}) + {REST}",
        "6*x1 + x2",
    ),
    "first": Place(lambda x: 0, "0L", "0"),
}  # fmt: skip


@dataclass(frozen=True)
class Nest:
    """A loop nest: `to[write] = Σ of[read] + 1` over all elements."""

    to: str
    write: str
    reads: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Step:
    """A call of a kernel: its nests, and the buffer of each parameter."""

    nests: tuple[Nest, ...]
    operands: dict[str, str]


@dataclass(frozen=True)
class Reuse:
    """`name = of  # reuse`, or `# alloc`."""

    name: str
    of: str
    is_empty: bool = False


@dataclass(frozen=True)
class Program:
    """Steps over buffers, the offset of each buffer that is allocated, in elements, and what is returned."""

    language: str
    offsets: dict[str, int]
    steps: tuple[Step | Reuse, ...]
    returned: tuple[str, ...]
    pool: int = 8 * SIZE
    hazards: frozenset[str] = field(default_factory=frozenset)
    """What was made at random that may go wrong."""


# Texts


def kernel_in_cpp(name: str, step: Step, vector: int) -> str:
    """The text of a kernel in C++; by vectors if all places are the same element."""
    written = {nest.to for nest in step.nests}
    declared = [f"{'' if p in written else 'const '}float* {p}" for p in step.operands]
    body = []
    for nest in step.nests:
        is_vector = vector > 1 and all(place == "same" for place in (nest.write, *(place for _, place in nest.reads)))
        by = vector if is_vector else 1
        lines = []
        for k, (of, place) in enumerate(nest.reads):
            index = f"static_cast<int64_t>({PLACES[place].cpp})"
            value = f"at::vec::Vectorized<float>::loadu({of} + {index}, static_cast<int64_t>({by}))"
            lines.append(f"auto tmp{k} = {value if is_vector else f'{of}[{index}]'};")
        count = len(nest.reads)
        total = " + ".join(f"tmp{k}" for k in range(count)) or "0"
        index = f"static_cast<int64_t>({PLACES[nest.write].cpp})"
        if is_vector:
            one = "at::vec::Vectorized<float>(static_cast<float>(1.0))"
            lines += [f"auto tmp{count} = {total} + {one};", f"tmp{count}.store({nest.to} + {index});"]
        else:
            lines += [f"auto tmp{count} = float({total} + 1.0);", f"{nest.to}[{index}] = tmp{count};"]
        inside = "\n".join(f"                {line}" for line in lines)
        body.append(
            "    {\n        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(24L); "
            f"x0+=static_cast<int64_t>({by}L))\n        {{\n            {{\n{inside}\n            }}\n"
            "        }\n    }"
        )
    types = ", ".join(repr(each.rpartition(" ")[0]) for each in declared)
    inside = "\n".join(body)
    return (
        f"{name} = async_compile.cpp_pybinding([{types}], r'''\n#include <torch/csrc/inductor/cpp_prefix.h>\n"
        f"extern \"C\"  void  kernel({', '.join(declared)})\n{{\n{inside}\n}}\n''')\n"
    )


def kernel_in_triton(name: str, step: Step) -> str:
    """The text of a kernel in Triton, with a helper that it does not use."""
    lines = [
        "xnumel = 24", "xoffset = tl.program_id(0) * XBLOCK", "xindex = xoffset + tl.arange(0, XBLOCK)[:]",
        "xmask = xindex < xnumel", "x0 = xindex", "x1 = xindex // 6", "x2 = (xindex % 6)",
    ]  # fmt: skip
    count = 0
    for nest in step.nests:
        used = []
        for of, place in nest.reads:
            lines.append(f"tmp{count} = tl.load({of} + ({PLACES[place].triton}), xmask, eviction_policy='evict_last')")
            used.append(f"tmp{count}")
            count += 1
        lines.append(f"tmp{count} = {' + '.join(used) or '0.0'} + 1.0")
        lines.append(f"tl.store({nest.to} + ({PLACES[nest.write].triton}), tmp{count}, xmask)")
        count += 1
    body = "\n".join(f"    {line}" for line in lines)
    types = {**dict.fromkeys(step.operands, "*fp32"), "xnumel": "i32", "XBLOCK": "constexpr"}
    changed = [p for p in step.operands if p.startswith("in_out_ptr")]
    return (
        f"{name} = async_compile.triton('{name}', '''\nimport triton\nimport triton.language as tl\n\n@triton.jit\n"
        "def _triton_helper_fn_add0(arg0_0, arg1_0):\n    tmp0 = arg0_0 + arg1_0\n    return tmp0\n\n"
        "@triton_heuristics.pointwise(size_hints={'x': 32}, filename=__file__, triton_meta={'signature': "
        f"{types}}}, "
        f"inductor_meta={{'mutated_arg_names': {changed}}})\n@triton.jit\n"
        f"def {name}({', '.join(step.operands)}, xnumel, XBLOCK : tl.constexpr):\n{body}\n''', device_str='cuda')\n"
    )


HEAD = """# AOT ID: ['0_inference']
import torch
from torch._inductor.async_compile import AsyncCompile
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
assert_alignment = torch._C._dynamo.guards.assert_alignment
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
alloc_from_pool = torch.ops.inductor._alloc_from_pool
async_compile = AsyncCompile()
"""


def text_of(program: Program) -> str:
    """The wrapper of a program."""
    kernels, lines = [], [f"pool0 = empty_strided_cpu(({program.pool}, ), (1, ), torch.float32)"]
    made = {"arg0_1"}
    if program.language == "triton":
        lines.append("raw_stream0 = get_raw_stream(0)")
    for k, step in enumerate(program.steps):
        if isinstance(step, Reuse):
            made.add(step.name)
            lines.append(f"{step.name} = {step.of}  # {'alloc' if step.is_empty else 'reuse'}")
            continue
        for buffer in step.operands.values():
            if buffer not in made:
                made.add(buffer)
                at = 4 * program.offsets[buffer]
                lines.append(f"{buffer} = alloc_from_pool(pool0, {at}, torch.float32, ({SIZE}, ), (1, ))")
        name = f"{program.language}_fused_{k}"
        operands = ", ".join(step.operands.values())
        if program.language == "cpp":
            kernels.append(kernel_in_cpp(name, step, 1 if k % 3 == 2 else 8))
            lines.append(f"{name}({operands})")
        else:
            kernels.append(kernel_in_triton(name, step))
            lines.append(f"{name}.run({operands}, {SIZE}, stream=raw_stream0)")
    body = "\n".join(f"    {line}" for line in lines)
    return (
        f"{HEAD}{''.join(kernels)}async_compile.wait(globals())\ndel async_compile\n\ndef call(args):\n"
        f"    arg0_1, = args\n    args.clear()\n{body}\n    return ({', '.join(program.returned)}, )\n\n"
        "def get_args():\n"
        f"    arg0_1 = rand_strided(({SIZE}, ), (1, ), device='cpu', dtype=torch.float32)\n    return [arg0_1]\n"
    )


# Runs


def compute(program: Program, rng: random.Random, *, in_pool: bool) -> list[list[float]]:
    """What a program returns."""
    noise = np.random.default_rng(rng.randrange(1 << 30))
    pool: Array = noise.random(program.pool + SIZE)
    memory: dict[str, Array] = {"arg0_1": np.random.default_rng(5).random(SIZE)}
    for step in program.steps:
        if isinstance(step, Reuse):
            of = memory.get(step.of)
            if of is None:
                of = pool[program.offsets[step.of] : program.offsets[step.of] + SIZE]
            memory[step.name] = of if in_pool else of.copy() if not step.is_empty else noise.random(SIZE)
            continue
        for buffer in step.operands.values():
            if buffer not in memory:
                at = program.offsets[buffer]
                memory[buffer] = pool[at : at + SIZE] if in_pool else noise.random(SIZE)
        arrays = {parameter: memory[buffer] for parameter, buffer in step.operands.items()}
        if not in_pool:
            for nest in step.nests:
                run_nest(nest, arrays, range(SIZE))
        elif program.language == "cpp":
            for nest in step.nests:
                for x in range(SIZE):
                    run_nest(nest, arrays, [x])
        else:
            block = rng.choice((1, 2, 8))
            blocks = [range(start, start + block) for start in range(0, SIZE, block)]
            rng.shuffle(blocks)
            for lanes in blocks:
                for nest in step.nests:
                    run_nest(nest, arrays, lanes)
    return [memory[name].tolist() for name in program.returned]


def run_nest(nest: Nest, arrays: dict[str, Array], iterations: Any) -> None:
    """Some iterations of a nest, all of whose elements are read before any is written."""
    values = [1.0 + sum(arrays[of][PLACES[place].at(x)] for of, place in nest.reads) for x in iterations]
    for x, value in zip(iterations, values, strict=True):
        arrays[nest.to][PLACES[nest.write].at(x)] = value


def is_corrupted(program: Program, seed: int) -> bool:
    """Whether some run in the pool returns other numbers than one in memory of its own."""
    runs = {str(compute(program, random.Random(seed + k), in_pool=False)) for k in range(2)}
    runs |= {str(compute(program, random.Random(seed + k), in_pool=True)) for k in range(6)}
    return len(runs) > 1


# Random ones


def random_program(seed: int) -> Program:
    """A program with kernels in place, places and offsets at random."""
    rng = random.Random(seed)
    language = rng.choice(("cpp", "triton"))
    is_wild = rng.random() < 0.6
    hazards: set[str] = set()
    values, dead, steps = ["arg0_1"], set[str](), list[Step | Reuse]()
    offsets: dict[str, int] = {}
    count = rng.randrange(3, 7)
    for k in range(count):
        of = rng.choice([value for value in values if value not in dead])
        other = rng.choice([value for value in values if value not in dead])
        place = rng.choice(list(PLACES)) if is_wild and rng.random() < 0.5 else "same"
        new = f"buf{k}"
        is_in_place = of != "arg0_1" and rng.random() < 0.5
        if is_in_place:
            steps.append(Reuse(new, of))
            dead.add(of)
            operands, reads = {"in_out_ptr0": new}, [("in_out_ptr0", place)]
            target = "in_out_ptr0"
            hazards |= {place} - {"same", "split"}
        else:
            offsets[new] = free_offset(rng, offsets, [v for v in values if v not in dead], steps)
            operands, reads = {"in_ptr0": of}, [("in_ptr0", place)]
            target = "out_ptr0"
        if other != of or (is_wild and is_in_place and rng.random() < 0.2):
            operands["in_ptr1"] = other
            reads.append(("in_ptr1", "same"))
            hazards |= {"operand twice"} if other == of and is_in_place else set()
        if target == "out_ptr0":
            operands["out_ptr0"] = new
        nests = [Nest(target, "same", tuple(reads))]
        if rng.random() < 0.3 and (language == "cpp" or not is_in_place):  # Triton has one nest
            again = rng.choice(("same", "split", "next")) if is_wild and language == "cpp" else "same"
            nests.append(Nest(target, "same", ((target, again),)))
            hazards |= {again} - {"same", "split"}
        steps.append(Step(tuple(nests), operands))
        values.append(new)
    live = [value for value in values if value not in dead]
    returned = tuple(rng.sample(live[1:], rng.randrange(1, 1 + len(live[1:])))) if len(live) > 1 else (live[0],)
    program = Program(language, offsets, tuple(steps), returned, hazards=frozenset(hazards))
    if rng.random() < 0.5 and offsets:
        moved = rng.choice(list(offsets))
        at = rng.choice((0, 8, 16, 24, 48, 72))
        program = replace(program, offsets=offsets | {moved: at}, hazards=program.hazards | {"moved"})
    return program


def free_offset(rng: random.Random, offsets: dict[str, int], live: list[str], steps: list[Step | Reuse]) -> int:
    """A place that no value needs any more."""
    of = {step.name: step.of for step in steps if isinstance(step, Reuse)}
    taken = set()
    for value in live:
        while value in of:
            value = of[value]
        if value in offsets:
            taken.add(offsets[value])
    return rng.choice([at for at in range(0, 7 * SIZE, SIZE) if at not in taken][:3])
