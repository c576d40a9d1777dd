"""The parts of the order `memory`: what is alive, the search over sets, list scheduling, cuts, lazy units.

spec: O1.3, O1.4, O1.5
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from tests.support.example_models import BRANCHES
from tests.support.text_models import text_model
from tmmu.core.vocabulary import MAIN, Model, Role
from tmmu.ir.program import build_program
from tmmu.planner import DEFAULT, aliasing, liveness
from tmmu.planner.orders import exact, portfolio
from tmmu.planner.orders.depth_first import depth_first
from tmmu.planner.orders.exact import search
from tmmu.planner.orders.graph import OrderGraph, build_graphs, compute_loads, unavoidable_load
from tmmu.planner.orders.greedy import schedule_from_the_end, schedule_greedily
from tmmu.planner.orders.lazy import insert_lazy, remove_lazy
from tmmu.planner.orders.portfolio import lower_peak
from tmmu.planner.orders.segments import find_segments

ACTIVATIONS = frozenset((2,))


def graph_of(
    model: Model,
    body: int = MAIN,
    *,
    mode: str = "inference",
    in_place: bool = False,
    weighed: frozenset[int] = ACTIVATIONS,
) -> OrderGraph:
    run = build_program(model)
    live = liveness.analyze(run, mode)
    alias = aliasing.form_storages(run, live, DEFAULT, mode, aliasing.NONE_IN_PLACE)
    return build_graphs(run, live, alias, weighed, mode, in_place)[body][1]


def allowed(graph: OrderGraph, order: list[int]) -> bool:
    place = {n: p for p, n in enumerate(order)}
    return sorted(order) == list(range(len(graph))) and all(
        place[m] < place[n] for n in range(len(graph)) for m in graph.before[n]
    )


def wide(branches: int) -> OrderGraph:
    """Branches of two units between a first and a last one: what the first of each makes is large."""
    lines = ["node first First x -> a", *(f"node up{k} Up a -> u{k}" for k in range(branches))]
    lines += [*(f"node down{k} Down u{k} -> d{k}" for k in range(branches))]
    join = " ".join(f"d{k}" for k in range(branches))
    sizes = {f"u{k}": 100 + k for k in range(branches)} | {f"d{k}": 1 for k in range(branches)}
    return graph_of(text_model(*lines, f"node join Join {join} -> y", sizes={"x": 1, "a": 1, "y": 1} | sizes))


def test_what_is_alive_while_each_unit_runs() -> None:
    graph = graph_of(BRANCHES)
    assert compute_loads(graph, range(6)) == [11, 1010, 2010, 2001, 1002, 3]
    assert compute_loads(graph, [0, 1, 3, 2, 4, 5]) == [11, 1010, 1011, 1011, 1002, 3]
    assert [unavoidable_load(graph, n) for n in range(6)] == [11, 1010, 1010, 1001, 1001, 3]


def test_the_search_finds_the_least_peak() -> None:
    found = search(graph_of(BRANCHES), 0, 2010, 1000)
    assert found.complete
    assert found.order == [0, 1, 3, 2, 4, 5]


def test_units_that_were_reached_before_with_a_higher_peak_are_gone_on_with_from_the_lower_one() -> None:
    """`make` alone needs less than `take`, so that it is tried first; but `take` frees `x`."""
    lines = ("node first First i -> x", "node make Make -> a", "node take Take x -> b", "node join Join a b -> y")
    graph = graph_of(text_model(*lines, inputs="i", sizes={"i": 1, "x": 100, "a": 10, "b": 15, "y": 1}))
    found = search(graph, 0, 1 << 40, 1000)
    assert found.order is not None
    assert max(compute_loads(graph, found.order)) == min(
        max(compute_loads(graph, list(order))) for order in permutations(range(4)) if allowed(graph, list(order))
    )


def test_a_bound_that_no_order_stays_below_is_a_complete_search_without_an_order() -> None:
    order, complete, _ = search(graph_of(BRANCHES), 0, 1011, 1000)
    assert (order, complete) == (None, True)


def test_a_search_beyond_its_limit_is_not_complete() -> None:
    graph = wide(12)
    order, complete, moves = search(graph, 0, 1 << 40, 20)
    assert (order, complete) == (None, False)
    assert 20 < moves <= 40
    assert search(wide(4), 0, 1 << 40, 1000).complete


def test_a_search_that_its_limit_just_allows_is_complete() -> None:
    graph = wide(4)
    moves = search(graph, 0, 1 << 40, 1000).moves
    assert search(graph, 0, 1 << 40, moves).complete
    assert not search(graph, 0, 1 << 40, moves - 1).complete


def test_a_unit_that_frees_what_it_adds_comes_next_and_no_other_is_tried() -> None:
    names = "abcdefgh"
    inputs, outputs = (" ".join(f"{name}{k}" for name in names) for k in range(2))
    graph = graph_of(
        text_model(*(f"node {name} Relu {name}0 -> {name}1" for name in names), inputs=inputs, outputs=outputs)
    )
    assert compute_loads(graph, range(8)) == [9 * 64] * 8
    assert search(graph, 9 * 64, 1 << 40, 1000).moves == 8


def test_of_the_sets_of_one_peak_the_largest_is_gone_on_with() -> None:
    """So that under a peak that is reached anyway the first order is the last that is looked at."""
    names = "abcdefgh"
    graph = graph_of(text_model(*(f"node {name} Relu x -> {name}" for name in names), outputs=" ".join((*names, "x"))))
    assert search(graph, 1 << 20, 1 << 40, 1000).moves == 8 + 7 + 6 + 5 + 4 + 3 + 2 + 1


def test_a_move_among_many_units_counts_as_several(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = wide(6)
    cheap = search(graph, 0, 1 << 40, 100_000).moves
    monkeypatch.setattr(exact, "BITS", 4)
    assert search(graph, 0, 1 << 40, 100_000).moves == cheap * (1 + len(graph) // 4)


def test_chains_cost_one_set_a_unit() -> None:
    lines = [f"node relu{k} Relu t{k} -> t{k + 1}" for k in range(200)]
    graph = graph_of(text_model(*lines, inputs="t0", outputs="t200"))
    assert search(graph, 0, 1 << 40, 400).moves <= 201


@pytest.mark.parametrize("recent", [True, False])
@pytest.mark.parametrize("largest", [True, False])
def test_list_scheduling_finishes_a_branch_before_the_next(recent: bool, largest: bool) -> None:
    graph = graph_of(BRANCHES)
    for order in (
        schedule_greedily(graph, recent=recent, largest=largest),
        schedule_from_the_end(graph, recent=recent, largest=largest),
    ):
        assert allowed(graph, order)
        assert max(compute_loads(graph, order)) == 1011


def test_ties_fall_to_the_first_unit_or_to_the_one_that_became_ready_last() -> None:
    model = text_model(
        "node one One x -> a", "node two Two x -> b", "node three Three a -> c", "node join Join b c -> y",
        outputs="y c b a x",
    )  # fmt: skip
    graph = graph_of(model)
    assert schedule_greedily(graph, recent=False, largest=False) == [0, 1, 2, 3]
    assert schedule_greedily(graph, recent=True, largest=False) == [0, 2, 1, 3]
    assert portfolio._heuristics(graph)[:2] == [[0, 2, 1, 3], [0, 1, 2, 3]]


@pytest.mark.parametrize("recent", [True, False])
def test_list_scheduling_goes_on_with_what_is_held_already(recent: bool) -> None:
    """From the end: `r3` brings `a` to life, so that `r2` and `r1` cost less than `o`, which is ready since then."""
    model = text_model(
        "node make Make x -> a", "node r1 R a -> p", "node other Other x -> c", "node o O c -> s", "node r2 R a -> q",
        "node r3 R a s -> r", outputs="p q r", sizes={"x": 1, "a": 50, "p": 1, "q": 1, "r": 20, "s": 1, "c": 30},
    )  # fmt: skip
    assert schedule_from_the_end(graph_of(model), recent=recent, largest=False) == [2, 3, 0, 1, 4, 5]


def test_depth_first_begins_with_the_operand_that_needs_most() -> None:
    model = text_model(
        "node low Low x -> s",
        "node high High x -> h",
        "node down Down h -> t",
        "node join Join s t -> y",
        sizes={"x": 1, "s": 50, "h": 900, "t": 1, "y": 1},
    )
    graph = graph_of(model)
    assert depth_first(graph, by_need=True) == [1, 2, 0, 3]
    assert depth_first(graph, by_need=False) == [0, 1, 2, 3]
    assert portfolio._heuristics(graph)[-2:] == [[1, 2, 0, 3], [0, 1, 2, 3]]
    # A long way to an operand is not what it needs.
    long = text_model(
        "node p0 P x -> p0", *(f"node p{k} P p{k - 1} -> p{k}" for k in range(1, 8)), "node high High x -> h",
        "node down Down h -> t", "node join Join p7 t -> y",
        sizes={f"p{k}": 2 for k in range(7)} | {"x": 1, "p7": 1, "h": 5, "t": 1, "y": 1},
    )  # fmt: skip
    assert depth_first(graph_of(long), by_need=True) == [8, 9, *range(8), 10]
    assert depth_first(wide(5), by_need=True) == [0, 5, 10, 4, 9, 3, 8, 2, 7, 1, 6, 11]
    # What an operand's operand needs, it needs too.
    far = text_model(
        "node low Low x -> l", "node s S l -> s", "node high High x -> h", "node down Down h -> t",
        "node on On t -> u", "node join Join s u -> y",
        sizes={"x": 1, "l": 30, "s": 20, "h": 900, "t": 1, "u": 1, "y": 1},
    )  # fmt: skip
    assert depth_first(graph_of(far), by_need=True) == [2, 3, 4, 0, 1, 5]


def test_a_graph_falls_apart_at_units_that_all_others_come_before_or_after() -> None:
    assert find_segments(graph_of(BRANCHES)) == [(1, 5)]
    twice = text_model(
        "node a A x -> a", "node b B a -> b", "node c C a -> c", "node d D b c -> d", "node e E d -> e",
        "node f F d -> f", "node g G e f -> y",
    )  # fmt: skip
    assert find_segments(graph_of(twice)) == [(1, 3), (4, 6)]
    apart = text_model("node a A x -> a", "node b B x -> b", outputs="a b")
    assert find_segments(graph_of(apart)) == [(0, 2)]
    # `c` waits for `a` and `b` comes before it in every order only by chance: they may change places.
    skipping = text_model("node a A x -> a", "node b B x -> b", "node c C a -> c", "node d D b c -> y")
    assert find_segments(graph_of(skipping)) == [(0, 3)]


def test_constants_wait_until_they_are_needed() -> None:
    model = text_model(
        "node zero Zero -> k", "node one One -> w", "node relu Relu x -> a", "node mul Mul a w -> b",
        "node add Add b k -> y",
    )  # fmt: skip
    graph = graph_of(model)
    left, smaller = remove_lazy(graph)
    assert left == [2, 3, 4]
    assert insert_lazy(graph, left, [0, 1, 2]) == [2, 1, 3, 0, 4]
    # They begin with whoever needs them first, and are gone with the last.
    assert max(compute_loads(smaller, [0, 1, 2])) == max(compute_loads(graph, [2, 1, 3, 0, 4]))


def test_what_ends_something_or_needs_more_while_it_runs_is_not_lazy() -> None:
    chain = text_model("node relu Relu x -> a", "node relu2 Relu a -> y")
    assert remove_lazy(graph_of(chain))[0] == [0, 1]
    # One reader of either result would hold both.
    several = text_model(
        "node both Both -> p q", "node read Read p -> a", "node read2 Read q -> b", "node add Add a b -> y", inputs=""
    )
    assert remove_lazy(graph_of(several))[0] == [0, 1, 2, 3]
    some = text_model(
        "node both Both -> p q", "node read Read p -> a", "node read2 Read p q -> b", "node add Add a b -> y", inputs=""
    )
    assert remove_lazy(graph_of(some))[0] == [0, 1, 2, 3]
    shared = text_model(
        "node one One -> p", "node read Read p -> a", "node read2 Read p -> b", "node add Add a b -> y", inputs=""
    )
    assert remove_lazy(graph_of(shared))[0] == [1, 2, 3]
    # What the caller keeps besides comes with the one reader.
    returned = text_model("node both Both -> p q", "node read Read p -> y", outputs="y q", inputs="")
    assert remove_lazy(graph_of(returned))[0] == [1]


def test_an_input_that_nobody_reads_is_alive_at_the_first_step() -> None:
    sizes = {"a": 100, "b": 1, "idle": 70, "x": 1, "y": 1}
    model = text_model(
        "node big Big x -> a", "node tiny Tiny x -> b", "node add Add a b -> y", inputs="x idle", sizes=sizes
    )
    graph = graph_of(model)
    assert graph.unread == 70
    assert compute_loads(graph, [0, 1, 2])[0] == 171
    assert lower_peak(graph) == [1, 0, 2]
    # A constant is made meanwhile, although it could wait.
    constant = text_model(
        "node big Big x -> a", "node tiny Tiny -> b", "node add Add a b -> y", inputs="x idle", sizes=sizes
    )
    assert lower_peak(graph_of(constant)) == [1, 0, 2]


def test_an_accepted_hint_saves_the_result_and_a_second_result_saves_nothing() -> None:
    model = text_model(
        "node make Make x -> a", "node pair Pair a -> b c inplace b a inplace c a scratch 10", "node add Add b c -> y",
        sizes={"y": 1},
    )  # fmt: skip
    graph = graph_of(model, in_place=True)
    assert len(graph.hints[1]) == 2
    assert compute_loads(graph, [0, 1, 2]) == [128, 138, 129]
    assert compute_loads(graph_of(model), [0, 1, 2]) == [128, 202, 129]
    assert search(graph, 0, 139, 100).order == [0, 1, 2]
    assert search(graph, 0, 138, 100).order is None


def test_an_operand_that_a_later_part_reads_is_not_given_up_in_this_one() -> None:
    """Where `grow` comes last of those around it, its result seems to cost nothing, and would need 310 bytes."""
    model = text_model(
        "node make Make x -> a", "node other Other a -> e", "node grow Grow a -> b inplace b a scratch 60",
        "node shrink Shrink b -> c", "node join Join a c e -> y",
        sizes={"x": 1, "a": 100, "e": 50, "b": 100, "c": 1, "y": 1},
    )  # fmt: skip
    graph = graph_of(model, in_place=True)
    assert find_segments(graph) == [(1, 4)]
    assert max(compute_loads(graph, range(5))) == 310
    assert max(compute_loads(graph, lower_peak(graph))) == 260


@pytest.mark.parametrize(
    ("model", "mode"),
    [
        (text_model("node relu Relu x -> y inplace y x"), "inference"),
        (text_model("node make Make x -> a", "node relu Relu a -> y inplace y a", outputs="y a"), "inference"),
        (text_model("node make Make x -> a", "node relu Relu a -> y inplace y a", sizes={"y": 8}), "inference"),
        (text_model(
            "node make Make x -> a", "node view1 View a -> v", "node both Both a v -> y inplace y a",
            "tensor v u8 64 view a 0",
        ), "inference"),
        (text_model("node make Make x -> a", "node relu Relu a -> y inplace y a", "tensor a u8 64 saved"), "backward"),
        (text_model(
            "node make Make x -> a", "node both Both a -> y a inplace y a changes a", outputs="y",
        ), "inference"),
        (text_model("node make Make x -> a", "begin if If a -> y inplace y a", "arm then ->", "end if"), "inference"),
        # The result's bytes are another's, or the operand's are a part of more, or of another kind.
        (text_model(
            "node make Make x -> a b", "node both Both a b -> v inplace v a", "node relu Relu v -> y",
            "tensor v u8 64 view b 0",
        ), "inference"),
        (text_model(
            "node make Make x -> a", "node relu Relu a -> b inplace b a", "node neg Neg b -> c",
            "node relu2 Relu c -> d", "alias g b d", outputs="d",
        ), "inference"),
        (text_model(
            "node make Make x -> a", "node view1 View a -> v", "node relu Relu v -> y inplace y v",
            "tensor v u8 8 view a 0", sizes={"y": 8},
        ),
         "inference"),
        (text_model("node make Make x -> a", "node relu Relu a -> y inplace y a", "tensor y u8 8x8"), "inference"),
        (text_model(
            "node make Make x -> a", "node cast Cast a -> y inplace y a", "tensor a i4 1", "tensor y i8 1",
        ), "inference"),
        (text_model(
            "node make Make x -> a", "node relu Relu a -> y inplace y a", "tensor y u8 64 gradient",
        ), "inference"),
        # What is not weighed: a result that nobody reads is inside its node, and a parameter is always there.
        (text_model("node make Make x -> a", "node relu Relu a -> y inplace y a", outputs="x"), "inference"),
        (text_model(
            "node relu Relu w -> y inplace y w", "tensor w u8 64 donated", inputs="", parameters="w",
        ), "inference"),
    ],
)  # fmt: skip
def test_hints_that_the_planner_would_refuse_save_nothing(model: Model, mode: str) -> None:
    assert not any(graph_of(model, mode=mode, in_place=True, weighed=frozenset((2, 3))).hints)


@pytest.mark.parametrize(
    ("model", "mode"),
    [
        (text_model("node make Make x -> a b", "node add Add a b -> y inplace y a"), "inference"),
        (text_model("node make Make x -> a", "node relu Relu a -> y inplace y a", "tensor a u8 64 saved"), "inference"),
        (text_model("node make Make x -> a", "node relu Relu a -> y inplace y a"), "backward"),
    ],
)
def test_hints_that_the_planner_grants_save_the_result(model: Model, mode: str) -> None:
    graph = graph_of(model, mode=mode, in_place=True)
    assert compute_loads(graph, [0, 1])[1] == compute_loads(graph_of(model, mode=mode), [0, 1])[1] - 64


def test_of_two_operands_that_a_result_may_take_the_first_is_listed() -> None:
    model = text_model("node make Make x -> a b", "node add Add a b -> y inplace y a inplace y b")
    graph = graph_of(model, in_place=True)
    assert graph.hints[1] == [(3, 1)]
    assert [graph.users[k] for k in graph.hints[1][0]] == [[1], [0, 1]]


def test_a_donated_input_may_be_taken() -> None:
    graph = graph_of(text_model("node relu Relu x -> y inplace y x", "tensor x u8 64 donated"), in_place=True)
    assert graph.hints == [[(1, 0)]]


def test_a_node_with_bodies_is_one_unit_that_needs_what_is_inside_it() -> None:
    model = text_model(
        "node make Make x -> a",
        "begin loop1 Loop a -> y",
        "arm body f -> g loop",
        "  node relu Relu f -> h",
        "  node relu2 Relu h -> g",
        "end loop1",
        sizes={"h": 1000, "f": 10, "g": 10},
    )
    main, inside = graph_of(model), graph_of(model, 1)
    assert len(main) == len(inside) == 2
    assert main.inner[1] >= 1010
    assert main.users == [[0], [0, 1], [1]]
    # What a loop is given lives throughout, and what its body returns to the end.
    assert inside.bytes == [1000, 10]
    assert inside.kept == [False, True]
    assert compute_loads(inside, [0, 1]) == [1000, 1010]


def test_what_is_inside_a_unit_counts_while_it_is_alive() -> None:
    model = text_model(
        "begin loop1 Loop x -> y", "arm body f -> g loop", "  node relu Relu f -> h", "  node relu2 Relu h -> i",
        "  node relu3 Relu i -> g", "end loop1", sizes={"f": 10, "h": 1000, "i": 10, "g": 1000},
    )  # fmt: skip
    assert graph_of(model).inner == [1020]


def test_only_what_comes_or_goes_in_the_arenas_that_are_weighed_is_a_buffer() -> None:
    model = text_model(
        "node relu Relu x w -> a", "node mul Mul a k -> g n", "node add Add g w n -> y", inputs="x k idle",
        parameters="w", outputs="y k", sizes={"n": 0},
    )  # fmt: skip
    gradients = (replace(t, role=Role.GRADIENT) if t.name in ("g", "idle") else t for t in model.tensors)
    model = replace(model, tensors=tuple(gradients))
    plain, more, every = (graph_of(model, weighed=frozenset(which)) for which in ((2,), (2, 3), (0, 2, 3)))
    assert plain.users == [[0], [0, 1], [2]]  # x, a, y
    assert plain.unread == 0
    assert more.users == every.users == [[0], [0, 1], [1, 2], [2]]
    assert more.unread == every.unread == 64


def test_in_mode_forward_what_is_saved_is_kept_also_where_the_last_unit_reads_it() -> None:
    model = text_model("node relu Relu x -> a", "node neg Neg a -> y", "tensor a u8 64 saved")
    assert graph_of(model, mode="forward").kept == [False, True, True]
    assert graph_of(model).kept == [False, False, True]


def test_units_wait_for_those_that_use_the_bytes_of_their_alias_group_before_them() -> None:
    model = text_model(
        "node one One x -> t", "node read Read t -> a", "node two Two x -> u", "node add Add a u -> y", "alias g t u"
    )
    assert set(graph_of(model).before[2]) == {0, 1}


def test_what_decides_no_peak_keeps_its_place() -> None:
    """Of two pairs of branches one decides the peak, also when it has been lowered; the other stays."""
    lines = (
        "node first First x -> a", "node b B a -> b", "node c C a -> c", "node d D b -> d", "node e E c -> e",
        "node mid Mid d e -> m",
    )  # fmt: skip
    again = ("node b2 B m -> p", "node c2 C m -> q", "node d2 D p -> r", "node e2 E q -> s", "node join Join r s -> y")
    high, low, just = (1000, 1000), (100, 100), (500, 501)  # with `m` as much as the first pair comes down to
    first, second = [0, 1, 3, 2, 4, 5, 6, 7, 8, 9, 10], [0, 1, 2, 3, 4, 5, 6, 8, 7, 9, 10]
    for (b, c), (p, q), order in ((high, low, first), (low, high, second), (high, just, first)):
        sizes = {"b": b, "c": c, "d": 1, "e": 1, "p": p, "q": q, "r": 1, "s": 1}
        assert lower_peak(graph_of(text_model(*lines, *again, sizes=sizes))) == order


def test_a_large_segment_is_ordered_by_rules_and_improved_around_its_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = wide(14)
    monkeypatch.setattr(portfolio, "_heuristics", lambda graph: ())
    monkeypatch.setattr(portfolio, "MOVES", 4000)
    monkeypatch.setattr(portfolio, "WINDOW", 4)
    order = lower_peak(graph)
    assert allowed(graph, order)
    worst, best = max(compute_loads(graph, range(len(graph)))), max(compute_loads(graph, wide_best(14)))
    assert best < max(compute_loads(graph, order)) < worst


def test_a_segment_that_the_rules_do_not_settle_is_searched_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "_heuristics", lambda graph: ())
    assert lower_peak(graph_of(BRANCHES)) == [0, 1, 3, 2, 4, 5]


def test_windows_are_tried_no_more_often_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = wide(14)
    monkeypatch.setattr(portfolio, "_heuristics", lambda graph: ())
    monkeypatch.setattr(portfolio, "MOVES", 4000)
    monkeypatch.setattr(portfolio, "WINDOW", 4)
    peaks = []
    for rounds in (0, 1, 24):
        monkeypatch.setattr(portfolio, "ROUNDS", rounds)
        peaks.append(max(compute_loads(graph, lower_peak(graph))))
    assert peaks[0] > peaks[1] > peaks[2]


def wide_best(branches: int) -> list[int]:
    """The branches one after the other, the largest value first."""
    turns = reversed(range(branches))
    return [0, *(n for k in turns for n in (1 + k, 1 + branches + k)), 2 * branches + 1]


def test_no_window_is_tried_where_no_move_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = wide(14)
    monkeypatch.setattr(portfolio, "MOVES", 0)
    order = lower_peak(graph)
    assert max(compute_loads(graph, order)) == max(compute_loads(graph, wide_best(14)))


def test_where_no_order_is_lower_the_given_one_stays() -> None:
    """Although a constant could wait."""
    assert lower_peak(
        graph_of(text_model("node zero Zero -> k", "node relu Relu x -> a", "node add Add a k -> y"))
    ) == [
        0,
        1,
        2,
    ]


def test_of_rules_that_lead_as_low_the_first_counts_and_one_that_reaches_the_floor_saves_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = graph_of(BRANCHES)
    monkeypatch.setattr(portfolio, "_heuristics", lambda graph: [[0, 1, 3, 2, 4, 5], [0, 2, 4, 1, 3, 5]])
    for floor, order in ((1011, [0, 1, 3, 2, 4, 5]), (2010, [0, 1, 3, 2, 4, 5])):
        assert portfolio._order_segment(graph, floor, 1000) == (order, 1011, 0)
    assert portfolio._order_segment(graph, 0, 1000) == (order, 1011, search(graph, 0, 1011, 500).moves)


class Searches:
    """Stands in for the search: notes units, floor, bound and limit, and says that 30 moves led to the next answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[int] | None) -> None:
        self.asked: list[tuple[int, int, int, int]] = []
        self.answers = list(answers)
        monkeypatch.setattr(portfolio, "search", self)
        monkeypatch.setattr(portfolio, "_heuristics", lambda graph: ())
        monkeypatch.setattr(portfolio, "MOVES", 100)

    def __call__(self, graph: OrderGraph, floor: int, bound: int, limit: int) -> exact.FoundOrder:
        assert max(compute_loads(graph, range(len(graph)))) == bound
        self.asked.append((len(graph), floor, bound, limit))
        return exact.FoundOrder(self.answers.pop(0) if self.answers else None, False, 30)


