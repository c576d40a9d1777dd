"""The text of `main.c`: a program that runs a model once, or the programs of a set in turn, on raw tensors in files.

spec: MC2.4, MC2.7, MC10.5, MC11.8
"""

from __future__ import annotations

from string import Template

from tmmu.mico.blocks import CallerMemory
from tmmu.mico.code import ModelCode, ProgramCode


def main(code: ModelCode) -> str:
    """Write `main.c`, a program that reads all inputs from one file and writes all outputs to another."""
    names = code.names
    caller = code.memory == "caller"
    words = {
        "stem": names.stem, "Model": names.kind("model"),
        "finish": "" if caller else f"    {names.function('free')}(&model);\n",
        "memory": "".join(f"\n{_write_array(code, each)}" for each in code.memories) if caller else "",
        "no_memory": _write_call(code) if caller else f"!{names.function('init')}(&model)",
        "begin": names.function("init_in" if caller else "init"),
    }  # fmt: skip
    if code.programs[0].label:
        calls = "\n".join(_write_program(code, program) for program in code.programs)
        given = "".join(_read(each.code, str(each.bytes)) for each in code.state if each.is_given or not each.changes)
        choices = "".join(_choose(program) for program in code.programs)
        words |= {"what": OF_SET, "string": "\n#include <string.h>", "choices": choices}
        return Template(HEAD + MAIN_OF_SET).substitute(words, calls=calls, given=given)
    inputs = ", ".join(quote(name) for name in code.programs[0].network.inputs) or '""'
    words |= {"what": OF_MODEL, "string": "\n#include <string.h>", "names": inputs} | {
        "INPUTS": names.macro("INPUTS"),
        "OUTPUTS": names.macro("OUTPUTS"),
    }
    functions = ("forward", "input", "input_bytes", "output", "output_bytes")
    return Template(HEAD + MAIN).substitute(words, **{word: names.function(word) for word in functions})


