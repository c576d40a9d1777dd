"""The lines of IREE's dumps: each operation has one form, and a line of another form is refused.

MLIR prints one operation on each line, and regions indented between braces. A form is a pattern for the text of a line
from its operation to its end. spec: FP1.15, FP9.13
"""

from __future__ import annotations

import re

from tmmu.core.source import Source

V = r"%[\w$.#-]+"
VS = rf"{V}(?:, {V})*+"
"""A value, and a list of them."""
SYMBOL = r'@(?:[\w$.-]+|"[^"\n]*")'
INNER = r"(?:[^<>%]|<(?:[^<>%]|<[^<>%]*+>)*+>)*+"
TYPE = rf"!?[\w.*?]+(?:<{INNER}>)?"
SIZED = rf"{TYPE}(?:\{{{VS}\}})?"
"""A type, with the sizes that are not known before it runs."""
TYPES, ALL_SIZED = rf"{TYPE}(?:, {TYPE})*+", rf"{SIZED}(?:, {SIZED})*+"
PLAIN = r"[a-z]\w*(?:<\w+>)?"
"""A type of numbers."""
RESOURCE = rf"!stream\.resource<(?:\w+|\*)>(?:\{{{V}\}})?"
TIME = r" => !stream\.timepoint"
PLACE = rf"#?[\w.]+(?:<{INNER}>)?"
ON = rf"(?: on\({PLACE}\))?"
AWAIT = rf"(?: await\({VS}\) =>)?"
GIVEN = rf"{V} = {V}"
BOUND = rf"{V} as {V}: {RESOURCE}"
WINDOW = rf"{V}\[{V} for {V}\]"
COUNTED = rf"(?:\({TYPES}\)|{TYPE})"
ENDS = rf"(?:\(\)|\({ALL_SIZED}\)|{ALL_SIZED})"
NAME = re.compile(r"[a-z_]+(?:\.[a-z_]\w*)+", re.ASCII)

