"""Which tensors share bytes: views, alias groups, and every reason for which a result may not take an operand's bytes.

spec: T2.1, T2.2, T2.3, T2.4, T2.6, T2.7, T2.8, T2.9, T2.10, T3.1, T3.3, T3.4, T3.5, T3.6, T3.7, T3.8, T3.9, T8.6, T8.7
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.small import small
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Model, Role, Scratch
from tmmu.ir.program import program
from tmmu.planner.aliasing import Aliasing, form
from tmmu.planner.arenas import DEFAULT
from tmmu.planner.liveness import analyze


@dataclass(frozen=True)
class Formed:
    """The storages of a model, and its tensors by name."""

    alias: Aliasing
    row: dict[str, int]

    def together(self) -> set[frozenset[str]]:
        """The storages of more than one tensor, as sets of names."""
        members: dict[int, set[str]] = {}
        for name, t in self.row.items():
            members.setdefault(self.alias.storage[t], set()).add(name)
        return {frozenset(names) for names in members.values() if len(names) > 1}

    def word(self, name: str) -> str:
        """What the plan says of the tensor's sharing."""
        of = self.alias.of[self.row[name]]
        names = list(self.row)
        return self.alias.shares[self.row[name]] + (f" {names[of]}" if of >= 0 else "")

    def reasons(self) -> list[str]:
        return [f"{r.node}: {r.result} of {r.operand}: {r.reason}" for r in self.alias.refused]


def formed(
    model: Model, mode: str = "inference", arenas: tuple[ArenaConfiguration, ...] = DEFAULT, *, in_place: bool = True
) -> Formed:
    run = program(model)
    alias = form(run, analyze(run, mode), arenas, mode, in_place)
    return Formed(alias, {tensor.name: t for t, tensor in enumerate(run.tensors)})


# Views and groups.


def test_views_are_followed_to_the_root_and_their_windows_added_up() -> None:
    model = small(
        "relu: x -> a", "view: a -> v", "view2: v -> w", "relu2: w -> y",
        sizes={"v": 48, "w": 8}, views={"v": ("a", 16), "w": ("v", 8)}, like={"w": {"alignment": 8}},
    )  # fmt: skip
    found = formed(model)
    s, row = found.alias.storages, found.row
    assert found.together() == {frozenset("avw")}
    assert [found.alias.window[row[name]] for name in "avw"] == [0, 16, 24]
    assert [found.word(name) for name in "avwxy"] == ["none", "view a", "view v", "none", "none"]
    k = found.alias.storage[row["a"]]
    assert (s.name[k], s.bytes[k], s.alignment[k], s.birth[k], s.death[k]) == ("a", 64, 8, 0, 3)


def test_a_storage_reaches_over_all_its_members_in_bytes_steps_and_alignment() -> None:
    model = small(
        "relu: x -> a", "relu2: a -> b", "relu3: b -> c", "relu4: c -> y",
        sizes={"c": 256}, like={"a": {"alias_group": "g", "alignment": 32}, "c": {"alias_group": "g"}},
    )  # fmt: skip
    found = formed(model)
    s, k = found.alias.storages, found.alias.storage[found.row["a"]]
    assert found.together() == {frozenset("ac")}
    assert (found.word("a"), found.word("c")) == ("none", "alias a")
    assert (s.bytes[k], s.alignment[k], s.birth[k], s.death[k]) == (256, 32, 0, 3)


def test_a_storage_is_born_with_the_first_of_its_members_whichever_the_model_lists_first() -> None:
    """The group's root is `c`, which stands before `a` in the table of tensors and is written after it. spec: T2.1"""
    model = small(
        "relu: x -> a", "relu2: a -> b", "relu3: b -> c", "relu4: c -> y", parameters="c",
        like={"a": {"alias_group": "g"}, "c": {"alias_group": "g", "role": Role.ACTIVATION}},
    )  # fmt: skip
    found = formed(model)
    s, k = found.alias.storages, found.alias.storage[found.row["a"]]
    assert (found.word("c"), found.word("a"), s.name[k]) == ("none", "alias c", "c")
    assert (s.birth[k], s.death[k]) == (0, 3)


def test_a_storage_lies_in_the_arena_of_its_root() -> None:
    model = small("view: w -> v", "add: v x -> y", parameters="w", views={"v": ("w", 0)})
    found = formed(model)
    assert DEFAULT[found.alias.storages.preferred[found.alias.storage[found.row["v"]]]].name == "parameters"


def test_storages_are_numbered_by_their_first_member() -> None:
    found = formed(small("relu: x -> a", "add: a x -> y(a)"))
    assert found.alias.storage == [0, 1, 1]
    assert found.alias.storages.name == list(found.row)[:2]


