"""Prove a plan: obligations, their certificate, lemmas, solvers, the optimum, and the kernel in Coq."""
