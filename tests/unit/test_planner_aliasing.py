"""Which tensors share bytes: views, alias groups, and every reason for which a result may not take an operand's bytes.

spec: T2.1, T2.2, T2.3, T2.4, T2.6, T2.7, T2.8, T2.9, T2.10, T3.1, T3.3, T3.4, T3.5, T3.6, T3.7, T3.8, T3.9, T8.6, T8.7,
spec: X6.4
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Model, Role
from tmmu.ir.columns import streams_object
from tmmu.ir.program import build_program
from tmmu.planner.aliasing import Aliasing, InPlaceRules, form_storages
from tmmu.planner.arenas import DEFAULT
from tmmu.planner.fixed import fixed_offsets
from tmmu.planner.liveness import analyze
from tmmu.planner.streams.program import state_streams


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
    run = build_program(model)
    staying = fixed_offsets(run.tensors, {}, partly=False)
    streams = state_streams(run, streams_object(model) if model.has_streams else None)
    order = None if streams is None else streams.order()
    alias = form_storages(run, analyze(run, mode), arenas, mode, InPlaceRules(in_place), fixed=staying, order=order)
    return Formed(alias, {tensor.name: t for t, tensor in enumerate(run.tensors)})


# Views and groups.


def test_views_are_followed_to_the_root_and_their_windows_added_up() -> None:
    model = text_model(
        "node relu Relu x -> a", "node view1 View a -> v", "node view2 View v -> w", "node relu2 Relu w -> y",
        "tensor w u8 8 align 8 view v 8", "tensor v u8 48 view a 16",
    )  # fmt: skip
    found = formed(model)
    s, row = found.alias.storages, found.row
    assert found.together() == {frozenset("avw")}
    assert [found.alias.window[row[name]] for name in "avw"] == [0, 16, 24]
    assert [found.word(name) for name in "avwxy"] == ["none", "view a", "view v", "none", "none"]
    k = found.alias.storage[row["a"]]
    assert (s.name[k], s.bytes[k], s.alignment[k], s.birth[k], s.death[k]) == ("a", 64, 8, 0, 3)


def test_a_storage_reaches_over_all_its_members_in_bytes_steps_and_alignment() -> None:
    model = text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> c", "node relu4 Relu c -> y",
        "tensor a u8 64 align 32", "alias g a c", sizes={"c": 256},
    )  # fmt: skip
    found = formed(model)
    s, k = found.alias.storages, found.alias.storage[found.row["a"]]
    assert found.together() == {frozenset("ac")}
    assert (found.word("a"), found.word("c")) == ("none", "alias a")
    assert (s.bytes[k], s.alignment[k], s.birth[k], s.death[k]) == (256, 32, 0, 3)


def test_a_storage_is_born_with_the_first_of_its_members_whichever_the_model_lists_first() -> None:
    """The group's root is `c`, which stands before `a` in the table of tensors and is written after it. spec: T2.1"""
    model = text_model(
        "tensor c u8 64", "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> c",
        "node relu4 Relu c -> y", "alias g a c",
    )  # fmt: skip
    found = formed(model)
    s, k = found.alias.storages, found.alias.storage[found.row["a"]]
    assert (found.word("c"), found.word("a"), s.name[k]) == ("none", "alias c", "c")
    assert (s.birth[k], s.death[k]) == (0, 3)


def test_a_storage_lies_in_the_arena_of_its_root() -> None:
    model = text_model("node view1 View w -> v", "node add Add v x -> y", "tensor v u8 64 view w 0", parameters="w")
    found = formed(model)
    assert DEFAULT[found.alias.storages.preferred[found.alias.storage[found.row["v"]]]].name == "parameters"


def test_storages_are_numbered_by_their_first_member() -> None:
    found = formed(text_model("node relu Relu x -> a", "node add Add a x -> y inplace y a"))
    assert found.alias.storage == [0, 1, 1]
    assert found.alias.storages.name == list(found.row)[:2]


def test_a_view_at_a_byte_that_only_its_base_makes_odd_is_refused() -> None:
    """Each of the two windows is aligned in its own base."""
    model = text_model(
        "node view1 View x -> v", "node view2 View v -> w", "node relu Relu w -> y", "tensor w u8 4 align 4 view v 4",
        "tensor v u8 8 view x 2",
    )  # fmt: skip
    with pytest.raises(TmmuError, match=r"byte 6 .* 4") as refused:
        formed(model)
    assert (refused.value.code_id, refused.value.place) == ("ALIGNMENT_VIOLATION", "tensor 'w'")


