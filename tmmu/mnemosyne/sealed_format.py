"""The bytes of a sealed log: segments of a header, records and, if it was closed, a trailer. All is big-endian.

    header   magic 8 · version 2 · zero 2 · salt 32 · salt before 32 · first record 8 · prefix 4 · tag 16 · CRC-32 4
    record   "R" · length 4 · prefix 4 · sequence number 8 · token id 8 · CRC-32 of these 4 · ciphertext · tag 16
    trailer  "E", with the fields of a record; its plaintext is the number of records in the log

Each opening for writing that appends begins a segment with a new salt. A record is sealed under the segment's prefix
and its sequence number, which continues through all segments; the header and the trailer have the two last numbers. A
header authenticates its fields, among them the salt of the segment before. A record authenticates the version, its
salt, its token and its number. CRCs secure nothing: they distinguish damage from a wrong key and from a record of
another file. spec: MN5.4 to MN5.7
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from tmmu.mnemosyne.keys import TAG, SegmentKey

MAGIC = b"TMMU-LOG"
VERSION = 1
SALT = 32
FIELDS = struct.Struct(">8sHH32s32sQ4s")
HEADER = FIELDS.size + TAG + 4
FRAME_FIELDS = struct.Struct(">cI4sQQ")
FRAME = FRAME_FIELDS.size + 4
BOUND = struct.Struct(">H32sQQ")
CRC = struct.Struct(">I")
COUNT = struct.Struct(">Q")
RECORD, TRAILER = b"R", b"E"
TRAILER_SIZE = FRAME + COUNT.size + TAG
OF_TRAILER, OF_HEADER = (1 << 64) - 2, (1 << 64) - 1
"""The sequence numbers under which a segment's trailer and header are sealed; a record's is less than both."""

LARGEST = 1 << 30
"""The most bytes of a record."""


class Header(NamedTuple):
    """The header of a segment: its salt, the salt of the one before (zeros in the first), and its first record."""

    salt: bytes
    before: bytes
    first: int
    prefix: bytes


class Frame(NamedTuple):
    """The fields before a ciphertext."""

    kind: bytes
    length: int
    prefix: bytes
    sequence: int
    token: int


def kind_of(sequence: int) -> bytes:
    """Return the kind of record that is sealed under this number."""
    return TRAILER if sequence == OF_TRAILER else RECORD


def initialization_vector(prefix: bytes, sequence: int) -> bytes:
    """Return the initialization vector: the session's 32 random bits and a counter of 64."""
    return prefix + COUNT.pack(sequence)


def encode_header(key: SegmentKey, header: Header) -> bytes:
    """Encode a header, authenticated under its segment's key."""
    fields = FIELDS.pack(MAGIC, VERSION, 0, *header)
    return _with_crc(fields + key.seal(initialization_vector(header.prefix, OF_HEADER), b"", fields))


def encode_record(key: SegmentKey, header: Header, frame: Frame, data: bytes | memoryview) -> tuple[bytes, bytes]:
    """Encode a record or trailer: returns the frame and the sealed bytes."""
    bound = BOUND.pack(VERSION, header.salt, frame.token, frame.sequence)
    sealed = key.seal(initialization_vector(header.prefix, frame.sequence), data, bound)
    return _with_crc(FRAME_FIELDS.pack(*frame)), sealed


def decode_header(data: bytes) -> Header | None:
    """Decode a header; None if it is damaged. `is_authentic` checks whether it is authentic."""
    if len(data) != HEADER or not _crc_fits(data):
        return None
    return Header(*FIELDS.unpack_from(data)[3:])


def is_authentic(key: SegmentKey, header: Header, data: bytes) -> bool:
    """Return whether this header was sealed under this key."""
    fields, tag = data[: FIELDS.size], data[FIELDS.size : -4]
    return key.open(initialization_vector(header.prefix, OF_HEADER), tag, fields) is not None


def decode_frame(data: bytes) -> Frame | None:
    """Decode a frame; None if it is damaged."""
    if len(data) != FRAME or not _crc_fits(data):
        return None
    return Frame(*FRAME_FIELDS.unpack_from(data))


def decrypt_record(key: SegmentKey, header: Header, frame: Frame, sealed: bytes | memoryview) -> bytes | None:
    """Decrypt a record or trailer under its own number; None if it is not authentic."""
    bound = BOUND.pack(VERSION, header.salt, frame.token, frame.sequence)
    return key.open(initialization_vector(header.prefix, frame.sequence), sealed, bound)


def _with_crc(data: bytes) -> bytes:
    return data + CRC.pack(crc32(data))


def _crc_fits(data: bytes) -> bool:
    return bool(data[-4:] == CRC.pack(crc32(data[:-4])))
