"""Models whose steps overlap in time, as text: branches on two streams, and collectives beside computation.

Collectives and transfers are asynchronous operations of a domain of their own: the planner and the verifier assume of
them only that they read their operands and write their results.
"""

from __future__ import annotations

from collections.abc import Iterator

BATCH, WIDTH, LAYERS = 256, 1024, 8
"""The rows of an activation, its columns, and the layers of the examples with collectives."""


def _iterate_inception() -> Iterator[str]:
    """Yield the first inception block of GoogLeNet: four branches, two on each stream."""
    yield from ("tmmu-ir-text 1", "tensor x f32 1x192x28x28 input", "tensor y f32 1x256x28x28 output")
    branches = (
        ("one", "left", (("conv", 192, 64, 1),)),
        ("three", "left", (("reduce", 192, 96, 1), ("conv", 96, 128, 3))),
        ("five", "right", (("reduce", 192, 16, 1), ("conv", 16, 32, 5))),
        ("pool", "right", (("max", 192, 192, 0), ("conv", 192, 32, 1))),
    )
    results = []
    for branch, stream, layers in branches:
        read = "x"
        for word, channels, made, kernel in layers:
            name = f"{branch}.{word}"
            yield f"tensor {name} f32 1x{made}x28x28"
            weights = ""
            if kernel:
                weights = f"{name}.w"
                yield f"tensor {weights} f32 {made}x{channels}x{kernel}x{kernel} parameter"
            yield f"node {name} {'Conv' if kernel else 'MaxPool'} {read} {weights} -> {name} on {stream}"
            read = name
        results.append(read)
    yield f"node join Concat {' '.join(results)} -> y on left after {results[-1]}"


def _iterate_data_parallel(bucket: int = 2) -> Iterator[str]:
    """Yield a training step in data parallel: gradients of `bucket` layers are reduced while others are computed."""
    yield from ("tmmu-ir-text 1", f"tensor a0 f32 {BATCH}x{WIDTH} input", f"tensor d{LAYERS} f32 {BATCH}x{WIDTH} input")
    for n in range(1, LAYERS + 1):
        yield f"tensor w{n} f32 {WIDTH}x{WIDTH} parameter donated"
        yield f"tensor a{n} f32 {BATCH}x{WIDTH}" + " output" * (n == LAYERS)
        yield f"node forward{n} Gemm a{n - 1} w{n} -> a{n} on main"
    for n in range(LAYERS, 0, -1):
        yield f"tensor g{n} f32 {WIDTH}x{WIDTH} gradient"
        yield f"node weights{n} Gemm a{n - 1} d{n} -> g{n} on main"
        if n > 1:
            yield f"tensor d{n - 1} f32 {BATCH}x{WIDTH} gradient"
            yield f"node back{n} Gemm d{n} w{n} -> d{n - 1} on main"
        if n % bucket == 1 or bucket == 1:
            layers = range(n, n + bucket)
            gradients = " ".join(f"g{k}" for k in layers)
            yield f"tensor bucket{n} f32 {bucket * WIDTH}x{WIDTH} gradient"
            yield f"tensor sum{n} f32 {bucket * WIDTH}x{WIDTH} gradient"
            yield f"node pack{n} Concat {gradients} -> bucket{n} on main"
            yield f"start reduce{n} collectives::AllReduce bucket{n} -> sum{n} inplace sum{n} bucket{n} on main"
    for n in range(LAYERS - bucket + 1, 0, -bucket):
        changed = " ".join(f"w{k}" for k in range(n, n + bucket))
        yield f"wait reduced{n} reduce{n} on main"
        yield f"node update{n} training::Update sum{n} {changed} -> {changed} changes {changed} on main"


def _iterate_pipeline(batches: int = 4) -> Iterator[str]:
    """Yield one stage of a pipeline: each batch is received while the last one is computed, and sent after it."""
    yield from ("tmmu-ir-text 1", f"tensor w f32 {WIDTH}x{WIDTH} parameter")
    yield f"tensor g f32 {WIDTH}x{WIDTH} gradient output"
    for part, read, made, sizes in (("forward", "a", "h", batches), ("back", "d", "e", batches)):
        for k in range(sizes):
            yield f"tensor {read}{k} f32 {BATCH}x{WIDTH}"
            yield f"tensor {made}{k} f32 {BATCH}x{WIDTH}"
        yield f"start {part}.receive0 transfers::Receive -> {read}0 on main"
        for k in range(sizes):
            yield f"wait {part}.received{k} {part}.receive{k} on main"
            if k + 1 < sizes:
                yield f"start {part}.receive{k + 1} transfers::Receive -> {read}{k + 1} on main"
            yield f"node {part}{k} Gemm {read}{k} w -> {made}{k} on main"
            if part == "back":
                changes = " changes g" * (k > 0)
                yield f"node weights{k} training::Accumulate a{k} d{k}{' g' * (k > 0)} -> g{changes} on main"
            if k:
                yield f"wait {part}.sent{k - 1} {part}.send{k - 1} on main"
            yield f"start {part}.send{k} transfers::Send {made}{k} -> on main"
        yield f"wait {part}.sent{sizes - 1} {part}.send{sizes - 1} on main"


def _iterate_gathered(ahead: int = 1, ranks: int = 4) -> Iterator[str]:
    """Yield layers whose weights are split over ranks, and gathered `ahead` layers before they are needed."""
    yield from ("tmmu-ir-text 1", f"tensor a0 f32 {BATCH}x{WIDTH} input")
    for n in range(1, LAYERS + 1):
        yield f"tensor part{n} f32 {WIDTH // ranks}x{WIDTH} parameter"
        yield f"tensor w{n} f32 {WIDTH}x{WIDTH}"
        yield f"tensor a{n} f32 {BATCH}x{WIDTH}" + " output" * (n == LAYERS)
    for n in range(1 - ahead, LAYERS + 1):
        if n + ahead <= LAYERS:
            yield f"start gather{n + ahead} collectives::AllGather part{n + ahead} -> w{n + ahead} on main"
        if n >= 1:
            yield f"wait gathered{n} gather{n} on main"
            yield f"node layer{n} Gemm a{n - 1} w{n} -> a{n} on main"


def _join(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


INCEPTION = _join(_iterate_inception())
"""An inception block: its branches on two streams."""

DATA_PARALLEL = _join(_iterate_data_parallel())
"""A training step in data parallel: an all-reduce of each two layers' gradients overlaps with the backward pass."""

PIPELINE = _join(_iterate_pipeline())
"""A stage of a pipeline, forward and backward: transfers overlap with computation."""

GATHERED = _join(_iterate_gathered())
"""Layers with split weights: those of the next layer are gathered while one is computed."""
