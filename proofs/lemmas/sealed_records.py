"""Sealed records: what `tla/mnemosyne/SealedRecords.tla` says, for any files, writers, records and attacks.

A file is opened for writing once, under a key of its own salt; what an attacker can do is stronger here than there: any
records that lie on any disk may be put at any places, all at once. A record tells what it binds: its salt (the file),
its place and its token. spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World
from proofs.lemmas.transitions import State, all_of, assumed

_STATE = State(
    {
        "opened": (("File",), "Bool"), "writing": (("File",), "Bool"), "closed": (("File",), "Bool"),
        "length": (("File",), "Int"), "written": (("File", "Int"), "Token"), "trailer": (("File",), "Int"),
        "count": (("File",), "Int"), "disk": (("File", "Int"), "Record"), "used": (("Key", "Prefix", "Int"), "Bool"),
    },
)  # fmt: skip
_SORTS = """
(declare-sort File 0)(declare-sort Key 0)(declare-sort Prefix 0)(declare-sort Token 0)(declare-sort Record 0)
(declare-fun key (File) Key)(declare-fun prefix (File) Prefix)
(declare-fun salt (Record) File)(declare-fun place (Record) Int)(declare-fun token (Record) Token)
"""
_KEYS_DIFFER = "(forall ((f File) (g File)) (=> (= (key f) (key g)) (= f g)))"
"""No salt is drawn twice."""


def invariant(s: str) -> tuple[str, ...]:
    """The clauses that hold of the state with suffix `s`, each with its meaning before it."""
    return (
        # What is written or closed was opened, and what is closed is written no more.
        f"(forall ((f File)) (=> (or (writing{s} f) (closed{s} f)) (opened{s} f)))",
        f"(forall ((f File)) (not (and (writing{s} f) (closed{s} f))))",
        f"(forall ((f File)) (<= 0 (length{s} f)))",
        f"(forall ((f File)) (or (opened{s} f) (= 0 (length{s} f))))",
        # A trailer is sealed where a file is closed, and only there: an attacker cannot make one.
        f"(forall ((f File)) (= (trailer{s} f) (ite (closed{s} f) (length{s} f) (- 1))))",
        # Whatever lies on a disk was sealed as what it says.
        f"(forall ((f File) (i Int)) (=> (and (<= 1 i) (<= i (count{s} f))) (and (<= 1 (place (disk{s} f i)))"
        f" (<= (place (disk{s} f i)) (length{s} (salt (disk{s} f i))))"
        f" (= (token (disk{s} f i)) (written{s} (salt (disk{s} f i)) (place (disk{s} f i)))))))",
        # The vectors that were used under a file's key are those of its records.
        f"(forall ((f File) (v Prefix) (i Int)) (=> (used{s} (key f) v i) (<= i (length{s} f))))",
    )


_OPENS = "(and (= f (salt (disk1 f i))) (= i (place (disk1 f i))))"
_ONE = _SORTS + _STATE.declared("0") + _STATE.declared("1") + "(declare-const x File)"
_SEAL = _ONE + "(declare-const t Token)(declare-const r Record)"
_AFTER = all_of(invariant("1"))
_WORLD = World({"File": 2, "Key": 2, "Prefix": 1, "Token": 2, "Record": 3}, -1, 2)
_NEXT = "(+ (length0 x) 1)"
_USES = _STATE.becomes("used", ("(key x)", "(prefix x)", _NEXT), "true")
_LENGTHENS = _STATE.becomes("length", ("x",), _NEXT)
_BINDS = ("(= (salt r) x)", f"(= (place r) {_NEXT})", "(= (token r) t)")
_ENDS = _STATE.becomes("writing", ("x",), "false")
_TRAILER = _STATE.becomes("trailer", ("x",), "(length0 x)")
_KNOWN = (
    "(forall ((i Int)) (=> (and (<= 1 i) (<= i (count1 x))) (and (<= 1 (from i)) (<= (from i) (count0 (of i)))"
    " (= (disk1 x i) (disk0 (of i) (from i))))))"
)
_ELSEWHERE = "(forall ((f File) (i Int)) (=> (distinct f x) (= (disk1 f i) (disk0 f i))))"

STATEMENTS = (
    Statement(
        "records_begin_right",
        "Where no file was opened and no vector used, the invariant holds.",
        _SORTS + _STATE.declared("1"),
        ("(forall ((f File)) (and (not (opened1 f)) (not (writing1 f)) (not (closed1 f)) (= 0 (length1 f))"
         " (= 0 (count1 f)) (= (- 1) (trailer1 f))))",
         "(forall ((k Key) (v Prefix) (i Int)) (not (used1 k v i)))"),
        _AFTER,
        (Mutant("a trailer of nobody", "(= (- 1) (trailer1 f))", "(= 0 (trailer1 f))"),),
        _WORLD,
    ),
    Statement(
        "opening_a_file_keeps_the_records",
        "A file that is opened for the first time, by any writer, keeps the invariant.",
        _ONE,
        (*invariant("0"), "(not (opened0 x))", _STATE.becomes("opened", ("x",), "true"),
         _STATE.becomes("writing", ("x",), "true"), *_STATE.others("opened", "writing")),
        _AFTER,
        (Mutant("opened a second time", "(assume (not (opened0 x)))", ""),),
        _WORLD,
    ),
    Statement(
        "sealing_a_record_keeps_the_records",
        "A record that is sealed with its file's salt and its place, under the next vector, keeps the invariant.",
        _SEAL,
        (*invariant("0"), _KEYS_DIFFER, "(writing0 x)", *_BINDS, _USES, _LENGTHENS,
         _STATE.becomes("written", ("x", _NEXT), "t"), _STATE.becomes("count", ("x",), "(+ (count0 x) 1)"),
         _STATE.becomes("disk", ("x", "(+ (count0 x) 1)"), "r"),
         *_STATE.others("used", "length", "written", "count", "disk")),
        _AFTER,
        (Mutant("a salt that comes twice", assumed(_KEYS_DIFFER), ""),
         Mutant("the counter is forgotten", _LENGTHENS, _STATE.same("length")[0]),
         Mutant("another place is bound", assumed(_BINDS[1]), ""),
         Mutant("a file that was closed", "(assume (writing0 x))", "")),
        _WORLD,
    ),
    Statement(
        "no_pair_is_used_twice",
        "By the invariant, the next vector of a file was never used under its key, whatever prefixes were drawn.",
        _SORTS + _STATE.declared("0") + "(declare-const x File)",
        (*invariant("0"), "(writing0 x)"),
        f"(not (used0 (key x) (prefix x) {_NEXT}))",
        (Mutant("the counter stands", f"(prefix x) {_NEXT}", "(prefix x) (length0 x)"),
         Mutant("the key of another file", f"(not (used0 (key x) (prefix x) {_NEXT}))",
                f"(forall ((f File)) (not (used0 (key f) (prefix x) {_NEXT})))")),
        _WORLD,
    ),
    Statement(
        "closing_a_file_keeps_the_records",
        "Closing a file with the number of its records keeps the invariant.",
        _ONE,
        (*invariant("0"), "(writing0 x)", _ENDS, _STATE.becomes("closed", ("x",), "true"), _TRAILER,
         *_STATE.others("writing", "closed", "trailer")),
        _AFTER,
        (Mutant("miscounts", _TRAILER, _STATE.becomes("trailer", ("x",), "(- (length0 x) 1)")),
         Mutant("no trailer", _TRAILER, _STATE.same("trailer")[0]),
         Mutant("it goes on being written", _ENDS, _STATE.same("writing")[0])),
        _WORLD,
    ),
    Statement(
        "a_crash_keeps_the_records",
        "A crash, which leaves a file without its trailer, keeps the invariant.",
        _ONE,
        (*invariant("0"), "(writing0 x)", _ENDS, *_STATE.others("writing")),
        _AFTER,
        (Mutant("it counts as closed", _STATE.same("closed")[0], _STATE.becomes("closed", ("x",), "true")),),
        _WORLD,
    ),
    Statement(
        "an_attack_keeps_the_records",
        "Putting any records of any files at any places of a file, as many as one likes, keeps the invariant.",
        _ONE + "(declare-fun of (Int) File)(declare-fun from (Int) Int)",
        (*invariant("0"), "(forall ((f File)) (or (= f x) (= (count1 f) (count0 f))))", _KNOWN, _ELSEWHERE,
         *_STATE.others("count", "disk")),
        _AFTER,
        (Mutant("a record that nobody sealed", "(<= (from i) (count0 (of i)))", "true"),),
        _WORLD,
    ),
    Statement(
        "what_is_accepted_is_what_was_written",
        "By the invariant, a file whose records open at their places and whose trailer is their number was closed, and"
        " says what was written, all of it, in order.",
        _SORTS + _STATE.declared("1") + "(declare-const f File)",
        (*invariant("1"), "(<= 0 (count1 f))", f"(forall ((i Int)) (=> (and (<= 1 i) (<= i (count1 f))) {_OPENS}))",
         "(= (trailer1 f) (count1 f))"),
        "(and (closed1 f) (= (count1 f) (length1 f)) (forall ((i Int)) (=> (and (<= 1 i) (<= i (length1 f)))"
        " (= (written1 f i) (token (disk1 f i))))))",
        (Mutant("no salt bound", "(= f (salt (disk1 f i)))", "true"),
         Mutant("no place bound", "(= i (place (disk1 f i)))", "true"),
         Mutant("no trailer", assumed("(= (trailer1 f) (count1 f))"), "")),
        _WORLD,
    ),
)  # fmt: skip
