"""Compute the shape and element type of every tensor of an ONNX model, independently of the importer.

The importer's shapes rest on ONNX's own inference and reference evaluator. These rules are written from the operators'
specification and use neither, so that an error of either shows as a disagreement. spec: V3.7

- `call` is the input of a rule, and `table` finds the rule of an operator by the version whose text it implements;
- each family of operators has a file of rules;
- `stored` reads stored tensors, and `values` and `evaluator` compute the numbers that shapes depend on;
- `reading` takes the nodes of a model in order of execution and compares.
"""
