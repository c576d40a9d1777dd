"""From a plan file to a verdict: PROVED needs everything at once, a confirmed witness is REFUTED, the rest UNKNOWN.

spec: V4.1, V4.2, V4.4, V4.5, V4.6, V4.7, V5.1, V5.2, V5.3, V5.4, V5.5, C1.6, V1.8
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from proofs.definition import promises
from proofs.definition.checker import execute as checker
from proofs.definition.model.difference import difference
from proofs.definition.violations import Discharge, Obligation, Violation, obligations_discharged
from proofs.proving import obligations
from proofs.proving.kernel import coq_file, installed
from proofs.proving.kernel.answer import NOT_INSTALLED
from proofs.proving.lemmas import export
from proofs.proving.obligations import Outcome
from proofs.proving.obligations.context import context_of
from proofs.readers.sharing import decide_permissions
from proofs.verify import judge as verify_plan
from proofs.verify import options as settings
from proofs.verify import sources
from proofs.verify.judge import verify
from proofs.verify.options import REQUIRABLE, Disagreement, Options, ProofFolders, Solving
from proofs.verify.text import lines
from proofs.verify.verdict import EXECUTION, Verdict, refute
from tests.support.example_models import full
from tests.support.growing import growing, with_bytes
from tests.support.growing import plan as open_plan
from tests.support.sharded import LAYERS, spec
from tests.support.sharded import model as matrices
from tests.support.sharded import plans as ranks
from tests.support.text_models import text_model
from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, Bindings, Model, Phase, Role
from tmmu.examples.broken.editing import changed
from tmmu.ir import files
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.modes import prepare_graph
from tmmu.plans import file
from tmmu.plans.columns import ROLES
from tmmu.plans.configuration import DEFAULT
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.sections import Plan, amend_plan

GRADIENT = ROLES.index(Role.GRADIENT)
CHAIN = text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", parameters="w")


KEEPING = replace(CHAIN, bindings=Bindings(keep_inputs=True))
LOST = "required but missing: inputs-kept; b is written to the bytes of x: plan with --keep-inputs"


def saved(plan: Plan, folder: Path) -> str:
    file.save(plan, folder / "p.cbor")
    return str(folder / "p.cbor")


def modelled(model: Model, folder: Path) -> str:
    files.save(model, folder / "m.ir.cbor")
    return str(folder / "m.ir.cbor")


def answered(monkeypatch: pytest.MonkeyPatch, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Let the solver's side answer `outcomes`; the list is what it was asked."""
    asked: list[dict[str, Any]] = []

    def prove(_context: object, **options: Any) -> list[Outcome]:
        asked.append(options)
        return list(outcomes)

    monkeypatch.setattr(obligations, "prove", prove)
    return asked


BY_COMPARISON, BY_ROWS = obligations_discharged(Discharge.BY_COMPARISON), obligations_discharged(Discharge.BY_ROWS)
OBLIGATIONS = (*BY_COMPARISON, *BY_ROWS)
AS_GIVEN = Configuration(DEFAULT, ANYWHERE)
OF_THE_USERS = ("steps_are_the_model", "arenas_are_configured")
"""What is compared with what the user gives."""
LISTED = [name for name in OBLIGATIONS if name not in ("must_not_alias", "inputs_kept")]
"""What a verdict lists of a plan without pairs that must not alias, and that overwrites an input."""
ALL = [Outcome(name, "PROVED", 3, 0.1) for name in LISTED if name not in BY_COMPARISON]
KEPT = Outcome("inputs_kept", "PROVED", 3, 0.1)


# Proved.


def test_a_right_plan_is_proved_for_the_steps_it_states_and_against_its_model(tmp_path: Path) -> None:
    for model in (CHAIN, text_model(outputs="x"), text_model(inputs="", outputs="")):
        plan, path = saved(plan_memory(model).plan, tmp_path), modelled(model, tmp_path)
        alone, against = verify(plan), verify(plan, Options(model=path, arenas=AS_GIVEN))
        stated = ("PROVED", 0) if model.tensors else ("UNKNOWN", 3)  # of one that states nothing
        assert (alone.verdict, alone.exit, alone.scope) == (*stated, "for the steps it states")
        assert (against.verdict, against.exit, against.scope) == ("PROVED", 0, "against the model")
        assert alone.line == f"{alone.verdict} {plan} for the steps it states"
        assert against.line == f"PROVED {plan} against {path}"
        assert (alone.witness, bool(alone.notes)) == (None, alone.verdict == "UNKNOWN")
        assert set(against.compared) == set(BY_COMPARISON)
        assert {*against.proved, *against.compared, *against.not_looked_at} >= set(OBLIGATIONS)
        assert not {*against.proved, *against.compared} & set(against.not_looked_at)
        assert all(e.get("rows") != 0 for e in against.obligations if e["name"] in against.proved)


@pytest.mark.parametrize("inputs", ["x u v", "u v x"])
@pytest.mark.parametrize(("moved", "onto"), [("u", "v"), ("u", "x"), ("x", "u")])
def test_what_the_caller_writes_has_bytes_of_its_own(inputs: str, moved: str, onto: str, tmp_path: Path) -> None:
    """Also where no step reads it: it may be written last. spec: V1.13"""
    plan = plan_memory(text_model("node relu Relu x -> y", inputs=inputs)).plan
    names = plan.allocation.tensors.name.list()
    storage = int(plan.allocation.tensors.storage[names.index(onto)])
    wrong = changed(plan, "tensors", names.index(moved), storage=storage)
    verdict = verify(saved(wrong, tmp_path))
    assert verdict.verdict == "REFUTED"
    assert verdict.witness is not None
    assert set(verdict.witness["tensors"]) == {moved, onto}


