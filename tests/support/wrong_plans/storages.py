"""Plans whose storages are wrong: they overlap, are misaligned or out of bounds, or do not hold their tensors."""

from __future__ import annotations

from proofs.definition.violations import Obligation
from tests.support.written import Written
from tests.support.wrong_plans.row import arena, group, into, right, storage, tensor, wrong
from tmmu.examples.broken import editing
from tmmu.plans.sections import Plan, amend_plan

CHAIN = "a = MatMul x; y = MatMul a"
"""Three storages of 8 bytes at 0, 16 and 32, in an arena that is aligned to 16."""
LAST = (1 << 64) - 1
NO_BASES = "it does not look at bases"
BASED = arena(base_alignment=32)
BASE = "base alignment of arena"
THREE = "buffer a 8 m 0 live 0 0; buffer b 8 m 8 live 0 0 align 8; buffer c 8 m 32 live 0 0 align 4"


def beyond_the_steps(plan: Plan) -> Plan:
    """Let the last storage live longer than the steps."""
    return editing.changed(plan, "storages", len(plan.allocation.storages) - 1, death=1)


NO_LIVE_OVERLAP = group(
    Obligation.NO_LIVE_OVERLAP,
    wrong("one byte at one step", "buffer a 65 m 0 live 0 3; buffer b 64 m 64 live 3 5", "a b @3 bytes 64-64",
          right="buffer a 64 m 0 live 0 3; buffer b 64 m 64 live 3 5"),
    right("one after the other", "buffer a 64 m 0 live 0 2; buffer b 64 m 0 live 3 5"),
    right("two arenas", "arena m 64; arena k 64; buffer a 64 m 0 live 0 3; buffer b 64 k 0 live 0 3"),
    wrong("the second arena", "arena m 64; arena k 64; buffer a 64 k 0 live 0 3; buffer b 64 k 0 live 0 3", "a b @0"),
    wrong("the very same bytes", "buffer a 8 m 0 live 0 3; buffer b 8 m 0 live 0 3", "a b @0"),
    wrong("one inside of another", "buffer a 100 m 0 live 0 3; buffer b 10 m 10 live 1 1", "a b @1 bytes 10-19"),
    right("of no bytes, inside of another", "buffer a 64 m 0 live 0 3; buffer b 0 m 32 live 0 3"),
    right("both of no bytes", "buffer a 0 m 0 live 0 3; buffer b 0 m 0 live 0 3"),
    wrong("two, one after the other, on a third",
          "buffer a 8 m 0 live 0 5; buffer b 8 m 0 live 1 2; buffer c 8 m 0 live 3 4", "a b @1; a c @3"),
    wrong("a third over the gap between two",
          "buffer a 10 m 0 live 0 3; buffer b 10 m 20 live 0 3; buffer c 20 m 5 live 1 1", "a c @1; b c @1"),
    wrong("only the lower neighbour", "buffer a 10 m 10 live 0 3; buffer b 10 m 30 live 0 3; buffer c 10 m 5 live 1 1",
          "a c @1"),
    wrong("only the upper neighbour", "buffer a 10 m 10 live 0 3; buffer b 10 m 30 live 0 3; buffer c 10 m 35 live 1 1",
          "b c @1"),
    wrong("beyond the arena, and over another", "arena m 64; buffer a 8 m 0 live 0 3; buffer b 8 m 57 live 2 4",
          "capacity: b / b; capacity: b"),
    wrong("at no step together, in an arena that does not reuse",
          "arena k 32 persistent; buffer a 8 k 0 live 0 1; buffer b 8 k 4 live 2 3", "a b bytes 4-7",
          right="arena k 32 persistent; buffer a 8 k 0 live 0 1; buffer b 8 k 8 live 2 3"),
    wrong("at no step together, in an arena that does not reuse, around one of no bytes",
          "arena k 32 persistent; buffer a 8 k 0 live 0 1; buffer n 0 k 4 live 0 1; buffer b 8 k 4 live 2 3",
          "a b bytes 4-7"),
    wrong("storages of steps", CHAIN, "a y @1; sharing: y a @1 / a y", storage("y", offset=16),
          but=storage("y", offset=0)),
    wrong("beside one that dies before it is born", "y = MatMul a b c",
          "within: a; within: a; b c @0; sharing: c b @0; sharing: b c @0 / a; within: a",
          storage("a", birth=1, death=0), storage("c", offset=16)),
)  # fmt: skip

