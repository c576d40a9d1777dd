"""Whatever is cut off, flipped or lost with the power: a sealed log has what was acknowledged, and nothing else.

spec: MN5.8, MN5.9, MN5.11 to MN5.13, MN5.16
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import sealed_logs
from tests.support.power import Disk, Remains, after_the_loss
from tests.support.sealed_logs import DATA, expected, key, read, second_reader, write
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.sealed_log import Record, SealedLog, SealedReader


def log_of_three_segments(path: Path, anchor: Path) -> bytes:
    """Five records, the second segment without a trailer."""
    write(path, DATA[:2], anchor)
    write(path, DATA[2:4], anchor, is_closed=False)
    write(path, DATA[4:], anchor)
    return path.read_bytes()


def test_at_every_length_the_records_before_it_are_read_and_a_writer_goes_on(tmp_path: Path) -> None:
    """With the anchor each length with fewer records is refused. spec: MN5.9, MN5.11, MN5.13"""
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    log = log_of_three_segments(path, anchor)
    stops = [part.stop for part in second_reader(log) if part.record]
    closed = {part.stop for part in second_reader(log) if part.kind == "trailer"}
    for length in range(len(log)):
        path.write_bytes(log[:length])
        records = sum(stop <= length for stop in stops)
        assert read(path) == expected(DATA)[:records]
        if records < len(DATA):
            with pytest.raises(TmmuError) as refused:
                SealedReader.open(path, key(), anchor)
            assert refused.value.code_id == ("ROLLED_BACK" if length in closed else "LOG_TRUNCATED")
        else:
            assert read(path, anchor) == expected(DATA)
        if length % 7 == 0:
            write(path, DATA[records:])
            assert [part.record for part in second_reader(path.read_bytes()) if part.record] == expected(DATA)


def refused_or_read(path: Path, anchor: Path | None = None) -> str | list[Record]:
    try:
        return read(path, anchor)
    except TmmuError as error:
        return error.code_id


def test_each_flipped_bit_of_each_byte_is_refused_and_none_gives_other_data(tmp_path: Path) -> None:
    """With the anchor all records or a refusal: a last trailer that is damaged is as one that was torn.

    spec: MN5.8, MN5.9
    """
    path, anchor = tmp_path / "log", tmp_path / "anchor"
    log = log_of_three_segments(path, anchor)
    last = second_reader(log)[-1]
    assert last.kind == "trailer"
    for at in range(len(log)):
        broken = bytearray(log)
        broken[at] ^= 1 << at % 8
        path.write_bytes(broken)
        answer = expected(DATA) if at >= last.start else "INVALID_LOG" if at < 10 else "NOT_AUTHENTIC"
        assert refused_or_read(path, anchor) == answer


@given(st.data())
def test_bytes_of_an_attacker_never_become_data(data: st.DataObject) -> None:
    """Parts of two logs under one key, in any order, cut anywhere: a prefix of one, or a refusal. spec: MN5.8"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        pieces: list[bytes] = []
        for records in (DATA[:3], [b"other", b"one"]):
            path.unlink(missing_ok=True)
            write(path, records)
            log = path.read_bytes()
            pieces += [log[part.start : part.stop] for part in second_reader(log)]
        chosen = data.draw(st.lists(st.sampled_from(pieces), max_size=7))
        whole = b"".join(chosen)
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
        found = refused_or_read(path)
        if isinstance(found, str):
            assert found in ("NOT_AUTHENTIC", "INVALID_LOG")
        else:
            prefixes = [DATA[:n] for n in range(4)] + [[b"other", b"one"][:n] for n in range(3)]
            assert [record.data for record in found] in prefixes


SIZES = st.sampled_from([0, 1, 40, 511, 600, 1500])


@settings(deadline=None)
@given(st.lists(st.lists(SIZES, max_size=4), min_size=1, max_size=3), st.integers(0, 1 << 32), st.booleans())
def test_power_is_lost_at_every_point_and_what_was_acknowledged_is_there(
    openings: list[list[int]], seed: int, has_anchor: bool
) -> None:
    """Each opening ends, or is killed; the next goes on from what the kernel has, or from what a loss has left.

    What was committed with one sync is there as well. spec: MN5.11, MN5.12, MN5.16, MN10.9, MN10.10
    """
    choose = random.Random(seed).randrange
    appended: list[bytes] = []
    state = Remains(None, None, 0)
    with tempfile.TemporaryDirectory() as folder, sealed_logs.sealings() as pairs:
        path, anchor = Path(folder).resolve() / "log", Path(folder).resolve() / "anchor"
        beside = anchor if has_anchor else None
        disk = Disk(path.parent)
        for sizes in openings:
            begun = len(disk.done)
            with disk.recording():
                log = SealedLog.open(path, key(), beside)
                del appended[log.records :]
                for size in sizes:
                    appended.append(bytes([choose(256)]) * size)
                    log.append(100 + log.records, appended[-1])
                    if choose(3):
                        disk.acknowledged(log.commit() if choose(2) else log.sync())
                if choose(2):
                    log.close()
                    disk.acknowledged(log.records)
                log.abandon()
            kept = [(path, path.read_bytes()), (anchor, anchor.read_bytes() if anchor.exists() else None)]
            remains = [after_the_loss(state, disk.done[:point], choose) for point in range(begun, len(disk.done) + 1)]
            for left in remains:
                put((path, left.log), (anchor, left.anchor))
                if left.log is None:
                    assert left.acknowledged == 0
                    continue
                found = read(path, beside)
                assert found == expected(appended)[: len(found)]
                assert len(found) >= left.acknowledged
            if choose(2):
                put(*kept)
            else:
                state, disk = remains[choose(len(remains))], Disk(path.parent)
                put((path, state.log), (anchor, state.anchor))
    assert len(set(pairs)) == len(pairs)


def put(*files: tuple[Path, bytes | None]) -> None:
    for path, content in files:
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)


def test_a_loss_may_leave_holes_names_and_lengths() -> None:
    """The disk of these tests can lose what a real one may. spec: MN5.16"""
    done = [("write", 0, b"a" * 1000), ("sync", 0, b""), ("write", 1000, b"b" * 1000), ("rename", 0, b"anchor")]
    found = [after_the_loss(Remains(None, None, 0), done, random.Random(seed).randrange) for seed in range(200)]
    assert {each.log is None for each in found} == {each.anchor is None for each in found} == {True, False}
    logs = {each.log for each in found if each.log is not None}
    assert all(log[:1000] == b"a" * 1000 for log in logs)
    assert {len(log) for log in logs} > {1000, 2000}
    assert any(b"\0b" in log for log in logs)
    kept = after_the_loss(Remains(None, None, 0), [*done, ("sync", 0, b""), ("names", 0, b"")], lambda _: 0)
    assert (kept.log, kept.anchor) == (b"a" * 1000 + b"b" * 1000, b"anchor")
