------------------------------ MODULE Zeroing -------------------------------
(***************************************************************************)
(* When bytes are zeroed. One arena that is reused holds storages that     *)
(* take turns in its slots; parameters lie in an arena of their own that   *)
(* is not. A plan is applied, executed several times, and may be applied   *)
(* again in between. A storage finds zeros when it is born.                *)
(*                                                                         *)
(* Applying a plan zeroes the reused arena whole, and parameters only when *)
(* they are first made. In a run, a storage is zeroed at its birth unless  *)
(* the arena is still fresh: zeroed whole, with no death in it since. In   *)
(* the second execution it is not fresh, though no storage has died yet.   *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS Count,       \* how many storages there are; their names are 1..Count
          LastStep,    \* steps are 0..LastStep
          SlotCount,   \* slots are 1..SlotCount
          Executions,  \* how often the plan is executed
          Applies      \* how often a plan is applied

VARIABLES birth,       \* the first step of each storage
          death,       \* its last step
          slot,        \* where it lies
          at,          \* the step that runs, -1 between executions
          born,        \* storages born in this execution, their first bytes prepared
          written,     \* storages written in this execution
          fresh,       \* is the arena fresh?
          content,     \* what each slot holds: 0, or the storage last written there
          parameters,  \* "unmade", "zeros" or "weights"
          executions,  \* executions begun
          applies      \* plans applied

plan == <<birth, death, slot>>
counts == <<executions, applies>>
vars == <<plan, at, born, written, fresh, content, parameters, counts>>

Storages == 1..Count
Steps == 0..LastStep
Slots == 1..SlotCount

TypeOK == /\ birth \in [Storages -> Steps]
          /\ death \in [Storages -> Steps]
          /\ slot \in [Storages -> Slots]
          /\ at \in {-1} \cup Steps
          /\ born \subseteq Storages
          /\ written \subseteq born
          /\ fresh \in BOOLEAN
          /\ content \in [Slots -> 0..Count]
          /\ parameters \in {"unmade", "zeros", "weights"}
          /\ executions \in 0..Executions
          /\ applies \in 0..Applies

Before(s, t) == death[s] < birth[t]

Accepted == /\ \A s \in Storages : birth[s] <= death[s]
            /\ \A s, t \in Storages :
                  s = t \/ slot[s] # slot[t] \/ Before(s, t) \/ Before(t, s)

(* Memory comes with bytes from an earlier use: here, of storage 1. *)
Init == /\ birth \in [Storages -> Steps]
        /\ death \in [Storages -> Steps]
        /\ slot \in [Storages -> Slots]
        /\ Accepted = TRUE  \* one value: TLC would make a state of each way to be accepted
        /\ at = -1
        /\ born = {}
        /\ written = {}
        /\ fresh = FALSE
        /\ content = [k \in Slots |-> 1]
        /\ parameters = "unmade"
        /\ executions = 0
        /\ applies = 0

-----------------------------------------------------------------------------

(* A plan is applied: the reused arena is zeroed whole. *)
Apply == /\ at = -1
         /\ applies < Applies
         /\ applies' = applies + 1
         /\ content' = [k \in Slots |-> 0]
         /\ fresh' = TRUE
         /\ parameters' = IF parameters = "unmade" THEN "zeros" ELSE parameters
         /\ UNCHANGED <<plan, at, born, written, executions>>

(* The caller puts the parameters where they belong. *)
Load == /\ parameters = "zeros"
        /\ parameters' = "weights"
        /\ UNCHANGED <<plan, at, born, written, fresh, content, counts>>

(* An execution begins. *)
Begin == /\ at = -1
         /\ applies > 0
         /\ parameters = "weights"
         /\ executions < Executions
         /\ executions' = executions + 1
         /\ at' = 0
         /\ born' = {}
         /\ written' = {}
         /\ UNCHANGED <<plan, fresh, content, parameters, applies>>

(* A storage is born: its slot is zeroed unless the arena is fresh. *)
Bear(s) == /\ at = birth[s]
           /\ s \notin born
           /\ born' = born \cup {s}
           /\ content' = IF fresh THEN content ELSE [content EXCEPT ![slot[s]] = 0]
           /\ UNCHANGED <<plan, at, written, fresh, parameters, counts>>

(* It is written. *)
Write(s) == /\ s \in born \ written
            /\ written' = written \cup {s}
            /\ content' = [content EXCEPT ![slot[s]] = s]
            /\ UNCHANGED <<plan, at, born, fresh, parameters, counts>>

Settled == \A s \in Storages : birth[s] <= at => s \in written

(* The next step: what died at this one leaves its bytes behind. *)
Proceed == /\ at \in Steps \ {LastStep}
           /\ Settled
           /\ at' = at + 1
           /\ fresh' = (fresh /\ \A s \in Storages : death[s] # at)
           /\ UNCHANGED <<plan, born, written, content, parameters, counts>>

(* After the last step the arena is as the execution left it. *)
End == /\ at = LastStep
       /\ Settled
       /\ at' = -1
       /\ born' = {}
       /\ written' = {}
       /\ fresh' = FALSE
       /\ UNCHANGED <<plan, content, parameters, counts>>

Next == \/ Apply \/ Load \/ Begin \/ Proceed \/ End
        \/ \E s \in Storages : Bear(s) \/ Write(s)

Fairness == WF_vars(Next)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* What lives and was written is there. *)
LiveIsKept == \A s \in written : at <= death[s] => content[slot[s]] = s

(* A fresh arena holds nothing but zeros and what lives there now. *)
FreshMeansZero == fresh => \A k \in Slots : content[k] = 0 \/ \E s \in written : slot[s] = k

(* A storage that is born finds zeros. *)
BornZero == \A s \in born \ written : content[slot[s]] = 0

-----------------------------------------------------------------------------
(* Properties. *)

(* Parameters are zeroed when they are made, and never again. *)
ParametersAreKept == [][parameters = "weights" => parameters' = "weights"]_vars

(* Every execution that was asked for comes to its end. *)
AllExecuted == <>(executions = Executions /\ at = -1)

THEOREM Spec => [](TypeOK /\ LiveIsKept /\ FreshMeansZero /\ BornZero)
THEOREM Spec => ParametersAreKept /\ AllExecuted

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverDirty == at = -1 \/ applies = 0 \/ \A s \in Storages : at = birth[s] /\ s \notin born => content[slot[s]] = 0
NeverAppliedAgain == ~(applies = Applies /\ executions > 0)
=============================================================================
