"""The manifest of a plan set: what is written is read again, and everything else is refused with its place.

spec: PS2.1, PS2.2, PS2.3, PS2.4, PS2.5
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pycddl
import pytest

from tests.support.text_models import text_model
from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.planner import plan_memory
from tmmu.plans import file, sets
from tmmu.plans.sections import Membership
from tmmu.plans.sets import Agreement, PlanSet, SetArena, SharedTensor, SharedUse

ROOT = Path(__file__).resolve().parents[2]
CACHE = SharedTensor(
    "cache", "state", 0, 64, 4, "float32", True, {"a": SharedUse("cache", "cache1"), "b": SharedUse("past", None)}
)
SET = PlanSet(
    Agreement(("a", "b"), (SetArena("state", 128, 128),), (CACHE,)), "packed", {"a": bytes(32), "b": b"b" * 32}
)


def edited(edit: Callable[[dict[str, Any]], object]) -> bytes:
    """The bytes of the set after an edit, with a file digest that recomputes."""
    value = canonical.decode(sets.encode(SET))
    edit(value)
    stated = value.pop("file_digest", None)
    return canonical.encode(value | ({} if stated is None else {"file_digest": canonical.digest(value)}))


def test_a_set_that_is_written_and_read_again_is_the_same() -> None:
    assert sets.decode(sets.encode(SET)) == SET
    assert sets.encode(sets.decode(sets.encode(SET))) == sets.encode(SET)
    assert SET.membership("a") == Membership("a", SET.agreement.digest)
    assert (CACHE.is_weight, SET.footprint) == (False, 128)


def test_the_schema_accepts_it() -> None:
    judge = pycddl.Schema((ROOT / "spec/set.cddl").read_text())
    judge.validate_cbor(sets.encode(SET))
    with pytest.raises(pycddl.ValidationError):
        judge.validate_cbor(edited(lambda v: v["agreement"].pop("arenas")))


def shared(value: dict[str, Any]) -> Any:
    return value["agreement"]["shared"][0]


WRONG: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a key is missing": (lambda v: v.pop("layout"), "set"),
    "a key is unknown": (lambda v: v.update(x=1), "set"),
    "another format": (lambda v: v.update(format="tmmu-plan"), "format"),
    "another version": (lambda v: v.update(spec_version="1.0"), "spec_version"),
    "an unknown layout": (lambda v: v.update(layout="pools"), "layout"),
    "no program": (lambda v: v["agreement"].update(programs=[]), "agreement.programs"),
    "a program twice": (lambda v: v["agreement"].update(programs=["a", "a"]), "agreement.programs"),
    "a program in another folder": (lambda v: v["agreement"].update(programs=["a", "../b"]), "agreement.programs[1]"),
    "a program without a name": (lambda v: v["agreement"].update(programs=["a", ""]), "agreement.programs[1]"),
    "a program of the manifest's name": (lambda v: v["agreement"].update(programs=["set"]), "agreement.programs[0]"),
    "a member that is no program": (lambda v: v["members"].update(c=bytes(32)), "members"),
    "a program without a member": (lambda v: v["members"].pop("b"), "members"),
    "a digest of another length": (lambda v: v["members"].update(b=b""), "members.b"),
    "an arena twice": (lambda v: v["agreement"]["arenas"].append(v["agreement"]["arenas"][0]), "agreement.arenas"),
    "an arena that is not listed": (lambda v: shared(v).update(arena="x"), "agreement.shared[0]"),
    "a tensor beyond its arena": (lambda v: shared(v).update(offset=65), "agreement.shared[0]"),
    "a shared tensor twice": (lambda v: v["agreement"]["shared"].append(shared(v)), "agreement.shared"),
    "no use": (lambda v: shared(v).update(uses={}), "agreement.shared[0].uses"),
    "a use of no tensor": (
        lambda v: shared(v)["uses"].update(b={"entry": None, "exit": None}),
        "agreement.shared[0].uses.b",
    ),
    "a use of a program that is not listed": (
        lambda v: shared(v)["uses"].update(c={"entry": "x", "exit": None}),
        "agreement.shared[0].uses",
    ),
    "a tensor in two shared ones": (
        lambda v: v["agreement"]["shared"].append(shared(v) | {"name": "other"}),
        "agreement.shared: tensors of a",
    ),
    "no digest": (lambda v: v.pop("file_digest"), "set"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_manifest_is_refused_with_its_place(name: str) -> None:
    edit, place = WRONG[name]
    with pytest.raises(TmmuError) as refused:
        sets.decode(edited(edit))
    assert (refused.value.code_id, refused.value.place) == ("INVALID_PLAN", place)


def test_too_many_programs_and_a_false_digest_are_refused() -> None:
    many = [f"p{k}" for k in range(sets.MAX_PROGRAMS + 1)]
    with pytest.raises(TmmuError, match="256 programs"):
        sets.decode(edited(lambda v: v["agreement"].update(programs=many)))
    value = canonical.decode(sets.encode(SET))
    with pytest.raises(TmmuError, match="file_digest"):
        sets.decode(canonical.encode(value | {"layout": "slots"}))


def test_a_set_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "session"
    written = sets.save(folder, SET, {"a": b"1", "b": b"2"})
    assert sorted(map(str, folder.iterdir())) == sorted(written)
    assert sets.is_set(folder)
    assert sets.load(folder) == SET
    (folder / "c.cbor").mkdir()
    other = PlanSet(Agreement(("c", "d"), (), ()), "slots", {"c": bytes(32), "d": bytes(32)})
    with pytest.raises(TmmuError) as refused:
        sets.save(folder, other, {"d": b"4", "c": b"3"})
    assert refused.value.code_id == "TMMU_ALLOCATION_FAILURE"
    assert sets.load(folder) == SET
    assert not (folder / "d.cbor").exists()
    (folder / "c.cbor").rmdir()
    sets.save(folder, other, {"d": b"4", "c": b"3"})
    assert sorted(path.name for path in folder.iterdir()) == ["c.cbor", "d.cbor", "set.cbor"]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TmmuError, match="cannot be made"):
        sets.save(tmp_path / "file" / "session", SET, {})


def test_a_damaged_manifest_names_its_file(tmp_path: Path) -> None:
    (tmp_path / sets.MANIFEST).write_bytes(b"x")
    with pytest.raises(TmmuError) as refused:
        sets.load(tmp_path)
    assert refused.value.file == str(tmp_path / sets.MANIFEST)


def test_a_plan_states_the_set_that_it_belongs_to() -> None:
    planned = plan_memory(text_model("node relu Relu x -> y")).plan
    plan = replace(planned, membership=SET.membership("a"))
    assert file.decode(file.encode(plan)).plan == plan
    value = file.to_object(plan)
    with pytest.raises(TmmuError) as refused:
        file.decode(canonical.encode(value | {"set": {"program": "a", "digest": b""}}))
    assert refused.value.place == "set.digest"
