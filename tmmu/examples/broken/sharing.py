"""Plans in which tensors share bytes illegally: in place, as a view, in an alias group, or undeclared.

In each of them lifetimes, storages and addresses are consistent with one another; only running the steps shows that
some read does not find the value that was written for it.
"""

from __future__ import annotations

from tmmu.core.vocabulary import Shares
from tmmu.examples.broken.editing import edit, in_place, laid_out, right, row, shared, storage_of
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import ONE_ARENA, first_reader, once_read, skip, twice_read
from tmmu.examples.broken.sketch import model
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan


@wrong("sharing_is_sound", "a", "r")
def in_place_read_later() -> Plan:
    """`r` takes the bytes of `a` in place, but a later step reads `a`."""
    return in_place(right(twice_read()), "r", "a")


@wrong("sharing_is_sound", "v", "r")
def in_place_while_its_view_is_read_later() -> Plan:
    """`r` takes the bytes of `a` in place; no step reads `a` later, but one reads its view `v`."""
    made = model("""
        tensor w f32 4096 parameter
        tensor v f32 64 view a 0
        node a MatMul x w -> a
        node v Flatten a -> v
        node r Relu a -> r
        node y MatMul r v -> y
    """)
    return in_place(right(made), "r", "a")


@wrong("sharing_is_sound", "a", "r")
def in_place_twice() -> Plan:
    """Two steps each take the bytes of `a` in place; the second reads the result of the first."""
    made = model("""
        tensor w f32 4096 parameter
        node a MatMul x w -> a
        node r Relu a -> r
        node s Neg a -> s
        node y MatMul r s -> y
    """)
    return in_place(in_place(right(made), "r", "a"), "s", "a")


@wrong("sharing_is_sound", "r", "a")
def matrix_product_in_place() -> Plan:
    """A MatMul writes its result over its operand, but needs each element of it for a whole row of the result."""
    return in_place(right(once_read("MatMul")), "r", "a")


@wrong("sharing_is_sound", "r", "a")
def softmax_in_place() -> Plan:
    """A Softmax is declared to work in place, but every element of its result depends on the whole row."""
    return in_place(right(once_read("Softmax")), "r", "a")


@wrong("sharing_is_sound", "r", "a")
def running_sum_in_place() -> Plan:
    """A CumSum is declared to work in place, but it reads elements before the one that it writes."""
    return in_place(right(once_read("CumSum")), "r", "a")


@wrong("sharing_is_sound", "y", "s")
def broadcast_in_place() -> Plan:
    """A sum of 64 elements takes the bytes of the single element `s` that is added to each of them."""
    made = model("""
        tensor w f32 4096 parameter
        tensor s f32 1
        node a MatMul x w -> a
        node s ReduceMax a -> s
        node y Add a s -> y
    """)
    return in_place(right(made), "y", "s")


@wrong("sharing_is_sound", "r", "a")
def in_place_of_another_width() -> Plan:
    """A Cast to float16 takes the first half of the bytes of its float32 operand, whose elements are wider."""
    return in_place(right(once_read("Cast", "f16 64")), "r", "a")


@wrong("sharing_is_sound", "r", "a")
def in_place_shifted() -> Plan:
    """`r` is one element after its operand `a`, so each written element destroys the next one."""
    return shared(right(once_read("Relu")), "r", "a", Shares.IN_PLACE, window=4)


@wrong("sharing_is_sound", "r", "a")
def in_place_undeclared() -> Plan:
    """`r` has the bytes of its operand `a`, but the plan does not declare that it is in place."""
    return shared(right(once_read("Relu")), "r", "a", Shares.NONE)


@wrong("sharing_is_sound", "r", "a")
def in_place_beside_a_view_of_the_operand() -> Plan:
    """`r` takes the bytes of its operand `a`, and its other operand `f` is a view of the same bytes."""
    made = model("""
        tensor w f32 4096 parameter
        tensor f f32 64 view a 0
        node a MatMul x w -> a
        node f Flatten a -> f
        node r Sub a f -> r
        node y MatMul r w -> y
    """)
    return in_place(right(made), "r", "a")


@wrong("sharing_is_sound", "r", "given")
def in_place_on_an_input() -> Plan:
    """`r` takes the bytes of a graph input that the caller has not donated."""
    return in_place(right(first_reader("input")), "r", "given")


@wrong("sharing_is_sound", "r", "given")
def donation_claimed_by_the_plan() -> Plan:
    """The plan states that the caller donates the input whose bytes `r` takes, which only the caller can state."""
    return right(first_reader("input donated"))


@wrong("sharing_is_sound", "r", "given")
def in_place_on_a_parameter() -> Plan:
    """`r` takes the bytes of a parameter, which the next run needs."""
    return in_place(right(first_reader("parameter"), arenas=ONE_ARENA), "r", "given")


@wrong("sharing_is_sound", "r", "given")
def in_place_on_optimizer_state() -> Plan:
    """`r` takes the bytes of optimizer state, which the next iteration needs."""
    return in_place(right(first_reader("optimizer"), arenas=ONE_ARENA), "r", "given")


@wrong("sharing_is_sound", "a", "r")
def in_place_on_an_output() -> Plan:
    """`r` takes the bytes of `a`, which no step reads later, but the caller does."""
    made = model("""
        tensor w f32 4096 parameter
        tensor a f32 64 output
        node a MatMul x w -> a
        node r Relu a -> r
        node y MatMul r w -> y
    """)
    return in_place(right(made), "r", "a")


