"""Check the statements of a proof for VeriPB: each must be of a rule that VeriPB checks, so that nothing is assumed.

VeriPB has a rule `a` that adds a constraint without a proof. It ends with a warning and the exit code 0 then. So the
text of a proof is looked at before VeriPB checks it. The rules that are known here are those of refutations; a proof
with any other rule is not accepted, whatever VeriPB answers.

A proof of VeriPB's version 3.0 has a first line, and statements that end with `;`. A statement has the name of a rule,
with or without a label before it, and arguments. Further statements begin in it after `subproof`, and after `proofgoal`
and the name of the goal. Comments extend from `%` to the end of the line. spec: V5.10
"""

from __future__ import annotations

import re
from collections.abc import Iterator

RULES = (
    "f", "pol", "rup", "red", "pbc", "e", "i", "ia", "del", "deld", "delc", "core", "setlvl", "wiplvl", "is_deleted",
    "proofgoal", "qed",
)  # fmt: skip
"""The rules that a proof may use before its last three statements, each with subproofs or not."""

_HEADER = re.compile(rb"pseudo-Boolean proof version +3\.0[ \t]*(?:\r\n|\r|\n)")
_COMMENT = re.compile(rb"%[^\r\n]*")
_TOKEN = re.compile(r"[@$A-Za-z_][A-Za-z0-9_\[\]{}^-]*|#\d+|[-+]?\d+|\S")
_END = tuple(map(re.compile, ("output NONE", r"conclusion UNSAT(?: : \S+)?", "end pseudo-Boolean proof")))
"""The last three statements, with a space between tokens. No other conclusion and no output is accepted."""


def find_objection(proof: bytes) -> str | None:
    """Return why a proof is not a refutation that VeriPB checks step by step; None without an objection.

    VeriPB decides whether its steps are right. O(bytes).

    >>> head, end = b"pseudo-Boolean proof version 3.0\\n", b"output NONE; conclusion UNSAT; end pseudo-Boolean proof;"
    >>> find_objection(head + b"rup >= 1;" + end)
    >>> find_objection(head + b"a >= 1;" + end)
    "statement 1 is of the rule 'a', which VeriPB does not check or is not known here"
    """
    header = _HEADER.match(proof)
    if header is None:
        return "it does not begin as a proof of VeriPB's version 3.0"
    try:
        text = _COMMENT.sub(b" ", proof[header.end() :]).decode("ascii")
    except UnicodeDecodeError:
        return "it has characters that are not ASCII, outside of comments"
    *statements, rest = text.split(";")
    last = [" ".join(_TOKEN.findall(statement)) for statement in statements[-len(_END) :]]
    if rest.strip() or len(last) < len(_END) or not all(map(re.Pattern.fullmatch, _END, last)):
        return "it does not end with `output NONE`, `conclusion UNSAT` and `end pseudo-Boolean proof`"
    for number, statement in enumerate(statements[: -len(_END)], start=1):
        for rule in _rules(_TOKEN.findall(statement)):
            if rule not in RULES:
                return f"statement {number} is of the rule {rule!r}, which VeriPB does not check or is not known here"
    return None


def _rules(statement: list[str]) -> Iterator[str]:
    """Yield the names of the rules that begin in a statement, or the token in the place of a name."""
    at = 0
    while True:
        at += at < len(statement) and statement[at].startswith("@")
        rule = statement[at] if at < len(statement) else ""
        yield rule
        if rule == "proofgoal":
            at += 2
        elif "subproof" in statement[at:]:
            at = statement.index("subproof", at) + 1
        else:
            return
