---------------------------- MODULE FollowQuota -----------------------------
(***************************************************************************)
(* Follows one plan that was applied through Quota: its client is 1, its   *)
(* arenas are numbered, bytes are counted in the largest unit that divides *)
(* them all. What the ledger says is compared wherever the log states it.  *)
(***************************************************************************)
EXTENDS Quota

state == vars

FollowInit == Init

Follow(e) == \/ /\ e.action = "Ask"
                /\ Ask(1, e.need)
                /\ e.granted <=> phase'[1] = "mapping"
             \/ e.action = "Map" /\ e.arena \in Arenas /\ Map(1, e.arena)
             \/ e.action = "Refuse" /\ Refuse(1)
             \/ e.action = "Unmap" /\ e.arena \in Arenas /\ Unmap(1, e.arena)
             \/ e.action = "Fail" /\ Fail(1) /\ failures' = e.failures
             \/ e.action = "Commit" /\ Commit(1) /\ allocated' = e.allocated
             \/ e.action = "Release" /\ Release(1)

(* Next with the sizes that were asked for in place of all that might be. *)
ModuleNext == \/ Ask(1, size'[1]) /\ size'[1] \in [Arenas -> 0..MaxBytes]
              \/ \E a \in Arenas : Map(1, a) \/ Unmap(1, a)
              \/ Refuse(1) \/ Fail(1) \/ Commit(1) \/ Release(1)

(* Where a plan was refused at once, the ledger has counted that. *)
Ends(e) == phase[1] = e.phase /\ failures = e.failures
(* The actions of the module that could be taken now; any idle client may ask. *)
Allowed == {a \in {"Ask", "Map", "Refuse", "Unmap", "Fail", "Commit", "Release"} :
              CASE a = "Ask" -> phase[1] = "idle"
                [] a = "Map" -> \E x \in Arenas : ENABLED Map(1, x)
                [] a = "Refuse" -> ENABLED Refuse(1)
                [] a = "Unmap" -> \E x \in Arenas : ENABLED Unmap(1, x)
                [] a = "Fail" -> ENABLED Fail(1)
                [] a = "Commit" -> ENABLED Commit(1)
                [] a = "Release" -> ENABLED Release(1)}

=============================================================================
