"""Find the line of source code that made each node of an ONNX model, as PyTorch's exporters record it. spec: RP1.17

The newer exporter writes a Python traceback, the innermost call last, into the metadata of a node. The older one writes
calls into the node's text, the innermost first. The line of the user's program is the innermost one outside of
installed packages.
"""

from __future__ import annotations

import os
import re

import onnx

from tmmu.onnx import reading
from tmmu.onnx.naming import bodies_of, node_ids, within

TRACE = "pkg.torch.onnx.stack_trace"
"""The key of a node's metadata that has the traceback."""
LIMIT = 1 << 16
"""The most characters of a trace that are read, from its inner end."""
FRAME = re.compile(r'File "([^"\n]+)", line ([0-9]{1,9}), in ')
CALL = re.compile(r"^(?! )([^\n(]+)\(([0-9]{1,9})\): ", re.MULTILINE)
PATH = re.compile(r"[/\\]")
INSTALLED = re.compile(r"[/\\](site-packages|dist-packages|torch)[/\\]")


def list_sources(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return `file:line` for the nodes of the model at `path` that record it, by name. Raises as `reading.read`.

    O(model).
    """
    found: dict[str, str] = {}
    work = [("", reading.read(path)[0].graph)]
    while work:
        scope, graph = work.pop()
        for name, node in zip(node_ids(graph, scope), graph.node, strict=True):
            if (source := find_source(node)) is not None:
                found[name] = source
            work += [(within(name, attribute), body) for attribute, body in bodies_of(node)]
    return found


def find_source(node: onnx.NodeProto) -> str | None:
    """Return `file:line` of the user's program that made a node, the file without its folders; None if not recorded."""
    trace = next((each.value for each in node.metadata_props if each.key == TRACE), "")
    calls = FRAME.findall(trace[-LIMIT:])[::-1] or CALL.findall(node.doc_string[:LIMIT])
    if not calls:
        return None
    file, line = next((call for call in calls if not INSTALLED.search(call[0])), calls[0])
    return f"{PATH.split(file)[-1]}:{line}"
