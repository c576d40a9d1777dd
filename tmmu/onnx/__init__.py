"""The shape of every tensor of an ONNX model: the only part of the importers that the checker depends on too.

A size follows from the definitions of the operators and the bindings of the user; it is computed on separate values and
never on the graph of the user. The shapes that the file states for results are not used. The package imports only onnx,
NumPy and the format layer. spec: T10.1, D1.3

- `reading` and `functions` make a graph of a file, `structure` decides which value each name means;
- `binding` reads the bindings of the user, `operators` infers the types of one node, `folding` and `values` compute
  values;
- `bodies` handles If, Loop and Scan, `stated` holds the statements of the file;
- `walk` goes through the graph once, and `resolution` returns the result.
"""

from __future__ import annotations

from tmmu.onnx.naming import node_ids
from tmmu.onnx.resolution import Resolved, resolve

__all__ = ["Resolved", "node_ids", "resolve"]
