"""The sealed log: what it writes, what each attack on it is answered with, and what an anchor adds.

spec: MN5.4 to MN5.17
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from tests.support import sealed_logs
from tests.support.sealed_logs import DATA, FRAME, HEADER, Part, expected, key, read, second_reader, write
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import anchors, sealed_format
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.sealed_log import SealedLog, SealedReader


def test_what_is_written_is_what_the_page_describes(tmp_path: Path) -> None:
    """Three openings, the second without a trailer; an opening that appends nothing leaves no byte.

    spec: MN5.4, MN5.5, MN5.7
    """
    path = tmp_path / "log"
    write(path, DATA[:2])
    write(path, DATA[2:4], is_closed=False)
    write(path, [])
    write(path, DATA[4:])
    parts = second_reader(path.read_bytes())
    assert [part.kind[0] for part in parts] == list("hrrthrrhrt")
    assert [part.record for part in parts if part.record] == expected(DATA) == read(path)
    with SealedReader.open(path, key()) as reader:
        assert reader.state == (5, 3, True, 0, None)
        assert reader[-1] == reader[4]
        with pytest.raises(IndexError):
            reader[5]


def damaged(what: str, parts: list[Part], log: bytes, other: bytes) -> bytes:
    """The log after an attack: five records in two segments; `other` is another file under the same key."""
    piece = [log[part.start : part.stop] for part in parts]
    assert [part.kind[0] for part in parts] == list("hrrrthrrt")
    swapped = [*piece]
    if what == "flipped":
        swapped[2] = piece[2][:-1] + bytes([piece[2][-1] ^ 1])
    elif what == "replayed":
        swapped[3] = piece[2]
    elif what == "repeated at the end":
        swapped = [*piece[:8], piece[7]]
    elif what == "reordered":
        swapped[1], swapped[2] = piece[2], piece[1]
    elif what == "taken out":
        del swapped[2]
    elif what == "the last cut out":
        del swapped[3]
    elif what == "moved from a file":
        swapped[2] = other[HEADER : HEADER + parts[2].stop - parts[2].start]
    elif what == "moved from a segment":
        swapped[6] = piece[2]
    elif what == "a segment taken out":
        swapped = piece[5:]
    elif what == "a segment repeated":
        swapped = [*piece, *piece[5:]]
    elif what == "behind the trailer":
        swapped = [*piece, piece[7]]
    elif what == "token changed":
        frame = struct.pack(">cI4sQQ", *struct.unpack(">cI4sQQ", piece[2][: FRAME - 4])[:4], 7)
        swapped[2] = frame + struct.pack(">I", crc32(frame)) + piece[2][FRAME:]
    else:
        assert what == "salt changed"
        fields = piece[5][:12] + bytes(32) + piece[5][44:104]
        swapped[5] = fields + struct.pack(">I", crc32(fields))
    return b"".join(swapped)


ATTACKS = {
    "flipped": ("record 1", "changed"),
    "replayed": ("record 2", "expected record 2, got record 1: replayed"),
    "repeated at the end": ("record 5", "expected record 5, got record 4: replayed"),
    "reordered": ("record 0", "expected record 0, got record 1: reordered"),
    "taken out": ("record 1", "expected record 1, got record 2: reordered, or a record was removed"),
    "the last cut out": ("record 2", "expected 3 records, got 2: some were removed"),
    "moved from a file": ("record 1", "belongs to another session: it was moved"),
    "moved from a segment": ("record 3", "belongs to another session: it was moved"),
    "a segment taken out": ("record 0", "moved or repeated, or another was removed"),
    "a segment repeated": ("record 5", "moved or repeated, or another was removed"),
    "behind the trailer": ("record 5", "after the end of its segment"),
    "token changed": ("record 1", "changed"),
    "salt changed": ("record 3", "its header was changed"),
}


@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_refused_with_its_own_message_and_nothing_is_changed(what: str, tmp_path: Path) -> None:
    """Without an anchor, for reading and for writing. spec: MN5.8, MN5.10"""
    path, other = tmp_path / "log", tmp_path / "other"
    write(path, DATA[:3])
    write(path, DATA[3:])
    write(other, [b"six"])
    log = path.read_bytes()
    broken = damaged(what, second_reader(log), log, other.read_bytes())
    assert broken != log
    path.write_bytes(broken)
    place, message = ATTACKS[what]
    for opening in (SealedReader.open, SealedLog.open):
        with pytest.raises(TmmuError, match=message) as refused:
            opening(path, key())
        error = refused.value
        assert (error.code_id, error.file) == ("NOT_AUTHENTIC", str(path))
        assert error.place is not None
        assert error.place.startswith(f"{place} at byte")
        assert path.read_bytes() == broken


def test_another_key_is_refused_as_such(tmp_path: Path) -> None:
    """spec: MN5.8"""
    write(tmp_path / "log", DATA)
    with pytest.raises(TmmuError, match="sealed under another key") as refused:
        SealedReader.open(tmp_path / "log", MasterKey(bytes(32)))
    assert refused.value.code_id == "WRONG_KEY"


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        (b"%PDF-1.7 and so on", "INVALID_LOG", "byte 0"),
        (b"%", "INVALID_LOG", "byte 0"),
        (b"TMMU-LOG\x00\x02" + bytes(500), "INVALID_LOG", "byte 8"),
        (bytes(500), "NOT_AUTHENTIC", "header at byte 0"),
        (b"TMMU-LOG\x00\x01" + bytes(500), "NOT_AUTHENTIC", "header at byte 0"),
    ],
)
def test_what_is_no_log_is_refused_and_left_as_it_is(content: bytes, code: str, place: str, tmp_path: Path) -> None:
    """spec: MN5.10"""
    path = tmp_path / "log"
    path.write_bytes(content)
    for opening in (SealedReader.open, SealedLog.open):
        with pytest.raises(TmmuError) as refused:
            opening(path, key())
        assert (refused.value.code_id, refused.value.place) == (code, place)
    assert path.read_bytes() == content


@pytest.mark.parametrize("opening", [SealedReader.open, SealedLog.open])
def test_what_is_no_file_is_refused(opening: Callable[..., object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "absent/log", "pipe"):
        with pytest.raises(TmmuError) as refused:
            opening(tmp_path / name, key())
        assert refused.value.code_id == "TMMU_ALLOCATION_FAILURE"
    with pytest.raises(TmmuError, match="cannot be opened"):
        SealedReader.open(tmp_path / "absent", key())
    assert not (tmp_path / "absent").exists()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """And a reader is not. spec: MN5.17"""
    with SealedLog.open(tmp_path / "log", key()) as log:
        log.append(1, b"data")
        with pytest.raises(TmmuError, match="another process"):
            SealedLog.open(tmp_path / "log", key())
        assert read(tmp_path / "log")[0].data == b"data"
    SealedLog.open(tmp_path / "log", key()).close()


def test_no_pair_of_key_and_vector_comes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Across a crash, a backup that is put back, and a second writer on a copy, all with one prefix. spec: MN5.4"""
    path, copy = tmp_path / "log", tmp_path / "copy"
    random = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: bytes(4) if count == 4 else random(count))
    with sealed_logs.sealings() as pairs:
        write(path, DATA)
        shutil.copy(path, copy)
        write(path, DATA, is_closed=False)
        write(path, DATA)
        write(copy, DATA)
        shutil.copy(copy, path)
        write(path, DATA)
    assert len(pairs) == 5 * (len(DATA) + 1) + 4
    assert len(set(pairs)) == len(pairs)
    assert len({vector for _, vector in pairs}) < len(pairs)