def test_what_is_compared_stands_beside_what_the_solver_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the steps are the model's is only said where a model was given, and the kernel's word where it is
    installed. spec: V3.10, V5.2, V6.2
    """
    answered(monkeypatch, [*ALL, Outcome("lemmas", "PROVED", 1, 0.1)])
    monkeypatch.setattr(sources, "kernel_answer", lambda *_: {"answer": NOT_INSTALLED})
    plan, path = saved(plan_memory(CHAIN).plan, tmp_path), modelled(CHAIN, tmp_path)
    alone, against = verify(plan), verify(plan, Options(model=path, arenas=AS_GIVEN))
    assert (alone.verdict, against.verdict) == ("PROVED", "PROVED")
    assert (alone.scope, against.scope) == ("for the steps it states", "against the model")
    assert ("types" in alone.not_looked_at, "types" in against.not_looked_at) == (True, False)
    assert [entry["name"] for entry in against.obligations] == [*LISTED, "lemmas"]
    assert alone.obligations == [entry for entry in against.obligations if entry["name"] not in OF_THE_USERS]
    for entry in against.obligations:
        assert (entry["verdict"], entry["detail"]) == (
            "PROVED", "by comparison" if entry["name"] in BY_COMPARISON else "",
        )  # fmt: skip


def test_every_obligation_is_listed_with_how_it_was_discharged(tmp_path: Path) -> None:
    plan, path = saved(plan_memory(CHAIN).plan, tmp_path), modelled(CHAIN, tmp_path)
    against = {entry["name"]: entry for entry in verify(plan, Options(model=path, arenas=AS_GIVEN)).obligations}
    asked = ["kernel"] if installed.find_program() is not None else []
    assert list(against) == [*LISTED, "lemmas", "definition", *asked]
    assert {entry["verdict"] for entry in against.values()} == {"PROVED"}
    assert [name for name, entry in against.items() if entry["detail"] == "by comparison"] == list(BY_COMPARISON)
    assert against["lifetimes_cover_accesses"]["rows"] > 0
    alone = [entry["name"] for entry in verify(plan).obligations]
    assert alone == [name for name in against if name not in OF_THE_USERS]


def test_a_plan_with_bodies_scratch_views_mutations_and_donations_is_proved(tmp_path: Path) -> None:
    model = full()
    nodes = tuple(replace(node, phase=Phase.FORWARD) for node in model.nodes)
    model = replace(model, nodes=nodes, bindings=replace(model.bindings, shapes={}))
    options = Options(model=modelled(model, tmp_path), bindings=Bindings(donated=("x", "s")))
    assert verify(saved(plan_memory(model).plan, tmp_path), options).verdict == "PROVED"
    # In mode `forward` the caller reads what is saved, and its alias group lets another tensor take its bytes.
    forward = verify(saved(plan_memory(model, options=PlanOptions(mode="forward")).plan, tmp_path), options)
    assert forward.witness is not None
    assert (forward.verdict, forward.witness["tensors"]) == ("REFUTED", ["sum", "y"])


def test_the_definition_itself_is_asked_up_to_the_limit(tmp_path: Path) -> None:
    plan = saved(plan_memory(CHAIN).plan, tmp_path)
    count = len(plan_memory(CHAIN).plan.allocation.storages)
    for limit, asked in ((count, True), (count - 1, False), (0, False)):
        found = verify(plan, Options(solving=Solving(definition_limit=limit)))
        assert ("definition" in found.proved, "definition" in found.not_looked_at) == (asked, not asked)


def test_what_the_user_asks_for_reaches_the_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answered(monkeypatch, [*ALL, KEPT])
    model = replace(CHAIN, bindings=Bindings(donated=("x",)))
    options = Options(solving=Solving(timeout=7.0, workers=3, definition_limit=11), bindings=Bindings(donated=("x",)))
    assert verify(saved(plan_memory(model).plan, tmp_path), options).verdict == "PROVED"
    expected = {"solver": "z3", "timeout_s": 7.0, "workers": 3, "definition_limit": 11}
    asked[0].pop("progress")
    assert asked == [{**expected, "definition_timeout_s": 7.0}]


def test_each_phase_is_reported_and_of_the_proof_each_obligation(tmp_path: Path) -> None:
    """spec: C5.1"""
    found: list[tuple[str, int, int]] = []
    verify(saved(plan_memory(CHAIN).plan, tmp_path), progress=lambda *what: found.append((*what, 0, 0)[:3]))
    phases = [phase for phase, _, _ in found]
    first = ["reading", "checking", *["proving with z3"] * len(BY_ROWS)]
    assert [phase for phase in phases if phase != "proving the definition with z3"] == [*first, "asking the kernel"]
    of = [(done, total) for phase, done, total in found if phase == "proving with z3"]
    assert of == [(k, len(BY_ROWS)) for k in range(len(BY_ROWS))]


# Refuted.


def test_a_wrong_place_is_refuted_with_its_witness(tmp_path: Path) -> None:
    """spec: C1.5"""
    plan = plan_memory(CHAIN).plan
    x, a = (int(plan.allocation.tensors.storage[plan.allocation.tensors.name.list().index(name)]) for name in "xa")
    wrong = changed(plan, "storages", a, offset=int(plan.allocation.storages.offset[x]), slot=int(plan.slots.of[x]))
    verdict = verify(saved(wrong, tmp_path))
    assert (verdict.verdict, verdict.exit) == ("REFUTED", 1)
    assert verdict.witness is not None
    assert verdict.witness["obligation"] == "no_live_overlap"
    assert set(verdict.witness["tensors"]) == {"x", "a"}
    assert (verdict.witness["steps"], verdict.witness["arena"]) == ([0], "activations")
    assert (verdict.witness["first_byte"], verdict.witness["last_byte"]) == (128, 191)
    broken = {entry["name"] for entry in verdict.obligations if entry["verdict"] == "REFUTED"}
    assert "no_live_overlap" in broken
    assert [entry["name"] for entry in verdict.obligations] == [n for n in LISTED if n not in OF_THE_USERS]
    assert {entry["verdict"] for entry in verdict.obligations} == {"REFUTED", "UNKNOWN"}
    assert 1 <= len(verdict.notes) <= 5


def test_a_witness_refutes_whatever_the_solver_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answered(monkeypatch, ALL)
    wrong = changed(plan_memory(CHAIN).plan, "tensors", "y", birth=1)
    assert verify(saved(wrong, tmp_path)).verdict == "REFUTED"
    assert asked == []  # it need not even be asked


def test_a_false_claim_is_refuted_with_its_field(tmp_path: Path) -> None:
    plan = plan_memory(CHAIN).plan
    usage = (*plan.usage[:2], plan.usage[2]._replace(peak_live_bytes=64), plan.usage[3])
    verdict = verify(saved(amend_plan(plan, usage=usage), tmp_path))
    assert verdict.witness is not None
    assert (verdict.verdict, verdict.witness | {"text": ""}) == (
        "REFUTED",
        {
            "obligation": "peak", "text": "", "tensors": [], "steps": [], "node": "",
            "field": "usage[activations].peak_live_bytes", "stated": "64", "recomputed": "128",
        },
    )  # fmt: skip


@pytest.mark.parametrize(("step", "steps"), [(None, []), (0, [0]), (3, [3])])
def test_a_difference_from_the_model_is_shown_with_its_step_if_the_plan_has_one(
    step: int | None, steps: list[int]
) -> None:
    """spec: C1.4"""
    verdict = Verdict("p.cbor", "UNKNOWN", 3, "for the steps it states")
    refute(verdict, [difference("reads", "relu", ("x", "a"), step, "x", "a")], tuple(Obligation))
    assert verdict.witness is not None
    assert verdict.witness | {"text": ""} == {
        "obligation": "steps_are_the_model", "text": "", "tensors": ["x", "a"],
        "node": "relu", "steps": steps, "field": "reads", "stated": "x", "recomputed": "a",
    }  # fmt: skip


def test_a_false_hash_is_refuted_with_both_values(tmp_path: Path) -> None:
    root = file.to_object(plan_memory(CHAIN).plan)
    right = root["file_digest"]
    (tmp_path / "p.cbor").write_bytes(canonical.encode(root | {"file_digest": bytes(32)}))
    verdict = verify(str(tmp_path / "p.cbor"))
    assert verdict.verdict == "REFUTED"
    assert verdict.witness is not None
    assert (verdict.witness["obligation"], verdict.witness["field"]) == ("hashes", "file_digest")
    assert (verdict.witness["stated"], verdict.witness["recomputed"]) == ("00" * 32, right.hex())


def test_a_shard_spec_that_does_not_fit_the_model_is_refuted_with_what_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: R7.31"""
    answered(monkeypatch, ALL)
    plan = ranks()[0]
    wrong = amend_plan(plan, shard_spec={**plan.origin.shard_spec, "stages": [["up"], []]})
    found = verify(saved(wrong, tmp_path), Options(model=modelled(LAYERS, tmp_path)))
    assert found.verdict == "REFUTED"
    assert found.witness is not None
    assert {key: found.witness[key] for key in ("obligation", "field", "stated", "recomputed")} == {
        "obligation": "shards", "field": "sharding", "stated": "rank 0 of 4",
        "recomputed": "act: no stage names this step",
    }  # fmt: skip


