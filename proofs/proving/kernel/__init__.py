"""Write a plan for the checker that Coq has proved (`*.v`), and read its answer.

`Check.v` is evaluated, `Safe.v` defines a safe plan, `Run.v` the machines that run one, and `Shapes.v` the plan at
other shapes. `Theorems.v` states that the first implies the others, which is proved without axioms. `make kernel`
compiles it and makes a program of it. `Cbor.v` decodes plan files, and `PlanFile.v` reads from one the plan that it
states. `Sets.v` is about programs that run in turn in one memory, and `SetFile.v` reads such a set from their files.
`evidence` writes the words beside a file, `program` asks the program, `sets` asks it about a set, and `coq_file` writes
a plan as a file that Coq itself can check. spec: V6.1 to V6.5, V6.16, V6.24
"""
