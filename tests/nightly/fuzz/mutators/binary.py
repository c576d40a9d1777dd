"""Binary notations of fixed parts: flatbuffers, GGUF, NumPy's arrays and archives, rows of words, and frames."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from random import Random

from tests.nightly.fuzz.mutators import EDGES, mutate_bytes
from tests.nightly.fuzz.mutators.texts import mutate_text


def mutate_flatbuffer(data: bytes, random: Random) -> bytes:
    """Change offsets, lengths, entries of vtables and scalars; let one reference lead to where another does.

    A word of four bytes that leads to a place within the file is taken for a reference, and what is there for a vector
    or a table. Most are.
    """
    if random.random() < 0.2 or len(data) < 16:
        return mutate_bytes(data, random)
    found, words = bytearray(data), len(data) // 4
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(words) * 4
        (value,) = struct.unpack_from("<I", found, at)
        is_reference = 0 < value < len(data) - at
        kind = random.randrange(6)
        if kind == 0 and is_reference:
            target = random.randrange(words) * 4
            struct.pack_into("<I", found, at, (target - at) & 0xFFFFFFFF)
        elif kind == 1 and is_reference and at + value + 4 <= len(found):
            (length,) = struct.unpack_from("<I", found, at + value)
            new = random.choice((0, 1, length + 1, length - 1, length * 2, 0x7FFFFFFF, 0xFFFFFFFF)) & 0xFFFFFFFF
            struct.pack_into("<I", found, at + value, new)
        elif kind == 2 and is_reference and at + value + 4 <= len(found):
            table = at + value
            vtable = table - struct.unpack_from("<i", found, table)[0]
            if 0 <= vtable <= len(found) - 8:
                field = vtable + random.randrange(8) * 2
                if field + 2 <= len(found):
                    struct.pack_into(
                        "<H", found, field, random.choice((0, 2, 4, 6, 8, 12, 0xFFFF, random.randrange(64)))
                    )
        elif kind == 3:
            number = (value + random.choice((-1, 1, 4, -4, 16, 256))) & 0xFFFFFFFF
            struct.pack_into("<I", found, at, number)
        elif kind == 4:
            struct.pack_into("<I", found, at, random.choice(EDGES) & 0xFFFFFFFF)
        else:
            found[at + random.randrange(4)] = random.randrange(256)
    return bytes(found)


KEY = re.compile(
    rb"(?:general|llama|tokenizer)\.[a-z_.]+|blk\.\d+\.[a-z_.]+|(?:token_embd|output_norm|output)\.[a-z_.]+"
)


def mutate_gguf(data: bytes, random: Random) -> bytes:
    """Change what follows a name of GGUF's header (a type, a count, a size), the header's counts, or its bytes.

    The header ends long before the data, which no reader interprets.
    """
    head = data[: 1 << 14]
    names = list(KEY.finditer(head))
    kind = random.randrange(6)
    if kind < 3 and names:
        at = random.choice(names).end() + random.choice((0, 4, 8, 12, 16, 20, 24, 28, 32))
        width = random.choice((4, 8))
        number = random.choice(EDGES) & ((1 << 8 * width) - 1)
        return data[:at] + number.to_bytes(width, "little") + data[at + width :]
    if kind == 3 and names:
        one, other = random.choice(names), random.choice(names)
        return data[: one.start()] + (other[0] + bytes(len(one[0])))[: len(one[0])] + data[one.end() :]
    if kind == 4 and len(data) >= 24:
        at = random.choice((4, 8, 16))
        return (
            data[:at]
            + random.choice(EDGES).to_bytes(8, "little")[: 8 if at > 4 else 4]
            + data[at + (8 if at > 4 else 4) :]
        )
    limit = min(len(data), random.choice((64, 600, 1 << 14)))
    return mutate_bytes(data[:limit], random) + data[limit:]


def mutate_npy(data: bytes, random: Random) -> bytes:
    """Change the header's text and keep its length right, or change bytes."""
    if random.random() < 0.3 or data[:6] != b"\x93NUMPY" or len(data) < 12:
        return mutate_bytes(data, random)
    wide = data[6] > 1
    begin = 12 if wide else 10
    (length,) = struct.unpack_from("<I" if wide else "<H", data, 8)
    head, body = mutate_text(data[begin : begin + length], random), data[begin + length :]
    if random.random() < 0.3:
        body = body[: random.randrange(len(body) + 1)]
    size = struct.pack("<I", len(head)) if wide else struct.pack("<H", min(len(head), 0xFFFF))
    return data[:8] + size + head + body


