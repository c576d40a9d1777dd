---------------------------- MODULE KeyRotation -----------------------------
(***************************************************************************)
(* A sealed log gets another key. It is written anew in a file beside it,  *)
(* which takes its name. The log and its anchor are two files, and no      *)
(* system renames both at once: so the anchor first states both logs, then *)
(* the new log takes the name, and then the anchor states that one alone.  *)
(* Each step is durable before the next. A process may be killed, and the  *)
(* machine may lose its power, at any place: the log that is found is one  *)
(* that the anchor states. A rotation that was interrupted is done again,  *)
(* with another file. The log that was there first is 0, its new files are *)
(* 1, 2 and so on. spec: MN5.13, MN5.16                                    *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANT Crashes    \* how often a process is killed, or power is lost

VARIABLES named,     \* the file to which the name of the log leads
          namedKept, \* the one to which it leads after a loss of power
          stated,    \* the files that the anchor states
          statedKept,\* those that it states after a loss of power
          copy,      \* the new file that is being written, or 0
          synced,    \* the files that are durable
          attempts,  \* new files so far
          phase,     \* "down", "running" or "ended"
          crashes    \* crashes so far

vars == <<named, namedKept, stated, statedKept, copy, synced, attempts, phase, crashes>>

(* Each crash may cost the new file that is being written, and the last attempt ends. *)
Attempts == Crashes + 1

Files == 0..Attempts

TypeOK == /\ named \in Files
          /\ namedKept \in Files
          /\ stated \subseteq Files
          /\ statedKept \subseteq Files
          /\ copy \in Files
          /\ synced \subseteq Files
          /\ attempts \in 0..Attempts
          /\ phase \in {"down", "running", "ended"}
          /\ crashes \in 0..Crashes

Init == /\ named = 0
        /\ namedKept = 0
        /\ stated = {0}
        /\ statedKept = {0}
        /\ copy = 0
        /\ synced = {0}
        /\ attempts = 0
        /\ phase = "down"
        /\ crashes = 0

-----------------------------------------------------------------------------

(* The log is opened, which makes both names durable. *)
Open == /\ phase = "down"
        /\ phase' = "running"
        /\ namedKept' = named
        /\ statedKept' = stated
        /\ UNCHANGED <<named, stated, copy, synced, attempts, crashes>>

(* A log that has the old key is written anew, *)
Write == /\ phase = "running"
         /\ named = 0
         /\ copy = 0
         /\ attempts < Attempts
         /\ attempts' = attempts + 1
         /\ copy' = attempts + 1
         /\ UNCHANGED <<named, namedKept, stated, statedKept, synced, phase, crashes>>

(* and synced. *)
SyncCopy == /\ phase = "running"
            /\ copy \notin synced
            /\ synced' = synced \cup {copy}
            /\ UNCHANGED <<named, namedKept, stated, statedKept, copy, attempts, phase, crashes>>

(* An anchor that states both takes the place of the old, *)
StateBoth == /\ phase = "running"
             /\ named = 0 /\ copy # 0
             /\ copy \in synced
             /\ stated # {named, copy}
             /\ stated' = {named, copy}
             /\ UNCHANGED <<named, namedKept, statedKept, copy, synced, attempts, phase, crashes>>

(* and its folder is synced. *)
SyncAnchor == /\ phase = "running"
              /\ statedKept # stated
              /\ statedKept' = stated
              /\ UNCHANGED <<named, namedKept, stated, copy, synced, attempts, phase, crashes>>

(* The new log takes the name, *)
Replace == /\ phase = "running"
           /\ named = 0 /\ copy # 0
           /\ stated = {0, copy}
           /\ statedKept = stated
           /\ named' = copy
           /\ UNCHANGED <<namedKept, stated, statedKept, copy, synced, attempts, phase, crashes>>

(* and the folder is synced. *)
SyncName == /\ phase = "running"
            /\ namedKept # named
            /\ namedKept' = named
            /\ UNCHANGED <<named, stated, statedKept, copy, synced, attempts, phase, crashes>>

(* An anchor that states the new log alone ends the rotation. *)
StateOne == /\ phase = "running"
            /\ named # 0
            /\ namedKept = named
            /\ stated' = {named}
            /\ phase' = "ended"
            /\ UNCHANGED <<named, namedKept, statedKept, copy, synced, attempts, crashes>>

(* The process is killed, *)
Kill == /\ phase = "running"
        /\ crashes < Crashes
        /\ crashes' = crashes + 1
        /\ phase' = "down"
        /\ copy' = 0
        /\ UNCHANGED <<named, namedKept, stated, statedKept, synced, attempts>>

(* or power is lost, and either of the names may be the durable one. *)
LosePower(hasName, hasAnchor) ==
    /\ crashes < Crashes
    /\ crashes' = crashes + 1
    /\ phase' = "down"
    /\ copy' = 0
    /\ named' = IF hasName THEN named ELSE namedKept
    /\ namedKept' = named'
    /\ stated' = IF hasAnchor THEN stated ELSE statedKept
    /\ statedKept' = stated'
    /\ UNCHANGED <<synced, attempts>>

Steps == Open \/ Write \/ SyncCopy \/ StateBoth \/ SyncAnchor \/ Replace \/ SyncName \/ StateOne

Next == Steps \/ Kill \/ \E hasName, hasAnchor \in BOOLEAN : LosePower(hasName, hasAnchor)

Spec == Init /\ [][Next]_vars /\ WF_vars(Steps)

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* The log that is found is durable. *)
NamedIsWhole == named \in synced

(* It is one that the anchor states, whose key opens it. *)
Opens == named \in stated

-----------------------------------------------------------------------------
(* Properties. *)

(* A rotation ends, and the anchor then states one log. *)
RotationEnds == phase = "down" ~> phase = "ended" /\ Cardinality(stated) = 1

THEOREM Spec => [](TypeOK /\ NamedIsWhole /\ Opens)
THEOREM Spec => RotationEnds

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

(* After a crash the log may have either key, and the anchor may state both. *)
OldAfterACrash == crashes > 0 /\ phase = "down" => named = 0
OneStatement == phase = "down" => Cardinality(stated) = 1

(* No process need be killed, and no power lost. *)
PowerIsLost == <>(crashes > 0)
=============================================================================
