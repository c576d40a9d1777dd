"""The text of `main.c`: a program that runs a model once on raw tensors in files. spec: MC2.4, MC10.5"""

from __future__ import annotations

from string import Template

from tmmu.mico.blocks import CallerMemory
from tmmu.mico.code import ModelCode


def main(code: ModelCode) -> str:
    """Write `main.c`, a program that reads all inputs from one file and writes all outputs to another."""
    names = code.names
    caller = code.memory == "caller"
    words = {
        "stem": names.stem, "Model": names.kind("model"), "INPUTS": names.macro("INPUTS"),
        "OUTPUTS": names.macro("OUTPUTS"), "finish": "" if caller else f"    {names.function('free')}(&model);\n",
        "memory": "".join(f"\n{_write_array(code, each)}" for each in code.memories) if caller else "",
        "no_memory": _write_call(code) if caller else f"!{names.function('init')}(&model)",
        "begin": names.function("init_in" if caller else "init"),
    }  # fmt: skip
    functions = ("forward", "input", "input_bytes", "output", "output_bytes")
    return Template(MAIN).substitute(words, **{word: names.function(word) for word in functions})


def _write_array(code: ModelCode, memory: CallerMemory) -> str:
    name = memory.name("memory")
    size, alignment = (code.names.macro(f"{name}_{what}") for what in ("BYTES", "ALIGNMENT"))
    return f"static uint8_t {name}[{size} + 1] __attribute__((aligned({alignment})));"


def _write_call(code: ModelCode) -> str:
    """Return the condition that `init_in` refuses the arrays."""
    given = [each.name("memory") for each in code.memories]
    arguments = ", ".join(f"{name}, sizeof {name}" for name in given)
    return f"{code.names.function('init_in')}(&model, {arguments}) != {code.names.macro('OK')}"


MAIN = """\
/* Runs the model once: reads the raw little-endian tensors of its inputs from a file, in the order of the graph, and
 * writes its outputs to another. */
#include "$stem.h"

#include <stdio.h>

static $Model model;$memory

static int failed(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\\n", name, what);
$finish    return 1;
}

int main(int count, char **arguments)
{
    if (count != 3) {
        fprintf(stderr, "usage: %s INPUTS OUTPUTS\\n", count > 0 ? arguments[0] : "$stem");
        return 2;
    }
    if ($no_memory) {
        return failed("not enough memory", "$begin");
    }
    FILE *file = fopen(arguments[1], "rb");
    if (file == NULL) {
        return failed("cannot be opened", arguments[1]);
    }
    const size_t inputs = $INPUTS, outputs = $OUTPUTS;
    size_t right = 1;
    for (size_t k = 0; k < inputs; k++) {
        right &= fread($input(&model, k), 1, $input_bytes(k), file) == $input_bytes(k);
    }
    right &= fgetc(file) == EOF;
    right &= !ferror(file);
    fclose(file);
    if (!right) {
        return failed("is not as long as the inputs are together", arguments[1]);
    }
    $forward(&model);
    file = fopen(arguments[2], "wb");
    if (file == NULL) {
        return failed("cannot be opened", arguments[2]);
    }
    for (size_t k = 0; k < outputs; k++) {
        right &= fwrite($output(&model, k), 1, $output_bytes(k), file) == $output_bytes(k);
    }
    right &= fclose(file) == 0;
    if (!right) {
        return failed("cannot be written", arguments[2]);
    }
$finish    return 0;
}
"""
