"""States of a machine as text: each part is declared once, and an action says of each part what becomes of it.

spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.engine.machine import State, all_of, assumed

STATE = State(
    {"live": (("Storage",), "Bool"), "held": (("Storage", "Int"), "Value"), "best": ((), "Value")}, ("now", "left")
)
SAME = {
    "live": "(forall ((z0 Storage)) (= (live1 z0) (live0 z0)))",
    "held": "(forall ((z0 Storage) (z1 Int)) (= (held1 z0 z1) (held0 z0 z1)))",
    "best": "(= best1 best0)", "now": "(= now1 now0)", "left": "(= left1 left0)",
}  # fmt: skip


def test_every_part_is_declared_with_the_suffix_of_its_state() -> None:
    for suffix in ("0", "1"):
        assert STATE.declared(suffix) == (
            f"(declare-fun live{suffix} (Storage) Bool)(declare-fun held{suffix} (Storage Int) Value)"
            f"(declare-const best{suffix} Value)(declare-const now{suffix} Int)(declare-const left{suffix} Int)"
        )
    assert State({}).declared("0") == ""


def test_a_part_has_a_new_value_at_one_place_alone() -> None:
    assert STATE.becomes("live", ("x",), "v") == "(forall ((z0 Storage)) (= (live1 z0) (ite (= z0 x) v (live0 z0))))"
    assert STATE.becomes("held", ("x", "7"), "v") == (
        "(forall ((z0 Storage) (z1 Int)) (= (held1 z0 z1) (ite (and (= z0 x) (= z1 7)) v (held0 z0 z1))))"
    )
    assert STATE.becomes("best", (), "v") == "(= best1 v)"


def test_what_is_not_named_as_changed_stays() -> None:
    assert STATE.same("held", "now") == (SAME["held"], SAME["now"])
    assert STATE.others() == tuple(SAME.values())
    assert STATE.others("live", "left") == (SAME["held"], SAME["best"], SAME["now"])
    assert STATE.others(*SAME) == STATE.same() == ()


def test_a_conjunction_has_two_parts_at_least() -> None:
    assert (all_of(("a",)), all_of(("a", "b"))) == ("a", "(and a b)")
    assert assumed("a") == "(assume a)"
