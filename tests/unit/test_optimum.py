"""A lower placement as a formula: it has a solution just where brute force has one, and what is written is a proof.

spec: V5.6, V5.7, V5.8, V5.10
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from proofs.definition.violations import Discharge, obligations_discharged
from proofs.proving import obligations
from proofs.proving.obligations import Outcome
from proofs.proving.optimum import formula as formula_module
from proofs.proving.optimum import statements, veripb
from proofs.proving.optimum.formula import LiveStorage, LowerPlacement, build_lower_placement, live_storages_of
from proofs.proving.optimum.refutation import refute
from proofs.verify.judge import verify
from proofs.verify.options import Options, ProofFolders, Solving
from tests.support.buffers import model_of
from tests.support.effort import share
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.layouts.boxes import Boxes
from tmmu.plans import file
from tmmu.plans.allocation import Arena
from tmmu.plans.sections import Plan

Apart = set[tuple[int, int]]

RAGGED = tuple(LiveStorage(row, row, row + 1, 12, 8) for row in range(4))
"""12 bytes each at multiples of 8: two are live at one step, 24 bytes, and need 28."""


def drawn(seed: int) -> tuple[tuple[LiveStorage, ...], Apart]:
    rng = random.Random(seed)
    births = [rng.randrange(4) for _ in range(4)]
    spans = tuple(
        LiveStorage(row, b, b + rng.randrange(3), rng.randrange(1, 4), rng.choice((1, 1, 2, 4)))
        for row, b in enumerate(births)
    )
    return spans, {(0, 3)} if rng.random() < 0.3 else set()


def least(spans: Sequence[LiveStorage], apart: Apart) -> int:
    """The lowest end of any placement, from the definition: every offset of every storage."""
    end = sum(span.bytes + span.alignment for span in spans)
    choices = [range(0, end, span.alignment) for span in spans]
    meets = [
        (i, j)
        for i, j in itertools.combinations(range(len(spans)), 2)
        if (spans[i].birth <= spans[j].death and spans[j].birth <= spans[i].death) or (i, j) in apart
    ]

    def fits(height: int, offsets: tuple[int, ...] = ()) -> bool:
        i = len(offsets)
        if i == len(spans):
            return True
        for at in choices[i]:
            if at + spans[i].bytes > height:
                return False
            clash = any(
                k == i and offsets[j] < at + spans[i].bytes and at < offsets[j] + spans[j].bytes for j, k in meets
            )
            if not clash and fits(height, (*offsets, at)):
                return True
        return False

    return next(height for height in itertools.count() if fits(height))


def solutions(ones: list[list[int]], true: frozenset[int] = frozenset()) -> Iterator[frozenset[int]]:
    """Every set of variables of which just one is in each constraint."""
    for row in ones:
        if not true.intersection(row):
            for variable in row:
                if not any(variable in other and true.intersection(other) for other in ones):
                    yield from solutions(ones, true | {variable})
            return
    yield true


def test_the_formula_has_a_solution_just_where_a_placement_is_as_low() -> None:
    above = 0
    for seed in (83, *range(share(100))):  # of 83 two storages alone are higher than what is asked for
        spans, apart = drawn(seed)
        best = least(spans, apart)
        above += best > max(sum(s.bytes for s in spans if s.birth <= step <= s.death) for step in range(6))
        lower = build_lower_placement(spans, apart, best - 1)
        assert lower is not None
        assert next(solutions(list(lower.ones())), None) is None, seed
        assert (text := refute(lower)) is not None, seed
        assert proves(lower, text), seed
        as_low = build_lower_placement(spans, apart, best)
        assert as_low is not None
        found = next(solutions(list(as_low.ones())))
        offsets = {c.storage: c.offset for v, c in enumerate(as_low.choices, start=1) if v in found and c.storage >= 0}
        assert len(offsets) == len(spans)
        assert refute(as_low) is None, seed
    assert above, "instances are among them whose optimum is above what is live"


def proves(lower: LowerPlacement, text: str) -> bool:
    """Reads a proof as VeriPB does, the two rules that are used: sums of constraints, and reverse unit propagation."""
    constraints: list[tuple[dict[int, int], int]] = []  # Σ coefficient · x ≥ bound, over the variables themselves
    for row in lower.ones():
        constraints += [(dict.fromkeys(row, 1), 1), (dict.fromkeys(row, -1), -1)]
    head, given, *lines, output, conclusion, end = text.splitlines()
    assert (head, given) == ("pseudo-Boolean proof version 3.0", f"f {len(constraints)} ;")
    assert (output, end) == ("output NONE ;", "end pseudo-Boolean proof ;")
    for line in lines:
        if line.startswith("pol "):
            total: dict[int, int] = {}
            bound = 0
            for at, times in re.findall(r"(\d+) (\d+) \*", line):
                terms, least_sum = constraints[int(at) - 1]
                bound += int(times) * least_sum
                for v, coefficient in terms.items():
                    total[v] = total.get(v, 0) + int(times) * coefficient
            constraints.append((total, bound))
        else:
            literals = [(-1 if sign else 1) * int(v) for sign, v in re.findall(r"1 (~?)x(\d+)", line)]
            if not follows(constraints, literals):
                return False
            clause = {abs(v): 1 if v > 0 else -1 for v in literals}
            constraints.append((clause, 1 - sum(v < 0 for v in literals)))
    return conclusion == f"conclusion UNSAT : {len(constraints)} ;" and constraints[-1] == ({}, 1)


def follows(constraints: list[tuple[dict[int, int], int]], clause: list[int]) -> bool:
    """Whether unit propagation ends in a contradiction where the clause is false."""
    value = {abs(v): int(v < 0) for v in clause}
    changed = True
    while changed:
        changed = False
        for terms, bound in constraints:
            slack = sum(c * value[v] if v in value else max(c, 0) for v, c in terms.items()) - bound
            if slack < 0:
                return True
            for v, c in terms.items():
                if v not in value and abs(c) > slack:
                    value[v], changed = int(c > 0), True
    return False


def test_a_proof_without_its_last_lines_or_of_another_formula_is_none() -> None:
    """What reads proofs here says no: else the test above shows nothing."""
    lower = build_lower_placement(RAGGED, set(), 27)
    assert lower is not None
    text = refute(lower)
    assert text is not None
    assert proves(lower, text)
    lines = text.splitlines()
    assert not proves(lower, "\n".join([*lines[:-4], *lines[-3:]])), "the empty clause is missing"
    finer = tuple(span._replace(alignment=4) for span in RAGGED)
    for other in (build_lower_placement(finer, set(), 27), build_lower_placement(RAGGED, set(), 28)):
        assert other is not None
        count = 2 * len(list(other.ones()))
        kept = [line for line in lines[2:-3] if line.startswith("rup ")]
        end = ["output NONE ;", f"conclusion UNSAT : {count + len(kept)} ;", lines[-1]]
        assert not proves(other, "\n".join([lines[0], f"f {count} ;", *kept, *end]))


def test_formulas_that_would_be_too_large_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("SPANS", 3), ("LITERALS", 8), ("LITERALS", 2)):
        with monkeypatch.context() as patched:
            assert build_lower_placement(RAGGED, set(), 27) is not None
            patched.setattr(formula_module, name, limit)
            assert build_lower_placement(RAGGED, set(), 27) is None


def planned(spans: Sequence[LiveStorage]) -> Plan:
    """The lowest plan of these storages, all aligned alike."""
    boxes = Boxes(*([getattr(s, name) for s in spans] for name in ("birth", "death", "bytes", "alignment")), {})
    arenas = (ArenaConfiguration("buffers", (Role.ACTIVATION,), alignment=8),)
    return plan_memory(model_of(boxes), arenas, PlanOptions(layout="packed", effort=1 << 20)).plan


def test_what_has_no_bytes_or_another_arena_is_in_no_formula() -> None:
    plan = planned(RAGGED)
    spans, apart = live_storages_of(plan.placement, 0)
    assert [tuple(s)[1:] for s in spans] == [tuple(s)[1:] for s in RAGGED]
    assert apart == set()
    storages = replace(plan.allocation.storages, bytes=plan.allocation.storages.bytes * [0, 1, 1, 1])
    arenas = (*plan.allocation.arenas, Arena("others"))
    kept = replace(plan.allocation, arenas=arenas, storages=storages, must_not_alias=((0, 1), (1, 3), (3, 3)))
    assert [s.row for s in live_storages_of(kept, 0)[0]] == [1, 2, 3]
    assert live_storages_of(kept, 0)[1] == {(0, 2)}
    assert live_storages_of(kept, 1) == ((), set())


PROVED = [
    Outcome(name, "PROVED", 3, 0.1) for name in obligations_discharged(Discharge.BY_ROWS) if name != "must_not_alias"
]
"""What the solver answers of a right plan; it is not asked here."""


def saved(plan: Plan, folder: Path) -> str:
    file.save(plan, folder / "p.cbor")
    return str(folder / "p.cbor")


CHECKER = """#!/bin/sh
echo "Running VeriPB version 3.0.2"
test "$1" = --opb && test -f "$2" && test -f "$3" || exit 9
{}
"""


@pytest.mark.parametrize(
    ("answer", "optimal", "reason"),
    [
        (f'echo "{veripb.UNSATISFIABLE}"', "proved", "VeriPB 3.0.2 has checked"),
        ('echo "s VERIFIED NO CONCLUSION"', "not proved", "s VERIFIED NO CONCLUSION"),
        (f'echo "{veripb.UNSATISFIABLE}"; exit 1', "not proved", "exit code 1"),
        (f'echo "{veripb.UNSATISFIABLE}"; echo "Warning: unchecked"', "not proved", "Warning: unchecked"),
        (f'echo "Warning: first"; echo "{veripb.UNSATISFIABLE}"', "not proved", "Warning: first"),
        (f'echo "{veripb.UNSATISFIABLE}"; echo "Warning: unchecked" >&2', "not proved", "Warning: unchecked"),
        (f'echo "{veripb.UNSATISFIABLE} "', "not proved", "s VERIFIED UNSATISFIABLE "),
        (f'echo " {veripb.UNSATISFIABLE}"', "not proved", " s VERIFIED UNSATISFIABLE"),
        (f'echo "{veripb.UNSATISFIABLE}"; echo "{veripb.UNSATISFIABLE}"', "not proved", "does not accept"),
        (f'echo; echo "{veripb.UNSATISFIABLE}"', "not proved", "does not accept"),
        ("true", "not proved", "no answer"),
        (f'echo "{veripb.UNSATISFIABLE}"; echo "s NOT VERIFIED"', "not proved", "s NOT VERIFIED"),
        ('echo "line 3 is wrong" >&2; exit 1', "not proved", "line 3 is wrong"),
        ("sleep 5", "not proved", "did not end within 0.5 s"),
        (None, "not proved", "VeriPB is not installed"),
    ],
)
def test_only_what_veripb_accepts_is_reported_as_optimal(
    answer: str | None, optimal: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict and its exit code are the same with any answer."""
    if answer is not None:
        (tmp_path / "veripb").write_text(CHECKER.format(answer))
        (tmp_path / "veripb").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(obligations, "prove", lambda *_, **__: PROVED)
    options = Options(folders=ProofFolders(optimum=str(tmp_path / "proofs")), solving=Solving(timeout=0.5))
    plan = planned(RAGGED)
    assert (plan.usage[0].peak_live_bytes, plan.usage[0].footprint) == (24, 28)
    found = verify(saved(plan, tmp_path), options)
    assert (found.verdict, found.exit) == ("PROVED", 0)
    assert found.claims["buffers"]["footprint_is_optimal"] == optimal
    assert any(note.startswith("footprint of buffers: ") and reason in note for note in found.notes)
    required = verify(saved(plan, tmp_path), replace(options, require=("optimum",)))
    assert required.verdict == ("PROVED" if optimal == "proved" else "UNKNOWN")


