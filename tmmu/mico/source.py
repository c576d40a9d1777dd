"""The text of the C files: the struct of a model, its functions, and its kernels.

A plan set is one struct whose programs are structs in it, and has one function `forward` for each program.
spec: MC2.1 to MC2.5, MC3.2 to MC3.8, MC10.1 to MC10.7
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tmmu.core.dtypes import nbytes
from tmmu.mico.blocks import CallerMemory
from tmmu.mico.code import ModelCode, ProgramCode, StateCode, StepCode
from tmmu.mico.identifiers import comment
from tmmu.mico.kernels.functions import argument_of, name_of
from tmmu.mico.names import CNames

WIDTH = 110
REUSED = (
    "Call {init} once. Before each {forward} write every input again: its bytes are reused for other",
    "tensors after its last read. The outputs stay until the next {forward}.",
)
KEPT = (
    "Call {init} once. Inputs that are not donated keep their bytes. The outputs stay until the next",
    "{forward}.",
)
"""What a caller does with its inputs, for plans without and with `keep_inputs`."""
TURNS = (
    "Call {init} once. The programs take turns in any order. Before each call write every input that is not",
    "kept from call to call, and after it read the outputs, before another program is called.",
)
"""The same for a plan set."""
RESULTS = ("OK", "TOO_SMALL", "MISALIGNED")
"""The enumerators that `init_in` returns, from 0."""


def header(code: ModelCode) -> str:
    """Write the header: the verdict, the struct with a field for each tensor, and the functions for a caller."""
    names, guard = code.names, code.names.guard()
    lines = [
        "/*", *(f" * {line}".rstrip() for line in _describe(code)), " */",
        f"#ifndef {guard}", f"#define {guard}", "",
        "#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", "",
    ]  # fmt: skip
    for program in code.programs:
        lines.append(f"#define {names.macro('INPUTS', program.label)} {len(program.network.inputs)}")
        lines.append(f"#define {names.macro('OUTPUTS', program.label)} {len(program.network.outputs)}")
    lines += ["", "/* The memory that a caller gives: bytes, and the alignment of the first. */"]
    for each in code.memories:
        lines.append(f"#define {_memory_macro(names, each, 'BYTES')} {each.bytes}")
        lines.append(f"#define {_memory_macro(names, each, 'ALIGNMENT')} {each.alignment}")
    lines += [
        "",
        "/* A tensor of any element type, dense, in the byte order of the machine: use memcpy to read and write it. */",
        "typedef struct {", "    uint8_t *data;", "    size_t bytes;", f"}} {names.kind('tensor')};", "",
        "typedef struct {", *_write_fields(code), f"}} {names.kind('model')};", "",
        *_write_prototypes(code), "#endif", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _memory_macro(names: CNames, memory: CallerMemory, what: str) -> str:
    return names.macro(f"{memory.name('memory')}_{what}")


def _describe(code: ModelCode) -> Iterator[str]:
    """Yield the lines of the comment at the begin of the header."""
    names = code.names
    yield comment(code.verdict)
    for program in code.programs:
        of = f"{program.label}: " if program.label else ""
        yield f"{of}plan hash {program.plan_hash}"
        yield f"{of}model digest {program.network.digest.hex()}"
    yield ""
    total, slack = sum(b.bytes for b in code.blocks), sum(b.alignment - 1 for b in code.blocks)
    yield {
        "static": f"Memory: {total} bytes in static arrays, no malloc.",
        "malloc": f"Memory: {total} bytes, and {slack} to align them, by malloc.",
        "caller": f"Memory: {total} bytes of the caller, no malloc.",
    }[code.memory]
    yield f"Constant: {sum(each.bytes for each in code.constants)} bytes."
    yield ""
    init = names.function("init_in" if code.memory == "caller" else "init")
    if len(code.programs) == 1 and not code.programs[0].label:
        words = {"init": init, "forward": names.function("forward")}
        yield from (line.format(**words) for line in (KEPT if code.programs[0].keeps_inputs else REUSED))
    else:
        yield from (line.format(init=init) for line in TURNS)
    for each in code.state:
        tensors = comment(", ".join(each.tensors))
        yield f"Kept from call to call: {comment(each.name)} ({tensors}), {_describe_first(each)}."


def _describe_first(state: StateCode) -> str:
    """Return the value of state before the first call, in words."""
    if state.initial:
        return "at first the model's"
    if not state.changes:
        return "which the caller writes before the first call"
    return "at first zeros, or what the caller writes" if state.is_given else "at first zeros"


def _write_fields(code: ModelCode) -> Iterator[str]:
    for k, block in enumerate(code.blocks):
        yield f"    uint8_t *memory_pool_{k}; /* {block.bytes} bytes of {comment(block.arena)} */"
    if code.memory == "malloc":
        yield from (f"    void *memory_pool_{k}_allocation;" for k in range(len(code.blocks)))
    for program in code.programs:
        indent = "        " if program.label else "    "
        if program.label:
            yield "    struct {"
        for name, field in program.fields.items():
            yield f"{indent}{code.names.kind('tensor')} {field};{_comment_tensor(program, name)}"
        if program.label:
            yield from [f"{indent}int unused;"] * (not program.fields)
            yield f"    }} {program.label};"
    if not code.blocks and not any(program.fields or program.label for program in code.programs):
        yield "    int unused;"


def _comment_tensor(program: ProgramCode, name: str) -> str:
    shape, dtype = program.network.sizes[name]
    place = program.places[name]
    return f" /* {comment(name)}: {dtype} {list(shape)}, memory_pool_{place.block} + {place.offset} */"


def _write_prototypes(code: ModelCode) -> Iterator[str]:
    names, model = code.names, code.names.kind("model")
    if code.memory != "caller":
        yield "/* Gives each tensor its memory; false if there is not enough, or it is not aligned. */"
        yield from (f"bool {names.function('init')}({model} *model);", "")
    ok, small, misaligned = (names.macro(word) for word in RESULTS)
    yield f"enum {{ {ok}, {small}, {misaligned} }};"
    yield ""
    yield f"/* Gives each tensor its place in memory of the caller: {ok}, or why that cannot be. */"
    yield f"{_init_in(code)};"
    yield ""
    changing = any(each.changes for each in code.state)
    state = "Sets what calls change and keep to its first value." if changing else "There is no state."
    yield f"/* {state} */"
    yield from (f"void {names.function('reset')}({model} *model);", "")
    if code.memory != "caller":
        yield "/* Frees the memory. */"
        yield from (f"void {names.function('free')}({model} *model);", "")
    for program in code.programs:
        yield "/* Computes the outputs from the inputs. */"
        yield from (f"void {names.function('forward', program.label)}({model} *model);", "")
        yield "/* The inputs and outputs of the graph by number, in its order. */"
        yield from (f"{head};" for head, _, _ in _access(code, program))
        yield ""


def _init_in(code: ModelCode) -> str:
    """Return the head of the function that takes the caller's memory."""
    given = ", ".join(f"void *{each.name('memory')}, size_t {each.name('bytes')}" for each in code.memories)
    return f"int {code.names.function('init_in')}({code.names.kind('model')} *model, {given})"


