--------------------------- MODULE SealedRecords ----------------------------
(***************************************************************************)
(* Records sealed with AES-GCM, and what a reader accepts. A file is opened*)
(* for writing with a salt that is drawn at random and never comes twice;  *)
(* its key is derived from the master key and that salt, and from nothing  *)
(* else: a file may be replaced by a new one of its name, under another    *)
(* key. Inside, the initialization vector is a random prefix and a counter.*)
(* A prefix is short: it may come again, across a crash, a backup that is  *)
(* restored and a second writer, and so may the counter; the key does not, *)
(* so no pair of key and vector is ever used twice.                        *)
(*                                                                         *)
(* Each record binds the salt of its file and its place in it. Closing     *)
(* adds a trailer with the salt and the number of records. An attacker     *)
(* with the disk may copy, move, repeat and cut off records, put back the  *)
(* trailer of an old file, and put back an old file whole, under its name  *)
(* or another. A reader accepts what a writer closed, and refuses          *)
(* everything else. That it is the newest file of its name only an anchor  *)
(* shows, which is not here but in SealedLog.                              *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Openings,  \* how often a file is opened for writing
          Names,     \* how many names of files there are
          Records,   \* how many records a file may have
          Tokens,    \* what a record may contain
          Prefixes,  \* the random prefixes that may be drawn
          Attacks    \* how often the disk is changed by an attacker

VARIABLES opened,    \* openings so far
          writing,   \* the openings that are being written
          name,      \* the name of the file of each opening
          prefix,    \* the prefix that each opening drew
          written,   \* the tokens that each opening has sealed
          closed,    \* the openings that were closed
          disk,      \* the file of each name: its salt, sealed records, and a trailer or none
          used,      \* pairs of key and vector that were used
          reused,    \* was one used twice?
          read,      \* what a reader made of each file: "not", "accepted", "refused"
          attacks    \* changes so far

vars == <<opened, writing, name, prefix, written, closed, disk, used, reused, read, attacks>>

Files == 1..Openings
NameSet == 1..Names
NoTrailer == [salt |-> 0, count |-> -1]
NoFile == [salt |-> 0, records |-> <<>>, trailer |-> NoTrailer]

(* The salt of an opening is its own, and no name; all keys come from one master key. *)
Salt(f) == 10 * f
Key(salt) == <<"key", salt>>
Vector(f, place) == <<prefix[f], place>>

(* What a sealed record or trailer binds is readable with the key only. *)
Sealed(f, place, token) == [salt |-> Salt(f), place |-> place, token |-> token]
Trailer(f) == [salt |-> Salt(f), count |-> Len(written[f])]

TypeOK == /\ opened \in 0..Openings
          /\ writing \subseteq 1..opened
          /\ name \in [Files -> {0} \cup NameSet]
          /\ prefix \in [Files -> {0} \cup Prefixes]
          /\ \A f \in Files : Len(written[f]) <= Records
          /\ closed \subseteq 1..opened
          /\ \A n \in NameSet : disk[n].trailer.count \in -1..Records
          /\ reused \in BOOLEAN
          /\ read \in [NameSet -> {"not", "accepted", "refused"}]
          /\ attacks \in 0..Attacks

Init == /\ opened = 0
        /\ writing = {}
        /\ name = [f \in Files |-> 0]
        /\ prefix = [f \in Files |-> 0]
        /\ written = [f \in Files |-> <<>>]
        /\ closed = {}
        /\ disk = [n \in NameSet |-> NoFile]
        /\ used = {}
        /\ reused = FALSE
        /\ read = [n \in NameSet |-> "not"]
        /\ attacks = 0

-----------------------------------------------------------------------------

(* The names of the files that are being written. *)
Busy == {name[f] : f \in writing}

(* A file is opened for writing, by a first writer, a second, or one after a crash, in place of one of its name. *)
Open(n, drawn) == /\ opened < Openings
                  /\ n \notin Busy
                  /\ opened' = opened + 1
                  /\ writing' = writing \cup {opened + 1}
                  /\ name' = [name EXCEPT ![opened + 1] = n]
                  /\ prefix' = [prefix EXCEPT ![opened + 1] = drawn]
                  /\ disk' = [disk EXCEPT ![n] = [NoFile EXCEPT !.salt = Salt(opened + 1)]]
                  /\ read' = [read EXCEPT ![n] = "not"]
                  /\ UNCHANGED <<written, closed, used, reused, attacks>>

(* A record is sealed under the next vector. *)
Seal(f, token) ==
    /\ f \in writing
    /\ Len(written[f]) < Records
    /\ LET place == Len(written[f]) + 1
           pair == <<Key(Salt(f)), Vector(f, place)>>
       IN  /\ used' = used \cup {pair}
           /\ reused' = (reused \/ pair \in used)
           /\ disk' = [disk EXCEPT ![name[f]].records = Append(@, Sealed(f, place, token))]
    /\ written' = [written EXCEPT ![f] = Append(@, token)]
    /\ UNCHANGED <<opened, writing, name, prefix, closed, read, attacks>>

(* A file is closed with the number of its records, which is sealed as well. *)
Close(f) == /\ f \in writing
            /\ writing' = writing \ {f}
            /\ closed' = closed \cup {f}
            /\ disk' = [disk EXCEPT ![name[f]].trailer = Trailer(f)]
            /\ UNCHANGED <<opened, name, prefix, written, used, reused, read, attacks>>

(* A crash leaves a file without its trailer. *)
Crash(f) == /\ f \in writing
            /\ writing' = writing \ {f}
            /\ UNCHANGED <<opened, name, prefix, written, closed, disk, used, reused, read, attacks>>

-----------------------------------------------------------------------------
(* What an attacker may do to files that are not being written. *)

Attacked(n, file) == /\ attacks < Attacks
                     /\ n \notin Busy
                     /\ disk[n].salt # 0
                     /\ read[n] = "not"
                     /\ disk[n] # file
                     /\ attacks' = attacks + 1
                     /\ disk' = [disk EXCEPT ![n] = file]
                     /\ UNCHANGED <<opened, writing, name, prefix, written, closed, used, reused, read>>

WithRecords(n, records) == [disk[n] EXCEPT !.records = records]

(* The end is cut off. *)
CutOff(n) == /\ disk[n].records # <<>>
             /\ Attacked(n, WithRecords(n, SubSeq(disk[n].records, 1, Len(disk[n].records) - 1)))

(* A record takes the place of another, of this file or of a second one. *)
Replace(n, i, m, j) == /\ i \in 1..Len(disk[n].records)
                       /\ j \in 1..Len(disk[m].records)
                       /\ Attacked(n, WithRecords(n, [disk[n].records EXCEPT ![i] = disk[m].records[j]]))

(* A record is repeated at the end. *)
Repeat(n, i) == /\ i \in 1..Len(disk[n].records)
                /\ Len(disk[n].records) < Records
                /\ Attacked(n, WithRecords(n, Append(disk[n].records, disk[n].records[i])))

(* A file that was closed, as it was then. *)
Whole(f) == [salt |-> Salt(f), records |-> [i \in 1..Len(written[f]) |-> Sealed(f, i, written[f][i])],
             trailer |-> Trailer(f)]

(* It is put back, under its name or another, *)
PutBack(n, f) == f \in closed /\ Attacked(n, Whole(f))

(* or only its trailer. *)
PutTrailerBack(n, f) == f \in closed /\ Attacked(n, [disk[n] EXCEPT !.trailer = Trailer(f)])

-----------------------------------------------------------------------------

(* A reader opens each record under the file's key, with what it should bind. *)
Opens(file, place) == /\ file.records[place].salt = file.salt
                      /\ file.records[place].place = place

Good(file) == /\ \A place \in 1..Len(file.records) : Opens(file, place)
              /\ file.trailer.salt = file.salt
              /\ file.trailer.count = Len(file.records)

Read(n) == /\ n \notin Busy
           /\ disk[n].salt # 0
           /\ read[n] = "not"
           /\ read' = [read EXCEPT ![n] = IF Good(disk[n]) THEN "accepted" ELSE "refused"]
           /\ UNCHANGED <<opened, writing, name, prefix, written, closed, disk, used, reused, attacks>>

Next == \/ \E n \in NameSet : \/ CutOff(n) \/ Read(n)
                              \/ \E f \in Files : PutBack(n, f) \/ PutTrailerBack(n, f)
                              \/ \E drawn \in Prefixes : Open(n, drawn)
                              \/ \E i \in 1..Records : \/ Repeat(n, i)
                                                       \/ \E m \in NameSet, j \in 1..Records : Replace(n, i, m, j)
        \/ \E f \in Files : \/ Close(f) \/ Crash(f)
                            \/ \E token \in Tokens : Seal(f, token)

Fairness == /\ \A f \in Files : WF_vars(Close(f))
            /\ \A n \in NameSet : WF_vars(Read(n))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* No key seals twice under one vector. *)
NoPairTwice == ~reused

(* What a reader accepts is what a writer sealed and closed, all of it, in order. *)
AcceptedIsWritten == \A n \in NameSet : read[n] = "accepted" => \E f \in closed :
    /\ Salt(f) = disk[n].salt
    /\ Len(disk[n].records) = Len(written[f])
    /\ \A i \in 1..Len(written[f]) : disk[n].records[i].token = written[f][i]

(* A closed file that was not changed since is accepted. *)
UntouchedIsAccepted ==
    \A f \in closed : attacks = 0 /\ disk[name[f]].salt = Salt(f) => read[name[f]] # "refused"

-----------------------------------------------------------------------------
(* Properties. *)

(* Every file that is opened is read in the end, or refused. *)
AllAreRead == \A n \in NameSet : n \in Busy ~> read[n] # "not"

THEOREM Spec => [](TypeOK /\ NoPairTwice /\ AcceptedIsWritten /\ UntouchedIsAccepted)
THEOREM Spec => AllAreRead

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverOnePrefixTwice == \A f, g \in 1..opened : f # g => prefix[f] # prefix[g]
NeverRefused == \A n \in NameSet : read[n] # "refused"

(* An old file that is put back is accepted. *)
NeverAcceptsAnOldFile ==
    \A f, g \in 1..opened : f < g /\ name[f] = name[g] /\ read[name[g]] = "accepted" => disk[name[g]].salt # Salt(f)

(* No file need be opened. *)
AFileIsOpened == <>(opened > 0)
=============================================================================
