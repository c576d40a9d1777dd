"""Keys: read from a file that only its owner may read, and derived by HKDF-SHA256 for everything that is sealed.

A master key seals nothing itself. Each opening of a log for writing derives a new key from a random salt, so that a
pair of key and initialization vector repeats only if 32 random bytes do. No key appears in a text, a log or an error,
and no key can be pickled. spec: MN5.1 to MN5.4
"""

from __future__ import annotations

import hmac
import os
import stat
from typing import Any, NoReturn

from tmmu.core.extras import require_import, require_package
from tmmu.core.reading import NotRegular, open_descriptor
from tmmu.mnemosyne.failures import InvalidKey

BYTES = 32
TAG = 16
SEALING = "a sealed log"
"""What needs the package that seals."""


class _Secret:
    """Secret bytes that no text, error or pickle shows."""

    __slots__ = ("_bytes",)

    def __init__(self, secret: bytes) -> None:
        self._bytes = secret

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key cannot be pickled")


class MasterKey(_Secret):
    """256 bits from which all other keys are derived. Compares equal only to itself; `is_same` compares the bits.

    Every way to create or read one first raises MISSING_PACKAGE if the package that seals is not installed.
    """

    __slots__ = ("_coding",)

    def __init__(self, secret: bytes) -> None:
        require_package("cryptography", SEALING, "mnemosyne")
        if not isinstance(secret, bytes) or len(secret) != BYTES:
            raise InvalidKey("expected 32 bytes", None, "make one with MasterKey.create")
        super().__init__(secret)
        self._coding = b"", _Secret(b"")  # the last salt of an authentication code, and what was derived from it

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> MasterKey:
        """Create a key from the system's random numbers in a new file, readable only by its owner, and sync the
        file.
        """
        require_package("cryptography", SEALING, "mnemosyne")
        secret, name = os.urandom(BYTES), os.fspath(path)
        try:
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secret)
                file.flush()
                os.fsync(descriptor)
            sync_folder(name)
        except OSError as error:
            fix = "choose a new name in a folder that you may write to"
            raise InvalidKey(f"the file cannot be created ({error.strerror})", name, fix) from None
        return cls(secret)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MasterKey:
        """Read a key from a file of exactly 32 bytes.

        Raises `InvalidKey` if users other than the owner have access to it.
        """
        require_package("cryptography", SEALING, "mnemosyne")
        name = os.fspath(path)
        try:
            with os.fdopen(open_descriptor(name), "rb", buffering=0) as file:
                status, secret = os.fstat(file.fileno()), file.read(BYTES + 1)
        except NotRegular:
            raise InvalidKey("expected a regular file of 32 bytes", name, "name the file of the key") from None
        except OSError as error:
            raise InvalidKey(f"the file cannot be read ({error.strerror})", name, "name the file of the key") from None
        if status.st_mode & 0o077:
            raise InvalidKey(
                f"other users have access to it (mode {stat.S_IMODE(status.st_mode):04o})",
                name,
                f"chmod 600 {name}, or make a new key",
            )
        if len(secret) != BYTES:
            raise InvalidKey("expected a regular file of 32 bytes", name, "name the file of the key")
        return cls(secret)

    def is_same(self, other: MasterKey) -> bool:
        """Return whether the other key has the same bytes, in constant time."""
        return hmac.compare_digest(self._bytes, other._bytes)

    def segment(self, salt: bytes) -> SegmentKey:
        """Derive the key of the segment with this salt."""
        return SegmentKey(_derive(self._bytes, salt, b"tmmu mnemosyne segment 1"))

    def code(self, salt: bytes, message: bytes) -> bytes:
        """Return the authentication code (HMAC-SHA256) of an anchor; `salt` is the first salt of its log."""
        if salt != self._coding[0]:
            self._coding = salt, _Secret(_derive(self._bytes, salt, b"tmmu mnemosyne anchor 1"))
        return hmac.digest(self._coding[1]._bytes, message, "sha256")


class SegmentKey(_Secret):
    """AES-256-GCM under the key of one opening for writing."""

    __slots__ = ("_cipher", "_refusal")

    def __init__(self, secret: bytes) -> None:
        with require_import("cryptography", SEALING, "mnemosyne"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        super().__init__(b"")
        self._cipher: Any = AESGCM(secret)
        self._refusal: type[Exception] = InvalidTag

    def seal(self, vector: bytes, data: bytes | memoryview, bound: bytes) -> bytes:
        """Encrypt `data` under the 96 bits of `vector` and authenticate `bound` with it. Returns ciphertext and tag."""
        return bytes(self._cipher.encrypt(vector, data, bound))

    def open(self, vector: bytes, sealed: bytes | memoryview, bound: bytes) -> bytes | None:
        """Decrypt and authenticate. Returns None (the document's ⊥) if the tag does not match."""
        try:
            return bytes(self._cipher.decrypt(vector, sealed, bound))
        except self._refusal:
            return None


def _derive(secret: bytes, salt: bytes, use: bytes) -> bytes:
    with require_import("cryptography", SEALING, "mnemosyne"):
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    return HKDF(SHA256(), BYTES, salt, use).derive(secret)


def sync_folder(path: str) -> None:
    """Sync the folder of a file, so that its name survives a crash as well."""
    folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
