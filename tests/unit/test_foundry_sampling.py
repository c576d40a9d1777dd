"""Drawn tokens: candidates by their definition, frequencies, seeds, no memory for a token. spec: FD11.1 to FD11.3"""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.plain_llama import PlainLlama
from tests.support.small_llama import file_of, session_of
from tmmu.core.errors import TmmuError
from tmmu.foundry.sampling import Sampler, SamplingOptions
from tmmu.foundry.shapes import open_llama
from tmmu.tasks.language_session import SessionOptions

LOGIT = st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5]), st.floats(-30, 30, width=32), st.just(-math.inf))
PROMPT = [1, 5, 7, 5, 7, 11]


def candidates(logits: list[float], options: SamplingOptions) -> tuple[list[int], list[float]]:
    """Tokens and probabilities by the definition, the best token first, of equal ones the first."""
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    order = order[: options.top_k or len(order)]
    weights = [math.exp(logits[token] - logits[order[0]]) for token in order]
    kept = 1
    while options.top_p < 1 and sum(weights[:kept]) < options.top_p * sum(weights):
        kept += 1
    order = order if options.top_p == 1 else order[:kept]
    weights = [math.exp((logits[token] - logits[order[0]]) / options.temperature) for token in order]
    return order, [weight / sum(weights) for weight in weights]


@given(st.lists(LOGIT, min_size=1, max_size=40), st.data())
def test_a_drawn_token_is_the_one_of_the_definition(logits: list[float], data: st.DataObject) -> None:
    """With the number that PCG64 gives. spec: FD11.2"""
    if max(logits) == -math.inf:
        return
    options = SamplingOptions(
        data.draw(st.sampled_from([0.1, 1.0, 3.0])), data.draw(st.integers(0, 45)),
        data.draw(st.sampled_from([0.05, 0.5, 0.9, 1.0])), data.draw(st.integers(0, 2**64 - 1)),
    )  # fmt: skip
    row = np.array(logits, np.float32)
    numbers = np.random.PCG64(options.seed)
    sampler = Sampler(len(logits), options)
    order, probabilities = candidates([float(logit) for logit in row], options)
    for _ in range(5):
        drawn = (int(numbers.random_raw()) >> 11) * 2.0**-53
        token = sampler.choose(row)
        assert token in order
        place = order.index(token)
        below = sum(probabilities[:place])
        assert below - 1e-9 <= drawn <= below + probabilities[place] + 1e-9
        assert probabilities[place] > 0


def test_tokens_are_drawn_as_often_as_their_probability_says() -> None:
    """Within five standard deviations, for 5,000 draws. spec: FD11.2"""
    logits = np.array([1.0, 0.5, 3.0, -1.0, 2.0], np.float32)
    options = SamplingOptions(0.7, 4, 0.98, 11)
    sampler, count = Sampler(5, options), 5_000
    found = Counter(sampler.choose(logits) for _ in range(count))
    order, probabilities = candidates(logits.tolist(), options)
    assert set(found) == set(order)
    for token, probability in zip(order, probabilities, strict=True):
        bound = 5 * math.sqrt(count * probability * (1 - probability))
        assert abs(found[token] - count * probability) <= bound


def test_the_best_token_is_the_first_of_equal_ones_and_never_a_banned_one() -> None:
    """spec: FD11.1"""
    logits = np.array([1, 4, 4, -np.inf, 3], np.float16)
    assert Sampler(5).choose(logits) == 1
    assert Sampler(5).choose(logits, [1]) == 2
    assert Sampler(5, SamplingOptions(1.0, 1)).choose(logits, [1, 2]) == 4
    drawn = {Sampler(5, SamplingOptions(5.0, seed=seed)).choose(logits, [2]) for seed in range(200)}
    assert drawn == {0, 1, 4}
    assert logits.tolist() == [1, 4, 4, -np.inf, 3]


@pytest.mark.parametrize("row", [[np.nan, 1], [1, np.nan], [np.inf, 0], [-np.inf, -np.inf]])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_choose_nothing(row: list[float], temperature: float) -> None:
    """spec: FD11.1"""
    assert Sampler(2, SamplingOptions(temperature)).choose(np.array(row, np.float32)) is None


@pytest.mark.parametrize(
    "options", [SamplingOptions(), SamplingOptions(0.8), SamplingOptions(0.8, 40), SamplingOptions(0.8, 0, 0.9)]
)
def test_a_token_takes_no_memory_of_the_vocabularys_size(options: SamplingOptions) -> None:
    """Of 32,000 tokens an array of bits would be seen. spec: FD11.3"""
    sampler = Sampler(32000, options)
    logits = np.random.default_rng(1).normal(0, 4, 32000).astype(np.float16)
    sampler.choose(logits)
    tracemalloc.start()
    for _ in range(3):
        sampler.choose(logits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"temperature": 1.0, "top_k": -1}, "top_k"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p"),
        ({"temperature": 1.0, "top_p": 1.5}, "top_p"),
        ({"temperature": 1.0, "seed": 2**64}, "seed"),
        ({"top_k": 5}, "top_k"),
        ({"top_p": 0.5}, "top_p"),
    ],
)
def test_an_option_that_is_wrong_or_has_no_effect_is_refused(given: dict[str, Any], setting: str) -> None:
    """spec: FD11.1"""
    with pytest.raises(TmmuError) as caught:
        SamplingOptions(**given)
    assert (caught.value.code_id, caught.value.place) == ("INVALID_SETTING", setting)


def plain_draws(options: SamplingOptions, count: int) -> list[int]:
    """The tokens of a run without drafts, in plain NumPy."""
    model, found = PlainLlama(open_llama(file_of())), list[int]()
    sampler = Sampler(model.shape.vocab, options)
    logits: NDArray[Any] = model.run(PROMPT)
    while len(found) < count:
        token = sampler.choose(logits)
        assert token is not None
        found.append(token)
        logits = model.step(token)
    return found


@pytest.mark.parametrize("options", [SamplingOptions(0.3, 3, 1.0, 5), SamplingOptions(1.5, 0, 0.9, 2**63)])
def test_a_seed_gives_one_text_for_each_batch_and_with_drafts(options: SamplingOptions) -> None:
    """A text that repeats itself has drafts that are accepted. spec: FD11.3"""
    expected = plain_draws(options, 60)
    accepted = 0
    for batch in (1, 3, 64):
        environment = {"METALLIC_FOUNDRY_DECODE_BATCH_SIZE": str(batch), "METALLIC_PREFILL_CHUNK_SIZE": "4"}
        session = session_of(options=SessionOptions(initial=128), environment=environment)
        sampler = Sampler(session.model.shape.vocab, options)
        assert list(session.generate(PROMPT, 60, sampler=sampler)) == expected
        accepted += session.counts.accepted
        session.close()
    assert accepted or options.top_k != 3
    assert plain_draws(SamplingOptions(options.temperature, options.top_k, options.top_p, 1), 60) != expected
