"""Texts as trees: brackets with what is between them, and tokens. Serves HLO, MLIR, Relax, TOML, JSON, CSV and our own.

Every one of these notations has statements on lines, and groups in brackets whose parts are separated by commas. The
mutator moves, repeats and removes statements, groups and parts, and exchanges tokens for those of the text itself or of
a list of edges. So most texts that it makes still parse, and differ in what they say.
"""

from __future__ import annotations

import re
from random import Random

from tests.nightly.fuzz.mutators import Mutator, mutate_bytes

TOKEN = re.compile(rb"%?[\w.#$@]+|[^\w\s]")
OPENING, CLOSING = b"([{<", b")]}>"
WORDS = (
    b"", b"0", b"-1", b"1", b"18446744073709551615", b"18446744073709551616", b"9" * 30, b"9" * 400, b"(", b")", b"{",
    b"}", b"[", b"]", b"<", b">", b"x", b"\xff", b"\x00", b"\n", b"\r", b"\t", b"\xe2\x80\xae", b"1e9", b"nan", b"inf",
    b"-0", b"0x10", b"'", b'"', b'"""', b"\\", b",", b";", b"%", b"=", b"#", b"//", b"/*", b"...", b"None", b"True",
    b"f32[1,1]", b"u4[3]", b"tensor<4xi4>", b"\xc2\xb2", b"\xd9\xa3", b"(" * 300, b"[" * 300, b"{" * 300, b"a." * 300,
)  # fmt: skip


def groups(data: bytes) -> list[tuple[int, int]]:
    """Return the extent of each group in brackets, the brackets included."""
    found, open_at = [], list[int]()
    for at, byte in enumerate(data):
        if byte in OPENING:
            open_at.append(at)
        elif byte in CLOSING and open_at:
            found.append((open_at.pop(), at + 1))
    return found


def _exchange_tokens(data: bytes, random: Random) -> bytes:
    tokens = list(TOKEN.finditer(data))
    if not tokens:
        return data
    at = random.choice(tokens)
    word = random.choice(tokens)[0] if random.random() < 0.5 else random.choice(WORDS)
    if at[0].isdigit() and len(at[0]) < 30 and random.random() < 0.3:
        word = str(int(at[0]) + random.choice((-1, 1, 64, 1 << 31, 1 << 63))).encode()
    return data[: at.start()] + word + data[at.end() :]


def _exchange_groups(data: bytes, random: Random) -> bytes:
    found = groups(data[: 1 << 16])
    if not found:
        return data
    (start, end), (first, last) = random.choice(found), random.choice(found)
    kind = random.randrange(5)
    if kind == 0:
        return data[:start] + data[first:last] + data[end:]
    if kind == 1:
        return data[:start] + data[end:]
    if kind == 2:
        return data[:end] + data[start:end] + data[end:]
    parts = data[start + 1 : end - 1].split(b",")
    one, other = random.randrange(len(parts)), random.randrange(len(parts))
    if kind == 3:
        parts[one], parts[other] = parts[other], parts[one]
    elif random.random() < 0.5:
        parts.insert(one, parts[other])
    else:
        del parts[one]
    return data[: start + 1] + b",".join(parts) + data[end - 1 :]


def _exchange_lines(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    one, other, kind = random.randrange(len(lines)), random.randrange(len(lines)), random.randrange(5)
    if kind == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == 1:
        del lines[one]
    elif kind == 2:
        lines.insert(one, lines[other])
    elif kind == 3:
        lines[one] += lines[other]
    else:
        lines[one:one] = [lines[other]] * random.choice((2, 30))
    return b"\n".join(lines)


KINDS = (_exchange_tokens, _exchange_tokens, _exchange_groups, _exchange_lines, mutate_bytes)


def mutate_text(data: bytes, random: Random) -> bytes:
    """Change tokens, groups, lines or bytes, a few times."""
    for _ in range(random.choice((1, 1, 2, 3))):
        data = random.choice(KINDS)(data, random)
    return data


def with_words(*words: bytes) -> Mutator:
    """Return the mutator that also puts words of a notation into a text, in the place of a token."""

    def mutate(data: bytes, random: Random) -> bytes:
        tokens = list(TOKEN.finditer(data)) if random.random() < 0.3 else []
        if not tokens:
            return mutate_text(data, random)
        at = random.choice(tokens)
        return data[: at.start()] + random.choice(words) + data[random.choice((at.start(), at.end())) :]

    return mutate
