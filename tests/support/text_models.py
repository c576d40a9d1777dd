"""Small models in statements of the text format of models (`spec/text-ir.md`), for tests that need one example.

Only what a test is about is stated: a name that no `tensor` line declares is a tensor of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from tmmu.core.statements import ARROW
from tmmu.core.vocabulary import Model
from tmmu.ir import text


def text_model(
    *lines: str,
    inputs: str = "x",
    outputs: str = "y",
    parameters: str = "",
    sizes: Mapping[str, int] | None = None,
    each: str = "u8 64",
) -> Model:
    """The model that the project's own reader makes of `lines`, a statement each; it is not validated.

    `each` is type and shape of what no line declares, unless `sizes` gives its bytes. The tensors stand in this
    order: `inputs`, `parameters`, what the lines name, results of bodies last.

    >>> model = text_model("node relu Relu x -> a", "node add Add a x -> y inplace y a")
    >>> [t.name for t in model.tensors], model.nodes[1].in_place
    (['x', 'a', 'y'], ((2, 1),))
    """
    marks = {"input": inputs.split(), "parameter": parameters.split(), "output": outputs.split()}
    named = marks["input"] + marks["parameter"]
    results: list[str] = []
    declared: dict[str, str] = {}
    for line in lines:
        word, *names = line.split()
        if word == "tensor":
            declared[names[0]] = line
            named.append(names[0])
        elif word in ("node", "begin", "arm"):
            listed = names[1 if word == "arm" else 2 :]
            end = next((at for at, name in enumerate(listed) if name in text.FORMAT.words), len(listed))
            arrow = listed.index(ARROW)
            named += listed[:arrow]
            (results if word == "arm" else named).extend(listed[arrow + 1 : end])
    stated = [f"{text.FORMAT.title} {text.FORMAT.version}", "model small"]
    for name in dict.fromkeys(named + results + marks["output"]):
        size = (sizes or {}).get(name)
        line = declared.get(name, f"tensor {name} {each if size is None else f'u8 {size}'}")
        stated.append(" ".join((line, *(mark for mark, names in marks.items() if name in names))))
    stated += [" ".join(("outputs", *marks["output"]))] * bool(outputs)
    stated += (line for line in lines if not line.startswith("tensor "))
    return text.read("\n".join(stated).encode(), "text_model")
