-------------------------- MODULE AliasReferences ---------------------------
(***************************************************************************)
(* Counting references at run time, and why a static lifetime will do.     *)
(* Several tensors share the bytes of one storage: a tensor and its views, *)
(* or an alias group. The documents count them: one more when a member is  *)
(* made, one less when it dies, and the bytes are given to another storage *)
(* only at zero. A plan has no counts: a storage lives from the first      *)
(* birth to the last death of its members. Both are run beside each other  *)
(* here, over every set of lifetimes: the static lifetime covers every     *)
(* moment at which a count is not zero.                                    *)
(*                                                                         *)
(* A result may be written over a member only if it is the only live one,  *)
(* not saved for backward, and no member will be read later. A count of    *)
(* one does not mean the last: a member may not have been made yet.        *)
(*                                                                         *)
(* spec: T2.1, T3.4, T3.6                                                  *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Count,     \* how many tensors there are; their names are 1..Count
          LastStep   \* steps are 0..LastStep

VARIABLES birth,     \* the first step of each tensor
          death,     \* its last step
          home,      \* the storage that it is a member of: 1 or 2
          saved,     \* tensors that backward will read
          at,        \* the step that runs
          live,      \* members that are made and not dead
          references,\* the count of each storage
          holder,    \* the storage that the bytes belong to now, 0 for none
          changed    \* tensors whose bytes were written over

given == <<birth, death, home, saved>>
vars == <<given, at, live, references, holder, changed>>

Tensors == 1..Count
Steps == 0..LastStep
Storages == {1, 2}

TypeOK == /\ birth \in [Tensors -> Steps]
          /\ death \in [Tensors -> Steps]
          /\ home \in [Tensors -> Storages]
          /\ saved \subseteq Tensors
          /\ at \in Steps
          /\ live \subseteq Tensors
          /\ references \in [Storages -> 0..Count]
          /\ holder \in {0} \cup Storages
          /\ changed \subseteq Tensors

Members(storage) == {t \in Tensors : home[t] = storage}

(* The lifetime in the plan: from the first birth to the last death. *)
StaticallyLive(storage, step) == /\ \E t \in Members(storage) : birth[t] <= step
                                 /\ \E t \in Members(storage) : step <= death[t]

(* Both storages lie in the same bytes, so they never live at one step. *)
Accepted == /\ \A t \in Tensors : birth[t] <= death[t]
            /\ \A step \in Steps : ~(StaticallyLive(1, step) /\ StaticallyLive(2, step))

Init == /\ birth \in [Tensors -> Steps]
        /\ death \in [Tensors -> Steps]
        /\ home \in [Tensors -> Storages]
        /\ saved \in SUBSET {1}
        /\ Accepted = TRUE  \* one value: TLC would make a state of each way to be accepted
        /\ at = 0
        /\ live = {}
        /\ references = [s \in Storages |-> 0]
        /\ holder = 0
        /\ changed = {}

-----------------------------------------------------------------------------

(* A member is made: its storage takes the bytes if they are free, and counts it. *)
Make(t) == /\ at = birth[t]
           /\ t \notin live
           /\ holder \in {0, home[t]}
           /\ holder' = home[t]
           /\ live' = live \cup {t}
           /\ references' = [references EXCEPT ![home[t]] = @ + 1]
           /\ UNCHANGED <<given, at, changed>>

(* A member dies; with the last one the bytes are free. *)
Die(t) == /\ t \in live
          /\ at > death[t]
          /\ live' = live \ {t}
          /\ references' = [references EXCEPT ![home[t]] = @ - 1]
          /\ holder' = IF references[home[t]] = 1 THEN 0 ELSE holder
          /\ UNCHANGED <<given, at, changed>>

(* A result is written over a member, at the last step at which that is read. *)
WriteOver(t) == /\ t \in live
                /\ at = death[t]
                /\ references[home[t]] = 1
                /\ t \notin saved
                /\ \A other \in Members(home[t]) : death[other] <= at
                /\ changed' = changed \cup {t}
                /\ UNCHANGED <<given, at, live, references, holder>>

Proceed == /\ at < LastStep
           /\ \A t \in Tensors : /\ at = birth[t] => t \in live
                                 /\ t \in live => at <= death[t]
           /\ at' = at + 1
           /\ UNCHANGED <<given, live, references, holder, changed>>

Next == Proceed \/ \E t \in Tensors : Make(t) \/ Die(t) \/ WriteOver(t)

Fairness == /\ WF_vars(Proceed)
            /\ \A t \in Tensors : WF_vars(Make(t)) /\ WF_vars(Die(t))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A count is the number of live members. *)
CountsMembers == \A s \in Storages : references[s] = Cardinality(live \cap Members(s))

(* The bytes belong to no storage exactly where all counts are zero. *)
FreeAtZero == holder = 0 <=> \A s \in Storages : references[s] = 0

(* The bytes belong to the storage of every live tensor. *)
LiveIsKept == \A t \in live : holder = home[t]

(* The plan's lifetime covers every moment at which a count is not zero. *)
StaticCovers == \A t \in live : at <= death[t] => StaticallyLive(home[t], at)

(* What backward reads was not written over, nor what another member shows. *)
SavedIsKept == changed \cap saved = {}
SharedIsKept == \A t \in changed : \A other \in Members(home[t]) : death[other] <= death[t]

-----------------------------------------------------------------------------
(* Properties. *)

(* The run comes to its end: no storage waits for bytes that are never free. *)
RunsToTheEnd == <>(at = LastStep)

(* The bytes are freed before they are reassigned to another storage. *)
ReassignedAtZero == [][holder' = holder \/ holder = 0 \/ holder' = 0]_vars

THEOREM Spec => [](TypeOK /\ CountsMembers /\ FreeAtZero /\ LiveIsKept /\ StaticCovers /\ SavedIsKept /\ SharedIsKept)
THEOREM Spec => RunsToTheEnd /\ ReassignedAtZero

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverTwoMembers == \A s \in Storages : references[s] < 2
NeverSecondStorage == holder # 2 \/ \A t \in Members(1) : birth[t] >= at
=============================================================================