def test_the_bindings_of_an_envelope_that_do_not_fit_the_model_are_named(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    shown = [helper.make_tensor_value_info(name, TensorProto.UINT8, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="relu")], "g", shown[:1], shown[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    found = verify(saved(plan_memory(growing()).plan, tmp_path), Options(model=str(tmp_path / "m.onnx")))
    assert found.witness is not None
    assert (found.verdict, found.witness["field"], found.witness["stated"]) == ("REFUTED", "binding", "m=1..64")


def test_the_plan_of_another_model_is_refuted_with_what_differs(tmp_path: Path) -> None:
    other = text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node tanh Tanh b -> y", parameters="w")
    path = modelled(other, tmp_path)
    verdict = verify(saved(plan_memory(CHAIN).plan, tmp_path), Options(model=path))
    assert verdict.verdict == "REFUTED"
    assert verdict.line == f"REFUTED {tmp_path / 'p.cbor'} against {path}"
    assert verdict.witness is not None
    assert verdict.witness["obligation"] == "steps_are_the_model"
    assert {"field", "stated", "recomputed", "tensors", "steps", "text"} <= set(verdict.witness)
    broken = {entry["name"] for entry in verdict.obligations if entry["verdict"] == "REFUTED"}
    assert "steps_are_the_model" in broken


def test_all_checks_of_the_naive_side_are_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of them a plan in which nobody else sees what is false. spec: V4.4, R7.19"""
    answered(monkeypatch, ALL)
    rank = ranks()[0]
    sizes = changed(changed(rank, "shards", 2, size=3, held=3, chunk=3), "shards", 3, size=16, held=8, chunk=8)
    for name, plan, model in (
        ("sizes_over_envelope", with_bytes(open_plan(), "b", 8), None),
        ("roles_have_arenas", changed(plan_memory(CHAIN).plan, "tensors", "a", role=GRADIENT), None),
        ("shards", changed(rank, "shards", 0, held=1), None),
        ("shards", sizes, LAYERS),  # as many bytes, split as the mesh says: only the model has other sizes
    ):
        options = Options(model=None if model is None else modelled(model, tmp_path))
        found = verify(saved(plan, tmp_path), options)
        assert (found.verdict, (found.witness or {})["obligation"]) == ("REFUTED", name)
    assert verify(saved(sizes, tmp_path)).verdict != "REFUTED"


def test_a_plan_with_endless_problems_is_refuted_by_the_first_hundred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = count()

    def endless(_: object) -> Iterator[Violation]:
        return (Violation(Obligation.ALIGNMENT, f"t{k}", (f"t{k}",), 0, "activations", 0, 0) for k in seen)

    monkeypatch.setattr(checker, "violations", endless)
    verdict = verify(saved(plan_memory(CHAIN).plan, tmp_path))
    assert (verdict.verdict, verdict.notes) == ("REFUTED", ["t1", "t2", "t3", "t4", "t5"])
    assert next(seen) == 100


# Unknown.


@pytest.mark.parametrize("verdict", ["UNKNOWN", "VIOLATED", "anything"])
def test_one_obligation_that_is_not_proved_leaves_all_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    for k, good in enumerate(ALL):
        bad = replace(good, verdict=verdict, note="timeout", hint="row 7")
        answered(monkeypatch, [*ALL[:k], bad, *ALL[k + 1 :]])
        found = verify(saved(plan_memory(CHAIN).plan, tmp_path))
        assert (found.verdict, found.exit, found.witness) == ("UNKNOWN", 3, None)
        [entry] = [entry for entry in found.obligations if entry["verdict"] != "PROVED"]
        assert (entry["name"], entry["verdict"]) == (good.name, "UNKNOWN")
        assert any(note.startswith(f"{good.name}: the solver") for note in found.notes)


def test_a_solver_that_disagrees_with_the_checker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = [replace(o, verdict="VIOLATED", hint="a, b") if o.name == "peak" else o for o in ALL]
    answered(monkeypatch, bad)
    found = verify(saved(plan_memory(CHAIN).plan, tmp_path))
    assert [(note[:6], note[-6:]) for note in found.notes] == [("peak: ", "(a, b)")]


def test_an_obligation_that_the_solver_was_not_asked_is_not_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in ALL:
        answered(monkeypatch, [outcome for outcome in ALL if outcome is not missing])
        found = verify(saved(plan_memory(CHAIN).plan, tmp_path))
        assert (found.verdict, found.notes) == ("UNKNOWN", [f"{missing.name}: the solver was not asked"])
    answered(monkeypatch, [])
    assert verify(saved(plan_memory(CHAIN).plan, tmp_path)).verdict == "UNKNOWN"


def test_an_obligation_that_the_solver_was_not_asked_is_listed_as_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(monkeypatch, [outcome for outcome in ALL if outcome.name != "capacity"])
    found = {entry["name"]: entry for entry in verify(saved(plan_memory(CHAIN).plan, tmp_path)).obligations}
    assert found["capacity"] == {"name": "capacity", "verdict": "UNKNOWN", "detail": "the solver was not asked"}
    assert {entry["verdict"] for name, entry in found.items() if name != "capacity"} == {"PROVED"}


def test_a_kernel_that_does_not_accept_leaves_all_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V6.1, V6.2"""
    answered(monkeypatch, ALL)
    disagree = "CHECKERS DISAGREE: the kernel rejects it (placed) where the naive checker finds nothing"
    for said, reason, note in (
        ("rejected", "placed", disagree),
        ("no_answer", "it ended without an answer", "the kernel gave no answer: it ended without an answer"),
    ):
        monkeypatch.setattr(sources, "kernel_answer", lambda *_, w=said, r=reason: {"answer": w, "reason": r})
        found = verify(saved(plan_memory(CHAIN).plan, tmp_path))
        assert (found.verdict, found.exit, found.notes) == ("UNKNOWN", 3, [note])
        assert found.obligations[-1] == {"name": "kernel", "verdict": "UNKNOWN", "detail": reason}


def test_a_kernel_that_is_required_must_have_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V5.4"""
    answered(monkeypatch, ALL)
    for said, verdict, missing in (
        ("accepted", "PROVED", []),
        (NOT_INSTALLED, "UNKNOWN", ["required but missing: kernel"]),
    ):
        monkeypatch.setattr(sources, "kernel_answer", lambda *_, w=said: {"answer": w})
        found = verify(saved(plan_memory(CHAIN).plan, tmp_path), Options(require=("kernel",)))
        assert (found.verdict, found.notes) == (verdict, missing)
        assert ("kernel" in [entry["name"] for entry in found.obligations]) == (said == "accepted")


def test_a_lemma_or_a_definition_that_is_not_proved_leaves_all_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V4.3"""
    for name in ("lemmas", "definition"):
        answered(monkeypatch, [*ALL, Outcome(name, "UNKNOWN", 1, 0.1, note="unknown")])
        found = verify(saved(plan_memory(CHAIN).plan, tmp_path))
        assert (found.verdict, found.notes) == ("UNKNOWN", [f"{name}: the solver gave no answer (unknown)"])


# What is required, claimed and assumed.


def test_what_is_required_and_missing_leaves_all_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V5.4, Z1.5"""
    answered(monkeypatch, [*ALL, KEPT, Outcome("must_not_alias", "PROVED", 1, 0.1)])
    joined = text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", "apart x b", parameters="w"
    )
    for model, required, missing in (
        (CHAIN, ("model",), ["required but missing: model"]),
        (CHAIN, ("slot-count",), []),
        (joined, ("slot-count",), ["required but missing: slot-count"]),
        (joined, ("model", "slot-count"), ["required but missing: model", "required but missing: slot-count"]),
        (CHAIN, ("ranks",), ["required but missing: ranks"]),
        (CHAIN, ("set",), ["required but missing: set"]),
        (CHAIN, ("inputs-kept",), [LOST]),
        (KEEPING, ("inputs-kept",), []),
    ):
        found = verify(saved(plan_memory(model).plan, tmp_path), Options(require=required))
        assert (found.verdict, found.exit) == (("UNKNOWN", 3) if missing else ("PROVED", 0))
        assert [note for note in found.notes if note.startswith("required")] == missing
    path = modelled(CHAIN, tmp_path)
    required = tuple(name for name in REQUIRABLE if name not in ("kernel", "ranks", "sizes", "optimum"))
    options = Options(model=path, arenas=AS_GIVEN, require=required, in_set=True)
    assert verify(saved(plan_memory(KEEPING).plan, tmp_path), options).verdict == "PROVED"


@pytest.mark.parametrize(
    ("body", "verdict"),
    [("", "UNKNOWN"), ("arena a 8\n", "UNKNOWN"), ("arena a 8\ntensor x 8 a 0 input output\n", "PROVED")],
)
def test_a_plan_that_states_nothing_is_not_proved(
    body: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What should have printed it may have printed its first line only. spec: V5.12"""
    answered(monkeypatch, [*ALL, KEPT])
    (tmp_path / "p.plan.txt").write_text(f"tmmu-plan-text 1\n{body}")
    found = verify(str(tmp_path / "p.plan.txt"))
    assert (found.verdict, "the plan states no tensor and no step" in "".join(found.notes)) == (
        verdict, verdict == "UNKNOWN",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "donated", "note"),
    [
        (KEEPING, ("x",), "inputs-kept: donated, and so not kept: x"),
        (CHAIN, ("x",), "inputs-kept: donated, and so not kept: x"),
        (
            KEEPING,
            ("*",),
            "required but missing: inputs-kept; all inputs are donated, so that none is kept: donate fewer",
        ),
        (CHAIN, ("w",), LOST),
    ],
)
def test_what_is_donated_is_not_kept_and_named_where_it_is_required(
    model: Model, donated: tuple[str, ...], note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: Z1.6"""
    answered(monkeypatch, [*ALL, KEPT, Outcome("must_not_alias", "PROVED", 1, 0.1)])
    options = Options(bindings=Bindings(donated=donated), require=("inputs-kept",))
    found = verify(saved(plan_memory(model).plan, tmp_path), options)
    assert (found.verdict, note in found.notes) == ("UNKNOWN" if note.startswith("required") else "PROVED", True)


def test_sizes_that_a_model_states_are_assumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An IR model has no attributes from which a size could be worked out. spec: V3.9"""
    answered(monkeypatch, ALL)
    options = Options(model=modelled(CHAIN, tmp_path))
    found = verify(saved(plan_memory(CHAIN).plan, tmp_path), options)
    assert (found.verdict, list(found.assumptions["assumed_sizes"])) == ("PROVED", ["every operator"])
    found = verify(saved(plan_memory(CHAIN).plan, tmp_path), replace(options, require=("sizes",)))
    assert (found.verdict, "required but missing: sizes" in found.notes) == ("UNKNOWN", True)


def test_a_claim_that_is_not_made_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, [*ALL, KEPT, Outcome("must_not_alias", "PROVED", 1, 0.1)])
    joined = text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", "apart x b", parameters="w"
    )
    found = verify(saved(plan_memory(joined).plan, tmp_path))
    assert [note.split()[-1] for note in found.notes] == ["activations"]
    assert {name: claim["slot_count"] for name, claim in found.claims.items()} == {
        "parameters": "minimal",
        "activations": "not claimed",
    }
    assert found.claims["activations"]["peak_live_bytes"] == 128


