--------------------------- MODULE MappedRegions ----------------------------
(***************************************************************************)
(* Mnemosyne's regions: ranges of whole tiles, mapped from files into the  *)
(* address space. The system reserves ranges aligned to a page only, so a  *)
(* region is placed at the first tile inside what was reserved, one tile   *)
(* longer. Its tiles are mapped and released one by one; released ones are *)
(* mapped again when their bytes are asked for. A tile whose bytes are in  *)
(* use is pinned, and stays.                                               *)
(*                                                                         *)
(* Tiles are admitted if what is mapped stays within 7/10 of memory with   *)
(* them; if not, others are released first. What exceeds the bound beside  *)
(* what is pinned is refused, before any tile goes. Memory is looked at    *)
(* when an admission begins. It may have shrunk under what is mapped: then *)
(* nothing is admitted until enough was released, and enough will be if no *)
(* tile is pinned for ever.                                                *)
(*                                                                         *)
(* Inv_1 and Inv_2 bear the names of the document. Inv_1 promises the      *)
(* bound as long as memory has not shrunk, WithinStaysWithin that nothing  *)
(* else exceeds it. spec: MN1.1 to MN1.4, MN1.6, MN3.5, MN3.6              *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Regions,   \* regions are 1..Regions
          TilePages, \* pages of a tile
          Space,     \* the address space has the pages 0..(Space - 1)
          MaxRegion, \* tiles of the largest region
          Limits,    \* how much memory there may be, in pages
          MaxPins    \* how often a tile may be pinned

VARIABLES size,      \* tiles of each region, 0 where it is closed
          base,      \* its first page
          mapped,    \* the tiles that are mapped, each a region and a number in it
          pins,      \* how often each tile is pinned
          used,      \* tiles that are mapped, as they are counted
          memory,    \* pages of memory, as they were last seen
          wanted,    \* tiles that are to be mapped
          gaveWay,   \* were others evicted for them?
          refused    \* were the last ones refused?

vars == <<size, base, mapped, pins, used, memory, wanted, gaveWay, refused>>

RegionSet == 1..Regions
Tiles == RegionSet \X (1..MaxRegion)
Open == {r \in RegionSet : size[r] > 0}
TilesOf(r, count) == {<<r, k>> : k \in 1..count}
End(r) == base[r] + size[r] * TilePages

Within(tiles) == 10 * tiles * TilePages <= 7 * memory

Pinned == {t \in mapped : pins[t] > 0}
Wanted == Cardinality(wanted)

TypeOK == /\ size \in [RegionSet -> 0..MaxRegion]
          /\ base \in [RegionSet -> 0..Space]
          /\ mapped \subseteq Tiles
          /\ \A t \in mapped : t[2] <= size[t[1]]
          /\ pins \in [Tiles -> 0..MaxPins]
          /\ used \in 0..(MaxRegion * Regions)
          /\ memory \in Limits
          /\ wanted \subseteq Tiles \ mapped
          /\ gaveWay \in BOOLEAN
          /\ refused \in BOOLEAN

Init == /\ size = [r \in RegionSet |-> 0]
        /\ base = [r \in RegionSet |-> 0]
        /\ mapped = {}
        /\ pins = [t \in Tiles |-> 0]
        /\ used = 0
        /\ memory \in Limits
        /\ wanted = {}
        /\ gaveWay = FALSE
        /\ refused = FALSE

-----------------------------------------------------------------------------
(* Admission. *)

(* Tiles are asked for: those of a new region, or some of one that were released. *)
Want(tiles) == /\ wanted = {}
               /\ wanted' = tiles
               /\ gaveWay' = FALSE
               /\ refused' = FALSE
               /\ UNCHANGED <<size, base, mapped, pins, used, memory>>

AskRegion(r, count) == r \notin Open /\ Want(TilesOf(r, count))

AskTiles(tiles) == /\ tiles # {}
                   /\ \E r \in Open : tiles \subseteq TilesOf(r, size[r]) \ mapped
                   /\ Want(tiles)

(* What exceeds the bound beside what is pinned is refused; where memory has shrunk, when all else was released. *)
Refuse == /\ wanted # {}
          /\ ~Within(Cardinality(Pinned) + Wanted)
          /\ Within(used) \/ mapped = Pinned
          /\ wanted' = {}
          /\ refused' = TRUE
          /\ UNCHANGED <<size, base, mapped, pins, used, memory, gaveWay>>

Release(t) == /\ mapped' = mapped \ {t}
              /\ used' = used - 1
              /\ UNCHANGED <<size, base, pins, memory, wanted, refused>>

(* To admit what is wanted, others are released. *)
Evict(t) == /\ t \in mapped \ Pinned
            /\ wanted # {}
            /\ Within(Cardinality(Pinned) + Wanted)
            /\ Within(used)
            /\ ~Within(used + Wanted)
            /\ gaveWay' = TRUE
            /\ Release(t)

AlignUp(page) == ((page + TilePages - 1) \div TilePages) * TilePages

Free(first, end) == \A r \in Open : End(r) <= first \/ end <= base[r]

(* The system reserves one tile more than is wanted, at any page; the region *)
(* begins at the first tile in it, and the rest is given back.             *)
Place(r, reserved) == /\ r \notin Open
                      /\ wanted # {}
                      /\ wanted = TilesOf(r, Wanted)
                      /\ Within(used + Wanted)
                      /\ reserved + (Wanted + 1) * TilePages <= Space
                      /\ Free(reserved, reserved + (Wanted + 1) * TilePages)
                      /\ size' = [size EXCEPT ![r] = Wanted]
                      /\ base' = [base EXCEPT ![r] = AlignUp(reserved)]
                      /\ UNCHANGED <<mapped, pins, used, memory, wanted, gaveWay, refused>>

(* The tiles that are wanted are mapped, in ascending order. *)
Map(t) == /\ t \in wanted
          /\ \A other \in wanted : t[2] <= other[2]
          /\ t[1] \in Open
          /\ Within(used + Wanted)
          /\ mapped' = mapped \cup {t}
          /\ used' = used + 1
          /\ wanted' = wanted \ {t}
          /\ UNCHANGED <<size, base, pins, memory, gaveWay, refused>>

(* The system refuses: what is not mapped yet is given up. *)
Fail == /\ wanted # {}
        /\ Within(used + Wanted)
        /\ wanted' = {}
        /\ UNCHANGED <<size, base, mapped, pins, used, memory, gaveWay, refused>>

-----------------------------------------------------------------------------
(* Use. *)

(* The bytes of a tile are taken into use once more, and once less. *)
Pin(t) == /\ t \in mapped
          /\ wanted = {}
          /\ pins[t] < MaxPins
          /\ pins' = [pins EXCEPT ![t] = @ + 1]
          /\ UNCHANGED <<size, base, mapped, used, memory, wanted, gaveWay, refused>>

Unpin(t) == /\ pins[t] > 0
            /\ wanted = {}
            /\ pins' = [pins EXCEPT ![t] = @ - 1]
            /\ UNCHANGED <<size, base, mapped, used, memory, wanted, gaveWay, refused>>

(* A region is closed of which nothing is in use. *)
Close(r) == /\ r \in Open
            /\ wanted = {}
            /\ \A t \in TilesOf(r, size[r]) : pins[t] = 0
            /\ size' = [size EXCEPT ![r] = 0]
            /\ base' = [base EXCEPT ![r] = 0]
            /\ mapped' = mapped \ TilesOf(r, size[r])
            /\ used' = used - Cardinality(mapped \cap TilesOf(r, size[r]))
            /\ UNCHANGED <<pins, memory, wanted, gaveWay, refused>>

-----------------------------------------------------------------------------
(* Memory. *)

(* A limit is lowered, or raised again. *)
Limit(pages) == /\ wanted = {}
                /\ pages # memory
                /\ memory' = pages
                /\ UNCHANGED <<size, base, mapped, pins, used, wanted, gaveWay, refused>>

(* Where it was lowered under what is mapped, tiles are released. *)
Relieve(t) == /\ t \in mapped \ Pinned
              /\ ~Within(used)
              /\ UNCHANGED gaveWay
              /\ Release(t)

Next == \/ Refuse \/ Fail
        \/ \E r \in RegionSet : \/ Close(r)
                                \/ \E count \in 1..MaxRegion : AskRegion(r, count)
                                \/ \E page \in 0..Space : Place(r, page)
        \/ \E tiles \in SUBSET Tiles : AskTiles(tiles)
        \/ \E t \in Tiles : Evict(t) \/ Map(t) \/ Pin(t) \/ Unpin(t) \/ Relieve(t)
        \/ \E pages \in Limits : Limit(pages)

(* Tiles that are over are released whenever they can be, and no tile is pinned for ever. *)
Fairness == \A t \in Tiles : SF_vars(Relieve(t)) /\ []<>(pins[t] = 0)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

RegionsDisjoint == \A r, s \in Open : r # s => End(r) <= base[s] \/ End(s) <= base[r]

(* The document's working set: what is mapped, in tiles. *)
WorkingSet == Cardinality(mapped)

(* What is counted is what is mapped. *)
CountIsExact == used = WorkingSet

Most == CHOOSE pages \in Limits : \A other \in Limits : other <= pages

(* The document's memory bound: 70 % of memory, and no region too large. *)
Inv_1 == /\ memory = Most => Within(WorkingSet)
         /\ \A r \in RegionSet : size[r] <= MaxRegion

(* The document's alignment: every region begins at a tile. *)
Inv_2 == \A r \in Open : base[r] % TilePages = 0

(* Nothing is released for what is then refused. *)
RefusedMovesNothing == refused => ~gaveWay

-----------------------------------------------------------------------------
(* Properties. *)

(* Within the bound stays within, unless memory shrinks. *)
WithinStaysWithin ==
    [][10 * used * TilePages <= 7 * memory =>
          10 * used' * TilePages <= 7 * memory' \/ memory' < memory]_vars

(* Nothing is admitted that goes beyond the bound, so nothing at all while what is mapped does. *)
AdmissionKeepsTheBound == [][used' > used => 10 * used' * TilePages <= 7 * memory']_vars

(* Only what does not fit beside what is pinned is refused. *)
RefusedDoesNotFit ==
    [][refused' /\ ~refused => 10 * (Cardinality(Pinned) + Wanted) * TilePages > 7 * memory]_vars

(* What is in use stays mapped, where it is. *)
PinnedStays == [][\A t \in Pinned : t \in mapped' /\ base'[t[1]] = base[t[1]]]_vars

(* Over the bound leads to within. *)
(* (TLC 2.18 cannot evaluate a product in a temporal formula, so the bound   *)
(* is looked up.)                                                           *)
Bound == [pages \in Limits |-> (7 * pages) \div (10 * TilePages)]
OverLeadsToWithin == used > Bound[memory] ~> used <= Bound[memory]

MappedOf(r) == Cardinality({t \in mapped : t[1] = r})

(* The document's module, of the most memory that there is. *)
Document == INSTANCE MnemosyneInvariants WITH
               PHYSICAL_RAM <- Most * (16384 \div TilePages), MAX_REGION_SIZE <- MaxRegion * 16384,
               PAGES <- Space, PAGE <- 16384 \div TilePages, THREADS <- {}, TILES <- 0,
               VECTOR_DIM <- 0, PATTERNS <- 1, VECTORS <- 0,
               size <- [r \in RegionSet |-> 16384 * MappedOf(r)],
               base_addr <- [r \in RegionSet |-> IF MappedOf(r) > 0 THEN base[r] * (16384 \div TilePages) ELSE 0],
               write_set <- <<>>, locks <- <<>>, V_sequence <- <<>>, Delta_sequence <- <<>>
RefinesInvariants == Document!Spec

THEOREM Spec => [](TypeOK /\ RegionsDisjoint /\ CountIsExact /\ Inv_1 /\ Inv_2 /\ RefusedMovesNothing)
THEOREM Spec => WithinStaysWithin /\ AdmissionKeepsTheBound /\ RefusedDoesNotFit /\ PinnedStays
THEOREM Spec => OverLeadsToWithin /\ RefinesInvariants

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverOverTheBound == Within(WorkingSet)
NeverBeyondMemory == WorkingSet * TilePages <= memory
NeverRefused == ~refused
NeverGivesWay == ~gaveWay

(* Nothing need be mapped. *)
SomeoneAsks == <>(wanted # {})
=============================================================================
