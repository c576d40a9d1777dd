----------------------------- MODULE FollowPools ----------------------------
(***************************************************************************)
(* Follows the events by which the planner gives out pools through Pools.  *)
(* A line names the action that the code took and its result: the pool     *)
(* that a storage joined or opened. Sizes are given by their rank, since   *)
(* only their order matters; names are the order of making.                *)
(***************************************************************************)
EXTENDS Pools

state == vars

FollowInit == Empty

Follow(e) == \/ e.action = "Join" /\ Join(e.storage) /\ pool'[e.storage] = e.pool
             \/ e.action = "Open" /\ Open(e.storage) /\ pool'[e.storage] = e.pool

ModuleNext == Next

(* The planner reports at the end how many pools it opened. *)
Ends(e) == Waiting = {} /\ Cardinality(Opened) = e.pools
(* The actions of the module that could be taken now. *)
Allowed == {a \in {"Join", "Open"} :
              CASE a = "Join" -> \E s \in Storages : ENABLED Join(s)
                [] a = "Open" -> \E s \in Storages : ENABLED Open(s)}

=============================================================================
