"""The text of a TLA+ module, taken apart into its definitions: for tests that look at what no run of TLC shows."""

from __future__ import annotations

import re

DEFINITION = re.compile(r"^(?:RECURSIVE .*\n)?(\w+)(?:\([^)]*\))? ==", re.MULTILINE)


def definitions(text: str) -> dict[str, str]:
    """Each definition of a module with its body, without comments.

    >>> definitions("Up == at' = 1\\nNext == Up \\\\* or not\\n====")
    {'Up': "at' = 1", 'Next': 'Up'}
    """
    bare = re.sub(r"\(\*.*?\*\)", "", re.sub(r"\\\*.*", "", text), flags=re.DOTALL)
    bare = re.split(r"^={4,}", bare, flags=re.MULTILINE)[0]
    found = list(DEFINITION.finditer(bare))
    ends = [*(match.start() for match in found[1:]), len(bare)]
    bodies = (bare[match.end() : end] for match, end in zip(found, ends, strict=True))
    cut = (re.split(r"^(?:-{4,}|THEOREM\b)", body, flags=re.MULTILINE)[0].strip() for body in bodies)
    return dict(zip((match[1] for match in found), cut, strict=True))


def never_in_next(text: str) -> set[str]:
    """Definitions that say what comes after a step, and that `Next` does not come to: TLC reports nothing of them.

    Properties are about steps as well, in `[][...]_vars`; they are none.
    """
    bodies = definitions(text)
    reached, waiting = set(), ["Next"]
    while waiting:
        name = waiting.pop()
        if name in bodies and name not in reached:
            reached.add(name)
            waiting += re.findall(r"\w+", bodies[name])
    return {name for name, body in bodies.items() if "'" in body and "[][" not in body} - reached
