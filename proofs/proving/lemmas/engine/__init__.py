"""Represent lemmas as statements, inductions over lists and transition systems, and prove and refute them.

`induction` and `proofs.proving.smt.descent` check what no solver checks: that a proof by induction is one, and that
recursion ends. spec: V4.8, V4.9
"""