_FORMS = {
    # Commands of an execute.
    "stream.cmd.execute": rf"(?: once)?{ON}{AWAIT} with\((?:{BOUND}(?:, {BOUND})*+)?\) \{{",
    "stream.cmd.concurrent": r" \{",
    "stream.cmd.serial": r" \{",
    "stream.cmd.dispatch": (
        rf" (?:{SYMBOL}(?:::{SYMBOL})*+|\{{{SYMBOL}(?:::{SYMBOL})*+(?:, {SYMBOL}(?:::{SYMBOL})*+)*+\}})"
        rf"(?:\[{VS}\])?(?:\({VS} : {PLAIN}(?:, {PLAIN})*+\))? \{{"
    ),
    "stream.cmd.collective": rf"<[\w :]+>\[{V}\] channel\({V}\)(?: param\({V} : {PLAIN}\))? \{{",
    "stream.cmd.fill": rf" {V}, {WINDOW} : {PLAIN} -> {RESOURCE}",
    "stream.cmd.discard": rf"{ON} {WINDOW} : {RESOURCE}",
    "stream.cmd.copy": rf" {V}\[{V}\], {V}\[{V}\], {V} : {RESOURCE} -> {RESOURCE}",
    "stream.cmd.flush": rf"(?: to\({PLACE}\))? {WINDOW} : {RESOURCE}",
    "stream.cmd.invalidate": rf"(?: from\({PLACE}\))? {WINDOW} : {RESOURCE}",
    # Memory.
    "stream.resource.alloc": rf"(?: uninitialized)?{ON} : {RESOURCE}",
    "stream.resource.alloca": rf"(?: uninitialized)?{ON}(?: await\({VS}\) =>| :) {RESOURCE}{TIME}",
    "stream.resource.dealloca": rf"{ON}{AWAIT} {V} : {RESOURCE}{TIME}",
    "stream.resource.subview": rf" {V}\[{V}\] : {RESOURCE} -> {RESOURCE}",
    "stream.resource.size": rf" {V} : {RESOURCE}",
    "stream.resource.try_map": rf"{ON} {V}\[{V}\] : !util\.buffer -> i1, {RESOURCE}",
    "stream.resource.load": rf" {V}\[{V}\] : {RESOURCE} -> {PLAIN}",
    "stream.resource.store": rf" {V}, {V}\[{V}\] : {PLAIN} -> {RESOURCE}",
    "stream.file.constant": rf"{ON} {WINDOW} : !util\.buffer\{{{V}\}} -> !stream\.file",
    "stream.file.read": rf"{ON}{AWAIT} {V}\[{V}\], {V}\[{V}\], {V} : !stream\.file -> {RESOURCE}{TIME}",
    "stream.tensor.import": (rf"(?: consume)?{ON}(?: consume)? {V} : !hal\.buffer(?:_view)? -> {SIZED} in {RESOURCE}"),
    "stream.tensor.export": rf"{ON} {V} : {SIZED} in {RESOURCE} -> !hal\.buffer(?:_view)?",
    "stream.channel.create": rf"{ON} : !stream\.channel",
    # Points in time.
    "stream.timepoint.immediate": TIME,
    "stream.timepoint.join": rf" max\({VS}\){TIME}",
    "stream.timepoint.barrier": rf"{ON} {V} : {SIZED}{TIME}",
    "stream.timepoint.await": rf"(?: sync)? {V} => {VS} : {ALL_SIZED}",
    "stream.timepoint.import": rf"{ON} {VS} : \({TYPES}\){TIME}",
    "stream.timepoint.export": rf"{ON} {V} => \({TYPES}\)",
    "stream.timepoint.chain_external": rf"{ON} {V} => \({V} : {TYPE}(?:, {V} : {TYPE})*+\)",
    # The caller, globals and buffers of the host.
    "util.return": rf"(?: {VS} : {TYPES})?",
    "util.call": rf" {SYMBOL}\((?:{VS})?\) : {ENDS} -> {ENDS}",
    "util.global.load": rf"(?: immutable)? {SYMBOL} : {TYPE}",
    "util.global.store": rf" {V}, {SYMBOL} : {TYPE}",
    "util.optimization_barrier": rf" {V} : {SIZED}",
    "util.align": rf" {V}, {V} : {PLAIN}",
    "util.buffer.constant": (
        rf"(?: <{INNER}>| \"[^\"\n]*\")? : !util\.buffer = "
        r"(?:#util\.composite<\w+, \[|dense<[^<>%]*+> : (?:tensor|vector)<[\w?]+>)"
    ),
    "hal.element_type": rf"<{INNER}> : i32",
    "hal.encoding_type": r"<\w+> : i32",
    "hal.buffer_view.assert": (
        rf"<{V} : !hal\.buffer_view> message\(\"[^\"\n]*\"\) shape\(\[(?:{VS})?\]\) type\({V}\) encoding\({V}\)"
    ),
    "hal.buffer_view.dim": rf"<{V} : !hal\.buffer_view>\[\d+\] : index",
    # Control flow.
    "scf.for": rf" {GIVEN} to {V} step {V}(?: iter_args\({GIVEN}(?:, {GIVEN})*+\) -> {COUNTED})?(?:  ?: \w+)? \{{",
    "scf.if": rf" {V}(?: -> {COUNTED})? \{{",
    "scf.while": rf" (?:\({GIVEN}(?:, {GIVEN})*+\) )?: \((?:{TYPES})?\) -> (?:\(\)|{COUNTED}) \{{",
    "scf.yield": rf"(?: {VS} : {TYPES})?",
    "scf.condition": rf"\({V}\)(?: {VS} : {TYPES})?",
}
FORMS = {name: re.compile(form, re.ASCII) for name, form in _FORMS.items()}
NUMBERS = re.compile(
    rf"(?:arith\.constant (?:-?[\w.+-]+|dense<[^<>%]*+>)(?: : {TYPE})?"
    rf"|(?:arith|math)\.\w+ (?:\w+, )?{VS}(?: (?:fastmath|overflow)<[\w, ]+>)? : {TYPES}(?: to {TYPE})?)", re.ASCII,
)  # fmt: skip
"""Operations that compute numbers, or choose between values."""
QUOTED = r"\"[^\"\n]*\""
ATTRIBUTE = (
    rf"(?:iree\.[\w.]+|inlining_policy)"
    rf"(?: = (?:{QUOTED}|\{{[^{{}}\"%]*+(?:{QUOTED}[^{{}}\"%]*+)*+\}}|{PLACE}|[\w.]+(?: : \w+)?))?"
)
"""An attribute of a function, an argument or a result, which states no memory."""
ATTRIBUTES = rf"\{{{ATTRIBUTE}(?:, {ATTRIBUTE})*+\}}"
ARGUMENT = rf"{V}: {TYPE}(?: {ATTRIBUTES})?"
RESULT = rf"{TYPE}(?: {ATTRIBUTES})?"
HEAD = re.compile(
    rf"util\.(?:initializer|func(?: public| private)? {SYMBOL}\((?:{ARGUMENT}(?:, {ARGUMENT})*+)?\)"
    rf"(?: -> (?:{RESULT}|\((?:{RESULT}(?:, {RESULT})*+)?\)))?)(?: attributes {ATTRIBUTES})? \{{", re.ASCII,
)  # fmt: skip
"""The first line of a function."""
MADE = re.compile(rf"{V}(?::\d+)?(?:, {V}(?::\d+)?)*+ = ", re.ASCII)
"""The results of an operation."""
MARKS = re.compile(
    rf"|\}}(?:{TIME}| else \{{| do \{{)?|\^bb\d+(?:\({V}: {TYPE}(?:, {V}: {TYPE})*+\))?:"
    rf"|(?:ro|wo|rw) {WINDOW}(?: : {RESOURCE})?,?", re.ASCII,
)  # fmt: skip
"""Ends of regions, the heads of blocks, and the operands of a dispatch."""
PACK = re.compile(rf"stream\.resource\.pack{ON}(?: offset\({V}\))? slices\(\{{", re.ASCII)
"""The head of a pack, whose slices are on the lines below."""
PART = re.compile(r"(?:dense<[^<>%]*+> : (?:tensor|vector)<[\w?]+>,?|\]>)", re.ASCII)
"""A part of a constant that is on several lines, and their end."""


