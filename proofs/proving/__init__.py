"""How a plan is proved: obligations, their certificate, lemmas, solvers, the optimum, and the kernel in Coq."""
