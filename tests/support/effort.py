"""How much a test looks at: all of it in `make test-full`, part of it in the shorter suites, as the profile has it."""

from __future__ import annotations

from hypothesis import settings


def share(count: int) -> int:
    """What the profile leaves of `count` cases, which are those of the profile `full`; one at least."""
    return max(1, count * settings.default.max_examples // settings.get_profile("full").max_examples)
