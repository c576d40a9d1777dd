"""What is proved once, for all inputs: lists that solvers walk, what follows from them, and how that is shown.

`chains` are the functions that are evaluated on plans, `properties` say plainly what they mean; `tenancy`, `layout`,
`level`, `holding`, `tiling` and `column` are the lemmas between the two. `descent` and `induction` check what no solver
does: that recursion ends, and that a proof by induction is one. `at_use` proves the lemmas when they are first needed.
spec: V4.3, V4.8
"""
