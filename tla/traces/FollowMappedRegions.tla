------------------------ MODULE FollowMappedRegions -------------------------
(***************************************************************************)
(* Follows one store of regions through MappedRegions. What the system has *)
(* mapped is compared with where the module has it: addresses in pages,    *)
(* and which page of the file lies there, which the module leaves out. The *)
(* tiles of a new region are mapped at once, in ascending order.           *)
(*                                                                         *)
(* spec: MN9.2                                                             *)
(***************************************************************************)
EXTENDS MappedRegions

VARIABLE file    \* the page of its file at which each region begins, and how many there are of it

state == <<vars, file>>

FollowInit == Init /\ file = [r \in RegionSet |-> [first |-> 0, pages |-> 0]]

Set(sequence) == {sequence[k] : k \in 1..Len(sequence)}
Bounded(e) == e.bound = (7 * memory') \div (10 * TilePages)
Counted(e) == e.mapped = used /\ e.pinned = Cardinality(Pinned)

(* The system has placed it between two pages before which less than a tile was left over. *)
PlacedAt(r, page) == \E reserved \in (page - TilePages + 1)..page : Place(r, reserved) /\ base'[r] = page

FollowPlace(e) == /\ e.region \in RegionSet
                  /\ PlacedAt(e.region, e.begin)
                  /\ e.end = e.begin + e.pages
                  /\ size'[e.region] = (e.pages + TilePages - 1) \div TilePages
                  /\ e.offset = e.asked
                  /\ file' = [file EXCEPT ![e.region] = [first |-> e.offset, pages |-> e.pages]]

(* The tile lies where it lay before, and the same bytes of the file with it; the last one may be shorter. *)
FollowMap(e, t) ==
    LET before == (e.tile - 1) * TilePages
        pages == file[e.region].pages - before
    IN  /\ Map(t)
        /\ e.begin = base[e.region] + before
        /\ e.end = e.begin + (IF pages < TilePages THEN pages ELSE TilePages)
        /\ e.offset = file[e.region].first + before
        /\ e.mapped = used'

FollowRelease(e, t) == /\ IF e.action = "Evict" THEN Evict(t) ELSE Relieve(t)
                       /\ e.mapped = used'
                       /\ e.isReserved

FollowTile(e, t) ==
    /\ t \in Tiles
    /\ \/ e.action = "MapFirst" /\ Map(t) /\ e.mapped = used'
       \/ e.action = "Map" /\ FollowMap(e, t)
       \/ e.action \in {"Evict", "Relieve"} /\ FollowRelease(e, t)
       \/ e.action = "Pin" /\ Pin(t) /\ pins'[t] = e.pins
       \/ e.action = "Unpin" /\ Unpin(t) /\ pins'[t] = e.pins
    /\ UNCHANGED file

Follow(e) ==
    \/ e.action = "AskRegion" /\ e.region \in RegionSet /\ AskRegion(e.region, e.count) /\ Counted(e) /\ UNCHANGED file
    \/ e.action = "AskTiles" /\ AskTiles(Set(e.tiles)) /\ Counted(e) /\ UNCHANGED file
    \/ /\ e.action = "Refuse"
       /\ Refuse
       /\ e.tiles = Wanted /\ e.pinned = Cardinality(Pinned) /\ Bounded(e)
       /\ UNCHANGED file
    \/ e.action = "Fail" /\ Fail /\ UNCHANGED file
    \/ e.action = "Place" /\ FollowPlace(e)
    \/ e.action \in {"MapFirst", "Map", "Evict", "Relieve", "Pin", "Unpin"} /\ FollowTile(e, <<e.region, e.tile>>)
    \/ /\ e.action = "Close"
       /\ Set(e.tiles) = {t \in mapped : t[1] = e.region}
       /\ e.region \in RegionSet /\ Close(e.region)
       /\ e.mapped = used'
       /\ UNCHANGED file
    \/ e.action = "Limit" /\ Limit(e.pages) /\ Bounded(e) /\ UNCHANGED file

(* Next with the tiles and the place of this step instead of all that might be. *)
ModuleNext == \/ Refuse \/ Fail \/ AskTiles(wanted')
              \/ \E r \in RegionSet : \/ Close(r) \/ AskRegion(r, Cardinality(wanted'))
                                      \/ size'[r] > size[r] /\ PlacedAt(r, base'[r])
              \/ \E t \in Tiles : Evict(t) \/ Map(t) \/ Pin(t) \/ Unpin(t) \/ Relieve(t)
              \/ \E pages \in Limits : Limit(pages)

(* A store is closed with all its regions. *)
Ends(e) == e.mapped = used /\ Open = {}
(* The actions of the module that could be taken now; any tiles may be asked for. *)
Allowed == {a \in {"AskRegion", "AskTiles", "Refuse", "Fail", "Place", "MapFirst", "Map", "Evict", "Relieve", "Pin",
                   "Unpin", "Close", "Limit"} :
              CASE a \in {"AskRegion", "Limit"} -> wanted = {}
                [] a = "AskTiles" -> wanted = {} /\ Cardinality(mapped) < Cardinality(Tiles)
                [] a = "Refuse" -> ENABLED Refuse
                [] a = "Fail" -> ENABLED Fail
                [] a = "Place" -> \E r \in RegionSet : ENABLED \E page \in 0..Space : Place(r, page)
                [] a = "Close" -> \E r \in RegionSet : ENABLED Close(r)
                [] OTHER -> \E t \in Tiles : CASE a \in {"MapFirst", "Map"} -> ENABLED Map(t)
                                               [] a = "Evict" -> ENABLED Evict(t)
                                               [] a = "Relieve" -> ENABLED Relieve(t)
                                               [] a = "Pin" -> ENABLED Pin(t)
                                               [] a = "Unpin" -> ENABLED Unpin(t)}

=============================================================================
