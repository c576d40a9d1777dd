"""What is put into plans of other producers at random, and two readings of the result that share no code.

A format has a row in `FORMATS`: its stored plans, ways of putting something into one, what its reader sees, and what
another reading says. spec: FP1.15
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from proofs.definition.violations import Violation
from proofs.readers.plans import executorch_file, formats, tflite
from proofs.verify.checks import BufferSubject, Subject, buffer_violations, violations
from tests.support import flatbuffer_files, flatbuffer_walk, iree_reading, relax_run
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.plans import file
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import BufferPlan, Plan

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "foreign" / "proved"

Texts = dict[str, str]
"""The files of one plan, by what they are; bytes are text in Latin-1."""
Insertion = Callable[[random.Random, Texts], None]
MAIN = "m"
"""The file of a format that has one."""


@dataclass(frozen=True)
class Format:
    """A format of plans: `read` is the reader, `seen` the program that it takes a plan for, and `stated` the one that
    an executor takes it for; both are compared where a plan is proved. `insertions` put something into a plan, those
    that `ignored` names something that states nothing. What those in `free` put in may be right.
    """

    plans: Callable[[], Mapping[str, Texts]]
    read: Callable[[Texts], StatedPlan | StatedBuffers]
    seen: Callable[[Texts], object]
    stated: Callable[[Texts], object]
    insertions: Mapping[str, Insertion]
    ignored: frozenset[str]
    free: frozenset[str] = frozenset(("anywhere", "trailing"))
    times: int = 12
    """How often each insertion is tried with a plan."""


def verdict(form: Format, texts: Texts) -> str:
    """The verdict on a plan; of one that is proved, the reader must have seen what an executor sees."""
    try:
        stated = form.read(texts)
    except TmmuError as error:
        whole = r"txt:\d|not whole|no metadata|no table has a row|no instruction uses"
        is_placed = error.place or re.search(whole, str(error))
        return "refused" if error.code_id == "INVALID_PLAN" and is_placed else f"refused by {error}"
    found: Iterator[Violation]
    if isinstance(stated, StatedBuffers):
        found = buffer_violations(BufferSubject(stated))
    else:
        donated = frozenset(stated.reading.donated) if stated.reading is not None else frozenset[str]()
        found = violations(Subject(stated, None, donated))
    if next(found, None) is not None:
        return "REFUTED"
    if stated.reading is not None and stated.reading.undecided:
        return "UNKNOWN"
    assert form.seen(texts) == form.stated(texts)
    return "PROVED"


def stored(suffix: str, encoding: str = "utf-8") -> dict[str, Texts]:
    """The proved plans of the corpus with a suffix."""
    return {path.name: {MAIN: path.read_bytes().decode(encoding)} for path in sorted(CORPUS.glob(f"*{suffix}"))}


def read_as(kind: str, texts: Texts, encoding: str = "utf-8") -> StatedPlan | StatedBuffers:
    """Read a plan of one file through the gate, as the commands do."""
    return formats.read_through_gate(formats.BY_KIND[kind], Source("m", texts[MAIN].encode(encoding)))


def lines_of(texts: Texts) -> list[str]:
    return texts[MAIN].split("\n")


# Insertions into lines

SIGNS = "%{}()[],=:@<>-|\"'\\/*;#$"


def anywhere(words: tuple[str, ...], rng: random.Random, texts: Texts) -> None:
    """A word or a character at any place."""
    at = rng.randrange(len(texts[MAIN]))
    texts[MAIN] = texts[MAIN][:at] + rng.choice((*words, *SIGNS)) + texts[MAIN][at:]


def trailing(words: tuple[str, ...], rng: random.Random, texts: Texts) -> None:
    """Text at the end of a line, or of the file."""
    lines = lines_of(texts)
    k = rng.randrange(len(lines)) if rng.random() < 0.8 else len(lines) - 1
    lines[k] += rng.choice(("", " ")) + rng.choice(words)
    texts[MAIN] = "\n".join(lines)


def statement(choices: tuple[str, ...], rng: random.Random, texts: Texts) -> None:
    """A line of its own, as far in as the one behind it; `NAME` is a word of the line before it."""
    lines = lines_of(texts)
    k = rng.randrange(1, len(lines))
    indent = re.match(r" *", lines[k] or lines[k - 1])
    assert indent is not None
    words = re.findall(r"%?[A-Za-z_][\w#]*", lines[k - 1]) or ["x"]
    lines.insert(k, indent[0] + rng.choice(choices).replace("NAME", rng.choice(words)))
    texts[MAIN] = "\n".join(lines)


def replaced(pattern: str, choices: tuple[str, ...], rng: random.Random, texts: Texts) -> None:
    """Something at one of the places of a pattern: a choice has the groups of the pattern as `\\1`."""
    found = rng.choice(list(re.finditer(pattern, texts[MAIN], re.MULTILINE)))
    texts[MAIN] = texts[MAIN][: found.start()] + found.expand(rng.choice(choices)) + texts[MAIN][found.end() :]


def of_lines(
    words: tuple[str, ...], statements: tuple[str, ...], **more: tuple[str, tuple[str, ...]]
) -> dict[str, Insertion]:
    """The insertions of a format of lines: everywhere, behind a line, between lines, and at places of patterns."""
    found: dict[str, Insertion] = {
        "anywhere": partial(anywhere, words), "trailing": partial(trailing, words),
        "statement": partial(statement, statements),
    }  # fmt: skip
    return found | {name: partial(replaced, pattern, choices) for name, (pattern, choices) in more.items()}


def in_parts(start: str, needs: str, insertion: Insertion, rng: random.Random, texts: Texts) -> None:
    """Put something into one of the parts of a text that begin so, and in which something is."""
    at = [found.start() for found in re.finditer(start, texts[MAIN], re.MULTILINE)]
    parts = [part for part in zip(at, [*at[1:], len(texts[MAIN])], strict=True) if needs in texts[MAIN][slice(*part)]]
    first, end = rng.choice(parts)
    inner = {MAIN: texts[MAIN][first:end]}
    insertion(rng, inner)
    texts[MAIN] = texts[MAIN][:first] + inner[MAIN] + texts[MAIN][end:]


# MiniMalloc


def buffers(stated: Any) -> list[tuple[Any, ...]]:
    """Arena, name, both times, offset and bytes of each buffer."""
    assert isinstance(stated.plan, BufferPlan)
    found, s = stated.plan.buffers, stated.plan.buffers.storages
    columns = (s.birth, s.death, s.offset, s.bytes)
    arenas = [found.arenas[k].name for k in s.arena.tolist()]
    return sorted(zip(arenas, found.name, *(c.tolist() for c in columns), strict=True))


def csv_rows(texts: Texts) -> object:
    """The rows as the csv module has them, each part of a buffer by itself."""
    text = texts[MAIN].rstrip("\n")
    assert "\n\n" not in text
    rows = list(csv.reader(text.split("\n"), strict=True))
    names = {"begin": "lower", "start": "lower", "buffer": "id", "buffer_id": "id"}
    head = [names.get(cell.strip(" \t\r"), cell.strip(" \t\r")) for cell in rows[0]]
    assert set(head) <= {"id", "lower", "upper", "end", "size", "offset", "alignment", "hint", "gaps"}
    assert len(set(head)) == len(head)
    found = []
    for cells in rows[1:]:
        row = dict(zip(head, (cell.strip(" \t\r") for cell in cells), strict=True))
        first, more = int(row["lower"]), int("end" in row)
        last = int(row["end"] if more else row["upper"]) - 1 + more
        cuts = [re.fullmatch(r"(\d+)-(\d+)(?:@(\d+):(\d+))?", cell) for cell in row.get("gaps", "").split()]
        gaps = sorted(tuple(int(x or 0) for x in cut.groups()) for cut in cuts if cut)
        assert None not in cuts
        offset, size, parts = int(row["offset"]), int(row["size"]), []
        for a, b, low, high in gaps:
            end = b - 1 + more
            if a <= end:
                parts += [(first, a - 1, offset, size), (a, end, offset + low, high - low)]
                first = end + 1
        parts.append((first, last, offset, size))
        kept = [part for k, part in enumerate(parts) if part[0] <= part[1] and (k % 2 == 0 or part[3])]
        found += [("memory", row["id"] + (f" part {k}" if k else ""), *part) for k, part in enumerate(kept)]
    return sorted(found)


NUMBERS = ("0", "1", "-1", "+1", "1_0", "٣", "0x1", "1.0", "1e3", "\0", "novel", " ")
MINIMALLOC = Format(
    partial(stored, ".csv"), partial(read_as, "minimalloc"),
    lambda texts: buffers(read_as("minimalloc", texts)), csv_rows,
    of_lines(
        (*NUMBERS, ",", ",0", '"', "\r", "\t", "# novel"),
        ("", "novel", "#novel", "1,2", "0,0,0,0,0,0,0,0,0", '"a","b"', ","),
        column=(r"^([^,\n]+)((?:,[^,\n]*){2,})$", (r"\1\2,novel", r"\1\2,0", r"\1,novel\2", r'"\1"\2', r"\1,\2")),
        number=(r"(?<=,)(\d+)", ("+\\1", "-\\1", "\\1_0", "\\1.0", "\\1٣", "0x\\1", "\\1 0", '"\\1"', "\\1\0")),
    ),
    frozenset(), times=4,
)  # fmt: skip

# Vela


def vela_rows(texts: Texts) -> object:
    """Each row by its columns, and rows of one place and time together, as a table of numbers."""
    found: dict[tuple[Any, ...], list[str]] = {}
    arena, table, names, lines = "", 0, list[str](), iter(texts[MAIN].split("\n"))
    for line in lines:
        if line.startswith(("Allocation, memory ", "Tensor Allocation for ")):
            assert re.search(r"^(Allocation, memory [^,:]+, usage mask: [\w|]+|Tensor Allocation for [^,:]+:)$", line)
            arena = re.sub(r"^(Allocation, memory|Tensor Allocation for) |,.*|:$", "", line)
        elif line.startswith("Start Time - End Time  : Start Addr -   End Addr: Tensor Size: Memory Usage: "):
            assert line.split(": ", 4)[-1].split() == ["Format", ":", "Name"]
            table += 1
            names.append(arena)
            while (row := next(lines)) and not row.startswith("Allocation Peak"):
                cells = re.fullmatch(
                    r" *(\d+) - +(\d+): +0x([0-9a-f]+) - +0x([0-9a-f]+): +(\d+): +\d+: ([\w+-]+) *: (.+?) *",
                    row,
                    re.ASCII,
                )
                assert cells is not None
                place = table, int(cells[1]), int(cells[2]), int(cells[3], 16), int(cells[5])
                assert place[3] + place[4] == int(cells[4], 16)
                found.setdefault(place, []).append(cells[7])
            assert re.fullmatch(r"Allocation Peak Tensor Size: \d+ bytes == [\d.]+ KiB", row, re.ASCII)
            assert max((at + n for k, _, _, at, n in found if k == table), default=0) == int(row.split()[4])
        elif line.startswith("Network summary for "):
            rest = [*lines]
            assert all(not line or re.match(r"[A-Z][^:]*?(  | = )[\w.]", line) for line in rest)
        else:
            assert not line.strip("#") or line.startswith(("Warning: ", "Info: "))
    unique: dict[str, int] = {}
    rows = []
    for (table, birth, death, at, n), of in found.items():
        name = ", ".join(dict.fromkeys(of))
        unique[name] = unique.get(name, 0) + 1
        assert unique[name] == 1
        rows.append((names[table - 1], name, birth, death, at, n))
    assert len(set(names)) == len(names)
    return sorted(rows)


VELA = Format(
    partial(stored, "vela-cnn.txt"), partial(read_as, "vela"), lambda texts: buffers(read_as("vela", texts)), vela_rows,
    of_lines(
        ("novel", ": novel", "0", ",", "bytes"),
        ("novel", "novel: 1", " 0 -  1: 0x0 - 0x10: 16", "Allocation Peak Memory Usage: 16 bytes == 0 KiB", "0", "}"),
        row=(r"^( +\d+ - .*?: )(.*)$", (r"\1novel: \2", r"\1\1\2", r"\1 novel \2", r"novel \1\2", r"\1")),
        title=(r"^((?:Tensor )?Allocation.*)$", (r"\1, novel", r"\1 novel", r"novel \1", r"\1\n\n", r"\1\nnovel")),
        comment=(r"^(#+)$", (r"\1\nWarning: novel", r"\1\n", r"\1\nInfo: novel")),
    ),
    frozenset(("comment",)),
)  # fmt: skip

# Relax


def places(stated: Any, arenas: list[int]) -> list[tuple[str, list[Any], list[Any]]]:
    """Each step with the places that it writes and touches in some arenas, each by its number among them."""
    assert isinstance(stated.plan, Plan)
    allocation = stated.plan.allocation
    t, s, rank = allocation.tensors, allocation.storages, {arena: k for k, arena in enumerate(arenas)}
    lists = [allocation.steps.listed(which) for which in ("writes", "reads")]
    of, arena, first = t.storage.tolist(), s.arena.tolist(), s.offset.tolist()
    at = [(rank.get(arena[k]), first[k] + window) for k, window in zip(of, t.window.tolist(), strict=True)]
    found = []
    for name, writes, reads in zip(allocation.steps.node, *lists, strict=True):
        stores, touches = ({at[row] for row in rows if at[row][0] is not None} for rows in (writes, (*writes, *reads)))
        found.append((name, sorted(stores), sorted(touches)))
    return found


def relax_seen(texts: Texts) -> object:
    """The storages, and the calls of kernels with what they touch of them; what the functions return is behind them."""
    stated: Any = read_as("relax", texts)
    allocation = stated.plan.allocation
    arenas = [k for k, arena in enumerate(allocation.arenas) if not arena.name.startswith(("memory of ", "no bytes"))]
    steps = [
        (re.sub(r" #\d+$", "", name), *rest)
        for name, *rest in places(stated, arenas)
        if rest[1] and not re.search(r"^if\b", name)
    ]
    return [allocation.arenas[k].capacity for k in arenas], steps


def relax_stated(texts: Texts) -> object:
    storages, steps = relax_run.program(texts[MAIN])
    return storages, [step for step in steps if step[0] != "return"]


RELAX_WORDS = (
    "novel",
    "novel=1",
    "; novel()",
    "(x)",
    ",",
    "0",
    "@novel",
    " = novel",
    ".novel",
    "**x",
    "# novel",
    "[0]",
)
STATEMENTS = (
    "novel(NAME)", "NAME.novel()",
    "NAME.copy_(x)", "NAME[0] = x", "NAME = novel", "NAME += 1", "assert NAME", "del NAME",
    "return NAME", "pass; novel(NAME)", "@novel", "def novel(NAME): pass", "class Novel: pass", "import novel",
    "lambda: NAME", "with novel(NAME): pass", "while NAME: pass", "for novel in NAME: pass", "R.novel(NAME)",
    "cls.novel(NAME)", 'R.call_packed("novel", NAME, out=NAME)', "global NAME", "NAME, x = x", "novel: R.Any = NAME.x",
    "try: novel()\nfinally: pass", "R.call_tir(novel, NAME, tir_vars=NAME)", "NAME = R.call_inplace_packed('f', NAME)",
)  # fmt: skip
RELAX = Format(
    partial(stored, ".relax"), partial(read_as, "relax"), relax_seen, relax_stated,
    of_lines(
        RELAX_WORDS, STATEMENTS,
        operand=(r"(cls\.\w+\(|R\.memory\.\w+\(|R\.\w+\()(\w+)", (
            r"\1\2, \2", r"\1\2, novel=\2", r"\1novel, \2", r"\1*\2", r"\1**\2", r"\1\2[0]", r"\1\2.novel",
            r"\1\2.novel()", r"\1(novel := \2)", r"\1\2, out_sinfo=novel(\2)", r"\1\2 + x", r"\1novel(\2)")),
        declaration=(r"(T\.Buffer\(\([^\"]*\), \"\w+\")", (r"\1, novel=1", r"\1, 0", r"\1, data=x")),
        stored=(r"^( +)(\w+)(\[.*?\]) = ", (
            r"\1\2\3[0] = ", r"\1novel.\2\3 = ", r"\1\2.novel\3 = ", r"\1novel[0], \2\3 = ", r"\1novel(\2)\3 = ",
            r"\1\2\3 = x[0] = novel = ", r"\1x = \2\n\1x\3 = ", r"\1novel = \2.novel\n\1\2\3 = ",
            r"\1novel(\2)\n\1\2\3 = ")),
        decorator=(r"^( +)@(\w+\.\w+)", (
            r"\1@novel\n\1@\2", r"\1@\2(novel=1)\n\1@\2", r"\1@\2.novel", r"\1@novel.\2")),
        signature=(r"^( +def \w+\()", (
            r"\1novel, ", r"\1*novel, ", r"\1novel=1, ", r"\1novel: novel(), ", r"\1x, /, ")),
        comment=(r"$", ("  # novel = (x)", "  # }{")),
    ),
    frozenset(("comment",)), frozenset(("anywhere", "trailing", "operand")), times=2,
)  # fmt: skip

# IREE


def iree_seen(texts: Texts) -> object:
    """Each command, with the sizes of the allocations that it touches."""
    stated: Any = read_as("iree", texts)
    allocation = stated.plan.allocation
    arenas = [k for k, arena in enumerate(allocation.arenas) if not arena.name.startswith(("memory of ", "no bytes"))]
    size = [allocation.arenas[k].capacity for k in arenas]
    found: dict[str, set[int]] = {}
    for name, _, touches in places(stated, arenas):
        label = re.sub(r" #\d+$", "", name)
        if touches and label not in ("await", "dealloca", "yield", "return") and not label.startswith("scf."):
            found.setdefault(label, set()).update(size[k] for k, _ in touches)
    return found


IREE_LINES = (
    "novel", "novel.op %x", "stream.novel NAME", "%novel = stream.cmd.novel NAME", "stream.cmd.novel {", "}", "{",
    "stream.resource.novel NAME : !stream.resource<transient>", "util.novel NAME : !hal.buffer_view", "^bb1:",
    "%novel = util.call @novel(NAME) novel", "cf.br ^bb1", "hal.novel<NAME : !hal.buffer_view>", "memref.store NAME",
    "stream.cmd.fill NAME, NAME[NAME for NAME] : i32 -> !stream.resource<transient>{NAME}", "util.return NAME novel",
)  # fmt: skip
IREE = Format(
    partial(stored, ".iree"), partial(read_as, "iree"), iree_seen, lambda texts: iree_reading.program(texts[MAIN]),
    {name: partial(in_parts, "^// -----//", "cmd.execute", each) for name, each in of_lines(
        ("novel", "%novel", "{novel}", "{novel = 1}", ", %x", "}", "{", "// novel {", "loc(novel)", " : novel", "0",
         "stream.cmd.discard %x[%y for %z] : !stream.resource<transient>{%z}", "%n = arith.constant 5 : i32"),
        IREE_LINES,
        operand=(r"^( +(?:%[^=\n]* = )?(?:stream\.(?:cmd|timepoint|resource)|scf|ro|wo|rw)\b[^%\n]*)(%\w+)", (
            r"\1\2, \2", r"\1%novel, \2", r"\1\2 novel", r"\1novel \2", r"\1\2 {novel}", r"\1novel(\2) \2")),
        operation=(r"\b(stream\.(?:cmd|timepoint|resource|tensor)\.[a-z_]+|util\.[a-z]+)\b", (
            r"\1.novel", r"\1_novel", "novel.op", r"novel \1", r"novel.\1", r"\1<novel>", r"\1 novel")),
        second=(r"^( +)(.*[^{\n])$", (
            r"\1\2 \2", r"\1\2; \2", r"\1\2 %novel = arith.constant 1 : index", r"\1%novel = novel.op \2")),
        comment=(r"^(  .*)$", (r"// novel {\n\1", r"\1\n  // } stream.cmd.fill %x, \"", r"\1\n")),
    ).items()},
    frozenset(("comment",)), times=3,
)  # fmt: skip

# Flatbuffers


def edited(
    schema: flatbuffer_walk.Schema, edit: Callable[[random.Random, Any], None], rng: random.Random, texts: Texts
) -> None:
    """Change the fields of a file, and write it anew."""
    data = texts[MAIN].encode("latin-1")
    fields = flatbuffer_walk.walk(data, schema)
    edit(rng, fields)
    texts[MAIN] = flatbuffer_files.write(fields, data[4:8]).decode("latin-1")


def parts(value: Any, kind: type) -> list[Any]:
    """The tables, lists of tables or lists of numbers in a file, nested."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [value] if isinstance(value, kind) and (kind is dict or not value or isinstance(value[0], dict)) else []
    if kind is tuple:
        found = [value] if isinstance(value, tuple) and isinstance(value[1], list) else []
    return found + [part for each in inner for part in parts(each, kind)]