ALIGNMENT = group(
    Obligation.ALIGNMENT,
    wrong("a storage at an odd offset", CHAIN, "a bytes 16-23", storage("a", alignment=32), BASED,
          but=storage("a", alignment=16)),
    wrong("a storage aligned to 3", CHAIN, "x", storage("x", alignment=3)),
    wrong("a storage aligned to 0", CHAIN, "x", storage("x", alignment=0)),
    wrong("an arena that is stricter than its storages", CHAIN, "a", arena(alignment=32)),
    wrong("an arena aligned to 96", "= Wait x", "x / the plan", arena(alignment=96)),
    wrong("an arena aligned to 3 that holds nothing", "arena m 8; arena k 8; tensor x 8 m 0 input", "the plan",
          arena(1, alignment=3), kernel="it only looks at arenas that hold a storage"),
    wrong("a tensor at an odd offset", CHAIN, "a bytes 16-23", tensor("a", alignment=32)),
    wrong("a tensor at an odd byte of a storage that is as strict", "= Wait x v",
          "v bytes 4-11; sharing: v x @0 bytes 4-11; sharing: x v @0 bytes 4-7", into("v", "x", 4),
          storage("x", alignment=8), tensor("v", alignment=8)),
    wrong("a tensor aligned to 6", CHAIN, "x", tensor("x", alignment=6)),
    wrong("a tensor aligned to 0", CHAIN, "x", tensor("x", alignment=0)),
    wrong("a tensor that is stricter than its storage", CHAIN, "x", tensor("x", alignment=4)),
    wrong("a storage and its tensor at an odd offset", CHAIN, "a; a", storage("a", alignment=32), BASED,
          tensor("a", alignment=32)),
    wrong("a base that is stated as less aligned than a storage", CHAIN, f"x {BASE} 16 for 64",
          storage("x", alignment=64), kernel=NO_BASES),
    right("a base that is as aligned as the strictest storage", CHAIN, storage("x", alignment=64),
          arena(base_alignment=64)),
    wrong("a base that is stated as less aligned than a tensor that is not the first of its storage", "= Wait x v",
          f"v {BASE} 16 for 64 / x",
          into("x", "v", 8), storage("v", alignment=64, offset=64), tensor("v", alignment=64),
          kernel=NO_BASES),
    wrong("a base that is stated as less aligned than its arena", CHAIN, f"{BASE} 8 for 16 / the plan",
          arena(base_alignment=8), kernel=NO_BASES),
    wrong("a base aligned to 48", CHAIN, "the plan", arena(base_alignment=48), kernel=NO_BASES),
    wrong("the strictest of three on a base that suits one", f"arena m 99 align 1; {THREE}",
          "b base alignment of m 1 for 8", kernel=NO_BASES, right=f"arena m 99; {THREE}"),
    right("two arenas, with the base of one stated", "arena m 8 base 8; arena k 64; buffer a 8 k 0 live 0 0 align 16"),
    wrong("all aligned to 3, at multiples of 3", "a = MatMul x", "x; a; x; a / x x", arena(alignment=3),
          storage("x", alignment=3), storage("a", alignment=3, offset=18), tensor("x", alignment=3),
          tensor("a", alignment=3)),
)  # fmt: skip