def mutate_npz(data: bytes, random: Random) -> bytes:
    """Change members, their names and their compression, or bytes of the archive."""
    if random.random() < 0.5:
        return mutate_bytes(data, random)
    out = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as made:
            for name in archive.namelist()[:8]:
                content = archive.read(name)[: 1 << 16]
                if random.random() < 0.5:
                    content = mutate_npy(content, random)
                if random.random() < 0.1:
                    name = random.choice(("", "x", "x.npy", "../x.npy", "\0", "x.npy" * 50))
                made.writestr(
                    name, content, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
                )
    except Exception:  # damaged archives raise errors of any kind
        return mutate_bytes(data, random)
    return out.getvalue()


def mutate_words(data: bytes, random: Random) -> bytes:
    """Change rows of words of eight bytes: numbers, their order, and how many there are."""
    words = list(struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8]))
    for _ in range(random.choice((1, 1, 2, 4))):
        at, kind = random.randrange(len(words) + 1), random.randrange(5)
        if kind == 0 and at < len(words):
            words[at] = random.choice((*EDGES, (words[at] + 1) & ((1 << 64) - 1), max(words[at], 1) - 1))
        elif kind == 1:
            words.insert(at, random.choice(words) if words else 0)
        elif kind == 2:
            del words[at : at + 1]
        elif kind == 3 and words:
            words[random.randrange(len(words))] = random.choice(words)
        elif at < len(words):
            words[at] = random.randrange(16)
    return struct.pack(f"<{len(words)}Q", *words)


def split_frames(data: bytes) -> list[bytes]:
    """Return the frames of a length in eight bytes and as many bytes; the last may be cut off."""
    frames, at = [], 0
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 8], "big")
        frames.append(data[at + 8 : at + 8 + min(length, 1 << 16)])
        at += 8 + length
    return frames


def mutate_blocks(data: bytes, random: Random) -> bytes:
    """Change the heads, the content and the number of frames of bytes, whose lengths stay right."""
    frames = split_frames(data)
    if not frames:
        return mutate_bytes(data, random)
    one = random.randrange(len(frames))
    if random.random() < 0.75:
        limit = random.choice((16, 40, len(frames[one])))
        frames[one] = mutate_bytes(frames[one][:limit], random) + frames[one][limit:]
    elif random.random() < 0.5:
        frames.insert(one, random.choice(frames))
    else:
        del frames[one]
    return b"".join(len(frame).to_bytes(8, "big") + frame for frame in frames)


def mutate_frames(data: bytes, random: Random) -> bytes:
    """Change frames of a length in eight bytes and as many bytes: their content, their lengths, and their number."""
    frames = split_frames(data)
    if not frames or random.random() < 0.2:
        return mutate_bytes(data, random)
    one = random.randrange(len(frames))
    if random.random() < 0.6:
        frames[one] = mutate_text(frames[one], random)
    elif random.random() < 0.5:
        frames.insert(one, random.choice(frames))
    else:
        del frames[one]
    lengths = [len(frame) for frame in frames]
    if lengths and random.random() < 0.2:
        lengths[random.randrange(len(lengths))] = random.choice(EDGES)
    return b"".join(n.to_bytes(8, "big") + frame for n, frame in zip(lengths, frames, strict=True))