def unknown_field(rng: random.Random, fields: Any) -> None:
    """A field that the schema of a table does not have."""
    rng.choice(parts(fields, dict))[rng.randrange(16, 20)] = rng.choice((("u32", 1), ("u8", [1]), {}, [{}], "novel"))


def more_numbers(rng: random.Random, fields: Any) -> None:
    """A further number in a list: an operand, an input, a dimension."""
    _, found = rng.choice(parts(fields, tuple))
    found.insert(rng.randrange(len(found) + 1), rng.choice((0, 1, 2, 7, 100)))


def more_tables(rng: random.Random, fields: Any) -> None:
    """A further row of a list of tables, as another row is, or empty: a tensor, an operator, metadata."""
    found = rng.choice(parts(fields, list))
    found.insert(rng.randrange(len(found) + 1), rng.choice((*found, {})))


def other_kind(rng: random.Random, fields: Any) -> None:
    """A small number of a table is another one: an opcode, a kind of instruction or value, a type, a flag."""
    tables = [table for table in parts(fields, dict) if table]
    while True:
        table = rng.choice(tables)
        field = rng.choice(list(table))
        if isinstance(table[field], tuple) and isinstance(table[field][1], int):
            most = 127 if table[field][0] in ("i8", "u8") else 1 << 20
            table[field] = table[field][0], rng.choice((0, 1, 2, 12, 31, 99, most))
            return