def test_a_view_at_a_byte_that_only_its_base_makes_odd_is_refused() -> None:
    """Each of the two windows is aligned in its own base."""
    model = small(
        "view: x -> v", "view2: v -> w", "relu: w -> y",
        sizes={"v": 8, "w": 4}, views={"v": ("x", 2), "w": ("v", 4)}, like={"w": {"alignment": 4}},
    )  # fmt: skip
    with pytest.raises(TmmuError, match=r"byte 6 .* 4") as refused:
        formed(model)
    assert (refused.value.code_id, refused.value.place) == ("ALIGNMENT_VIOLATION", "tensor 'w'")


def test_an_alias_group_over_two_arenas_is_refused() -> None:
    model = small("add: x w -> y", parameters="w", like={"x": {"alias_group": "g"}, "w": {"alias_group": "g"}})
    with pytest.raises(TmmuError, match="'x' and 'w'") as refused:
        formed(model)
    assert (refused.value.code_id, refused.value.place) == ("INVALID_IR", "alias group 'g'")


@pytest.mark.parametrize("shared", ["group", "view"])
def test_tensors_that_share_and_must_not_alias_are_refused(shared: str) -> None:
    model = small(
        "relu: x -> a", "relu2: a -> b", "relu3: b -> y", must_not_alias=[("x", "y"), ("b", "a")],
        like={"a": {"alias_group": "g"}, "b": {"alias_group": "g"}} if shared == "group" else None,
        views={"b": ("a", 0)} if shared == "view" else None,
    )  # fmt: skip
    with pytest.raises(TmmuError, match="'b' and 'a'") as refused:
        formed(model)
    assert refused.value.code_id == "INVALID_IR"


def test_a_role_without_an_arena_is_refused() -> None:
    """spec: M3.4"""
    with pytest.raises(TmmuError, match="no arena for the role activation") as refused:
        formed(small("relu: x -> y"), arenas=(ArenaConfiguration("a", (Role.INPUT,)),))
    assert (refused.value.code_id, refused.value.place) == ("INVALID_ARENA_CONFIG", "tensor 'y'")
    assert refused.value.diagnostics["arena"] == "activation"


def test_scratch_lies_in_the_arena_that_it_names() -> None:
    """spec: I1.10"""
    found = formed(small("relu: x -> y", nodes={"relu": {"scratch": (Scratch(8, 1, "gradients"), Scratch(8, 1))}}))
    assert [DEFAULT[a].name for a in found.alias.storages.preferred] == [
        "activations",
        "activations",
        "gradients",
        "activations",
    ]
    model = small("relu: x -> y", nodes={"relu": {"scratch": (Scratch(8, 1, "nowhere"),)}})
    with pytest.raises(TmmuError, match="no arena 'nowhere'") as refused:
        formed(model)
    assert (refused.value.code_id, refused.value.place) == ("INVALID_ARENA_CONFIG", "tensor 'relu.scratch0'")
    assert refused.value.diagnostics["arena"] == "nowhere"


# Granted.


def test_a_result_takes_the_operand_that_nobody_needs_any_more() -> None:
    found = formed(small("relu: x -> a", "add: a x -> b(a)", "relu2: b -> y(b)"))
    assert found.together() == {frozenset("aby")}
    assert [found.word(name) for name in "aby"] == ["none", "in_place a", "in_place b"]
    assert found.reasons() == []


def test_a_result_takes_the_window_of_its_operand() -> None:
    model = small(
        "relu: x -> a", "split: a -> v w", "relu2: v -> r", "relu3: w -> y(w)", "relu4: r -> z", outputs="y z",
        sizes=dict.fromkeys("vwryz", 32), views={"v": ("a", 0), "w": ("a", 32)},
    )  # fmt: skip
    found = formed(model)
    assert found.together() == {frozenset("avwy")}
    assert found.alias.window[found.row["y"]] == 32


def test_a_donated_input_and_a_donated_parameter_are_taken() -> None:
    found = formed(small("relu: x -> y(x)", "relu2: w -> z(w)", parameters="w", outputs="y", donated=["x", "w"]))
    assert found.together() == {frozenset("xy")}  # a parameter lives to the end, donated or not
    assert found.reasons() == ["relu2: z of w: the operand lies in another arena"]
    one = (ArenaConfiguration("all", tuple(Role)),)
    last = formed(small("relu: x w -> y(w)", parameters="w", donated=["w"]), arenas=one)
    assert last.together() == {frozenset("wy")}


