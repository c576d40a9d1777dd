"""Prove that no placement of an arena's storages ends lower, by proofs that VeriPB checks.

The verifier derives the formula from the plan (`formula`). The proof that it has no solution may come from any
pseudo-Boolean solver that writes VeriPB's format; without one, `refutation` searches for it. Only the answer of VeriPB
about formula and proof counts (`veripb`). VeriPB is a checker by other people (Gocht and Nordström, "Certifying Parity
Reasoning Efficiently Using Pseudo-Boolean Proofs", AAAI 2021). spec: V5.6, V5.7, V5.8
"""
