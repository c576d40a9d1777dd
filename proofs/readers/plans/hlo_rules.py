"""For each operation of HLO, the elements of its operands that an element of its result is computed from.

The rules are written from the definition of each operation. A rule yields an element for each operand that is read. If
the shapes do not fit a rule, or an operation has none, any element counts as read. spec: FP4.13, FP4.14
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from proofs.readers.plans.foreign_plan import elements_of
from proofs.readers.plans.hlo_follow import Follower, NeededElement, integers, leaf_at
from proofs.readers.plans.hlo_index import ZERO, Linear, as_linear, indices_of, number_of, row_major_order
from proofs.readers.plans.hlo_opcodes import Reads
from proofs.readers.plans.hlo_text import BOUNDED, Leaf

Rule = Callable[[Follower, NeededElement, Leaf], Iterator[NeededElement]]


def follow(follower: Follower, state: NeededElement) -> Iterator[NeededElement]:
    """Yield the elements that an element of a value is computed from. O(operands × rank).

    The value is not a parameter of the outermost scope.
    """
    scope, each = state.scope, state.each
    reads = each.row.reads
    if each.op == "parameter":
        assert scope.outer is not None  # a parameter of the outermost scope is not known
        of = scope.outer.computation.by_name[scope.caller.operands[each.number]]
        yield state._replace(scope=scope.outer, each=of)
    elif reads is Reads.FUSED:
        yield follower.enter(state, "calls")
    elif each.op == "call":
        yield follower.enter(state, "to_apply")
    elif reads is Reads.TUPLED:
        yield state.operand(state.part[0], state.indices, state.part[1:])
    elif reads is Reads.ELEMENT:
        yield state.operand(0, state.indices, (each.number, *state.part))
    elif reads is Reads.WHOLE:
        yield state.operand(0, state.indices, state.part)
    elif reads is not Reads.NOTHING:
        leaf, rule = leaf_at(each.shape, state.part), RULES.get(reads)
        assert leaf is not None  # only arrays have elements
        found = None if rule is None else _applied(rule, follower, state, leaf)
        yield from follower.any_operand(state, range(len(each.operands))) if found is None else found


class _Misfit(Exception):
    """Raised if the shapes of an instruction are not those of its rule."""


def _applied(rule: Rule, follower: Follower, state: NeededElement, leaf: Leaf) -> list[NeededElement] | None:
    """Return the elements of a rule, None if the instruction does not fit it.

    An array of a bounded size may have its elements at other places than one of full size. Only the elementwise rule
    fits it.
    """
    shapes = [leaf, *(state.array(k) for k in range(len(state.each.operands)))]
    if rule is not _follow_same and any(BOUNDED in each.tiling for each in shapes):
        return None
    try:
        return list(rule(follower, state, leaf))
    except (_Misfit, IndexError, ValueError):
        return None


def _check(is_right: bool) -> None:
    if not is_right:
        raise _Misfit


def _follow_same(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield the element at the same index; of a scalar its one element. Result k of a tuple needs operand k."""
    _check(len(state.part) <= 1)
    which = state.part if state.part else range(len(state.each.operands))
    for k in which:
        dims = state.array(k).dims
        _check(dims in ((), leaf.dims) and state.array(k).dtype != "")
        found = state.operand(k, state.indices if dims else ())
        # The result of a select does not depend on both of its values.
        yield found._replace(is_exact=found.is_exact and (state.each.op != "select" or k == 0))


