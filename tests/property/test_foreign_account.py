"""Nothing in another compiler's file is passed over: what is put into one at random is refused, keeps it from being
proved, or is read for what it is.

A format has a row in `FORMATS`: its stored plans, ways of putting something into one, and two readings of the result
that share no code, the reader's and an executor's. To cover another reader, add its row. spec: FP4.12
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import settings

from proofs.readers.plans import hlo, xla
from tests.support import foreign_accounts, hlo_reading
from tests.support import hlo as dumps
from tests.support.effort import share
from tests.support.foreign_accounts import Format, Texts, verdict
from tests.support.inductor_accounts import INDUCTOR
from tmmu.core.source import Source
from tmmu.plans.gate import StatedPlan

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "foreign" / "proved"
SOAK = 20
"""So many times as many edits are tried by the profile `soak`."""
LARGE = 100_000
"""Characters of a plan of which fewer edits are tried."""


# XLA

SCHEDULE, BUFFERS = "m.txt", "m-buffers"
INSTRUCTION = re.compile(r"  (ROOT )?%?([\w.\-]+) = .* ([a-z][\w\-]*)\((.*)")
WORDS = ("novel", "%novel", "novel=1", "{}", ")", ",", "x", "0", "(%p)", "dimensions={0}", "%z = u8[4] negate(%p)", "=")


def xla_plans() -> dict[str, Texts]:
    """The dumps of the corpus that are proved."""
    found = {}
    for path in sorted(CORPUS.glob(f"xla-*/*{xla.SUFFIX}")):
        found[path.parent.name] = {
            SCHEDULE: Path(xla.schedule_of(str(path))).read_text(), BUFFERS: path.read_text()
        }  # fmt: skip
    return found


def xla_read(texts: Texts) -> StatedPlan:
    return dumps.flat(texts[SCHEDULE], texts[BUFFERS])


def xla_seen(texts: Texts) -> object:
    """The statements of the module, and the slices, as the reader has them."""
    module = hlo.parse(Source("m", texts[SCHEDULE].encode()))
    assignment = xla.read_assignment(Source("b", texts[BUFFERS].encode()))
    rows = {
        name: [
            (
                each.name, each.op, list(each.operands), each.name == computation.root,
                str(each.number) if each.op == "parameter" else each.literal,
                [(leaf.at, (leaf.dtype, leaf.dims, leaf.minor) if leaf.dtype else None) for leaf in each.shape],
                {key: re.sub(r"\s|/\*.*?\*/", "", value) for key, value in each.attributes.items()},
            )
            for each in computation.instructions
        ]
        for name, computation in module.computations.items()
    }  # fmt: skip
    arenas = {k: int(re.findall(r"\d+", arena.name)[0]) for k, arena in enumerate(assignment.arenas)}
    slices = {key: (arenas[of.arena], of.offset, of.size) for key, of in assignment.slices.items()}
    slices |= {key: tuple(of) for key, of in assignment.thread_local.items()}
    return (sorted(module.aliased.items()), sorted(module.donated), module.entry, rows), slices


def xla_stated(texts: Texts) -> object:
    return hlo_reading.program(texts[SCHEDULE]).statements(), hlo_reading.buffers(texts[BUFFERS]).values


def at_instruction(rng: random.Random, texts: Texts, edit: Callable[[re.Match[str]], str]) -> None:
    """Edit the line of an instruction."""
    lines = texts[SCHEDULE].split("\n")
    k = rng.choice([k for k, line in enumerate(lines) if INSTRUCTION.match(line)])
    found = INSTRUCTION.match(lines[k])
    assert found is not None
    lines[k] = edit(found)
    texts[SCHEDULE] = "\n".join(lines)


def names(texts: Texts) -> list[str]:
    return re.findall(r"(%[\w.\-]+) = ", texts[SCHEDULE]) or ["%p"]


def operand(rng: random.Random, texts: Texts) -> None:
    """A further operand, first or last."""
    more = rng.choice(names(texts))

    def edit(found: re.Match[str]) -> str:
        start, end = found.start(4), found.string.index(")", found.start(4))
        inside = found.string[start:end]
        listed = rng.choice((f"{more}, {inside}", f"{inside}, {more}", f"{inside} {more}", more))
        return found.string[:start] + listed + found.string[end:]

    at_instruction(rng, texts, edit)


def attribute(rng: random.Random, texts: Texts) -> None:
    """An attribute that no instruction has, or that this one has not."""
    value = rng.choice(("1", "{0}", '"x"', "%p", "{%p}", "true"))
    name = rng.choice(("novel", "dimensions", "to_apply", "calls", "is_scheduled", "slice", "novel-one", "index"))
    at_instruction(rng, texts, lambda found: f"{found.string}, {name}={value}")


def second_instruction(rng: random.Random, texts: Texts) -> None:
    """Another instruction behind one on its line."""
    other = rng.choice([line for line in texts[SCHEDULE].split("\n") if INSTRUCTION.match(line)]).strip()
    text = rng.choice((other, f"%novel = s32[] negate({rng.choice(names(texts))})"))
    at_instruction(rng, texts, lambda found: f"{found.string}{rng.choice((' ', ', ', '; '))}{text}")


def statement(rng: random.Random, texts: Texts) -> None:
    """A line of its own: an instruction, or none."""
    lines = texts[SCHEDULE].split("\n")
    of = rng.choice(names(texts))
    text = rng.choice(
        ("  novel", f"  %novel = s32[] negate({of})", f"  novel({of})", "  }", "novel {", f"  free({of})")
    )
    lines.insert(rng.randrange(1, len(lines)), text)
    texts[SCHEDULE] = "\n".join(lines)


def operation(rng: random.Random, texts: Texts) -> None:
    """An operation that HLO does not have, or another one."""
    op = rng.choice(("novel", "add-novel", "novel-start", "negate", "fusion", "custom-call", "sort", "dot"))

    def edit(found: re.Match[str]) -> str:
        return found.string[: found.start(3)] + op + found.string[found.end(3) :]

    at_instruction(rng, texts, edit)


def trailing(rng: random.Random, texts: Texts) -> None:
    """Text at the end of a line, or of a file."""
    which = rng.choice((SCHEDULE, BUFFERS))
    lines = texts[which].split("\n")
    k = rng.randrange(len(lines)) if rng.random() < 0.8 else len(lines) - 1
    lines[k] += rng.choice(("", " ")) + rng.choice(WORDS)
    texts[which] = "\n".join(lines)


def anywhere(rng: random.Random, texts: Texts) -> None:
    """A word or a character at any place."""
    which = rng.choice((SCHEDULE, BUFFERS))
    at = rng.randrange(len(texts[which]))
    texts[which] = texts[which][:at] + rng.choice((*WORDS, *"%{}()[],=:@<>-|\"'\\/*;#$")) + texts[which][at:]


def title(rng: random.Random, texts: Texts) -> None:
    """A statement of the title."""
    more = rng.choice(
        (", novel=1", ", buffer_donor={ (99, {}) }", ", is_scheduled=true", " novel", ", novel={ (0, {}) }")
    )
    texts[SCHEDULE] = texts[SCHEDULE].replace("\n", f"{more}\n", 1)


def buffers(rng: random.Random, texts: Texts) -> None:
    """A property of an allocation, a value, or a line of neither, in the assignment."""
    lines = texts[BUFFERS].split("\n")
    k = rng.randrange(1, len(lines))
    value = rng.choice([line for line in lines if line.startswith(" value")])
    text = rng.choice((value, f"{value} novel", re.sub(r"<(\d+) [\w.\-]+", r"<\1 novel", value), "novel", " novel: 1"))
    if rng.random() < 0.5:
        lines.insert(k, text)
    else:
        lines[k] = lines[k].removesuffix(":") + rng.choice((", novel:", ", thread-local:", text, ", constant:"))
    texts[BUFFERS] = "\n".join(lines)


def comment(rng: random.Random, texts: Texts) -> None:
    """A comment, between words."""
    at_instruction(rng, texts, lambda found: found.string.replace(" = ", " = /*novel=%p*/", 1) + "  // novel")


def ignored_attribute(rng: random.Random, texts: Texts) -> None:
    """An attribute that says nothing of memory."""
    more = rng.choice(("statistics={visualizing_index=0,a=1}", 'origin={{"%p" {0}}}', "parameter_replication={true}"))
    at_instruction(rng, texts, lambda found: f"{found.string}, {more}")


XLA = Format(
    xla_plans, xla_read, xla_seen, xla_stated,
    {
        each.__name__: each
        for each in (
            operand, attribute, second_instruction, statement, operation, trailing, anywhere, title, buffers, comment,
            ignored_attribute,
        )
    },
    frozenset({"comment", "ignored_attribute"}),
)  # fmt: skip

FORMATS: Mapping[str, Format] = {"xla": XLA, "inductor": INDUCTOR} | foreign_accounts.FORMATS


CASES = [
    (name, plan, insertion)
    for name, form in FORMATS.items()
    for plan in form.plans()
    for insertion in form.insertions
]  # fmt: skip


@pytest.mark.parametrize(("form", "plan", "insertion"), CASES)
def test_what_is_put_into_a_plan_is_accounted_for(form: str, plan: str, insertion: str) -> None:
    """spec: FP1.15, FP4.12, FP7.13, FP7.14, FP9.13"""
    of = FORMATS[form]
    whole = of.plans()[plan]
    times = 1 if sum(map(len, whole.values())) > LARGE else of.times if share(2) == 2 else max(2, of.times // 4)
    if settings.get_current_profile_name() == "soak":
        times *= SOAK
    found: Counter[str] = Counter()
    for seed in range(times):
        texts = dict(whole)
        of.insertions[insertion](random.Random(f"{plan} {insertion} {seed}"), texts)
        found[verdict(of, texts)] += texts != whole
    assert set(found) <= {"refused", "REFUTED", "UNKNOWN", "PROVED"}, found
    if insertion in of.ignored:
        assert set(found) == {"PROVED"}, found
    elif times > 1 and insertion not in of.free:
        assert found["refused"] + found["REFUTED"] + found["UNKNOWN"] >= times // 2, found


@pytest.mark.parametrize("form", FORMATS)
def test_plans_are_proved_and_read_alike_before_anything_is_put_into_them(form: str) -> None:
    for texts in FORMATS[form].plans().values():
        assert verdict(FORMATS[form], texts) == "PROVED"
