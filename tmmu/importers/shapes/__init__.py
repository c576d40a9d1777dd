"""The shape of every tensor of an ONNX model: the one part of the importers that the checker trusts too.

A size is established from the operators' definitions and the user's bindings, on values of its own and never
on the user's graph; what the file says of its results is not believed. The package imports onnx, NumPy and the
format layer, and nothing else of the project. spec: T10.1, D1.3

- `reading` and `functions` make a graph of a file, `structure` says which name means which value;
- `binding` takes the user's word, `operators` asks for one node's types, `folding` and `values` for values;
- `bodies` knows If, Loop and Scan, `stated` holds what the file claims;
- `walk` goes through it all once, and `resolution` says what came of it.
"""

from __future__ import annotations

from tmmu.importers.shapes.naming import node_ids
from tmmu.importers.shapes.resolution import Resolved, resolve

__all__ = ["Resolved", "node_ids", "resolve"]
