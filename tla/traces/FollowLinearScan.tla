-------------------------- MODULE FollowLinearScan --------------------------
(***************************************************************************)
(* Follows the events of the planner's scan through LinearScan. A line     *)
(* names the action that the code took and its result: the slot that a     *)
(* storage was given, the slot that was given back and by which storage.   *)
(* Sizes are given by their rank, since only their order matters.          *)
(***************************************************************************)
EXTENDS LinearScan

state == vars

FollowInit == Init

Follow(e) == \/ e.action = "Advance" /\ Advance /\ now' = e.step
             \/ e.action = "Expire" /\ \E s \in active : /\ slot[s] = e.slot
                                                         /\ death[s] = e.death
                                                         /\ Expire(s)
             \/ e.action = "Reuse" /\ Reuse(e.storage) /\ slot'[e.storage] = e.slot
             \/ e.action = "Open" /\ Open(e.storage) /\ slot'[e.storage] = e.slot

ModuleNext == Next

(* The planner reports at the end how many slots it opened. *)
Ends(e) == Waiting = {} /\ opened = e.slots
(* The actions of the module that could be taken now. *)
Allowed == {a \in {"Advance", "Expire", "Reuse", "Open"} :
              CASE a = "Advance" -> ENABLED Advance
                [] a = "Expire" -> \E s \in Storages : ENABLED Expire(s)
                [] a = "Reuse" -> \E s \in Storages : ENABLED Reuse(s)
                [] a = "Open" -> \E s \in Storages : ENABLED Open(s)}

=============================================================================