@pytest.mark.parametrize("broken", ["pwritev", "fsync"])
def test_after_a_failed_write_the_key_seals_nothing_more(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was acknowledged is there, and a new opening goes on under a new key. spec: MN5.6, MN5.16"""
    path = tmp_path / "log"
    call = getattr(os, broken)

    def fails(descriptor: int, *rest: object) -> int:
        if broken == "pwritev":
            call(descriptor, [b"".join(rest[0])[:40]], rest[1])  # type: ignore[call-overload]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with sealed_logs.sealings() as pairs:
        log = SealedLog.open(path, key(), tmp_path / "anchor")
        log.append(100, DATA[0])
        assert log.sync() == 1
        if broken == "fsync":
            log.append(101, b"lost")
        with monkeypatch.context() as patch:
            patch.setattr(os, broken, fails)
            with pytest.raises(TmmuError, match="No space left") as refused:
                log.append(101, b"lost") if broken == "pwritev" else log.sync()
        assert refused.value.code_id == "TMMU_ALLOCATION_FAILURE"
        sealed = len(pairs)
        for again in (lambda: log.append(101, b"again"), log.sync):
            with pytest.raises(TmmuError, match="the log is closed"):
                again()
        log.close()
        assert len(pairs) == sealed
        found = read(path, tmp_path / "anchor")
        assert found[0] == expected(DATA)[0]
        write(path, [b"after"], tmp_path / "anchor")
        assert [record.data for record in read(path, tmp_path / "anchor")[len(found) :]] == [b"after"]
    assert len(set(pairs)) == len(pairs)


def test_what_is_no_record_is_refused_and_the_log_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_format, "LARGEST", 8)
    with SealedLog.open(tmp_path / "log", key()) as log:
        for token, data in ((-1, b""), (1 << 64, b""), (0, b"too large")):
            with pytest.raises(ValueError, match="expected a token of 64 bits"):
                log.append(token, data)
        assert log.append((1 << 64) - 1, b"as large") == 0
    assert read(tmp_path / "log") == [(0, (1 << 64) - 1, b"as large")]


def test_a_log_is_synced_before_its_anchor_and_both_before_the_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header is synced before its records, records before their trailer, and names with their folder.

    spec: MN5.11, MN5.12
    """
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    done: list[str] = []
    sync, write_at, rename = os.fsync, os.pwritev, os.replace

    def synced(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        done.append("sync " + ("temporary" if name.startswith("#") else "folder" if name == tmp_path.name else name))
        sync(descriptor)

    def written(descriptor: int, parts: list[memoryview], offset: int) -> int:
        done.append(f"write {'header' if parts[0][:1] == b'T' else chr(parts[0][0])}")
        return write_at(descriptor, parts, offset)

    def renamed(source: str, target: str) -> None:
        done.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "pwritev", written)
    monkeypatch.setattr(os, "replace", renamed)
    with SealedLog.open(path, key(), anchor) as log:
        assert log.sync() == 0
        log.append(0, b"a")
        log.append(0, b"b")
        assert log.sync() == log.sync() == 2
        log.append(0, b"c")
    acknowledged = ["sync log", "sync temporary", "rename", "sync folder"]
    assert done == [
        "sync log", "sync folder", "write header", "sync log", "write R", "write R", *acknowledged, "write R",
        *acknowledged, "write E", "sync log",
    ]  # fmt: skip
    done.clear()
    (tmp_path / "log").write_bytes(path.read_bytes()[:-1])
    SealedLog.open(path, key(), anchor).close()
    assert done == ["sync log", "sync folder", "sync anchor"]
    done.clear()
    (tmp_path / "kept").mkdir()
    anchor.rename(tmp_path / "kept" / "anchor")  # as a writer may have done that was killed then
    SealedLog.open(path, key(), tmp_path / "kept" / "anchor").close()
    assert done == ["sync log", "sync folder", "sync anchor", "sync kept"]
    assert second_reader(path.read_bytes())[-1].kind == "record"


def test_a_log_that_goes_on_after_its_trailer_has_another_segment(tmp_path: Path) -> None:
    """Which follows the one before, although one process wrote both. spec: MN5.7"""
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    with SealedLog.open(path, key(), anchor) as log:
        for each in DATA[:3]:
            log.append(100 + log.records, each)
            log.end()
    assert [part.kind[0] for part in second_reader(path.read_bytes())] == list("hrthrthrt")
    assert read(path, anchor) == expected(DATA[:3])


def test_an_acknowledgement_that_only_the_anchor_misses_is_made_up_for(tmp_path: Path) -> None:
    """Records that were synced before a crash, or before there was an anchor. spec: MN5.12, MN5.15"""
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    write(path, DATA[:2], anchor)
    old = anchor.read_bytes()
    write(path, DATA[2:4], anchor)
    for before, stated in ((old, 2), (b"", None)):
        anchor.write_bytes(before) if before else anchor.unlink()
        with SealedLog.open(path, key(), anchor) as log:
            assert log.found.anchored == stated
            assert log.sync() == 4
        with SealedReader.open(path, key(), anchor) as reader:
            assert reader.state.anchored == 4


def test_an_older_log_is_refused_where_the_anchor_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Cut between records, an older copy, none at all; without the anchor each is read, with a warning.

    spec: MN5.9, MN5.13, MN5.15
    """
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    write(path, DATA[:3], anchor)
    old = path.read_bytes()
    write(path, DATA[3:], anchor)
    new = path.read_bytes()
    parts = second_reader(new)
    cut_between, cut_within = new[: parts[6].stop], new[: parts[7].stop - 1]
    for content, records in ((old, 3), (cut_between, 4), (cut_within, 4), (b"", 0), (None, 0)):
        path.write_bytes(content) if content is not None else path.unlink()
        code, message = ("ROLLED_BACK", "rolled back") if content in (old, None) else ("LOG_TRUNCATED", "is cut off")
        for opening in (SealedReader.open, SealedLog.open):
            with pytest.raises(TmmuError, match=message) as refused:
                opening(path, key(), anchor)
            error = refused.value
            assert (error.code_id, error.diagnostics) == (code, {"expected": 5, "found": records})
            assert path.exists() == (content is not None)
        if content is not None:
            caplog.clear()
            with caplog.at_level(logging.WARNING, "tmmu.mnemosyne"):
                assert read(path) == expected(DATA)[:records]
            assert ("no anchor" in caplog.text) == (records > 0)
            assert ("torn" in caplog.text) == (content == cut_within)
    path.write_bytes(new)
    caplog.clear()
    assert read(path, anchor) == expected(DATA)
    assert not caplog.text


def test_a_log_that_went_on_from_an_older_copy_is_refused(tmp_path: Path) -> None:
    """It has as many records as were acknowledged, and more, and all are authentic. spec: MN5.13"""
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    write(path, DATA[:3])
    old = path.read_bytes()
    write(path, DATA[3:], anchor)
    path.write_bytes(old)
    write(path, [*DATA[3:], b"more"])
    with pytest.raises(TmmuError, match="not the one that was acknowledged") as refused:
        read(path, anchor)
    assert refused.value.code_id == "ROLLED_BACK"


def test_a_segment_that_went_on_from_another_is_refused(tmp_path: Path) -> None:
    """It is authentic, and its first record is the next one; only what was before it was another. spec: MN5.7, MN5.8"""
    path, fork = tmp_path / "log", tmp_path / "fork"
    write(path, DATA[:2])
    shutil.copy(path, fork)
    write(path, DATA[2:4])
    for data in ([b"other", b"other"], DATA[4:]):
        write(fork, data)
    last = second_reader(fork.read_bytes())[-3]
    assert last.kind == "header"
    path.write_bytes(path.read_bytes() + fork.read_bytes()[last.start :])
    with pytest.raises(TmmuError, match="a segment is not where it was written") as refused:
        read(path)
    assert refused.value.code_id == "NOT_AUTHENTIC"


def test_damage_before_what_was_acknowledged_is_refused_although_no_trailer_follows(tmp_path: Path) -> None:
    """Without the anchor it looks like what a crash leaves, and the records before it are read. spec: MN5.8, MN5.9"""
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    write(path, DATA, anchor, is_closed=False)
    log = path.read_bytes()
    at = second_reader(log)[3].stop - 1
    path.write_bytes(log[:at] + bytes([log[at] ^ 1]) + log[at + 1 :])
    with pytest.raises(TmmuError, match="changed; 5 records were acknowledged") as refused:
        read(path, anchor)
    assert (refused.value.code_id, refused.value.place) == (
        "NOT_AUTHENTIC",
        f"record 2 at byte {second_reader(log)[3].start}",
    )
    assert read(path) == expected(DATA)[:2]


@pytest.mark.parametrize("what", ["byte", "key", "log", "short", "foreign", "version", "folder"])
def test_an_anchor_that_is_wrong_is_refused(what: str, tmp_path: Path) -> None:
    """spec: MN5.10, MN5.14"""
    path, anchor, other = tmp_path / "log", tmp_path / "anchor", tmp_path / "other"
    write(path, DATA, anchor)
    write(tmp_path / "second", DATA, other)
    good = anchor.read_bytes()
    code, message = "NOT_AUTHENTIC", "the anchor was changed, or made under another key"
    if what == "byte":
        anchor.write_bytes(good[:-40] + bytes([good[-40] ^ 1]) + good[-39:])
    elif what == "key":
        anchors.store(str(anchor), anchors.encode_statement(MasterKey(bytes(32)), anchors.Anchor(*[bytes(32)] * 2, 5)))
    elif what == "log":
        anchor.write_bytes(other.read_bytes())
        message = "the anchor belongs to another log"
    elif what == "short":
        anchor.write_bytes(good[:-1])
        code, message = "NOT_AUTHENTIC", "not an anchor"
    elif what == "foreign":
        anchor.write_bytes(b"?" + good[1:])
        code, message = "NOT_AUTHENTIC", "not an anchor"
    elif what == "version":
        anchor.write_bytes(good[:9] + b"\x02" + good[10:])
        code, message = "INVALID_LOG", "expected version 1 of an anchor, got 2"
    else:
        anchor.unlink()
        anchor.mkdir()
        code, message = "INVALID_LOG", "cannot be read"
    for opening in (SealedReader.open, SealedLog.open):
        with pytest.raises(TmmuError, match=message) as refused:
            opening(path, key(), anchor)
        assert refused.value.code_id == code


def test_a_record_that_changes_after_it_was_found_good_is_refused(tmp_path: Path) -> None:
    """spec: MN5.8"""
    path = tmp_path / "log"
    write(path, DATA)
    at = second_reader(path.read_bytes())[3].stop - 1
    with SealedReader.open(path, key()) as reader:
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(b"?")
        assert reader[1] == expected(DATA)[1]
        with pytest.raises(TmmuError, match="after the log was opened") as refused:
            reader[2]
    assert (refused.value.code_id, refused.value.place) == ("NOT_AUTHENTIC", "record 2")


def test_a_writer_that_fails_leaves_what_was_acknowledged_alone(tmp_path: Path) -> None:
    """Without a trailer, and nothing at all of a log that was new. spec: MN5.7, MN5.18"""
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    log = SealedLog.open(path, key(), anchor)
    log.append(100, DATA[0])
    with pytest.raises(KeyError), log:
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    log = SealedLog.open(path, key(), anchor)
    log.append(100, DATA[0])
    log.sync()
    log.append(101, DATA[1])
    with pytest.raises(KeyError), log:
        raise KeyError
    assert [part.kind for part in second_reader(path.read_bytes())] == ["header", "record"]
    write(path, DATA[1:], anchor)
    whole = path.read_bytes()
    log = SealedLog.open(path, key(), anchor)
    log.append(9, b"more")
    log.withdraw()
    assert path.read_bytes() == whole
    assert read(path, anchor) == expected(DATA)


def test_nothing_is_withdrawn_that_an_anchor_may_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder cannot be synced once the anchor was renamed: the records stay. spec: MN5.13, MN5.18"""
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    rename, sync = os.replace, os.fsync
    renamed: list[str] = []

    def fails_after_the_rename(descriptor: int) -> None:
        if renamed:
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda source, target: (rename(source, target), renamed.append(target))[0])
        patch.setattr(os, "fsync", fails_after_the_rename)
        with pytest.raises(TmmuError, match="cannot be written"), SealedLog.open(path, key(), anchor) as log:
            log.append(100, DATA[0])
    assert read(path, anchor) == expected(DATA)[:1]


def test_records_of_a_writer_that_did_not_end_are_discarded(tmp_path: Path) -> None:
    """None that was acknowledged, nor any once there are new ones. spec: MN5.16"""
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    write(path, DATA[:2], anchor)
    with SealedLog.open(path, key()) as log:
        log.append(102, DATA[2])
        log.append(103, DATA[3])
    with SealedLog.open(path, key(), anchor) as log:
        for count in (1, 5):
            with pytest.raises(ValueError, match="between 2 and 4"):
                log.discard(count)
        log.discard(3)
        assert log.records == 3
        log.append(103, b"new")
        with pytest.raises(ValueError, match="and no new ones"):
            log.discard(3)
    assert read(path, anchor) == [*expected(DATA)[:3], (3, 103, b"new")]
    assert [part.kind[0] for part in second_reader(path.read_bytes())] == list("hrrthrhrt")


def test_an_interrupted_append_closes_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: MN5.6"""
    log = SealedLog.open(tmp_path / "log", key())

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append(0, b"")
    with pytest.raises(TmmuError, match="closed"):
        log.append(0, b"")
