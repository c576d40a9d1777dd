--------------------------- MODULE SingleVectors ----------------------------
(***************************************************************************)
(* Single records of a sealed log are read and added without a look at the *)
(* others. Each record has a root here: the places of all records before   *)
(* it. A place is the opening that sealed a record, as its salt says, and  *)
(* its number. The anchor states the place of the last one, and is written *)
(* over in place once the record is synced. Only later it is synced.       *)
(*                                                                         *)
(* An opening looks at the record that the anchor states, and at what is   *)
(* after it. It takes the places of the rest from its root. A get reads    *)
(* the record at a place, and refuses every other one. A new record        *)
(* follows without a look at the others. An attacker puts any record that  *)
(* was ever sealed under the key in the place of another, and cuts the     *)
(* file, but cannot write where the anchor is.                             *)
(*                                                                         *)
(* What is reported as durable is there after a loss of power. That an old *)
(* end is refused holds from the anchor on that is durable.                *)
(* spec: MN10.1, MN10.2, MN10.3, MN10.9, MN10.10                           *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Most,     \* how many records a log may have
          Vectors,  \* what a record may contain
          Crashes,  \* how often power is lost or a process killed
          Attacks   \* how often the file is changed by an attacker

VARIABLES sealed,   \* every record that was ever sealed
          disk,     \* the records of the file
          durable,  \* how many of them were synced in this opening
          anchor,   \* the anchor that every process reads
          kept,     \* the one that is durable
          truth,    \* the vectors of the log, as they were given
          reported, \* how many of them were reported as durable
          index,    \* the openings of the records, as the process has them
          opening,  \* the number of this opening, or of the last
          phase,    \* "down", "open" or "refused"
          crashes,  \* crashes so far
          attacks   \* changes so far

vars == <<sealed, disk, durable, anchor, kept, truth, reported, index, opening, phase, crashes, attacks>>

Numbers == 1..Most
Openings == 1..(Crashes + 1)
NoAnchor == [records |-> 0, opening |-> 0]

TypeOK == /\ \A r \in sealed : r.opening \in Openings /\ r.number \in Numbers /\ r.vector \in Vectors
          /\ Len(disk) \in 0..Most
          /\ durable \in 0..Len(disk)
          /\ anchor.records \in 0..Most
          /\ kept.records \in 0..Most
          /\ Len(truth) \in 0..Most
          /\ reported \in 0..Most
          /\ \A i \in DOMAIN index : index[i] \in Openings
          /\ opening \in 0..(Crashes + 1)
          /\ phase \in {"down", "open", "refused"}
          /\ crashes \in 0..Crashes
          /\ attacks \in 0..Attacks

Init == /\ sealed = {}
        /\ disk = <<>>
        /\ durable = 0
        /\ anchor = NoAnchor
        /\ kept = NoAnchor
        /\ truth = <<>>
        /\ reported = 0
        /\ index = <<>>
        /\ opening = 0
        /\ phase = "down"
        /\ crashes = 0
        /\ attacks = 0

-----------------------------------------------------------------------------
(* Opening. *)

(* The record that the anchor states is at its place. *)
Accepts == /\ anchor.records <= Len(disk)
           /\ anchor.records > 0 => /\ disk[anchor.records].opening = anchor.opening
                                    /\ disk[anchor.records].number = anchor.records

(* The places that its root states, and its own. *)
Rooted == IF anchor.records = 0 THEN <<>> ELSE Append(disk[anchor.records].root, disk[anchor.records].opening)

(* The places up to record j, when the records after the root are scanned. *)
Scanned(j) == Rooted \o [i \in 1..(j - anchor.records) |-> disk[anchor.records + i].opening]

(* Each record of the scan continues those before it. *)
Continues(j) == \A k \in (anchor.records + 1)..j : disk[k].number = k /\ disk[k].root = Scanned(k - 1)

Last == CHOOSE j \in anchor.records..Len(disk) :
          Continues(j) /\ \A k \in (j + 1)..Len(disk) : ~Continues(k)

(* What is after them is cut off, and the anchor is synced. *)
Open == /\ phase = "down"
        /\ IF Accepts
           THEN /\ phase' = "open"
                /\ opening' = opening + 1
                /\ index' = Scanned(Last)
                /\ disk' = SubSeq(disk, 1, Last)
                /\ durable' = Last
                /\ kept' = anchor
                /\ truth' = [i \in 1..Last |-> IF i <= anchor.records THEN truth[i] ELSE disk[i].vector]
           ELSE /\ phase' = "refused"
                /\ UNCHANGED <<opening, index, disk, durable, kept, truth>>
        /\ UNCHANGED <<sealed, anchor, reported, crashes, attacks>>

-----------------------------------------------------------------------------
(* Adding a record. *)

Add(vector) ==
    /\ phase = "open"
    /\ Len(index) < Most
    /\ LET new == [opening |-> opening, number |-> Len(index) + 1, root |-> index, vector |-> vector]
       IN  sealed' = sealed \cup {new} /\ disk' = Append(disk, new)
    /\ index' = Append(index, opening)
    /\ truth' = Append(truth, vector)
    /\ UNCHANGED <<durable, anchor, kept, reported, opening, phase, crashes, attacks>>

SyncLog == /\ phase = "open"
           /\ durable < Len(index)
           /\ durable' = Len(index)
           /\ UNCHANGED <<sealed, disk, anchor, kept, truth, reported, index, opening, phase, crashes, attacks>>

(* The anchor is written over, in place. *)
Overwrite == /\ phase = "open"
             /\ anchor.records < durable
             /\ anchor' = [records |-> durable, opening |-> index[durable]]
             /\ UNCHANGED <<sealed, disk, durable, kept, truth, reported, index, opening, phase, crashes, attacks>>

(* The records are reported as durable. *)
Report == /\ phase = "open"
          /\ reported < anchor.records
          /\ reported' = anchor.records
          /\ UNCHANGED <<sealed, disk, durable, anchor, kept, truth, index, opening, phase, crashes, attacks>>

(* The anchor is synced, with every so many records. *)
SyncAnchor == /\ phase = "open"
              /\ kept # anchor
              /\ kept' = anchor
              /\ UNCHANGED <<sealed, disk, durable, anchor, truth, reported, index, opening, phase, crashes, attacks>>

-----------------------------------------------------------------------------
(* Reading a record: only that one is looked at, and any but the one of its place is refused. *)

IsOfItsPlace(i) == /\ disk[i].opening = index[i]
                   /\ disk[i].number = i

Answers == {i \in DOMAIN index : IsOfItsPlace(i)}

-----------------------------------------------------------------------------
(* A process is killed, or power is lost: what was synced is left, some of the rest, and one of the two anchors. *)
Crash(left, hasAnchor) ==
    /\ phase = "open"
    /\ crashes < Crashes
    /\ crashes' = crashes + 1
    /\ left \in durable..Len(disk)
    /\ disk' = SubSeq(disk, 1, left)
    /\ anchor' = IF hasAnchor THEN anchor ELSE kept
    /\ kept' = anchor'
    /\ durable' = 0
    /\ index' = <<>>
    /\ phase' = "down"
    /\ UNCHANGED <<sealed, truth, reported, opening, attacks>>

(* An attacker puts any record in the place of another, also while the log is open, *)
Attack(i, r) == /\ attacks < Attacks
                /\ i <= Len(disk)
                /\ disk[i] # r
                /\ disk' = [disk EXCEPT ![i] = r]
                /\ attacks' = attacks + 1
                /\ UNCHANGED <<sealed, durable, anchor, kept, truth, reported, index, opening, phase, crashes>>

(* or cuts the file. *)
Cut(left) == /\ phase = "down"
             /\ attacks < Attacks
             /\ left < Len(disk)
             /\ disk' = SubSeq(disk, 1, left)
             /\ attacks' = attacks + 1
             /\ UNCHANGED <<sealed, durable, anchor, kept, truth, reported, index, opening, phase, crashes>>

Next == \/ Open \/ SyncLog \/ Overwrite \/ Report \/ SyncAnchor
        \/ \E vector \in Vectors : Add(vector)
        \/ \E left \in 0..Most, hasAnchor \in BOOLEAN : Crash(left, hasAnchor)
        \/ \E i \in Numbers, r \in sealed : Attack(i, r)
        \/ \E left \in 0..Most : Cut(left)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A place is as good as a hash: one record was sealed for it. *)
OneRecordAPlace == \A r, s \in sealed : r.opening = s.opening /\ r.number = s.number => r = s

(* A log that only crashes have touched is never refused, *)
OnlyChangedIsRefused == phase = "refused" => attacks > 0

(* and has what was reported as durable. *)
ReportedIsThere == phase = "open" /\ attacks = 0 => reported <= Len(truth)

(* What a get returns is what was added under its number. *)
GetIsTrue == \A i \in Answers : disk[i].vector = truth[i]

THEOREM Spec => [](TypeOK /\ OneRecordAPlace /\ OnlyChangedIsRefused /\ ReportedIsThere /\ GetIsTrue)

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverRefused == phase # "refused"
EveryGetAnswers == Answers = DOMAIN index
ReportedIsAnchored == reported <= kept.records
=============================================================================
