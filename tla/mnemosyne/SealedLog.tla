----------------------------- MODULE SealedLog ------------------------------
(***************************************************************************)
(* A sealed log on a disk that drops some. A record that is appended is in *)
(* the memory of the kernel; a sync makes the log durable up to its end. A *)
(* crash keeps what was synced and any of the rest: a longest good prefix, *)
(* and perhaps whole records behind a hole, which a reader never reaches.  *)
(* The name of a new log is durable once its folder was synced.            *)
(*                                                                         *)
(* Outside of the log is an anchor: how many records there were, and which *)
(* opening wrote the last. It is written beside its name, synced, renamed  *)
(* over it, and durable when the folder is synced. Only then are records   *)
(* acknowledged. An attacker copies the log at any time and puts a copy    *)
(* back while it is closed. An opening compares it with the anchor, and    *)
(* refuses one that is older than what was acknowledged.                   *)
(*                                                                         *)
(* What is acknowledged is what DeltaEncoding calls synced. After a crash  *)
(* it has no more than that, and each record that is found beyond is as if *)
(* it was stored anew. Records bind their opening and their place, so that *)
(* none can be moved: that is SealedRecords. spec: MN5.9, MN5.11 to MN5.16 *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Modulus,    \* patterns are 0..(Modulus - 1)
          Step,       \* lossy differences are multiples of this
          Most,       \* how many records there may be
          Crashes,    \* how many crashes there may be
          Copies,     \* how many copies the attacker makes
          Rollbacks   \* how often one is put back

VARIABLES log,        \* the records that the process has, of which each crash leaves what was acknowledged
          phase,      \* "down", "reading", "running" or "refused"
          opening,    \* the number of this opening, or of the last
          durable,    \* how many records were synced in this opening
          named,      \* is the name of the log durable?
          renamed,    \* the anchor to which the name leads, durable or not
          anchor,     \* the anchor to which it leads after a crash
          acked,      \* how many records were acknowledged
          disk,       \* while it is read: its longest good prefix
          behind,     \* whole records behind a hole
          copies,     \* what the attacker has
          crashes,    \* crashes so far
          rollbacks   \* copies put back so far

vars == <<log, phase, opening, durable, named, renamed, anchor, acked, disk, behind, copies, crashes, rollbacks>>

(* A record has the vector that was given, both encodings of it, and the opening that sealed it. *)
Abstract == INSTANCE DeltaEncoding WITH
               vectors <- [i \in 1..Len(log) |-> log[i].vector],
               exact <- [i \in 1..Len(log) |-> log[i].exact],
               rounded <- [i \in 1..Len(log) |-> log[i].rounded],
               synced <- acked

Patterns == 0..(Modulus - 1)
NoAnchor == [records |-> 0, opening |-> 0]
Anchors == [records : 0..Most, opening : 0..(Crashes + 1)]

TypeOK == /\ Len(log) \in 0..Most
          /\ \A i \in 1..Len(log) : log[i].vector \in Patterns /\ log[i].exact \in Patterns
          /\ phase \in {"down", "reading", "running", "refused"}
          /\ opening \in 0..(Crashes + 1)
          /\ durable \in 0..Len(log)
          /\ named \in BOOLEAN
          /\ renamed \in Anchors
          /\ anchor \in Anchors
          /\ acked \in 0..Len(log)
          /\ crashes \in 0..Crashes
          /\ rollbacks \in 0..Rollbacks

Init == /\ log = <<>>
        /\ phase = "down"
        /\ opening = 0
        /\ durable = 0
        /\ named = FALSE
        /\ renamed = NoAnchor
        /\ anchor = NoAnchor
        /\ acked = 0
        /\ disk = <<>>
        /\ behind = <<>>
        /\ copies = {}
        /\ crashes = 0
        /\ rollbacks = 0

-----------------------------------------------------------------------------
(* Opening. *)

(* It has as many records as the anchor states, the last of them from the opening that it states. The anchor is that to
   which its name leads: after a process that failed it need not be durable. *)
Fresh == /\ renamed.records <= Len(disk)
         /\ renamed.records > 0 => disk[renamed.records].opening = renamed.opening

Open == /\ phase = "down"
        /\ IF Fresh THEN phase' = "reading" /\ opening' = opening + 1
                    ELSE phase' = "refused" /\ opening' = opening
        /\ UNCHANGED <<log, durable, named, renamed, anchor, acked, disk, behind, copies, crashes, rollbacks>>

(* What a reader finds; what is behind a hole is not. *)
Found == disk

(* The next record that is good is read back. *)
ReadBack == /\ phase = "reading"
            /\ Len(log) < Len(Found)
            /\ log' = Append(log, Found[Len(log) + 1])
            /\ UNCHANGED <<phase, opening, durable, named, renamed, anchor, acked, disk, behind, copies, crashes,
                           rollbacks>>

(* The rest is cut off, and what is left is synced: what is torn, and records of a writer that did not come to its
   end, as long as no anchor states them. *)
Opened == /\ phase = "reading"
          /\ renamed.records <= Len(log)
          /\ phase' = "running"
          /\ durable' = Len(log)
          /\ disk' = <<>>
          /\ behind' = <<>>
          /\ UNCHANGED <<log, opening, named, renamed, anchor, acked, copies, crashes, rollbacks>>

-----------------------------------------------------------------------------
(* Writing. *)

(* A record is sealed and appended, as the vector itself or as its differences. *)
Store(v) == /\ phase = "running"
            /\ Len(log) < Most
            /\ LET last == Len(log)
               IN  log' = Append(log,
                     [vector |-> v,
                      exact |-> IF last = 0 THEN v ELSE (v - log[last].vector) % Modulus,
                      rounded |-> IF last = 0 THEN v ELSE Abstract!Nearest(v - Abstract!Rounded(last)),
                      opening |-> opening])
            /\ UNCHANGED <<phase, opening, durable, named, renamed, anchor, acked, disk, behind, copies, crashes,
                           rollbacks>>

