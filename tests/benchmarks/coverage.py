"""`make coverage`: which lines and branches of the verifier and the planner tests run, commands and children included.

The tests of `make test` that take half a second at most are run with branch coverage. Printed are the figures by
package, and each function with a line or a branch that nothing ran. Of the lines that did not run, those of functions
that nothing calls and those that raise an error are counted apart.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

MEASURED = ("proofs", "tmmu/planner", "tmmu/plans", "tmmu/ir", "tmmu/onnx")
TESTS = ("--at-most", "0.5", "tests/unit", "tests/property", "tests/corpus", "tests/integration")
SETTINGS = """[run]
branch = true
parallel = true
source = proofs, tmmu
patch = subprocess, fork
data_file = {folder}/data
[report]
include = {include}
"""


def main() -> int:
    """Run the tests, and print the tables. The exit code is that of the tests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = folder / "settings"
        settings.write_text(SETTINGS.format(folder=name, include=", ".join(f"{part}/*" for part in MEASURED)))
        coverage = [sys.executable, "-m", "coverage"]
        environment = {**os.environ, "HYPOTHESIS_PROFILE": os.environ.get("HYPOTHESIS_PROFILE", "ci")}
        tests = [*coverage, "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
        done = subprocess.run([*tests, *TESTS], env=environment, check=False)
        subprocess.run([*coverage, "combine", "-q", f"--rcfile={settings}"], check=True)
        report = folder / "report.json"
        subprocess.run([*coverage, "json", "-q", f"--rcfile={settings}", "-o", report], check=True)
        files: dict[str, Any] = json.loads(report.read_bytes())["files"]
    _print_packages(files)
    _print_functions(files)
    return done.returncode


def _print_packages(files: dict[str, Any]) -> None:
    counted: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for path, found in files.items():
        parts = Path(path).parts
        summary, missing = found["summary"], set(found["missing_lines"])
        counts = [
            summary["num_statements"], summary["missing_lines"], *count_kinds(Path(path).read_text(), missing),
            summary["num_branches"], summary["missing_branches"],
        ]  # fmt: skip
        for group in ("/".join(parts[:2]), "all"):
            counted[group] = [one + other for one, other in zip(counted[group], counts, strict=True)]
    print("\n| package | statements | not run | in functions not called | errors | branches | not taken | covered |")
    print("|---|---|---|---|---|---|---|---|")
    for group, counts in sorted(counted.items()):
        share = 1 - (counts[1] + counts[5]) / max(1, counts[0] + counts[4])
        print(f"| `{group}` | {' | '.join(f'{count:,}' for count in counts)} | {share:.2%} |")


def count_kinds(source: str, missing: set[int]) -> tuple[int, int]:
    """Count the lines that did not run: those in functions that nothing calls, and raise statements elsewhere. O(n)."""
    tree = ast.parse(source)
    uncalled: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and _begin(node) in missing:
            uncalled |= missing & set(range(_begin(node), (node.end_lineno or 0) + 1))
    raised = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    return len(uncalled), len(missing & raised - uncalled)


def _begin(function: ast.FunctionDef) -> int:
    """The line of the first statement of a function, behind its docstring."""
    return function.body[1 if ast.get_docstring(function) and len(function.body) > 1 else 0].lineno


def _print_functions(files: dict[str, Any]) -> None:
    """Print each function with something that did not run: its lines, and its branches as from->to."""
    print("\nnot run:")
    for path, found in sorted(files.items()):
        lines = defaultdict(list)
        for line in found["missing_lines"]:
            lines[line].append(str(line))
        for line, target in found["missing_branches"]:
            lines[line].append(f"{line}->{'exit' if target < 0 else target}")
        by_function: dict[str, list[str]] = defaultdict(list)
        for line, texts in sorted(lines.items()):
            by_function[_function_at(path, line)] += texts
        for function, texts in by_function.items():
            print(f"{path}:{function}: {', '.join(texts)}")


def _function_at(path: str, line: int) -> str:
    """The name of the innermost function or class around a line."""
    name = "(module)"
    pending = [("", ast.parse(Path(path).read_text()))]
    while pending:
        prefix, node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.lineno <= line <= (child.end_lineno or 0):
                name = f"{prefix}{child.name}"
                pending.append((f"{name}.", child))
    return name


if __name__ == "__main__":
    sys.exit(main())
