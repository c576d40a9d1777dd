--------------------------- MODULE DocumentLocks ----------------------------
(***************************************************************************)
(* WriteLocks, read as what MnemosyneInvariants has of threads: whatever   *)
(* is written is written under locks that no other thread holds.           *)
(***************************************************************************)
EXTENDS WriteLocks

Document == INSTANCE MnemosyneInvariants WITH
               THREADS <- Threads, TILES <- Tiles, write_set <- writes, locks <- locks,
               Regions <- 0, PHYSICAL_RAM <- 0, MAX_REGION_SIZE <- 0, PAGES <- 0, PAGE <- 1,
               VECTOR_DIM <- 0, PATTERNS <- 1, VECTORS <- 0,
               size <- <<>>, base_addr <- <<>>, V_sequence <- <<>>, Delta_sequence <- <<>>

(* Inv_3 is its NoDataRace. *)
RefinesInvariants == Document!Spec

THEOREM Spec => RefinesInvariants
=============================================================================