def forward(code: ModelCode) -> str:
    """Write the source: the pools, and the functions of a model."""
    names = code.names
    lines = [
        f'#include "{names.stem}.h"', "",
        f'#include "{names.file("kernels.h")}"', f'#include "{names.file("weights.h")}"', "",
        "#include <math.h>", "#include <stdlib.h>", "#include <string.h>", "",
        "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__",
        '#error "the weights are little-endian"', "#endif", "",
    ]  # fmt: skip
    if code.memory == "static" and code.blocks:
        for k, block in enumerate(code.blocks):
            lines.append(f"static uint8_t memory_pool_{k}[{block.bytes}] __attribute__((aligned({block.alignment})));")
        lines.append("")
    elif code.memory == "malloc" and code.blocks:
        lines += [ALIGNED]
    lines += [*_write_tensors(code), "", *_write_init(code), *_write_init_in(code), "", *_write_reset(code), ""]
    for program in code.programs:
        lines += [*_write_forward(code, program), ""]
    lines += _write_free(code)
    for program in code.programs:
        lines += _write_access(code, program)
    text = "\n".join(lines)
    for name, needs in (("stdlib", r"\b(malloc|free)\("), ("math", "INFINITY|NAN"), ("string", r"\bmem(cpy|set)\(")):
        if re.search(needs, text) is None:
            text = text.replace(f"#include <{name}.h>\n", "")
    return text.replace("\n\n\n", "\n\n")


