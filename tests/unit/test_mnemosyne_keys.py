"""Keys come from files of their owner alone, and appear nowhere else. spec: MN5.1 to MN5.4"""

from __future__ import annotations

import base64
import logging
import os
import pickle
import sys
import traceback
from pathlib import Path

import pytest

from tests.support import sealed_logs
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.failures import InvalidKey
from tmmu.mnemosyne.keys import MasterKey


def test_a_new_key_is_its_owner_s_and_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the mask of new files is. spec: MN5.1, MN5.2"""
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.path.isdir(f"/proc/self/fd/{descriptor}")))
    before = os.umask(0)
    try:
        made = [MasterKey.create(tmp_path / name) for name in ("a", "b")]
    finally:
        os.umask(before)
    assert synced == [False, True] * 2
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "b")} == {0o600}
    loaded = [MasterKey.load(tmp_path / name) for name in ("a", "b")]
    codes = [each.code(b"salt", b"message") for each in (*made, *loaded)]
    assert codes[:2] == codes[2:]
    assert codes[0] != codes[1]


def test_a_file_that_is_no_key_is_refused_and_never_quoted(tmp_path: Path) -> None:
    """spec: MN5.1, MN5.2, MN5.3"""
    path = tmp_path / "key"
    path.write_bytes(sealed_logs.SECRET)
    os.chmod(path, 0o600)
    MasterKey.load(path)
    with pytest.raises(InvalidKey, match="cannot be created"):
        MasterKey.create(path)
    for mode in (0o604, 0o620, 0o640, 0o601):
        os.chmod(path, mode)
        with pytest.raises(InvalidKey, match=rf"other users have access to it \(mode {mode:04o}\)"):
            MasterKey.load(path)
    os.chmod(path, 0o600)
    for wrong in (b"", sealed_logs.SECRET[:31], sealed_logs.SECRET + b"\n", sealed_logs.SECRET.hex().encode()):
        path.write_bytes(wrong)
        with pytest.raises(InvalidKey, match="expected a regular file of 32 bytes") as refused:
            MasterKey.load(path)
        assert not wrong or wrong.decode("latin-1") not in str(refused.value)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, message in (("absent", "cannot be read"), (".", "a regular file"), ("pipe", "a regular file")):
        with pytest.raises(InvalidKey, match=message):
            MasterKey.load(tmp_path / name)
    for wrong_key in (b"short", bytearray(32), "0" * 32):
        with pytest.raises(InvalidKey, match="expected 32 bytes"):
            MasterKey(wrong_key)  # type: ignore[arg-type]


def forms(secret: bytes) -> list[str]:
    """How bytes would look in a text: halves of them too."""
    halves = (secret[:12], secret[-12:])
    return [form for each in halves for form in (each.hex(), repr(each)[2:-1], base64.b64encode(each).decode())]


def test_no_text_log_error_or_pickle_has_a_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """spec: MN5.3"""
    log, anchor, other = tmp_path / "log", tmp_path / "anchor", MasterKey(bytes(32))
    key = sealed_logs.key()
    texts = [repr(key), str(key), f"{key}", repr(key.segment(bytes(32))), repr(vars(type(key)))]
    with caplog.at_level(logging.DEBUG), sealed_logs.sealings() as pairs:
        sealed_logs.write(log, sealed_logs.DATA, anchor)
        whole = log.read_bytes()
        for broken, using in (
            (whole, other),
            (whole[:-100], key),
            (whole[:200] + b"?" + whole[201:], key),
            (b"?", key),
        ):
            log.write_bytes(broken)
            try:
                sealed_logs.SealedReader.open(log, using, anchor)
            except TmmuError as error:
                texts += [str(error), repr(error), repr(error.record()), traceback.format_exc()]
        log.write_bytes(whole[: len(whole) - sealed_logs.TRAILER])
        sealed_logs.SealedReader.open(log, key).close()
    assert len(texts) == 5 + 4 * 4
    assert "no anchor" in caplog.text
    texts += [caplog.text, log.read_bytes().hex(), anchor.read_bytes().hex()]
    derived = {secret for secret, _ in pairs}
    assert len(derived) == 1
    for secret in (sealed_logs.SECRET, *derived):
        assert not [text for text in texts if any(form in text for form in forms(secret))]
    for each in (key, key.segment(bytes(32))):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(each)


def test_keys_of_two_salts_and_two_uses_are_others() -> None:
    """spec: MN5.4"""
    key = sealed_logs.key()
    sealed = {key.segment(salt).seal(bytes(12), b"data", b"") for salt in (bytes(32), bytes(31) + b"1")}
    assert len(sealed | {MasterKey(bytes(32)).segment(bytes(32)).seal(bytes(12), b"data", b"")}) == 3


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.kdf.hkdf", None)
    with pytest.raises(TmmuError, match=r"pip install .*'cryptography>=") as refused:
        sealed_logs.key().segment(bytes(32))
    assert refused.value.code_id == "MISSING_PACKAGE"