(* All records are synced. *)
SyncLog == /\ phase = "running"
           /\ durable < Len(log)
           /\ durable' = Len(log)
           /\ UNCHANGED <<log, phase, opening, named, renamed, anchor, acked, disk, behind, copies, crashes, rollbacks>>

(* A new anchor, which was written and synced beside it, takes the name of the old: once the log's is durable. *)
Rename == /\ phase = "running"
          /\ named
          /\ renamed.records < durable
          /\ renamed' = [records |-> durable, opening |-> log[durable].opening]
          /\ UNCHANGED <<log, phase, opening, durable, named, anchor, acked, disk, behind, copies, crashes, rollbacks>>

(* The folder is synced: names are durable. *)
SyncFolder == /\ phase = "running"
              /\ ~named \/ anchor # renamed
              /\ named' = TRUE
              /\ anchor' = renamed
              /\ UNCHANGED <<log, phase, opening, durable, renamed, acked, disk, behind, copies, crashes, rollbacks>>

(* The next record is acknowledged. *)
Acknowledge == /\ phase = "running"
               /\ acked < anchor.records
               /\ acked' = acked + 1
               /\ UNCHANGED <<log, phase, opening, durable, named, renamed, anchor, disk, behind, copies, crashes,
                              rollbacks>>

-----------------------------------------------------------------------------
(* Crashes. *)

(* What was synced is left, some of the rest, and perhaps some behind a hole; a name that was not synced may be lost. *)
Crash(good, last, hasName, hasAnchor) ==
    /\ phase = "running"
    /\ crashes < Crashes
    /\ crashes' = crashes + 1
    /\ good \in durable..Len(log)
    /\ last \in good..Len(log)
    /\ named => hasName
    /\ phase' = "down"
    /\ log' = SubSeq(log, 1, acked)
    /\ durable' = 0
    /\ disk' = IF hasName THEN SubSeq(log, 1, good) ELSE <<>>
    /\ behind' = IF hasName THEN SubSeq(log, good + 2, last) ELSE <<>>
    /\ named' = hasName
    /\ anchor' = IF hasAnchor THEN renamed ELSE anchor
    /\ renamed' = anchor'
    /\ UNCHANGED <<opening, acked, copies, rollbacks>>

(* A writer that fails cuts off what the anchor does not state, or a part of it, and removes a log that was new. *)
Withdraw(good, isRemoved) ==
    /\ phase = "running"
    /\ crashes < Crashes
    /\ crashes' = crashes + 1
    /\ good \in renamed.records..Len(log)
    /\ isRemoved => good = 0
    /\ phase' = "down"
    /\ log' = SubSeq(log, 1, acked)
    /\ durable' = 0
    /\ disk' = SubSeq(log, 1, good)
    /\ behind' = <<>>
    /\ named' = (named /\ ~isRemoved)
    /\ UNCHANGED <<opening, renamed, anchor, acked, copies, rollbacks>>

(* A crash while the log is read changes nothing in it. *)
CrashReading == /\ phase = "reading"
                /\ crashes < Crashes
                /\ crashes' = crashes + 1
                /\ phase' = "down"
                /\ log' = SubSeq(log, 1, acked)
                /\ UNCHANGED <<opening, durable, named, renamed, anchor, acked, disk, behind, copies, rollbacks>>

-----------------------------------------------------------------------------
(* What an attacker may do, who cannot write where the anchor is. *)

Copy == /\ phase = "running"
        /\ Cardinality(copies) < Copies
        /\ copies' = copies \cup {[log |-> log, anchor |-> anchor]}
        /\ UNCHANGED <<log, phase, opening, durable, named, renamed, anchor, acked, disk, behind, crashes, rollbacks>>

Rollback == /\ phase = "down"
            /\ rollbacks < Rollbacks
            /\ rollbacks' = rollbacks + 1
            /\ \E copy \in copies : /\ disk' = copy.log
                                   /\ UNCHANGED <<anchor, renamed>>
            /\ behind' = <<>>
            /\ UNCHANGED <<log, phase, opening, durable, named, acked, copies, crashes>>

Next == \/ Open \/ ReadBack \/ Opened \/ SyncLog \/ Rename \/ SyncFolder \/ Acknowledge \/ CrashReading \/ Copy
        \/ Rollback
        \/ \E v \in Patterns : Store(v)
        \/ \E good, last \in 0..Most, hasName, hasAnchor \in BOOLEAN : Crash(good, last, hasName, hasAnchor)
        \/ \E good \in 0..Most, isRemoved \in BOOLEAN : Withdraw(good, isRemoved)

Fairness == WF_vars(Open) /\ WF_vars(ReadBack) /\ WF_vars(Opened) /\ WF_vars(SyncLog) /\ WF_vars(Rename)
              /\ WF_vars(SyncFolder) /\ WF_vars(Acknowledge)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* Nothing is acknowledged before data, name and anchor are durable, in this order. *)
