--------------------------- MODULE MappedRegions ----------------------------
(***************************************************************************)
(* Mnemosyne's regions: ranges of whole tiles, mapped from files into the  *)
(* address space and unmapped again. The system reserves ranges aligned    *)
(* to a page only, so a region is placed at the first tile inside what was *)
(* reserved, one tile longer.                                              *)
(*                                                                         *)
(* A region is admitted if the mapped bytes stay within 7/10 of memory     *)
(* with it; if not, others are unmapped first, and if that cannot be, it   *)
(* is refused. A region whose bytes are in use is pinned, and              *)
(* stays. Memory may shrink under what is mapped: then nothing is admitted *)
(* until enough is unmapped, and enough will be.                           *)
(*                                                                         *)
(* Inv_1 and Inv_2 bear the names of the document. Inv_1 promises          *)
(* the bound as long as memory has not shrunk.                             *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Regions,   \* names of regions
          TilePages, \* pages of a tile
          Space,     \* the address space has the pages 0..(Space - 1)
          MaxRegion, \* tiles of the largest region
          Memory,    \* tiles of memory in the beginning
          Shrunk     \* tiles of memory after it has shrunk

VARIABLES size,      \* tiles of each region, 0 where it is not mapped
          base,      \* its first page
          pinned,    \* regions whose bytes are in use
          used,      \* tiles that are mapped, as they are counted
          memory,    \* tiles of memory now
          wanted,    \* tiles of the region that is asked for, 0 for none
          refused    \* was the last one refused?

vars == <<size, base, pinned, used, memory, wanted, refused>>

Mapped == {r \in Regions : size[r] > 0}
Pages(r) == base[r]..(base[r] + size[r] * TilePages - 1)

Within(tiles) == 10 * tiles <= 7 * memory

TypeOK == /\ size \in [Regions -> 0..MaxRegion]
          /\ base \in [Regions -> 0..Space]
          /\ pinned \subseteq Mapped
          /\ used \in 0..(MaxRegion * Cardinality(Regions))
          /\ memory \in {Memory, Shrunk}
          /\ wanted \in 0..MaxRegion
          /\ refused \in BOOLEAN

Init == /\ size = [r \in Regions |-> 0]
        /\ base = [r \in Regions |-> 0]
        /\ pinned = {}
        /\ used = 0
        /\ memory = Memory
        /\ wanted = 0
        /\ refused = FALSE

-----------------------------------------------------------------------------

(* A region of some tiles is asked for. *)
Ask(tiles) == /\ wanted = 0
              /\ wanted' = tiles
              /\ refused' = FALSE
              /\ UNCHANGED <<size, base, pinned, used, memory>>

AlignUp(page) == ((page + TilePages - 1) \div TilePages) * TilePages

Free(pages) == \A r \in Mapped : Pages(r) \cap pages = {}

(* The system reserves one tile more than is wanted, at any page; the region *)
(* begins at the first tile in it, and the rest is given back.             *)
Map(r, reserved) == /\ wanted > 0
                    /\ r \notin Mapped
                    /\ Within(used + wanted)
                    /\ reserved + (wanted + 1) * TilePages <= Space
                    /\ Free(reserved..(reserved + (wanted + 1) * TilePages - 1))
                    /\ size' = [size EXCEPT ![r] = wanted]
                    /\ base' = [base EXCEPT ![r] = AlignUp(reserved)]
                    /\ used' = used + wanted
                    /\ wanted' = 0
                    /\ UNCHANGED <<pinned, memory, refused>>

Unmap(r) == /\ size' = [size EXCEPT ![r] = 0]
            /\ base' = [base EXCEPT ![r] = 0]
            /\ used' = used - size[r]
            /\ UNCHANGED <<pinned, memory, wanted, refused>>

(* To admit what is wanted, or to keep the bound again, regions are unmapped. *)
Evict(r) == /\ r \in Mapped \ pinned
            /\ ~Within(used + wanted)
            /\ Unmap(r)

(* The user gives a region back. *)
GiveBack(r) == /\ r \in Mapped \ pinned
               /\ Within(used + wanted)
               /\ Unmap(r)

(* Where nothing more can be unmapped, or no room be found, what is wanted is refused. *)
Refuse == /\ wanted > 0
          /\ \/ ~Within(used + wanted) /\ Mapped \subseteq pinned
             \/ Within(used + wanted)
          /\ wanted' = 0
          /\ refused' = TRUE
          /\ UNCHANGED <<size, base, pinned, used, memory>>

(* The bytes of a region are taken into use, and released again. *)
Pin(r) == /\ r \in Mapped \ pinned
          /\ Within(used)
          /\ pinned' = pinned \cup {r}
          /\ UNCHANGED <<size, base, used, memory, wanted, refused>>

Unpin(r) == /\ r \in pinned
            /\ pinned' = pinned \ {r}
            /\ UNCHANGED <<size, base, used, memory, wanted, refused>>

(* A limit is lowered. *)
Shrink == /\ memory = Memory
          /\ memory' = Shrunk
          /\ UNCHANGED <<size, base, pinned, used, wanted, refused>>

Next == \/ Refuse \/ Shrink
        \/ \E tiles \in 1..MaxRegion : Ask(tiles)
        \/ \E r \in Regions : \/ Evict(r) \/ GiveBack(r) \/ Pin(r) \/ Unpin(r)
                              \/ \E page \in 0..Space : Map(r, page)

Fairness == \A r \in Regions : WF_vars(Evict(r)) /\ WF_vars(Unpin(r))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

RegionsDisjoint == \A r, s \in Mapped : r # s => Pages(r) \cap Pages(s) = {}

(* The document's working set: the sum of the sizes of what is mapped. *)
WorkingSet == Cardinality({tile \in Regions \X (1..MaxRegion) : tile[2] <= size[tile[1]]})

(* What is counted is what is mapped. *)
CountIsExact == used = WorkingSet

(* The document's memory bound: 70 % of memory, and no region too large. *)
Inv_1 == /\ memory = Memory => Within(WorkingSet)
         /\ \A r \in Regions : size[r] <= MaxRegion

(* The document's alignment: every region begins at a tile. *)
Inv_2 == \A r \in Mapped : base[r] % TilePages = 0

-----------------------------------------------------------------------------
(* Properties. *)

(* Nothing is admitted that goes beyond the bound. *)
AdmissionKeepsTheBound ==
    [][\A r \in Regions : size'[r] > size[r] => 10 * used' <= 7 * memory']_vars

(* What is in use stays where it is. *)
PinnedStays == [][\A r \in pinned : size'[r] = size[r] /\ base'[r] = base[r]]_vars

(* Over the bound leads to within. *)
(* (TLC 2.18 cannot evaluate a product in a temporal formula, so the bound   *)
(* is looked up.)                                                           *)
Bound == [tiles \in {Memory, Shrunk} |-> (7 * tiles) \div 10]
OverLeadsToWithin == used > Bound[memory] ~> used <= Bound[memory]

THEOREM Spec => [](TypeOK /\ RegionsDisjoint /\ CountIsExact /\ Inv_1 /\ Inv_2)
THEOREM Spec => AdmissionKeepsTheBound /\ PinnedStays /\ OverLeadsToWithin

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverOverTheBound == Within(WorkingSet)
NeverBeyondMemory == WorkingSet <= memory
NeverRefused == ~refused
=============================================================================
