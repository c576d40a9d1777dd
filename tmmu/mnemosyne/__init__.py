"""Mnemosyne (document 002): vectors in mapped files, stored as differences and sealed.

`VectorStore` keeps vectors: `store` and `open_store` read and add them, `store_index` finds single ones. `regions` maps
files into aligned ranges of the address space and keeps them within 7/10 of memory. `faults` turns a truncated file
into an error. `replacement` chooses the tiles to evict, and `hit_rates` compares that choice with other policies.
`delta` stores vectors as differences, and `delta_figures` computes the document's figures about them. `sealed_log` is a
file of records encrypted with AES-GCM. `sealed_format` defines its bytes, and `keys` reads keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tmmu.mnemosyne.store import VectorStore

__all__ = ["VectorStore"]


def __getattr__(name: str) -> Any:
    """Import `VectorStore` when it is used: the other modules need less."""
    if name == "VectorStore":
        from tmmu.mnemosyne.store import VectorStore

        return VectorStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
