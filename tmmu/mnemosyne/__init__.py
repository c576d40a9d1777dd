"""Mnemosyne (document 002): vectors in files, mapped into memory.

`regions` maps files into aligned ranges of the address space and keeps them within 7/10 of memory, `faults` turns a
truncated file into an error, `replacement` chooses which tiles go, `hit_rates` compares that with other policies.
"""
