"""What is put into Inductor's wrappers at random, and two readings of the result that share no code.

spec: FP1.15, FP8.16
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from proofs.readers.plans import formats, inductor
from tests.support import inductor_programs, inductor_reading
from tests.support.foreign_accounts import Format, Texts
from tmmu.core.source import Source
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import Plan

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "foreign" / "proved"
WRAPPER = "m.inductor"
STRAIGHT = ("block", "convolutions", "sorts")
"""The wrappers of the corpus without branches and symbols, which an executor runs as they are."""
CALL = re.compile(r"( {4,8})(?:buf\d+ = )?(\w[\w.]*)\((.*)\)")
BUFFERS = re.compile(r"^ {4,8}(buf\d+) = (?:alloc|empty|reinter)\w+\(", re.MULTILINE)
QUOTES = "'''"


def inductor_plans() -> dict[str, Texts]:
    """Wrappers of the corpus, and one that is made for each language of kernels."""
    found = {name: {WRAPPER: (CORPUS / f"inductor-{name}.inductor").read_text()} for name in STRAIGHT}
    made = [program for program in map(inductor_programs.random_program, range(40)) if not program.hazards]
    for language in ("cpp", "triton"):
        program = next(each for each in made if each.language == language)
        found[language] = {WRAPPER: inductor_programs.text_of(program)}
    return found


def inductor_read(texts: Texts) -> StatedPlan | StatedBuffers:
    return formats.read_through_gate(formats.BY_KIND["inductor"], Source(WRAPPER, texts[WRAPPER].encode()))


def inductor_seen(texts: Texts) -> object:
    """The buffers in pools that each step accesses, as the reader has them."""
    plan = inductor.read(Source(WRAPPER, texts[WRAPPER].encode())).plan
    assert isinstance(plan, Plan)
    of, storages = plan.allocation, plan.allocation.storages
    pools = [k for k, arena in enumerate(of.arenas) if not arena.name.startswith(("memory of ", "no bytes"))]
    arenas = [int(storages.arena[k]) for k in of.tensors.storage]
    places = [
        int(storages.offset[k]) + int(window) for k, window in zip(of.tensors.storage, of.tensors.window, strict=True)
    ]
    found = []
    for reads, writes in zip(of.steps.listed("reads"), of.steps.listed("writes"), strict=True):
        rows = {row for row in (*reads, *writes) if arenas[row] in pools}
        found.append({(pools.index(arenas[row]), places[row]) for row in rows})
    return [each for each in found if each]


def inductor_stated(texts: Texts) -> object:
    return [set(addresses) for _, addresses in inductor_reading.run(texts[WRAPPER])]


def at_call(rng: random.Random, texts: Texts, edit: Callable[[str, str, str, str], str]) -> None:
    """Edit the line of a call: its indent, all before the operands, the operands, and a buffer that is there."""
    lines = texts[WRAPPER].split("\n")
    start = next(k for k, line in enumerate(lines) if line.strip().startswith("args.clear"))
    end = next(k for k in range(start, len(lines)) if lines[k].strip().startswith("return ("))
    calls = [k for k in range(start + 1, end) if CALL.fullmatch(lines[k]) and "assert" not in lines[k]]
    k = rng.choice([k for k in calls if BUFFERS.search("\n".join(lines[:k]))])
    found = CALL.fullmatch(lines[k])
    assert found is not None
    head = lines[k][len(found[1]) : found.start(3) - 1]
    before = "\n".join(lines[:k])
    there = [name for name in BUFFERS.findall(before) if not re.search(rf"del .*\b{name}\b", before)]
    lines[k] = edit(found[1], head, found[3], rng.choice(there or ["arg0_1"]))
    texts[WRAPPER] = "\n".join(lines)


def wrapper_operand(rng: random.Random, texts: Texts) -> None:
    """A further operand, by place, by a name, or with a star."""
    more = rng.choice((
        "{o}, {i}", "{i}, {o}", "{i}, novel={o}", "{i}, *({o},)", "{i}, **dict(novel={o})", "*({i},)",
    ))  # fmt: skip
    at_call(rng, texts, lambda indent, head, i, o: f"{indent}{head}({more.format(i=i, o=o)})")


def wrapper_statement(rng: random.Random, texts: Texts) -> None:
    """A statement before a call: a function, a method, an attribute, or none of these."""
    more = rng.choice((
        "novel({o})", "{o}.novel()", "{o}.novel_({o})", "{o}.data.copy_(arg0_1)", "{o}[0] = {o}", "{o} += 1",
        "novel = {o}.novel", "assert {o}.zero_()", "[{o}][0].copy_({o})", "for novel in {o}: pass",
        "print({o}.zero_())",
        "reinterpret_tensor({o}, (1, ), (1, ), 0).copy_({o})", "_check({o}.zero_())", "with torch.novel({o}): pass",
        "lambda: {o}", "torch.ops.novel.op.default({o})",
    ))  # fmt: skip
    at_call(rng, texts, lambda indent, head, i, o: f"{indent}{more.format(o=o)}\n{indent}{head}({i})")


def wrapper_second(rng: random.Random, texts: Texts) -> None:
    """A second operation on the line of a call."""
    more = rng.choice(("{o}.zero_()", "novel({o})", "torch.ops.aten.zero_.default({o})", "novel"))
    at_call(rng, texts, lambda indent, head, i, o: f"{indent}{head}({i}); {more.format(o=o)}")


def wrapper_module(rng: random.Random, texts: Texts) -> None:
    """A statement outside of functions."""
    more = rng.choice((
        "novel()", "class Novel:\n    pass", "import novel", "@novel\ndef f(args):\n    return ()", "novel = lambda: 1",
        "alloc_from_pool = torch.novel", "def novel(a, b):\n    return a", "torch.novel = 1", "for a in ():\n    pass",
        "reinterpret_tensor = None", "novel = torch.zeros(1)", "with torch.novel():\n    pass", "async_compile.novel()",
    ))  # fmt: skip
    texts[WRAPPER] = texts[WRAPPER].replace("async_compile.wait", f"{more}\nasync_compile.wait", 1)


IN_CPP = (
    "novel({p});", "*{p} = 0;", "auto novel = {p} + 1;", "std::swap({p}[0], {p}[1]);", "auto& novel = {p}[0];",
    "std::memcpy({p}, {p} + 1, 4);", "novel();", "goto novel;", "{p}++;", "#define loadu novel", "asm novel;",
)  # fmt: skip
IN_TRITON = (
    "novel({p})", "tl.novel({p})", "tl.store({p}.novel, 0)", "novel = unknown + 1",
    "tl.store(tl.make_block_ptr({p}), 0)",
    "while True: pass", "{p}.novel = 1", "tl.load([{p}][0])", "del xmask", "import novel",
)  # fmt: skip


def wrapper_kernel(rng: random.Random, texts: Texts) -> None:
    """A statement in a kernel."""
    text = texts[WRAPPER]
    forms, sign, indent = (IN_CPP, "{\n", "") if "cpp_pybinding" in text else (IN_TRITON, "xindex < xnumel\n", "    ")
    starts = [found.end() for found in re.finditer(re.escape(sign), text)]
    at = rng.choice([at for at in starts if text[:at].count(QUOTES) % 2])
    pointer = rng.choice(re.findall(r"\w+_ptr\d", text[at : text.index(QUOTES, at)]) or ["out_ptr0"])
    texts[WRAPPER] = f"{text[:at]}{indent}{rng.choice(forms).format(p=pointer)}\n{text[at:]}"


def wrapper_anywhere(rng: random.Random, texts: Texts) -> None:
    """A word or a sign at any place of the function that is run."""
    text = texts[WRAPPER]
    start = text.index("args.clear()")
    at = rng.randrange(start, text.index("return (", start))
    more = rng.choice(
        ("novel", ", novel", "; novel", " novel=1", ".novel", "(", ")", "*", "#", "[0]", "\n", "1", ".data")
    )
    texts[WRAPPER] = text[:at] + more + text[at:]


def wrapper_comment(rng: random.Random, texts: Texts) -> None:
    """A comment, and a check of an address."""
    more = "# novel({o})\n{indent}assert_alignment({o}, 16, 'novel')\n{indent}"
    at_call(rng, texts, lambda indent, head, i, o: f"{indent}{more.format(indent=indent, o=o)}{head}({i})")


INDUCTOR = Format(
    inductor_plans, inductor_read, inductor_seen, inductor_stated,
    {
        each.__name__: each
        for each in (
            wrapper_operand, wrapper_statement, wrapper_second, wrapper_module, wrapper_kernel, wrapper_anywhere,
            wrapper_comment,
        )
    },
    frozenset({"wrapper_comment"}), frozenset({"wrapper_anywhere"}),
)  # fmt: skip
