"""Plans whose steps do not make sense in the order in which they stand, or write what they may not write."""

from __future__ import annotations

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Bindings, Role
from tmmu.examples.broken.editing import edit, laid_out, reordered, right, row
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import skip
from tmmu.examples.broken.sketch import Sketch
from tmmu.plan.sections import Plan


@wrong("lifetimes_cover_accesses")
def steps_reversed() -> Plan:
    """The steps stand in the opposite order, with every lifetime and writer mirrored."""
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
    """The step that makes `c` from `b` stands before the step that makes `b`."""
    plan = reordered(right(skip()), (0, 2, 1, 3, 4))
    return laid_out(edit(plan, tensors={"b": {"writer": 2, "birth": 1}, "c": {"writer": 1, "birth": 1}}))


@wrong("lifetimes_cover_accesses", "ghost")
def read_and_never_written() -> Plan:
    """A step reads the activation `ghost`, which no step writes and the caller does not give."""
    m = Sketch("ghost")
    ghost = m.input("ghost", role=Role.ACTIVATION)
    return right(m.model(m.node("Add", m.input("x"), ghost, result="y")))


@wrong("sharing_is_sound", "a")
def written_twice() -> Plan:
    """Two steps write `a`, and the second does not say that it changes it."""
    m = Sketch("written-twice")
    x, w = m.input("x"), m.weight("w", 4096)
    a = m.node("MatMul", x, w, result="a")
    m.rewrite("Relu", x, result=a, declared=False)
    return right(m.model(m.node("MatMul", a, w, result="y")))


@wrong("lifetimes_cover_accesses", "w")
def parameter_changed_without_a_word() -> Plan:
    """A step writes the parameter `w`, which it does not list as changed."""
    m = Sketch("silent-update")
    w, gradient = m.weight("w"), m.input("gradient")
    m.rewrite("Sub", w, gradient, result=w, declared=False)
    return right(m.model(m.node("Relu", gradient, result="y")))


@wrong("sharing_is_sound", "w")
def parameter_changed_and_not_donated() -> Plan:
    """A step changes the parameter `w` and says so, but the caller keeps `w` and expects it unchanged."""
    m = Sketch("undonated-update")
    w, gradient = m.weight("w"), m.input("gradient")
    m.rewrite("Sub", w, gradient, result=w)
    plan = right(m.model(m.node("Relu", gradient, result="y"), donated=("w",)))
    return edit(plan, bindings=Bindings())


@wrong("lifetimes_cover_accesses", "a")
def changed_without_reading_it() -> Plan:
    """A step lists `a` as changed in place, but does not read it."""
    m = Sketch("unread-update")
    x, w = m.input("x"), m.weight("w", 4096)
    a = m.node("MatMul", x, w, result="a")
    m.rewrite("Relu", x, result=a)
    return right(m.model(m.node("MatMul", a, w, result="y")))


@wrong("sharing_is_sound", "v", "a")
def view_read_after_its_base_was_changed() -> Plan:
    """`v` shows `a`, a step changes `a`, and `v` is read after that, when its bytes are those of another value."""
    m = Sketch("stale-view")
    x, w = m.input("x"), m.weight("w", 4096)
    a = m.node("MatMul", x, w, result="a")
    v = m.node("Reshape", a, result="v", view=(a, 0))
    r = m.node("MatMul", v, w, result="r")
    m.rewrite("Relu", a, result=a)
    plan = right(m.model(m.node("Add", r, a, result="y")))
    late = edit(plan, tensors={"r": {"birth": 3, "writer": 3}, "v": {"death": 3}})
    return laid_out(reordered(late, [0, 1, 3, 2, 4]))