def test_an_alias_group_over_two_arenas_is_refused() -> None:
    model = text_model("node add Add x w -> y", "alias g x w", parameters="w")
    with pytest.raises(TmmuError, match="'x' and 'w'") as refused:
        formed(model)
    assert (refused.value.code_id, refused.value.place) == ("INVALID_IR", "alias group 'g'")


@pytest.mark.parametrize("shared", ["alias g a b", "tensor b u8 64 view a 0"])
def test_tensors_that_share_and_must_not_alias_are_refused(shared: str) -> None:
    model = text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", "apart x y", "apart b a", shared
    )
    with pytest.raises(TmmuError, match="'b' and 'a'") as refused:
        formed(model)
    assert refused.value.code_id == "INVALID_IR"


def test_a_role_without_an_arena_is_refused() -> None:
    """spec: M3.4"""
    with pytest.raises(TmmuError, match="no arena for the role activation") as refused:
        formed(text_model("node relu Relu x -> y"), arenas=(ArenaConfiguration("a", (Role.INPUT,)),))
    assert (refused.value.code_id, refused.value.place) == ("INVALID_ARENA_CONFIG", "tensor 'y'")
    assert refused.value.diagnostics["arena"] == "activation"


def test_scratch_lies_in_the_arena_that_it_names() -> None:
    """spec: I1.10"""
    found = formed(text_model("node relu Relu x -> y scratch 8 arena gradients scratch 8"))
    assert [DEFAULT[a].name for a in found.alias.storages.preferred] == [
        "activations",
        "activations",
        "gradients",
        "activations",
    ]
    model = text_model("node relu Relu x -> y scratch 8 arena nowhere")
    with pytest.raises(TmmuError, match="no arena 'nowhere'") as refused:
        formed(model)
    assert (refused.value.code_id, refused.value.place) == ("INVALID_ARENA_CONFIG", "tensor 'relu.scratch0'")
    assert refused.value.diagnostics["arena"] == "nowhere"


# Granted.


def test_a_result_takes_the_operand_that_nobody_needs_any_more() -> None:
    found = formed(
        text_model("node relu Relu x -> a", "node add Add a x -> b inplace b a", "node relu2 Relu b -> y inplace y b")
    )
    assert found.together() == {frozenset("aby")}
    assert [found.word(name) for name in "aby"] == ["none", "in_place a", "in_place b"]
    assert found.reasons() == []


def test_a_result_takes_the_window_of_its_operand() -> None:
    model = text_model(
        "node relu Relu x -> a", "node split Split a -> v w", "node relu2 Relu v -> r",
        "node relu3 Relu w -> y inplace y w", "node relu4 Relu r -> z", "tensor v u8 32 view a 0",
        "tensor w u8 32 view a 32", outputs="y z", sizes={"r": 32, "y": 32, "z": 32},
    )  # fmt: skip
    found = formed(model)
    assert found.together() == {frozenset("avwy")}
    assert found.alias.window[found.row["y"]] == 32


def test_a_donated_input_and_a_donated_parameter_are_taken() -> None:
    found = formed(
        text_model(
            "node relu Relu x -> y inplace y x", "node relu2 Relu w -> z inplace z w", "tensor x u8 64 donated",
            "tensor w u8 64 donated", parameters="w", outputs="y",
        )
    )  # fmt: skip
    assert found.together() == {frozenset("xy")}  # a parameter lives to the end, donated or not
    assert found.reasons() == ["relu2: z of w: the operand is in another arena"]
    one = (ArenaConfiguration("all", tuple(Role)),)
    last = formed(
        text_model("node relu Relu x w -> y inplace y w", "tensor w u8 64 donated", parameters="w"), arenas=one
    )
    assert last.together() == {frozenset("wy")}


def test_an_operand_that_is_read_twice_is_the_same_tensor() -> None:
    found = formed(text_model("node relu Relu x -> a", "node add Add a a -> y inplace y a"))
    assert found.together() == {frozenset("ay")}


def test_another_operand_of_the_storage_that_touches_no_byte_is_no_obstacle() -> None:
    model = text_model(
        "node relu Relu x -> a", "node split Split a -> v w", "node add Add v w -> y inplace y v",
        "tensor v u8 32 view a 0", "tensor w u8 32 view a 32", sizes={"y": 32},
    )  # fmt: skip
    assert formed(model).together() == {frozenset("avwy")}
    after = text_model(
        "node relu Relu x -> a", "node split Split a -> v w", "node add Add v w -> y inplace y w",
        "tensor v u8 32 view a 0", "tensor w u8 32 view a 32", sizes={"y": 32},
    )  # fmt: skip
    assert formed(after).together() == {frozenset("avwy")}