@wrong("sharing_is_sound", "r", "a")
def view_at_another_window() -> Plan:
    """The Reshape `r` begins 64 bytes after its base `a`, and shows bytes of an earlier tensor."""
    return shared(right(once_read("Reshape")), "r", "a", Shares.VIEW, window=64)


@wrong("sharing_is_sound", "r", "a")
def view_beside_its_base() -> Plan:
    """`r` is declared a view of `a`, so its step writes nothing, but has separate bytes."""
    plan = right(once_read("Reshape"))
    return edit(plan, tensors={"r": {"shares": SHARES.index(Shares.VIEW), "of": row(plan, "a")}})


@wrong("sharing_is_sound", "v", "b")
def view_of_an_overwritten_base() -> Plan:
    """`b` has the bytes of `a`, which is dead except for its view `v`; a later step reads `v`."""
    made = model("""
        tensor w f32 4096 parameter
        tensor v f32 64 view a 0
        node a MatMul x w -> a
        node v Reshape a -> v
        node b MatMul x w -> b
        node y Add b v -> y
    """)
    return shared(right(made), "b", "a", Shares.ALIAS)


@wrong("sharing_is_sound", "r", "a")
def in_place_elsewhere() -> Plan:
    """`r` is stated to be in place of `a`, which a later step reads, but has separate bytes."""
    plan = right(twice_read())
    return edit(plan, tensors={"r": {"shares": SHARES.index(Shares.IN_PLACE), "of": row(plan, "a")}})


@wrong("sharing_is_sound", "d", "a")
def alias_elsewhere() -> Plan:
    """`d` is stated to be an alias of `a`, but has separate bytes."""
    plan = right(skip())
    return edit(plan, tensors={"d": {"shares": SHARES.index(Shares.ALIAS), "of": row(plan, "a")}})


@wrong("sharing_is_sound", "v", "a")
def view_without_reading_its_base() -> Plan:
    """`v` is stated to be a view of the dead `a` and has its bytes, but the step that makes `v` does not read `a`."""
    made = model("""
        tensor w f32 4096 parameter
        node a MatMul x w -> a
        node b MatMul a w -> b
        node v maker::Cut b -> v
        node y MatMul v w -> y
    """)
    return shared(right(made), "v", "a", Shares.VIEW)


@wrong("sharing_is_sound", "r", "a")
def transpose_called_a_view() -> Plan:
    """A Transpose is declared a view of its operand, although its elements have another order."""
    return shared(right(once_read("Transpose")), "r", "a", Shares.VIEW)


@wrong("sharing_is_sound", "r", "a")
def view_larger_than_its_base() -> Plan:
    """A Reshape of a tensor of 64 elements is declared to show 128 of them."""
    return shared(right(once_read("Reshape", "f32 128")), "r", "a", Shares.VIEW)


@wrong("sharing_is_sound", "r", "a")
def dropout_of_training_called_a_view() -> Plan:
    """In a plan for training, a Dropout with a training_mode operand is declared a view of its operand."""
    made = model("""
        tensor w f32 4096 parameter
        tensor ratio f32 1 parameter
        tensor training bool 1 input
        tensor mask bool 4096
        node a MatMul x w -> a
        node r Dropout a ratio training -> r mask
        node y MatMul r w -> y
    """)
    return shared(right(made, mode="forward"), "r", "a", Shares.VIEW)


@wrong("sharing_is_sound", "left", "right")
def two_results_on_the_same_bytes() -> Plan:
    """Both results of a Split have the same bytes."""
    made = model("""
        tensor x f32 128 input
        node split Split x -> left right
        node y Add left right -> y
    """)
    return shared(right(made), "right", "left", Shares.ALIAS)


@wrong("sharing_is_sound", "a", "b")
def alias_group_with_a_stale_read() -> Plan:
    """`a` and `b` are declared to share bytes, but `a` is read after `b` was written."""
    return right(
        model("""
        tensor w f32 4096 parameter
        alias g a b
        node a MatMul x w -> a
        node b MatMul x w -> b
        node y Add b a -> y
    """)
    )


@wrong("sharing_is_sound")
def every_tensor_in_one_storage() -> Plan:
    """All activations are declared aliases in one storage, which satisfies every rule about storages."""
    plan = right(skip())
    word = {"storage": storage_of(plan, "x"), "shares": SHARES.index(Shares.ALIAS), "of": row(plan, "x")}
    return laid_out(edit(plan, tensors=dict.fromkeys(("a", "b", "c", "d", "y"), word)))


@wrong("sharing_is_sound", "r.scratch0", "a")
def scratch_over_an_operand() -> Plan:
    """The scratch bytes of a step are those of its operand."""
    made = model("""
        tensor w f32 4096 parameter
        node a MatMul x w -> a
        node r MatMul a w -> r scratch 256
        node y MatMul r w -> y
    """)
    return shared(right(made), "r.scratch0", "a", Shares.NONE)


@wrong("sharing_is_sound", "r.scratch0", "r")
def scratch_over_the_result() -> Plan:
    """The scratch bytes of a step are those of its result."""
    made = model("""
        tensor w f32 4096 parameter
        node r MatMul x w -> r scratch 256
        node y MatMul r w -> y
    """)
    return shared(right(made), "r.scratch0", "r", Shares.NONE)


@wrong("must_not_alias", "b", "d")
def must_not_alias_and_does() -> Plan:
    """`b` and `d` must never have a byte in common, but share one slot, one after the other."""
    plan = right(skip())
    return edit(plan, must_not_alias=((row(plan, "b"), row(plan, "d")),), usage={"activations": {"minimal": False}})