def quote(text: str) -> str:
    """Return a text as a string literal of C.

    >>> quote('a.b"\\n')
    '"a.b\\\\042\\\\012"'
    """
    plain = (chr(byte) if chr(byte) in PLAIN_CHARACTERS else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def _write_array(code: ModelCode, memory: CallerMemory) -> str:
    name = memory.name("memory")
    size, alignment = (code.names.macro(f"{name}_{what}") for what in ("BYTES", "ALIGNMENT"))
    return f"static uint8_t {name}[{size} + 1] __attribute__((aligned({alignment})));"


def _write_call(code: ModelCode) -> str:
    """Return the condition that `init_in` refuses the arrays."""
    given = [each.name("memory") for each in code.memories]
    arguments = ", ".join(f"{name}, sizeof {name}" for name in given)
    return f"{code.names.function('init_in')}(&model, {arguments}) != {code.names.macro('OK')}"


def _choose(program: ProgramCode) -> str:
    """Return the lines that call a program if its name is given."""
    label = program.label
    return (
        f'    if (length == {len(label)} && memcmp(name, "{label}", {len(label)}) == 0) {{\n'
        f"        return call_{label}(file, to);\n    }}\n"
    )


def _read(data: str, size: str) -> str:
    """Return the lines that read bytes into a tensor."""
    return f"    right &= fread({data.replace('model->', 'model.')}, 1, {size}, file) == {size};\n"


def _write_program(code: ModelCode, program: ProgramCode) -> str:
    """Return the function that calls a program of a set: it reads what is not kept, and writes all outputs."""
    names, label = code.names, program.label
    lines = [f"static size_t call_{label}(FILE *file, FILE *to)", "{", "    size_t right = 1;"]
    for k, name in enumerate(program.network.inputs):
        if name not in program.state_inputs:
            size = f"{names.function('input_bytes', label)}({k})"
            lines.append(_read(f"{names.function('input', label)}(&model, {k})", size).rstrip("\n"))
    lines.append(f"    {names.function('forward', label)}(&model);")
    for k in range(len(program.network.outputs)):
        size = f"{names.function('output_bytes', label)}({k})"
        lines.append(f"    right &= fwrite({names.function('output', label)}(&model, {k}), 1, {size}, to) == {size};")
    if len(program.state_inputs) == len(program.network.inputs):
        lines.append("    (void)file;")
    if not program.network.outputs:
        lines.append("    (void)to;")
    return "\n".join([*lines, "    return right;", "}", ""])


PLAIN_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-./:,+()[]")
"""The characters that have no meaning in a literal."""

OF_MODEL = """\
Runs the model once: reads the raw little-endian tensors of its inputs from one file, one after the other in the order
 * of the graph, or each from a file that --input NAME=FILE names, and writes its outputs to another file."""
OF_SET = """\
Runs the programs of a plan set in the order of CALLS, as in a,b,b. One file has the raw little-endian tensors: those
 * that the caller writes before the first call, then for each call its inputs in the order of the graph, except those
 * that keep their value from call to call. All outputs of each call go to another file."""

HEAD = """\
/* $what */
#include "$stem.h"

#include <stdio.h>$string

static $Model model;$memory

static int failed(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\\n", name, what);
$finish    return 1;
}

"""

MAIN = """\
/* Reads inputs `first` to `end` from a file, which has exactly their length; 0 if it is read, else the exit code. */
static int read_inputs(const char *path, size_t first, size_t end)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return failed("cannot be opened", path);
    }
    size_t right = 1;
    for (size_t k = first; k < end; k++) {
        right &= fread($input(&model, k), 1, $input_bytes(k), file) == $input_bytes(k);
    }
    right &= fgetc(file) == EOF;
    right &= !ferror(file);
    fclose(file);
    return right ? 0 : failed("is not as long as the inputs are together", path);
}

/* Reads the input with the longest name that NAME=FILE begins with, of those that have not been given. */
static int read_named(const char *argument, bool *given)
{
    static const char *const names[] = {$names};
    const size_t inputs = $INPUTS;
    size_t found = inputs, most = 0;
    for (size_t k = 0; k < inputs; k++) {
        size_t length = strlen(names[k]);
        if (!given[k] && length >= most && strncmp(argument, names[k], length) == 0 && argument[length] == '=') {
            found = k;
            most = length;
        }
    }
    given[found] = true;
    return found < inputs ? read_inputs(argument + most + 1, found, found + 1)
                           : failed("is not NAME=FILE of an input that is not given yet", argument);
}

int main(int count, char **arguments)
{
    const size_t inputs = $INPUTS, outputs = $OUTPUTS;
    static bool given[$INPUTS + 1];
    bool named = count > 3 && (size_t)count == 2 + 2 * inputs;
    for (int k = 1; named && k < count - 1; k += 2) {
        named = strcmp(arguments[k], "--input") == 0;
    }
    if (count != 3 && !named) {
        fprintf(stderr, "usage: %s INPUTS OUTPUTS, or --input NAME=FILE for each input and OUTPUTS\\n",
            count > 0 ? arguments[0] : "$stem");
        return 2;
    }
    if ($no_memory) {
        return failed("not enough memory", "$begin");
    }
    if (!named && read_inputs(arguments[1], 0, inputs) != 0) {
        return 1;
    }
    for (int k = 2; named && k < count - 1; k += 2) {
        if (read_named(arguments[k], given) != 0) {
            return 1;
        }
    }
    const char *target = arguments[count - 1];
    $forward(&model);
    FILE *file = fopen(target, "wb");
    if (file == NULL) {
        return failed("cannot be opened", target);
    }
    size_t right = 1;
    for (size_t k = 0; k < outputs; k++) {
        right &= fwrite($output(&model, k), 1, $output_bytes(k), file) == $output_bytes(k);
    }
    right &= fclose(file) == 0;
    if (!right) {
        return failed("cannot be written", target);
    }
$finish    return 0;
}
"""

MAIN_OF_SET = """\
$calls
/* Calls the program of this name; 0 if there is none, or if a file ends or cannot be written. */
static size_t call(const char *name, size_t length, FILE *file, FILE *to)
{
$choices    fprintf(stderr, "%.*s: is not the name of a program\\n", (int)length, name);
    return 0;
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "usage: %s CALLS INPUTS OUTPUTS\\n", count > 0 ? arguments[0] : "$stem");
        return 2;
    }
    if ($no_memory) {
        return failed("not enough memory", "$begin");
    }
    FILE *file = fopen(arguments[2], "rb");
    if (file == NULL) {
        return failed("cannot be opened", arguments[2]);
    }
    FILE *to = fopen(arguments[3], "wb");
    if (to == NULL) {
        fclose(file);
        return failed("cannot be opened", arguments[3]);
    }
    size_t right = 1;
$given    for (const char *at = arguments[1]; right && *at != '\\0';) {
        size_t length = strcspn(at, ",");
        right &= call(at, length, file, to);
        at += length + (at[length] == ',');
    }
    right &= !right || fgetc(file) == EOF;
    fclose(file);
    right &= fclose(to) == 0;
    if (!right) {
        return failed("is not as long as the inputs of all calls, or outputs cannot be written", arguments[2]);
    }
$finish    return 0;
}
"""
