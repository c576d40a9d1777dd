"""Plans whose steps make no sense in their order, or write a tensor that they may not write."""

from __future__ import annotations

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Bindings, Shares
from tmmu.examples.broken.editing import edit, laid_out, reordered, right, row, shared, with_accesses
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import skip
from tmmu.examples.broken.sketch import model
from tmmu.plans.sections import Plan


@wrong("lifetimes_cover_accesses")
def steps_reversed() -> Plan:
    """The steps have the opposite order, with every lifetime and writer mirrored."""
    plan, last = right(skip()), 4
    mirrored = {}
    for name in plan.allocation.tensors.name:
        birth, death, writer = (
            int(getattr(plan.allocation.tensors, key)[row(plan, name)]) for key in ("birth", "death", "writer")
        )
        mirrored[name] = {"birth": last - death, "death": last - birth, "writer": last - writer}
        if writer == NONE:  # the caller still writes before the first step
            mirrored[name] |= {"birth": 0, "writer": NONE}
    return laid_out(edit(reordered(plan, range(last, -1, -1)), tensors=mirrored))


@wrong("lifetimes_cover_accesses", "b")
def read_before_it_is_written() -> Plan:
    """The step that makes `c` from `b` precedes the step that makes `b`."""
    plan = reordered(right(skip()), (0, 2, 1, 3, 4))
    return laid_out(edit(plan, tensors={"b": {"writer": 2, "birth": 1}, "c": {"writer": 1, "birth": 1}}))


@wrong("lifetimes_cover_accesses", "ghost")
def read_and_never_written() -> Plan:
    """A step reads the activation `ghost`, which no step writes and which is not an input."""
    return right(model("tensor ghost f32 64\nnode y Add x ghost -> y"))


@wrong("sharing_is_sound", "a")
def written_twice() -> Plan:
    """Two steps write `a`, and the second does not declare that it mutates it."""
    return right(
        model("""
        tensor w f32 4096 parameter
        node a MatMul x w -> a
        node again Relu x -> a
        node y MatMul a w -> y
    """)
    )


@wrong("lifetimes_cover_accesses", "w")
def parameter_changed_without_a_word() -> Plan:
    """A step writes the parameter `w`, which it does not list as mutated."""
    return right(
        model("""
        tensor w f32 64 parameter
        node update Sub w slope -> w
        node y Relu slope -> y
    """)
    )


@wrong("sharing_is_sound", "w")
def parameter_changed_and_not_donated() -> Plan:
    """A step mutates the parameter `w` and declares it, but the caller keeps `w` and expects it unchanged."""
    made = model("""
        tensor w f32 64 parameter donated
        node update Sub w slope -> w changes w
        node y Relu slope -> y
    """)
    return edit(right(made), bindings=Bindings())


@wrong("lifetimes_cover_accesses", "a")
def changed_without_reading_it() -> Plan:
    """A step lists `a` as mutated, but does not read it."""
    return right(
        model("""
        tensor w f32 4096 parameter
        node a MatMul x w -> a
        node change Relu x -> a changes a
        node y MatMul a w -> y
    """)
    )


@wrong("lifetimes_cover_accesses", "r")
def view_made_before_its_base() -> Plan:
    """`v` shows `r`, which only a later step writes; the reader of `v` would find bytes that no step has written."""
    made = model("""
        tensor w f32 4096 parameter
        node a MatMul x w -> a
        node v Reshape a -> v
        node s MatMul v w -> s
        node r MatMul s w -> r
        node y MatMul r w -> y
    """)
    early = edit(shared(right(made), "v", "r", Shares.VIEW), tensors={"r": {"birth": 1}})
    return with_accesses(laid_out(early), reads={1: [row(early, "r")]})


@wrong("sharing_is_sound", "v", "a")
def view_read_after_its_base_was_changed() -> Plan:
    """`v` shows `a`, a step mutates `a`, and `v` is read after that, when its bytes hold another value."""
    made = model("""
        tensor w f32 4096 parameter
        tensor v f32 64 view a 0
        node a MatMul x w -> a
        node v Reshape a -> v
        node r MatMul v w -> r
        node change Relu a -> a changes a
        node y Add r a -> y
    """)
    late = edit(right(made), tensors={"r": {"birth": 3, "writer": 3}, "v": {"death": 3}})
    return laid_out(reordered(late, [0, 1, 3, 2, 4]))
