"""The models of the corpus as text (`spec/text-ir.md`), without the lines of tensors that are like all others.

A tensor without a line has 64 float32 elements (256 bytes), is a graph input if no line writes it and a graph output if
no line reads it and no body makes it. Nothing is checked, so a model that every importer would refuse can be planned
too.
"""

from __future__ import annotations

from tmmu.core.statements import ARROW, TOKEN
from tmmu.core.vocabulary import Model
from tmmu.ir import text


def model(lines: str, *, like: str = "f32 64") -> Model:
    """Build the model of these lines.

    >>> [(t.name, t.bytes, str(t.role)) for t in model("node r Relu x -> y").tensors]
    [('x', 256, 'input'), ('y', 256, 'activation')]
    """
    return text.read(completed(lines, like).encode(), "sketch")


def completed(lines: str, like: str) -> str:
    """Return the text with its first line, and with lines for the tensors that have none at its end."""
    stated: set[str] = set()
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    inner: set[str] = set()
    depth = 0
    named: dict[str, None] = {}
    for line in lines.splitlines():
        word, *tokens = TOKEN.findall(line) or [""]
        if word == "tensor":
            stated.add(tokens[0])
        depth += (word == "begin") - (word == "end")
        if word not in ("node", "begin", "arm"):
            continue
        tokens = tokens[1 if word == "arm" else 2 :]
        end = next((k for k, token in enumerate(tokens) if token in text.FORMAT.words), len(tokens))
        arrow = tokens.index(ARROW)
        before, after = tokens[:arrow], tokens[arrow + 1 : end]
        # The formal inputs of an arm are written at its enter, and its results are read at its leave.
        (writes if word == "arm" else reads).update(dict.fromkeys(before))
        (reads if word == "arm" else writes).update(dict.fromkeys(after))
        named.update(dict.fromkeys((*before, *after)))
        inner.update(after if depth and word == "node" else ())
    made = []
    for name in (name for name in named if name not in stated):
        marks = ["input"] * (name not in writes) + ["output"] * (name not in reads and name not in inner)
        made.append(" ".join(("tensor", name, like, *marks)))
    return "\n".join((f"{text.FORMAT.title} {text.FORMAT.version}", lines, *made))