ALIGNED = """\
/* The first address in an allocation that is a multiple of `alignment`, a power of two. */
static uint8_t *aligned(void *allocation, size_t alignment)
{
    return (uint8_t *)allocation + (alignment - (uintptr_t)allocation % alignment) % alignment;
}
"""


def _write_tensors(code: ModelCode) -> Iterator[str]:
    """Yield the function that gives each tensor its place in the pools."""
    yield f"static void set_tensors({code.names.kind('model')} *model)"
    yield "{"
    used = False
    for program in code.programs:
        for tensor, place in program.places.items():
            at, (shape, dtype) = program.code[tensor].removesuffix(".data"), program.network.sizes[tensor]
            yield f"    {at}.data = model->memory_pool_{place.block} + {place.offset};"
            yield f"    {at}.bytes = {nbytes(shape, dtype)};"
            used = True
    if not used:
        yield "    (void)model;"
    yield "}"


def _write_init(code: ModelCode) -> Iterator[str]:
    if code.memory == "caller":
        return
    names = code.names
    yield f"bool {names.function('init')}({names.kind('model')} *model)"
    yield "{"
    pools = [f"memory_pool_{k}" for k in range(len(code.blocks))]
    if code.memory == "static":
        yield from (f"    model->{pool} = {pool};" for pool in pools)
        for pool, block in zip(pools, code.blocks, strict=True):
            yield f"    if ((uintptr_t)model->{pool} % {block.alignment} != 0) {{"
            yield "        return false; /* the compiler or the linker has not aligned it */"
            yield "    }"
    elif pools:
        for pool, block in zip(pools, code.blocks, strict=True):
            yield f"    model->{pool}_allocation = malloc({block.bytes} + {block.alignment} - 1);"
        missing = " || ".join(f"model->{pool}_allocation == NULL" for pool in pools)
        yield f"    if ({missing}) {{"
        yield f"        {names.function('free')}(model);"
        yield "        return false;"
        yield "    }"
        for pool, block in zip(pools, code.blocks, strict=True):
            yield f"    model->{pool} = aligned(model->{pool}_allocation, {block.alignment});"
    yield "    set_tensors(model);"
    yield f"    {names.function('reset')}(model);"
    yield "    return true;"
    yield "}"
    yield ""


def _write_init_in(code: ModelCode) -> Iterator[str]:
    """Yield the function that takes the caller's memory; a refusal changes nothing. spec: MC10.3, MC10.4"""
    names = code.names
    ok, small, misaligned = (names.macro(word) for word in RESULTS)
    yield _init_in(code)
    yield "{"
    for each in code.memories:
        memory, size = each.name("memory"), each.name("bytes")
        if not each.bytes:
            yield from (f"    (void){memory};", f"    (void){size};")
            continue
        yield f"    if ({memory} == NULL || {size} < {_memory_macro(names, each, 'BYTES')}) {{"
        yield f"        return {small};"
        yield "    }"
        yield f"    if ((uintptr_t){memory} % {_memory_macro(names, each, 'ALIGNMENT')} != 0) {{"
        yield f"        return {misaligned};"
        yield "    }"
    for each in code.memories:
        for k, offset in each.offsets.items():
            yield f"    model->memory_pool_{k} = (uint8_t *){each.name('memory')} + {offset};"
            if code.memory == "malloc":
                yield f"    model->memory_pool_{k}_allocation = NULL;"
    yield "    set_tensors(model);"
    yield f"    {names.function('reset')}(model);"
    yield f"    return {ok};"
    yield "}"


