"""Read and write the configuration file of TLC for one run: a specification, its constants and the checks.

TLC takes an unknown keyword after a list of invariants for another invariant (trap 10), and it only warns if a
constraint or a symmetry makes an answer about liveness worthless (trap 9). This reader therefore accepts five keywords,
and neither of those two is among them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ONE = {"SPECIFICATION": "SPECIFICATION", "CHECK_DEADLOCK": "CHECK_DEADLOCK"}
MANY = {
    "CONSTANT": "CONSTANTS", "CONSTANTS": "CONSTANTS",
    "INVARIANT": "INVARIANTS", "INVARIANTS": "INVARIANTS",
    "PROPERTY": "PROPERTIES", "PROPERTIES": "PROPERTIES",
}  # fmt: skip
DEADLOCK = "Deadlock"
"""The name of the absence of deadlock among the checks."""


class WrongConfig(Exception):
    """A configuration file is not of the form above. The message names the line."""


@dataclass(frozen=True)
class Config:
    """One question to TLC."""

    specification: str
    constants: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    deadlock: bool = False

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of all checks."""
        return (*self.invariants, *self.properties, *((DEADLOCK,) if self.deadlock else ()))

    def only(self, check: str, temporal: bool = False) -> Config:
        """Return the same question with only one check, so that a violation can only be of this one.

        A name that is not checked here is added as a property if `temporal`, and otherwise as an invariant.
        """
        alone = replace(self, invariants=(), properties=(), deadlock=False)
        if check == DEADLOCK:
            return replace(alone, deadlock=True)
        if temporal or check in self.properties:
            return replace(alone, properties=(check,))
        return replace(alone, invariants=(check,))

    def text(self) -> str:
        """Return the text that TLC reads."""
        lines = [f"SPECIFICATION {self.specification}"]
        for keyword in ("constants", "invariants", "properties"):
            names = getattr(self, keyword)
            lines += [keyword.upper(), *(f"    {name}" for name in names)] if names else []
        return "\n".join([*lines, f"CHECK_DEADLOCK {'TRUE' if self.deadlock else 'FALSE'}", ""])


def read_config(text: str) -> Config:
    """Read a file with one keyword a line. The entries of a list are on indented lines below it, one a line.

    Raises `WrongConfig`.
    """
    found: dict[str, list[str]] = {}
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("\\*")[0].split()
        if not words:
            continue
        if not line[0].isspace():
            keyword, rest = words[0], words[1:]
            current = ONE.get(keyword) or MANY.get(keyword) or ""
            if not current:
                raise WrongConfig(f"line {number}: {keyword!r} is not one of {', '.join([*ONE, *MANY])}")
            if current in found:
                raise WrongConfig(f"line {number}: {current} occurs twice")
            found[current] = []
            if keyword in ONE and len(rest) != 1:
                raise WrongConfig(f"line {number}: {keyword} takes one word")
            if keyword in MANY and rest:
                raise WrongConfig(f"line {number}: the entries of {keyword} must be on indented lines below it")
            found[current] += rest
        elif not current or current in ONE:
            raise WrongConfig(f"line {number}: an indented line must belong to a list")
        elif current != "CONSTANTS" and len(words) != 1:
            raise WrongConfig(f"line {number}: expected one name")
        else:
            found[current].append(" ".join(words))
    return _config(found)


def _config(found: dict[str, list[str]]) -> Config:
    if "SPECIFICATION" not in found:
        raise WrongConfig("SPECIFICATION is missing")
    if found.get("CHECK_DEADLOCK") not in (["TRUE"], ["FALSE"]):
        raise WrongConfig("CHECK_DEADLOCK is missing: add it with TRUE or FALSE")
    constants, invariants, properties = (tuple(found.get(key, ())) for key in ("CONSTANTS", "INVARIANTS", "PROPERTIES"))
    deadlock = found["CHECK_DEADLOCK"] == ["TRUE"]
    config = Config(found["SPECIFICATION"][0], constants, invariants, properties, deadlock)
    if not config.checks:
        raise WrongConfig("nothing is checked")
    if len(set(config.checks)) != len(config.checks):
        raise WrongConfig("a name is checked twice")
    return config
