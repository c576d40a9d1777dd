"""Each lemma of the planner with the code that it is about, how the two are compared, and changes of either side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

from hypothesis import strategies as st

from proofs.proving.lemmas.plan import clique_bound
from proofs.proving.lemmas.planner import (
    align_up,
    execution,
    linear_scan,
    liveness,
    prefix_sums,
    sharding,
    size_maxima,
    unions,
)
from tests.support import tied_liveness, ties
from tests.support.scan import Storage
from tmmu.core import alignment
from tmmu.core.dims import expressions
from tmmu.planner import DEFAULT, PlanOptions, aliasing, plan_memory
from tmmu.planner import liveness as planned_liveness
from tmmu.planner import slots as planned_slots
from tmmu.planner.layouts import packed as packed_layout
from tmmu.planner.layouts import slots as slots_layout
from tmmu.planner.sharding import local as sharded
from tmmu.plans import shapes
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.models import models
from tmmu.testing.strategies.recipes import HOLDERS, KINDS

alignments = st.integers(0, 12).map(lambda k: 1 << k)

storages = st.lists(
    st.builds(lambda birth, lasts, size: Storage(birth, birth + lasts, size), *[st.integers(0, 5)] * 3), max_size=6
)

UNALIGNED = tuple(replace(arena, alignment=1) for arena in DEFAULT)
looping = models(kinds=(*KINDS, *HOLDERS), size=10)


def planned(layout: str) -> st.SearchStrategy[Plan]:
    """Plans in a layout, with the alignments that the planner gives where nothing is asked for, or none at all."""
    arenas = st.sampled_from((UNALIGNED, DEFAULT))
    return st.builds(
        lambda model, given: plan_memory(model, given, PlanOptions(layout=layout)).plan, models(size=8), arenas
    )


class Change(NamedTuple):
    """One place of one side: of the code's source, or of the lemma's text named `of`."""

    side: str
    old: str
    new: str
    of: str = ""


class Tie(NamedTuple):
    """A file of lemmas, what is taken of it, the code it is about, how they are compared, and changes to notice."""

    lemma: str
    texts: dict[str, str]
    code: ModuleType
    disagreement: Callable[[ties.Texts, ModuleType, Any], str | None]
    examples: st.SearchStrategy[Any]
    changes: tuple[Change, ...]


TIES = (
    Tie(
        "align_up",
        {"ALIGN_UP": align_up.ALIGN_UP, **ties.texts_of(*align_up.LEMMAS)},
        alignment, ties.rounds_up, st.tuples(st.one_of(st.integers(0, 300), st.integers(0, 1 << 65)), alignments),
        (Change("code", "(offset + alignment - 1)", "(offset + alignment)"),
         Change("code", "& -alignment", "& alignment"),
         Change("lemma", "(+ offset alignment (- 1))", "(+ offset alignment)", "ALIGN_UP"),
         Change("lemma", "(bvsub alignment one))\n(define-fun sum", "alignment)\n(define-fun sum",
                "words_round_up_as_integers_do")),
    ),
    Tie(
        "prefix_sums",
        {"DEFINITIONS": prefix_sums.DEFINITIONS}, shapes, ties.places_slots,
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 600), alignments), max_size=12),
        (Change("code", "footprints[a] = offsets[-1] + size", "footprints[a] = offsets[-1]"),
         Change("code", "align_up(footprints[a], alignment)", "footprints[a]"),
         Change("lemma", "(footprint (+ (align_up cursor (strictness requests)) (room requests))",
                "(footprint (align_up cursor (strictness requests))", "DEFINITIONS"),
         Change("lemma", "(placed (+ (align_up cursor (strictness requests)) (room requests))",
                "(placed (+ cursor (room requests))", "DEFINITIONS")),
    ),
    Tie(
        "linear_scan",
        ties.texts_of(*linear_scan.LEMMAS), planned_slots, ties.scans, storages,
        (Change("code", "deaths[by_death[dead]] < birth", "dead < len(slot) - 1 and deaths[by_death[dead]] <= birth"),
         Change("code", "deaths[by_death[dead]] < birth", "deaths[by_death[dead]] + 1 < birth"),
         Change("code", "        while deaths[by_death", "        if deaths[by_death"),
         Change("code", "return heapq.heappop(free)\n", "return None\n"),
         Change("lemma", "(=> (active y) (<= now (death y)))", "(=> (active y) (< now (death y)))", "Reuse"),
         Change("lemma", "(assume (< (death x) now))", "(assume (< (+ 1 (death x)) now))", "Expire"),
         Change("lemma", "(assume (= (birth x) now))", "(assume (= (birth x) (+ 1 now)))", "Reuse"),
         Change("lemma", "(assume (forall ((k Int)) (not (free k))))", "(assume (exists ((k Int)) (free k)))", "Open")),
    ),
    Tie(
        "clique_bound",
        {"DEFINITIONS": clique_bound.DEFINITIONS}, planned_slots, ties.bounds_slots, storages,
        (Change("code", "deaths[by_death[dead]] < birth", "dead < len(slot) - 1 and deaths[by_death[dead]] <= birth"),
         Change("code", "return heapq.heappop(free)\n", "return None\n"),
         Change("lemma", "(< to (first_live storages))", "(<= to (first_live storages))", "DEFINITIONS"),
         Change("lemma", "(< to (first_live storages))", "(< (+ 1 to) (first_live storages))", "DEFINITIONS")),
    ),
    Tie(
        "liveness",
        {"DIES": liveness.DIES, **ties.texts_of(*liveness.LEMMAS)}, planned_liveness, tied_liveness.lives,
        st.tuples(looping, st.sampled_from(("inference", "forward"))),
        (Change("code", "        for t in reads:\n            death[t] = s", "        pass"),
         Change("code", "if writer[t] < enter:", "if False:"),
         Change("lemma", "now", "(- now 1)", "DIES"),
         Change("lemma", "(<= leave death)", "(< leave death)",
                "what_a_loop_captures_is_live_at_every_moment_until_it_is_read"),
         Change("lemma", "(<= reader death)", "(< reader death)",
                "what_an_iteration_makes_is_live_until_it_is_read_there")),
    ),
    Tie(
        "execution",
        ties.texts_of(*execution.LEMMAS), slots_layout, ties.keeps_apart, planned("slots"),
        (Change("code", "[found.offset[slot] for", "[max(0, found.offset[slot] - 1) for"),
         Change("lemma", "(<= (+ (offset x) (bytes x)) (offset y))", "(< (+ 1 (offset x) (bytes x)) (offset y))",
                "tensors_of_storages_that_are_apart_are_apart")),
    ),
    Tie(
        "execution",
        ties.texts_of(*execution.LEMMAS), packed_layout, ties.keeps_apart, planned("packed"),
        (Change("code", "zip(members, packing.offsets", "zip(members, [max(0, at - 1) for at in packing.offsets]"),
         Change("code", "packing = pack(boxes, first) if arena.reuse else around.in_sequence(boxes, first)",
                "packing = Packing([0] * len(members), 0)"),
         Change("lemma", "(<= (+ (offset x) (bytes x)) (offset y))", "(< (+ 1 (offset x) (bytes x)) (offset y))",
                "tensors_of_storages_that_are_apart_are_apart"),
         Change("lemma", "(<= (dies t) (death (storage t)))", "(< (dies t) (death (storage t)))",
                "tensors_of_storages_that_are_apart_are_apart")),
    ),
    Tie(
        "execution",
        ties.texts_of(*execution.LEMMAS), aliasing, ties.takes_in_place, looping,
        (Change("code", "elif classes.death[x] > s:", "elif False:"),
         Change("code", "elif tensors[operand].shape != tensors[result].shape:", "elif False:"),
         Change("code", "elif x in written:", "elif False:"),
         Change("lemma", "(assume (= (dies operand) now))", "(assume (< (dies operand) now))",
                "an_in_place_result_spoils_nothing_but_its_operand"),
         Change("lemma", "(assume (= (length result) (length operand)))",
                "(assume (< (length result) (length operand)))", "an_in_place_result_spoils_nothing_but_its_operand")),
    ),
    Tie(
        "unions",
        {"BIRTH": unions.BIRTH, "DEATH": unions.DEATH, "BYTES": unions.BYTES, **ties.texts_of(*unions.LEMMAS)},
        aliasing, ties.joins, models(size=8),
        (Change("code", "birth[k] = min(birth[k], live.birth[t])", "birth[k] = max(birth[k], live.birth[t])"),
         Change("code", "death[k] = max(death[k], live.death[t])", "pass"),
         Change("code", "size[k] = max(size[k], window[t] + tensors[t].bytes)", "pass"),
         Change("code", "alignment[k] = max(alignment[k], tensors[t].alignment)",
                "alignment[k] = min(alignment[k], tensors[t].alignment)"),
         Change("lemma", "(< death (dies x))", "(< (+ 1 death) (dies x))", "DEATH"),
         Change("lemma", "(< (born x) birth)", "(< birth (born x))", "BIRTH"),
         Change("lemma", "(ite (< bytes (+ (window x) (length x)))", "(ite true", "BYTES"),
         Change("lemma", "(bvule alignment strictest)", "(bvule strictest alignment)",
                "what_is_aligned_to_the_strictest_is_aligned_to_all")),
    ),
    Tie(
        "sharding",
        {"PART": sharding.PART, **ties.texts_of(*sharding.LEMMAS)}, sharded, ties.divides,
        st.tuples(st.integers(0, 20), st.integers(1, 6)),
        (Change("code", "-(-size // sizes[axis])", "size // sizes[axis]"),
         Change("code", "min(chunk * place[axis], size)", "min((chunk + 1) * place[axis], size)"),
         Change("lemma", "(+ size ranks (- 1))", "size", "PART"),
         Change("lemma", "(and (and (<= (* rank width) index)", "(and (and (< (* rank width) index)",
                "no_index_has_two_ranks")),
    ),
    Tie(
        "size_maxima",
        ties.texts_of(*size_maxima.LEMMAS), expressions, ties.bounds_sizes,
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(1, 5)),
        (Change("code", "low, high = low + here.low, high + here.high", "low, high = low + here.low, high + here.low"),
         Change("code", "ends = [a // b for", "ends = [-(-a // b) for"),
         Change("code", "chosen(high, most)", "chosen(low, most)"),
         Change("lemma", "(<= (- a b) (- high_a low_b))", "(<= (- a b) (- high_a high_b))",
                "a_difference_is_largest_where_what_is_taken_is_least"),
         Change("lemma", "(lesser high_a high_b)", "(lesser low_a high_b)",
                "the_lesser_and_the_greater_are_largest_where_both_parts_are")),
    ),
)  # fmt: skip
