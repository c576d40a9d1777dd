"""Run SMTInterpol, a third solver, and the checker that reads its proofs without any search.

Solver and checker come in one archive, by other people than Z3 and cvc5. The solver writes its proof of each query. The
checker reads the query and the proof and checks every step: a resolution, or an instance of one of a few axioms. A step
that is not checked is a hole, and a proof with a hole does not count here. Each program runs in a separate process,
with a limit on its time and memory. spec: V4.12
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import IO, NamedTuple

from proofs.tools import java, maven
from tmmu.core import children

ARTIFACT = maven.Artifact(
    "SMTInterpol", "de.uni-freiburg.informatik.ultimate", "smtinterpol", "2.5-1388-ga5a4ab0c",
    "5f3277cb94546e0305a6bb1c29752f5ad30857f08bc6d82c6ba60798d1f869f4",
)  # fmt: skip
CHECKER = "de.uni_freiburg.informatik.ultimate.smtinterpol.proof.checker.Main"
"""The checker's class in the archive. The archive itself runs the solver."""
MACHINE = ("-Xmx1g", "-Xss64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for Java: proofs are deep, and most are found before a compiler has warmed up."""
MARGIN_S = 30.0
"""Seconds for the solver in addition to those for its queries, to start Java and print proofs."""
CHECK_S = 120
"""Seconds for the checker, which takes a few at most."""
ANSWER = re.compile(r"(unsat|sat|unknown)$|\(error")
"""The lines of the solver's output that are not proofs."""
VALID = re.compile(r"valid\nholes=0\nassertions=\d+\ndefinefuns=\d+\naxioms=(\d+)\nresolutions=(\d+)\n")
"""The checker's output for one proof that has no hole and ends in a contradiction."""


class ProofCheck(NamedTuple):
    """The checker's result: the number of steps of the proofs, or why they do not count, and whether one is wrong."""

    steps: int
    failure: str = ""
    wrong: bool = False


class SMTInterpol(NamedTuple):
    """The paths of the archive and of a Java."""

    java: str
    archive: Path

    def prove(self, script: Path, queries: int, proofs: Path, timeout_s: float) -> str:
        """Write the proofs of a script's queries into the file `proofs`. Return "", or the reason why there are none.

        Parameters
        ----------
        script
            A file that sets `:produce-proofs` and has `(get-proof)` after each `(check-sat)`.
        queries
            The number of `(check-sat)` commands.
        timeout_s
            Seconds for each query.
        """
        options = ("-no-success", "-q", "-t", str(int(1000 * timeout_s)))
        with open(proofs, "w+", encoding="utf-8") as file:
            failure = self._run(
                ("-jar", str(self.archive), *options, str(script)), file, queries * timeout_s + MARGIN_S
            )
            file.seek(0)
            answers = [line.strip() for line in file if ANSWER.match(line)]
        if failure:
            return failure
        unproved = next((line for line in answers if line != "unsat"), None)
        if unproved is not None:
            return f"SMTInterpol answers {unproved[:60]!r}"
        return "" if len(answers) == queries else f"SMTInterpol answers {len(answers)} of {queries} queries"

    def check(self, script: Path, queries: int, proofs: Path) -> ProofCheck:
        """Run the checker on a script and the proofs of its queries.

        The result is a failure if any proof is wrong, has a hole, is missing, or proves another query.
        """
        with open(f"{proofs}.checked", "w+", encoding="utf-8") as file:
            failure = self._run(("-cp", str(self.archive), CHECKER, str(script), str(proofs)), file, CHECK_S)
            file.seek(0)
            printed = file.read()
        os.unlink(file.name)
        found = VALID.findall(printed)
        if failure or len(found) != queries or VALID.sub("", printed):
            wrong = "invalid\n" in printed
            verdict = "invalid" if wrong else "holey" if "holey\n" in printed else "nothing that counts"
            return ProofCheck(0, failure or f"the checker answers {verdict}", wrong)
        return ProofCheck(sum(int(axioms) + int(resolutions) for axioms, resolutions in found))

    def _run(self, arguments: tuple[str, ...], out: IO[str], timeout_s: float) -> str:
        """Run the archive with its output going to a file. Return "", or what went wrong."""
        command = [self.java, *MACHINE, *arguments]
        try:
            done = children.run(command, stdout=out, stderr=subprocess.DEVNULL, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return f"it did not end within {timeout_s:g} s"
        except OSError as error:
            return f"Java cannot be started: {error.strerror}"
        return f"it ended with exit code {done.returncode}" if done.returncode else ""


def find_smtinterpol() -> SMTInterpol:
    """Return the solver, after fetching it if it is not kept. Raises `MissingPackage` or `maven.Unfetchable`."""
    return SMTInterpol(java.find_java(), maven.fetch_archive(ARTIFACT))