def test_an_operand_that_is_read_twice_is_the_same_tensor() -> None:
    found = formed(small("relu: x -> a", "add: a a -> y(a)"))
    assert found.together() == {frozenset("ay")}


def test_another_operand_of_the_storage_that_touches_no_byte_is_no_obstacle() -> None:
    model = small(
        "relu: x -> a", "split: a -> v w", "add: v w -> y(v)", sizes={"v": 32, "w": 32, "y": 32},
        views={"v": ("a", 0), "w": ("a", 32)},
    )  # fmt: skip
    assert formed(model).together() == {frozenset("avwy")}
    after = small(
        "relu: x -> a", "split: a -> v w", "add: v w -> y(w)", sizes={"v": 32, "w": 32, "y": 32},
        views={"v": ("a", 0), "w": ("a", 32)},
    )  # fmt: skip
    assert formed(after).together() == {frozenset("avwy")}


def test_results_are_decided_in_output_order_each_against_what_the_earlier_ones_left() -> None:
    names = ["x", "a", "b", "p", "q", "y"]
    hints = [("q", "a"), ("p", "a"), ("p", "b"), ("q", "b")]
    pairs = tuple((names.index(result), names.index(operand)) for result, operand in hints)
    model = small("relu: x -> a", "relu2: x -> b", "both: a b -> p q y", nodes={"both": {"in_place": pairs}})
    assert [t.name for t in model.tensors] == names
    found = formed(model)
    assert found.together() == {frozenset("ap"), frozenset("bq")}
    assert found.reasons() == [
        "both: p of b: the result shares other bytes already",
        "both: q of a: another result of the step has the operand's bytes",
    ]


# Refused.

AFTER = "relu2: a -> y"
REFUSED: list[tuple[Model, str]] = [
    (small("relu: x -> a", "loop: a -> y(a)", "loop/body*: i => o", "  relu2: i -> o"), "the node has bodies"),
    (small("relu: x -> a", "view: a -> y(a)", views={"y": ("a", 0)}), "the result shares other bytes already"),
    (
        small(
            "relu: x -> a",
            "relu2: a -> y(a)",
            "relu3: y -> z",
            outputs="z",
            like={"y": {"alias_group": "g"}, "z": {"alias_group": "g"}},
        ),
        "the result shares other bytes already",
    ),
    (
        small("relu: x -> a", "change: a x -> !a", outputs="a", nodes={"change": {"in_place": ((1, 1),)}}),
        "the result shares other bytes already",
    ),
    (small("relu: x -> a", "add: a x -> y(a)", sizes={"a": 1}), "the operand has another shape"),
    (small("relu: x -> a", "add: a x -> y(a)", like={"a": {"shape": (8, 8)}}), "the operand has another shape"),
    (
        small("relu: x -> a", "cast: a -> y(a)", like={"y": {"dtype": "float16"}}),
        "the operand has another element width",
    ),
    (
        small("relu: x -> a", "relu2: a -> g(a)", like={"g": {"role": Role.GRADIENT}}, outputs="g"),
        "the operand lies in another arena",
    ),
    (
        small("relu: x -> a", "if: x -> y", "if/then: => o", "  relu2: a -> o(a)"),
        "the operand comes from outside the body",
    ),
    (small("loop: x -> y", "loop/body*: i => o", "  relu: i -> o(i)"), "the operand comes from outside the body"),
    (
        small("if: x -> y", "if/then: => o", "  relu: x -> o(x)", donated=["x"]),
        "the operand comes from outside the body",
    ),
    (small("relu: x -> y(x)"), "the operand is kept: it is a graph input that is not donated"),
    (
        small("view: x -> a", "relu: a -> y(a)", views={"a": ("x", 0)}),
        "the operand is kept: it is a graph input that is not donated",
    ),
    (small("relu: x -> a", "relu2: a -> y(a)", outputs="a y"), "the operand is kept: it is a graph output"),
    (
        small("relu: x -> a", "view: a -> v", "relu2: a -> y(a)", views={"v": ("a", 0)}, outputs="v y"),
        "the operand is kept: it is a graph output",
    ),
    (small("relu: x -> y(x)", outputs="x y", donated=["x"]), "the operand is kept: it is a graph output"),
    (
        small("relu: x -> a", "add: a x -> b(a)", AFTER.replace("y", "z"), "add2: b z -> y"),
        "the operand's bytes are still needed",
    ),
    (
        small("relu: x -> a", "view: a -> v", "relu2: a -> b(a)", "add: b v -> y", views={"v": ("a", 0)}),
        "the operand's bytes are still needed",
    ),
    (
        small("relu: x -> a", "view: a -> v", "add: a v -> y(a)", views={"v": ("a", 0)}),
        "another operand shares bytes with it",
    ),
    (
        small(
            "relu: x -> a",
            "view: a -> v",
            "view2: a -> w",
            "add: v w -> y(v)",
            sizes={"v": 40, "w": 40, "y": 40},
            views={"v": ("a", 0), "w": ("a", 24)},
        ),
        "another operand shares bytes with it",
    ),
    (
        small("relu: x -> a", "both: a -> v y(a)", views={"v": ("a", 0)}, outputs="y"),
        "another result of the step has the operand's bytes",
    ),
    (
        small(
            "relu: x -> a",
            "view: a -> v",
            "relu2: v -> y(v)",
            sizes={"v": 8, "y": 8},
            views={"v": ("a", 4)},
            like={"y": {"alignment": 8}},
        ),
        "the operand's bytes are not aligned for the result",
    ),
    (
        small(
            "relu: x -> a",
            "view: a -> v",
            "relu2: v -> b(v)",
            "view2: b -> w",
            "relu3: w -> y",
            sizes={"v": 8, "b": 8, "w": 8},
            views={"v": ("a", 4), "w": ("b", 0)},
            like={"w": {"alignment": 8}},
        ),
        "the operand's bytes are not aligned for the result",
    ),
    (small("relu: x -> a", "relu2: a -> y(a)", must_not_alias=[("a", "y")]), "the two must not alias"),
    (
        small("relu: x -> a", "relu2: a -> b(a)", "relu3: b -> y(b)", must_not_alias=[("y", "a")]),
        "the two must not alias",
    ),
    (
        small("relu: x -> a", "relu2: a -> b(a)", "relu3: b -> y(b)", must_not_alias=[("y", "b")]),
        "the two must not alias",
    ),
]


