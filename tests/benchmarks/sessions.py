"""`python -m tests.benchmarks.sessions --against llama.cpp --files F.gguf …`: tokens per second beside llama.cpp.

Both run in this process, on the same file with the same number of threads, in turns: after a run that does not count,
the figures are medians of five runs each. A prompt is taken in one pass, of at most 512 rows as llama.cpp does it. Then
each token is a pass: neither drafts nor caches of prompts. llama.cpp is the package xllamacpp (extra `oracle`), with
its defaults; its figures are those that it states.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import urllib.request
from pathlib import Path
from typing import Any

from tmmu.core.extras import require_package
from tmmu.foundry.ggml_kernels import count_threads
from tmmu.foundry.session import ModelSession
from tmmu.tasks.language_session import DEVICES, SessionOptions, open_session

PROMPT = [1, *range(300, 421)]
TOKENS = 64
CONTEXT = 2048
ENVIRONMENT = {"METALLIC_PREFILL_CHUNK_SIZE": "512", "METALLIC_FOUNDRY_DECODE_BATCH_SIZE": "1"}


def measure_ours(session: ModelSession) -> tuple[float, float]:
    """Prompt and generated tokens per second of one run."""
    session.clear()
    begun = time.perf_counter()
    going = session.generate(PROMPT, TOKENS)
    next(going)
    prompt = time.perf_counter()
    count = sum(1 for _ in going)
    return len(PROMPT) / (prompt - begun), count / (time.perf_counter() - prompt)


class LlamaCpp:
    """llama.cpp with a file."""

    def __init__(self, path: Path, threads: int) -> None:
        import xllamacpp

        parameters = xllamacpp.CommonParams()
        parameters.model.path, parameters.n_ctx, parameters.n_parallel = str(path), CONTEXT, 1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        self.server = xllamacpp.Server(parameters)

    def measure(self) -> tuple[float, float]:
        """Prompt and generated tokens per second of one run, as it states them."""
        question: dict[str, Any] = {
            "prompt": PROMPT, "n_predict": TOKENS, "temperature": 0, "ignore_eos": True, "cache_prompt": False,
        }  # fmt: skip
        request = urllib.request.Request(
            f"{self.server.listening_address}/completion", json.dumps(question).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=600) as answer:
            timings = json.load(answer)["timings"]
        return timings["prompt_per_second"], timings["predicted_per_second"]


def compare(path: Path, device: str, threads: int, runs: int) -> dict[str, Any]:
    """A row: medians of the runs of both, in tokens per second, and their ratios."""
    options = SessionOptions(
        context=CONTEXT, device=device, threads=threads if device == "ggml" else None, budget=1 << 30
    )
    session = open_session(path, options, environment=ENVIRONMENT)
    other = LlamaCpp(path, threads)
    found = [(*measure_ours(session), *other.measure()) for _ in range(runs + 1)][1:]
    session.close()
    ours_prompt, ours_decode, their_prompt, their_decode = (
        statistics.median(each) for each in zip(*found, strict=True)
    )
    return {
        "file": path.name, "device": device, "threads": threads, "runs": runs,
        "prompt": round(ours_prompt, 1), "llama_cpp_prompt": round(their_prompt, 1),
        "prompt_ratio": round(ours_prompt / their_prompt, 3),
        "decode": round(ours_decode, 1), "llama_cpp_decode": round(their_decode, 1),
        "decode_ratio": round(ours_decode / their_decode, 3),
    }  # fmt: skip


def main() -> None:
    """Print a row for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", choices=["llama.cpp"], default="llama.cpp")
    parser.add_argument("--files", nargs="+", type=Path, required=True)
    parser.add_argument("--device", choices=DEVICES, default="ggml")
    parser.add_argument("--threads", type=int, default=count_threads())
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="style")
    given = parser.parse_args()
    require_package("xllamacpp", "the comparison with llama.cpp", "oracle")
    rows = [compare(path, given.device, given.threads, given.runs) for path in given.files]
    if given.style == "json":
        print(json.dumps(rows, indent=1))
        return
    print(f"{len(PROMPT)} prompt tokens and {TOKENS} generated ones; tokens per second, medians of {given.runs} runs")
    print("{:12} {:>7} {:>9} {:>9} {:>6} {:>9} {:>9} {:>6}".format(
        "file", "threads", "prompt", "llama.cpp", "ratio", "decode", "llama.cpp", "ratio"
    ))  # fmt: skip
    for row in rows:
        print("{file:12} {threads:7} {prompt:9} {llama_cpp_prompt:9} {prompt_ratio:6.2f} {decode:9} "
              "{llama_cpp_decode:9} {decode_ratio:6.2f}".format(**row))  # fmt: skip


if __name__ == "__main__":
    main()
