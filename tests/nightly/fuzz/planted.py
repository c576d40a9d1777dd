"""A reader with a seeded fault, which the search must find: it shows that another would be found too."""

from __future__ import annotations

from tests.nightly.fuzz.bounds import ReaderTarget
from tests.nightly.fuzz.mutators import cbor
from tmmu.core import canonical
from tmmu.core.errors import TmmuError

KINDS = {"commit": 4, "value": 3}


def read(data: bytes) -> None:
    """Read a record of a known kind. Where it has a name, a kind that is a list is a TypeError."""
    record = canonical.decode(data)
    if not isinstance(record, dict) or "name" not in record:
        raise TmmuError("INVALID_RECORD", "it has no name")
    if record.get("kind") not in KINDS:
        raise TmmuError("INVALID_RECORD", "its kind is unknown")


PLANTED = ReaderTarget("planted", read, (TmmuError,), cbor.of_seal(cbor.keep))
SEED = canonical.encode({"kind": "value", "name": "x", "t": 1})
