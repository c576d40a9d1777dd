"""The domains of operators, as the verifier compares and names them."""

from __future__ import annotations

KNOWN_DOMAINS = frozenset({"", "ai.onnx"})
"""The names of the domain of ONNX's own operators."""

GRADIENTS = "tmmu.grad"
"""The domain of the gradient operators of ai.onnx: operand 0 is the gradient of the forward result (spec: M2.4)."""

COLLECTIVES = "tmmu.mesh/"
"""The prefix of the domains of collectives, one domain for each axis. An all-reduce sums element by element."""


def is_covered(domain: str) -> bool:
    """Whether the tables cover the operators of `domain` (spec: V2.1)."""
    return domain in KNOWN_DOMAINS or domain == GRADIENTS or domain.startswith(COLLECTIVES)


def plain(domain: str) -> str:
    """A domain as steps are compared by: empty for ai.onnx.

    >>> plain("ai.onnx"), plain("tmmu.grad")
    ('', 'tmmu.grad')
    """
    return "" if domain in KNOWN_DOMAINS else domain


def qualify_name(domain: str, op: str) -> str:
    """The operator as assumptions name it: `domain::op`, or `op` of no domain. spec: X1.5"""
    return f"{domain}::{op}" if domain or "::" in op else op
