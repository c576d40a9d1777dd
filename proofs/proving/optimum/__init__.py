"""Proofs that no placement of an arena's storages ends lower, checked by VeriPB.

The verifier derives the formula from the plan (`formula`). The proof that it has no solution may come from any
pseudo-Boolean solver that writes VeriPB's format, else one is searched for (`refutation`). What counts is what VeriPB,
a checker by other people (Gocht and Nordström, "Certifying Parity Reasoning Efficiently Using Pseudo-Boolean Proofs",
AAAI 2021), answers of formula and proof (`veripb`). spec: V5.6, V5.7, V5.8
"""