CAPACITY = group(
    Obligation.CAPACITY,
    wrong("an end beyond the arena that is not the last to begin", "a = MatMul x; b = MatMul a; c = MatMul b",
          "c / overlap: c; c", storage("b", offset=4), storage("c", offset=20), arena(alignment=1, capacity=27)),
    wrong("an end beyond the arena", CHAIN, "y bytes 32-39 / overlap: y; y", arena(capacity=39),
          but=arena(capacity=40)),
    wrong("an end beyond 64 bits", CHAIN, "y / overlap: y; y", storage("y", offset=LAST - 15, bytes=32)),
    right("an end at the last address", "a = MatMul x", arena(alignment=8), storage("a", offset=LAST - 15)),
    wrong("no bytes at the end of the arena", Written("a = MatMul x", a=0), "a bytes 16-16", arena(capacity=16),
          kernel="what has no bytes fits wherever the arena ends", but=arena(capacity=17)),
    wrong("scattered, an end beyond 64 bits", CHAIN, "a", arena(scattered=True, alignment=1),
          storage("a", offset=LAST - 4), but=arena(scattered=True)),
    right("scattered beyond the capacity", CHAIN, arena(scattered=True, capacity=24), storage("a", offset=LAST - 15)),
    wrong("scattered, more bytes than the capacity", CHAIN, "y / x", arena(scattered=True, capacity=23),
          kernel="it adds up no footprint that is not claimed", but=arena(scattered=True, capacity=24)),
)  # fmt: skip

TENSORS_WITHIN_STORAGES = group(
    Obligation.TENSORS_WITHIN_STORAGES,
    wrong("a storage that lives beyond the steps", CHAIN, "a / overlap: x a; a", storage("a", death=2)),
    wrong("a storage that dies before it is born", CHAIN, "x; x / overlap: x; x", storage("x", birth=1, death=0)),
    wrong("a storage without tensors beyond the steps", "= Wait x u", "storage 1 / overlap: x storage 1; storage 1",
          into("u", "x", 8), beyond_the_steps),
    wrong("a tensor that begins too late", CHAIN, "x", tensor("x", window=1)),
    right("a tensor inside of a larger storage", CHAIN, storage("x", bytes=16), tensor("x", window=8)),
    right("a storage without tensors", "= Wait x u", into("u", "x", 8)),
    wrong("a tensor that is too large", CHAIN, "x", tensor("x", bytes=9)),
    wrong("a window and a size that wrap", CHAIN, "a", tensor("a", window=LAST - 3)),
    wrong("a tensor that is born before its storage", CHAIN, "y", tensor("y", birth=0)),
    wrong("a tensor that dies after its storage", CHAIN, "a", storage("a", death=0)),
    wrong("a tensor that dies before it is born", CHAIN, "a; lifetimes: a @0; lifetimes: a @1",
          tensor("a", birth=1, death=0)),
)  # fmt: skip

MUST_NOT_ALIAS = group(
    Obligation.MUST_NOT_ALIAS,
    wrong("buffers that live one after the other must not alias",
          "apart a b; buffer a 8 m 0 live 0 1; buffer b 8 m 4 live 2 3", "a b bytes 4-7",
          right="apart a b; buffer a 8 m 0 live 0 1; buffer b 8 m 8 live 2 3"),
    right("two arenas", "arena m 8; arena k 8; apart a b; buffer a 8 m 0 live 0 1; buffer b 8 k 0 live 2 3"),
    right("of no bytes", "apart a b; buffer a 8 m 0 live 0 1; buffer b 0 m 4 live 2 3"),
    wrong("tensors",
          "apart x b; tensor x 8 m 0 input; tensor a 8 m 8; tensor b 8 m 0; step s MatMul x -> a; step t MatMul a -> b",
          "x b"),
    wrong("a tensor and itself", CHAIN, "x x", lambda plan: amend_plan(plan, must_not_alias=((0, 0),))),
    right("a tensor of no bytes and itself", Written(CHAIN, x=0),
        lambda plan: amend_plan(plan, must_not_alias=((0, 0),))),
)  # fmt: skip
