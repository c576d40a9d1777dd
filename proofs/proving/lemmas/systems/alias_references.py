"""Reference counts of aliases: `tla/tmmu/AliasReferences.tla` for any tensors, storages and lifetimes.

The static lifetime of a storage, from the first birth to the last death of its members, covers every moment when its
count is not zero. The witnesses number the living members of each storage from 1 to its count, so that counts are the
numbers of living members. `free` represents the holder of bytes that belong to no storage.
spec: T2.1, T3.4, T3.6, V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_ALL_LIVE = "(forall ((t Tensor)) (=> (live t) (<= now (death t))))"
_AVAILABLE = "(or (= free holder) (= holder (home x)))"
_LAST = "(member (home x) (count (home x)))"

MACHINE = Machine(
    "alias_references",
    "Bytes are freed exactly if no member lives, every living member finds its own, and none that is saved or read"
    " later is overwritten.",
    """
    (declare-sort Tensor 0)(declare-sort Storage 0)(declare-const free Storage)
    (declare-fun birth (Tensor) Int)(declare-fun death (Tensor) Int)
    (declare-fun home (Tensor) Storage)(declare-fun saved (Tensor) Bool)""",
    """
    (live (Tensor) Bool) (count (Storage) Int) (changed (Tensor) Bool) (now () Int) (holder () Storage)
    (place (Tensor) Int) (member (Storage Int) Tensor)""",
    MachineRule(
        "Init",
        "No tensor lives, all counts are zero, and the bytes are free.",
        """
        (= holder free) (forall ((t Tensor)) (not (live t))) (forall ((t Tensor)) (not (changed t)))
        (forall ((s Storage)) (= 0 (count s)))""",
        (Mutant("a count begins at one", "(= 0 (count s))", "(= 1 (count s))"),
         Without("the bytes belong to a storage", "(= holder free)")),
    ),
    """
    ; CountsMembers: the living members of each storage are numbered from 1 to its count.
    (forall ((s Storage)) (<= 0 (count s)))
    (forall ((t Tensor)) (=> (live t)
      (and (<= 1 (place t)) (<= (place t) (count (home t))) (= t (member (home t) (place t))))))
    (forall ((s Storage) (k Int)) (=> (and (<= 1 k) (<= k (count s)))
      (and (live (member s k)) (= s (home (member s k))) (= k (place (member s k))))))
    (forall ((s Storage)) (=> (< 0 (count s)) (and (live (member s 1)) (= s (home (member s 1))))))
    ; FreeAtZero: the bytes are free exactly where all counts are zero.
    (= (= free holder) (forall ((s Storage)) (= 0 (count s))))
    ; LiveIsKept: a living tensor finds its own storage's bytes.
    (forall ((t Tensor)) (=> (live t) (= holder (home t))))
    ; StaticCovers: what lives was born by now, and dies no earlier than one step ago.
    (forall ((t Tensor)) (=> (live t) (and (<= (birth t) now) (<= now (+ (death t) 1)))))
    ; SavedIsKept: what backward reads was not written over.
    (forall ((t Tensor)) (=> (changed t) (not (saved t))))
    ; SharedIsKept: nor what another member shows later.
    (forall ((t Tensor) (u Tensor)) (=> (and (changed t) (= (home t) (home u))) (<= (death u) (death t))))""",
    (
        MachineRule(
            "Make",
            "A member is made, if the bytes are free or its storage's.",
            f"""(any x Tensor) {_AVAILABLE} (= now (birth x)) (not (live x))
            (set holder (home x)) (set (live x) true) (set (count (home x)) (+ (count (home x)) 1))
            (set (place x) (+ (count (home x)) 1)) (set (member (home x) (+ (count (home x)) 1)) x)""",
            (Without("whichever storage has the bytes", _AVAILABLE),
             Without("views are not counted", "(set (count (home x))")),
        ),
        MachineRule(
            "Die",
            "A member dies and is counted down; the bytes are freed with the last one.",
            f"""(any x Tensor) (live x) (< (death x) now)
            (set (live x) false) (set (count (home x)) (- (count (home x)) 1))
            (set holder (ite (= 1 (count (home x))) free holder))
            (set (place {_LAST}) (place x)) (set (member (home x) (place x)) {_LAST})""",
            (Mutant("freed with the first", "(ite (= 1 (count (home x))) free holder)", "free"),
             Without("never freed", "(set holder")),
        ),
        MachineRule(
            "WriteOver",
            "A result is written over a member that is not saved, if no member is read later.",
            """(any x Tensor) (live x) (= now (death x)) (not (saved x))
            (forall ((t Tensor)) (=> (= (home t) (home x)) (<= (death t) now)))
            (set (changed x) true)""",
            (Without("a saved one", "(not (saved x))"),
             Mutant("a count of one will do", "(forall ((t Tensor)) (=> (= (home t) (home x)) (<= (death t) now)))",
                    "(= 1 (count (home x)))")),
        ),
        MachineRule(
            "Proceed",
            "The next step begins, if every tensor that died before this one is counted down.",
            f"{_ALL_LIVE} (set now (+ now 1))",
            (Without("dead tensors are still counted", _ALL_LIVE),),
        ),
    ),
    World({"Tensor": 3, "Storage": 3}, 0, 3),
    assumed="(forall ((t Tensor)) (and (distinct free (home t)) (<= (birth t) (death t))))",
    step="""
    ; Bytes are free between two storages that have them.
    (or (= holder' holder) (= free holder) (= free holder'))""",
    promises=(
        MachineRule(
            "a_tensor_that_is_made_finds_its_bytes_available",
            "Once dead tensors are counted down, a member that is made at its birth finds the bytes free or its"
            " storage's, under every accepted plan: a plan needs no counts.",
            f"""(any x Tensor) (= now (birth x)) {_ALL_LIVE}
            ; accepted: of two storages with the same bytes one at most lives at this step, from first birth to last
            ; death
            (forall ((t Tensor) (u Tensor) (v Tensor) (w Tensor)) (=> (and (= (home t) (home u)) (= (home v) (home w))
              (distinct (home t) (home v)) (<= (birth t) now) (<= now (death u)) (<= (birth v) now)) (< (death w) now)))
            (gives {_AVAILABLE})""",
            (Without("dead tensors are still counted", _ALL_LIVE),
             Without("storages that live at one step", "(v Tensor)"),
             Mutant("a storage dies with its first member", "(<= now (death u))", "(< now (death t))")),
        ),
        MachineRule(
            "a_count_that_is_not_zero_is_covered",
            "If a count is not zero and dead tensors are counted down, the step is between the birth of one member and"
            " the death of one.",
            f"""(any x Storage) {_ALL_LIVE} (distinct 0 (count x))
            (gives (exists ((t Tensor) (u Tensor))
              (and (= x (home t)) (= x (home u)) (<= (birth t) now) (<= now (death u)))))""",
            (Without("dead tensors are still counted", _ALL_LIVE),
             Mutant("half-open lifetimes", "(<= now (death u))", "(< now (death u))")),
        ),
    ),
    witnesses=("place", "member"),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
