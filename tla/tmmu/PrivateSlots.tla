---------------------------- MODULE PrivateSlots ----------------------------
(***************************************************************************)
(* What a slot assignment is for, and nothing of how it is found: from its *)
(* birth to its death, both included, every storage holds a slot that no   *)
(* other storage holds.                                                    *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS Storages,  \* what must be kept in memory
          Slots,     \* where it may be kept
          Steps      \* the steps of the run, from 0

VARIABLES birth,     \* the first step of each storage
          death,     \* its last step
          now,       \* the step that is being looked at
          held       \* the slots that each storage holds: one while it lives

Init == /\ birth \in [Storages -> Steps]
        /\ death \in [Storages -> Steps]
        /\ now = 0
        /\ held = [s \in Storages |-> {}]

(* A storage is born in a slot that no other storage holds. *)
Take(s, k) == /\ birth[s] = now
              /\ held[s] = {}
              /\ \A other \in Storages : k \notin held[other]
              /\ held' = [held EXCEPT ![s] = {k}]
              /\ UNCHANGED <<birth, death, now>>

(* A storage gives its slot back when it is dead, and not before. *)
Release(s) == /\ death[s] < now
              /\ held' = [held EXCEPT ![s] = {}]
              /\ UNCHANGED <<birth, death, now>>

(* Time goes on when all that live now hold a slot; no birth is passed over. *)
Advance == /\ \A s \in Storages : birth[s] <= now /\ now <= death[s] => held[s] # {}
           /\ \E later \in Steps :
                 /\ later > now
                 /\ \A s \in Storages : birth[s] <= now \/ later <= birth[s]
                 /\ now' = later
           /\ UNCHANGED <<birth, death, held>>

Next == \/ Advance
        \/ \E s \in Storages : Release(s) \/ \E k \in Slots : Take(s, k)

Spec == Init /\ [][Next]_<<birth, death, now, held>>
=============================================================================