def raw(rng: random.Random, texts: Texts) -> None:
    """Another byte at any place of the file."""
    at = rng.randrange(8, len(texts[MAIN]))
    texts[MAIN] = texts[MAIN][:at] + chr(rng.randrange(256)) + texts[MAIN][at + 1 :]


def behind(rng: random.Random, texts: Texts) -> None:
    """Bytes behind all tables, which none refers to."""
    texts[MAIN] += "novel" * rng.randrange(1, 5)


def of_tables(schema: flatbuffer_walk.Schema) -> dict[str, Insertion]:
    edits = (unknown_field, more_numbers, more_tables, other_kind)
    named = {edit.__name__: partial(edited, schema, edit) for edit in edits}
    return {**named, "raw": raw, "behind": behind}


def tflite_seen(texts: Texts) -> object:
    found = tflite.graphs_of(Source("m", texts[MAIN].encode("latin-1")))
    graphs = []
    for graph in found:
        placed = [(t.offset, t.bytes, t.is_variable) if t.offset is not None else None for t in graph.tensors]
        nodes = []
        for node in graph.nodes:
            called = node.options if node.code in tflite.OPTIONS else None
            options = [called.number(k, "i32") if called is not None else 0 for k in (0, 1)]
            custom = node.op if node.code == tflite.CUSTOM else ""
            nodes.append((node.code, custom, node.reads, node.writes, node.intermediates, *options))
        graphs.append((placed, nodes, graph.inputs, graph.outputs))
    return graphs


