"""`tmmu mnemosyne`: vectors in sealed files, and the figures of document 002.

spec: MN8.1, MN8.6 to MN8.13, MN8.15, MN11.2, MN11.5, MN11.8

Commands that do not open a store are in `mnemosyne_figures`, and are added at the end of this module.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tmmu.cli import mnemosyne_figures
from tmmu.cli import options as shared
from tmmu.cli.logged import print_warnings
from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_package
from tmmu.core.flags import OnceGroup, existing, format_examples, gather_options
from tmmu.core.output import count_noun, format_json, print_lines, print_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tmmu.mnemosyne.sealed_log import LogState
    from tmmu.mnemosyne.store import VectorStore
    from tmmu.mnemosyne.store_blocks import PutOptions
    from tmmu.mnemosyne.store_index import StoreContents
    from tmmu.mnemosyne.vector_blocks import VectorBlock

TAMPERED = ("WRONG_KEY", "NOT_AUTHENTIC", "LOG_TRUNCATED", "ROLLED_BACK")
"""What `verify` answers with the exit code 1: the store is not what was acknowledged under this key."""
TOKEN_IDS_LIMIT = 1 << 34
"""The largest file of token ids that is read, in bytes."""


@dataclass(frozen=True)
class StoreOptions:
    """The store of a command: where it and its anchor are, the file of its key, and its event log."""

    path: str
    key: str
    anchor: str | None
    events: str | None

    def opened(self, *others: str | None) -> VectorStore:
        """Return the store. UsageError if two of its files, or of `others`, are one."""
        from tmmu.mnemosyne.keys import MasterKey
        from tmmu.mnemosyne.store import VectorStore, default_anchor
        from tmmu.runtime.events import EventLog

        shared.check_apart(self.path, self.anchor or default_anchor(self.path), self.key, self.events, *others)
        events = None if self.events is None else EventLog(self.events)
        return VectorStore(self.path, MasterKey.load(self.key), self.anchor, events)


store_options = gather_options(
    "given",
    StoreOptions,
    click.argument("path", metavar="STORE", type=shared.record),
    click.option("--key", required=True, type=click.Path(), metavar="FILE",
                 help="32 random bytes that only you may read: head -c 32 /dev/urandom, chmod 600."),
    click.option("--anchor", type=shared.record, metavar="FILE",
                 help="What was acknowledged; STORE.anchor if not given. Keep it where others cannot write."),
    click.option("--events", type=shared.record, metavar="FILE",
                 help="Append what is done to files, mappings and the anchor to this event log."),
)  # fmt: skip
"""STORE, --key, --anchor and --events, as `StoreOptions`."""


def _put_options(mode: str | None, compress: bool, block: int | None) -> PutOptions:
    """Return how vectors are put into a store."""
    from tmmu.mnemosyne.store_blocks import PutOptions

    return PutOptions(mode=mode, compress=compress, block=block)


put_options = gather_options(
    "options",
    _put_options,
    click.option("--mode", type=click.Choice(["lossless", "float", "int8"]),
                 help="Differences of bits, of float32, or rounded to 8 bits; the store's, or lossless."),
    click.option("--zstd/--no-zstd", "compress", default=False, help="Compress the differences (package zstandard)."),
    click.option("--block", type=click.IntRange(1), metavar="VECTORS",
                 help="The vectors of a record, decoded together; about 1 MiB if not given."),
)  # fmt: skip
"""How vectors are put into a store, as `PutOptions`."""


@click.group(cls=OnceGroup)
def mnemosyne() -> None:
    """Keep vectors in sealed files, and measure what differences make of them."""
    print_warnings("tmmu.mnemosyne")


@mnemosyne.command(
    epilog=format_examples(
        "tmmu mnemosyne put store v.npy --key key",
        "tmmu mnemosyne put store v.npy --key key --append",
    )
)
@store_options
@click.argument("vectors", type=existing)
@click.option("--append", is_flag=True, help="After the vectors that the store has.")
@click.option("--ack", is_flag=True, help="Print the number of vectors once they survive a loss of power, and no more.")
@click.option("--token-ids", "ids", type=existing, metavar="FILE", help="A token id for each vector (.npy).")
@put_options
def put(given: StoreOptions, vectors: str, append: bool, ack: bool, ids: str | None, options: PutOptions) -> int:
    """Put the VECTORS of a file of NumPy (.npy) into a store, all of them or none.

    \b
    Exit codes: 0 they are there, whatever happens; 4 they are not; 2 command line or key.
    """
    from tmmu.mnemosyne.npy_files import open_npy_vectors
    from tmmu.mnemosyne.regions import RegionStore

    if options.compress:
        require_package("zstandard", "--zstd", "mnemosyne")
    store = given.opened(vectors, ids)
    with RegionStore(events=store.events) as regions, open_npy_vectors(vectors, regions) as source:
        found = store.put(
            source, options, None if ids is None else _token_ids(ids), append=append,
            acknowledged=(lambda count: print_lines(str(count))) if ack else None,
        )  # fmt: skip
        added = source.count
        del source
    if not ack:
        print_lines(f"{given.path}: {count_noun(added, 'vector')} put, {found.there} there")
    return 0


@mnemosyne.command(
    epilog=format_examples(
        "tmmu mnemosyne get store --key key -o back.npy",
        "tmmu mnemosyne get store --key key --index 5 -o one.npy",
    )
)
@store_options
@click.option(
    "-o", "--output", required=True, type=shared.output, metavar="FILE", help="Write the vectors here (.npy)."
)
@click.option("--token-ids", "ids", type=shared.record, metavar="FILE", help="Write their token ids here (.npy).")
@click.option("--index", type=click.IntRange(0), metavar="N", help="Only vector N, of which 0 is the first.")
@click.option("--token-id", "token", type=click.IntRange(0), metavar="ID", help="Only the last vector with this id.")
def get(given: StoreOptions, output: str, ids: str | None, index: int | None, token: int | None) -> int:
    """Write the vectors of a store to a file of NumPy, once all of them were found authentic.

    With --index or --token-id only that vector is read and decrypted, and found authentic at its place.

    \b
    Exit codes: 0, 4 nothing was written, 2 command line or key.
    """
    from tmmu.mnemosyne.npy_files import open_npy_writer
    from tmmu.mnemosyne.store import decoded, token_ids

    if index is not None and token is not None:
        raise click.UsageError("--index and --token-id exclude each other")
    if ids is not None and (index is not None or token is not None):
        raise click.UsageError("--token-ids writes the ids of all vectors, not of one")
    store = given.opened(output, ids)
    if index is not None or token is not None:
        with store as opened:
            row = opened.get(index, token_id=token)
            layout = opened.layout
        with open_npy_writer(output) as written:
            written.write(0, row[None], layout.returned)
            written.end(1, layout.width, layout.returned)
        print_lines(f"wrote {output}")
        return 0
    with (
        open_npy_writer(output) as written,
        contextlib.nullcontext() if ids is None else open_npy_writer(ids) as of_ids,
    ):

        def consume(first: int, block: VectorBlock) -> None:
            written.write(first, decoded(block, given.path, first), block.layout.returned)
            if of_ids is not None:
                of_ids.write(first, token_ids(block, first)[:, None], "uint64")

        found, _ = store.read(consume)
        if found.layout is None:
            raise _nothing(given.path)
        written.end(found.there, found.layout.width, found.layout.returned)
        if of_ids is not None:
            of_ids.end(found.there, None, "uint64")
    print_lines(f"wrote {output}", *([] if ids is None else [f"wrote {ids}"]))
    return 0


@mnemosyne.command(
    epilog=format_examples(
        "tmmu mnemosyne delete store --key key --index 7",
        "tmmu mnemosyne delete store --key key --range 10:20",
    )
)
@store_options
@click.option("--index", type=click.IntRange(0), metavar="N", help="Vector N, of which 0 is the first.")
@click.option("--token-id", "token", type=click.IntRange(0), metavar="ID", help="The last vector with this id.")
@click.option("--range", "span", metavar="FIRST:END", help="The vectors from FIRST on and before END that are there.")
def delete(given: StoreOptions, index: int | None, token: int | None, span: str | None) -> int:
    """Delete vectors from a store: no command returns them, and the others keep their numbers.

    Their bytes stay in the file, sealed, until `compact`.

    \b
    Exit codes: 0 they are deleted, whatever happens; 4 they are not; 2 command line or key.
    """
    if sum(each is not None for each in (index, token, span)) != 1:
        raise click.UsageError("give one of --index, --token-id and --range")
    wanted = index if span is None else _range(span)
    with _existing(given) as opened:
        count = opened.delete(wanted, token_id=token)
        left = len(opened)
    print_lines(f"{given.path}: {count_noun(count, 'vector')} deleted, {left} there")
    return 0


@mnemosyne.command(
    epilog=format_examples(
        "tmmu mnemosyne compact store --key key",
    )
)
@store_options
def compact(given: StoreOptions) -> int:
    """Write a store anew without the vectors that were deleted; it needs room for a second store meanwhile.

    After an interruption the store opens as before or compacted. Snapshots and copies keep what they have.

    \b
    Exit codes: 0, 4 the store is as it was or says what it is, 2 command line or key.
    """
    store = _existing(given)
    before = os.path.getsize(given.path)
    found = store.compact()
    fewer = max(0, before - os.path.getsize(given.path))
    print_lines(f"{given.path}: {count_noun(found.there, 'vector')} there, {count_noun(fewer, 'byte')} fewer")
    return 0


@mnemosyne.command(
    epilog=format_examples(
        "tmmu mnemosyne snapshot store before --key key",
    )
)
@store_options
@click.argument("target", metavar="TARGET", type=shared.record)
@click.option(
    "--target-anchor",
    "of_target",
    type=shared.record,
    metavar="FILE",
    help="The anchor of the snapshot; TARGET.anchor if not given.",
)
def snapshot(given: StoreOptions, target: str, of_target: str | None) -> int:
    """Write the vectors of a store, as they are now, to a new store under the same key.

    It keeps them whatever becomes of STORE. Other processes may write STORE meanwhile.

    \b
    Exit codes: 0, 4 there is no snapshot, 2 command line or key.
    """
    from tmmu.mnemosyne.store import default_anchor

    store = _existing(given, target, of_target or default_anchor(target))
    found = store.snapshot(target, of_target)
    print_lines(f"{target}: {count_noun(found.there, 'vector')} there")
    return 0


@mnemosyne.command(
    epilog=format_examples(
        "tmmu mnemosyne verify store --key key",
    )
)
@store_options
def verify(given: StoreOptions) -> int:
    """Open every record of a store, decode it, and compare the store with its anchor.

    What follows after what was acknowledged may be torn, as after a crash: a warning says so.

    \b
    Exit codes: 0 it holds everything that was acknowledged; 1 it does not; 4 no store, or one that cannot be read;
    2 command line or key.
    """
    from tmmu.mnemosyne.store import decoded

    def decodes(first: int, block: VectorBlock) -> None:
        decoded(block, given.path, first)

    store = given.opened()
    try:
        found, state = store.read(decodes, is_checked=True)
    except TmmuError as error:
        if error.code_id not in TAMPERED:
            raise
        print_lines(f"error: {error}", err=True)
        return 1
    if found.layout is None and state.anchored is None:
        raise _nothing(given.path)
    print_lines(f"AUTHENTIC {given.path}", *(f"  {line}" for line in _lines(found, state)))
    return 0


@mnemosyne.command(
    epilog=format_examples(
        "tmmu mnemosyne rekey store --key key --new-key next",
    )
)
@store_options
@click.option("--new-key", "new", required=True, type=click.Path(), metavar="FILE", help="The key from then on.")
def rekey(given: StoreOptions, new: str) -> int:
    """Seal a store under another key; the one before opens it no more.

    After an interruption the store opens under one of the two; the error under the other says which. The same command
    then goes on.

    \b
    Exit codes: 0, 4 the store is as it was or says what it is, 2 command line or key.
    """
    from tmmu.mnemosyne.keys import MasterKey

    count = given.opened(new).rotate(MasterKey.load(new))
    print_lines(f"{given.path}: {count_noun(count, 'record')} under the key {new}")
    return 0


@mnemosyne.command(
    epilog=format_examples(
        "tmmu mnemosyne stat store --key key",
        "tmmu mnemosyne stat store --key key --format json",
    )
)
@store_options
@shared.style
def stat(given: StoreOptions, style: str) -> int:
    """Print the contents of a store: vectors, records, bytes, and the last acknowledged write.

    \b
    Exit codes: 0, 4 no store that can be read, 2 command line or key.
    """
    found, state = given.opened().read()
    if style == "json":
        print_text(format_json(_facts(found, state)))
    else:
        print_lines(given.path, *(f"  {line}" for line in _lines(found, state)))
    return 0


def _existing(given: StoreOptions, *others: str) -> VectorStore:
    """Return the store. Raises TMMU_ALLOCATION_FAILURE if its file is missing, unless its anchor says that one was."""
    from tmmu.mnemosyne.sealed_log import log_failure

    store = given.opened(*others)
    if not os.path.lexists(given.path) and not os.path.lexists(store.anchor):
        raise log_failure(given.path, "cannot be opened (No such file or directory)", "name the store that was meant")
    return store


def _range(text: str) -> slice:
    """Return the range FIRST:END. UsageError for any other text."""
    first, _, end = text.partition(":")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise click.UsageError(f"--range: expected FIRST:END with FIRST below END, got {text!r}")
    return slice(int(first), int(end))


def _token_ids(path: str) -> NDArray[np.uint64]:
    import numpy as np

    from tmmu.core.npy import NotAnArray, load_array
    from tmmu.mnemosyne.failures import InvalidVectors

    try:
        found = load_array(path, TOKEN_IDS_LIMIT)
        what = "it has no token ids"
        if found.ndim == 1 and found.dtype.kind in "iu" and not (found.size and found.min() < 0):
            return np.asarray(found, np.uint64)
    except (OSError, NotAnArray) as error:
        what = f"it has no token ids ({getattr(error, 'strerror', None) or error})"
    fix = "save one dimension of whole numbers with numpy.save"
    raise InvalidVectors(what, "token ids", fix).in_file(path)


def _nothing(path: str) -> TmmuError:
    from tmmu.mnemosyne.failures import InvalidLog

    return InvalidLog("nothing was put into it", path, "record 0")


def _facts(found: StoreContents, state: LogState) -> dict[str, Any]:
    layout = found.layout
    return {
        "vectors": found.there,
        "numbers": found.vectors,
        "deleted": found.deleted,
        "deleted_in_file": found.marked,
        "width": None if layout is None else layout.width,
        "type": None if layout is None else layout.kind,
        "mode": None if layout is None else layout.mode,
        "puts": found.puts,
        "records": found.blocks,
        "compressed_records": found.compressed,
        "records_with_token_ids": found.with_ids,
        "bytes": found.raw,
        "stored_bytes": found.content,
        "unfinished_records": found.unfinished,
        "index_records": state.records - found.blocks - found.unfinished,
        "segments": state.segments,
        "has_trailer": state.is_closed,
        "torn_bytes": state.dropped,
        "acknowledged_records": state.anchored,
    }


def _lines(found: StoreContents, state: LogState) -> Iterator[str]:
    if found.layout is None:
        yield "no vectors"
    else:
        ratio = f", {100 * found.content / found.raw:.1f}%" if found.raw else ""
        yield f"{count_noun(found.there, 'vector')} of {found.layout}"
        if found.deleted:
            yield f"{found.deleted} more deleted, {found.marked} of them still in the file"
        yield f"{found.raw} bytes, stored as {found.content}{ratio}"
        some = (("compressed", found.compressed), ("with token ids", found.with_ids))
        kinds = "".join(f", {count} {what}" for what, count in some if count)
        index = state.records - found.blocks - found.unfinished
        what = "of the index and of deletions" if found.deleted else "of the index"
        kinds += f", {count_noun(index, 'record')} {what}" if index else ""
        yield f"{count_noun(found.blocks, 'record')} of {count_noun(found.puts, 'put')}{kinds}"
    if found.unfinished:
        yield f"{count_noun(found.unfinished, 'record')} of a put that did not come to its end, not read"
    anchored = "no anchor" if state.anchored is None else f"{state.anchored} acknowledged by the anchor"
    end = "a trailer" if state.is_closed else f"no trailer, {count_noun(state.dropped, 'torn byte')}"
    yield f"{count_noun(state.segments, 'segment')}, {end}, {anchored}"


for command in mnemosyne_figures.COMMANDS:
    mnemosyne.add_command(command)
