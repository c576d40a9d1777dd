"""The inputs that fuzzing has kept are read, or refused as they must be: a few seconds of what `make fuzz` does."""

from __future__ import annotations

import warnings

import pytest

from tests.nightly.fuzz.bounds import run_input
from tests.nightly.fuzz.stored import STORED, read_stored
from tests.nightly.fuzz.targets import TARGETS

INPUTS = read_stored()


def test_every_reader_has_inputs_and_they_are_few() -> None:
    assert set(INPUTS) == set(TARGETS)
    assert STORED.stat().st_size < 300_000


@pytest.mark.parametrize("reader", INPUTS)
def test_a_kept_input_is_read_or_refused(reader: str) -> None:
    """No other exception, wherever it is caught, and no more time and memory than the bounds. spec: RE6.1, RE6.2"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries warn of hostile files
        found = [run_input(TARGETS[reader], data) for data in INPUTS[reader]]
    assert [(finding.key, finding.text) for finding in found if finding is not None] == []