def test_the_searches_of_a_body_share_its_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what is left goes to the whole of the segment with the highest peak, then a fourth to each window."""
    lines = (
        "node first First x -> a", "node b B a -> b", "node c C a -> c", "node d D b -> d", "node e E c -> e",
        "node mid Mid d e -> m",
    )  # fmt: skip
    again = (
        "node b2 B m -> p", "node c2 C m -> q", "node d2 D p -> r", "node e2 E q -> s", "node f2 F m -> t",
        "node join Join r s t -> y",
    )  # fmt: skip
    sizes = {"b": 900, "c": 900, "d": 1, "e": 1, "p": 1000, "q": 1000, "r": 1, "s": 1, "t": 1}
    graph = graph_of(text_model(*lines, *again, sizes=sizes))
    same = list(range(5))
    searches = Searches(monkeypatch, None, same, same, same, same)
    assert lower_peak(graph) == list(range(12))
    assert searches.asked == [(5, 1064, 2065, limit) for limit in (50, 17, 17, 10)]
    searches = Searches(monkeypatch, [0, 2, 1, 3, 4])
    assert lower_peak(graph) == [0, 1, 2, 3, 4, 5, 6, 8, 7, 9, 10, 11]
    assert searches.asked == [(5, 1064, 2065, 50), (4, 1066, 1864, 35), (4, 1066, 1864, 10)]


def test_a_window_reaches_as_far_before_the_peak_as_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "WINDOW", 2)
    for place, units in ((0, 3), (1, 4), (2, 5), (4, 5), (6, 5), (7, 4), (8, 3)):
        graph = graph_of(text_model(
            *(f"node u{k} U t{k} -> t{k + 1}" for k in range(9)), inputs="t0", outputs="t9",
            sizes={"t0": 100, f"t{place + 1}": 1000},
        ))  # fmt: skip
        searches = Searches(monkeypatch)
        assert portfolio._improve_windows(graph, list(range(9)), 0, 100) == (list(range(9)), 30)
        assert searches.asked == [(units, 0, 1064 if place else 1100, 25)]
        for floor, moves in ((1064 if place else 1100, 100), (0, 0)):
            assert portfolio._improve_windows(graph, list(range(9)), floor, moves) == (list(range(9)), 0)
        assert len(searches.asked) == 1


def test_a_search_that_ended_leaves_nothing_to_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = wide(4)
    moves = search(graph, 0, max(compute_loads(graph, wide_best(4))), 1000).moves
    monkeypatch.setattr(portfolio, "_heuristics", lambda graph: [wide_best(4)])
    assert portfolio._order_segment(graph, 0, 1000)[2] == moves
    assert portfolio._order_segment(graph, 0, 2 * moves)[2] == moves
    assert portfolio._order_segment(graph, 0, 2 * moves - 2)[2] > moves
