"""Every mutant of a module: its source with one place changed, each with a name that lines added above do not change.

Comparisons, arithmetic, boolean operators, constants, returns, statements and the SMT text in string literals are
changed, as programmers get them wrong: a bound off by one, a sign, a condition left out, a step not taken. What is
written for people (docstrings, messages) and for type checkers is left alone.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple


class Mutant(NamedTuple):
    """One changed place: `name` tells it from all others of its file, `place` counts the changes of its module."""

    name: str
    line: int
    place: int
    text: str

    @property
    def source(self) -> str:
        """The changed module, written when it is asked for: a module has hundreds of mutants."""
        tree = ast.parse(self.text)
        for _ in islice(_places(tree), self.place + 1):
            pass  # the generator stands where this place is changed, and changes it back only as it goes on
        return ast.unparse(tree)


COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
SMT = {
    "(<": ("(<=",), "(<=": ("(<",), "(>": ("(>=",), "(>=": ("(>",), "(and": ("(or",), "(or": ("(and",),
    "(+": ("(-",), "(-": ("(+",), "(=": ("(distinct",), "(distinct": ("(=",), "(not": ("(and",),
}  # fmt: skip
_HEAD = re.compile(r"\((?:<=?|>=?|and|or|\+|-|=|distinct|not)(?=\s)")
LONGEST = 100
"""The most characters of a place that a name quotes."""


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module's source, in the order of its places. Names are made unique by counting."""
    found: list[Mutant] = []
    seen: Counter[str] = Counter()
    for place, (where, node, old, new) in enumerate(_places(ast.parse(source))):
        plain = f"{where}: {old} → {new}"
        seen[plain] += 1
        name = plain if seen[plain] == 1 else f"{plain} ({seen[plain]})"
        found.append(Mutant(name, node.lineno, place, source))
    return found


def _places(tree: ast.Module) -> Iterator[tuple[str, ast.stmt | ast.expr, str, str]]:
    """Change each place in turn, yield while it is changed, and change it back."""
    for where, parent, field, index, node in _walk(tree):
        quoted = parent if isinstance(node, ast.Constant) and _quotable(parent) else node
        for replacement in _replacements(node):
            old = _said(quoted)
            _put(parent, field, index, replacement)
            yield where, node, old, _said(replacement if quoted is node else quoted)
            _put(parent, field, index, node)


def _quotable(parent: ast.AST) -> bool:
    """Whether a name quotes what a constant stands in: "n - 1" tells more than "1", and tells when it has changed."""
    return isinstance(parent, ast.expr) and len(ast.unparse(parent)) <= LONGEST


Node = ast.stmt | ast.expr


def _walk(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str, int | None, Node]]:
    """Every statement and expression that may be changed, with the function it stands in and where it hangs."""
    work: list[tuple[str, ast.AST]] = [("module", tree)]
    while work:
        where, parent = work.pop()
        inner: list[tuple[str, ast.AST]] = []
        for field, value in ast.iter_fields(parent):
            if (type(parent), field) in LEFT_ALONE or field in ("annotation", "returns", "decorator_list"):
                continue
            items = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for index, item in items:
                if not isinstance(item, ast.AST) or _for_people(item) or _an_assertion(item):
                    continue
                if isinstance(item, (ast.stmt, ast.expr)):
                    yield where, parent, field, index, item
                name = _name(parent, item)
                inner.append((where if name is None else name if where == "module" else f"{where}.{name}", item))
        work.extend(reversed(inner))


def _name(parent: ast.AST, item: ast.AST) -> str | None:
    """What a function, a class, a constant of a module or a field of a class is called."""
    match item:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return ast.unparse(target).strip("()") if isinstance(parent, ast.Module | ast.ClassDef) else None
    return None


LEFT_ALONE = {(ast.Raise, "exc"), (ast.Assert, "msg"), (ast.Assert, "test")}
"""Fields in which a change is for people or for type checkers alone."""


def _for_people(item: ast.AST) -> bool:
    """Docstrings, formatted messages, imports, and what an obligation is called."""
    match item:
        case ast.Expr(value=ast.Constant(value=str())) | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.AnnAssign(value=None):
            return True
        case ast.Assign(targets=[ast.Name(id="SENTENCE" | "NAME" | "__all__")]):
            return True
    return False


def _an_assertion(item: ast.AST) -> bool:
    """`strict=True` of a `zip`: it never decides anything where the program is right."""
    return isinstance(item, ast.keyword) and item.arg == "strict"


def _replacements(node: Node) -> Iterator[Node]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right):
            for other in COMPARISONS[type(op)]:
                yield ast.Compare(left, [other()], right)
        case ast.Compare(left=left, ops=ops, comparators=right):
            for k, op in enumerate(ops):
                yield ast.Compare(left, [*ops[:k], COMPARISONS[type(op)][0](), *ops[k + 1 :]], right)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC and not (_text(left) or _text(right)):
            yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for k in range(len(values)):
                rest = [*values[:k], *values[k + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand) | ast.UnaryOp(op=ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str(value)) if value.lstrip().startswith(("(", ";")):
            yield from map(ast.Constant, _smt(value))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in CALLS:
            yield ast.Call(ast.Name(CALLS[name]), args, keywords)
        case ast.Return(value=ast.expr() as value) if not _nothing(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr() | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
        case ast.If(test=test, body=body, orelse=orelse):
            yield ast.If(ast.Constant(False), body, orelse)
            if not isinstance(test, ast.Compare | ast.BoolOp):
                yield ast.If(ast.Constant(True), body, orelse)
        case _:
            return


def _smt(text: str) -> Iterator[str]:
    """The text of definitions or rows with one operator changed, comments apart."""
    for found in _HEAD.finditer(text):
        if ";" in text[text.rfind("\n", 0, found.start()) + 1 : found.start()]:
            continue
        for other in SMT[found[0]]:
            yield text[: found.start()] + other + text[found.end() :]


def _nothing(node: ast.expr) -> bool:
    """Is this None, or False, which nobody tells from it?"""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _text(node: ast.expr) -> bool:
    """Is this surely a string?"""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _said(node: ast.AST) -> str:
    """A node as one line."""
    if isinstance(node, ast.Pass):
        return "nothing"
    if isinstance(node, ast.If):
        return f"if {_short(ast.unparse(node.test))}"
    return _short(ast.unparse(node))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]}…{line[-LONGEST // 2 :]}"
