"""Solver processes that the tests of one file share, for the files that ask for whole verdicts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.warm import warm


@pytest.fixture(scope="module")
def warm_solvers() -> Iterator[None]:
    """A process is started once, not for each example, in which starting them takes nearly all of the time."""
    with warm():
        yield
