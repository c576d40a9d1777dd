----------------------------- MODULE Compaction -----------------------------
(***************************************************************************)
(* A store whose vectors are deleted, which is then written anew without   *)
(* them. A log is a list of records: a vector is put, or it is deleted. A  *)
(* record has the opening that wrote it. The anchor states a log by its    *)
(* name, how many records were acknowledged, and the opening of the last.  *)
(*                                                                         *)
(* A compaction copies the vectors that are left to a new log, and syncs   *)
(* it. The anchor then states both logs, the copy takes the name, and the  *)
(* anchor states the copy. Each step is durable before the next. An        *)
(* opening takes a log that the anchor states, and leaves an anchor about  *)
(* that one. A snapshot is a copy with an anchor of its own.               *)
(*                                                                         *)
(* Processes are killed and power is lost at any place. An attacker keeps  *)
(* every state of both logs, and puts any of them in the place of either,  *)
(* but cannot write where the anchors are. Another process reads the       *)
(* anchor, and then the log. spec: MN11.1, MN11.2, MN11.4 to MN11.9        *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Most,     \* how many vectors are put
          Copies,   \* how many copies are made
          Crashes,  \* how often a process is killed, or power is lost
          Attacks,  \* how often an attacker keeps a log, and how often he puts one back
          Readers   \* how often another process reads

VARIABLES disk,       \* the log under the name of the store
          before,     \* the one under its name after a loss of power, or NoLog if that is the same
          durable,    \* how many of its records were synced in this opening
          stated,     \* what the anchor states, of one log or two
          statedKept, \* what it states after a loss of power
          copy,       \* the new log of a compaction, or NoLog
          isSynced,   \* is the copy durable?
          copies,     \* copies so far
          snapshot,   \* the log of a snapshot, or NoLog
          ofSnapshot, \* what the anchor of the snapshot states
          kept,       \* the vectors that the snapshot was given
          past,       \* states of logs that the attacker has
          put,        \* vectors whose put was acknowledged
          asked,      \* vectors whose deletion was asked for
          gone,       \* vectors whose deletion was acknowledged
          erased,     \* vectors that were deleted before a compaction that returned
          reader,     \* what another process has read, and what it must see
          opening,    \* the number of this opening, or of the last
          phase,      \* "down", "open" or "refused"
          crashes,    \* crashes so far
          attacks     \* files that were replaced

files == <<disk, before, durable, copy, isSynced, copies>>
anchors == <<stated, statedKept>>
ofTheSnapshot == <<snapshot, ofSnapshot, kept>>
told == <<put, asked, gone, erased>>
vars == <<files, anchors, ofTheSnapshot, told, past, reader, opening, phase, crashes, attacks>>

Numbers == 1..Most
NoLog == [log |-> 0, records |-> <<>>]
NoReader == [stated |-> {}, needs |-> {}, gone |-> {}, sees |-> {}, phase |-> "none", reads |-> 0]

Put(n) == [vector |-> n, isDeleted |-> FALSE, opening |-> opening]
Deletion(n) == [vector |-> n, isDeleted |-> TRUE, opening |-> opening]

(* The vectors whose bytes are in a log, those that it deletes, and those that it has. *)
Bytes(l) == {l.records[i].vector : i \in {j \in DOMAIN l.records : ~l.records[j].isDeleted}}
Deleted(l) == {l.records[i].vector : i \in {j \in DOMAIN l.records : l.records[j].isDeleted}}
Has(l) == Bytes(l) \ Deleted(l)

(* What an anchor states of a log with this many records. *)
Statement(l, count) == [log |-> l.log, records |-> count,
                        opening |-> IF count = 0 THEN 0 ELSE l.records[count].opening]

Prefix(l, count) == [l EXCEPT !.records = SubSeq(l.records, 1, count)]

TypeOK == /\ disk.log \in 0..(Copies + 1)
          /\ durable \in 0..Len(disk.records)
          /\ Cardinality(stated) \in 1..2
          /\ Cardinality(statedKept) \in 1..2
          /\ copies \in 0..Copies
          /\ UNION {put, asked, gone, erased, kept} \subseteq Numbers
          /\ phase \in {"down", "open", "refused"}
          /\ crashes \in 0..Crashes
          /\ attacks \in 0..Attacks

Init == /\ disk = [log |-> 1, records |-> <<>>]
        /\ before = NoLog
        /\ durable = 0
        /\ stated = {Statement(disk, 0)}
        /\ statedKept = stated
        /\ copy = NoLog
        /\ isSynced = FALSE
        /\ copies = 0
        /\ snapshot = NoLog
        /\ ofSnapshot = Statement(NoLog, 0)
        /\ kept = {}
        /\ past = {}
        /\ put = {}
        /\ asked = {}
        /\ gone = {}
        /\ erased = {}
        /\ reader = NoReader
        /\ opening = 0
        /\ phase = "down"
        /\ crashes = 0
        /\ attacks = 0

-----------------------------------------------------------------------------
(* Opening. *)

(* The log has the records that a statement is about. *)
IsOf(l, s) == /\ l.log = s.log
              /\ s.records <= Len(l.records)
              /\ s.records > 0 => l.records[s.records].opening = s.opening

(* A log that the anchor states is taken, and the anchor is about it from then on. *)
Open == /\ phase = "down"
        /\ IF \E s \in stated : IsOf(disk, s)
           THEN /\ phase' = "open"
                /\ opening' = opening + 1
                /\ durable' = Len(disk.records)
                /\ stated' = {s \in stated : IsOf(disk, s)}
                /\ statedKept' = stated'
                /\ before' = NoLog
           ELSE /\ phase' = "refused"
                /\ UNCHANGED <<opening, durable, anchors, before>>
        /\ UNCHANGED <<disk, copy, isSynced, copies, ofTheSnapshot, told, past, reader, crashes, attacks>>

-----------------------------------------------------------------------------
(* Putting and deleting: while no copy is made. *)

Write(record) == /\ disk' = [disk EXCEPT !.records = Append(disk.records, record)]
                 /\ UNCHANGED <<before, durable, anchors, copy, isSynced, copies, ofTheSnapshot, put, gone, erased,
                                past, reader, opening, phase, crashes, attacks>>

(* A vector that was never put has the next number. *)
Add(n) == /\ phase = "open"
          /\ copy = NoLog
          /\ n \notin Bytes(disk) \cup erased \cup asked
          /\ \A m \in 1..(n - 1) : m \in Bytes(disk) \cup erased \cup asked
          /\ Write(Put(n))
          /\ UNCHANGED asked

Delete(n) == /\ phase = "open"
             /\ copy = NoLog
             /\ n \in Has(disk)
             /\ Write(Deletion(n))
             /\ asked' = asked \cup {n}

SyncLog == /\ phase = "open"
           /\ copy = NoLog
           /\ durable < Len(disk.records)
           /\ durable' = Len(disk.records)
           /\ UNCHANGED <<disk, before, anchors, copy, isSynced, copies, ofTheSnapshot, told, past,
                          reader, opening,
                          phase, crashes, attacks>>

(* The anchor is replaced by one about what is durable, *)
State == /\ phase = "open"
         /\ copy = NoLog
         /\ stated # {Statement(disk, durable)}
         /\ stated' = {Statement(disk, durable)}
         /\ UNCHANGED <<files, statedKept, ofTheSnapshot, told, past, reader, opening, phase, crashes, attacks>>

(* and its folder is synced. *)
SyncAnchor == /\ phase = "open"
              /\ statedKept # stated
              /\ statedKept' = stated
              /\ UNCHANGED <<files, stated, ofTheSnapshot, told, past, reader, opening, phase, crashes, attacks>>

(* What a durable anchor states is acknowledged. *)
Acknowledge == /\ phase = "open"
               /\ copy = NoLog
               /\ statedKept = stated
               /\ LET acknowledged == Prefix(disk, durable)
                  IN  /\ stated = {Statement(disk, durable)}
                      /\ put' = put \cup Bytes(acknowledged)
                      /\ gone' = gone \cup Deleted(acknowledged)
               /\ <<put, gone>> # <<put', gone'>>
               /\ UNCHANGED <<files, anchors, ofTheSnapshot, asked, erased, past, reader, opening,
                              phase, crashes, attacks>>

-----------------------------------------------------------------------------
(* Compaction. *)

RECURSIVE InOrder(_)
InOrder(vectors) == IF vectors = {} THEN <<>>
                    ELSE LET n == CHOOSE n \in vectors : \A m \in vectors : n <= m
                         IN  <<Put(n)>> \o InOrder(vectors \ {n})

(* The vectors that are left, in a log with a new name. *)
CopyOf(l) == [log |-> copies + 2, records |-> InOrder(Has(l))]

(* All is acknowledged, and a vector was deleted. *)
WriteCopy == /\ phase = "open"
             /\ copy = NoLog
             /\ copies < Copies
             /\ Deleted(disk) # {}
             /\ durable = Len(disk.records)
             /\ stated = {Statement(disk, durable)}
             /\ statedKept = stated
             /\ copy' = CopyOf(disk)
             /\ copies' = copies + 1
             /\ isSynced' = FALSE
             /\ UNCHANGED <<disk, before, durable, anchors, ofTheSnapshot, told, past, reader,
                            opening, phase, crashes,
                            attacks>>

SyncCopy == /\ phase = "open"
            /\ copy # NoLog
            /\ ~isSynced
            /\ isSynced' = TRUE
            /\ UNCHANGED <<disk, before, durable, anchors, copy, copies, ofTheSnapshot, told, past,
                           reader, opening,
                           phase, crashes, attacks>>

OfCopy == Statement(copy, Len(copy.records))

StateBoth == /\ phase = "open"
             /\ copy # NoLog /\ disk # copy
             /\ isSynced
             /\ Cardinality(stated) = 1
             /\ stated' = stated \cup {OfCopy}
             /\ UNCHANGED <<files, statedKept, ofTheSnapshot, told, past, reader, opening, phase,
                            crashes, attacks>>

(* The copy takes the name, *)
Replace == /\ phase = "open"
           /\ copy # NoLog /\ disk # copy
           /\ OfCopy \in stated
           /\ statedKept = stated
           /\ disk' = copy
           /\ before' = disk
           /\ durable' = Len(copy.records)
           /\ UNCHANGED <<anchors, copy, isSynced, copies, ofTheSnapshot, told, past, reader,
                          opening, phase, crashes,
                          attacks>>

(* and the folder is synced. *)
SyncName == /\ phase = "open"
            /\ before # NoLog
            /\ before' = NoLog
            /\ UNCHANGED <<disk, durable, anchors, copy, isSynced, copies, ofTheSnapshot, told,
                           past, reader, opening,
                           phase, crashes, attacks>>

StateOne == /\ phase = "open"
            /\ copy # NoLog /\ disk = copy
            /\ before = NoLog
            /\ stated # {OfCopy}
            /\ stated' = {OfCopy}
            /\ UNCHANGED <<files, statedKept, ofTheSnapshot, told, past, reader, opening, phase, crashes, attacks>>

Return == /\ phase = "open"
          /\ copy # NoLog /\ disk = copy
          /\ stated = {OfCopy}
          /\ statedKept = stated
          /\ copy' = NoLog
          /\ erased' = erased \cup gone
          /\ UNCHANGED <<disk, before, durable, isSynced, copies, anchors, ofTheSnapshot, put,
                         asked, gone, past, reader,
                         opening, phase, crashes, attacks>>

-----------------------------------------------------------------------------
(* A snapshot has what is durable, and an anchor of its own. *)
Snapshot == /\ phase = "open"
            /\ copy = NoLog
            /\ copies < Copies
            /\ snapshot = NoLog
            /\ durable = Len(disk.records) /\ durable > 0
            /\ snapshot' = CopyOf(disk)
            /\ copies' = copies + 1
            /\ ofSnapshot' = Statement(snapshot', Len(snapshot'.records))
            /\ kept' = Has(disk)
            /\ UNCHANGED <<disk, before, durable, copy, isSynced, anchors, told, past, reader,
                           opening, phase, crashes,
                           attacks>>

-----------------------------------------------------------------------------
(* Another process reads the anchor. It must see what was acknowledged before, *)
ReadAnchor == /\ reader.phase = "none"
              /\ reader.reads < Readers
              /\ past = {} /\ snapshot = NoLog
              /\ reader' = [stated |-> stated, needs |-> put, gone |-> gone, sees |-> {}, phase |-> "anchor",
                            reads |-> reader.reads + 1]
              /\ UNCHANGED <<files, anchors, ofTheSnapshot, told, past, opening, phase, crashes, attacks>>

(* and then the log; if it is none that the anchor stated, the process begins again. *)
ReadLog == /\ reader.phase = "anchor"
           /\ reader' = IF \E s \in reader.stated : IsOf(disk, s)
                        THEN [reader EXCEPT !.sees = Has(disk), !.phase = "log"]
                        ELSE NoReader
           /\ UNCHANGED <<files, anchors, ofTheSnapshot, told, past, opening, phase, crashes, attacks>>

-----------------------------------------------------------------------------
(* Crashes. *)

(* Power is lost: either name of two, either anchor of two, and what was synced with some of the rest. A process that
   is killed leaves the last name, the last anchor, and all that it wrote. *)
LosePower(hasName, hasAnchor, left) ==
    /\ crashes < Crashes
    /\ phase # "refused"
    /\ crashes' = crashes + 1
    /\ phase' = "down"
    /\ hasName \/ before # NoLog
    /\ LET found == IF hasName THEN disk ELSE before
           least == IF ~hasName THEN Len(before.records)
                    ELSE IF phase = "open" /\ (disk # copy \/ isSynced) THEN durable ELSE 0
       IN  /\ left \in least..Len(found.records)
           /\ disk' = Prefix(found, left)
    /\ before' = NoLog
    /\ stated' = IF hasAnchor THEN stated ELSE statedKept
    /\ statedKept' = stated'
    /\ copy' = NoLog
    /\ durable' = 0
    /\ reader' = NoReader
    /\ UNCHANGED <<isSynced, copies, ofTheSnapshot, told, past, opening, attacks>>

-----------------------------------------------------------------------------
(* What an attacker may do, who cannot write where the anchors are. *)

States == {disk, snapshot} \ {NoLog}

(* He keeps a log as it is now, once it is durable, *)
Keep == /\ reader.phase = "none"
        /\ phase = "open" /\ copy = NoLog /\ durable = Len(disk.records) /\ durable > 0
        /\ Cardinality(past) < Attacks
        /\ \E l \in States \ past : past' = past \cup {l}
        /\ UNCHANGED <<files, anchors, ofTheSnapshot, told, reader, opening, phase, crashes, attacks>>

(* and puts one in the place of the store, *)
PutBack(l) == /\ phase = "down"
              /\ attacks < Attacks
              /\ l # disk
              /\ attacks' = attacks + 1
              /\ disk' = l
              /\ before' = NoLog
              /\ UNCHANGED <<durable, copy, isSynced, copies, anchors, ofTheSnapshot, told, past,
                             reader, opening, phase, crashes>>

(* or of the snapshot. *)
PutInSnapshot(l) == /\ phase = "open" /\ copy = NoLog
                    /\ snapshot # NoLog
                    /\ attacks < Attacks
                    /\ l # snapshot
                    /\ attacks' = attacks + 1
                    /\ snapshot' = l
                    /\ UNCHANGED <<files, anchors, ofSnapshot, kept, told, past, reader, opening, phase, crashes>>

Next == \/ Open \/ SyncLog \/ State \/ SyncAnchor \/ Acknowledge
        \/ WriteCopy \/ SyncCopy \/ StateBoth \/ Replace \/ SyncName \/ StateOne \/ Return \/ Snapshot
        \/ ReadAnchor \/ ReadLog \/ Keep
        \/ \E n \in Numbers : Add(n) \/ Delete(n)
        \/ \E hasName, hasAnchor \in BOOLEAN, left \in 0..(2 * Most) : LosePower(hasName, hasAnchor, left)
        \/ \E l \in past : PutBack(l) \/ PutInSnapshot(l)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A store that only crashes have touched is never refused, *)
OnlyChangedIsRefused == phase = "refused" => attacks > 0

(* has what was acknowledged and not deleted, *)
AcknowledgedIsThere == phase = "open" => put \ asked \subseteq Has(disk)

(* not what was deleted, whatever an attacker puts in its place, *)
DeletedStaysDeleted == phase = "open" => Has(disk) \cap gone = {}

(* and none of its bytes after a compaction. *)
ErasedIsGone == phase = "open" => Bytes(disk) \cap erased = {}

(* A snapshot that is taken for one has the vectors that it was given. *)
SnapshotKeeps == snapshot # NoLog /\ IsOf(snapshot, ofSnapshot) => Has(snapshot) = kept

(* A reader sees what was acknowledged before it, and nothing that was deleted before it. *)
ReaderSees == reader.phase = "log" => /\ reader.needs \ asked \subseteq reader.sees
                                      /\ reader.sees \cap reader.gone = {}

THEOREM Spec => [](TypeOK /\ OnlyChangedIsRefused /\ AcknowledgedIsThere /\ DeletedStaysDeleted /\ ErasedIsGone
                     /\ SnapshotKeeps /\ ReaderSees)

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverRefused == phase # "refused"
OneStatement == phase = "down" => Cardinality(stated) = 1
NothingIsErased == erased = {}
BytesAreGoneAtOnce == phase = "open" => Bytes(disk) \cap gone = {}
ReaderSeesNoLess == reader.phase = "log" => reader.sees \subseteq Has(disk)
=============================================================================