@pytest.mark.parametrize(("model", "reason"), REFUSED, ids=[f"{k}-{reason}" for k, (_, reason) in enumerate(REFUSED)])
def test_a_hint_is_refused_with_its_reason(model: Model, reason: str) -> None:
    found = formed(model)
    assert [refused.reason for refused in found.alias.refused] == [reason]


@pytest.mark.parametrize(("model", "reason"), REFUSED, ids=[f"{k}-{reason}" for k, (_, reason) in enumerate(REFUSED)])
def test_a_refused_hint_changes_nothing_but_the_record(model: Model, reason: str) -> None:
    """spec: T3.9"""
    with_hint = formed(model)
    [refused] = with_hint.alias.refused
    pair = (with_hint.row[refused.result], with_hint.row[refused.operand])
    kept = [tuple(hint for hint in node.in_place if hint != pair) for node in model.nodes]
    nodes = tuple(replace(node, in_place=hints) for node, hints in zip(model.nodes, kept, strict=True))
    without = formed(replace(model, nodes=nodes)).alias
    assert without == replace(with_hint.alias, refused=[])


def test_a_parameter_and_optimizer_state_are_kept_where_all_roles_share_an_arena() -> None:
    one = (ArenaConfiguration("all", tuple(Role)),)
    for role in (Role.PARAMETER, Role.OPTIMIZER):
        found = formed(small("relu: x w -> y(w)", parameters="w", like={"w": {"role": role}}), arenas=one)
        assert found.reasons() == [f"relu: y of w: the operand is kept: it is a graph {role} that is not donated"]


def test_what_is_saved_is_kept_in_mode_forward_alone() -> None:
    model = small("relu: x -> a", "relu2: a -> y(a)", like={"a": {"saved_for_backward": True}})
    assert formed(model).reasons() == []
    assert formed(model, "forward").reasons() == ["relu2: y of a: the operand is kept: it is saved for backward"]
    assert formed(small("relu: x -> a", "relu2: a -> y(a)"), "forward").reasons() == []


def test_a_layout_that_gives_every_result_bytes_of_its_own_grants_nothing() -> None:
    found = formed(small("relu: x -> a", "relu2: a -> y(a)"), in_place=False)
    assert found.reasons() == ["relu2: y of a: layout: it gives every result bytes of its own"]
    assert found.together() == set()


def test_every_reason_has_a_model_that_meets_it() -> None:
    """The reasons are read from the module's text."""
    text = (Path(__file__).resolve().parents[2] / "tmmu/planner/aliasing.py").read_text()
    reasons = set(re.findall(r'reason = f?"([^"{]+)', text))
    met = {reason for _, reason in REFUSED} | {"layout: it gives every result bytes of its own"}
    assert len(reasons) >= 13
    assert {reason for reason in reasons if not any(other.startswith(reason) for other in met)} == set()