def test_a_proof_that_is_there_is_checked_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here by the reader of proofs above. The formula is always the plan's: a proof of another's is refused."""
    monkeypatch.setattr(obligations, "prove", lambda *_, **__: PROVED)
    (tmp_path / "veripb").write_text(CHECKER.format(f'grep -q "^rup  >= 1" "$3" && echo "{veripb.UNSATISFIABLE}"'))
    (tmp_path / "veripb").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    path, folder = saved(planned(RAGGED), tmp_path), tmp_path / "proofs"
    options = Options(folders=ProofFolders(optimum=str(folder)))
    assert verify(path, options).claims["buffers"]["footprint_is_optimal"] == "proved"
    (stated,), (proof,) = folder.rglob("*.opb"), folder.rglob("*.pbp")
    formula, text = stated.read_text(), proof.read_text()
    lower = build_lower_placement(RAGGED, set(), 27)
    assert lower is not None
    assert formula.splitlines() == list(lower.opb_lines())
    assert proves(lower, text)
    other = text.replace("rup  >= 1 ;", "rup >= 2 ;")
    for wrong, reason in ((other, "does not accept"), (HEAD, "does not end"), (None, "cannot be read")):
        stated.write_text("* of another plan\n")
        proof.unlink()
        proof.mkdir() if wrong is None else proof.write_text(wrong)
        found = verify(path, options)
        assert found.claims["buffers"]["footprint_is_optimal"] == "not proved"
        assert (found.verdict, stated.read_text()) == ("PROVED", formula)
        assert any(reason in note and f"remove {proof} to have a proof searched for" in note for note in found.notes)
        assert proof.is_dir() if wrong is None else proof.read_text() == wrong


def test_veripb_is_given_the_very_bytes_that_were_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof that is exchanged while it is looked at is not the one that is checked. spec: V5.10"""
    checker = f'grep -q "^rup >= 1;" "$3" && ! grep -q "^a " "$3" && echo "{veripb.UNSATISFIABLE}"'
    (tmp_path / "veripb").write_text(CHECKER.format(checker))
    (tmp_path / "veripb").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    proof, right = tmp_path / "p.pbp", f"{HEAD}rup >= 1;\n{END}"
    proof.write_text(right)
    look = statements.find_objection

    def exchange(text: bytes) -> str | None:
        proof.write_text(f"{HEAD}a >= 1;\n{END}")
        return look(text)

    monkeypatch.setattr(statements, "find_objection", exchange)
    assert veripb.check_proof(b"", proof, 5.0) == (True, f"VeriPB 3.0.2 has checked {proof}")
    assert veripb.check_proof(b"", proof, 5.0).reason.startswith(
        f"{proof} is no proof that counts: statement 1 is of the rule 'a'"
    )


