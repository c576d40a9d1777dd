"""Read the accesses of a kernel in C++, in the grammar of what Inductor writes.

The text is preprocessor lines and one function. A function is statements: blocks, `for` with a counter, `if` with a
condition on counters or another one, lambdas, and lines that end with `;`. Inside of a line, a parameter that is a
pointer occurs in one of a few forms: `p[i]` alone or converted, `p[i] = …`, `…::loadu(p + i, n)`,
`x.store(p + i, n)`, `atomic_add(&p[i], x)`, `transpose_mxn<…>(…)` and a second name for it, `auto q = p;`. What gets no
pointer touches no memory of the caller, so that arithmetic on values is not followed; but each name in it is declared
or in a list. Any other construct is returned as unknown, with its line.

spec: FP8.13
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from proofs.readers.plans.hlo_index import IndexVariable, Linear, as_linear
from proofs.readers.plans.inductor_access import ANY, KernelAccess, KernelLoop, KernelText, UnreadError, unknown_number
from proofs.readers.plans.inductor_cpp_text import (
    BEFORE_VALUES,
    BEHIND_VALUES,
    CHANGES,
    COMMENT,
    CONVERSIONS,
    DIRECTIVE,
    FUNCTIONS,
    KERNEL,
    KEYWORDS,
    MAX_DEPTH,
    NAMESPACES,
    OF_REDUCTIONS,
    OPEN,
    STANDARD,
    TOKEN,
    Token,
    argument_end_of,
    callee_of,
    closing_of,
    number_of_tokens,
    opening_of,
)
from tmmu.core.source import Source


def read_cpp(source: Source, text: str, numbers: Mapping[str, int]) -> KernelText:
    """Return the accesses of a kernel whose parameters that are no pointers have `numbers`. O(characters)."""
    source.count_work(4 + len(text) // 2)
    found = KernelText()
    try:
        _Body(source, text, numbers, found).read()
    except UnreadError as error:
        found.unknown.append(f"line {error.line} of it has {error.what}")
    return found


class _Body:
    """A reader of one kernel's text."""

    def __init__(self, source: Source, text: str, numbers: Mapping[str, int], found: KernelText) -> None:
        self.source, self.numbers, self.found = source, numbers, found
        kept = COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
        lines = kept.split("\n")
        for k, line in enumerate(lines):
            if line.lstrip().startswith("#"):
                if not DIRECTIVE.fullmatch(line.strip()):
                    raise UnreadError(f"the directive {line.strip()[:60]}", k + 1)
                if "omp" in line:
                    found.is_in_order = False
                lines[k] = ""
        if text.count("omp parallel") > text.count("omp for") + text.count("omp single"):
            raise UnreadError("threads that share no loop", 1)
        self.text = "\n".join(lines)
        self.tokens: list[Token] = []
        self.at = 0
        self.counters = 0
        self.blocks = 0
        self.depth = 0
        self.block = 0
        self.loops: tuple[KernelLoop, ...] = ()
        self.guards: dict[IndexVariable, tuple[int, int]] = {}
        self.values: dict[str, Linear] = {}
        self.ranges: dict[str, tuple[IndexVariable, Linear, int]] = {}
        """The counter of each loop by its name, with the first value and the step."""
        self.changing: set[str] = set()
        self.lanes = 1
        self.pointers: dict[str, str] = {}
        self.declared: set[str] = set()

    def read(self) -> None:
        """Read the function, and refuse anything around it."""
        kernels = list(KERNEL.finditer(self.text))
        if len(kernels) != 1:
            raise UnreadError(f"{len(kernels)} functions in C", 1)
        (kernel,) = kernels
        if self.text[: kernel.start()].strip():
            raise UnreadError("a statement before the kernel", 1)
        for parameter in kernel[2].split(",") if kernel[2].strip() else ():
            words = parameter.replace("*", " * ").split()
            if "*" in words:
                self.pointers[words[-1]] = words[-1]
            else:
                self.declared.add(words[-1])
                number = self.numbers.get(words[-1])
                self.values[words[-1]] = unknown_number(words[-1]) if number is None else Linear(number)
        line = 1 + self.text.count("\n", 0, kernel.end())
        position = kernel.end()
        for token in TOKEN.finditer(self.text, position):
            if token.lastgroup == "line":
                line += 1
            else:
                self.tokens.append(Token(token[0], line, str(token.lastgroup)))
        self.source.count_work(2 * len(self.tokens))
        self.tokens.append(Token("", line, "end"))
        self.find_changing()
        if self.peek() != "{":
            raise UnreadError("no body", line)
        self.statement()
        if self.peek():
            raise UnreadError(f"{self.peek()[:40]} behind the kernel", self.tokens[self.at].line)

    def find_changing(self) -> None:
        """Find the names that are assigned anew outside of the heads of loops: nothing is known of their numbers."""
        head = 0
        texts = [token.text for token in self.tokens]
        for k, text in enumerate(texts):
            if head:
                head += (text == "(") - (text == ")")
                head -= head == 1  # its own bracket is closed
            elif text == "for" and texts[k + 1] == "(":
                head = 1
            elif text in CHANGES or text == "=":
                is_name = k > 0 and self.tokens[k - 1].kind == "name"
                if (
                    text == "="
                    and is_name
                    and k > 1
                    and (
                        texts[k - 2] in (">", "*", "&")
                        or (self.tokens[k - 2].kind == "name" and texts[k - 2] != "else")
                    )
                ):
                    continue  # a declaration
                self.changing |= {texts[j] for j in (k - 1, k + 1 if text in ("++", "--") else k - 1) if j >= 0}

    def peek(self) -> str:
        return self.tokens[self.at].text

    def expect(self, *texts: str) -> None:
        """Pass over tokens."""
        for text in texts:
            if self.peek() != text:
                raise UnreadError(f"{self.peek() or 'an end'} in place of {text}", self.tokens[self.at].line)
            self.at += 1

    def statement(self) -> None:
        """Read one statement."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadError("statements that nest too deeply", self.tokens[self.at].line)
        match self.peek():
            case "{":
                self.at += 1
                outer = self.enter()
                values = dict(self.values)
                while self.peek() != "}":
                    if not self.peek():
                        raise UnreadError("an end within the kernel", self.tokens[self.at].line)
                    self.statement()
                self.at += 1
                self.values, self.block = values, outer
            case "for":
                self.loop()
            case "if":
                self.condition()
            case ";":
                self.at += 1
            case _:
                start = self.at
                end = self.end_of(start, (";",))
                self.at = end + 1
                self.line(self.tokens[start:end])
        self.depth -= 1

    def enter(self) -> int:
        """Begin a statement list; return the number of the one around it."""
        outer, self.blocks = self.block, self.blocks + 1
        self.block = self.blocks
        return outer

    def end_of(self, start: int, ends: Sequence[str]) -> int:
        """Return the place of the first of some tokens that is not inside of brackets. O(tokens in between)."""
        inside: list[str] = []
        for k in range(start, len(self.tokens)):
            text = self.tokens[k].text
            if not inside and text in ends:
                return k
            if text in OPEN:
                inside.append(OPEN[text])
            elif inside and text == inside[-1]:
                inside.pop()
            elif text in (")", "]", "}", ""):
                break
        raise UnreadError(f"no {ends[0]}", self.tokens[start].line)

    def loop(self) -> None:
        """Read `for(T x=a; x<b; x+=s) …`."""
        line = self.tokens[self.at].line
        self.expect("for", "(")
        if self.peek() not in KEYWORDS:
            raise UnreadError("a loop without a counter of its own", line)
        self.at += 1
        name = self.peek()
        self.at += 1
        self.expect("=")
        first = self.number_until((";",))
        self.expect(";", name, "<")
        last = self.number_until((";",))
        self.expect(";")
        step = Linear(1)
        if self.peek() == "++":
            self.expect("++", name)
        else:
            self.expect(name)
            if self.peek() == "++":
                self.at += 1
            else:
                self.expect("+=")
                step = self.number_until((")",))
        self.expect(")")
        if step.terms or step.constant < 1:
            raise UnreadError("a loop whose step is not a number", line)
        length = last - first
        size = ANY if length.terms else max(0, -(-length.constant // step.constant))
        self.counters += 1
        variable = IndexVariable(self.counters, max(size, 1))
        outer = self.loops, self.lanes, dict(self.values)
        self.loops = (*self.loops, KernelLoop(variable))
        self.lanes = max(self.lanes, step.constant)
        self.values[name] = first + as_linear(variable).times(step.constant)
        self.declared.add(name)
        if name in self.changing:
            raise UnreadError(f"a counter {name} that changes in its loop", line)
        ranges = dict(self.ranges)
        self.ranges[name] = variable, first, step.constant
        before = len(self.found.accesses)
        self.statement()
        if not size:  # its body is read for what is not known in it, and never runs
            del self.found.accesses[before:]
        self.loops, self.lanes, self.values = outer
        self.ranges = ranges

    def condition(self) -> None:
        """Read `if (x >= a && x < b) … else …`."""
        self.expect("if", "(")
        start, self.at = self.at, self.end_of(self.at, (")",)) + 1
        tokens = self.tokens[start : self.at - 1]
        self.line(tokens)
        outer, before = dict(self.guards), len(self.found.accesses)
        self.guard(tokens)
        self.branch()
        if any(low > high for low, high in self.guards.values()):  # it never runs
            del self.found.accesses[before:]
        self.guards = outer
        if self.peek() == "else":
            self.at += 1
            self.branch()

    def branch(self) -> None:
        """Read a branch, which is a statement list of its own."""
        outer = self.enter()
        self.statement()
        self.block = outer

    def guard(self, tokens: Sequence[Token]) -> None:
        """Take the ranges that a condition gives to counters: `x0 >= a && x0 < b`."""
        while len(tokens) > 3 and tokens[0].text in ("C10_LIKELY", "C10_UNLIKELY") and tokens[-1].text == ")":
            tokens = tokens[2:-1]
        texts = [token.text for token in tokens]
        while texts:
            end = texts.index("&&") if "&&" in texts else len(texts)
            part, texts, tokens = tokens[:end], texts[end + 1 :], tokens[end + 1 :]
            if len(part) < 3 or part[1].text not in (">=", "<"):
                return
            limit = number_of_tokens(part[2:], self.values)
            if part[0].text not in self.ranges or limit.terms or self.ranges[part[0].text][1].terms:
                continue
            variable, first, step = self.ranges[part[0].text]
            low, high = self.guards.get(variable, (0, variable.size - 1))
            at = -(-(limit.constant - first.constant) // step)  # the first value of the counter at which it is there
            self.guards[variable] = (max(low, at), high) if part[1].text == ">=" else (low, min(high, at - 1))

    # Lines

    def line(self, tokens: list[Token]) -> None:
        """Read a line or a condition: its accesses, with reads before writes, and its names."""
        texts = [token.text for token in tokens]
        if texts[:1] == ["auto"] and len(texts) == 4 and texts[2] == "=" and texts[3] in self.pointers:
            self.pointers[texts[1]] = self.pointers[texts[3]]  # `auto out_ptr0 = in_out_ptr0;`
            return
        self.source.count_work(len(tokens))
        writes: list[KernelAccess] = []
        k = 0
        while k < len(tokens):
            token = tokens[k]
            if token.text == "[" and k + 1 < len(tokens) and texts[k + 1] in ("&", "=") and "{" in texts[k:]:
                k = self.lambda_body(tokens, k)
            elif token.kind == "name":
                if token.text in self.pointers and (k == 0 or texts[k - 1] not in (".", "->")):
                    access, k = self.access(tokens, texts, k)
                    if access.is_write:
                        writes.append(access)
                    else:
                        self.found.add(access)
                    continue
                if (
                    token.text in self.ranges
                    and k
                    and texts[k - 1] == "&"
                    and texts[k - 2 : k - 1] in ([], ["("], [","], ["="])
                ):
                    raise UnreadError(f"the address of {token.text}", token.line)
                self.check_name(tokens, texts, k)
            elif token.kind == "sign" and token.text in ("`", "@", "$", "\\", "#"):
                raise UnreadError(f"the sign {token.text}", token.line)
            k += 1
        for access in writes:
            self.found.add(access)
        self.define(tokens, texts)

    def lambda_body(self, tokens: list[Token], k: int) -> int:
        """Read the body of a lambda that captures, as statements that run here; return the place of its end."""
        offset = self.at
        start = next(j for j in range(k, len(tokens)) if tokens[j].text == "{")
        depth = 0
        for end in range(start, len(tokens)):
            depth += (tokens[end].text == "{") - (tokens[end].text == "}")
            if depth == 0:
                break
        else:
            raise UnreadError("no end of a lambda", tokens[k].line)
        whole, self.tokens = self.tokens, [*tokens[start : end + 1], Token("", tokens[end].line, "end")]
        self.at = 0
        self.statement()
        self.tokens, self.at = whole, offset
        return end

    def check_name(self, tokens: Sequence[Token], texts: Sequence[str], k: int) -> None:
        """Check that a name is a member, declared here or before, or in a list."""
        name = texts[k]
        before, behind = texts[k - 1] if k else "", texts[k + 1] if k + 1 < len(texts) else ""
        if before in (".", "->", "template") or name in self.declared or name in KEYWORDS or name in FUNCTIONS:
            return
        if name.startswith("std::") and not STANDARD.fullmatch(name):
            raise UnreadError(f"the name {name[:40]}", tokens[k].line)
        if name.startswith(NAMESPACES) or OF_REDUCTIONS.fullmatch(name) or (before == "::" and k > 1):
            return
        is_type = k > 0 and (
            before in (">", "*")
            or (before == "&" and behind in (",", ")"))
            or (tokens[k - 1].kind == "name" and before not in ("return", "else", "template", "typename"))
        )
        if is_type and behind in ("=", "", ",", ")", "[", "(", "{"):
            self.declared.add(name)
            return
        raise UnreadError(f"the name {name[:40]}", tokens[k].line)

    def access(self, tokens: list[Token], texts: Sequence[str], k: int) -> tuple[KernelAccess, int]:
        """Read an occurrence of a pointer; return it and the place behind it."""
        line, pointer = tokens[k].line, self.pointers[texts[k]]
        behind, before = texts[k + 1] if k + 1 < len(texts) else "", texts[k - 1] if k else ""
        if behind == "[":
            end = closing_of(tokens, k + 1)
            index = number_of_tokens(tokens[k + 2 : end], self.values)
            then = texts[end + 1] if end + 1 < len(texts) else ""
            if k == 0 and then in ("=", "+=", "*=", "-=", "|=", "&=", "^="):
                return self.made(pointer, index, 1, line, is_read=then != "=", is_write=True), end + 1
            if before == "&" and texts[max(0, k - 3) : k] == ["atomic_add", "(", "&"]:
                return self.made(pointer, index, 1, line, is_read=True, is_write=True), end + 1
            opening = opening_of(texts, k)
            callee = callee_of(texts, opening) if opening >= 0 else ""
            if (
                before in BEFORE_VALUES
                and then in BEHIND_VALUES
                and (callee in CONVERSIONS or not callee.isidentifier())
            ):
                return self.made(pointer, index, 1, line, is_read=True), end + 1
        elif before in ("(", ",") and behind in ("+", ",", ")"):
            end = argument_end_of(tokens, k)
            index = number_of_tokens(tokens[k + 2 : end], self.values) if behind == "+" else Linear(0)
            opening = opening_of(texts, k)
            callee = callee_of(texts, opening)
            if callee in ("loadu", "from"):
                return self.made(pointer, index, self.count(tokens, end), line, is_read=True), end
            if callee == "store" and texts[opening - 2 : opening - 1] == ["."]:
                return self.made(pointer, index, self.count(tokens, end), line, is_write=True), end
            if callee == "transpose_mxn":
                return self.transposed(pointer, index, tokens, texts, k, end), end
            if callee == "atomic_add_vec":
                index = unknown_number((line, k))
                return self.made(pointer, index, 1, line, is_read=True, is_write=True), end
        raise UnreadError(f"{texts[k]} in a form that is not known", line)

    def transposed(
        self, pointer: str, index: Linear, tokens: list[Token], texts: Sequence[str], k: int, end: int
    ) -> KernelAccess:
        """A tile of rows: `transpose_mxn<T,m,n,false>(from, stride of from, to, stride of to)`."""
        opening = opening_of(texts, k)
        stride = number_of_tokens(tokens[end + 1 : argument_end_of(tokens, end + 1)], self.values)
        parts = "".join(texts[:opening]).split("transpose_mxn<", 1)[-1]
        sizes = [int(number) for number in re.findall(r"\((\d+)L?\)", parts)]
        line, is_from = tokens[k].line, k == opening + 1
        if stride.terms or len(sizes) != 2:  # sizes that are operands
            index, sizes = unknown_number((line, k)), [1]
        else:
            self.counters += 1
            index += as_linear(IndexVariable(self.counters, max(*sizes, 1))).times(stride.constant)
        return self.made(pointer, index, max(sizes), line, is_read=is_from, is_write=not is_from)

    def made(
        self, pointer: str, index: Linear, lanes: int, line: int, *, is_read: bool = False, is_write: bool = False
    ) -> KernelAccess:
        return KernelAccess(pointer, index, lanes, is_read, is_write, self.loops, self.block, dict(self.guards), line)

    def count(self, tokens: list[Token], end: int) -> int:
        """Return the elements that a vector has: the next operand, or the largest step of a loop."""
        if end < len(tokens) and tokens[end].text == ",":
            number = number_of_tokens(tokens[end + 1 : argument_end_of(tokens, end + 1)], self.values)
            return max(1, number.constant) if not number.terms else ANY
        return self.lanes

    # Numbers

    def define(self, tokens: Sequence[Token], texts: Sequence[str]) -> None:
        """Take what a name stands for: `auto tmp5 = x0;`. What it is assigned later is not known."""
        if "=" not in texts:
            return
        k = texts.index("=")
        name = texts[k - 1] if k and tokens[k - 1].kind == "name" else ""
        if name and name not in self.pointers:
            is_new = k == 2 and texts[0] in ("auto", "int64_t", "int32_t", "int") and name not in self.changing
            self.values[name] = (
                number_of_tokens(tokens[k + 1 :], self.values)
                if is_new
                else unknown_number((name, tokens[k].line, self.at))
            )
            self.ranges.pop(name, None)

    def number_until(self, ends: Sequence[str]) -> Linear:
        """Read an expression of integers up to one of some tokens."""
        start, self.at = self.at, self.end_of(self.at, ends)
        self.line(self.tokens[start : self.at])
        return number_of_tokens(self.tokens[start : self.at], self.values)