def executorch_seen(texts: Texts) -> object:
    return [
        (
            method.name, method.memories,
            [(v.kind, tuple(v.at) if v.at is not None else None, list(v.items)) for v in method.values],
            [(c.kind, c.op if c.kind in (1, 2) else "", list(c.args), c.to) for chain in method.chains for c in chain],
            method.inputs, method.outputs,
        )
        for method in executorch_file.methods(Source("m", texts[MAIN].encode("latin-1")))
    ]  # fmt: skip


def of_bytes(kind: str, suffix: str, schema: flatbuffer_walk.Schema, seen: Any, of: Any) -> Format:
    """The row of a format of flatbuffers."""
    return Format(
        partial(stored, suffix, "latin-1"), partial(read_as, kind, encoding="latin-1"), seen,
        lambda texts: of(texts[MAIN].encode("latin-1")), of_tables(schema), frozenset(("behind",)),
        frozenset(("raw", "more_numbers", "more_tables", "other_kind")), times=4,
    )  # fmt: skip


TFLITE = of_bytes("tflite", ".tflite", flatbuffer_walk.TFLITE, tflite_seen, flatbuffer_walk.tflite_graphs)
EXECUTORCH = of_bytes(
    "executorch", ".pte", flatbuffer_walk.EXECUTORCH, executorch_seen, flatbuffer_walk.executorch_methods
)

