"""How long commands take to start, as ratios to a Python that imports NumPy: `python -m tests.benchmarks.startup`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TARGETS = {"verify-plan p.cbor": 3.0, "tmmu show p.cbor": 1.7, "tmmu --version": 1.2, "verify-plan --version": 1.2}
"""Commands on a small plan, and the ratios that they should keep."""
ROUNDS = 11


def main() -> None:
    """Print the least time of each command and its ratio. The commands take turns, so that all see the same machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in ("tmmu example mico-mlp -o m.onnx", "tmmu plan m.onnx -o p.cbor"):
            subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
        commands = {"python -c 'import numpy'": [sys.executable, "-c", "import numpy"]}
        commands |= {text: text.split() for text in TARGETS}
        least = dict.fromkeys(commands, float("inf"))
        for _ in range(ROUNDS):
            for text, command in commands.items():
                least[text] = min(least[text], _seconds(command, folder))
    (base, own), *others = least.items()
    print(f"\nstart-up, wall time, the least of {ROUNDS}\n{base:26} {own:6.3f} s")
    for text, seconds in others:
        print(f"{text:26} {seconds:6.3f} s   ratio {seconds / own:4.2f}, at most {TARGETS[text]}")


def _seconds(command: Sequence[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