def test_nothing_is_missed_of_an_arena_without_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, [*ALL, KEPT])
    plan = plan_memory(CHAIN).plan
    usage = tuple(one if one.slots else one._replace(minimal=False) for one in plan.usage)
    assert usage != plan.usage
    found = verify(saved(amend_plan(plan, usage=usage), tmp_path), Options(require=("slot-count",)))
    assert (found.verdict, found.notes, list(found.claims)) == ("PROVED", [], ["parameters", "activations"])


def test_a_footprint_is_optimal_where_capacity_and_peak_are_proved_and_it_is_the_peak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V5.6"""
    wide = text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", parameters="w",
        sizes={"x": 300, "b": 300},
    )  # fmt: skip
    path = saved(plan_memory(wide, options=PlanOptions(layout="packed")).plan, tmp_path)
    for proved, optimal in (
        ({"capacity", "peak"}, "proved"),
        (set(OBLIGATIONS), "proved"),
        (set(OBLIGATIONS) - {"capacity"}, "not proved"),
        (set(OBLIGATIONS) - {"peak"}, "not proved"),
    ):
        answered(monkeypatch, [o if o.name in proved else replace(o, verdict="UNKNOWN") for o in ALL])
        claims = verify(path).claims
        assert claims["parameters"]["footprint_is_optimal"] == optimal
        assert claims["activations"]["footprint"] > claims["activations"]["peak_live_bytes"]
        assert claims["activations"]["footprint_is_optimal"] == "not proved"


def test_the_verdict_on_one_rank_says_which_and_that_it_is_not_about_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank need not have what is donated: it may be on another stage. spec: R7.29"""
    answered(monkeypatch, ALL)
    plan = ranks()[2]
    found = verify(saved(plan, tmp_path), Options(bindings=Bindings(donated=("x", "w2")), require=("ranks",)))
    assert (found.verdict, found.assumptions["donated"]) == ("PROVED", ["w2"])
    assert (found.assumptions["rank"], found.assumptions["world_size"]) == (2, 4)
    assert [note.split(":")[0] for note in found.notes] == ["of one rank alone"]
    for size, said in ((2, ["of one rank alone"]), (1, [])):
        notes = verify(saved(ranks(spec({"data": size}, ("x", ["data"])))[0], tmp_path)).notes
        assert [note.split(":")[0] for note in notes] == said
    assert "rank" not in verify(saved(plan_memory(CHAIN).plan, tmp_path)).assumptions


