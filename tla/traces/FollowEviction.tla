--------------------------- MODULE FollowEviction ---------------------------
(***************************************************************************)
(* Follows one store of regions through Eviction. Its pages are the tiles  *)
(* of the store. The log states the clock at each access, and of what was  *)
(* released the last access and the weight, as the code had them.          *)
(*                                                                         *)
(* spec: MN9.2                                                             *)
(***************************************************************************)
EXTENDS Eviction, Sequences

state == vars

FollowInit == Init

Set(sequence) == {sequence[k] : k \in 1..Len(sequence)}

FollowPage(e, p) ==
    /\ p \in PageSet
    /\ \/ e.action = "Touch" /\ Touch(p) /\ e.clock = clock'
       \/ e.action = "Bring" /\ Bring(p) /\ e.clock = clock' /\ e.weight = weight[p]
       \/ e.action = "Evict" /\ Evict(p) /\ e.last = last[p] /\ e.weight = weight[p]
       \/ e.action = "Relieve" /\ Relieve(p) /\ e.last = last[p] /\ e.weight = weight[p]
       \/ e.action = "Attend" /\ Attend(p, e.weight)
       \/ e.action = "Pin" /\ Pin(p)
       \/ e.action = "Unpin" /\ Unpin(p)
       \/ e.action = "Drop" /\ Drop(p)

Follow(e) ==
    \/ e.action = "Fault" /\ Fault(Set(e.pages)) /\ e.mapped = Residents /\ e.pinned = Cardinality(pinned)
    \/ e.action = "Refuse" /\ Refuse /\ e.count = Waiting /\ e.bound = room /\ e.pinned = Cardinality(pinned)
    \/ e.action = "Fail" /\ Fail
    \/ e.action = "Limit" /\ Limit(e.pages) /\ e.bound = e.pages
    \/ e.action \in {"Touch", "Bring", "Evict", "Relieve", "Attend", "Pin", "Unpin", "Drop"} /\ FollowPage(e, e.page)

(* Next with the pages and the weights of this step in place of all that might be. *)
ModuleNext == \/ Refuse \/ Fail \/ Fault(waiting')
              \/ \E pages \in Rooms : Limit(pages)
              \/ \E p \in PageSet : \/ Touch(p) \/ Bring(p) \/ Evict(p) \/ Relieve(p) \/ Pin(p) \/ Unpin(p) \/ Drop(p)
                                    \/ Attend(p, weight'[p])

Ends(e) == TRUE
(* The actions of the module that could be taken now; attention may change at any time. *)
Allowed == {a \in {"Fault", "Refuse", "Fail", "Limit", "Touch", "Bring", "Evict", "Relieve", "Attend", "Pin", "Unpin",
                   "Drop"} :
              CASE a \in {"Limit", "Attend"} -> waiting = {}
                [] a = "Fault" -> waiting = {} /\ resident # PageSet
                [] a = "Refuse" -> ENABLED Refuse
                [] a = "Fail" -> ENABLED Fail
                [] OTHER -> \E p \in PageSet : CASE a = "Touch" -> ENABLED Touch(p)
                                                 [] a = "Bring" -> ENABLED Bring(p)
                                                 [] a = "Evict" -> ENABLED Evict(p)
                                                 [] a = "Relieve" -> ENABLED Relieve(p)
                                                 [] a = "Pin" -> ENABLED Pin(p)
                                                 [] a = "Unpin" -> ENABLED Unpin(p)
                                                 [] a = "Drop" -> ENABLED Drop(p)}

=============================================================================
