--------------------------- MODULE SealedRecords ----------------------------
(***************************************************************************)
(* Records sealed with AES-GCM, and what a reader accepts. A file is opened*)
(* for writing with a salt that is drawn at random and never comes twice;  *)
(* its key is derived from the master key and that salt. Inside, the       *)
(* initialization vector is a random prefix and a counter. A prefix is     *)
(* short: it may come again, across a crash, a backup that is restored and *)
(* a second writer, and so may the counter; the key does not, so no pair   *)
(* of key and vector is ever used twice.                                   *)
(*                                                                         *)
(* Each record binds the salt of its file and its place in it, and closing *)
(* adds a trailer with their number. An attacker with the disk may copy,   *)
(* move, repeat and cut off records, and put back an old file whole. A     *)
(* reader accepts what a writer closed, and refuses everything else.       *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Openings,  \* how often a file is opened for writing
          Records,   \* how many records a file may have
          Tokens,    \* what a record may contain
          Prefixes,  \* the random prefixes that may be drawn
          Attacks    \* how often the disk is changed by an attacker

VARIABLES opened,    \* openings so far; the next one's number is its salt
          writing,   \* the openings that are being written
          prefix,    \* the prefix that each opening drew
          written,   \* the tokens that each opening has sealed
          closed,    \* the openings that were closed
          disk,      \* the file of each opening: sealed records, and a trailer or -1
          used,      \* pairs of key and vector that were used
          reused,    \* was one used twice?
          read,      \* what a reader made of each file: "not", "accepted", "refused"
          attacks    \* changes so far

vars == <<opened, writing, prefix, written, closed, disk, used, reused, read, attacks>>

Files == 1..Openings
None == -1

(* All keys come from one master key: a key is known by the salt. *)
Key(file) == file
Vector(file, place) == <<prefix[file], place>>

(* What a sealed record binds is readable with the key only. *)
Sealed(file, place, token) == [salt |-> file, place |-> place, token |-> token]

TypeOK == /\ opened \in 0..Openings
          /\ writing \subseteq 1..opened
          /\ prefix \in [Files -> {0} \cup Prefixes]
          /\ \A f \in Files : Len(written[f]) <= Records
          /\ closed \subseteq 1..opened
          /\ \A f \in Files : disk[f].trailer \in None..Records
          /\ reused \in BOOLEAN
          /\ read \in [Files -> {"not", "accepted", "refused"}]
          /\ attacks \in 0..Attacks

Init == /\ opened = 0
        /\ writing = {}
        /\ prefix = [f \in Files |-> 0]
        /\ written = [f \in Files |-> <<>>]
        /\ closed = {}
        /\ disk = [f \in Files |-> [records |-> <<>>, trailer |-> None]]
        /\ used = {}
        /\ reused = FALSE
        /\ read = [f \in Files |-> "not"]
        /\ attacks = 0

-----------------------------------------------------------------------------

(* A file is opened for writing, by a first writer, a second, or one after a crash. *)
Open(drawn) == /\ opened < Openings
               /\ opened' = opened + 1
               /\ writing' = writing \cup {opened + 1}
               /\ prefix' = [prefix EXCEPT ![opened + 1] = drawn]
               /\ UNCHANGED <<written, closed, disk, used, reused, read, attacks>>

(* A record is sealed under the next vector. *)
Seal(f, token) ==
    /\ f \in writing
    /\ Len(written[f]) < Records
    /\ LET place == Len(written[f]) + 1
           pair == <<Key(f), Vector(f, place)>>
       IN  /\ used' = used \cup {pair}
           /\ reused' = (reused \/ pair \in used)
           /\ disk' = [disk EXCEPT ![f].records = Append(@, Sealed(f, place, token))]
    /\ written' = [written EXCEPT ![f] = Append(@, token)]
    /\ UNCHANGED <<opened, writing, prefix, closed, read, attacks>>

(* A file is closed with the number of its records, which is sealed as well. *)
Close(f) == /\ f \in writing
            /\ writing' = writing \ {f}
            /\ closed' = closed \cup {f}
            /\ disk' = [disk EXCEPT ![f].trailer = Len(written[f])]
            /\ UNCHANGED <<opened, prefix, written, used, reused, read, attacks>>

(* A crash leaves a file without its trailer. *)
Crash(f) == /\ f \in writing
            /\ writing' = writing \ {f}
            /\ UNCHANGED <<opened, prefix, written, closed, disk, used, reused, read, attacks>>

-----------------------------------------------------------------------------
(* What an attacker may do to files that are not being written. *)

Attacked(f, records) == /\ attacks < Attacks
                        /\ f \in (1..opened) \ writing
                        /\ read[f] = "not"
                        /\ attacks' = attacks + 1
                        /\ disk' = [disk EXCEPT ![f].records = records]
                        /\ UNCHANGED <<opened, writing, prefix, written, closed, used, reused, read>>

(* The end is cut off. *)
CutOff(f) == /\ disk[f].records # <<>>
             /\ Attacked(f, SubSeq(disk[f].records, 1, Len(disk[f].records) - 1))

(* A record takes the place of another, of this file or of a second one. *)
Replace(f, i, g, j) == /\ i \in 1..Len(disk[f].records)
                       /\ j \in 1..Len(disk[g].records)
                       /\ disk[f].records[i] # disk[g].records[j]
                       /\ Attacked(f, [disk[f].records EXCEPT ![i] = disk[g].records[j]])

(* A record is repeated at the end. *)
Repeat(f, i) == /\ i \in 1..Len(disk[f].records)
                /\ Len(disk[f].records) < Records
                /\ Attacked(f, Append(disk[f].records, disk[f].records[i]))

-----------------------------------------------------------------------------

(* A reader opens each record under the file's key, with what it should bind. *)
Opens(f, place) == /\ disk[f].records[place].salt = f
                   /\ disk[f].records[place].place = place

Good(f) == /\ \A place \in 1..Len(disk[f].records) : Opens(f, place)
           /\ disk[f].trailer = Len(disk[f].records)

Read(f) == /\ f \in (1..opened) \ writing
           /\ read[f] = "not"
           /\ read' = [read EXCEPT ![f] = IF Good(f) THEN "accepted" ELSE "refused"]
           /\ UNCHANGED <<opened, writing, prefix, written, closed, disk, used, reused, attacks>>

Next == \/ \E drawn \in Prefixes : Open(drawn)
        \/ \E f \in Files : \/ Close(f) \/ Crash(f) \/ CutOff(f) \/ Read(f)
                            \/ \E token \in Tokens : Seal(f, token)
                            \/ \E i \in 1..Records : \/ Repeat(f, i)
                                                     \/ \E g \in Files, j \in 1..Records : Replace(f, i, g, j)

Fairness == \A f \in Files : WF_vars(Close(f)) /\ WF_vars(Read(f))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* No key seals twice under one vector. *)
NoPairTwice == ~reused

(* What a reader accepts is what a writer sealed and closed, all of it, in order. *)
AcceptedIsWritten == \A f \in Files : read[f] = "accepted" =>
    /\ f \in closed
    /\ Len(disk[f].records) = Len(written[f])
    /\ \A i \in 1..Len(written[f]) : disk[f].records[i].token = written[f][i]

(* A closed file that was not changed since is accepted. *)
UntouchedIsAccepted == \A f \in closed : attacks = 0 => read[f] # "refused"

-----------------------------------------------------------------------------
(* Properties. *)

(* Every file that is opened is read in the end, or refused. *)
AllAreRead == \A f \in Files : f \in writing ~> read[f] # "not"

THEOREM Spec => [](TypeOK /\ NoPairTwice /\ AcceptedIsWritten /\ UntouchedIsAccepted)
THEOREM Spec => AllAreRead

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverOnePrefixTwice == \A f, g \in 1..opened : f # g => prefix[f] # prefix[g]
NeverRefused == \A f \in Files : read[f] # "refused"
=============================================================================
