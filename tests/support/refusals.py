"""A refusal as a context: what happens inside must fail with this code, these words and a complete record."""

from __future__ import annotations

from tmmu.core.errors import REGISTRY, TmmuError


class Refused:
    """See `refused`."""

    def __init__(self, code_id: str, words: tuple[str, ...]) -> None:
        self.code_id, self.words = code_id, words

    def __enter__(self) -> Refused:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        assert isinstance(error, TmmuError), f"not refused: {error!r}"
        assert error.code_id == self.code_id, error
        assert all(word in str(error) for word in self.words), error
        needed = {field for field in REGISTRY[self.code_id].fields if field != "place"}
        assert needed <= set(error.record().diagnostics), error.record()
        return True


def refused(code_id: str, *words: str) -> Refused:
    """Exactly this refusal must come, with all fields that its record needs (`place` stands in the refusal itself)."""
    return Refused(code_id, words)
