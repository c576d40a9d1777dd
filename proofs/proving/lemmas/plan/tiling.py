"""Prove that a storage has one edge at each of its steps on a side that passes `tiling`; `stacking` leads up too.

Tests: `tests/unit/test_recursion.py`.
spec: V1.12, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant

_TILING = {"since": "Int", "until": "Int", "edges": "Edges"}
_TILING_OK = "(tiling since until edges)"
_AFTER_EDGE = {"since": "its_last_step"}
_STACKING = {"since": "Int", "until": "Int", "end": "Int", "above": "Above"}
_STACKING_OK = "(stacking since until end above)"
_AFTER_UP = {"since": "its_to_step"}

LEMMAS = (
    Lemma(
        "no_edge_comes_too_early",
        "A list of edges that passes `tiling` has no edge up to the step that it starts from, and ends no earlier.",
        {**_TILING, "step": "Int"},
        f"(=> {_TILING_OK} (and (<= since until) (=> (<= step since) (= 0 (edges_at step edges)))))",
        over="edges",
        hypotheses=(_AFTER_EDGE,),
        mutants=(
            Mutant("edges may overlap", "(= (first_step edges) (+ since 1))", "(<= (first_step edges) (+ since 1))"),
        ),
    ),
    Lemma(
        "one_edge_at_each_step",
        "A list of edges that passes `tiling` has exactly one edge at each step of its storage.",
        {**_TILING, "step": "Int"},
        f"(=> (and (< since step) (<= step until) {_TILING_OK}) (= 1 (edges_at step edges)))",
        over="edges",
        hypotheses=(_AFTER_EDGE,),
        using=(("no_edge_comes_too_early", {**_AFTER_EDGE, "edges": "rest_of_list"}),),
        mutants=(
            Mutant(
                "each edge leaves a step out",
                "(= (first_step edges) (+ since 1))",
                "(= (first_step edges) (+ since 2))",
            ),
            Mutant(
                "the last edge may end too early",
                "(ite ((_ is no_edges) edges) (= since until)",
                "(ite ((_ is no_edges) edges) (<= since until)",
            ),
        ),
    ),
    Lemma(
        "no_edge_at_another_step",
        "A list of edges that passes `tiling` has no edge at any other step than those of its storage.",
        {**_TILING, "step": "Int"},
        f"(=> (and (or (<= step since) (< until step)) {_TILING_OK}) (= 0 (edges_at step edges)))",
        over="edges",
        hypotheses=(_AFTER_EDGE,),
        using=(("no_edge_comes_too_early", {**_AFTER_EDGE, "edges": "rest_of_list"}),),
        mutants=(
            Mutant("edges may overlap", "(= (first_step edges) (+ since 1))", "(<= (first_step edges) (+ since 1))"),
            Mutant("an edge may end before it begins", "(<= (first_step edges) (last_step edges))", "true"),
        ),
    ),
    Lemma(
        "tilings_join",
        "If two lists of edges pass `tiling`, the second from where the first ended, they pass it as one list.",
        {**_TILING, "between": "Int", "more": "Edges"},
        "(=> (and (tiling since between edges) (tiling between until more))"
        " (tiling since until (join_edges edges more)))",
        over="edges",
        hypotheses=(_AFTER_EDGE,),
        mutants=(
            Mutant("any end", "(ite ((_ is no_edges) edges) (= since until)", "(ite ((_ is no_edges) edges) true"),
        ),
    ),
    Lemma(
        "what_is_stacked_is_tiled",
        "The edges of a list that passes `stacking` pass `tiling`: one is above the storage at each of its steps.",
        _STACKING,
        f"(=> {_STACKING_OK} (tiling since until (edges_of above)))",
        over="above",
        hypotheses=(_AFTER_UP,),
        mutants=(
            Mutant("edges may overlap", "(= (from_step above) (+ since 1))", "(<= (from_step above) (+ since 1))"),
            Mutant("an edge may end before it begins", "(<= (from_step above) (to_step above))", "true"),
            Mutant("any end", "(and (= since until) (<= 0 end))", "(<= 0 end)"),
        ),
    ),
    Lemma(
        "what_is_stacked_begins_above",
        "Every storage above another, by a list that passes `stacking`, begins at or after the other's end, which is"
        " at least 0.",
        _STACKING,
        f"(=> {_STACKING_OK} (and (<= 0 end) (all_begin_from end above)))",
        over="above",
        hypotheses=(_AFTER_UP,),
        mutants=(
            Mutant("one byte in common", "(<= end (begins_at above))", "(<= end (+ 1 (begins_at above)))"),
            Mutant("an end below byte 0", "(and (= since until) (<= 0 end))", "(= since until)"),
        ),
    ),
    Lemma(
        "what_begins_above_is_stacked",
        "A storage that begins at or after an end that is at least 0, and has a byte, is stacked on that end.",
        {"end": "Int", "byte_of_one": "Int", "bytes_of_one": "Int"},
        "(=> (and (<= 0 end) (<= end byte_of_one) (has_bytes bytes_of_one))"
        " (stacked end byte_of_one (+ byte_of_one bytes_of_one)))",
        mutants=(Mutant("a storage may have no byte", "(< 0 bytes_of_storage)", "(<= 0 bytes_of_storage)"),),
    ),
    Lemma(
        "stackings_join",
        "If two lists of edges pass `stacking`, the second from where the first ended, they pass it as one list.",
        {**_STACKING, "between": "Int", "more": "Above"},
        "(=> (and (stacking since between end above) (stacking between until end more))"
        " (stacking since until end (join_above above more)))",
        over="above",
        hypotheses=(_AFTER_UP,),
        mutants=(Mutant("any end", "(and (= since until) (<= 0 end))", "(<= 0 end)"),),
    ),
)
