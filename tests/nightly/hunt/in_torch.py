"""A program as the source of a torch module, for workers whose compiler takes one.

Source, because what follows a cond into its arms reads Python. `torch.cond` and loops may not return what they are
given, nor one value twice: such results are copied. A step that may overwrite its first operand does so in place,
where nothing reads those bytes later.
"""

from __future__ import annotations

from collections.abc import Iterator

import programs as p
from serving import Refused
from torch import nn

DTYPES = ("float32", "int32", "int8", "uint8", "bool")
VIEWS = ("reshape", "transpose", "slice", "broadcast", "split", "cast")
FRESH = ("concat", "matmul", "pad", "update", "full", "cond", "while", "scan", "take")
"""The results of these have memory and the usual strides of their own, which results of arms and bodies must have."""
SIMPLE = {
    "neg": "-{0}", "abs": "{0}.abs()", "relu": "{0}.relu()", "copy": "{0}.clone()", "not": "~{0}",
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "min": "torch.minimum({0}, {1})",
    "max": "torch.maximum({0}, {1})", "greater": "{0} > {1}", "and": "{0} & {1}", "matmul": "{0} @ {1}",
    "where": "torch.where({0}, {1}, {2})", "add_value": "{0} + {value}", "mul_value": "{0} * {value}",
    "transpose": "{0}.permute({axes})", "flip": "{0}.flip({axis})", "clip": "{0}.clamp({low}, {high})",
    "sum": "{0}.sum({axis}, keepdim={keep}, dtype={dtype})", "amax": "{0}.amax({axis}, keepdim={keep})",
    "reshape": "{0}.reshape({shape})", "broadcast": "{0}.expand({shape})", "cast": "{0}.to({dtype})",
    "positive": "{0}.to(torch.int64).sum() > {value}", "full": "torch.full({shape}, {value}, dtype={dtype})",
    "constant": "{table}.clone()", "take": "{0}.index_select({axis}, {table})",
    "split": "{0}.split({sizes}, {axis})",
}  # fmt: skip
CHANGED = {
    "neg": "{0}.neg_()", "abs": "{0}.abs_()", "relu": "{0}.relu_()", "add": "{0}.add_({1})", "sub": "{0}.sub_({1})",
    "mul": "{0}.mul_({1})", "add_value": "{0}.add_({value})", "mul_value": "{0}.mul_({value})",
}  # fmt: skip
"""The same in the bytes of the first operand."""


def dtype_of(value: p.Value) -> str:
    """Torch's type; `Refused` where it has none."""
    if value.dtype not in DTYPES:
        raise Refused(f"no type {value.dtype}")
    return f"torch.{value.dtype}"


def roots(program: p.Program) -> dict[int, int]:
    """The value whose bytes each value may show."""
    found = {value.id: value.id for value in program.inputs}
    for step in program.steps:
        for value in step.results:
            found[value.id] = found[step.operands[0]] if step.op in VIEWS else value.id
        if step.op == "call":
            inner = step.programs[0]
            shown, of = roots(inner), {value.id: found[k] for value, k in zip(inner.inputs, step.operands, strict=True)}
            for value, k in zip(step.results, inner.outputs, strict=True):
                found[value.id] = of.setdefault(shown[k], value.id)
    return found


def tables(program: p.Program, name: str) -> Iterator[tuple[str, str]]:
    """The tensors of numbers that a program and those inside of it have: arms and bodies cannot make any."""
    for step in program.steps:
        own = f"{name}_{step.results[0].id}"
        if step.op == "take":
            yield own, f"torch.tensor({step.attributes['indices']})"
        if step.op == "constant":
            value, values = step.results[0], step.attributes["values"]
            yield own, f"torch.tensor({values}, dtype={dtype_of(value)}).reshape({list(value.shape)})"
        for k, inner in enumerate(step.programs):
            yield from tables(inner, f"{own}_{k}")


