"""What TLC 2.18 prints with `-tool`, in parts that tests put together, and a program that prints it in Java's place."""

from __future__ import annotations

from pathlib import Path

from proofs.model_check.config import Config
from proofs.model_check.judge import RunResult, judge
from proofs.model_check.manifest import SUCCESS, Run
from proofs.model_check.messages import read_output
from proofs.model_check.tlc import TLCOutcome

HERE = "/fresh"


def frame(code: int, kind: int, *lines: str) -> str:
    return "\n".join([f"@!@!@STARTMSG {code}:{kind} @!@!@", *lines, f"@!@!@ENDMSG {code} @!@!@", ""])


PARSED = f"Parsing file {HERE}/Toy.tla\nParsing file {HERE}/java/Naturals.tla\n"
TAKEN = frame(2772, 0, "<Take line 7, col 1 to line 7, col 4 of module Toy>: 0:3")
COVERAGE = (
    frame(2201, 0, "The coverage statistics at 2026-01-01")
    + frame(2773, 0, "<Init line 5, col 1 to line 5, col 4 of module Toy>: 2:2")
    + TAKEN
    + frame(2221, 0, "  line 7, col 9 to line 7, col 12 of module Toy: 9")
    + frame(2202, 0, "End of statistics.")
)
COUNTS = frame(2199, 0, "1,234 states generated, 1,000 distinct states found, 0 states left on queue.") + frame(
    2194, 0, "The depth of the complete state graph search is 8."
)
END = frame(2186, 0, "Finished in 3ms at (2026-01-01)")
NO_ERROR = frame(2193, 0, "Model checking completed. No error has been found.")
GOOD = PARSED + NO_ERROR + COVERAGE + COUNTS + END

STATES = (
    frame(2121, 1, "The behavior up to this point is:")
    + frame(2217, 4, "1: <Initial predicate>", "/\\ held = {}", "/\\ order = <<1,", "           2>>")
    + frame(2217, 4, "2: <Take line 7, col 1 to line 7, col 4 of module Toy>", "/\\ held = {1}", "/\\ order = <<1, 2>>")
)
VIOLATED = PARSED + frame(2110, 1, "Invariant Held is violated.") + STATES + COUNTS + END
BACK = frame(2122, 4, "1: <Take line 7, col 1 to line 7, col 4 of module Toy>")
LASSO = (
    PARSED
    + frame(2116, 1, "Temporal properties were violated.")
    + frame(2264, 1, "The following behavior constitutes a counter-example:")
    + frame(2217, 4, "1: <Initial predicate>", "at = 1")
    + BACK
    + END
)

QUESTION = Config("Spec", invariants=("TypeOK", "Held"), properties=("Ends",))


def run(expected: str = SUCCESS, question: Config = QUESTION) -> Run:
    """A run whose success has 1,000 states and depth 8."""
    alone = question if expected == SUCCESS else question.only(expected)
    pinned = (1000, 8) if expected == SUCCESS else (None, None)
    return Run("toy", "Toy", "model", Path("models"), "Toy", alone, expected, *pinned)


def judged(exit_code: int | None, output: str, expected: str = SUCCESS, question: Config = QUESTION) -> RunResult:
    """The judgement on a run that ended so."""
    return judge(run(expected, question), TLCOutcome(exit_code, read_output(output), 1.0, HERE, ""))
