"""Sealed records: `tla/mnemosyne/SealedRecords.tla` for any files, writers, records and attacks.

A file is opened for writing once, under a key from its own salt. The attacker is stronger here than there: any records
on any disk may be put at any places, all at once. A record states what it binds: its salt (the file), its place and its
token. spec: V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, World

_AT = "(+ (length x) 1)"
_OPENS = "(and (= x (salt (disk x i))) (= i (place (disk x i))))"

MACHINE = Machine(
    "sealed_records",
    "Every record on a disk was sealed with what it states, and the vectors used under a file's key are those of its"
    " records.",
    """
    (declare-sort File 0)(declare-sort Key 0)(declare-sort Prefix 0)(declare-sort Token 0)(declare-sort Record 0)
    (declare-fun key (File) Key)(declare-fun prefix (File) Prefix)
    (declare-fun salt (Record) File)(declare-fun place (Record) Int)(declare-fun token (Record) Token)""",
    """
    (opened (File) Bool) (writing (File) Bool) (closed (File) Bool) (length (File) Int) (written (File Int) Token)
    (trailer (File) Int) (count (File) Int) (disk (File Int) Record) (used (Key Prefix Int) Bool)""",
    MachineRule(
        "Init",
        "No file was opened, and no vector used.",
        """
        (forall ((f File)) (and (not (opened f)) (not (writing f)) (not (closed f)) (= 0 (length f)) (= 0 (count f))
          (= (- 1) (trailer f))))
        (forall ((k Key) (v Prefix) (i Int)) (not (used k v i)))""",
        (Mutant("a vector was used", "(not (used k v i))", "(used k v i)"),
         Mutant("a record is there", "(= 0 (count f))", "(= 1 (count f))")),
    ),
    """
    ; Files that are written or closed were opened, and closed files are no longer written.
    (forall ((f File)) (=> (or (writing f) (closed f)) (opened f)))
    (forall ((f File)) (not (and (writing f) (closed f))))
    (forall ((f File)) (<= 0 (length f)))
    (forall ((f File)) (or (opened f) (= 0 (length f))))
    ; A trailer is sealed where a file is closed, and only there: an attacker cannot make one.
    (forall ((f File)) (= (trailer f) (ite (closed f) (length f) (- 1))))
    ; Every record on a disk was sealed with its statements.
    (forall ((f File) (i Int)) (=> (and (<= 1 i) (<= i (count f))) (and (<= 1 (place (disk f i)))
      (<= (place (disk f i)) (length (salt (disk f i))))
      (= (token (disk f i)) (written (salt (disk f i)) (place (disk f i)))))))
    ; The vectors that were used under a file's key are those of its records.
    (forall ((f File) (v Prefix) (i Int)) (=> (used (key f) v i) (<= i (length f))))""",
    (
        MachineRule(
            "Open",
            "A file is opened for the first time, by any writer.",
            "(any x File) (not (opened x)) (set (opened x) true) (set (writing x) true)",
            (Without("opened a second time", "(not (opened x))"),),
        ),
        MachineRule(
            "Seal",
            "A record is sealed with its file's salt and its place, under the next vector, which was never used.",
            f"""(any x File) (any t Token) (any r Record) (writing x) (= (salt r) x) (= (place r) {_AT}) (= (token r) t)
            (set (used (key x) (prefix x) {_AT}) true) (set (length x) {_AT}) (set (written x {_AT}) t)
            (set (count x) (+ (count x) 1)) (set (disk x (+ (count x) 1)) r)
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
            (set (trailer x) (length x))""",
            (Mutant("miscounts", "(set (trailer x) (length x))", "(set (trailer x) (- (length x) 1))"),
             Without("no trailer", "(set (trailer x) (length x))"),
             Without("it goes on being written", "(set (writing x) false)")),
        ),
        MachineRule(
            "Crash",
            "A crash leaves a file without its trailer.",
            "(any x File) (writing x) (set (writing x) false)",
            (Mutant("it counts as closed", "(set (writing x) false)",
                    "(set (writing x) false) (set (closed x) true)"),),
        ),
        MachineRule(
            "Attack",
            "Any records of any files are put at any places of a file.",
            """(any x File) (any of (Int) File) (any from (Int) Int) (any count') (any disk')
            (forall ((f File)) (or (= f x) (= (count' f) (count f))))
            (forall ((i Int)) (=> (and (<= 1 i) (<= i (count' x)))
              (and (<= 1 (from i)) (<= (from i) (count (of i))) (= (disk' x i) (disk (of i) (from i))))))
            (forall ((f File) (i Int)) (=> (distinct f x) (= (disk' f i) (disk f i))))""",
            (Mutant("a record that was never sealed", "(<= (from i) (count (of i)))", "true"),),
            module=("CutOff", "Replace", "Repeat"),
        ),
    ),
    World({"File": 2, "Key": 2, "Prefix": 1, "Token": 2, "Record": 3}, -1, 2),
    assumed="""
    ; No salt is drawn twice.
    (forall ((f File) (g File)) (=> (= (key f) (key g)) (= f g)))""",
    promises=(
        MachineRule(
            "what_is_accepted_is_what_was_written",
            "A file whose records open at their places and whose trailer is their number was closed, and holds exactly"
            " the written records, in order.",
            f"""(any x File) (<= 0 (count x)) (forall ((i Int)) (=> (and (<= 1 i) (<= i (count x))) {_OPENS}))
            (= (trailer x) (count x))
            (gives (and (closed x) (= (count x) (length x))
              (forall ((i Int)) (=> (and (<= 1 i) (<= i (length x))) (= (written x i) (token (disk x i)))))))""",
            (Mutant("no salt bound", "(= x (salt (disk x i)))", "true"),
             Mutant("no place bound", "(= i (place (disk x i)))", "true"),
             Without("no trailer", "(= (trailer x) (count x))")),
        ),
    ),
)  # fmt: skip
LEMMAS = MACHINE.lemmas()
