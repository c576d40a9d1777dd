------------------------- MODULE MCPoolGenerations --------------------------
(* The bounds under which TLC checks PoolGenerations. *)
EXTENDS PoolGenerations

ChunkSizes == <<2, 3>>
=============================================================================
