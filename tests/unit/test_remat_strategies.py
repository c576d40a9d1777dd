"""Which policies are tried: what crosses from segment to segment, where segments are cut, what is worth dropping.

The hourglass of depth 2 is x → v1 → v2 → v3 → v4 → v5 → v6 → v7 → v8, where v5 is also made of v3 and v7 of v1.
spec: M1.10
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.recompute_graphs import chain, hourglass, residual
from tests.support.text_models import text_model
from tests.support.trainable import floating
from tmmu.core.vocabulary import Model
from tmmu.planner.remat.rewrite import Policy, build_joint
from tmmu.planner.remat.strategies import Classes, all_policies, chen_policy, segment_counts, segment_policies
from tmmu.planner.training.expand import expand_to_joint


def classes(model: Model) -> Classes:
    return Classes(build_joint(expand_to_joint(model)))


def named(found: Classes, roots: Iterable[int]) -> list[str]:
    return [found.joint.model.tensors[root].name for root in roots]


def test_classes_are_what_may_be_dropped_and_those_count_that_backward_reads() -> None:
    """A view of an input is made again for nothing, and the derivative of Relu reads its result alone."""
    model = floating(
        "node reshape0 Reshape x -> v", "node sin0 Sin v -> s", "node matmul0 MatMul x w -> a",
        "node relu0 Relu a -> b", "node tanh0 Tanh b -> c", "node matmul1 MatMul c w -> d", "node add0 Add d s -> y",
        "tensor v f32 16 view x 0", parameters="w",
    )  # fmt: skip
    found = classes(model)
    assert named(found, found.roots) == ["s", "a", "b", "c", "d"]
    assert named(found, found.saved) == ["b", "c"]


def test_what_frees_the_most_bytes_for_an_operation_is_dropped_first() -> None:
    """1024 bytes for 256 operations, 64 for 16, and 64 for a product of 128; one more counts for each, so that the
    larger of the first two comes first.
    """
    like = {name: {"shape": (4, 64), "dtype": "float32", "bytes": 1024, "alignment": 4} for name in ("p", "c", "d")}
    like["q"] = like["p"] | {"shape": (64, 4)}
    model = floating(
        "node matmul0 MatMul x w -> a", "node sin0 Sin a -> b", "node matmul1 MatMul b p -> c",
        "node tanh0 Tanh c -> d", "node matmul2 MatMul d q -> e", "node tanh1 Tanh e -> y", "tensor p f32 4x64",
        "tensor c f32 4x64", "tensor d f32 4x64", parameters="w p q",
    )  # fmt: skip
    found = classes(model)
    assert named(found, found.saved) == ["a", "b", "d"]
    assert named(found, found.by_worth) == ["d", "b", "a"]


def test_what_crosses_a_place_is_made_before_it_and_read_after_it() -> None:
    found = classes(hourglass(2))
    assert [named(found, sorted(roots)) for roots in found.crossing] == [
        [], ["v1"], ["v1", "v2"], ["v1", "v3"], ["v1", "v3", "v4"], ["v1", "v5"], ["v1", "v6"],
    ]  # fmt: skip
    assert found.width == [0, 1024, 1536, 1536, 1792, 1536, 1536]
    assert named(found, sorted(found.classes_across([1, 4]))) == ["v1", "v3", "v4"]
    assert found.classes_across([]) == frozenset()


def test_what_only_backward_reads_crosses_no_place_between_segments() -> None:
    found = Classes(
        build_joint(
            text_model(
                "node sin Sin x -> a", "node cos Cos x -> b", "node exp Exp b -> c",
                "node matmul MatMul a b c -> y backward",
            )
        )
    )  # fmt: skip
    assert [named(found, roots) for roots in found.crossing] == [[], [], ["b"]]


def test_segments_are_cut_evenly_or_where_the_least_crosses_nearby() -> None:
    found = classes(hourglass(2))
    assert [found.cuts(n, 0, 7, snapped=False) for n in (1, 2, 3, 7)] == [[], [3], [2, 4], [1, 2, 3, 4, 5, 6]]
    assert found.cuts(3, 0, 7, snapped=True) == [1, 3]  # 3 and 5 are as good for the place 4: the first is taken
    assert found.cuts(2, 2, 7, snapped=True) == [3]  # 4 is the middle, where most crosses
    deep = classes(hourglass(3))
    assert deep.width == [0, 2048, 3072, 3072, 3584, 3584, 3840, 3584, 3584, 3072, 3072]
    assert deep.cuts(2, 3, 11, snapped=True) == [9]  # as far from 7 as can be
    assert deep.cuts(2, 1, 11, snapped=True) == [5]  # 3 is too far from 6
    assert classes(chain([64] * 41)).cuts(2, 0, 39, snapped=True) == [19]  # all are as good
    assert found.cuts(5, 0, 3, snapped=False) == [0, 1, 2]  # where there are more segments than nodes, some are empty


def test_numbers_of_segments_are_all_of_few_and_some_of_many() -> None:
    assert segment_counts(5) == [1, 2, 3, 4, 5]
    assert segment_counts(24) == list(range(1, 25))
    assert segment_counts(25) == [1, 2, 3, 4, 5, 6, 8, 12, 16, 24]
    assert segment_counts(32)[-1] == 32
    assert segment_counts(10_000) == sorted(
        {100, *(1 << k for k in range(14)), *(3 << k for k in range(12))}
    )  # 3 times 2 to the 11th is 6144


def test_square_root_many_segments_keep_what_crosses_from_one_to_the_next() -> None:
    found = classes(residual(3))
    assert chen_policy(found) == Policy(found.crossing[4])  # in the middle of eight nodes, although less crosses at 3
    assert found.width[3] < found.width[4]
    long = classes(chain([64] * 41))
    assert chen_policy(long) == Policy(long.classes_across([6, 13, 19, 26, 32]))


def test_numbers_of_segments_near_the_square_root_are_tried_first() -> None:
    """Of n segments of a chain n - 1 values are kept. On large graphs not all are tried."""
    policies = list(segment_policies(classes(chain([64] * 41))))
    assert policies[0] == chen_policy(classes(chain([64] * 41)))
    assert len(policies[2].held or ()) == 8  # nodes up to 9, 19, 29 and 39: two cuts in each of the four segments
    kept = [len(policy.kept) for policy in policies[1:]]
    assert kept == [n for n in (3, 5, 1, 2, 7, 11, 0, 15, 23, 31) for _ in range(6)]


def test_what_is_computed_again_in_a_segment_is_held_or_kept_at_its_own_segments_or_not_held() -> None:
    found = classes(hourglass(2))
    v1, v2, v3, v4, v5, *_ = found.roots
    ends = frozenset((v1, v3))
    policies = list(segment_policies(found))
    for held in (None, frozenset((v1, v5)), frozenset[int]()):
        assert Policy(ends, held) in policies  # of two segments, three nodes and four, each of them cut in the middle
    two = frozenset((v1, v2, v3, v4))
    assert [policy.held for policy in policies if policy.kept == two] == [None, frozenset(), frozenset()]


def test_every_policy_of_a_small_graph_is_tried_once() -> None:
    found = classes(chain([64] * 4))
    a, b = found.roots
    tried = list(all_policies(found))
    choices = {frozenset[int](), frozenset((a,)), frozenset((b,)), frozenset((a, b))}
    assert set(tried) == {Policy(kept, held) for kept in choices for held in choices if not kept & held}
    assert len(tried) == 9
    assert tried[:3] == [Policy(found.all, frozenset()), Policy(frozenset((a,)), frozenset((b,))),
                         Policy(frozenset((a,)), frozenset())]  # fmt: skip
