"""The kernels of a wrapper: their parameters, and what their text states of the bytes that are passed to them.

A kernel is a call of `async_compile`, whose text is in C++ or in Triton. Its parameters are those of the function that
the call names, of `extern "C"` in C++. What a parameter is for follows from its name and type: `in_out_ptr` is a result
in place, a pointer that is not `const`, or in Triton `out_ptr` and `ws_ptr`, is written, and any other is read.
`mutated_arg_names` and a store in the text make a parameter one that is read and written.

spec: FP8.4, FP8.11, FP8.14
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.readers.plans.hlo_index import Linear
from proofs.readers.plans.inductor_access import AccessDenial, KernelAccess, KernelText, denial
from proofs.readers.plans.inductor_cpp import read_cpp
from proofs.readers.plans.inductor_cpp_text import KERNEL
from proofs.readers.plans.inductor_triton import kernel_of, read_triton
from proofs.readers.plans.script import bits, dotted_name, line_of, string
from tmmu.core.source import Source

READ, WRITTEN, KEPT = "read", "written", "kept"
"""What a kernel does with a parameter: `KEPT` is one that it reads and writes."""
IN_PLACE = "in_out_ptr"
"""How a parameter begins whose bytes hold the value of another buffer before."""
COMPILED_WITH = {"cpp_pybinding": "C++", "cpp": "C++", "triton": "Triton"}
OPTIONS = frozenset(("device_str",))
"""The keywords of a call that compiles which state nothing of a kernel."""
OF_TRITON = {"fp": "float", "bf": "bfloat", "i": "int", "u": "uint"}
OF_C = {
    "float": 32, "double": 64, "int": 32, "long": 64, "half": 16, "at::Half": 16, "bfloat16": 16, "at::BFloat16": 16,
    "bool": 8,
}  # fmt: skip


class Parameter(NamedTuple):
    """A parameter of a kernel: its name, what the kernel does with it, and the bits of an element, 0 if not known."""

    name: str
    kind: str
    bits: int


class PassedOperand(NamedTuple):
    """An operand of a call: the parameter, the cell and the byte of it that is passed."""

    parameter: Parameter
    cell: int
    start: int


@dataclass
class WrapperKernel:
    """A kernel of the wrapper's file. `read` returns what its text states if its numbers are known."""

    name: str
    language: str
    parameters: tuple[Parameter, ...]
    read: Callable[[Mapping[str, int]], KernelText]
    constants: frozenset[str] = frozenset()
    """The parameters that the configuration of a launch gives."""
    is_users: bool = False
    _texts: dict[tuple[tuple[str, int], ...], KernelText] = field(default_factory=dict)

    def text(self, numbers: Mapping[str, int]) -> KernelText:
        """Return what its text states, once for each choice of numbers."""
        key = tuple(sorted(numbers.items()))
        if key not in self._texts:
            self._texts[key] = self.read(numbers)
        return self._texts[key]

    def denial(self, source: Source, text: KernelText, passed: Sequence[PassedOperand]) -> AccessDenial | None:
        """Return why the kernel may not read and write the bytes of one cell by some operands; None if it may.

        What a kernel of the user does with one operand is the user's program.
        """
        of = {operand.parameter.name: operand for operand in passed}
        accesses = [each for each in text.accesses if each.pointer in of]
        if not any(each.is_write for each in accesses) or (self.is_users and len(of) == 1):
            return None
        if len({(operand.start, operand.parameter.bits) for operand in passed}) > 1:
            widths = {operand.parameter.bits for operand in passed}
            if len(widths) > 1 or 0 in widths or any(8 * operand.start % max(widths) for operand in passed):
                return AccessDenial(False, "its operands are the same bytes in elements of different sizes")
        pairs: dict[bool, list[tuple[KernelAccess, KernelAccess]]] = {True: [], False: []}
        for write in (each for each in accesses if each.is_write):
            for one in accesses:
                is_other = one.pointer != write.pointer
                source.count_work(8)
                if is_other or one.is_read:
                    is_in_place = is_other or one.pointer.startswith(IN_PLACE)
                    pairs[is_in_place].append((_at(one, of[one.pointer]), _at(write, of[write.pointer])))
        return denial(text, pairs[True], is_in_place=True) or denial(text, pairs[False], is_in_place=False)