def test_a_layout_whose_addresses_are_no_offsets_is_said_not_to_conform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: A2.6"""
    answered(monkeypatch, ALL)
    plan = plan_memory(CHAIN, options=PlanOptions(layout="hashed", address_token=bytes(range(64)))).plan
    found = verify(saved(plan, tmp_path))
    assert [note.split(":")[0] for note in found.notes] == ["layout hashed"]


def test_the_assumptions_are_the_plans_bindings_and_the_users_own_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(monkeypatch, ALL)
    bindings = Bindings({"n": 4}, {"x": (64,)}, {"rate": "16"}, {"k": "3"}, ("x",), True)
    plan = saved(plan_memory(replace(CHAIN, bindings=bindings)).plan, tmp_path)
    stated = {"dims": {"n": 4}, "ranges": {}, "shapes": {"x": [64]}, "values": {"rate": "16"}, "defaults": {"k": "3"}}
    nothing = {
        "execution": EXECUTION,
        "donated": [],
        "trusted_shapes": False,
        "believed_operators": [],
        "stated_sizes": {},
        "steps": {},
        "assumed_sizes": {},
    }
    nothing |= {"arenas": [], "devices": [], "rules": [], "overwritten_inputs": {"x": "b"}}
    nothing |= {"bases": dict.fromkeys((arena.name for arena in DEFAULT), 128)}
    assert verify(plan, Options(arenas=AS_GIVEN)).assumptions == stated | nothing
    bound = Bindings({"n": 4}, {"x": (64,)}, {"rate": "16"}, donated=("x", "w"), trust_shapes=True)
    asked = Options(bindings=bound, arenas=AS_GIVEN)
    assert verify(plan, asked).assumptions == stated | nothing | {
        "donated": ["w", "x"], "trusted_shapes": True, "overwritten_inputs": {},
    }  # fmt: skip
    starred = replace(asked, bindings=replace(bound, donated=("x*", "w*"), trust_shapes=False))
    assert verify(plan, starred).assumptions == stated | nothing | {"donated": ["w", "x"], "overwritten_inputs": {}}


def test_a_plan_without_provenance_is_meant_as_the_user_has_it() -> None:
    """Its envelope alone decides the ranges."""
    plan = replace(plan_memory(CHAIN).plan, provenance=None, claims=None)
    given = Bindings({"n": 4}, {"x": (64,)}, {"rate": "16"}, trust_shapes=True, ranges={"n": (1, 8)})
    asked = replace(given, donated=("x",))
    assert settings.mode_of(plan, "forward") == "forward"
    assert settings.mode_of(plan, None) == "inference"
    assert settings.bindings_for(plan, asked) == given
    opened = text_model("dim n 1 4", "tensor x f32 nx4", "tensor y f32 nx4", "node r Relu x -> y")
    ranged = replace(plan_memory(opened).plan, provenance=None, claims=None)
    assert settings.bindings_for(ranged, asked).ranges == {"n": (1, 4)}


@pytest.mark.parametrize("mode", ["inference", "forward"])
def test_the_mode_in_which_a_model_is_meant_is_printed(mode: str, tmp_path: Path) -> None:
    """It decides which steps of the model are compared, and the plan states it. spec: V5.3"""
    model = text_model("node m MatMul x w -> a", "node relu Relu a -> y", parameters="w", each="f32 4x4")
    plan = saved(plan_memory(prepare_graph(model, mode, DEFAULT), options=PlanOptions(mode=mode)).plan, tmp_path)
    against = verify(plan, Options(model=modelled(model, tmp_path)))
    assert (against.verdict, against.assumptions["mode"]) == ("PROVED", mode), against.witness
    assert f"; mode {mode}; " in list(lines(against))[2]
    assert "mode" not in verify(plan).assumptions


def test_an_operation_taken_at_its_word_is_an_assumption(tmp_path: Path) -> None:
    """spec: V2.2"""
    model = text_model("node relu Relu x -> a", "node own com.example::Own a -> y inplace y a")
    plan = saved(plan_memory(model).plan, tmp_path)
    for options in (Options(), Options(model=modelled(model, tmp_path))):
        found = verify(plan, options)
        assert (found.verdict, found.assumptions["believed_operators"]) == ("PROVED", ["com.example::Own"])


def test_what_is_believed_of_a_sharded_model_is_an_assumption_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard spec's word on an operator, beside the model's own. spec: V2.2"""
    answered(monkeypatch, ALL)
    model = matrices(["s Softmax: x -> y", "own com.example::Own: y -> z"], dict.fromkeys("xyz", (4, 4)), "z")
    model = replace(model, nodes=(model.nodes[0], replace(model.nodes[1], in_place=((2, 1),))))
    by = spec({"data": 2}, ("x", ["data"]), operators=[{"op": "Softmax", "across": [-1]}])
    found = verify(saved(ranks(by, model)[1], tmp_path), Options(model=modelled(model, tmp_path)))
    assert (found.verdict, found.assumptions["believed_operators"]) == (
        "PROVED", ["com.example::Own", "Softmax combines elements along dimension -1 only (shard spec)"],
    )  # fmt: skip


