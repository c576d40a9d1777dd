------------------------------- MODULE Pools --------------------------------
(***************************************************************************)
(* How MiCo gives out its memory pools. Storages come by size, the largest *)
(* first, of equal ones in the order in which they are made; each joins    *)
(* the first pool in which nothing lives at one of its steps, or opens a   *)
(* new one. A pool is as large as its largest storage: the one that opened *)
(* it.                                                                     *)
(*                                                                         *)
(* No byte is ever held by two storages that live at one step. The pools   *)
(* may be more than storages are live at once, though: that they never are *)
(* is no property of this algorithm.                                       *)
(*                                                                         *)
(* spec: A9.1                                                              *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Count,     \* how many storages; their names 1..Count are the order of making
          LastStep,  \* steps are 0..LastStep
          MaxSize    \* sizes are 1..MaxSize

VARIABLES birth,     \* the first step of each storage
          death,     \* its last step
          size,      \* its bytes
          pool,      \* the pool that it joined, 0 before that
          bytes      \* the bytes of each pool, 0 for one that is not opened

given == <<birth, death, size>>
vars == <<given, pool, bytes>>

Storages == 1..Count
Steps == 0..LastStep
Pools == 1..Count

TypeOK == /\ birth \in [Storages -> Steps]
          /\ death \in [Storages -> Steps]
          /\ size \in [Storages -> 1..MaxSize]
          /\ pool \in [Storages -> 0..Count]
          /\ bytes \in [Pools -> 0..MaxSize]

Empty == /\ birth \in [Storages -> Steps]
         /\ death \in [Storages -> Steps]
         /\ \A s \in Storages : birth[s] <= death[s]
         /\ size \in [Storages -> 1..MaxSize]
         /\ pool = [s \in Storages |-> 0]
         /\ bytes = [p \in Pools |-> 0]

(* Names follow the order of making, so births do not fall: but for loops, *)
(* whose storages are born with the node.                                  *)
Init == Empty /\ \A s \in 1..(Count - 1) : birth[s] <= birth[s + 1]

-----------------------------------------------------------------------------

Waiting == {s \in Storages : pool[s] = 0}
Joined == Storages \ Waiting
Opened == {p \in Pools : bytes[p] > 0}

Before(s, t) == size[s] > size[t] \/ (size[s] = size[t] /\ s < t)
IsNext(s) == s \in Waiting /\ \A t \in Waiting \ {s} : Before(s, t)

Overlap(s, t) == birth[s] <= death[t] /\ birth[t] <= death[s]
Fits(s, p) == \A t \in Joined : pool[t] = p => ~Overlap(s, t)

First(pools) == CHOOSE p \in pools : \A other \in pools : p <= other

(* The next storage joins the first pool in which it meets no storage. *)
Join(s) == /\ IsNext(s)
           /\ \E p \in Opened : Fits(s, p)
           /\ pool' = [pool EXCEPT ![s] = First({p \in Opened : Fits(s, p)})]
           /\ UNCHANGED <<given, bytes>>

(* If there is none, it opens one of its own size. *)
Open(s) == /\ IsNext(s)
           /\ \A p \in Opened : ~Fits(s, p)
           /\ pool' = [pool EXCEPT ![s] = Cardinality(Opened) + 1]
           /\ bytes' = [bytes EXCEPT ![Cardinality(Opened) + 1] = size[s]]
           /\ UNCHANGED given

Next == \E s \in Storages : Join(s) \/ Open(s)

Fairness == WF_vars(Next)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* The larger storage was placed before. *)
InOrder == \A s \in Joined, t \in Waiting : Before(s, t)

(* Every storage fits its pool, and a pool is no larger than it must be. *)
PoolsFit == /\ \A s \in Joined : size[s] <= bytes[pool[s]]
            /\ \A p \in Opened : \E s \in Joined : pool[s] = p /\ size[s] = bytes[p]

(* Storages of one pool never live at one step. *)
PoolsDisjoint == \A s, t \in Joined : s # t /\ pool[s] = pool[t] => ~Overlap(s, t)

(* Each storage joined the first pool in which it met no storage placed before. *)
FirstFit == \A s \in Joined : \A p \in 1..(pool[s] - 1) :
               \E t \in Joined : pool[t] = p /\ Overlap(s, t) /\ Before(t, s)

-----------------------------------------------------------------------------
(* Properties. *)

(* Every storage gets a place, and keeps it. *)
AllJoin == <>(Waiting = {})
NoStorageMoves == [][\A s \in Joined : pool'[s] = pool[s]]_vars

THEOREM Spec => [](TypeOK /\ InOrder /\ PoolsFit /\ PoolsDisjoint /\ FirstFit)
THEOREM Spec => AllJoin /\ NoStorageMoves

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

MostLive == First({n \in 0..Count : \A step \in Steps :
                      Cardinality({s \in Storages : birth[s] <= step /\ step <= death[s]}) <= n})
PoolsAreMaxLive == Cardinality(Opened) <= MostLive
NeverShared == \A s, t \in Joined : pool[s] = pool[t] => s = t
=============================================================================