def test_results_are_decided_in_output_order_each_against_what_the_earlier_ones_left() -> None:
    names = ["x", "a", "b", "p", "q", "y"]
    hints = [("q", "a"), ("p", "a"), ("p", "b"), ("q", "b")]
    tuple((names.index(result), names.index(operand)) for result, operand in hints)
    model = text_model(
        "node relu Relu x -> a", "node relu2 Relu x -> b",
        "node both Both a b -> p q y inplace q a inplace p a inplace p b inplace q b",
    )  # fmt: skip
    assert [t.name for t in model.tensors] == names
    found = formed(model)
    assert found.together() == {frozenset("ap"), frozenset("bq")}
    assert found.reasons() == [
        "both: p of b: the result shares other bytes already",
        "both: q of a: another result of the step has the operand's bytes",
    ]


# Refused.

AFTER = "node relu2 Relu a -> y"
REFUSED: list[tuple[Model, str]] = [
    (
        text_model(
            "node relu Relu x -> a on 1", "node other Relu a -> b on 2 after relu",
            "node relu2 Relu a -> c inplace c a on 1", "node add Add b c -> y on 1 after other",
        ),
        "a step of another stream may still use the operand's bytes",
    ),
    (
        text_model(
            "node relu Relu x -> a",
            "begin loop1 Loop a -> y inplace y a",
            "arm body i -> o loop",
            "  node relu2 Relu i -> o",
            "end loop1",
        ),
        "the node has bodies",
    ),
    (
        text_model("node relu Relu x -> a", "node view1 View a -> y inplace y a", "tensor y u8 64 view a 0"),
        "the result shares other bytes already",
    ),
    (
        text_model(
            "node relu Relu x -> a",
            "node relu2 Relu a -> y inplace y a",
            "node relu3 Relu y -> z",
            "alias g y z",
            outputs="z",
        ),
        "the result shares other bytes already",
    ),
    (
        text_model("node relu Relu x -> a", "node change Change a x -> a inplace a a changes a", outputs="a"),
        "the result shares other bytes already",
    ),
    (
        text_model("node relu Relu x -> a", "node add Add a x -> y inplace y a", sizes={"a": 1}),
        "the operand has another shape",
    ),
    (
        text_model("node relu Relu x -> a", "node add Add a x -> y inplace y a", "tensor a u8 8x8"),
        "the operand has another shape",
    ),
    (
        text_model("node relu Relu x -> a", "node cast Cast a -> y inplace y a", "tensor y f16 64 align 1"),
        "the operand has another element width",
    ),
    (
        text_model(
            "node relu Relu x -> a", "node relu2 Relu a -> g inplace g a", "tensor g u8 64 gradient", outputs="g"
        ),
        "the operand is in another arena",
    ),
    (
        text_model(
            "node relu Relu x -> a",
            "begin if If x -> y",
            "arm then -> o",
            "  node relu2 Relu a -> o inplace o a",
            "end if",
        ),
        "the operand comes from outside the body",
    ),
    (
        text_model(
            "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o inplace o i", "end loop1"
        ),
        "the operand comes from outside the body",
    ),
    (
        text_model(
            "begin if If x -> y",
            "arm then -> o",
            "  node relu Relu x -> o inplace o x",
            "end if",
            "tensor x u8 64 donated",
        ),
        "the operand comes from outside the body",
    ),
    (text_model("node relu Relu x -> y inplace y x"), "the operand is kept: it is a graph input that is not donated"),
    (
        text_model("node view1 View x -> a", "node relu Relu a -> y inplace y a", "tensor a u8 64 view x 0"),
        "the operand is kept: it is a graph input that is not donated",
    ),
    (
        text_model("node relu Relu x -> a", "node relu2 Relu a -> y inplace y a", outputs="a y"),
        "the operand is kept: it is a graph output",
    ),
    (
        text_model(
            "node relu Relu x -> a",
            "node view1 View a -> v",
            "node relu2 Relu a -> y inplace y a",
            "tensor v u8 64 view a 0",
            outputs="v y",
        ),
        "the operand is kept: it is a graph output",
    ),
    (
        text_model("node relu Relu x -> y inplace y x", "tensor x u8 64 donated", outputs="x y"),
        "the operand is kept: it is a graph output",
    ),
    (
        text_model(
            "node relu Relu x -> a", "node add Add a x -> b inplace b a", AFTER.replace("y", "z"),
            "node add2 Add b z -> y",
        ),
        "the operand's bytes are still needed",
    ),
    (
        text_model(
            "node relu Relu x -> a",
            "node view1 View a -> v",
            "node relu2 Relu a -> b inplace b a",
            "node add Add b v -> y",
            "tensor v u8 64 view a 0",
        ),
        "the operand's bytes are still needed",
    ),
    (
        text_model(
            "node relu Relu x -> a",
            "node view1 View a -> v",
            "node add Add a v -> y inplace y a",
            "tensor v u8 64 view a 0",
        ),
        "another operand shares bytes with it",
    ),
    (
        text_model(
            "node relu Relu x -> a",
            "node view1 View a -> v",
            "node view2 View a -> w",
            "node add Add v w -> y inplace y v",
            "tensor v u8 40 view a 0",
            "tensor w u8 40 view a 24",
            sizes={"y": 40},
        ),
        "another operand shares bytes with it",
    ),
    (
        text_model(
            "node relu Relu x -> a", "node both Both a -> v y inplace y a", "tensor v u8 64 view a 0", outputs="y"
        ),
        "another result of the step has the operand's bytes",
    ),
    (
        text_model(
            "node relu Relu x -> a",
            "node view1 View a -> v",
            "node relu2 Relu v -> y inplace y v",
            "tensor y u8 8 align 8",
            "tensor v u8 8 view a 4",
        ),
        "the operand's bytes are not aligned for the result",
    ),
    (
        text_model(
            "node relu Relu x -> a",
            "node view1 View a -> v",
            "node relu2 Relu v -> b inplace b v",
            "node view2 View b -> w",
            "node relu3 Relu w -> y",
            "tensor w u8 8 align 8 view b 0",
            "tensor v u8 8 view a 4",
            sizes={"b": 8},
        ),
        "the operand's bytes are not aligned for the result",
    ),
    (text_model("node relu Relu x -> a", "node relu2 Relu a -> y inplace y a", "apart a y"), "the two must not alias"),
    (
        text_model(
            "node relu Relu x -> a",
            "node relu2 Relu a -> b inplace b a",
            "node relu3 Relu b -> y inplace y b",
            "apart y a",
        ),
        "the two must not alias",
    ),
    (
        text_model(
            "node relu Relu x -> a", "node relu2 Relu a -> b inplace b a", "node relu3 Relu b -> y inplace y b",
            "apart y b",
        ),
        "the two must not alias",
    ),
    (
        text_model("tensor y u8 64 at 0", "node relu Relu x -> a", "node relu2 Relu a -> y inplace y a"),
        "one of the two has a fixed offset, and the other does not have the same",
    ),
]  # fmt: skip


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
        found = formed(text_model("node relu Relu x w -> y inplace y w", f"tensor w u8 64 {role}"), arenas=one)
        assert found.reasons() == [f"relu: y of w: the operand is kept: it is a graph {role} that is not donated"]


