"""Handle SMT-LIB as text: expressions, definitions that provably end, and unfolded calls on written-out lists.

Solvers and lemmas both import it; it imports neither. spec: V4.8, V4.10
"""
