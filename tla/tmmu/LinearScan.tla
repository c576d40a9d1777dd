----------------------------- MODULE LinearScan -----------------------------
(***************************************************************************)
(* How slots are given out: a linear scan over the storages of one arena.  *)
(* They come in the order birth ascending, size descending, name           *)
(* ascending. Before a storage takes the lowest slot that is free, every   *)
(* storage that died before its birth has given its slot back. A death and *)
(* a birth at the same step overlap.                                       *)
(*                                                                         *)
(* The scan refines PrivateSlots, and it opens exactly as many slots as    *)
(* storages are live at once: no assignment can do with fewer.             *)
(*                                                                         *)
(* spec: T1.1, T6.1, T6.2, T6.4                                            *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Count,     \* how many storages there are; their names are 1..Count
          LastStep,  \* steps are 0..LastStep
          MaxSize    \* sizes are 1..MaxSize

VARIABLES birth,     \* the first step of each storage
          death,     \* its last step
          size,      \* its bytes
          now,       \* the step that the scan has reached
          slot,      \* the slot that it was given, 0 before that
          active,    \* the storages that hold their slot now
          free,      \* slots that were opened and are held by no storage
          opened     \* slots are 1..opened

given == <<birth, death, size>>
vars == <<birth, death, size, now, slot, active, free, opened>>

Storages == 1..Count
Steps == 0..LastStep

TypeOK == /\ birth \in [Storages -> Steps]
          /\ death \in [Storages -> Steps]
          /\ size \in [Storages -> 1..MaxSize]
          /\ now \in Steps
          /\ slot \in [Storages -> 0..Count]
          /\ active \subseteq Storages
          /\ free \subseteq 1..opened
          /\ opened \in 0..Count

(* Any lifetimes and sizes may be asked for. *)
Init == /\ birth \in [Storages -> Steps]
        /\ death \in [Storages -> Steps]
        /\ \A s \in Storages : birth[s] <= death[s]
        /\ size \in [Storages -> 1..MaxSize]
        /\ now = 0
        /\ slot = [s \in Storages |-> 0]
        /\ active = {}
        /\ free = {}
        /\ opened = 0

-----------------------------------------------------------------------------

Waiting == {s \in Storages : slot[s] = 0}

Before(s, t) == \/ birth[s] < birth[t]
                \/ birth[s] = birth[t] /\ size[s] > size[t]
                \/ birth[s] = birth[t] /\ size[s] = size[t] /\ s < t

IsNext(s) == /\ s \in Waiting
             /\ (\A t \in Waiting \ {s} : Before(s, t)) = TRUE  \* one value: TLC would branch at each t

Lowest(slots) == CHOOSE k \in slots : \A other \in slots : k <= other

(* The scan goes on to the birth of the next storage. *)
Advance == /\ \E s \in Waiting : /\ IsNext(s)
                                /\ birth[s] > now
                                /\ now' = birth[s]
           /\ UNCHANGED <<given, slot, active, free, opened>>

(* A storage that died before gives its slot back. *)
Expire(s) == /\ s \in active
             /\ death[s] < now
             /\ active' = active \ {s}
             /\ free' = free \cup {slot[s]}
             /\ UNCHANGED <<given, now, slot, opened>>

(* The next storage is given its slot when all that died have given theirs back. *)
Arrives(s) == /\ IsNext(s)
              /\ birth[s] = now
              /\ \A t \in active : death[t] >= now

(* It takes the lowest slot that is free. *)
Reuse(s) == /\ Arrives(s)
            /\ free # {}
            /\ slot' = [slot EXCEPT ![s] = Lowest(free)]
            /\ free' = free \ {Lowest(free)}
            /\ active' = active \cup {s}
            /\ UNCHANGED <<given, now, opened>>

(* Where none is free, it opens a new one. *)
Open(s) == /\ Arrives(s)
           /\ free = {}
           /\ slot' = [slot EXCEPT ![s] = opened + 1]
           /\ opened' = opened + 1
           /\ active' = active \cup {s}
           /\ UNCHANGED <<given, now, free>>

Next == \/ Advance
        \/ \E s \in Storages : Expire(s) \/ Reuse(s) \/ Open(s)

Fairness == WF_vars(Next)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

Assigned == Storages \ Waiting

Overlap(s, t) == birth[s] <= death[t] /\ birth[t] <= death[s]

(* The storages that are live at a step, of those that have their slot. *)
LiveAt(step) == {s \in Assigned : birth[s] <= step /\ step <= death[s]}

(* Every opened slot is held by one active storage or is free. *)
SlotsAccounted == /\ free \cap {slot[s] : s \in active} = {}
                  /\ free \cup {slot[s] : s \in active} = 1..opened

(* Storages of one slot are never live at the same step. *)
LiveDisjoint == \A s, t \in Assigned :
                   s # t /\ slot[s] = slot[t] => ~Overlap(s, t)

(* Of equal births, the larger storage has the lower choice. *)
InOrder == \A s \in Assigned, t \in Waiting : Before(s, t)

(* Each storage lies in the lowest slot that it could have. *)
LowestSlot == \A s \in Assigned : \A k \in 1..(slot[s] - 1) :
                 \E t \in Assigned : t # s /\ slot[t] = k /\ Overlap(s, t)

(* As many slots are open as storages are live at once at some step. *)
SlotsAreMaxLive == /\ \A step \in Steps : Cardinality(LiveAt(step)) <= opened
                   /\ opened = 0 \/ \E step \in Steps : Cardinality(LiveAt(step)) = opened

-----------------------------------------------------------------------------
(* Properties. *)

Abstract == INSTANCE PrivateSlots WITH
              Slots <- 1..Count,
              held <- [s \in Storages |-> IF s \in active THEN {slot[s]} ELSE {}]

(* From birth to death each storage holds a slot of its own. *)
RefinesPrivateSlots == Abstract!Spec

(* Every storage gets a slot. *)
AllAssigned == <>(Waiting = {})

THEOREM Spec => [](TypeOK /\ SlotsAccounted /\ LiveDisjoint /\ InOrder /\ LowestSlot /\ SlotsAreMaxLive)
THEOREM Spec => RefinesPrivateSlots
THEOREM Spec => AllAssigned

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverReuses == \A s, t \in Assigned : slot[s] = slot[t] => s = t
NeverTwoFree == Cardinality(free) < 2
=============================================================================