def test_the_plans_word_on_donation_does_not_count(tmp_path: Path) -> None:
    plan = saved(plan_memory(text_model("node relu Relu x -> y inplace y x", "tensor x u8 64 donated")).plan, tmp_path)
    assert verify(plan).verdict == "REFUTED"
    assert verify(plan, Options(bindings=Bindings(donated=("x",)))).verdict == "PROVED"


def test_a_pattern_donates_every_name_that_it_fits(tmp_path: Path) -> None:
    """spec: C1.6, V5.3"""
    lines = "node relu Relu x.a -> y inplace y x.a", "node relu2 Relu x.b -> z inplace z x.b", "node relu3 Relu u -> v"
    model = text_model(*lines, "tensor x.a u8 64 donated", "tensor x.b u8 64 donated", inputs="x.a x.b u")
    plan = saved(plan_memory(model).plan, tmp_path)
    found = verify(plan, Options(bindings=Bindings(donated=("x.*",))))
    assert (found.verdict, found.assumptions["donated"]) == ("PROVED", ["x.a", "x.b"])
    assert verify(plan, Options(bindings=Bindings(donated=("*b",)))).verdict == "REFUTED"


def test_a_name_with_a_star_is_itself(tmp_path: Path) -> None:
    plan = saved(
        plan_memory(text_model("node relu Relu x*y -> y inplace y x*y", "tensor x*y u8 64 donated", inputs="x*y")).plan,
        tmp_path,
    )
    found = verify(plan, Options(bindings=Bindings(donated=("x*y",))))
    assert (found.verdict, found.assumptions["donated"]) == ("PROVED", ["x*y"])


