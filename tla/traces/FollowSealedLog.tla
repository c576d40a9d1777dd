-------------------------- MODULE FollowSealedLog ---------------------------
(***************************************************************************)
(* Follows one sealed log through SealedLog, across the processes that     *)
(* wrote it. Vectors are not in an event log: all are 0. The bytes of the  *)
(* file are counted here: whatever is written is written at its end, and   *)
(* what an opening finds ends where some record or part of a segment did.  *)
(* Segments are numbered by the openings that began them.                  *)
(*                                                                         *)
(* A process that ends, however it does, is a crash that the next opening  *)
(* shows: what it found, and how much it cut off. A log that replaces      *)
(* another one has its records, and its own end; it may do so already      *)
(* where the process was killed next. An anchor of which the               *)
(* process died before it could say so is a line that the reader puts in,  *)
(* and so is what a log held before its events were logged.                *)
(*                                                                         *)
(* A log that was compacted ends: the one in its place is another.         *)
(*                                                                         *)
(* spec: MN7.1                                                             *)
(***************************************************************************)
EXTENDS SealedLog

VARIABLES bytes,  \* the bytes of the file
          ends,   \* where it could end: pairs of records and bytes
          aside   \* what has become of a new anchor: "none", "written", "synced", "over" (in place); or of the
                  \* log: "replaced"

layout == <<bytes, ends, aside>>
state == <<vars, layout>>

FollowInit == Init /\ bytes = 0 /\ ends = {<<0, 0>>} /\ aside = "none"

Written(e) == /\ phase = "running"
              /\ e.offset = bytes
              /\ bytes' = bytes + e.length
              /\ ends' = ends \cup {<<Len(log'), bytes'>>}
              /\ UNCHANGED aside

(* A new anchor is for what is durable, of which the last was written by this opening. *)
OfAnchor(e) == durable > 0 /\ e.records = durable /\ e.segment = log[durable].opening

(* The file ends where it once did. *)
CutTo(e) == /\ e.end \in {each[2] : each \in ends}
            /\ bytes' = e.end
            /\ ends' = {each \in ends : each[2] <= e.end}
            /\ aside' = "none"

(* The process that had the log is gone. *)
Gone(e) == LET found == IF e.isNew THEN durable ELSE e.records
           IN  /\ \E hasAnchor \in BOOLEAN : Crash(found, found, ~e.isNew, hasAnchor)
               /\ renamed'.records = e.anchored
               /\ <<e.records, e.end>> \in ends
               /\ e.size <= bytes \/ <<e.records, e.size>> \in ends
               /\ CutTo(e)

(* What an opening found. *)
Finds(e) == /\ Open
            /\ phase' = "reading"
            /\ Len(disk) = e.records
            /\ bytes = e.end
            /\ e.end + e.dropped = e.size
            /\ renamed.records = e.anchored
            /\ e.isNew => ~named
            /\ e.segment = IF e.records = 0 THEN 0 ELSE disk[e.records].opening
            /\ UNCHANGED layout

Follow(e) ==
    \/ e.action = "Crash" /\ Gone(e)
    \/ e.action = "Open" /\ Finds(e)
    \/ e.action = "ReadBack" /\ ReadBack /\ UNCHANGED layout
    \/ e.action = "Opened" /\ Opened /\ UNCHANGED layout
    \/ e.action = "Segment" /\ UNCHANGED vars /\ e.first = Len(log) /\ e.segment = opening /\ Written(e)
    \/ e.action = "Store" /\ Store(0) /\ e.record = Len(log') /\ e.segment = opening /\ Written(e)
    \/ /\ e.action = "SyncLog"
       /\ e.records = Len(log)
       /\ SyncLog \/ (phase = "running" /\ durable = Len(log) /\ UNCHANGED vars)
       /\ UNCHANGED layout
    \/ /\ e.action = "WriteAside" /\ aside = "none" /\ OfAnchor(e) /\ aside' = "written"
       /\ UNCHANGED <<vars, bytes, ends>>
    \/ /\ e.action = "SyncAside" /\ aside = "written" /\ OfAnchor(e) /\ aside' = "synced"
       /\ UNCHANGED <<vars, bytes, ends>>
    \/ /\ e.action = "Rename" /\ aside = "synced" /\ OfAnchor(e) /\ Rename /\ aside' = "none"
       /\ UNCHANGED <<bytes, ends>>
    \/ /\ e.action = "WriteOver" /\ aside = "none" /\ OfAnchor(e) /\ aside' = "over"
       /\ UNCHANGED <<vars, bytes, ends>>
    \/ /\ e.action = "Overwrite" /\ aside = "over" /\ OfAnchor(e) /\ Rename /\ aside' = "none"
       /\ UNCHANGED <<bytes, ends>>
    \/ /\ e.action = "Keep" /\ aside = "none" /\ OfAnchor(e) /\ renamed.records = e.records
       /\ SyncFolder
       /\ UNCHANGED layout
    \/ /\ e.action = "Renamed" /\ aside \in {"synced", "over"}
       /\ Rename /\ renamed'.records = e.records /\ aside' = "none"
       /\ UNCHANGED <<bytes, ends>>
    \/ e.action = "SyncFolder" /\ (SyncFolder \/ (named /\ anchor = renamed /\ UNCHANGED vars)) /\ UNCHANGED layout
    \/ e.action = "AcknowledgeNext" /\ Acknowledge /\ UNCHANGED layout
    \/ e.action = "Acknowledge" /\ Acknowledge /\ acked' = e.records /\ acked' = anchor.records /\ UNCHANGED layout
    \/ /\ e.action = "Trailer" /\ e.records = Len(log) /\ acked = Len(log) /\ UNCHANGED vars /\ Written(e)
    \/ e.action = "Discard" /\ phase = "running" /\ e.records = Len(log) /\ e.end < bytes /\ UNCHANGED vars /\ CutTo(e)
    \/ /\ e.action = "Withdraw"
       /\ \E good \in 0..Len(log) : <<good, e.end>> \in ends /\ Withdraw(good, e.isRemoved)
       /\ CutTo(e)
    \/ /\ e.action = "Replace" /\ phase = "running" /\ e.records = Len(log) /\ acked = Len(log)
       /\ ends' = ends \cup {<<e.records, e.end>>}
       /\ aside = "none" /\ aside' = "replaced"
       /\ UNCHANGED <<vars, bytes>>
    \/ e.action = "Compact" /\ phase = "running" /\ acked = Len(log) /\ aside = "none" /\ UNCHANGED state
    \/ e.action = "Close" /\ e.end = bytes /\ UNCHANGED state
    \/ e.action = "Fail" /\ UNCHANGED state

(* A sync of what is synced already, and what has no place in the module, changes nothing in it. *)
ModuleNext == Next \/ UNCHANGED vars

Ends(e) == TRUE

(* The actions of the module that could be taken now. *)
Allowed == {a \in {"Open", "ReadBack", "Opened", "Store", "SyncLog", "Rename", "SyncFolder", "Acknowledge"} :
              CASE a = "Open" -> ENABLED Open
                [] a = "ReadBack" -> ENABLED ReadBack
                [] a = "Opened" -> ENABLED Opened
                [] a = "Store" -> ENABLED Store(0)
                [] a = "SyncLog" -> ENABLED SyncLog
                [] a = "Rename" -> ENABLED Rename
                [] a = "SyncFolder" -> ENABLED SyncFolder
                [] a = "Acknowledge" -> ENABLED Acknowledge}

=============================================================================
