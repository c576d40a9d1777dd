--------------------------- MODULE DocumentLocks ----------------------------
(***************************************************************************)
(* WriteLocks, read as what MnemosyneInvariants has of threads: whatever   *)
(* is written is written under locks that no other thread holds. There a   *)
(* tile has its own lock: it is held here as soon as all locks of a        *)
(* section that writes the tile are.                                       *)
(***************************************************************************)
EXTENDS WriteLocks

Locked(t) == IF Missing(t) = {} THEN writes[t] ELSE {}
Written(t) == IF active[t] THEN writes[t] ELSE {}

Document == INSTANCE MnemosyneInvariants WITH
               THREADS <- Threads, TILES <- Tiles, write_set <- [t \in Threads |-> Written(t)],
               locks <- [t \in Threads |-> Locked(t)],
               Regions <- 0, PHYSICAL_RAM <- 0, MAX_REGION_SIZE <- 0, PAGES <- 0, PAGE <- 1,
               VECTOR_DIM <- 0, PATTERNS <- 1, VECTORS <- 0,
               size <- <<>>, base_addr <- <<>>, V_sequence <- <<>>, Delta_sequence <- <<>>

(* Inv_3 is its NoDataRace. *)
RefinesInvariants == Document!Spec

THEOREM Spec => RefinesInvariants
=============================================================================
