------------------------- MODULE MCPoolGenerations --------------------------
(* All bytes that chunks can have under the bounds of the configurations. *)
EXTENDS PoolGenerations

AllPlaces == {<<c, b>> : c \in 1..3, b \in 0..2}
=============================================================================
