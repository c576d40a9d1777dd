"""Every kind of wrong plan that corrupts data is caught by running it; of the others the reason is written here.

spec: C2.5, SIM1.6, SIM7.1
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import ran
from tmmu import examples
from tmmu.examples.broken import KINDS

RECORD = "only the record of something: no step reads it, and no byte lies elsewhere for it"
LATER = "the lifetime that is stated is wrong, but no storage has taken the bytes for that"
CLAIM = "a claim about the size of the plan is false; the plan itself is right"
TRIPS = "the bytes are right for any number of trips; how often the body runs is a false word of the plan"
AGAIN = "whatever is read is read after the last of its writes, as the steps say"
MAPPED = "addresses are only less aligned than they should be, which this machine's kernels bear"

ELSEWHERE = (
    "the arena is another than the rules of the configuration say; every memory of this machine takes every tensor"
)
FULL = "two arenas do not fit into the device memory that they divide; this machine maps each for itself"

OPEN = "the plan is run at the sizes that it states; it is wrong at a shape of the envelope that has others"

RANKS = "each rank alone runs right: what is wrong is what the ranks do together, or what a rank says that it holds"

HARMLESS: dict[str, str] = {
    **dict.fromkeys(
        (
            "rank-of-a-foreign-shard-spec", "rank-planned-twice", "rank-without-its-sharding", "ranks-with-two-layouts",
            "rank-of-another-stage", "rank-that-normalizes-by-its-part", "shard-held-twice",
            "shard-of-another-dimension", "shard-that-one-rank-omits", "shard-with-a-gap",
            "stages-that-wait-for-each-other", "weight-that-the-rank-leaves-out",
        ),
        RANKS,
    ),
    **dict.fromkeys(
("largest-at-another-shape", "maximum-taken-at-the-upper-end"),
        OPEN,
    ),
    **dict.fromkeys(("memory-overfull-by-alignment", "memory-overfull-though-each-arena-fits"), FULL),
    **dict.fromkeys(
        (
            "parameter-where-its-device-forbids-it", "tensor-in-an-arena-of-another-role",
            "tensor-in-an-arena-that-its-rule-forbids", "tensor-where-only-a-later-rule-permits-it",
        ),
        ELSEWHERE,
    ),
    **dict.fromkeys(
        (
            "arena-config-hash-false", "execution-order-hash-false", "file-digest-false", "layout-digest-false",
            "plan-hash-false", "shard-spec-hash-false", "source-digest-of-another-model",
        ),
        "a hash is false, of a plan that is right",
    ),
    **dict.fromkeys(
        (
            "footprint-overstated", "hashed-footprint-is-an-end", "more-slots-than-live-storages",
            "most-live-at-another-step", "most-live-overstated", "packed-footprint-overstated", "peak-at-another-step",
            "peak-overstated", "peak-understated", "slot-count-claimed-despite-a-conflict",
            "slot-stricter-than-what-it-holds", "slot-with-bytes-to-spare", "slots-miscounted",
            "packed-slot-alignment-no-power-of-two",
        ),
        CLAIM,
    ),
    **dict.fromkeys(
        ("another-writer-is-stated", "slot-of-another-arena", "slot-smaller-than-its-storage",
         "packed-slot-shared-by-live-storages", "capacity-exceeded"),
        RECORD,
    ),
    **dict.fromkeys(("lives-beyond-the-last-step",), LATER),
    **dict.fromkeys(("branch-declared-to-run-again", "loop-declared-to-run-once"), TRIPS),
    **dict.fromkeys(
        ("alignment-understated", "base-alignment-understated", "packed-storage-misaligned", "storage-misaligned",
         "tensor-misaligned"), MAPPED
    ),
    "donation-claimed-by-the-plan": "the caller of this run does not use its inputs again; another may",
    "fixed-tensor-moved": "what looks for the tensor at the fixed byte is outside of the run",
    "in-place-on-an-input": "the caller of this run does not use its inputs again; another may",
    "bytes-used-again-where-an-arena-does-not-reuse": "what shares the bytes is never live at one step",
    "result-stated-to-be-returned": "the result is kept to the end, as the plan states it",
    "hashed-slot-ends-beyond-64-bits": "the bytes that no 64-bit address reaches are never asked for by address here",
    "in-place-beside-a-view-of-the-operand": "computed element by element, both operands are read in time",
    "one-slot-at-two-offsets": "the bytes at the other offset are free while they are used",
    "must-not-alias-and-does": "the two are never live at once: what forbids it lies outside of the plan",
    "storage-smaller-than-its-tensor": "the bytes behind the storage are free in this plan",
    "view-across-the-boundary-of-a-body": "the body only reads what it shows",
    "written-by-the-caller-and-by-a-step": "the step makes the whole tensor anew before anybody reads it",
    **dict.fromkeys(
        ("written-twice", "arm-writes-twice", "both-arms-write-undeclared", "leave-writes-what-the-arms-wrote"), AGAIN
    ),
    **dict.fromkeys(("loop-with-exclusive-arms", "one-arm-declared-exclusive"), TRIPS),
    **dict.fromkeys(
        ("alias-elsewhere", "in-place-elsewhere", "view-without-reading-its-base"),
        "what the column of sharing states is false; the run goes by operators and addresses",
    ),
    "symbolic-offset-that-follows-from-no-slot": "at the planned sizes, which are those of the run, nothing overlaps",
    "empty-arena-with-live-storages": "the arena holds nothing that is run",
    "value-that-a-later-arm-reads-overwritten-by-an-earlier": "outside of a loop nothing runs both arms",
    "returned-value-that-one-arm-does-not-write": "the run compares what the steps of the arm that runs have written",
}  # fmt: skip
"""Kinds that corrupt nothing, each with the reason."""

REFUSED: dict[str, str] = {
    "alignment-no-power-of-two": "ALIGNMENT_VIOLATION",
    "empty-arena-aligned-to-three": "ALIGNMENT_VIOLATION",
    "hashed-slots-collide": "ADDRESS_COLLISION",
    "hashed-slots-collide-at-different-steps": "ADDRESS_COLLISION",
    "another-operator-run-again": "MODE_VIOLATION",
    "gradient-without-what-it-is-computed-from": "MODE_VIOLATION",
    "gradients-added-in-another-order": "MODE_VIOLATION",
    "other-values-run-again": "MODE_VIOLATION",
    "random-numbers-drawn-again": "MODE_VIOLATION",
    "weight-without-its-last-contribution": "MODE_VIOLATION",
    "size-of-inference-alone": "CONTRACT_VIOLATION",
}
"""Kinds that are not run to the end, with the code: arenas that cannot be mapped, gradient steps without kernels, and a
result of another size than planned."""


@pytest.mark.parametrize("name", KINDS)
def test_a_wrong_plan_corrupts_or_has_a_reason_not_to(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the model where there is one, else with stand-in kernels."""
    plan, *others = examples.write(f"broken/{name}", tmp_path / "b.cbor")
    model = [path for path in others if path.endswith(".onnx") and "rank" not in name and "shard" not in name]
    beside = [model[0], "--plan", plan] if model else [plan]
    code, out, err = ran(capsys, "run", *beside, "--random-weights", "--sanitize", "--format", "json")
    if name in REFUSED:
        assert (code, out) == (4, "")
        assert f"[{REFUSED[name]}]" in err
        return
    answer = json.loads(out)
    if name in HARMLESS:
        assert (code, answer["verdict"], answer["witness"]) == (0, "IDENTICAL", None)
        return
    assert (code, answer["verdict"]) == (1, "CORRUPTED")
    assert answer["witness"]["text"]


