"""Read the output of TLC with `-tool`: framed messages with a code and a class, as one `TLCReport`.

A frame is `@!@!@STARTMSG code:class @!@!@`, text, `@!@!@ENDMSG code @!@!@`; frames may nest. TLC's `EC.java` explains
the codes. TLC 2.18 names a violated invariant, but not a violated temporal property.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

START = re.compile(r"^@!@!@STARTMSG (\d+):(\d) @!@!@$")
END = re.compile(r"^@!@!@ENDMSG (\d+) @!@!@$")
PARSED = re.compile(r"^Parsing file (.+)$")
COVERED = re.compile(r"^<(\w+) line \d+, .*>: (\d+):(\d+)$")
STATE = re.compile(r"^(\d+): <([^\n]*)>\n?(.*)$", re.DOTALL)

SUCCESS, FINISHED = 2193, 2186
STATE_PRINTED, STUTTERING, BACK_TO = 2217, 2218, 2122
INVARIANT, INVARIANT_INITIALLY, DEADLOCK = 2110, 2107, 2114
ACTION, INITIAL, STATISTICS, DEPTH = 2772, 2773, 2199, 2194
ERROR, BUG, WARNING = 1, 2, 3


@dataclass(frozen=True)
class TLCState:
    """A state of a counterexample: the action that led to it and the value of each variable, as TLC writes it."""

    number: int
    action: str
    values: dict[str, str]


@dataclass
class TLCReport:
    """The output of one run of TLC."""

    codes: list[int] = field(default_factory=list)
    parsed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    initial_states: int = 0
    distinct_states: int | None = None
    depth: int | None = None
    invariant: str | None = None
    states: list[TLCState] = field(default_factory=list)
    ending: str = ""
    printed: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether TLC itself reports that it found no error."""
        return SUCCESS in self.codes and FINISHED in self.codes


def read_output(output: str) -> TLCReport:
    """Read the standard output of a run. Truncated or unknown messages are ignored, and never count as success."""
    report = TLCReport()
    frames: list[tuple[int, int, list[str]]] = []
    for line in output.splitlines():
        if (start := START.match(line)) is not None:
            frames.append((int(start[1]), int(start[2]), []))
        elif (end := END.match(line)) is not None and frames and frames[-1][0] == int(end[1]):
            code, kind, text = frames.pop()
            _take(report, code, kind, "\n".join(text))
        elif frames:
            frames[-1][2].append(line)
        elif (parsed := PARSED.match(line)) is not None:
            report.parsed.append(parsed[1])
        else:
            report.printed += f"{line}\n"
    return report


def _take(report: TLCReport, code: int, kind: int, text: str) -> None:
    report.codes.append(code)
    if kind in (ERROR, BUG):
        report.errors.append(text)
    elif kind == WARNING:
        report.warnings.append(text)
    if code in (INVARIANT, INVARIANT_INITIALLY):
        named = re.search(r"Invariant (\S+) is violated", text)
        report.invariant = named[1] if named else None
    elif code in (ACTION, INITIAL) and (covered := COVERED.match(text.split("\n")[0])) is not None:
        count = int(covered[3])
        if code == INITIAL:
            report.initial_states += count
        else:
            report.taken[covered[1]] = report.taken.get(covered[1], 0) + count
    elif code == STATISTICS and (states := re.search(r"([\d,]+) distinct states found", text)) is not None:
        report.distinct_states = int(states[1].replace(",", ""))
    elif code == DEPTH and (depth := re.search(r"graph search is (\d+)", text)) is not None:
        report.depth = int(depth[1])
    elif code == STATE_PRINTED and (state := STATE.match(text)) is not None:
        report.states.append(TLCState(int(state[1]), _action(state[2]), _values(state[3])))
    elif code == STUTTERING:
        report.ending = "and nothing more happens"
    elif code == BACK_TO and (back := re.search(r"(\d+): <([^\n]*)>", text)) is not None:
        report.ending = f"and back to state {back[1]}, by {_action(back[2])}"


def _action(text: str) -> str:
    """Return the name of an action: `Take line 3, col …` is Take, and `Initial predicate` is itself."""
    return text.split(" line ")[0]


def _values(text: str) -> dict[str, str]:
    """Return the variables of `/\\ name = value` lines. A value may continue over several lines."""
    parts = re.split(r"(?:^|\n)/\\ (\w+) = ", "\n" + text)
    values = {name: " ".join(value.split()) for name, value in zip(parts[1::2], parts[2::2], strict=True)}
    if not values and (single := re.match(r"(\w+) = (.*)", text.strip(), re.DOTALL)) is not None:
        values[single[1]] = " ".join(single[2].split())  # a specification with one variable
    return values


def format_trace(report: TLCReport) -> list[str]:
    """Return the counterexample for readers: all values of the first state, then each step with its changes."""
    lines: list[str] = []
    before: dict[str, str] = {}
    for state in report.states:
        lines.append(f"{state.number}  {state.action}")
        lines += [f"     {name} = {value}" for name, value in state.values.items() if before.get(name) != value]
        before = state.values
    return [*lines, report.ending] if report.ending else lines
