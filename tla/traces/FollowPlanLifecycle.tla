------------------------ MODULE FollowPlanLifecycle -------------------------
(***************************************************************************)
(* Follows a run through PlanLifecycle, across the processes that it took. *)
(* Plans are numbered in the order in which the log first names them, and  *)
(* each fits its own shape. The log numbers commits, and so does this: a   *)
(* plan is committed when it is applied and at the end of each iteration,  *)
(* and a run that is restored goes on with the number of its checkpoint.   *)
(* A plan that takes another's place is asked for by its own shape, and    *)
(* goes on with the old one's number.                                      *)
(* A process that ends, ends like one that crashes: what was in memory is  *)
(* lost. That a file was damaged is logged by the test that damaged it.    *)
(***************************************************************************)
EXTENDS PlanLifecycle

VARIABLES sealed,  \* commits so far
          aside,   \* those in the checkpoint that is being written
          kept     \* those in the checkpoint

commits == <<sealed, aside, kept>>
state == <<vars, commits>>

FollowInit == Init /\ sealed = 0 /\ aside = 0 /\ kept = 0

Count(n) == sealed' = n /\ UNCHANGED <<aside, kept>>

Follow(e) == \/ e.action = "Plan" /\ e.plan \in Shapes /\ Plan(e.plan) /\ Count(0)
             \/ e.action = "Restore" /\ Restore /\ disk.hash = e.plan /\ kept = e.t /\ Count(e.t)
             \/ e.action = "RestoreDamaged" /\ Restore /\ Count(kept)
             \/ e.action = "RefuseDamaged" /\ RefuseDamaged /\ UNCHANGED commits
             \/ e.action = "Apply" /\ Apply /\ loaded.hash = e.plan /\ UNCHANGED commits
             \/ e.action = "Zero" /\ Zero /\ Count(sealed + 1) /\ sealed' = e.t
             \/ e.action = "Ask" /\ e.shape \in Shapes /\ Ask(e.shape) /\ UNCHANGED commits
             \/ e.action = "Begin" /\ Begin /\ sealed = e.t /\ UNCHANGED commits
             \/ e.action = "Replan" /\ Replan /\ loaded.hash = e.old /\ loaded'.hash = e.plan /\ sealed = e.t
                                    /\ UNCHANGED commits
             \/ e.action = "StandBy" /\ StandBy /\ loaded'.hash = e.plan /\ UNCHANGED commits
             \/ e.action = "Finish" /\ Finish /\ Count(sealed + 1) /\ sealed' = e.t
             \/ e.action = "WriteAside" /\ WriteAside /\ sealed = e.t /\ aside' = sealed /\ UNCHANGED <<sealed, kept>>
             \/ e.action = "Sync" /\ Sync /\ aside = e.t /\ UNCHANGED commits
             \/ e.action = "Rename" /\ Rename /\ aside = e.t /\ kept' = aside /\ UNCHANGED <<sealed, aside>>
             \/ e.action = "Crash" /\ Crash /\ UNCHANGED commits
             \/ e.action = "Damage" /\ e.plan \in Shapes /\ Damage(e.plan) /\ UNCHANGED commits

ModuleNext == Next

Ends(e) == TRUE
(* The actions of the module that could be taken now. *)
Allowed == {a \in {"Plan", "Restore", "RefuseDamaged", "Apply", "Zero", "Ask", "Begin", "Replan", "StandBy", "Finish",
                   "WriteAside", "Sync", "Rename", "Crash", "Damage"} :
              CASE a = "Plan" -> \E plan \in Shapes : ENABLED Plan(plan)
                [] a = "Restore" -> ENABLED Restore
                [] a = "RefuseDamaged" -> ENABLED RefuseDamaged
                [] a = "Apply" -> ENABLED Apply
                [] a = "Zero" -> ENABLED Zero
                [] a = "Ask" -> \E shape \in Shapes : ENABLED Ask(shape)
                [] a = "Begin" -> ENABLED Begin
                [] a = "Replan" -> ENABLED Replan
                [] a = "StandBy" -> ENABLED StandBy
                [] a = "Finish" -> ENABLED Finish
                [] a = "WriteAside" -> ENABLED WriteAside
                [] a = "Sync" -> ENABLED Sync
                [] a = "Rename" -> ENABLED Rename
                [] a = "Crash" -> ENABLED Crash
                [] a = "Damage" -> \E plan \in Shapes : ENABLED Damage(plan)}

=============================================================================
