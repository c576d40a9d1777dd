"""Real networks as programs of a plan set: GPT-2 with a KV cache, a speech encoder and decoder, a recurrent one.

Each builder writes a program as an ONNX model without weights, like `tmmu example`. Programs of one set have the same
weights in one order, so that one seed draws the same values for both. A cache is changed by Where, whose result takes
the bytes of the old cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import onnx

from tmmu.examples.graph import OnnxGraph


@dataclass(frozen=True)
class Sizes:
    """The sizes of a transformer; `context` are the positions of the cache, `frames` those of the encoder."""

    layers: int
    heads: int
    width: int
    inner: int
    vocabulary: int
    context: int
    frames: int = 0
    bands: int = 80


GPT2 = Sizes(12, 12, 768, 3072, 50257, 1024)
WHISPER = Sizes(4, 6, 384, 1536, 51865, 448, frames=1500)
"""Those of whisper-tiny."""
SMALL = Sizes(1, 2, 16, 32, 40, 8, frames=6, bands=4)


class _Network(OnnxGraph):
    """A graph of transformer blocks over tensors [1, rows, width]."""

    def __init__(self, name: str, sizes: Sizes) -> None:
        super().__init__(name)
        self.sizes = sizes

    def dense(self, value: str, inputs: int, outputs: int, name: str) -> str:
        product = self.node("MatMul", value, self.weight(f"{name}.weight", (inputs, outputs)))
        return self.node("Add", product, self.weight(f"{name}.bias", (outputs,)))

    def norm(self, value: str, name: str) -> str:
        both = (self.weight(f"{name}.{part}", (self.sizes.width,)) for part in ("weight", "bias"))
        return self.node("LayerNormalization", value, *both, axis=-1, epsilon=1e-5)

    def heads(self, value: str, perm: list[int]) -> str:
        head = self.sizes.width // self.sizes.heads
        return self.node(
            "Transpose", self.node("Reshape", value, self.constant([0, 0, self.sizes.heads, head])), perm=perm
        )

    def attend(self, query: str, keys: str, values: str, mask: str | None, name: str) -> str:
        """Attention of the heads of `query` over keys and values [1, heads, positions, head]."""
        width = self.sizes.width
        scores = self.node("MatMul", self.heads(query, [0, 2, 1, 3]), self.node("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.node("Mul", scores, self.constant(1 / math.sqrt(width // self.sizes.heads), "float32"))
        if mask is not None:
            scores = self.node("Where", mask, scores, self.constant(-1e9, "float32"))
        mixed = self.node("Transpose", self.node("MatMul", self.node("Softmax", scores), values), perm=[0, 2, 1, 3])
        return self.dense(self.node("Reshape", mixed, self.constant([0, 0, width])), width, width, f"{name}.out")

    def feed(self, hidden: str, name: str) -> str:
        width, inner = self.sizes.width, self.sizes.inner
        value = self.dense(self.norm(hidden, f"{name}.feed_norm"), width, inner, f"{name}.up")
        return self.node("Add", hidden, self.dense(self.gelu(value), inner, width, f"{name}.down"))

    def gelu(self, value: str) -> str:
        erf = self.node("Erf", self.node("Mul", value, self.constant(math.sqrt(0.5), "float32")))
        half = self.node("Mul", value, self.constant(0.5, "float32"))
        return self.node("Mul", half, self.node("Add", erf, self.constant(1.0, "float32")))

    def cache(self, name: str, value: str, rows: int, written: str) -> str:
        """Change the cache `name` at the positions that are written now, and declare it as an output."""
        s = self.sizes
        shape = (1, s.heads, s.context, s.width // s.heads)
        self.input(name, shape)
        new = self.heads(value, [0, 2, 1, 3])
        if rows > 1:
            new = self.node("Pad", new, self.constant([0] * 6 + [s.context - rows, 0]))
        changed = self.node("Where", written, new, name, result=f"{name}_next")
        self.output(changed, shape)
        return changed


def _decoder(name: str, sizes: Sizes, rows: int, cross: bool) -> onnx.ModelProto:
    """A decoder of `rows` tokens: at position 0 if they are several, else at the position that is given."""
    g, s = _Network(name, sizes), sizes
    ids = g.input("ids", (1, rows), "int64")
    table = g.weight("tokens.weight", (s.vocabulary, s.width))
    positions = g.weight("positions.weight", (s.context, s.width))
    at = g.constant(list(range(rows))) if rows > 1 else g.input("position", (1,), "int64")
    hidden = g.node("Add", g.node("Gather", table, ids), g.node("Gather", positions, at))
    places = g.constant(list(range(s.context)), shape=(1, 1, s.context, 1))
    last = g.node("Reshape", at, g.constant([1, 1, 1, rows]))
    written = g.node("Less", places, g.constant(rows)) if rows > 1 else g.node("Equal", places, last)
    columns = g.node("Reshape", places, g.constant([1, 1, 1, s.context]))
    mask = g.node("LessOrEqual", columns, g.node("Reshape", last, g.constant([1, 1, rows, 1])))
    for layer in range(s.layers):
        own = f"layer{layer}"
        normal = g.norm(hidden, f"{own}.norm")
        query = g.dense(normal, s.width, s.width, f"{own}.query")
        keys, values = (
            g.cache(f"cache.{layer}.{part}", g.dense(normal, s.width, s.width, f"{own}.{part}"), rows, written)
            for part in ("keys", "values")
        )
        hidden = g.node("Add", hidden, g.attend(query, keys, values, mask, own))
        if cross:
            shape = (1, s.heads, s.frames, s.width // s.heads)
            cross_keys, cross_values = (g.input(f"cross.{layer}.{part}", shape) for part in ("keys", "values"))
            query = g.dense(g.norm(hidden, f"{own}.cross_norm"), s.width, s.width, f"{own}.cross_query")
            hidden = g.node("Add", hidden, g.attend(query, cross_keys, cross_values, None, f"{own}.cross"))
        hidden = g.feed(hidden, own)
    hidden = g.norm(hidden, "final_norm")
    hidden = g.node("Slice", hidden, g.constant([rows - 1]), g.constant([rows]), g.constant([1]))
    g.node("Gemm", g.node("Reshape", hidden, g.constant([1, s.width])), table, transB=1, result="logits")
    g.output("logits", (1, s.vocabulary))
    return g.model()


def cached_gpt2(rows: int, sizes: Sizes = GPT2) -> onnx.ModelProto:
    """GPT-2 with a KV cache: a prefill of `rows` tokens, or a step of one at `position`; the logits of the last."""
    return _decoder("prefill" if rows > 1 else "decode", sizes, rows, cross=False)


def speech_decoder(sizes: Sizes = WHISPER) -> onnx.ModelProto:
    """A step of the decoder of a speech recognizer, which reads the keys and values that the encoder has written."""
    return _decoder("decoder", sizes, 1, cross=True)


def speech_encoder(sizes: Sizes = WHISPER) -> onnx.ModelProto:
    """The encoder: two convolutions over a spectrum, blocks, and keys and values for each layer of the decoder."""
    g, s = _Network("encoder", sizes), sizes
    value = g.input("spectrum", (1, s.bands, 2 * s.frames))
    for name, inputs, stride in (("first", s.bands, 1), ("second", s.width, 2)):
        weights = g.weight(f"{name}.weight", (s.width, inputs, 3)), g.weight(f"{name}.bias", (s.width,))
        value = g.gelu(g.node("Conv", value, *weights, kernel_shape=[3], pads=[1, 1], strides=[stride]))
    hidden = g.node("Transpose", value, perm=[0, 2, 1])
    hidden = g.node("Add", hidden, g.weight("places.weight", (s.frames, s.width)))
    for layer in range(s.layers):
        own = f"block{layer}"
        normal = g.norm(hidden, f"{own}.norm")
        query, keys, values = (
            g.dense(normal, s.width, s.width, f"{own}.{part}") for part in ("query", "keys", "values")
        )
        keys, values = g.heads(keys, [0, 2, 1, 3]), g.heads(values, [0, 2, 1, 3])
        hidden = g.feed(g.node("Add", hidden, g.attend(query, keys, values, None, own)), own)
    hidden = g.norm(hidden, "encoder_norm")
    for layer in range(s.layers):
        for part in ("keys", "values"):
            made = g.dense(hidden, s.width, s.width, f"cross{layer}.{part}")
            made = g.node("Reshape", made, g.constant([0, 0, s.heads, s.width // s.heads]))
            g.node("Transpose", made, perm=[0, 2, 1, 3], result=f"cross.{layer}.{part}")
            g.output(f"cross.{layer}.{part}", (1, s.heads, s.frames, s.width // s.heads))
    return g.model()


def lstm(rows: int, inputs: int = 40, hidden: int = 128) -> onnx.ModelProto:
    """An LSTM over `rows` frames; its state comes from the last call, and `goes_on` of 0 resets it for the next.

    The operator reads its old state while it writes the new one. The last two nodes write the state of the next call.
    """
    g = OnnxGraph("chunk" if rows > 1 else "frame")
    frames = g.input("frames", (rows, 1, inputs))
    goes_on = g.input("goes_on", (1, 1, 1))
    state = [g.input(name, (1, 1, hidden)) for name in ("h", "c")]
    weights = [g.weight(f"lstm.{name}", (1, 4 * hidden, size)) for name, size in (("W", inputs), ("R", hidden))]
    bias = g.weight("lstm.B", (1, 8 * hidden))
    every, *last = g.nodes(
        "LSTM", frames, *weights, bias, "", *state, results=[None, None, None], hidden_size=hidden
    )  # fmt: skip
    flat = g.node("Reshape", every, g.constant([rows, hidden]))
    scores = g.node("MatMul", flat, g.weight("score.weight", (hidden, 2)))
    g.node("Softmax", scores, result="speech")
    g.output("speech", (rows, 2))
    for name, value in zip(("h_next", "c_next"), last, strict=True):
        g.node("Mul", value, goes_on, result=name)
        g.output(name, (1, 1, hidden))
    return g.model()


@dataclass(frozen=True)
class NetworkSet:
    """The programs of a set, each a function that builds its model; the options of `tmmu plan`, and the calls."""

    programs: dict[str, Callable[[], onnx.ModelProto]]
    flags: tuple[str, ...]
    calls: str


def networks(sizes: tuple[Sizes, Sizes] = (GPT2, WHISPER), prompt: int = 128) -> dict[str, NetworkSet]:
    """The sets of GPT-2, of the speech recognizer and of the LSTM, by their titles."""
    gpt2, whisper = sizes
    caches = ("--share", "cache.*", "--donate", "cache.*")
    next_caches = [
        f"cache.{layer}.{part}" for layer in range(whisper.layers) for part in ("keys", "values")
    ]  # fmt: skip
    own = tuple(word for name in next_caches for word in ("--share", f"decoder:{name}=decoder:{name}_next"))
    state = ("h", "c")
    pairs = tuple(word for n in state for p in ("chunk", "frame") for word in ("--share", f"{p}:{n}={p}:{n}_next"))
    return {
        "gpt2, prefill and decode": NetworkSet(
            {"prefill": lambda: cached_gpt2(prompt, gpt2), "decode": lambda: cached_gpt2(1, gpt2)},
            (*caches, "--share", "*.weight", "--share", "*.bias"), "prefill,decode*3",
        ),
        "whisper, encoder and decoder": NetworkSet(
            {"encoder": lambda: speech_encoder(whisper), "decoder": lambda: speech_decoder(whisper)},
            ("--share", "cross.*", "--donate", "decoder:cache.*", *own), "encoder,decoder*3",
        ),
        "LSTM, chunks and frames": NetworkSet(
            {"chunk": lambda: lstm(16), "frame": lambda: lstm(1)},
            ("--share", "h", "--share", "c", *pairs, "--share", "lstm.*", "--share", "score.weight"),
            "chunk,frame*3",
        ),
    }  # fmt: skip