def _write_reset(code: ModelCode) -> Iterator[str]:
    """Yield the function that sets what calls change and keep to its first value. spec: MC10.7, MC11.4"""
    yield f"void {code.names.function('reset')}({code.names.kind('model')} *model)"
    yield "{"
    changing = [each for each in code.state if each.changes]
    for each in changing:
        call = f"memcpy({each.code}, {each.initial}, " if each.initial else f"memset({each.code}, 0, "
        yield f"    {call}{each.bytes}); /* {comment(each.name)} */"
    if not changing:
        yield "    (void)model;"
    yield "}"


def _write_forward(code: ModelCode, program: ProgramCode) -> Iterator[str]:
    yield f"void {code.names.function('forward', program.label)}({code.names.kind('model')} *model)"
    yield "{"
    used = False
    for number, step in enumerate(program.steps):
        yield f"    /* step {number}, {comment(step.node)}: {_describe_accesses(step)} */"
        for call in step.calls:
            arguments = tuple(argument_of(argument, code.names) for argument in call.arguments)
            yield from _wrap_call(f"    {name_of(call, code.names)}(", arguments)
            used = used or any("model->" in argument for argument in arguments)
    if not used:
        yield "    (void)model;"
    yield "}"


def _describe_accesses(step: StepCode) -> str:
    reads, writes = (comment(", ".join(names)) for names in (step.reads, step.writes))
    return f"{step.op} {reads} -> {writes}{'' if step.calls else ', which needs no call'}"


def _wrap_call(head: str, arguments: tuple[str, ...]) -> Iterator[str]:
    """Yield a call in lines of at most `WIDTH` characters if its arguments are short enough."""
    line = head
    for k, argument in enumerate(arguments):
        text = argument + (");" if k == len(arguments) - 1 else ",")
        space = "" if line.endswith("(") else " "
        if len(line) + len(space) + len(text) > WIDTH and line.strip():
            yield line
            line, space = "        ", ""
        line += space + text
    yield line


def _write_free(code: ModelCode) -> Iterator[str]:
    if code.memory == "caller":
        return
    yield f"void {code.names.function('free')}({code.names.kind('model')} *model)"
    yield "{"
    if code.memory == "static" or not code.blocks:
        yield "    (void)model;"
    else:
        for k in range(len(code.blocks)):
            yield f"    free(model->memory_pool_{k}_allocation);"
            yield f"    model->memory_pool_{k}_allocation = NULL;"
    yield from ("}", "")


def _access(code: ModelCode, program: ProgramCode) -> list[tuple[str, list[str], bool]]:
    """Return the heads of the functions that return inputs and outputs by number, their tensors, and if sizes."""
    network, model = program.network, code.names.kind("model")

    def name(word: str) -> str:
        return code.names.function(word, program.label)

    return [
        (f"uint8_t *{name('input')}({model} *model, size_t number)", network.inputs, False),
        (f"size_t {name('input_bytes')}(size_t number)", network.inputs, True),
        (f"const uint8_t *{name('output')}(const {model} *model, size_t number)", network.outputs, False),
        (f"size_t {name('output_bytes')}(size_t number)", network.outputs, True),
    ]


def _write_access(code: ModelCode, program: ProgramCode) -> Iterator[str]:
    """Yield the functions that return inputs and outputs by number."""
    sizes = program.network.sizes
    for head, names, is_size in _access(code, program):
        values = [str(nbytes(*sizes[name])) if is_size else program.code[name] for name in names]
        yield head
        yield "{"
        if not is_size and not any("model->" in value for value in values):
            yield "    (void)model;"
        yield "    switch (number) {"
        for number, value in enumerate(values):
            yield f"    case {number}:"
            yield f"        return {value};"
        yield "    default:"
        yield f"        return {0 if is_size else 'NULL'};"
        yield "    }"
        yield "}"
        yield ""


def kernels_header(declared: str, names: CNames) -> str:
    """Write `kernels.h`."""
    guard = names.guard("kernels")
    head = f"#ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    return f"{head}\n{declared}\n#endif\n"


def kernels_source(defined: str, names: CNames) -> str:
    """Write `kernels.c`, the functions that the model calls; memcpy of a fixed size reads and writes elements."""
    head = f'#include "{names.file("kernels.h")}"\n\n#include <math.h>\n#include <string.h>\n'
    return f"{head}\n{defined}"
