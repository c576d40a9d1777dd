"""`tmmu verify`: verify-plan by another name, with the same options and exit codes. spec: C1.1"""

from __future__ import annotations

from proofs.verify.command import command as verify

__all__ = ["verify"]
