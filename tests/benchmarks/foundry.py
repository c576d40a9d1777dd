"""`python -m tests.benchmarks.foundry`: tokens per second of a session beside llama.cpp, and the memory of its passes.

Both read the same file and continue the same prompt greedily; llama.cpp is the package xllamacpp (extra `oracle`),
without which its two columns, headed theirs, are empty. Bytes are those of decode, a pass of 64 rows, the output of all
of them included: each tensor for itself, as planned with prefill, and the document's 24 buffers for the same model (of
32 rows).
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

from tmmu import examples
from tmmu.foundry.forward import document_buffers
from tmmu.foundry.graph import arena_sizes
from tmmu.tasks.language_session import SessionOptions, open_session, plan_session

MODELS = (("llama-15m", ("f32", "f16", "q8_0", "q4_0")), ("llama-110m", ("f32", "q8_0")))
PROMPT = [1, *range(300, 421)]
TOKENS = 64


def ours(path: Path) -> tuple[float, float, int, int, int]:
    """Prompt and generated tokens per second; bytes unshared, planned, and of the document."""
    session = open_session(path, SessionOptions(budget=1 << 30), environment={})
    going = session.generate(PROMPT, TOKENS)
    begun = time.perf_counter()
    next(going)
    prompt = time.perf_counter()
    count = sum(1 for _ in going)
    ended = time.perf_counter()
    unshared = max(
        sum(t.bytes for t in model.tensors if t.name not in model.bindings.donated)
        + sum(s.bytes for n in model.nodes for s in n.scratch)
        for model in session.forward.values()
    )
    arena = arena_sizes(plan_session(session.forward), session.forward)
    document = 2 * sum(document_buffers(session.model.shape, 32, session.context.allocated).values())
    session.close()
    return len(PROMPT) / (prompt - begun), count / (ended - prompt), unshared, sum(arena.values()), document


def theirs(path: Path) -> tuple[float, float] | None:
    """Prompt and generated tokens per second of llama.cpp, as it states them."""
    try:
        import xllamacpp
    except ImportError:
        return None
    import json
    import urllib.request

    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.n_ctx, parameters.n_parallel = str(path), 2048, 1
    server = xllamacpp.Server(parameters)
    question: dict[str, Any] = {"prompt": PROMPT, "n_predict": TOKENS, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(
        f"{server.listening_address}/completion", json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        timings = json.load(answer)["timings"]
    return timings["prompt_per_second"], timings["predicted_per_second"]


def sessions() -> None:
    """The table."""
    print(f"\nsessions: {len(PROMPT)} prompt tokens, {TOKENS} generated; tokens per second, and bytes of a pass")
    head = ("model", "type", "prompt", "tokens", "theirs", "theirs", "unshared", "planned", "document")
    print("{:11} {:5} {:>8} {:>8} {:>10} {:>8} {:>12} {:>10} {:>10}".format(*head))
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in itertools.chain.from_iterable(((n, k) for k in kinds) for n, kinds in MODELS):
            path = Path(folder) / "m.gguf"
            list(examples.write(name, str(path), 1, kind))
            prompt, rate, *sizes = ours(path)
            other = theirs(path)
            beside = ("", "") if other is None else tuple(f"{value:.1f}" for value in other)
            row = (name, kind, f"{prompt:.1f}", f"{rate:.1f}", *beside, *sizes)
            print("{:11} {:5} {:>8} {:>8} {:>10} {:>8} {:>12} {:>10} {:>10}".format(*row), flush=True)


if __name__ == "__main__":
    sessions()
