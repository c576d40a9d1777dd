--------------------------- MODULE FollowZeroing ----------------------------
(***************************************************************************)
(* Follows the executions of one applied plan, in one arena that is        *)
(* reused, through Zeroing. At a birth the log states whether the runtime  *)
(* zeroed the bytes, and what it then found in memory. What the caller     *)
(* does is not logged: that it loads its parameters before the first batch *)
(* and writes what is born are lines that the reader of the log puts in.   *)
(***************************************************************************)
EXTENDS Zeroing

state == vars

FollowInit == Init

Follow(e) == \/ e.action = "Apply" /\ Apply
             \/ e.action = "Load" /\ Load
             \/ e.action = "Begin" /\ Begin
             \/ /\ e.action = "Bear"
                /\ e.storage \in Storages
                /\ Bear(e.storage)
                /\ e.zeroed <=> ~fresh
                /\ e.is_zero <=> content'[slot[e.storage]] = 0
             \/ e.action = "Write" /\ e.storage \in Storages /\ Write(e.storage)
             \/ e.action = "Proceed" /\ Proceed /\ at' = e.step
             \/ e.action = "End" /\ End

ModuleNext == Next

Ends(e) == TRUE
(* The actions of the module that could be taken now. *)
Allowed == {a \in {"Apply", "Load", "Begin", "Bear", "Write", "Proceed", "End"} :
              CASE a = "Apply" -> ENABLED Apply
                [] a = "Load" -> ENABLED Load
                [] a = "Begin" -> ENABLED Begin
                [] a = "Bear" -> \E s \in Storages : ENABLED Bear(s)
                [] a = "Write" -> \E s \in Storages : ENABLED Write(s)
                [] a = "Proceed" -> ENABLED Proceed
                [] a = "End" -> ENABLED End}

=============================================================================