def test_the_lists_name_kinds_that_exist() -> None:
    assert not {*HARMLESS, *REFUSED} - set(KINDS)
    assert not set(HARMLESS) & set(REFUSED)


def test_most_kinds_corrupt() -> None:
    """A reason that were too good would hide a simulator that sees nothing."""
    assert len(KINDS) - len(HARMLESS) - len(REFUSED) > 70


SHOWN = {
    "in-place-read-later": ({"a", "r"}, 2),
    "captured-value-overwritten-in-the-second-iteration": ({"bias", "repeat/body/r.copy0"}, 2),
    "parameter-overwritten-after-its-last-reader": ({"first", "b"}, None),
    "view-of-an-overwritten-base": ({"v", "b"}, 3),
    "scratch-over-the-result": ({"r.scratch0", "r"}, 0),
    "packed-storages-overlap-by-one-byte": ({"b", "c"}, 2),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_sanitizer_names_both_tensors_and_the_step(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: SIM3.1"""
    (plan,) = examples.write(f"broken/{name}", tmp_path / "b.cbor")
    _, out, _ = ran(capsys, "run", plan, "--sanitize", "--format", "json")
    witness = json.loads(out)["witness"]
    assert (set(witness["tensors"]), witness["step"]) == SHOWN[name]
    assert witness["first_byte"] <= witness["last_byte"]


@pytest.mark.parametrize("name", ["in-place-read-later", "slots-overlap-by-half", "softmax-in-place"])
def test_without_the_sanitizer_the_bytes_themselves_show_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: SIM1.3, SIM1.4, SIM2.3"""
    (plan,) = examples.write(f"broken/{name}", tmp_path / "b.cbor")
    code, out, _ = ran(capsys, "run", plan)
    assert code == 1
    assert out.startswith(f"CORRUPTED {plan}: step ")
