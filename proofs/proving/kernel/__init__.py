"""The checker that Coq has proved: its definitions and proofs (`*.v`), and the way from a plan to its answer.

`Check.v` is what is evaluated, `Safe.v` what a safe plan is, `Run.v` what running one means; `Theorems.v` states that
the first implies the others, and that is proved, without axioms. `make kernel` compiles it and makes a program of it.
`evidence` writes a plan as the columns that both read, `program` asks the program, `coq_file` writes a plan as a file
that Coq itself can check. spec: V6.1 to V6.5
"""
