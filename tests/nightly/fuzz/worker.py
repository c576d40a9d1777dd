"""Fuzz one reader in this process, guided by the coverage of this project's code: `atheris`, a libFuzzer for Python.

`python -m tests.nightly.fuzz.worker READER CORPUS FINDINGS SECONDS SEED`. Half of the inputs come from the
mutator of the notation, the others from libFuzzer, which knows the constants that the code compares with. A finding is
written and counted, and the search goes on; an input that hangs, takes 3 GB or ends the process ends this worker, after
libFuzzer has written it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import warnings
from pathlib import Path
from random import Random
from typing import Any

LONGEST = 1 << 15
"""The longest input, in bytes."""
MEMORY_MIB = 3072
SECONDS_OF_INPUT = 10
_hook = contextlib.ExitStack()
"""What instruments modules when they are imported."""


def instrument() -> dict[str, Any]:
    """Import every reader with instrumentation, which stays in force: readers import modules at first use. 20 s."""
    import atheris

    _hook.enter_context(atheris.instrument_imports(include=["tmmu", "proofs"]))
    with contextlib.redirect_stderr(io.StringIO()):  # it names each module
        from tests.nightly.fuzz.planted import PLANTED
        from tests.nightly.fuzz.targets import TARGETS
    return {**TARGETS, PLANTED.name: PLANTED}


def fuzz(target: Any, corpus: str, findings: str, seconds: int, seed: int) -> None:
    """Fuzz a reader; ends the process."""
    import atheris

    from tests.nightly.fuzz.bounds import file_of, run_input

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    place = Path(findings)

    def read(data: bytes) -> None:
        finding = run_input(target, bytes(data))
        if finding is None:
            return
        kept = place / f"{file_of(finding)}.bin"
        if not kept.exists() or kept.stat().st_size > len(data):
            kept.write_bytes(finding.data)
            record = {"reader": target.name, "what": finding.what, "key": finding.key, "text": finding.text}
            kept.with_suffix(".json").write_text(json.dumps(record, indent=1))

    def mutate(data: bytes, longest: int, number: int) -> bytes:
        random = Random(number)
        made = target.mutate(bytes(data), random) if random.random() < 0.5 else atheris.Mutate(data, len(data) or 1)
        return bytes(made[:longest])

    for path in sorted(Path(corpus).iterdir())[:3]:
        run_input(target, path.read_bytes())  # modules are loaded by the first inputs, which is not their time
    _hook.close()  # to instrument a module that a later input imports may take longer than an input may
    arguments = [
        "tmmu-fuzz", f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-seed={seed}",
        f"-timeout={SECONDS_OF_INPUT}", f"-rss_limit_mb={MEMORY_MIB}", f"-artifact_prefix={findings}/{target.name}-",
        "-print_final_stats=1", corpus,
    ]  # fmt: skip
    os.environ.setdefault("XDG_CACHE_HOME", str(place / "cache"))
    atheris.Setup(arguments, read, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    fuzz(instrument()[sys.argv[1]], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
