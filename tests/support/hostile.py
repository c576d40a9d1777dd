"""Bytes that are no canonical CBOR, or that cost more to decode than their length allows."""

from __future__ import annotations

import cbor2


def laughs(levels: int) -> bytes:
    """Shared references that double at every level: a few bytes that a reader would write out for ever."""
    data = bytes.fromhex("d81c80")  # mark an empty array as reference 0
    for level in range(levels):
        reference = bytes([level]) if level < 24 else bytes([0x18, level])
        data = bytes.fromhex("d81c83") + data + 2 * (bytes.fromhex("d81d") + reference)
    return data


HOSTILE = {
    "nothing": b"",
    "trailing bytes": bytes.fromhex("0000"),
    "an integer that could be shorter": bytes.fromhex("1817"),
    "a length that could be shorter": bytes.fromhex("780161"),
    "keys out of order": bytes.fromhex("a2616200616100"),
    "a key twice": bytes.fromhex("a2616100616101"),
    "a key that is no text": bytes.fromhex("a10102"),
    "an indefinite array": bytes.fromhex("9f01ff"),
    "an indefinite map": bytes.fromhex("bf616101ff"),
    "an indefinite text": bytes.fromhex("7f6161ff"),
    "a float": bytes.fromhex("fb3ff0000000000000"),
    "a half float": bytes.fromhex("f93c00"),
    "not a number": bytes.fromhex("f97e00"),
    "infinity": bytes.fromhex("f97c00"),
    "undefined": bytes.fromhex("f7"),
    "a simple value": bytes.fromhex("f0"),
    "a regular expression": bytes.fromhex("d82363612a2a"),
    "a MIME message": bytes.fromhex("d8246161"),
    "a date": bytes.fromhex("c074323031332d30332d32315432303a30343a30305a"),
    "a decimal": bytes.fromhex("c48221196ab3"),
    "a big number": bytes.fromhex("c249010000000000000000"),
    "a negative big number": bytes.fromhex("c349010000000000000000"),
    "an integer below 64 bits": bytes.fromhex("3bffffffffffffffff"),
    "a cycle of shared references": bytes.fromhex("d81c81d81d00"),
    "a string reference": bytes.fromhex("d9010082616161d81900"),
    "the tag of CBOR itself": bytes.fromhex("d9d9f700"),
    "a tag of big-endian columns": bytes.fromhex("d8414401000000"),
    "a tag of signed columns": bytes.fromhex("d8484101"),
    "an unknown tag": bytes.fromhex("da0001000000"),
    "a column that is an array": bytes.fromhex("d8408101"),
    "a column of a broken element": bytes.fromhex("d84643010203"),
    "invalid UTF-8": bytes.fromhex("61ff"),
    "reserved length bits": bytes.fromhex("1c"),
    "a lone break": bytes.fromhex("ff"),
    "an array of 2**60 items": bytes.fromhex("9b1000000000000000"),
    "a map of 2**60 entries": bytes.fromhex("bb1000000000000000"),
    "bytes of 2**60": bytes.fromhex("5b1000000000000000"),
    "a text of 2**64 - 1 bytes": bytes.fromhex("7bffffffffffffffff"),
    "a column of 2**60 bytes": bytes.fromhex("d8465b1000000000000000"),
    "300 arrays of 2**31 items each": bytes.fromhex("9a80000000") * 300,
    "200,000 nested arrays": b"\x81" * 200_000,
    "200,000 nested tags": bytes.fromhex("d840") * 200_000,
    "200,000 nested indefinite arrays": b"\x9f" * 200_000,
    "keys that collide": b"\xb9\x4e\x20" + b"".join(cbor2.dumps(k * (2**61 - 1)) + b"\x00" for k in range(1, 20_001)),
    "a billion laughs": laughs(40),
    "two million items": b"\x9a\x00\x1e\x84\x80" + bytes(2_000_000),
    "13 nested arrays": b"\x81" * 13 + b"\x00",
}
