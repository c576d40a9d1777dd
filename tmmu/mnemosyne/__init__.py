"""Mnemosyne (document 002): vectors in mapped files, stored as differences and sealed.

`regions` maps files into aligned ranges of the address space and keeps them within 7/10 of memory. `faults` turns a
truncated file into an error. `replacement` chooses the tiles to evict, and `hit_rates` compares that choice with other
policies. `delta` stores vectors as differences, and `delta_figures` computes the document's figures about them.
`sealed_log` is a file of records encrypted with AES-GCM. `sealed_format` defines its bytes, and `keys` reads keys.
"""