def check_line(source: Source, text: str, number: int, is_head: bool, is_constant: bool) -> bool:
    """Refuse a line whose operation does not have its form. Return whether the line begins a constant on several lines.

    `is_constant` is whether such a constant is open, and `is_head` whether a function begins.
    """
    source.count_work(1 + len(text) // 16)
    if is_head or is_constant:
        found = (HEAD if is_head else PART).fullmatch(text)
        if found is None:
            what = "a function" if is_head else "a constant"
            raise source.refuse(f"a line of {what} was expected, got {text[:60]!r}", f"line {number}")
        return is_constant and text != "]>"
    made = MADE.match(text)
    body = text[made.end() :] if made is not None else text
    name = NAME.match(body)
    form = FORMS.get(name[0]) if name is not None else None
    known = name is not None and form is not None and form.fullmatch(body, name.end())
    if known or NUMBERS.fullmatch(body) or (body is text and MARKS.fullmatch(text)):
        return body.endswith(", [")
    operation = name[0] if name is not None else text[:40]
    what = f"{operation} is not read" if form is None else f"this form of {operation} is not read: {text[:80]!r}"
    construct = "" if name is None else f"operation {operation[:60]}" if form is None else f"form of {operation}"
    fix = "print the dump again: it has one operation a line"
    raise source.refuse(what, f"line {number}", fix, construct=construct)