def function(
    program: p.Program, name: str, has_inplace: bool, is_inside: bool = False, margin: str = ""
) -> Iterator[str]:
    """The lines of a function with the parameters `v0`, `v1`, …; `is_inside` of a cond or a loop."""
    root, inside = roots(program), margin + "    "
    last = {value.id: 1 << 30 for value in program.inputs} | {root[k]: 1 << 30 for k in program.outputs}
    for place in range(len(program.steps) - 1, -1, -1):
        for k in program.steps[place].operands:
            last.setdefault(root[k], place)
    yield f"{margin}def {name}({', '.join(f'v{value.id}' for value in program.inputs)}):"
    if not margin:
        yield from (f"{inside}{table} = {made}" for table, made in tables(program, name))
    for place, step in enumerate(program.steps):
        for value in step.results:
            dtype_of(value)
        first = root[step.operands[0]] if step.operands else -1
        may = (
            has_inplace and bool(step.attributes.get("inplace")) and last[first] == place and first == step.operands[0]
            and not any(root[k] == first for k in step.operands[1:])
        )  # fmt: skip
        for k, inner in enumerate(step.programs):
            yield from function(inner, f"{name}_{step.results[0].id}_{k}", has_inplace, step.op != "call", inside)
        for line in statements(step, name, may):
            yield inside + line
    results, seen = list[str](), set[int]()
    if is_inside:
        tables_made = [step.results[0].id for step in program.steps if step.op == "constant"]
        seen.update(root[k] for k in (*(value.id for value in program.inputs), *tables_made))
    by = {value.id: step.op for step in program.steps for value in step.results}
    for k in program.outputs:
        is_fresh = not is_inside or (by.get(k) in FRESH and root[k] not in seen)
        results.append(f"v{k}" if is_fresh else f"v{k}.clone(memory_format=torch.contiguous_format)")
        if is_inside:
            seen.add(root[k])
    yield f"{inside}return {', '.join(results)},"


def statements(step: p.Step, name: str, in_place: bool) -> Iterator[str]:
    """The statements of a step in the function of a name."""
    operands = [f"v{k}" for k in step.operands]
    if step.op in ("cond", "while", "scan"):
        known = "" if step.op == "cond" else "memory_format=torch.contiguous_format"
        operands = [
            f"{each}.clone({known})" if known or each in operands[:k] else each for k, each in enumerate(operands)
        ]
    made, value, a = ", ".join(f"v{value.id}" for value in step.results), step.results[0], dict(step.attributes)
    inner = [f"{name}_{value.id}_{k}" for k in range(len(step.programs))]
    if step.op == "update":
        yield f"{made} = {operands[0]}{'' if in_place else '.clone()'}"
        window = ", ".join(f"{start}:{stop}" for start, stop in zip(a["starts"], a["stops"], strict=True))
        yield f"{made}[{window}] = {operands[1]}"
    elif step.op == "slice":
        rows = zip(a["starts"], a["stops"], a["strides"], strict=True)
        yield f"{made} = {operands[0]}[{', '.join(f'{start}:{stop}:{stride}' for start, stop, stride in rows)}]"
    elif step.op == "concat":
        yield f"{made} = torch.cat([{', '.join(operands)}], {a['axis']})"
    elif step.op == "pad":
        around = [each for pair in reversed(list(zip(a["before"], a["after"], strict=True))) for each in pair]
        yield f"{made} = torch.nn.functional.pad({operands[0]}, {around})"
    elif step.op == "call":
        yield f"{made}, = {inner[0]}({', '.join(operands)})"
    elif step.op == "cond":
        yield f"{made}, = torch.cond({operands[0]}, {inner[0]}, {inner[1]}, ({', '.join(operands[1:])},))"
    elif step.op == "while":
        yield f"{made}, = while_loop(lambda *c: {inner[0]}(*c)[0], {inner[1]}, ({', '.join(operands)},))"
    elif step.op == "scan":
        n = a["carries"]
        yield f"def {name}_{value.id}(carried, over):"
        yield f"    made = {inner[0]}(*carried, *over)"
        yield f"    return list(made[:{n}]), list(made[{n}:])"
        yield f"carried, rows = scan({name}_{value.id}, [{', '.join(operands[:n])}], [{', '.join(operands[n:])}])"
        yield f"{made}, = *carried, *rows"
    else:
        form = CHANGED[step.op] if in_place and step.op in CHANGED else SIMPLE[step.op]
        # A name of the program's that a form does not use is left out by `format`.
        table = f"{name}_{value.id}"
        line = form.format(*operands, dtype=dtype_of(value), shape=list(value.shape), table=table, **a)
        yield f"{made}{',' if step.op == 'split' else ''} = {line}"


def source(program: p.Program, has_inplace: bool = True) -> str:
    """A file with a function `program`."""
    return "\n".join([
        "import torch",
        "from torch._higher_order_ops.scan import scan",
        "from torch._higher_order_ops.while_loop import while_loop",
        *function(program, "program", has_inplace), "",
    ])  # fmt: skip


def module(program: p.Program, has_inplace: bool = True) -> nn.Module:
    """A program as a module of its inputs."""
    names: dict[str, object] = {}
    text = source(program, has_inplace)
    exec(compile(text, "<program>", "exec"), names)  # the text is written just above
    given = ", ".join(f"v{value.id}" for value in program.inputs)
    exec(f"def forward(self, {given}):\n    return program({given})\n", names)
    return type("Module", (nn.Module,), {"forward": names["forward"]})().eval()
