"""The kernel's program reads the bytes of the plan file itself, whatever is said of them.

spec: V6.2, V6.16, V6.19, R1.3
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from proofs.proving.kernel import installed
from proofs.proving.kernel.answer import kernel_answer
from proofs.proving.kernel.program import KernelAnswer, PlanFile, ask
from proofs.proving.obligations.context import Context, context_of
from proofs.readers.sharing import decide_permissions
from tests.support.growing import growing
from tests.support.synthetic import training_plan
from tests.support.text_models import text_model
from tmmu.core import canonical
from tmmu.examples.broken.editing import changed
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan, amend_plan

ROOT = Path(__file__).resolve().parents[3]
PLAN = training_plan(12, seed=3, in_place=0.3, views=0.3)
DATA = file.encode(PLAN)
OF_STREAMS = {"streams", "stream", "after_at", "after", "antichain"}


def context(plan: Plan) -> Context:
    return context_of(plan, decide_permissions(plan, None, frozenset()), frozenset())


def answer(data: bytes, claimed: bytes | None = None, about: Plan = PLAN) -> KernelAnswer:
    """The answer on these bytes, beside the permissions and the evidence of a plan; `claimed` are those expected."""
    program = installed.find_program()
    assert program is not None

    def write(stream: IO[bytes]) -> None:
        stream.write(data)

    digest = hashlib.sha256(data if claimed is None else claimed).digest()
    return ask(program, context(about), PlanFile(write, digest), 60)


def test_what_a_plan_was_read_from_is_written_again_with_the_hashes_that_it_states(tmp_path: Path) -> None:
    for data in (DATA, file.encode(PLAN, {"plan_hash": bytes(32), "file_digest": bytes(32)})):
        stated = file.decode(data)
        with (tmp_path / "copy").open("wb") as copy:
            PlanFile.as_read(stated).write(copy)
        assert (tmp_path / "copy").read_bytes() == data
        assert stated.sha256 == hashlib.sha256(data).digest()


@pytest.mark.parametrize("at", range(0, len(DATA), len(DATA) // 40))
def test_a_damaged_byte_is_refused_or_is_another_file(at: int) -> None:
    """The words are those of the file before."""
    damaged = DATA[:at] + bytes([DATA[at] ^ (1 << at % 8)]) + DATA[at + 1 :]
    found = answer(damaged, claimed=DATA)
    assert (found.accepted, found.rejected, bool(found.failure)) == (False, False, True)


@pytest.mark.parametrize(
    "damaged", [DATA[:-1], DATA + b"\0", DATA[1:], b"\xa0", b"\0", DATA[:1] + b"\x78\6" + DATA[2:]]
)
def test_bytes_that_are_no_plan_are_rejected_and_the_part_is_named(damaged: bytes) -> None:
    """Cut short, gone on, no map, nothing in it, and a key whose length is stated in more bytes than it needs."""
    assert answer(damaged) == KernelAnswer(rejected=True, part="stated")


def test_the_bytes_count_and_not_what_is_said_of_them() -> None:
    """A wrong plan's file is rejected beside the evidence of a right plan, and a right one's accepted of a wrong."""
    assert answer(DATA).accepted
    over = changed(PLAN, "storages", 5, offset=0)
    for wrong in (over, changed(PLAN, "tensors", 6, window=1 << 40), changed(PLAN, "storages", 5, death=1)):
        assert answer(file.encode(wrong)).rejected
    assert answer(file.encode(replace(PLAN, claims=None, provenance=None)), about=over).rejected  # it has no slots
    assert answer(DATA, about=changed(PLAN, "storages", 5, alignment=1)).accepted


def plan_with_optional_keys() -> Plan:
    """A symbolic plan that keeps its inputs, whose arenas state how their bases are aligned."""
    model = growing()
    keeping = replace(model, bindings=replace(model.bindings, keep_inputs=True))
    plan = plan_memory(keeping, options=PlanOptions(symbolic=True)).plan
    return amend_plan(plan, arenas=tuple(replace(arena, base_alignment=8192) for arena in plan.allocation.arenas))


MAPS = ("", "allocation", "allocation arenas 0", "allocation storages", "allocation tensors", "allocation steps",
        "claims", "claims usage 0", "claims slots", "envelope")  # fmt: skip


@pytest.mark.parametrize("path", [None, *MAPS])
def test_optional_keys_are_read_and_unknown_ones_refused(path: str | None) -> None:
    """spec: V6.19, Z1.2"""
    plan = plan_with_optional_keys()
    value = at = canonical.decode(file.encode(plan), "plan")
    assert (value["envelope"]["symbolic"], value["allocation"]["arenas"][0]["base_alignment"]) == (True, 8192)
    for key in (path or "").split():
        at = at[int(key) if key.isdigit() else key]
    if path is not None:
        at["is_known_to_no_map"] = 0
    found = answer(canonical.encode(value), about=plan)
    assert (found.accepted, found.inputs, found.symbolic, found.part) == (
        (False, None, None, "stated") if path is not None else (True, True, True, "")
    )


def test_a_symbolic_plan_whose_offsets_follow_from_no_slot_is_rejected() -> None:
    """It is safe at its own sizes. spec: V6.21"""
    plan = plan_with_optional_keys()
    last = int(plan.allocation.storages.offset.argmax())
    moved = changed(plan, "storages", last, offset=int(plan.allocation.storages.offset[last]) + 128)
    moved = amend_plan(moved, usage=tuple(used._replace(footprint=(used.footprint or 0) + 128) for used in plan.usage))
    assert moved.envelope is not None
    told = kernel_answer(context(moved), PlanFile.of(moved), 60)
    assert (told["answer"], told["reason"], "symbolic" in told) == ("rejected", "symbolic", False)
    fixed = replace(moved, envelope=replace(moved.envelope, symbolic=False))
    told = kernel_answer(context(fixed), PlanFile.of(fixed), 60)
    assert (told["answer"], "symbolic" in told) == ("accepted", False)
    assert answer(file.encode(fixed), about=fixed).symbolic is None


@pytest.mark.checkout
def test_the_keys_that_it_knows_are_those_of_the_schema() -> None:
    """In the order of keys in a file, without those of plans with streams. spec: V6.19, V6.28, R1.1"""
    theory = (installed.SOURCES / "PlanFile.v").read_text()
    schema = (ROOT / "spec/plan.cddl").read_text()
    known = re.findall(r"KEYS_OF_(\w+) : list string :=\s*\[(.*?)\]", theory, re.DOTALL)
    assert len(known) == 11
    for name, keys in known:
        rule = "plan" if name == "FILE" else name.lower()
        [body] = re.findall(rf"^{rule} = {{\n(.*?)^}}", schema, re.MULTILINE | re.DOTALL)
        listed = set(re.findall(r'^ +(?:\? )?"(\w+)":', body, re.MULTILINE)) - OF_STREAMS
        assert re.findall(r'"(\w+)"', keys) == sorted(listed, key=lambda key: (len(key), key)), name


def test_a_file_that_states_streams_is_refused() -> None:
    """Whatever is asked beside it. spec: V6.28"""
    plan = plan_memory(text_model("node n1 Relu x -> a on 1", "node n2 Relu a -> y on 1")).plan
    told = answer(file.encode(plan), about=plan)
    assert (told.accepted, told.part) == (False, "stated")
    whole = kernel_answer(context(plan), PlanFile.of(plan), 60)
    assert whole["answer"] == "accepted"


def test_claims_are_those_of_the_file() -> None:
    """spec: V6.7"""
    usage = PLAN.usage[0]
    lower = amend_plan(PLAN, usage=(usage._replace(footprint=(usage.footprint or 0) - 1),))
    assert (answer(DATA).footprints, answer(file.encode(lower)).footprints) == (True, False)


def test_it_is_not_asked_of_another_file_than_the_one_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V6.2"""
    stated = file.decode(DATA)
    assert kernel_answer(context(PLAN), PlanFile.as_read(stated), 60)["answer"] == "accepted"
    told = kernel_answer(context(PLAN), PlanFile.as_read(replace(stated, sha256=b"")), 60)
    assert (told["answer"], told["reason"]) == ("no_answer", "its answer is for another file")
    monkeypatch.setattr(canonical, "dump", lambda value, stream: stream.write(DATA.replace(b"tmmu-plan", b"tmmu-plam")))
    told = kernel_answer(context(PLAN), PlanFile.as_read(stated), 60)
    assert (told["answer"], told["reason"]) == ("no_answer", "its answer is for another file")


def test_readers_who_speak_of_another_number_of_tensors_are_refused() -> None:
    """spec: V6.16"""
    assert answer(DATA, about=training_plan(11, seed=3)).part == "stated"


@pytest.mark.parametrize("length", [1, 55, 56, 63, 64, 65, 119, 120, 128, 1000])
def test_the_digest_is_that_of_the_bytes(length: int) -> None:
    """SHA-256 at each length of the last block, of bytes that are no plan."""
    data = bytes(i * 7 % 251 for i in range(length))
    assert answer(data) == KernelAnswer(rejected=True, part="stated")
    assert answer(data, claimed=data + b"\0").failure == "its answer is for another file"
