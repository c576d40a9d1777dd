--------------------------- MODULE PlanLifecycle ----------------------------
(***************************************************************************)
(* A plan from its making to its end, across replans, crashes and damaged  *)
(* files. A plan fits every shape up to its envelope, and is known by it;  *)
(* its hash is computed again wherever it comes from a file, and nothing   *)
(* is applied whose hash differs. Arenas are zeroed before they are used.  *)
(* Between two iterations there is a safepoint: there a shape outside the  *)
(* envelope is answered by a new plan (or refused, as the policy says),    *)
(* the change is traced, and a checkpoint may be written: under another    *)
(* name, synced, renamed. Until the new plan is at work the old one stands *)
(* by, for the case that memory cannot be had. A crash may come between    *)
(* any two actions.                                                        *)
(*                                                                         *)
(* spec: P1.4, V1.8, U8.4, U8.6                                            *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS MaxShape,    \* shapes, and so envelopes and plans, are 1..MaxShape
          Iterations,  \* how many iterations are asked for
          Crashes      \* how many crashes there may be

VARIABLES policy,      \* what is done about a shape outside of the envelope
          phase,       \* where the run stands
          loaded,      \* the plan in memory and the hash that it states
          former,      \* the one that stands by while a new one is applied
          asked,       \* the shape of the iteration to come, 0 for none
          iteration,   \* iterations that have ended since the start
          traced,      \* the hash of the plan that is in force by the trace
          partial,     \* the checkpoint that is being written, under another name
          disk,        \* the checkpoint
          committed,   \* the last iteration that was reported to the caller as safe
          crashes,     \* crashes so far
          damaged      \* has the checkpoint been damaged?

memory == <<phase, loaded, former, asked, iteration>>
files == <<partial, disk, committed>>
world == <<crashes, damaged>>
vars == <<policy, memory, traced, files, world>>

Shapes == 1..MaxShape
Hash(plan) == plan   \* no two plans have one hash

NoPlan == [plan |-> 0, hash |-> 0]
None == [plan |-> 0, hash |-> 0, iteration |-> 0, whole |-> FALSE]
File(plan, at, whole) == [plan |-> plan, hash |-> Hash(plan), iteration |-> at, whole |-> whole]
Files == [plan : 0..MaxShape, hash : 0..MaxShape, iteration : 0..Iterations, whole : BOOLEAN]

Phases == {"down", "planned", "applied", "safepoint", "running", "refused"}

TypeOK == /\ policy \in {"ABORT", "REPLAN_AT_SAFEPOINT"}
          /\ phase \in Phases
          /\ loaded \in [plan : 0..MaxShape, hash : 0..MaxShape]
          /\ former \in [plan : 0..MaxShape, hash : 0..MaxShape]
          /\ asked \in 0..MaxShape
          /\ iteration \in 0..Iterations
          /\ traced \in 0..MaxShape
          /\ partial \in Files
          /\ disk \in Files
          /\ committed \in 0..Iterations
          /\ crashes \in 0..Crashes
          /\ damaged \in BOOLEAN

Init == /\ policy \in {"ABORT", "REPLAN_AT_SAFEPOINT"}
        /\ phase = "down"
        /\ loaded = NoPlan
        /\ former = NoPlan
        /\ asked = 0
        /\ iteration = 0
        /\ traced = 0
        /\ partial = None
        /\ disk = None
        /\ committed = 0
        /\ crashes = 0
        /\ damaged = FALSE

-----------------------------------------------------------------------------

(* Without a checkpoint a plan is made for some envelope. *)
Plan(envelope) == /\ phase = "down"
                  /\ disk = None
                  /\ loaded' = [plan |-> envelope, hash |-> Hash(envelope)]
                  /\ phase' = "planned"
                  /\ traced' = Hash(envelope)
                  /\ UNCHANGED <<policy, former, asked, iteration, files, world>>

(* With one, the plan and the iteration are those of the checkpoint. *)
Restore == /\ phase = "down"
           /\ disk # None
           /\ loaded' = [plan |-> disk.plan, hash |-> disk.hash]
           /\ iteration' = disk.iteration
           /\ phase' = "planned"
           /\ traced' = disk.hash
           /\ UNCHANGED <<policy, former, asked, files, world>>

(* A plan is applied when its hash recomputes: its arenas are mapped. *)
Apply == /\ phase = "planned"
         /\ Hash(loaded.plan) = loaded.hash
         /\ phase' = "applied"
         /\ UNCHANGED <<policy, loaded, former, asked, iteration, traced, files, world>>

(* One whose hash does not is refused. *)
RefuseDamaged == /\ phase = "planned"
                 /\ Hash(loaded.plan) # loaded.hash
                 /\ phase' = "refused"
                 /\ UNCHANGED <<policy, loaded, former, asked, iteration, traced, files, world>>

(* What was mapped is zeroed before anything runs. *)
Zero == /\ phase = "applied"
        /\ phase' = "safepoint"
        /\ former' = NoPlan
        /\ UNCHANGED <<policy, loaded, asked, iteration, traced, files, world>>

(* The user comes with the shape of the next iteration. *)
Ask(shape) == /\ phase = "safepoint"
              /\ asked = 0
              /\ iteration < Iterations
              /\ asked' = shape
              /\ UNCHANGED <<policy, phase, loaded, former, iteration, traced, files, world>>

(* A shape inside the envelope runs under the plan that is applied. *)
Begin == /\ phase = "safepoint"
         /\ asked \in 1..loaded.plan
         /\ partial = None
         /\ phase' = "running"
         /\ UNCHANGED <<policy, loaded, former, asked, iteration, traced, files, world>>

(* Outside of it, a new plan takes the old one's place, before the iteration runs. *)
Replan == /\ phase = "safepoint"
          /\ policy = "REPLAN_AT_SAFEPOINT"
          /\ asked > loaded.plan
          /\ partial = None
          /\ loaded' = [plan |-> asked, hash |-> Hash(asked)]
          /\ former' = loaded
          /\ phase' = "planned"
          /\ traced' = Hash(asked)
          /\ UNCHANGED <<policy, asked, iteration, files, world>>

(* Where the new plan's memory cannot be had, the old plan is in force again, *)
(* and the caller gets a refusal.                                          *)
StandBy == /\ phase \in {"planned", "applied"}
           /\ former # NoPlan
           /\ loaded' = former
           /\ former' = NoPlan
           /\ traced' = former.hash
           /\ phase' = "safepoint"
           /\ asked' = 0
           /\ UNCHANGED <<policy, iteration, files, world>>

(* Or it is refused. *)
RefuseShape == /\ phase = "safepoint"
               /\ policy = "ABORT"
               /\ asked > loaded.plan
               /\ phase' = "refused"
               /\ UNCHANGED <<policy, loaded, former, asked, iteration, traced, files, world>>

(* An iteration ends at the next safepoint. *)
Finish == /\ phase = "running"
          /\ phase' = "safepoint"
          /\ iteration' = iteration + 1
          /\ asked' = 0
          /\ UNCHANGED <<policy, loaded, former, traced, files, world>>

-----------------------------------------------------------------------------
(* A checkpoint of a new iteration, or of a new plan before its first one, in *)
(* three actions between which the machine may stop.                       *)

WriteAside == /\ phase = "safepoint"
              /\ partial = None
              /\ committed < iteration \/ loaded.hash # disk.hash
              /\ partial' = File(loaded.plan, iteration, FALSE)
              /\ UNCHANGED <<policy, memory, traced, disk, committed, world>>

Sync == /\ phase = "safepoint"
        /\ partial # None
        /\ ~partial.whole
        /\ partial' = [partial EXCEPT !.whole = TRUE]
        /\ UNCHANGED <<policy, memory, traced, disk, committed, world>>

Rename == /\ phase = "safepoint"
          /\ partial.whole
          /\ disk' = partial
          /\ damaged' = FALSE
          /\ partial' = None
          /\ committed' = partial.iteration
          /\ UNCHANGED <<policy, memory, traced, crashes>>

-----------------------------------------------------------------------------
(* What the environment does. *)

(* Everything in memory is lost, and so is a file that was not yet renamed. *)
Crash == /\ phase \notin {"down", "refused"}
         /\ crashes < Crashes
         /\ crashes' = crashes + 1
         /\ phase' = "down"
         /\ loaded' = NoPlan
         /\ former' = NoPlan
         /\ asked' = 0
         /\ iteration' = 0
         /\ traced' = 0
         /\ partial' = None
         /\ UNCHANGED <<policy, disk, committed, damaged>>

(* A checkpoint is damaged: its plan is another one, under the old hash. *)
Damage(plan) == /\ phase = "down"
                /\ disk # None
                /\ ~damaged
                /\ plan # disk.plan
                /\ disk' = [disk EXCEPT !.plan = plan]
                /\ damaged' = TRUE
                /\ UNCHANGED <<policy, memory, traced, partial, committed, crashes>>

-----------------------------------------------------------------------------

System == \/ Restore \/ Apply \/ RefuseDamaged \/ Zero \/ Begin \/ Replan \/ RefuseShape \/ Finish
          \/ WriteAside \/ Sync \/ Rename
          \/ \E envelope \in Shapes : Plan(envelope)

World == \/ Crash \/ StandBy
         \/ \E shape \in Shapes : Ask(shape) \/ Damage(shape)

Next == System \/ World

Fairness == WF_vars(System)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

InForce == phase \in {"applied", "safepoint", "running"}

(* No plan is in force whose hash does not recompute. *)
HashIsChecked == InForce => Hash(loaded.plan) = loaded.hash

(* An iteration runs only under a plan that fits its shape. *)
FitsItsShape == phase = "running" => asked \in 1..loaded.plan

(* The trace names the plan that is in force. *)
TraceIsCurrent == InForce => traced = loaded.hash

(* The plan that stands by is a good one, and is needed no more once another is at work. *)
FormerIsGood == former # NoPlan => /\ phase \in {"planned", "applied"}
                                   /\ Hash(former.plan) = former.hash

(* A checkpoint is whole. *)
CheckpointIsWhole == disk # None => disk.whole

(* What was reported to the caller as safe is in the checkpoint. *)
CommittedIsDurable == committed <= disk.iteration

-----------------------------------------------------------------------------
(* Properties. *)

(* A plan takes another's place between iterations alone, or gives it back. *)
ChangesAtSafepoint ==
    [][loaded' # loaded => phase \in {"down", "safepoint"} \/ phase' = "down" \/ loaded' = former]_vars

(* After it was applied, and before anything runs, memory is zeroed; that of the old plan was. *)
ZeroedBeforeUse ==
    [][phase' \in {"safepoint", "running"} =>
          phase \in {"applied", "safepoint", "running"} \/ loaded' = former]_vars

(* A new checkpoint holds the plan that is in force. *)
CheckpointsTheCurrentPlan == [][disk' # disk /\ ~damaged' => disk'.hash = loaded.hash]_vars

(* After a crash the run is ready again, or refuses a damaged checkpoint. *)
CrashIsSurvived == phase = "down" ~> phase \in {"safepoint", "refused"}

(* A request for an iteration is granted or refused, if no crash comes between. *)
AskedIsAnswered == asked # 0 ~> asked = 0 \/ phase = "refused"

THEOREM Spec => [](/\ TypeOK /\ HashIsChecked /\ FitsItsShape /\ TraceIsCurrent /\ FormerIsGood
                   /\ CheckpointIsWhole /\ CommittedIsDurable)
THEOREM Spec => ChangesAtSafepoint /\ ZeroedBeforeUse /\ CheckpointsTheCurrentPlan
THEOREM Spec => CrashIsSurvived /\ AskedIsAnswered

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverReplansAfterRestore == ~(crashes > 0 /\ phase = "running" /\ loaded.hash # disk.hash /\ disk # None)
NeverStandsBy == [][~(phase = "applied" /\ phase' = "safepoint" /\ loaded' # loaded)]_vars
NeverDamageIsMet == ~(damaged /\ phase = "refused")

(* The caller need not ask for anything. *)
SomeoneAsks == <>(asked # 0 \/ phase = "refused")
=============================================================================
