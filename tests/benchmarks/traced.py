"""`python -m tests.benchmarks.traced [NAME ...]`: traces the shipped graphs again and compares them with the files.

Needs torch and transformers, minutes, and about 1.2 GB. With `--write` the files in `tmmu/examples/traced/` are
replaced; the digests that it prints then go into `tmmu/examples/traced/__init__.py` and into
`tests/nightly/test_examples_traced.py`. Another version of torch may trace another graph: the name of a graph says
which version made it.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

from tmmu.core import canonical
from tmmu.examples import traced
from tmmu.examples.traced import recipes
from tmmu.importers import torch as tracer
from tmmu.importers.conversion import convert
from tmmu.ir import columns


def main(arguments: list[str]) -> None:
    """Trace, compare or write, and print what was found."""
    write = "--write" in arguments
    for name in [a for a in arguments if a != "--write"] or list(traced.DIGESTS):
        start = time.perf_counter()
        model = convert(tracer.trace(getattr(recipes, name.replace("-", "_")), name))
        data = canonical.encode(columns.to_object(model))
        digest, stored = hashlib.sha256(data).hexdigest(), traced.pack(data)
        if write:
            canonical.write_atomically(Path(traced.__file__).with_name(f"{name}.ir.cbor.xz"), stored)
        same = "written" if write else "the same" if digest == traced.DIGESTS[name] else "DIFFERENT"
        print(f'"{name}": "{digest}"  # {same}; {len(model.nodes)} nodes, {len(stored)} bytes stored')
        print(f"    {model.name}; {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
