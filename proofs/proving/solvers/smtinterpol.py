"""SMTInterpol, a third solver: its proofs are read again by a checker that searches for nothing.

Solver and checker come in one archive, by other people than Z3 and cvc5. The solver writes its proof of each query; the
checker reads the query and the proof, and looks at every step: a resolution, or an instance of one of a few axioms. A
step that is not checked is a hole, and a proof with a hole counts for nothing here. Each runs in a process of its
own, with a limit on its time and memory. spec: V4.12
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import IO, NamedTuple

from proofs.tools import java, maven

ARTIFACT = maven.Artifact(
    "SMTInterpol", "de.uni-freiburg.informatik.ultimate", "smtinterpol", "2.5-1388-ga5a4ab0c",
    "5f3277cb94546e0305a6bb1c29752f5ad30857f08bc6d82c6ba60798d1f869f4",
)  # fmt: skip
CHECKER = "de.uni_freiburg.informatik.ultimate.smtinterpol.proof.checker.Main"
"""The checker's class in the archive; the solver is what the archive runs by itself."""
MACHINE = ("-Xmx1g", "-Xss64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Proofs are deep, and most are found before a compiler has warmed up."""
MARGIN_S = 30.0
"""Seconds for the solver beyond those for its queries: a Java that starts, proofs that are printed."""
CHECK_S = 120
"""Seconds for the checker; what it reads takes it a few at most."""
ANSWER = re.compile(r"(unsat|sat|unknown)$|\(error")
"""What the solver prints besides proofs."""
VALID = re.compile(r"valid\nholes=0\nassertions=\d+\ndefinefuns=\d+\naxioms=(\d+)\nresolutions=(\d+)\n")
"""What the checker prints of one proof without a hole that ends in a contradiction."""


class ProofCheck(NamedTuple):
    """The checker's result: how many steps the proofs have; or why they do not count, and whether one is wrong."""

    steps: int
    failure: str = ""
    wrong: bool = False


class SMTInterpol(NamedTuple):
    """Where the archive and a Java are."""

    java: str
    archive: Path

    def prove(self, script: Path, queries: int, proofs: Path, timeout_s: float) -> str:
        """Write the proofs of a script's queries into the file `proofs`; "" or why there are none.

        Parameters
        ----------
        script
            A file that sets `:produce-proofs` and has `(get-proof)` after each `(check-sat)`.
        queries
            How many times it does.
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
        """Let the checker read a script and the proofs of its queries.

        A failure where any of them is wrong, has a hole, is not there, or proves another query.
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
        """Run the archive with its output going to a file; "" or what went wrong."""
        command = [self.java, *MACHINE, *arguments]
        try:
            done = subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            return f"no end within {timeout_s:g} s"
        except OSError as error:
            return f"Java cannot be started: {error.strerror}"
        return f"it ended with exit code {done.returncode}" if done.returncode else ""


def find() -> SMTInterpol:
    """The solver, fetched where it is not kept. Raises `java.JavaMissing` or `maven.Unfetchable`."""
    return SMTInterpol(java.find(), maven.archive(ARTIFACT))