# Our own text

PLANS = {
    "arms": """tmmu-plan-text 1
arena act 1024 align 64
tensor c  1 act   0 input
tensor x 64 act  64 input
tensor t 64 act 128
tensor e 64 act 128
tensor v 32 act  96 view x 32
tensor y 64 act 192 output
step cut my::Cut x -> v
begin n If c -> exclusive
step p Gemm x -> t
step q Gemm t v -> y
arm
step r Gemm x -> e
step s Gemm e -> y
end n ->
""",
    "buffers": """tmmu-plan-text 1
arena a 100
buffer p 60 a  0 live 0 3
buffer q 60 a 40 live 4 9
buffer r 40 a  0 live 4 9
claim peak a 100
""",
}


def read_text(texts: Texts) -> Any:
    return file.read_any(texts[MAIN].encode(), "m.plan.txt")


def text_seen(texts: Texts) -> object:
    """The arenas, the tensors or buffers with their places, and the steps with their operands."""
    plan = read_text(texts).plan
    if isinstance(plan, BufferPlan):
        return [(a.name, a.capacity) for a in plan.buffers.arenas], buffers(read_text(texts)), []
    allocation, t, s = plan.allocation, plan.allocation.tensors, plan.allocation.storages
    arenas = [(arena.name, arena.capacity) for arena in allocation.arenas]
    placed = [
        (arenas[s.arena[k]][0], name, int(s.offset[k] + window), int(size))
        for name, k, window, size in zip(t.name, t.storage.tolist(), t.window, t.bytes, strict=True)
    ]
    lists = (allocation.steps.listed(which) for which in ("reads", "writes"))
    operands = ([sorted(t.name[k] for k in row) for row in rows] for rows in lists)
    return (
        arenas,
        sorted(placed),
        sorted(step for step in zip(allocation.steps.node, *operands, strict=True) if any(step[1:])),
    )