def test_what_is_saved_is_kept_in_mode_forward_alone() -> None:
    model = text_model("node relu Relu x -> a", "node relu2 Relu a -> y inplace y a", "tensor a u8 64 saved")
    assert formed(model).reasons() == []
    assert formed(model, "forward").reasons() == ["relu2: y of a: the operand is kept: it is saved for backward"]
    assert formed(text_model("node relu Relu x -> a", "node relu2 Relu a -> y inplace y a"), "forward").reasons() == []


def test_a_layout_that_gives_every_result_bytes_of_its_own_grants_nothing() -> None:
    found = formed(text_model("node relu Relu x -> a", "node relu2 Relu a -> y inplace y a"), in_place=False)
    assert found.reasons() == ["relu2: y of a: the layout places every result separately"]
    assert found.together() == set()


def test_every_reason_has_a_model_that_meets_it() -> None:
    """The reasons are read from the module's text."""
    text = (Path(__file__).resolve().parents[2] / "tmmu/planner/aliasing.py").read_text()
    reasons = set(re.findall(r'reason = f?"([^"{]+)', text))
    met = {reason for _, reason in REFUSED} | {"the layout places every result separately"}
    met.add("the result is the next value of state whose old value is read until then")  # in test_planner_sets
    assert len(reasons) >= 13
    assert {reason for reason in reasons if not any(other.startswith(reason) for other in met)} == set()
