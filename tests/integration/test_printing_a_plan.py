"""The page on printing a plan, and its header: compiled, run, and judged. spec: FP10.1 to FP10.4"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from proofs.verify import entry as verifier
from tests.support.tools import require_compiler
from tmmu.core.canonical import read_bounded
from tmmu.plans import file
from tmmu.plans.sections import Plan

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "spec"
PAGE = (SPEC / "printing-a-plan.md").read_text()
COMPILERS = {
    "gcc": ("gcc", "-x", "c", "-std=c99"), "clang": ("clang", "-x", "c", "-std=c99"),
    "g++": ("gcc", "-x", "c++", "-std=c++11"),
}  # fmt: skip
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic-errors", "-I", str(SPEC))


def block(language: str) -> str:
    """The page's one block in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def printed(folder: Path, program: str, compiler: str = "gcc") -> tuple[int, bytes]:
    """What a C program writes, and its exit code."""
    command = COMPILERS[compiler]
    require_compiler(*command, *STRICT)
    (folder / "print.c").write_text(program)
    built = [*command, *STRICT, "print.c", "-o", "print"]
    made = subprocess.run(built, cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([folder / "print"], capture_output=True, check=False)
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_page_compiles_and_its_plan_is_proved(
    compiler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: FP10.1, FP10.2"""
    code, text = printed(tmp_path, block("c"), compiler)
    assert code == 0
    (tmp_path / "c.plan.txt").write_bytes(text)
    (tmp_path / "print.py").write_text(block("python"))
    ran = subprocess.run([sys.executable, tmp_path / "print.py"], capture_output=True, check=True)
    (tmp_path / "python.plan.txt").write_bytes(ran.stdout)
    assert verifier.run([str(tmp_path / "c.plan.txt"), str(tmp_path / "python.plan.txt")]) == 0
    assert capsys.readouterr().out.count("PROVED") == 2
    assert file.load(tmp_path / "c.plan.txt").plan == file.load(tmp_path / "python.plan.txt").plan
    # A wrong offset in the same program is found.
    wrong = text.replace(b'"im2col" 256 "sram" 768', b'"im2col" 256 "sram" 704')
    (tmp_path / "c.plan.txt").write_bytes(wrong)
    assert verifier.run([str(tmp_path / "c.plan.txt")]) == 1


ALL = r"""
#include "plan_text.h"
static const char *const none[] = {0};
static const char *const c[] = {"c", 0}, *const x[] = {"x", 0}, *const y[] = {"y", 0}, *const t[] = {"t", "\xff\t", 0};
static const char *const s[] = {"s", 0}, *const xs[] = {"x", "s", 0}, *const ts[] = {"t", "\xff\t", "s", 0};
int main(void) {
    tmmu_plan plan = tmmu_plan_open(stdout);
    tmmu_arena(&plan, "a \"b\" \\ # ->", 18446744073709551615u, 0);
    tmmu_arena(&plan, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 64, 64);
    tmmu_tensor(&plan, "c", 1, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 0, TMMU_INPUT | TMMU_DONATED, 1);
    tmmu_tensor(&plan, "x", 64, "a \"b\" \\ # ->", 0, TMMU_PARAMETER, 8);
    tmmu_tensor(&plan, "s", 64, "a \"b\" \\ # ->", 64, TMMU_OPTIMIZER | TMMU_DONATED, 8);
    tmmu_tensor(&plan, "t", 64, "a \"b\" \\ # ->", 128, TMMU_GRADIENT, 8);
    tmmu_tensor(&plan, "\xff\t", 64, "a \"b\" \\ # ->", 192, TMMU_SCRATCH, 8);
    tmmu_tensor(&plan, "y", 64, "a \"b\" \\ # ->", 256, TMMU_OUTPUT, 8);
    tmmu_apart(&plan, "x", "y");
    tmmu_begin(&plan, "if", "If", c, none, TMMU_EXCLUSIVE);
    tmmu_step(&plan, "p", "my::P", xs, t, 0);
    tmmu_step(&plan, "q", "my::Q", t, y, 0);
    tmmu_arm(&plan);
    tmmu_step(&plan, "r", "my::R", x, y, 0);
    tmmu_end(&plan, "if", none, none);
    tmmu_begin(&plan, "loop", "my::Loop", c, 0, TMMU_LOOP);
    tmmu_step(&plan, "u", "my::U", xs, s, s);
    tmmu_end(&plan, "loop", 0, 0);
    (void)ts;
    return tmmu_plan_close(&plan);
}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_call_reads_as_its_statement(compiler: str, tmp_path: Path) -> None:
    """Names of quotes, arrows, other scripts and bytes that are no text; every word. spec: FP10.1, FP10.2"""
    code, text = printed(tmp_path, ALL, compiler)
    (tmp_path / "p.plan.txt").write_bytes(text)
    plan = file.load(tmp_path / "p.plan.txt").plan
    assert code == 0
    assert isinstance(plan, Plan)
    allocation = plan.allocation
    assert [arena.name for arena in allocation.arenas] == ['a "b" \\ # ->', "ä€😀"]
    assert list(allocation.tensors.name) == ["c", "x", "s", "t", "\u00ff\t", "y"]
    assert allocation.tensors.alignment.tolist() == [1, 8, 8, 8, 8, 8]
    assert list(allocation.steps.node) == ["if", "p", "q", "r", "if", "loop", "u", "loop"]
    assert allocation.bodies.exclusive.tolist() == [0, 1, 1, 0]
    assert allocation.bodies.iterates.tolist() == [0, 0, 0, 1]
    assert allocation.must_not_alias == ((1, 5),)
    assert json.loads(text.split(b"\n")[2].split(b" ")[1]) == "ä€😀"


def test_lifetimes_alone_and_what_no_text_can_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: FP10.1, FP10.3"""
    program = """
    #include "plan_text.h"
    int main(void) {{ tmmu_plan plan = tmmu_plan_open({out}); tmmu_arena(&plan, "a", 16, {align});
    tmmu_buffer(&plan, "{name}", 16, "a", 0, 0, 1, 8); tmmu_buffer(&plan, "q", 16, "a", 0, {first}, 3, 8);
    return tmmu_plan_close(&plan) ? 9 : 0; }}
    """
    right = {"out": "stdout", "align": 16, "name": "p", "first": 2}
    for first, expected in ((2, 0), (1, 1)):
        code, text = printed(tmp_path, program.format(**{**right, "first": first}))
        (tmp_path / "p.plan.txt").write_bytes(text)
        assert (code, verifier.run([str(tmp_path / "p.plan.txt")])) == (0, expected)
    for wrong in ({"name": ""}, {"align": 12}, {"out": 'fopen("/dev/full", "w")'}):
        assert printed(tmp_path, program.format(**{**right, **wrong}))[0] == 9
    capsys.readouterr()


def test_the_header_is_in_wheels_and_allocates_nothing() -> None:
    """spec: FP10.2, FP10.4"""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert built["force-include"]["spec"] == "tmmu/_data/spec"
    header = read_bounded(SPEC / "plan_text.h", 1 << 16).decode()
    assert set(re.findall(r"^#include <(.*)>$", header, re.MULTILINE)) == {"stddef.h", "stdint.h", "stdio.h"}
    assert not re.search(r"\b(?:m|c|re)alloc\b|\bfree\b", header.replace("allocates", ""))
