"""SMT-LIB as text: expressions, definitions that are checked to end, and calls on written-out lists unfolded.

Solvers and lemmas both import it; it imports neither. spec: V4.8, V4.10
"""
