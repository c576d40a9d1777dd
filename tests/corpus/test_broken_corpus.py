"""Every kind of wrong plan is refuted by the command, with its obligation and a witness that names what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proofs.verify.command import command
from tests.support.kept_findings import KEPT, Findings, findings
from tmmu import examples
from tmmu.core.canonical import write_atomically
from tmmu.core.vocabulary import Model, Role, Shares
from tmmu.examples.broken import KINDS, Broken
from tmmu.examples.broken import models as base
from tmmu.examples.broken.editing import counted, edit, laid_out, moved, offset_of, reordered, right, shared, without
from tmmu.plans import file
from tmmu.plans.sections import amend_plan

RIGHT = {
    "skip": base.skip(),
    "twice-read": base.twice_read(),
    "once-read": base.once_read("Relu"),
    "first-reader": base.first_reader(Role.PARAMETER),
    "loop": base.loop(),
    "swap": base.loop(swap=True),
}
"""The models from which the wrong plans are made."""

FOUND: dict[str, Findings] = json.loads(KEPT.read_text())
DEMANDED = {
    "in-place-read-later", "broadcast-in-place", "every-tensor-in-one-storage", "zero-sizes", "steps-reversed",
    "step-left-out", "tensor-left-out", "storage-smaller-than-its-tensor", "window-beyond-the-storage",
    "captured-value-overwritten-in-the-second-iteration", "loop-swaps-its-values-in-place",
    "input-overwritten-before-its-first-reader", "output-overwritten-after-its-last-step",
    "parameter-overwritten-after-its-last-reader", "view-beside-its-base", "two-results-on-the-same-bytes",
    "alias-group-with-a-stale-read", "matrix-product-in-place", "plan-of-another-model", "table-cut-short",
    "more-slots-than-live-storages", "peak-understated", "mico-pool-shared-with-the-input", "mico-pool-too-small",
}  # fmt: skip
"""Kinds that the project has promised to catch, by name."""


def verified(path: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    """The exit code of `verify-plan` and its JSON for one file, or for the last of several verdicts."""
    result = CliRunner().invoke(command, [str(path), *flags, "--format", "json"], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, json.loads(result.stdout)["files"][-1]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_is_refuted_with_its_obligation_and_witness(kind: Broken, tmp_path: Path) -> None:
    """spec: C2.5, V4.4, C1.5"""
    written = [Path(path) for path in examples.write(f"broken/{kind.name}", tmp_path / "b.cbor")]
    beside = [path for path in (tmp_path / "b.onnx", tmp_path / "b.ir.cbor") if path.exists()]
    others = sorted(tmp_path.glob("b.other*.cbor"))
    assert written == [tmp_path / "b.cbor", *beside, *others]
    models = (flag for path in beside for flag in ("--model", str(path)))
    code, answer = verified(written[0], *map(str, others), *models)
    assert (code, answer["verdict"]) == (1, "REFUTED")
    refuted = {entry["name"] for entry in answer["obligations"] if entry["verdict"] == "REFUTED"}
    assert kind.obligation in refuted
    witness = answer["witness"]
    assert set(kind.tensors) <= set(witness.get("tensors", ()))
    if kind.field is not None:
        assert witness["field"] == kind.field
        assert witness["stated"] != witness["recomputed"]
    assert witness["text"]


@pytest.mark.parametrize("name", ["step-left-out", "zero-sizes", "plan-of-another-model"])
def test_a_kind_with_a_model_is_refuted_by_the_model_alone(name: str, tmp_path: Path) -> None:
    """Such a plan is consistent in itself: without the model nothing is found, and the scope says so."""
    path = Path(examples.write(f"broken/{name}", tmp_path / "b.cbor")[0])
    _, answer = verified(path)
    assert answer["verdict"] != "REFUTED"
    assert answer["scope"] == "for the steps it states"


@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT)
def test_the_plans_that_they_are_made_from_are_proved(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "right.cbor"
    file.save(right(model), path)
    code, answer = verified(path)
    assert (code, answer["verdict"]) == (0, "PROVED"), answer["witness"] or answer["notes"]


def test_the_promised_kinds_are_there() -> None:
    assert set(KINDS) >= DEMANDED
    assert len(KINDS) >= 45


def test_every_kind_says_what_is_wrong_in_a_sentence_of_its_own() -> None:
    sentences = [kind.sentence for kind in KINDS.values()]
    assert len(set(sentences)) == len(sentences)
    assert all(sentence.endswith(".") and len(sentence) > 30 for sentence in sentences)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_found_and_what_solvers_are_asked_is_the_same(kind: Broken) -> None:
    """All of it, and not the witness alone. Run `python -m tests.support.kept_findings` where it should change."""
    assert findings(kind) == FOUND[kind.name]


def test_kinds_are_files_of_their_own_that_are_made_to_the_same_bytes_again_with_hashes_that_hold() -> None:
    """But for the hashes of the kinds that are about them."""
    made = [kind.build() for kind in KINDS.values()]
    encoded = [one.encode() for one in made]
    for kind, data in zip(KINDS.values(), encoded, strict=True):
        false = [field for field, _, _ in file.find_false_hashes(file.decode(data))]
        assert false == ([kind.field] if kind.obligation == "hashes" else [])
        assert kind.build().encode() == data
    assert len({(data, *map(file.encode, one.others)) for one, data in zip(made, encoded, strict=True)}) == len(KINDS)


def test_laying_out_a_right_plan_changes_nothing() -> None:
    for model in RIGHT.values():
        plan = right(model)
        assert file.encode(laid_out(plan)) == file.encode(plan)


def test_counting_the_claims_of_a_right_plan_changes_nothing() -> None:
    for model in RIGHT.values():
        plan = right(model)
        assert counted(plan).usage == plan.usage


def test_an_edit_changes_the_entry_and_nothing_else() -> None:
    plan = right(base.skip())
    edited = edit(plan, tensors={"b": {"death": 3}})
    assert plan.allocation.tensors.death.tolist() != edited.allocation.tensors.death.tolist()
    assert edited == amend_plan(plan, tensors=edited.allocation.tensors)
    assert edit(edited, tensors={"b": {"death": 2}}).allocation.tensors == plan.allocation.tensors


def test_a_moved_storage_begins_where_it_is_put() -> None:
    plan = moved(right(base.skip()), "c", onto="a", by=64)
    assert offset_of(plan, "c") == offset_of(plan, "a") + 64


def test_a_shared_tensor_widens_the_storage_that_it_is_put_into() -> None:
    plan = shared(right(base.once_read("Relu")), "r", "a", Shares.ALIAS, window=4)
    assert plan.allocation.storages.bytes.max() == 64 * 64 * 4
    assert 260 in plan.allocation.storages.bytes.tolist()


def test_a_tensor_that_is_taken_out_is_nowhere() -> None:
    plan = right(base.skip())
    fewer = without(plan, "c")
    assert "c" not in fewer.allocation.tensors.name.list()
    assert len(fewer.allocation.storages) == len(plan.allocation.storages) - 1
    accesses = [
        plan.allocation.tensors.name[t]
        for step in plan.allocation.steps.listed("reads")
        for t in step
        if plan.allocation.tensors.name[t] != "c"
    ]
    assert [
        fewer.allocation.tensors.name[t] for step in fewer.allocation.steps.listed("reads") for t in step
    ] == accesses


def test_steps_in_their_own_order_are_unchanged() -> None:
    plan = right(base.loop())
    assert reordered(plan, range(len(plan.allocation.steps))).allocation.steps == plan.allocation.steps
    backwards = reordered(plan, range(len(plan.allocation.steps) - 1, -1, -1))
    assert backwards.allocation.steps.node.list() == plan.allocation.steps.node.list()[::-1]
    assert backwards.allocation.steps.listed("reads") == plan.allocation.steps.listed("reads")[::-1]


def test_a_wrong_plan_may_be_written_by_hand(tmp_path: Path) -> None:
    made = KINDS["plan-hash-false"].build()
    write_atomically(tmp_path / "h.cbor", made.encode())
    assert file.load(tmp_path / "h.cbor").hashes["plan_hash"] == made.stated["plan_hash"]
