"""Which files are written for other solvers, and that each asks what it should: no solver is started here.

spec: C4.3
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from proofs.proving import obligations
from proofs.proving.lemmas.export import write_lemmas
from proofs.proving.lemmas.plan.chains import DEFINITIONS
from proofs.proving.obligations.context import context_of
from proofs.proving.obligations.rows import Batch, Place, Unprovable
from proofs.proving.smt.unfold import Scope
from proofs.readers.sharing import Permissions
from proofs.verify import export as smtlib
from tests.support.text_models import text_model
from tmmu.planner import plan_memory
from tmmu.plans.sections import Plan

FILES = [f"{name}.smt2" for name in obligations.MODULES]


def files(folder: Path, plan: Plan, limit: int) -> list[str]:
    """The names of the files of a plan; each is there, and begins with what it is about."""
    written = smtlib.write_plan(folder, context_of(plan, Permissions()), limit)
    assert all(path.read_text().startswith("; ") for path in written)
    assert sorted(written) == sorted(folder.iterdir())
    return [path.name for path in written]


def test_a_plan_has_a_file_for_each_obligation_and_up_to_the_limit_one_for_the_definition(tmp_path: Path) -> None:
    """It has a scope for each promise, in the plan's names."""
    for storages, lines in (
        (1, ()),
        (2, ("node relu Relu x -> y",)),
        (3, ("node relu Relu x -> a", "node relu2 Relu a -> y")),
    ):
        plan = plan_memory(text_model(*lines, outputs="y" if lines else "x")).plan
        assert len(plan.allocation.storages) == storages
        for limit in (storages - 1, storages, storages + 1):
            asked = ["definition.smt2"] if storages <= limit else []
            assert files(tmp_path / str(storages) / str(limit), plan, limit) == [*FILES, *asked]


def test_the_lemmas_that_are_named_have_files_and_no_others(tmp_path: Path) -> None:
    """One that is a statement, and one that is proved by induction over lists."""
    names = {"align_up_gives_a_multiple", "tenants_fit"}
    written = write_lemmas(tmp_path, names)
    assert {path.name for path in written} == {f"{name}.smt2" for name in names}
    assert sorted(written) == sorted(tmp_path.iterdir())
    for path in written:
        text = path.read_text()
        assert "(set-logic ALL)" in text
        assert text.endswith(f"(pop 1)\n{smtlib.CANARY}")
        assert text.count("(check-sat)") == text.count("(set-info :status ") >= 2


def test_a_file_asks_each_query_in_a_scope_of_its_own_and_a_canary_at_the_end() -> None:
    ask = "(push 1)\n{}\n(set-info :status unsat)\n(check-sat)\n(pop 1)\n"
    assert list(smtlib.write_queries(Scope(""), ["(assert false)", "(assert (< 2 1))"])) == [
        "(set-logic ALL)\n\n", ask.format("(assert false)"), ask.format("(assert (< 2 1))"),
        "(set-info :status sat)\n(check-sat)\n",
    ]  # fmt: skip


def test_a_file_has_the_definitions_of_all_of_its_queries() -> None:
    """Those of one query are enough for another that needs fewer, in whichever order they come."""
    scope = Scope(DEFINITIONS)
    needing, plain = "(declare-const rest Tenants)\n(assert (tenancy 3 7 0 64 rest))", "(assert false)"
    needed = scope.unfold(needing)[0].strip()
    assert "(define-fun-rec tenancy " in needed
    for queries in ([needing, plain], [plain, needing]):
        first = next(smtlib.write_queries(scope, queries))
        assert first == f"(set-logic ALL)\n{needed}\n"


def test_what_asks_nothing_is_true_and_what_is_asked_stands_alone() -> None:
    rows = Batch(["(< 1 2)", "(< 2 3)"], lambda _: Place(), 2)
    [query] = smtlib._queries(iter([rows]), lambda _: "a at step 1")
    assert query == "; row 0: a at step 1\n; row 1: a at step 1\n(assert (not (and true\n(< 1 2)\n(< 2 3))))"
    assert list(smtlib._queries(iter(()), lambda _: "")) == ["(assert (not true))"]

    def none() -> Iterator[Batch]:
        raise Unprovable("no proof is known")
        yield rows

    assert list(smtlib._queries(none(), lambda _: "")) == []


def test_an_envelope_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Each of its queries brings its own canary."""
    model = text_model("dim m 1 64", "node relu Relu x -> y", each="u8 m")
    assert files(tmp_path, plan_memory(model).plan, 1) == [*FILES, "sizes_over_envelope.smt2"]
    text = (tmp_path / "sizes_over_envelope.smt2").read_text()
    assert text.count(smtlib.UNSAT) == text.count(smtlib.CANARY) == 2
