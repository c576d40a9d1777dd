------------------------------ MODULE Eviction ------------------------------
(***************************************************************************)
(* Which page Mnemosyne evicts. A page counts by its last access and, with *)
(* half the weight of the number of resident pages, by the attention that  *)
(* its tokens get. The page that counts least goes; of equal ones, the     *)
(* lowest. So a page that is at least as recent and at least as attended   *)
(* as another, one of them strictly, is never evicted before it. The       *)
(* document subtracts the attention, and evicts what is attended most.     *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Pages,     \* page numbers, from 1
          Room,      \* how many may be resident
          MaxWeight, \* attention is 0..MaxWeight, in parts of MaxWeight
          Accesses   \* how many accesses there are

VARIABLES clock,     \* accesses so far
          last,      \* the last access of each page, 0 for none
          weight,    \* the attention of each page
          resident,  \* pages in memory
          waiting    \* the page that is to come in, 0 for none

vars == <<clock, last, weight, resident, waiting>>

PageSet == 1..Pages

TypeOK == /\ clock \in 0..Accesses
          /\ last \in [PageSet -> 0..Accesses]
          /\ weight \in [PageSet -> 0..MaxWeight]
          /\ resident \subseteq PageSet
          /\ waiting \in 0..Pages

Init == /\ clock = 0
        /\ last = [p \in PageSet |-> 0]
        /\ weight \in [PageSet -> 0..MaxWeight]
        /\ resident = {}
        /\ waiting = 0

-----------------------------------------------------------------------------

(* A page is touched that is in memory, *)
Touch(p) == /\ waiting = 0
            /\ clock < Accesses
            /\ p \in resident
            /\ clock' = clock + 1
            /\ last' = [last EXCEPT ![p] = clock + 1]
            /\ UNCHANGED <<weight, resident, waiting>>

(* or one that is not. *)
Fault(p) == /\ waiting = 0
            /\ clock < Accesses
            /\ p \notin resident
            /\ clock' = clock + 1
            /\ waiting' = p
            /\ UNCHANGED <<last, weight, resident>>

(* Where there is room it comes in. *)
Bring == /\ waiting # 0
         /\ Cardinality(resident) < Room
         /\ resident' = resident \cup {waiting}
         /\ last' = [last EXCEPT ![waiting] = clock]
         /\ waiting' = 0
         /\ UNCHANGED <<clock, weight>>

(* Twice MaxWeight times: last access + 1/2 * residents * weight / MaxWeight. *)
Counts(p) == 2 * MaxWeight * last[p] + Cardinality(resident) * weight[p]

IsVictim(p) == /\ p \in resident
               /\ \A q \in resident : \/ Counts(p) < Counts(q)
                                      \/ Counts(p) = Counts(q) /\ p <= q

(* Where there is none, one goes. *)
Evict(p) == /\ waiting # 0
            /\ Cardinality(resident) = Room
            /\ IsVictim(p)
            /\ resident' = resident \ {p}
            /\ UNCHANGED <<clock, last, weight, waiting>>

(* The attention of a page changes. *)
Attend(p, w) == /\ waiting = 0
                /\ p \in resident
                /\ clock \in 1..(Accesses - 1)
                /\ w > weight[p]
                /\ weight' = [weight EXCEPT ![p] = w]
                /\ UNCHANGED <<clock, last, resident, waiting>>

Next == \/ Bring
        \/ \E p \in PageSet : \/ Touch(p) \/ Fault(p) \/ Evict(p)
                              \/ \E w \in 0..MaxWeight : Attend(p, w)

Fairness == WF_vars(Bring) /\ \A p \in PageSet : WF_vars(Evict(p))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

KeepsToItsRoom == Cardinality(resident) <= Room

(* Exactly one page would be evicted next. *)
OneVictim == resident # {} => Cardinality({p \in PageSet : IsVictim(p)}) = 1

-----------------------------------------------------------------------------
(* Properties. *)

(* At least as recent and at least as attended, one of them strictly. *)
Dominates(p, q) == /\ last[p] >= last[q]
                   /\ weight[p] >= weight[q]
                   /\ last[p] > last[q] \/ weight[p] > weight[q]

(* No page is evicted before a page that it dominates. *)
Dominance == [][\A p \in resident \ resident' : \A q \in resident' : ~Dominates(p, q)]_vars

(* A page that is asked for comes in. *)
EveryFaultIsServed == waiting # 0 ~> waiting = 0

THEOREM Spec => [](TypeOK /\ KeepsToItsRoom /\ OneVictim)
THEOREM Spec => Dominance /\ EveryFaultIsServed

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

(* It is not LRU: a page that is attended may outlive a more recent one. *)
LeastRecentFirst == [][\A p \in resident \ resident' : \A q \in resident' : last[p] <= last[q]]_vars
=============================================================================
