"""Sessions of the examples themselves, across a growth at 2,048 tokens, beside a run that allocates at will.

spec: FD6.5, FD6.6, FD6.7
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.plain_llama import PlainLlama
from tests.support.small_llama import model_of, session_of
from tmmu import examples
from tmmu.foundry.shapes import open_llama
from tmmu.tasks.language_session import SessionOptions

TEXT = [1, *(300 + 7 * k % 30000 for k in range(2030))]
"""The cache, of 2,048 tokens at first, grows while the text is continued."""


@pytest.mark.parametrize(("dtype", "file_type"), [("f16", "f32"), ("f32", "f32"), ("f16", "q8_0"), ("f16", "q4_0")])
def test_a_long_text_is_continued_bit_for_bit_as_by_a_plain_run(dtype: str, file_type: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    list(examples.write("llama-15m", str(path), 1, file_type))
    plain = PlainLlama(open_llama(path), {"f16": np.float16, "f32": np.float32}[dtype], 2304)
    expected = [plain.run(TEXT).tobytes()]
    tokens = [int(np.argmax(np.frombuffer(expected[0], {"f16": np.float16, "f32": np.float32}[dtype])))]
    for _ in range(60):
        expected.append(plain.step(tokens[-1]).tobytes())
        tokens.append(int(np.argmax(np.frombuffer(expected[-1], {"f16": np.float16, "f32": np.float32}[dtype]))))
    model = model_of(path)
    for layout, initial, chunk, shared in (("compact", 2048, 32, ""), ("expanded", 128, 200, "1")):
        environment = {
            "METALLIC_PREFILL_CHUNK_SIZE": str(chunk), "METALLIC_KV_CACHE_SHARED": shared,
            "METALLIC_INTERMEDIATES_SHARED": shared,
        }  # fmt: skip
        options = SessionOptions(context=4096, layout=layout, initial=initial, activations=dtype, budget=1 << 30)
        session = session_of(model, options, environment)
        session.prefill(TEXT)
        assert session.output[0].tobytes() == expected[0]
        going = session.generate([tokens[0]], 60)
        for number, token in enumerate(going, 1):
            assert token == tokens[number]
            if number < 60 and not session.counts.drafted:
                assert session.output[0].tobytes() == expected[number]
        assert session.cache.capacity == 4096
        session.close()


def test_the_larger_example_runs_as_a_plain_run(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    list(examples.write("llama-110m", str(path), 1, "q8_0"))
    prompt = [1, *range(300, 340)]
    expected = PlainLlama(open_llama(path), capacity=256).greedy(prompt, 8)
    session = session_of(model_of(path), SessionOptions(initial=128, budget=1 << 30))
    assert list(session.generate(prompt, 8)) == expected