DISAGREEING: list[tuple[Options, str]] = [
    (Options(bindings=Bindings(dims={"n": 5})), "--dim n=5: the plan was made with 4"),
    (Options(bindings=Bindings(dims={"k": 4})), "--dim k=4: the plan was made with nothing"),
    (Options(bindings=Bindings(dims={"m": 4})), "--dim m=4: the plan was made with 1..64"),
    (Options(bindings=Bindings(ranges={"m": (1, 63)})), "--dim m=1..63: the plan was made with 1..64"),
    (Options(bindings=Bindings(ranges={"n": (4, 5)})), "--dim n=4..5: the plan was made with nothing"),
    (Options(bindings=Bindings(shapes={"x": (8, 8)})), "--shape x=(8, 8): the plan was made with (64,)"),
    (Options(bindings=Bindings(values={"rate": "17"})), "--value rate=17: the plan was made with 16"),
    (Options(bindings=Bindings(donated=("y",))), "--donate y: the plan has no graph input or parameter of this name"),
    (Options(bindings=Bindings(donated=("y*",))), "--donate y*: the plan has no graph input or parameter of this name"),
    (Options(bindings=Bindings(donated=("nobody",))), "--donate nobody: the plan has no graph input"),
]


@pytest.mark.parametrize(("options", "message"), DISAGREEING, ids=[message for _, message in DISAGREEING])
def test_a_binding_that_is_not_the_plans_is_an_error_of_the_user(
    tmp_path: Path, options: Options, message: str
) -> None:
    bindings = Bindings({"n": 4}, {"x": (64,)}, {"rate": "16"}, ranges={"m": (1, 64)})
    plan = saved(plan_memory(replace(growing(), bindings=bindings)).plan, tmp_path)
    with pytest.raises(Disagreement) as refused:
        verify(plan, options)
    assert str(refused.value).startswith(message)


# What is written beside the verdict.


def test_what_an_earlier_run_wrote_is_removed_before_the_plan_is_read(tmp_path: Path) -> None:
    """spec: C4.4"""
    plan = plan_memory(CHAIN).plan
    coq_file.write_coq_file(
        tmp_path / "coq", "p", context_of(plan, decide_permissions(plan, None, frozenset())), bytes(32), tmp_path
    )
    (tmp_path / "smt" / "p").mkdir(parents=True)
    (tmp_path / "smt" / "p" / "capacity.smt2").touch()
    (tmp_path / "p.cbor").write_bytes(b"no plan")
    with pytest.raises(TmmuError):
        verify(
            str(tmp_path / "p.cbor"),
            Options(folders=ProofFolders(smt2=str(tmp_path / "smt"), coq=str(tmp_path / "coq"))),
        )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "p.cbor"]


