"""The pool with generations: `tla/foundry/PoolGenerations.tla` for any chunks, handles, commands, leases and resets.

The chunk, first byte, number of bytes and generation of a handle never change; `given` holds of those given out. A
request takes any chunk with room, and a new chunk may have any size: no clause depends on these choices or on the order
of commands. `pending` counts the commands that access a handle and are submitted, but not completed. spec: V4.9, FD9.2
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World


def _byte(handle: str, byte: str) -> str:
    """Return the formula that the byte of its chunk is one of the handle."""
    return f"(<= (first {handle}) {byte}) (< {byte} (+ (first {handle}) (bytes {handle})))"


def _current(handle: str) -> str:
    """Return the formula that the handle was given out in the current generation."""
    return f"(given {handle}) (= (of {handle}) generation)"


_NEW = """(any x Handle) (not (given x)) (distinct x none) (= (of x) generation) (<= 0 (bytes x))
(set (given x) true)"""
_IDLE = "(forall ((h Handle)) (and (= 0 (leased h)) (= 0 (pending h))))"
_KEEPS = f"""(gives (forall ((h Handle) (b Int)) (=> (and {_current("h")} {_byte("h", "b")} (= h (content (chunk h) b)))
  (= h (content' (chunk h) b)))))"""
_COUNTED = "(set (pending ?h) (ite (accesses ?h) ({} (pending ?h) 1) (pending ?h)))"

MACHINE = Machine(
    "pool_generations",
    "Handles of the current generation share no byte and are in bounds, and every held handle is of the current"
    " generation.",
    """
    (declare-sort Handle 0)(declare-const none Handle)
    (declare-fun chunk (Handle) Int)(declare-fun first (Handle) Int)(declare-fun bytes (Handle) Int)
    (declare-fun of (Handle) Int)(declare-const last Int)""",
    """(given (Handle) Bool) (cursor (Int) Int) (room (Int) Int) (content (Int Int) Handle) (generation () Int)
    (opened () Int) (leased (Handle) Int) (pending (Handle) Int)""",
    MachineRule(
        "Init",
        "No chunk is open, no handle was given out and nothing is written.",
        """
        (forall ((h Handle)) (and (not (given h)) (= 0 (leased h)) (= 0 (pending h)))) (= generation 0) (= opened 0)
        (forall ((c Int) (b Int)) (= none (content c b)))""",
        (Mutant("something is written", "(= none (content c b))", "(distinct none (content c b))"),),
    ),
    f"""
    ; A handle that was given out is of a generation that has been.
    (forall ((h Handle)) (=> (given h) (and (distinct h none) (<= (of h) generation))))
    ; Chunks are counted, and an open one is given out up to its cursor, and no further than it reaches.
    (<= 0 opened)
    (forall ((c Int)) (=> (and (<= 0 c) (< c opened)) (and (<= 0 (cursor c)) (<= (cursor c) (room c)))))
    ; InBounds: a current handle lies within what was given out of its chunk.
    (forall ((h Handle)) (=> (and {_current('h')}) (and (<= 0 (chunk h)) (< (chunk h) opened) (<= 0 (first h))
      (<= (+ (first h) (bytes h)) (cursor (chunk h))))))
    ; CurrentAreDisjoint: current handles share no byte.
    (forall ((g Handle) (h Handle)) (=> (and {_current('g')} {_current('h')} (distinct g h) (= (chunk g) (chunk h)))
      (or (<= (+ (first g) (bytes g)) (first h)) (<= (+ (first h) (bytes h)) (first g)))))
    ; HeldAreCurrent: what is leased, or to be accessed by a command, is a current handle.
    (forall ((h Handle)) (and (<= 0 (leased h)) (<= 0 (pending h))))
    (forall ((h Handle)) (=> (or (< 0 (leased h)) (< 0 (pending h))) (and {_current('h')})))
    ; A byte was written through a handle that was given out, or never.
    (forall ((c Int) (b Int)) (or (= none (content c b)) (given (content c b))))
    ; Where one byte of a current handle was written through it, all were.
    (forall ((h Handle) (a Int) (b Int)) (=> (and {_current('h')} {_byte("h", "a")} {_byte("h", "b")}
      (= h (content (chunk h) a))) (= h (content (chunk h) b))))""",
    (
        MachineRule(
            "Take",
            "A handle begins at the cursor of an open chunk with room for it.",
            f"""{_NEW} (<= 0 (chunk x)) (< (chunk x) opened) (= (first x) (cursor (chunk x)))
            (<= (+ (first x) (bytes x)) (room (chunk x))) (set (cursor (chunk x)) (+ (first x) (bytes x)))""",
            (Without("the cursor stays", "(set (cursor"), Without("room is not asked for", "(room (chunk x))"),
             Mutant("the handle begins anywhere", "(= (first x) (cursor (chunk x)))", "(<= 0 (first x))")),
        ),
        MachineRule(
            "Grow",
            "A handle begins a chunk that is opened for it and is large enough.",
            f"""{_NEW} (any size Int) (= (chunk x) opened) (= (first x) 0) (<= (bytes x) size)
            (set opened (+ opened 1)) (set (room opened) size) (set (cursor opened) (bytes x))""",
            (Without("a chunk that is too small", "(<= (bytes x) size)"),
             Without("the chunk is not counted", "(set opened (+ opened 1))")),
        ),
        MachineRule(
            "Submit",
            "A command is submitted that accesses only current handles.",
            f"""(any accesses (Handle) Bool) (forall ((h Handle)) (=> (accesses h) (and {_current('h')})))
            {_COUNTED.format("+")}""",
            (Mutant("a stale handle is accessed", "(= (of h) generation)", "(<= (of h) generation)"),),
        ),
        MachineRule(
            "Complete",
            "A submitted command writes some of the handles that it accesses, and is then no longer submitted.",
            f"""(any accesses (Handle) Bool) (any writer (Int Int) Handle)
            (forall ((h Handle)) (=> (accesses h) (< 0 (pending h))))
            (forall ((c Int) (b Int)) (=> (distinct none (writer c b)) (and (accesses (writer c b))
              (= c (chunk (writer c b))) {_byte("(writer c b)", "b")})))
            (forall ((h Handle) (a Int) (b Int)) (=> (and (accesses h) {_byte("h", "a")} {_byte("h", "b")}
              (= h (writer (chunk h) a))) (= h (writer (chunk h) b))))
            {_COUNTED.format("-")}
            (set (content ?c ?b) (ite (= none (writer ?c ?b)) (content ?c ?b) (writer ?c ?b))) {_KEEPS}""",
            (Mutant("of handles that it does not hold", "(< 0 (pending h))", "(<= 0 (pending h))"),
             Mutant("beyond its bytes", f"(= c (chunk (writer c b))) {_byte('(writer c b)', 'b')}",
                    "(= c (chunk (writer c b)))")),
            module=("Complete", "Fail"),
        ),
        MachineRule(
            "Lease",
            "A current handle is leased.",
            f"(any x Handle) {_current('x')} (set (leased x) (+ (leased x) 1))",
            (Without("a stale handle is leased", "(= (of x) generation)"),),
        ),
        MachineRule(
            "Return",
            "A lease ends.",
            "(any x Handle) (< 0 (leased x)) (set (leased x) (- (leased x) 1))",
            (Without("no lease", "(< 0 (leased x))"),),
        ),
        MachineRule(
            "Write",
            "A write through a lease into its handle's own bytes changes no byte of another current handle.",
            f"""(any x Handle) (< 0 (leased x))
            (set (content ?c ?b) (ite (and (= ?c (chunk x)) {_byte("x", "?b")}) x (content ?c ?b))) {_KEEPS}""",
            (Mutant("a lease that has ended", "(< 0 (leased x))", "(given x)"),
             Mutant("beyond its bytes", f"(and (= ?c (chunk x)) {_byte('x', '?b')})", "(= ?c (chunk x))")),
        ),
        MachineRule(
            "Reset",
            "If nothing is held and the generation is not the last, chunks are emptied and the generation is raised.",
            f"""{_IDLE} (< generation last)
            (any cursor') (forall ((c Int)) (=> (and (<= 0 c) (< c opened)) (= (cursor' c) 0)))
            (set generation (+ generation 1))""",
            (Without("the generation is not raised", "(set generation"),
             Mutant("the generation falls", "(+ generation 1)", "(- generation 1)"),
             Mutant("leases are not waited for", "(= 0 (leased h))", "(<= 0 (leased h))"),
             Mutant("commands are not waited for", "(= 0 (pending h))", "(<= 0 (pending h))"),
             Mutant("it wraps", "(+ generation 1)", "(ite (< (+ generation 1) last) (+ generation 1) 0)")),
        ),
    ),
    World({"Handle": 3}, -1, 2),
    promises=(
        MachineRule(
            "a_read_finds_what_was_written_through_its_handle",
            "If a byte was written through a handle that is leased, or that a command is to access, the handle finds"
            " only bytes that were written through it.",
            f"""(any x Handle) (or (< 0 (leased x)) (< 0 (pending x))) (any byte Int) (and {_byte("x", "byte")})
            (= x (content (chunk x) byte))
            (gives (forall ((b Int)) (=> (and {_byte("x", "b")}) (= x (content (chunk x) b)))))""",
            (Mutant("a handle that is not held", "(or (< 0 (leased x)) (< 0 (pending x)))", "(given x)"),),
        ),
        MachineRule(
            "a_refused_handle_is_of_an_earlier_generation",
            "A handle whose generation is not the pool's is of an earlier one.",
            "(any x Handle) (given x) (distinct generation (of x)) (gives (< (of x) generation))",
            (Without("a handle that was never given out", "(given x)"),),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
