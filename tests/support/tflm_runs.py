"""Models for TensorFlow Lite Micro, and what it computes: with tflite-micro, ai-edge-litert and numpy installed,

    python tests/support/tflm_runs.py write DIR                # DIR/NAME.tflite, without plans
    python tests/support/tflm_runs.py run DIR PLANNED [KIND]

The second runs each model there and its twin in DIR/PLANNED on random inputs, and prints as JSON whether they compute
the same, the bytes of either arena, and why, where one did not run.
With KIND `litert` LiteRT's interpreter runs both, which has no plan but its own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

RUNS = 3


def models():
    """The CNN of the corpus, a branch, and a loop that runs three times and carries two tensors."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "corpus/foreign/make"))
    import tflite_models as made

    branch = made.control("if")
    branch.model.metadata = []
    yield "cnn", made.cnn()
    yield "branch", branch
    w, op = made.Writer(), made.OP

    def tensor(name):
        return w.tensor(name, [1, 64], made.INT8)

    def counter(name, value=None):
        at = w.tensor(name, [1], made.INT32, None if value is None else np.array([value], np.int32))
        w.graph.tensors[at].quantization = None  # else an ADD asks for its scale
        return at

    w.subgraph([0, 1], [5])
    i, x, j, y, z, end = (counter(name) if name in "ij" else tensor(name) for name in ("i", "x", "j", "y", "z", "end"))
    w.op(op.WHILE, [i, x], [j, y], *made.options("WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2))
    w.op(op.RELU, [y], [z])
    w.op(op.ADD, [x, z], [end], *made.options("AddOptions"))
    w.subgraph([0, 1], [3])
    i, _, limit = counter("i"), tensor("x"), counter("limit", 3)
    w.op(op.LESS, [i, limit], [w.tensor("goes on", [1], made.BOOL)])
    w.subgraph([0, 1], [2, 4])
    i, x, j, t, y, one = counter("i"), tensor("x"), counter("j"), tensor("t"), tensor("y"), counter("one", 1)
    w.op(op.ADD, [i, one], [j], *made.options("AddOptions"))
    w.op(op.RELU, [x], [t])
    w.op(op.ADD, [x, t], [y], *made.options("AddOptions"))
    yield "loop", w


def tflm(path):
    """What TensorFlow Lite Micro computes of random inputs, and the bytes of its arena."""
    from tflite_micro.python.tflite_micro import runtime

    run, rng, found = runtime.Interpreter.from_bytes(path.read_bytes()), np.random.default_rng(0), []
    for _ in range(RUNS):
        try:
            for k in range(99):
                of = run.get_input_details(k)
                run.set_input(drawn(rng, of["dtype"], of["shape"]), k)
        except (IndexError, ValueError):
            assert k  # it has no more inputs
        run.invoke()
        found.append(run.get_output(0).tolist())
    run.print_allocations()
    return found


def litert(path):
    """The same by LiteRT."""
    from ai_edge_litert.interpreter import Interpreter

    run, rng, found = Interpreter(model_path=str(path)), np.random.default_rng(0), []
    run.allocate_tensors()
    for _ in range(RUNS):
        for of in run.get_input_details():
            run.set_tensor(of["index"], drawn(rng, of["dtype"], of["shape"]))
        run.invoke()
        found.append(run.get_tensor(run.get_output_details()[0]["index"]).tolist())
    return found


def drawn(rng, dtype, shape):
    """A random input; what counts begins at 0."""
    dtype = np.dtype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype) * (dtype != np.int32)


def apart(kind, path):
    """The results in a process of their own, which a wrong plan may end, and the bytes that it says its arena has."""
    child = [sys.executable, __file__, "one", str(path), kind]
    ended = subprocess.run(child, capture_output=True, text=True, check=False)
    arena = re.search(r"Arena allocation total (\d+)", ended.stdout + ended.stderr)
    results = [line for line in ended.stdout.splitlines() if line.startswith("[")]
    why = "" if results else f"exit {ended.returncode}: {ended.stderr[-500:]}"
    return results, int(arena.group(1)) if arena else 0, why


def main(word, folder, planned="", kind="tflm"):
    """One of the commands above."""
    if word == "one":
        print(json.dumps(RUN[planned](Path(folder))))
    elif word == "write":
        for name, writer in models():
            Path(folder, f"{name}.tflite").write_bytes(writer.bytes())
    else:
        found = {}
        for path in sorted(Path(folder).glob("*.tflite")):
            (a, before, why), (b, after, also) = (
                apart(kind, each) for each in (path, path.parent / planned / path.name)
            )
            found[path.stem] = {"same": a == b and a != [], "arenas": [before, after], "why": why or also}
        print(json.dumps(found))


RUN = {"tflm": tflm, "litert": litert}
if __name__ == "__main__":
    main(*sys.argv[1:])
