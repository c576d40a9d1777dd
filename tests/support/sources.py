"""Source files as trees, each parsed once: several tests read all of `tmmu` and `proofs`.

Trees are kept, a million objects, where Python's collector does not look through them.
"""

from __future__ import annotations

import ast
import gc
from functools import lru_cache


@lru_cache(maxsize=1024)
def tree(source: str) -> ast.Module:
    """The tree of a module's text. It is shared and not to be changed."""
    return ast.parse(source)


@lru_cache(maxsize=1024)
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a module's tree, in the order of `ast.walk`."""
    found = tuple(ast.walk(tree(source)))
    gc.freeze()
    return found
