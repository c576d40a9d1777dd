"""Sealed records: `tla/mnemosyne/SealedRecords.tla` for any files, writers, records and attacks.

An opening is called a file here, and its salt is the file itself. It is written under a name, whose earlier file it
replaces. The attacker is stronger than in the module: anything that was ever sealed may be put at any place under a
name, all at once, with any trailer that was sealed, and any salt at the head. A record states what it binds: its salt,
its place and its token. A trailer states its salt and the number of its records. spec: V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_AT = "(+ (length x) 1)"
_HERE = "(+ (count (name x)) 1)"
_OPENS = "(and (= (header n) (salt (disk n i))) (= i (place (disk n i))))"
_ONE_WRITER = "(=> (writing f) (distinct (name f) n))"


def _sealed(record: str) -> str:
    """Return the formula that a record was sealed with its statements."""
    return f"""(and (<= 1 (place {record})) (<= (place {record}) (length (salt {record})))
      (= (token {record}) (written (salt {record}) (place {record}))))"""


def _is_trailer(prime: str, n: str) -> str:
    """Return the formula that the trailer under a name, if there is one, was sealed where its file was closed."""
    of = f"(trailer_of{prime} {n})"
    return f"(=> (distinct (trailer{prime} {n}) (- 1)) (and (closed {of}) (= (trailer{prime} {n}) (length {of}))))"


MACHINE = Machine(
    "sealed_records",
    "Every record and trailer on a disk was sealed with what it states, and the vectors used under a file's key are"
    " those of its records.",
    """
    (declare-sort File 0)(declare-sort Name 0)(declare-sort Key 0)(declare-sort Prefix 0)(declare-sort Token 0)
    (declare-sort Record 0)(declare-const no_file File)
    (declare-fun key (File) Key)(declare-fun prefix (File) Prefix)
    (declare-fun salt (Record) File)(declare-fun place (Record) Int)(declare-fun token (Record) Token)""",
    """
    (opened (File) Bool) (writing (File) Bool) (closed (File) Bool) (name (File) Name) (length (File) Int)
    (written (File Int) Token) (header (Name) File) (trailer (Name) Int) (trailer_of (Name) File) (count (Name) Int)
    (disk (Name Int) Record) (used (Key Prefix Int) Bool)""",
    MachineRule(
        "Init",
        "No file was opened, and no vector used.",
        """
        (forall ((f File)) (and (not (opened f)) (not (writing f)) (not (closed f)) (= 0 (length f))))
        (forall ((m Name)) (and (= 0 (count m)) (= (- 1) (trailer m))))
        (forall ((k Key) (v Prefix) (i Int)) (not (used k v i)))""",
        (Mutant("a vector was used", "(not (used k v i))", "(used k v i)"),
         Mutant("a record is there", "(= 0 (count m))", "(= 1 (count m))")),
    ),
    f"""
    ; Files that are written or closed were opened, and closed files are no longer written.
    (forall ((f File)) (=> (or (writing f) (closed f)) (opened f)))
    (forall ((f File)) (not (and (writing f) (closed f))))
    (forall ((f File)) (<= 0 (length f)))
    (forall ((f File)) (or (opened f) (= 0 (length f))))
    ; A trailer is sealed where a file is closed, and only there: an attacker cannot make one.
    (forall ((m Name)) {_is_trailer("", "m")})
    ; Every record on a disk was sealed with its statements.
    (forall ((m Name) (i Int)) (=> (and (<= 1 i) (<= i (count m))) {_sealed("(disk m i)")}))
    ; The vectors that were used under a file's key are those of its records.
    (forall ((f File) (v Prefix) (i Int)) (=> (used (key f) v i) (<= i (length f))))""",
    (
        MachineRule(
            "Open",
            "A file is opened for the first time, by any writer, in place of one of its name.",
            f"""(any x File) (any n Name) (not (opened x)) (forall ((f File)) {_ONE_WRITER})
            (set (opened x) true) (set (writing x) true) (set (name x) n) (set (header n) x) (set (count n) 0)
            (set (trailer n) (- 1)) (set (trailer_of n) no_file)
            (any disk') (forall ((m Name) (i Int)) (=> (distinct m n) (= (disk' m i) (disk m i))))""",
            (Without("opened a second time", "(not (opened x))"),
             Without("the trailer before stays", "(set (trailer n) (- 1))")),
        ),
        MachineRule(
            "Seal",
            "A record is sealed with its file's salt and its place, under the next vector, which was never used.",
            f"""(any x File) (any t Token) (any r Record) (writing x) (= (salt r) x) (= (place r) {_AT}) (= (token r) t)
            (set (used (key x) (prefix x) {_AT}) true) (set (length x) {_AT}) (set (written x {_AT}) t)
            (set (count (name x)) {_HERE}) (set (disk (name x) {_HERE}) r)
            (gives (not (used (key x) (prefix x) {_AT})))""",
            (Without("a salt that comes twice", "(=> (= (key f) (key g)) (= f g))"),
             Without("the counter is forgotten", f"(set (length x) {_AT})"),
             Without("another place is bound", f"(= (place r) {_AT})"),
             Without("a file that was closed", "(writing x)"),
             Mutant("the vector before", f"(gives (not (used (key x) (prefix x) {_AT})))",
                    "(gives (not (used (key x) (prefix x) (length x))))")),
        ),
        MachineRule(
            "Close",
            "A file is closed with the number of its records.",
            """(any x File) (writing x) (set (writing x) false) (set (closed x) true)
            (set (trailer (name x)) (length x)) (set (trailer_of (name x)) x)""",
            (Mutant("miscounts", "(set (trailer (name x)) (length x))", "(set (trailer (name x)) (- (length x) 1))"),
             Without("the trailer of another", "(set (trailer_of (name x)) x)"),
             Without("it goes on being written", "(set (writing x) false)")),
        ),
        MachineRule(
            "Crash",
            "A crash leaves a file without its trailer.",
            "(any x File) (writing x) (set (writing x) false)",
            (Mutant("it counts as closed", "(set (writing x) false)", "(set (closed x) true)"),),
        ),
        MachineRule(
            "Attack",
            "Any records that were ever sealed are put at any places under a name, with any trailer that was.",
            f"""(any n Name) (any count') (any disk') (any trailer') (any trailer_of') (any header')
            (forall ((m Name)) (or (= m n) (and (= (count' m) (count m)) (= (trailer' m) (trailer m))
              (= (trailer_of' m) (trailer_of m)) (= (header' m) (header m)))))
            (forall ((m Name) (i Int)) (=> (distinct m n) (= (disk' m i) (disk m i))))
            (forall ((i Int)) (=> (and (<= 1 i) (<= i (count' n))) {_sealed("(disk' n i)")}))
            {_is_trailer("'", "n")}""",
            (Mutant("a record that was never sealed", "(<= (place (disk' n i)) (length (salt (disk' n i))))", "true"),
             Without("a trailer that was never sealed", "(distinct (trailer' n) (- 1))")),
            module=("CutOff", "Replace", "Repeat", "PutBack", "PutTrailerBack"),
        ),
    ),
    World({"File": 2, "Name": 2, "Key": 2, "Prefix": 1, "Token": 2, "Record": 3}, -1, 2),
    assumed="""
    ; No salt is drawn twice.
    (forall ((f File) (g File)) (=> (= (key f) (key g)) (= f g)))""",
    promises=(
        MachineRule(
            "what_is_accepted_is_what_was_written",
            "If the records under a name open at their places with the salt at its head, and so does the trailer, which"
            " is their number, the file of that salt was closed, and holds exactly these records, in order.",
            f"""(any n Name) (<= 0 (count n)) (forall ((i Int)) (=> (and (<= 1 i) (<= i (count n))) {_OPENS}))
            (= (trailer_of n) (header n)) (= (trailer n) (count n))
            (gives (and (closed (header n)) (= (count n) (length (header n)))
              (forall ((i Int)) (=> (and (<= 1 i) (<= i (length (header n))))
                (= (written (header n) i) (token (disk n i)))))))""",
            (Mutant("no salt bound", "(= (header n) (salt (disk n i)))", "true"),
             Mutant("no place bound", "(= i (place (disk n i)))", "true"),
             Without("the trailer of another file", "(= (trailer_of n) (header n))"),
             Without("no trailer", "(= (trailer n) (count n))")),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