def test_a_proof_as_it_is_found_has_no_objection() -> None:
    lower = build_lower_placement(RAGGED, set(), 27)
    assert lower is not None
    assert (text := refute(lower)) is not None
    assert statements.find_objection(text.encode()) is None


HEAD, END = "pseudo-Boolean proof version 3.0\n", "output NONE;\nconclusion UNSAT : -1;\nend pseudo-Boolean proof;\n"
WITHIN = """red 1 x1 >= 1 : x1 -> 1 : subproof
  proofgoal #1 % the goal a
    {}
  qed #1 : -1;
  proofgoal 2 rup >= 1; qed;
qed red;
"""


@pytest.mark.parametrize(
    "body",
    [
        "", "f 2;", "@one rup 1 x1 >= 1 : 1 2 ~; pol 1 @one +;\n", "% a >= 1;\nrup>=1;", "del id 1 2; deld 3; delc 1;",
        "core id 1; setlvl 3; wiplvl 3; ia 1 x1 >= 0 : 1; e 1 x1 >= 1; i 1 x1 >= 0; is_deleted 1 x1 >= 1;",
        WITHIN.format("pol -1 -2 + ;"), "pbc 1 x1 >= 1 : subproof rup >= 1; qed pbc : -1;",
        "rup\n1 x1\t1 ~a_1 >= 1;", "rup 1 x1 >= 1; % \xff anything",
    ],
)  # fmt: skip
def test_a_proof_of_known_rules_is_for_veripb_to_check(body: str) -> None:
    for newline in ("\n", "\r\n"):
        assert statements.find_objection(f"{HEAD}{body}\n{END}".replace("\n", newline).encode("latin-1")) is None