def kernel_in(source: Source, name: str, node: ast.Call) -> WrapperKernel:
    """Return the kernel that a call of `async_compile` compiles. Raises INVALID_PLAN with the line."""
    language = COMPILED_WITH.get(dotted_name(node.func).removeprefix("async_compile."), "")
    texts = [text for arg in node.args if (text := string(arg)) is not None]
    fix = "use Inductor's kernels in C++ or Triton"
    for keyword in node.keywords:
        if keyword.arg not in OPTIONS or string(keyword.value) is None:
            raise source.refuse(f"{name} is compiled with {keyword.arg}, which is not known", line_of(node), fix)
    if language == "C++" and len(texts) == 1 and node.args[-1:] and string(node.args[-1]) is not None:
        return _in_cpp(source, name, node, texts[0])
    if language == "Triton" and len(texts) == len(node.args) == 2:
        return _in_triton(source, name, node, *texts)
    raise source.refuse(f"{name} is a kernel without a signature in C or Triton", line_of(node), fix)


def _in_cpp(source: Source, name: str, node: ast.Call, text: str) -> WrapperKernel:
    source.count_work(len(text) // 8)
    found = list(KERNEL.finditer(text))
    if len(found) != 1:
        raise source.refuse(f"{name} is {len(found)} kernels in C", line_of(node), "use one for each name")
    parameters = []
    for each in found[0][2].split(",") if found[0][2].strip() else ():
        *words, of = each.replace("*", " * ").split() or [""]
        kind = READ
        if of.startswith(IN_PLACE):
            kind = KEPT
        elif "*" in words and "const" not in words:
            kind = WRITTEN
        dtype = next((word for word in words if word not in ("const", "*", "__restrict__")), "")
        parameters.append(Parameter(of, kind, OF_C.get(dtype) or bits(dtype.removesuffix("_t")) or 0))
    first = node.args[0]
    if len(node.args) == 2 and not (isinstance(first, ast.List) and len(first.elts) in (0, len(parameters))):
        raise source.refuse(f"{name} has not as many types as parameters", line_of(node), "use one type for each")
    return WrapperKernel(name, "C++", tuple(parameters), lambda numbers: read_cpp(source, text, numbers))


def _in_triton(source: Source, name: str, node: ast.Call, called: str, text: str) -> WrapperKernel:
    found = kernel_of(source, text, called)
    if found is None:
        raise source.refuse(
            f"{name} is not a text in Triton with one kernel {called}", line_of(node), "compile it again"
        )
    tree, kernel = found
    stated = {key: value for each in kernel.decorator_list for key, value in _stated(each)}
    changed = {value for value in stated.get("mutated_arg_names", ()) if isinstance(value, str)}
    types = dict(zip(stated.get("signature", ()), stated.get("types", ()), strict=True))
    given = kernel.args
    if given.vararg or given.kwarg or given.posonlyargs or given.kwonlyargs or given.defaults:
        raise source.refuse(f"{name} has parameters in a form that is not known", line_of(node), "use plain ones")
    is_users = any(dotted_name(getattr(each, "func", each)).endswith("user_autotune") for each in kernel.decorator_list)
    parameters, constants = [], set()
    for each in given.args:
        if (each.annotation is not None and "constexpr" in ast.unparse(each.annotation)) or (
            types.get(each.arg) == "constexpr"
        ):
            constants.add(each.arg)
            continue
        kind = WRITTEN if each.arg.startswith(("out_ptr", "ws_ptr")) and not is_users else READ
        if each.arg in changed or (each.arg.startswith(IN_PLACE) and not is_users):
            kind = KEPT
        dtype = types.get(each.arg, "").removeprefix("*")
        plain = next((OF_TRITON[of] + dtype[len(of) :] for of in OF_TRITON if dtype.startswith(of)), "")
        parameters.append(Parameter(each.arg, kind, 8 if dtype == "i1" else bits(plain) or 0))

    def read(numbers: Mapping[str, int]) -> KernelText:
        stated_text = read_triton(source, tree, kernel, numbers)
        if is_users and "mutated_arg_names" not in stated:
            stated_text.unknown.append("no mutated_arg_names is stated")
        return stated_text

    return WrapperKernel(name, "Triton", tuple(parameters), read, frozenset(constants), is_users)


def _stated(decorator: ast.expr) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield `mutated_arg_names`, and names and types of the signature, that a decorator states."""
    for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
        if not isinstance(keyword.value, ast.Dict):
            continue
        for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
            if string(key) == "mutated_arg_names" and isinstance(value, ast.List | ast.Tuple):
                yield "mutated_arg_names", tuple(string(each) or "" for each in value.elts)
            if string(key) == "signature" and isinstance(value, ast.Dict):
                yield "signature", tuple(string(each) or "" for each in value.keys)
                yield "types", tuple(string(each) or "" for each in value.values)


def _at(access: KernelAccess, operand: PassedOperand) -> KernelAccess:
    """Return an access with the number of its element from the start of the operand's cell."""
    if not operand.start:
        return access
    return access._replace(element=access.element + Linear(8 * operand.start // operand.parameter.bits))
