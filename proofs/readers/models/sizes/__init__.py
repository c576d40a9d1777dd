"""The shape and element type of every tensor of an ONNX model, worked out by the verifier itself.

The importer's shapes rest on ONNX's own inference and reference evaluator. What is here is written from the operators'
specification and uses neither, so that what either gets wrong shows as a disagreement. spec: V3.7

- `call` is what a rule is given, `table` finds the rule of an operator by the version it was read from;
- the rules stand in a file for each family of operators;
- `stored` reads stored tensors, `values` and `evaluator` work out the numbers from which shapes are made;
- `reading` takes the nodes of a model in order of execution and compares.
"""