def text_stated(texts: Texts) -> object:
    """The same by the words of each line, every one of which must be known."""
    arenas, placed, steps = list[Any](), list[Any](), list[Any]()
    title, *lines = (re.sub(r"#.*", "", line).split() for line in texts[MAIN].split("\n"))
    assert title == ["tmmu-plan-text", "1"]
    for kind, *words in filter(None, lines):
        if kind == "arena":
            assert re.fullmatch(r"\S+ \d+( align \d+)?( persistent)?", " ".join(words))
            arenas.append((words[0], int(words[1])))
        elif kind in ("tensor", "buffer"):
            more = r"( live \d+ \d+)" if kind == "buffer" else r"( input| output| align \d+| view \S+ \d+)*"
            assert re.fullmatch(r"\S+ \d+ \S+ \d+" + more, " ".join(words))
            times = tuple(int(word) for word in words[5:]) if kind == "buffer" else ()
            placed.append((words[2], words[0], *times, int(words[3]), int(words[1])))
        elif kind in ("step", "begin", "end"):
            reads, arrow, writes = (" " + " ".join(words) + " ").partition(" -> ")
            assert arrow
            name, *read = reads.split()
            written = [word for word in writes.split() if (kind, word) != ("begin", "exclusive")]
            operands = sorted(set(read if kind == "end" else read[1:])), sorted(set(written))
            steps += [(name, *operands)] if any(operands) else []
        else:
            assert (kind, *words) in (("arm",), ("claim", "peak", "a", "100"))
    return arenas, sorted(placed), sorted(steps)


TEXT = Format(
    lambda: {name: {MAIN: text} for name, text in PLANS.items()}, read_text, text_seen, text_stated,
    of_lines(
        ("novel", "novel 1", "0", "->", "x", "align", "view x 0", "\0", '"'),
        ("novel", "novel NAME", "step NAME", "tensor NAME 1", "arm", "end n ->", "claim novel a 1", "apart NAME"),
        column=(r"^(\w+)( \S+)(.+)$", (
            r"\1 novel\2\3", r"\1\2\2\3", r"\1\2\3 novel", r"\1.novel\2\3", r"\1\2\3 \1\2\3")),
        number=(r"(?<= )(\d+)\b", (r"+\1", r"-\1", r"\1_0", r"\1.0", "\\1٣", r"0x\1", r"\1 0", r"\1e")),
        comment=(r"$", ("   # novel -> x", "\n# novel")),
    ),
    frozenset(("comment",)), frozenset(("anywhere", "trailing", "column")),
)  # fmt: skip

FORMATS: dict[str, Format] = {
    "minimalloc": MINIMALLOC,
    "vela": VELA,
    "relax": RELAX,
    "iree": IREE,
    "text": TEXT,
    "tflite": TFLITE,
    "executorch": EXECUTORCH,
}
