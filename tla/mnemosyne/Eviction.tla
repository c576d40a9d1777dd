------------------------------ MODULE Eviction ------------------------------
(***************************************************************************)
(* Which page Mnemosyne evicts. A page counts by its last access and, with *)
(* half the weight of the number of resident pages, by the attention that  *)
(* its tokens get. The page that counts least goes; of equal ones, the     *)
(* lowest. So a page that is at least as recent and at least as attended   *)
(* as another, one of them strictly, is never evicted before it, unless    *)
(* the other is pinned. The document subtracts the attention, and evicts   *)
(* what is attended most.                                                  *)
(*                                                                         *)
(* Pages come in several at a time. Those that do not fit beside what is   *)
(* pinned are refused; for others, pages are evicted until there is room.  *)
(* Room may shrink under what is resident: then the least attended pages   *)
(* go, the least recent first, before any comes in. Weights outlast an     *)
(* eviction. A page here is a tile of the code.                            *)
(* spec: MN3.1 to MN3.3, MN3.5, MN3.6                                      *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Pages,     \* page numbers, from 1
          Rooms,     \* how many may be resident: one of these
          MaxWeight, \* attention is 0..MaxWeight, in parts of MaxWeight
          Part,      \* the document's lambda is Part / Parts
          Parts,
          Accesses   \* how many accesses there are

VARIABLES clock,     \* accesses so far
          last,      \* the last access of each page, 0 for none
          weight,    \* the attention of each page
          resident,  \* pages in memory
          pinned,    \* those whose bytes are in use
          room,      \* how many may be resident, as it was last seen
          waiting    \* pages that are to come in

vars == <<clock, last, weight, resident, pinned, room, waiting>>

PageSet == 1..Pages
Residents == Cardinality(resident)
Waiting == Cardinality(waiting)

TypeOK == /\ clock \in 0..Accesses
          /\ last \in [PageSet -> 0..Accesses]
          /\ weight \in [PageSet -> 0..MaxWeight]
          /\ resident \subseteq PageSet
          /\ pinned \subseteq resident
          /\ room \in Rooms
          /\ waiting \subseteq PageSet \ resident

Init == /\ clock = 0
        /\ last = [p \in PageSet |-> 0]
        /\ weight = [p \in PageSet |-> 0]
        /\ resident = {}
        /\ pinned = {}
        /\ room \in Rooms
        /\ waiting = {}

-----------------------------------------------------------------------------
(* Accesses. *)

(* A page is touched that is in memory, *)
Touch(p) == /\ waiting = {}
            /\ clock < Accesses
            /\ p \in resident
            /\ clock' = clock + 1
            /\ last' = [last EXCEPT ![p] = clock + 1]
            /\ UNCHANGED <<weight, resident, pinned, room, waiting>>

(* or some are that are not. *)
Fault(pages) == /\ waiting = {}
                /\ pages # {}
                /\ pages \cap resident = {}
                /\ clock + Cardinality(pages) <= Accesses
                /\ waiting' = pages
                /\ UNCHANGED <<clock, last, weight, resident, pinned, room>>

(* Where there is room they come in, in ascending order. *)
Bring(p) == /\ p \in waiting
            /\ \A q \in waiting : p <= q
            /\ Residents + Waiting <= room
            /\ resident' = resident \cup {p}
            /\ waiting' = waiting \ {p}
            /\ clock' = clock + 1
            /\ last' = [last EXCEPT ![p] = clock + 1]
            /\ UNCHANGED <<weight, pinned, room>>

Fits == Cardinality(pinned) + Waiting <= room

(* What does not fit is refused; where room has shrunk, when all else has gone. *)
Refuse == /\ waiting # {}
          /\ ~Fits
          /\ Residents <= room \/ resident = pinned
          /\ waiting' = {}
          /\ UNCHANGED <<clock, last, weight, resident, pinned, room>>

(* Or the system refuses. *)
Fail == /\ Residents + Waiting <= room
        /\ waiting # {}
        /\ waiting' = {}
        /\ UNCHANGED <<clock, last, weight, resident, pinned, room>>

-----------------------------------------------------------------------------
(* Which page goes. *)

(* Parts times MaxWeight times: last access + lambda * residents * weight / MaxWeight. *)
Counts(p) == Parts * MaxWeight * last[p] + Part * Residents * weight[p]

IsVictim(p) == /\ p \in resident \ pinned
               /\ \A q \in resident \ pinned : \/ Counts(p) < Counts(q)
                                               \/ Counts(p) = Counts(q) /\ p <= q

(* Where there is no room, one goes. *)
Evict(p) == /\ waiting # {}
            /\ Fits
            /\ Residents <= room
            /\ Residents + Waiting > room
            /\ IsVictim(p)
            /\ resident' = resident \ {p}
            /\ UNCHANGED <<clock, last, weight, pinned, room, waiting>>

(* Where room has shrunk, the least attended goes, of equal ones the least recent. *)
Relieve(p) == /\ Residents > room
              /\ p \in resident \ pinned
              /\ \A q \in resident \ pinned : \/ weight[p] < weight[q]
                                              \/ weight[p] = weight[q] /\ last[p] <= last[q]
              /\ resident' = resident \ {p}
              /\ UNCHANGED <<clock, last, weight, pinned, room, waiting>>

-----------------------------------------------------------------------------
(* What the user does. *)

(* The attention of a page changes. *)
Attend(p, w) == /\ waiting = {}
                /\ weight' = [weight EXCEPT ![p] = w]
                /\ UNCHANGED <<clock, last, resident, pinned, room, waiting>>

Pin(p) == /\ waiting = {}
          /\ p \in resident \ pinned
          /\ pinned' = pinned \cup {p}
          /\ UNCHANGED <<clock, last, weight, resident, room, waiting>>

Unpin(p) == /\ waiting = {}
            /\ p \in pinned
            /\ pinned' = pinned \ {p}
            /\ UNCHANGED <<clock, last, weight, resident, room, waiting>>

(* A page is given up, and forgotten. *)
Drop(p) == /\ waiting = {}
           /\ p \in resident \ pinned
           /\ resident' = resident \ {p}
           /\ last' = [last EXCEPT ![p] = 0]
           /\ weight' = [weight EXCEPT ![p] = 0]
           /\ UNCHANGED <<clock, pinned, room, waiting>>

(* There is more or less room. *)
Limit(pages) == /\ waiting = {}
                /\ pages # room
                /\ room' = pages
                /\ UNCHANGED <<clock, last, weight, resident, pinned, waiting>>

Next == \/ Refuse \/ Fail
        \/ \E pages \in SUBSET PageSet : Fault(pages)
        \/ \E pages \in Rooms : Limit(pages)
        \/ \E p \in PageSet : \/ Touch(p) \/ Bring(p) \/ Evict(p) \/ Relieve(p) \/ Pin(p) \/ Unpin(p) \/ Drop(p)
                              \/ \E w \in 0..MaxWeight : Attend(p, w)

Fairness == WF_vars(Refuse \/ \E p \in PageSet : Bring(p) \/ Evict(p) \/ Relieve(p))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

Most == CHOOSE pages \in Rooms : \A other \in Rooms : other <= pages

(* As long as room has not shrunk. *)
KeepsToItsRoom == room = Most => Residents <= room

(* Exactly one page would be evicted next. *)
OneVictim == resident # pinned => Cardinality({p \in PageSet : IsVictim(p)}) = 1

-----------------------------------------------------------------------------
(* Properties. *)

(* Within the room stays within, unless it shrinks; and nothing comes in beyond it. *)
WithinStaysWithin == [][Residents <= room /\ room' >= room => Cardinality(resident') <= room']_vars
NothingComesInBeyond == [][resident' \subseteq resident \/ Cardinality(resident') <= room']_vars

(* At least as recent and at least as attended, one of them strictly. *)
Dominates(p, q) == /\ last[p] >= last[q]
                   /\ weight[p] >= weight[q]
                   /\ last[p] > last[q] \/ weight[p] > weight[q]

(* No page goes before a page that it dominates and that is not pinned, unless it is given up. *)
Dominance == [][\A p \in resident \ resident' : last'[p] = last[p] =>
                   \A q \in resident' \ pinned : ~Dominates(p, q)]_vars

(* Pages that are asked for come in or are refused. *)
EveryFaultIsServed == waiting # {} ~> waiting = {}

THEOREM Spec => [](TypeOK /\ KeepsToItsRoom /\ OneVictim)
THEOREM Spec => WithinStaysWithin /\ NothingComesInBeyond /\ Dominance /\ EveryFaultIsServed

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

(* It is not LRU: a page that is attended may outlive a more recent one. *)
LeastRecentFirst == [][\A p \in resident \ resident' : last'[p] = last[p] =>
                          \A q \in resident' \ pinned : last[p] <= last[q]]_vars
NeverBeyondItsRoom == Residents <= room

(* No page need be accessed. *)
PagesAreAccessed == <>(waiting # {})
=============================================================================
