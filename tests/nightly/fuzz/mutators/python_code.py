"""Python wrappers as trees: statements and expressions are moved, repeated, removed and exchanged.

What is written is the text of a tree, so that it parses. Comments are lost with it, and Inductor's wrappers state their
origin in one: the first lines stay as they are.
"""

from __future__ import annotations

import ast
import copy
from random import Random

from tests.nightly.fuzz.mutators.texts import mutate_text

DEEPEST = 60
VALUES: tuple[object, ...] = (0, 1, -1, 1 << 31, 1 << 63, 1 << 64, "", "x", b"", None, True, 1.5, 1e400, ...)


def mutate_python(data: bytes, random: Random) -> bytes:
    """Change a few nodes of the tree, or the text if it is not Python."""
    if random.random() < 0.4:
        return mutate_text(data, random)
    try:
        text = data.decode()
        tree = ast.parse(text)
        for _ in range(random.choice((1, 1, 2, 3))):
            _change(tree, random)
        body = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, AttributeError, TypeError):
        return mutate_text(data, random)
    head = "".join(line for line in text.splitlines(keepends=True)[:40] if line.startswith("#"))
    return (head + body + "\n").encode(errors="replace")


def _change(tree: ast.Module, random: Random) -> None:
    blocks = [body for node in ast.walk(tree) for body in (getattr(node, "body", None),) if isinstance(body, list)]
    blocks = [body for body in blocks if body]
    if random.random() < 0.4 and blocks:
        one, other = random.choice(blocks), random.choice(blocks)
        at, kind = random.randrange(len(one)), random.randrange(3)
        if kind == 0:
            one.insert(at, copy.deepcopy(random.choice(other)))
        elif kind == 1 and len(one) > 1:
            del one[at]
        else:
            one[at] = copy.deepcopy(random.choice(other))
        return
    nodes = list(ast.walk(tree))
    places: list[tuple[ast.AST, str, int | None]] = []
    for node in nodes:
        for field, value in ast.iter_fields(node):
            places += [(node, field, None)] if isinstance(value, ast.expr) else []
            among = enumerate(value) if isinstance(value, list) else ()
            places += [(node, field, at) for at, each in among if isinstance(each, ast.expr)]
    if not places:
        return
    node, field, at = random.choice(places)
    expressions = [each for each in nodes if isinstance(each, ast.expr)]
    new = ast.Constant(random.choice(VALUES)) if random.random() < 0.3 else copy.deepcopy(random.choice(expressions))
    if sum(1 for _ in ast.walk(new)) > DEEPEST:
        return
    if at is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[at] = new