def test_a_proved_plan_is_exported_with_the_lemmas_of_its_chains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C4.3"""
    answered(monkeypatch, ALL)
    lemmas: list[tuple[Path, list[str]]] = []
    monkeypatch.setattr(export, "write_lemmas", lambda folder, names: lemmas.append((folder, names)))
    found = verify(saved(plan_memory(CHAIN).plan, tmp_path), Options(folders=ProofFolders(smt2=str(tmp_path / "out"))))
    assert (found.verdict, found.notes) == ("PROVED", [])
    written = {path.stem for path in (tmp_path / "out" / "p").iterdir()}
    assert written == {*OBLIGATIONS, promises.NAME} - set(BY_COMPARISON)
    [(folder, names)] = lemmas
    assert (folder, "tenants_are_apart_in_time" in names) == (tmp_path / "out" / "lemmas", True)


def test_a_plan_of_which_one_obligation_is_open_is_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C4.3"""
    answered(monkeypatch, [*ALL[:-1], replace(ALL[-1], verdict="UNKNOWN", note="timeout")])
    out = str(tmp_path / "out")
    found = verify(saved(plan_memory(CHAIN).plan, tmp_path), Options(folders=ProofFolders(smt2=out)))
    assert found.notes[-1] == f"nothing is written to {out}: not every obligation is discharged"
    assert not (tmp_path / "out").exists()


def test_a_file_for_coq_is_written_where_it_is_asked_for_and_the_theory_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V6.4"""
    answered(monkeypatch, ALL)
    plan = saved(plan_memory(CHAIN).plan, tmp_path)
    for asked, theory, written in ((True, tmp_path, True), (True, None, False), (False, tmp_path, False)):
        monkeypatch.setattr(installed, "find_theory", lambda found=theory: found)
        folder = tmp_path / f"{asked} {theory is not None}"
        verify(plan, Options(folders=ProofFolders(coq=str(folder) if asked else None)))
        assert (folder / "Plan.v").exists() is written
    digest = file.load(plan).hashes["file_digest"]
    assert digest.hex() in (tmp_path / "True True" / "Plan.v").read_text()


# No verdict.


def test_a_model_that_cannot_be_read_is_refused_by_its_name(tmp_path: Path) -> None:
    plan = saved(plan_memory(CHAIN).plan, tmp_path)
    for name, code in (("m.ir.cbor", "INVALID_IR"), ("m.onnx", "INVALID_IR")):
        (tmp_path / name).write_bytes(b"no model")
        with pytest.raises(TmmuError) as refused:
            verify(plan, Options(model=str(tmp_path / name)))
        assert (refused.value.code_id, refused.value.file) == (code, str(tmp_path / name))


def test_a_model_that_the_plans_mode_does_not_fit_is_refused_by_its_name(tmp_path: Path) -> None:
    """The plan is of mode backward, and the model has a step that has no gradient."""
    plan = amend_plan(plan_memory(CHAIN).plan, mode="backward")
    path = modelled(text_model("node own com.example::Own x -> y", parameters="w"), tmp_path)
    with pytest.raises(TmmuError) as refused:
        verify(saved(plan, tmp_path), Options(model=path))
    assert (refused.value.code_id, refused.value.file) == ("MODE_VIOLATION", path)


def test_bytes_that_are_no_plan_are_refused_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "p.cbor").write_bytes(b"no plan")
    with pytest.raises(TmmuError) as refused:
        verify(str(tmp_path / "p.cbor"))
    assert (refused.value.code_id, refused.value.file) == ("INVALID_PLAN", str(tmp_path / "p.cbor"))


def test_an_onnx_model_is_read_with_the_plans_bindings(tmp_path: Path) -> None:
    """The reader gets the plan's dims, shapes and values, but the user's own word on trust and donation. spec: V5.5"""
    import onnx
    from onnx import TensorProto, helper

    from tmmu.tasks.models import load

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="relu")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert onnx.load(path)
    plan = plan_memory(load(str(path), Bindings({"n": 4}))).plan
    assert plan.origin.source_digest == hashlib.sha256(path.read_bytes()).digest()
    found = verify(saved(plan, tmp_path), Options(model=str(path), bindings=Bindings(dims={"n": 4})))
    assert (found.verdict, found.assumptions["dims"]) == ("PROVED", {"n": 4})
    for wrong in ({"n": 5}, {"n": 4, "m": 4}):
        false = saved(amend_plan(plan, bindings=replace(plan.bindings, dims=wrong)), tmp_path)
        found = verify(false, Options(model=str(path)))
        assert found.verdict == "REFUTED"
    # A binding that names nothing in the model is the plan's, not the user's: this is the plan of another model.
    assert found.witness is not None
    assert (found.witness["field"], found.witness["stated"]) == ("binding", "m=4, n=4")
    assert "no dimension is named 'm'" in found.witness["recomputed"]


def test_the_verdict_lists_no_obligation_twice() -> None:
    assert len(set(OBLIGATIONS)) == len(OBLIGATIONS)
    assert set(BY_COMPARISON) < set(OBLIGATIONS)
    assert set(obligations.MODULES) == set(OBLIGATIONS) - set(BY_COMPARISON)
    assert isinstance(Verdict("p", "ERROR", 4, "").line, str)
    assert verify_plan.EXITS == {"PROVED": 0, "REFUTED": 1, "UNKNOWN": 3}