def _follow_same_bits(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    _check(state.array(0).bits == leaf.bits)
    yield from _follow_same(follower, state, leaf)


def _follow_bytes(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield the element at the same place in memory."""
    of = state.array(0)
    _check(of.bits == leaf.bits and elements_of(of.dims) == elements_of(leaf.dims) and not (of.tiling or leaf.tiling))
    number = number_of(state.indices, leaf.dims, leaf.minor)
    yield state.operand(0, indices_of(number, of.dims, of.minor))


def _follow_row_major(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield the element at the same place in row-major order, which may be at another place in memory."""
    of = state.array(0)
    _check(elements_of(of.dims) == elements_of(leaf.dims))
    number = number_of(state.indices, leaf.dims, row_major_order(len(leaf.dims)))
    yield state.moved(0, indices_of(number, of.dims, row_major_order(len(of.dims))))


def _follow_broadcast(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    onto = integers(state.each.attributes["dimensions"])
    _check(state.array(0).dims == tuple(leaf.dims[d] for d in onto))
    yield state.moved(0, tuple(state.indices[d] for d in onto))


def _follow_transposed(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield the element whose dimension `dimensions[i]` has the index of dimension i of the result."""
    order, dims = integers(state.each.attributes["dimensions"]), state.array(0).dims
    _check(sorted(order) == list(range(len(dims))) and leaf.dims == tuple(dims[d] for d in order))
    yield state.moved(0, tuple(state.indices[order.index(d)] for d in range(len(dims))))


def _follow_sliced(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    ranges = [integers(part) for part in state.each.attributes["slice"].split("]")[:-1]]
    dims = state.array(0).dims
    found = []
    for stated, index, size, dim in zip(ranges, state.indices, leaf.dims, dims, strict=True):
        start, end, step = (*stated, 1)[:3]
        _check(step > 0 and start <= end <= dim and size == -((start - end) // step))
        found.append(Linear(start).plus(index, step))
    yield state.moved(0, tuple(found))


def _follow_reversed(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    which = integers(state.each.attributes["dimensions"])
    _check(state.array(0).dims == leaf.dims and all(d < len(leaf.dims) for d in which))
    yield state.moved(
        0,
        tuple(
            Linear(size - 1) - index if d in which else index
            for d, (index, size) in enumerate(zip(state.indices, leaf.dims, strict=True))
        ),
    )


def _follow_joined(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    (d,) = integers(state.each.attributes["dimensions"])
    offset = 0
    for k in range(len(state.each.operands)):
        dims = state.array(k).dims
        _check((*dims[:d], leaf.dims[d], *dims[d + 1 :]) == leaf.dims)
        inside = follower.narrow(state, d, dims[d], Linear(offset)) if dims[d] < leaf.dims[d] else state
        yield inside.moved(k, inside.indices)
        offset += dims[d]
    _check(offset == leaf.dims[d])


def _follow_padded(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield the operand's element, apart by the interior padding, from the low padding on; and the padding value."""
    stated = [tuple(int(n) for n in dim.split("_")) for dim in state.each.attributes["padding"].split("x")]
    dims = state.array(0).dims
    _check(len(stated) == len(leaf.dims) == len(dims) and state.array(1).dims == ())
    yield state.moved(1, ())._replace(is_exact=False)
    inside = state
    for d, ((low, high, *more), size) in enumerate(zip(stated, dims, strict=True)):
        step = 1 + (more[0] if more else 0)
        _check(leaf.dims[d] == low + high + size + max(0, size - 1) * (step - 1))
        if low or high or step > 1:
            inside = follower.narrow(inside, d, size, Linear(low), step)
            # Negative padding cuts elements off, which are not read.
            inside = inside._replace(is_exact=inside.is_exact and low >= 0 and high >= 0)
    yield inside.moved(0, inside.indices)


def _follow_dynamic_sliced(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    dims = state.array(0).dims
    _check(len(leaf.dims) == len(dims) and all(n <= dim for n, dim in zip(leaf.dims, dims, strict=True)))
    starts = follower.starts(state, 1, leaf.dims)
    yield state.moved(0, tuple(index + start for index, start in zip(state.indices, starts, strict=True)))
    yield from follower.any_operand(state, range(1, len(state.each.operands)))


def _follow_updated(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield the same element of operand 0, which is needed outside of the window, and the update's element within."""
    window = state.array(1).dims
    _check(state.array(0).dims == leaf.dims and len(window) == len(leaf.dims))
    _check(all(size <= dim for size, dim in zip(window, leaf.dims, strict=True)))
    yield state.operand(0, state.indices)._replace(is_exact=False)
    starts = follower.starts(state, 2, window)
    inside = state
    for d, (start, size) in enumerate(zip(starts, window, strict=True)):
        if size < leaf.dims[d]:
            inside = follower.narrow(inside, d, size, start)
    yield inside.moved(1, inside.indices)
    yield from follower.any_operand(state, range(2, len(state.each.operands)))


def _follow_scattered(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield the same element of operand k for result k, and any elements of the updates: the data choose them."""
    count = len(state.each.operands) // 2
    k = state.part[0] if state.part else 0
    _check(k < count and state.array(k).dims == leaf.dims)
    yield state.operand(k, state.indices)._replace(is_exact=False)
    yield from follower.any_operand(state, range(count, len(state.each.operands)))


def _follow_reduced(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield all elements of the inputs along the reduced dimensions, and the initial values."""
    count, over = len(state.each.operands) // 2, integers(state.each.attributes["dimensions"])
    dims = state.array(0).dims
    _check(leaf.dims == tuple(size for d, size in enumerate(dims) if d not in over))
    left = iter(state.indices)
    indices = tuple(as_linear(follower.variable(n)) if d in over else next(left) for d, n in enumerate(dims))
    summed = state._replace(is_summed=state.is_summed or any(dims[d] != 1 for d in over))
    for k in range(count):
        _check(state.array(k).dims == dims and state.array(count + k).dims == ())
        yield summed.moved(k, indices)
        yield summed.moved(count + k, ())


def _follow_windowed(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield the elements of a window that begins at index × stride − padding; some of them may be padding."""
    stated = dict(word.split("=") for word in state.each.attributes.get("window", "{}").strip("{} ").split())
    rank, count = len(leaf.dims), len(state.each.operands) // 2
    _check("lhs_dilate" not in stated and ("size" in stated or rank == 0))

    def each(key: str) -> list[int]:
        return [int(word) for word in stated.get(key, "x".join(["1"] * rank)).split("x")] if rank else []

    low = [int(word.split("_")[0]) for word in stated["pad"].split("x")] if "pad" in stated else [0] * rank
    indices = []
    for index, size, step, apart, pad in zip(
        state.indices, each("size"), each("stride"), each("rhs_dilate"), low, strict=True
    ):
        indices.append(index.times(step).plus(as_linear(follower.variable(size)), apart) - Linear(pad))
    summed = state._replace(is_summed=state.is_summed or any(size != 1 for size in each("size")))
    for k in range(count):
        _check(len(state.array(k).dims) == rank and state.array(count + k).dims == ())
        yield summed.moved(k, tuple(indices))._replace(is_exact=state.is_exact and "pad" not in stated)
        yield summed.moved(count + k, ())


def _follow_contracted(follower: Follower, state: NeededElement, leaf: Leaf) -> Iterator[NeededElement]:
    """Yield the elements that are multiplied, over all values of the dimensions that are summed over.

    The result has the batch dimensions, then the others of the left operand, then those of the right one.
    """
    stated = state.each.attributes
    batch = [integers(stated.get(f"{side}_batch_dims", "{}")) for side in ("lhs", "rhs")]
    over = [integers(stated.get(f"{side}_contracting_dims", "{}")) for side in ("lhs", "rhs")]
    sums = [as_linear(follower.variable(state.array(0).dims[d])) for d in over[0]]
    summed = state._replace(is_summed=state.is_summed or any(state.array(0).dims[d] != 1 for d in over[0]))
    at = len(batch[0])
    found = []
    for k in (0, 1):
        dims = state.array(k).dims
        indices = [ZERO] * len(dims)
        for d, index in (*zip(batch[k], state.indices, strict=False), *zip(over[k], sums, strict=True)):
            indices[d] = index
        free = [d for d in range(len(dims)) if d not in batch[k] and d not in over[k]]
        for d in free:
            _check(leaf.dims[at] == dims[d])
            indices[d] = state.indices[at]
            at += 1
        found.append(summed.moved(k, tuple(indices)))
    _check(at == len(leaf.dims))
    yield from found


RULES: Mapping[Reads, Rule] = {
    Reads.SAME: _follow_same,
    Reads.SAME_BITS: _follow_same_bits,
    Reads.BYTES: _follow_bytes,
    Reads.ROW_MAJOR: _follow_row_major,
    Reads.BROADCAST: _follow_broadcast,
    Reads.TRANSPOSED: _follow_transposed,
    Reads.SLICED: _follow_sliced,
    Reads.REVERSED: _follow_reversed,
    Reads.JOINED: _follow_joined,
    Reads.PADDED: _follow_padded,
    Reads.DYNAMIC_SLICED: _follow_dynamic_sliced,
    Reads.UPDATED: _follow_updated,
    Reads.SCATTERED: _follow_scattered,
    Reads.REDUCED: _follow_reduced,
    Reads.WINDOWED: _follow_windowed,
    Reads.CONTRACTED: _follow_contracted,
}
