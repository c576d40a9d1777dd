"""The text of the C files: the struct of a model, its three functions, kernels, and a program that runs it once.

spec: MC2.1 to MC2.5, MC3.2 to MC3.8
"""

from __future__ import annotations

from collections.abc import Iterator

from tmmu.core.dtypes import nbytes
from tmmu.mico.code import ModelCode, StepCode
from tmmu.mico.identifiers import comment
from tmmu.mico.kernels.functions import name_of

WIDTH = 110
REUSED = (
    " * Call model_init once. Before each model_forward write every input again: its bytes are reused for other",
    " * tensors after its last read. The outputs stay until the next model_forward.",
)
KEPT = (
    " * Call model_init once. Inputs that are not donated keep their bytes. The outputs stay until the next",
    " * model_forward.",
)
"""What a caller does with its inputs, for plans without and with `keep_inputs`."""


def header(program: ModelCode) -> str:
    """Write `model.h`: the verdict, the struct with a field for each tensor, and the functions for a caller."""
    guard = f"{program.name.upper()}_H"
    lines = [
        "/*",
        f" * {comment(program.verdict)}",
        f" * plan hash {program.plan_hash}",
        f" * model digest {program.model_digest}",
        " *",
        *(f" * {line}" for line in _describe_memory(program)),
        " *",
        *(KEPT if program.keeps_inputs else REUSED),
        " */",
        f"#ifndef {guard}", f"#define {guard}", "",
        "#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", "",
        f"#define MODEL_INPUTS {len(program.network.inputs)}",
        f"#define MODEL_OUTPUTS {len(program.network.outputs)}", "",
        "/* A tensor of any element type, dense, in the byte order of the machine: use memcpy to read and write it. */",
        "typedef struct {", "    uint8_t *data;", "    size_t bytes;", "} Tensor;", "",
        "typedef struct {",
    ]  # fmt: skip
    for k, block in enumerate(program.blocks):
        lines.append(f"    uint8_t *memory_pool_{k}; /* {block.bytes} bytes of {comment(block.arena)} */")
    if not program.static:
        lines += [f"    void *memory_pool_{k}_allocation;" for k in range(len(program.blocks))]
    lines += [f"    Tensor {field};{_comment_tensor(program, name)}" for name, field in program.fields.items()]
    if not program.fields and not program.blocks:
        lines.append("    int unused;")
    lines += [
        "} Model;", "",
        "/* Gives each tensor its memory; false if there is not enough, or it is not aligned. */",
        "bool model_init(Model *model);", "",
        "/* Computes the outputs from the inputs. */",
        "void model_forward(Model *model);", "",
        "/* Frees the memory. */",
        "void model_free(Model *model);", "",
        "/* The inputs and outputs of the graph by number, in its order. */",
        "uint8_t *model_input(Model *model, size_t number);",
        "size_t model_input_bytes(size_t number);",
        "const uint8_t *model_output(const Model *model, size_t number);",
        "size_t model_output_bytes(size_t number);", "",
        "#endif", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _describe_memory(program: ModelCode) -> Iterator[str]:
    total, slack = sum(b.bytes for b in program.blocks), sum(b.alignment - 1 for b in program.blocks)
    if program.static:
        yield f"Memory: {total} bytes in static arrays, no malloc."
    else:
        yield f"Memory: {total} bytes, and {slack} to align them, by malloc."
    constant = sum(each.bytes for each in program.constants)
    yield f"Constant: {constant} bytes."


def _comment_tensor(program: ModelCode, name: str) -> str:
    shape, dtype = program.network.sizes[name]
    place = program.places[name]
    return f" /* {comment(name)}: {dtype} {list(shape)}, memory_pool_{place.block} + {place.offset} */"


def forward(program: ModelCode) -> str:
    """Write `model.c`: the pools, and the three functions of a model."""
    lines = [
        f'#include "{program.name}.h"', "", '#include "kernels.h"', '#include "weights.h"', "",
        "#include <math.h>", "#include <stdlib.h>", "#include <string.h>", "",
        "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__",
        '#error "the weights are little-endian"', "#endif", "",
    ]  # fmt: skip
    if program.static:
        for k, block in enumerate(program.blocks):
            lines.append(f"static uint8_t memory_pool_{k}[{block.bytes}] __attribute__((aligned({block.alignment})));")
        lines.append("")
    elif program.blocks:
        lines += [ALIGNED]
    lines += [*_write_init(program), "", *_write_forward(program), "", *_write_free(program), ""]
    lines += _write_access(program)
    text = "\n".join(lines)
    if "malloc(" not in text and "free(" not in text.replace("model_free(", ""):
        text = text.replace("#include <stdlib.h>\n", "")
    if "INFINITY" not in text and "NAN" not in text:
        text = text.replace("#include <math.h>\n", "")
    if "memcpy(" not in text and "memset(" not in text:
        text = text.replace("#include <string.h>\n", "")
    return text


ALIGNED = """\
/* The first address in an allocation that is a multiple of `alignment`, a power of two. */
static uint8_t *aligned(void *allocation, size_t alignment)
{
    return (uint8_t *)allocation + (alignment - (uintptr_t)allocation % alignment) % alignment;
}
"""


def _write_init(program: ModelCode) -> Iterator[str]:
    yield "bool model_init(Model *model)"
    yield "{"
    names = [f"memory_pool_{k}" for k in range(len(program.blocks))]
    if program.static:
        yield from (f"    model->{name} = {name};" for name in names)
        for name, block in zip(names, program.blocks, strict=True):
            yield f"    if ((uintptr_t)model->{name} % {block.alignment} != 0) {{"
            yield "        return false; /* the compiler or the linker has not aligned it */"
            yield "    }"
    elif names:
        for name, block in zip(names, program.blocks, strict=True):
            yield f"    model->{name}_allocation = malloc({block.bytes} + {block.alignment} - 1);"
        missing = " || ".join(f"model->{name}_allocation == NULL" for name in names)
        yield f"    if ({missing}) {{"
        yield "        model_free(model);"
        yield "        return false;"
        yield "    }"
        for name, block in zip(names, program.blocks, strict=True):
            yield f"    model->{name} = aligned(model->{name}_allocation, {block.alignment});"
    for tensor, field in program.fields.items():
        place, (shape, dtype) = program.places[tensor], program.network.sizes[tensor]
        yield f"    model->{field}.data = model->memory_pool_{place.block} + {place.offset};"
        yield f"    model->{field}.bytes = {nbytes(shape, dtype)};"
    if not program.fields and not names:
        yield "    model->unused = 0;"
    yield "    return true;"
    yield "}"


def _write_forward(program: ModelCode) -> Iterator[str]:
    yield "void model_forward(Model *model)"
    yield "{"
    used = False
    for number, step in enumerate(program.steps):
        yield f"    /* step {number}, {comment(step.node)}: {_describe_accesses(step)} */"
        for call in step.calls:
            yield from _wrap_call(f"    {name_of(call)}(", call.arguments)
            used = used or any("model->" in argument for argument in call.arguments)
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


def _write_free(program: ModelCode) -> Iterator[str]:
    yield "void model_free(Model *model)"
    yield "{"
    if program.static or not program.blocks:
        yield "    (void)model;"
    else:
        for k in range(len(program.blocks)):
            yield f"    free(model->memory_pool_{k}_allocation);"
            yield f"    model->memory_pool_{k}_allocation = NULL;"
    yield "}"


def _write_access(program: ModelCode) -> Iterator[str]:
    """Yield the functions that return inputs and outputs by number."""
    network = program.network
    tables = (
        ("uint8_t *model_input(Model *model, size_t number)", network.inputs, False),
        ("size_t model_input_bytes(size_t number)", network.inputs, True),
        ("const uint8_t *model_output(const Model *model, size_t number)", network.outputs, False),
        ("size_t model_output_bytes(size_t number)", network.outputs, True),
    )
    for head, names, is_size in tables:
        values = [str(nbytes(*network.sizes[name])) if is_size else program.code[name] for name in names]
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


def kernels_header(declared: str, prefix: str) -> str:
    """Write `kernels.h`."""
    guard = f"{prefix}_KERNELS_H"
    head = f"#ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    return f"{head}\n{declared}\n#endif\n"


def kernels_source(defined: str) -> str:
    """Write `kernels.c`, the functions that the model calls; memcpy of a fixed size reads and writes elements."""
    head = '#include "kernels.h"\n\n#include <math.h>\n#include <string.h>\n'
    return f"{head}\n{defined}"


def main(program: ModelCode) -> str:
    """Write `main.c`, a program that reads all inputs from one file and writes all outputs to another."""
    return MAIN.replace("model.h", f"{program.name}.h")


MAIN = """\
/* Runs the model once: reads the raw little-endian tensors of its inputs from a file, in the order of the graph, and
 * writes its outputs to another. */
#include "model.h"

#include <stdio.h>

static Model model;

static int failed(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\\n", name, what);
    model_free(&model);
    return 1;
}

int main(int count, char **arguments)
{
    if (count != 3) {
        fprintf(stderr, "usage: %s INPUTS OUTPUTS\\n", count > 0 ? arguments[0] : "model");
        return 2;
    }
    if (!model_init(&model)) {
        return failed("not enough memory", "model_init");
    }
    FILE *file = fopen(arguments[1], "rb");
    if (file == NULL) {
        return failed("cannot be opened", arguments[1]);
    }
    const size_t inputs = MODEL_INPUTS, outputs = MODEL_OUTPUTS;
    size_t right = 1;
    for (size_t k = 0; k < inputs; k++) {
        right &= fread(model_input(&model, k), 1, model_input_bytes(k), file) == model_input_bytes(k);
    }
    right &= fgetc(file) == EOF;
    right &= !ferror(file);
    fclose(file);
    if (!right) {
        return failed("is not as long as the inputs are together", arguments[1]);
    }
    model_forward(&model);
    file = fopen(arguments[2], "wb");
    if (file == NULL) {
        return failed("cannot be opened", arguments[2]);
    }
    for (size_t k = 0; k < outputs; k++) {
        right &= fwrite(model_output(&model, k), 1, model_output_bytes(k), file) == model_output_bytes(k);
    }
    right &= fclose(file) == 0;
    if (!right) {
        return failed("cannot be written", arguments[2]);
    }
    model_free(&model);
    return 0;
}
"""
