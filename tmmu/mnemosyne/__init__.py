"""Mnemosyne (document 002): vectors in mapped files, stored as differences, sealed.

`regions` maps files into aligned ranges of the address space and keeps them within 7/10 of memory, `faults` turns a
truncated file into an error, `replacement` chooses which tiles go, `hit_rates` compares that with other policies.
`delta` stores vectors as differences, and `delta_figures` computes the document's figures about them. `sealed_log` is
a file of records under AES-GCM; `sealed_format` says what its bytes are, and `keys` where keys come from.
"""
