"""What lemmas are made of: statements, inductions over lists, transition systems; and how they are proved and refuted.

`induction` and `proofs.proving.smt.descent` check what no solver does: that a proof by induction is one, and that
recursion ends. spec: V4.8, V4.9
"""