@pytest.mark.parametrize(
    "body",
    [
        "a >= 1;", "rup 1 x1 >= 1; a >= 1;", "@one a >= 1;", "rup 1 x1 >= 1;a>=1;", "% ;\na >= 1;", "a% \n>= 1;",
        WITHIN.format("a >= 1;"), WITHIN.format("@one a >= 1;"), WITHIN.replace("rup", "a"),
        "pbc 1 x1 >= 1 : subproof a >= 1; qed;", "pbc 1 x1 >= 1 : subproof % \na >= 1; qed;",
        "pbc 1 subproof >= 1 : subproof a >= 1; qed;", "proofgoal #1 @one a >= 1;", "proofgoal #1 proofgoal #2 a >= 1;",
        "def_order a vars left u1; end; end;", "load_order simple x1;", "dom 1 x1 >= 1 : x1 -> 0;", "sol x1;",
        "solx x1;", "soli x1;", "obji 3;", "obju new 1 x1;", "strengthening_to_core on;", "scope leq a >= 1; end;",
        "fail;", "start_time t;", "rules_of_later_versions 1;", ";", "@one;", "1 rup >= 1;", "subproof rup >= 1;",
        "u >= 1;", "p 1 2 +;", "end pseudo-Boolean proof;", "output NONE;",
    ],
)  # fmt: skip
def test_a_proof_with_a_rule_that_assumes_or_is_not_known_does_not_count(body: str) -> None:
    """Wherever it is: in a subproof, behind a label, a comment or no space. spec: V5.10"""
    objection = statements.find_objection(f"{HEAD}{body}\n{END}".encode())
    assert objection is not None
    assert "is of the rule" in objection


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{HEAD}rup >= 1;", "does not end"),
        (HEAD, "does not end"),
        (f"{HEAD}{END}rup >= 1;", "does not end"),
        (f"{HEAD}{END}x", "does not end"),
        (HEAD + END.replace("UNSAT", "SAT"), "does not end"),
        (HEAD + END.replace("NONE", "DERIVABLE FILE"), "does not end"),
        (HEAD + END.replace("NONE", "NONE a"), "does not end"),
        (HEAD + END.replace("-1", "-1 a"), "does not end"),
        ("", "does not begin"),
        (HEAD.replace("3.0", "2.0") + END, "does not begin"),
        (HEAD.replace("3.0", "3.1") + END, "does not begin"),
        (HEAD.strip(), "does not begin"),
        (f"% {HEAD}{END}", "does not begin"),
        (f"{HEAD}rup 1 x\u00e4 >= 1;{END}", "not ASCII"),
    ],
)
def test_a_proof_that_does_not_begin_or_end_as_a_refutation_does_not_count(text: str, reason: str) -> None:
    assert reason in (statements.find_objection(text.encode()) or "")
