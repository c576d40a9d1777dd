"""The shape of every tensor of an ONNX model: the one part of the importers that the checker rests on too.

A size is established from the operators' definitions and the user's bindings, on values of its own and never
on the user's graph; the shapes that the file states of its results are not used. The package imports onnx, NumPy and
the format layer, and nothing else of the project. spec: T10.1, D1.3

- `reading` and `functions` make a graph of a file, `structure` decides which name means which value;
- `binding` reads the user's bindings, `operators` infers one node's types, `folding` and `values` compute values;
- `bodies` handles If, Loop and Scan, `stated` holds what the file claims;
- `walk` goes through it all once, and `resolution` returns the result.
"""

from __future__ import annotations

from tmmu.onnx.naming import node_ids
from tmmu.onnx.resolution import Resolved, resolve

__all__ = ["Resolved", "node_ids", "resolve"]