AcknowledgedIsDurable == phase = "running" =>
    /\ acked <= anchor.records
    /\ renamed.records <= durable
    /\ renamed.records > 0 => named

(* What is opened has all that was acknowledged, as it was. *)
AcknowledgedIsThere == phase = "reading" =>
    /\ acked <= Len(Found)
    /\ SubSeq(Found, 1, Len(log)) = log

(* A crash alone is never refused. *)
OnlyOldIsRefused == phase = "refused" => rollbacks > 0

-----------------------------------------------------------------------------
(* Properties. *)

(* The vectors that are given come back, and what is acknowledged stays and becomes more. *)
RefinesDeltaEncoding == Abstract!Spec

(* Every log is opened or refused. *)
IsOpenedOrRefused == phase = "down" ~> phase \in {"running", "refused"}

THEOREM Spec => [](TypeOK /\ AcknowledgedIsDurable /\ AcknowledgedIsThere /\ OnlyOldIsRefused)
THEOREM Spec => RefinesDeltaEncoding /\ IsOpenedOrRefused

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverRefused == phase # "refused"
NeverAcceptsACopy == rollbacks > 0 => phase # "running"
NothingIsLost == phase = "reading" /\ rollbacks = 0 => behind = <<>>
NothingElseSurvives == phase = "reading" => Len(Found) = acked

(* No record need be stored. *)
ARecordComes == <>(log # <<>> \/ phase = "refused")
=============================================================================
