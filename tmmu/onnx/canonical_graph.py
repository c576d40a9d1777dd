"""One form for graphs that differ in what a rewriter chooses anew in each run: order, names that it made, attributes.

ONNX Runtime keeps nodes and attributes in hash tables. Two sessions for one file therefore write the same graph with
other numbers in the names of what they added, and with independent nodes in another order. Here the nodes come depth
first from the outputs, as ONNX Runtime itself orders them, an operand before the next; a name that the model's file
does not have is made of the node's place. spec: T10.17
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import onnx

from tmmu.onnx.naming import bodies_of, node_ids

SUFFIX = "_nchwc"
"""What ONNX Runtime adds to the name of a result to name a node in its own layout that makes it."""


def canonicalize(model: onnx.ModelProto, original: onnx.GraphProto) -> None:
    """Bring a rewritten model into its one form; `original` is the graph that it was made of. O(model).

    Statements about shapes and texts for people are dropped.
    """
    known = set(_list_names(original))
    taken = set(known)
    imports = sorted(model.opset_import, key=lambda each: each.domain)
    del model.opset_import[:]
    model.opset_import.extend(imports)
    graphs = [model.graph]
    for graph in graphs:  # grows
        order = _order_nodes(graph)
        nodes = [onnx.NodeProto.FromString(graph.node[k].SerializeToString()) for k in order]
        del graph.node[:]
        graph.node.extend(nodes)
        for field in ("value_info", "quantization_annotation", "metadata_props", "doc_string"):
            graph.ClearField(field)
        for node in graph.node:
            _tidy(node, known)
        _rename(graph, known, taken)
        graphs.extend(body for node in graph.node for _, body in bodies_of(node))


def _list_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of all nodes and values of a graph and its bodies."""
    graphs = [graph]
    for each in graphs:  # grows
        yield from (value.name for value in (*each.input, *each.output))
        yield from _list_stored(each)
        for node in each.node:
            yield from (node.name, *node.output)
            graphs.extend(body for _, body in bodies_of(node))


def _list_stored(graph: onnx.GraphProto) -> list[str]:
    return [tensor.name for tensor in graph.initializer] + [each.values.name for each in graph.sparse_initializer]


def _order_nodes(graph: onnx.GraphProto) -> list[int]:
    """Return the nodes depth first from the outputs. Those that no output needs come last, in their order."""
    makers = {name: k for k, node in enumerate(graph.node) for name in node.output if name}
    roots = [makers[value.name] for value in graph.output if value.name in makers]
    found: dict[int, None] = {}
    for root in (*roots, *range(len(graph.node))):
        work = [(root, False)]
        while work:
            k, done = work.pop()
            if k in found:
                continue
            if done:
                found[k] = None
                continue
            work.append((k, True))
            work.extend((makers[name], False) for name in reversed(_list_reads(graph.node[k])) if name in makers)
    return list(found)


def _list_reads(node: onnx.NodeProto) -> list[str]:
    """Return what a node reads, and what its bodies name, which includes what they capture."""
    reads = list(node.input)
    graphs = [body for _, body in bodies_of(node)]
    for graph in graphs:  # grows
        for inner in graph.node:
            reads += inner.input
            graphs.extend(body for _, body in bodies_of(inner))
        reads += (value.name for value in graph.output)
    return reads


def _tidy(node: onnx.NodeProto, known: Collection[str]) -> None:
    """Sort a node's attributes, and drop a name that the rewriter has made."""
    attributes = sorted(node.attribute, key=lambda attribute: attribute.name)
    del node.attribute[:]
    node.attribute.extend(attributes)
    node.ClearField("metadata_props")
    node.ClearField("doc_string")
    if node.name not in known and node.name.removesuffix(SUFFIX) not in known:
        node.ClearField("name")


def _rename(graph: onnx.GraphProto, known: Collection[str], taken: set[str]) -> None:
    """Give what the rewriter has made in a graph a name by its node: its results by writer, weights by first reader.

    No name is given twice in a model: `taken` has those of all its graphs. Stored tensors are put into the order of
    their first reader; those that nothing in the graph reads come first.
    """
    stored, names = set(_list_stored(graph)), dict[str, str]()
    first: dict[str, None] = {}

    def name_after(old: str, new: str) -> None:
        if old and old not in known and old not in names:
            while new in taken:
                new += "'"
            taken.add(new)
            names[old] = new

    for node, place in zip(graph.node, node_ids(graph, ""), strict=True):
        for k, read in enumerate(_list_reads(node)):
            if read in stored:
                first[read] = None
                name_after(read, f"{place}.{k}")
        for k, result in enumerate(node.output):
            name_after(result, f"{place}:{k}" if k else place)
    _apply(graph, names)
    rank = {names.get(name, name): k for k, name in enumerate(first)}
    dense = sorted(graph.initializer, key=lambda tensor: (rank.get(tensor.name, -1), tensor.name))
    copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in dense]
    del graph.initializer[:]
    graph.initializer.extend(copies)


def _apply(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename values in a graph and in all of its bodies, which may capture them."""
    graphs = [graph]
    for each in graphs:  # grows
        for value in (*each.input, *each.output, *each.initializer):
            value.name = names.get(value.name, value.name)
        for sparse in each.sparse_initializer:
            sparse.values.name = names.get(sparse.values.name, sparse.values.name)
        for node in each.node:
            for k, name in enumerate(node.input):
                node.input[k] = names.get(name, name)
            for k, name in enumerate(node.output):
                node.output[k] = names.get(name, name)
            graphs.extend(body for _, body in bodies_of(node))
