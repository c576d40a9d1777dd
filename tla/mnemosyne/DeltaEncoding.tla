--------------------------- MODULE DeltaEncoding ----------------------------
(***************************************************************************)
(* Vectors stored as differences. The first is stored as it is, each next  *)
(* one as its difference from the one before. Lossless mode subtracts the  *)
(* patterns of bits as integers of their width, modulo 2 to the width, and *)
(* gives every vector back (Inv_4 of the document). Lossy mode rounds each *)
(* difference to a multiple of a step: taken from what a reader rebuilds,  *)
(* not from the vector itself, the error stays within half a step for      *)
(* ever. One component stands for all, since they do not mix.              *)
(*                                                                         *)
(* A vector counts when its record is synced. A crash loses those that are *)
(* not, and no other.                                                      *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS Modulus,   \* patterns are 0..(Modulus - 1)
          Step,      \* lossy differences are multiples of this, an odd number
          Most,      \* how many vectors there may be
          Crashes    \* how many crashes there may be

VARIABLES vectors,   \* what was given to be stored
          exact,     \* the lossless records: the first vector, then differences
          rounded,   \* the lossy ones
          synced,    \* how many records are safe
          crashes    \* crashes so far

vars == <<vectors, exact, rounded, synced, crashes>>

Patterns == 0..(Modulus - 1)

(* What a reader makes of the first i records. *)
RECURSIVE Exact(_)
Exact(i) == IF i = 1 THEN exact[1] ELSE (Exact(i - 1) + exact[i]) % Modulus

RECURSIVE Rounded(_)
Rounded(i) == IF i = 1 THEN rounded[1] ELSE Rounded(i - 1) + rounded[i]

(* The nearest multiple of the step. *)
Nearest(x) == Step * ((2 * x + Step) \div (2 * Step))

TypeOK == /\ vectors \in Seq(Patterns)
          /\ exact \in Seq(Patterns)
          /\ Len(exact) = Len(vectors)
          /\ Len(rounded) = Len(vectors)
          /\ synced \in 0..Len(vectors)
          /\ crashes \in 0..Crashes

Init == /\ vectors = <<>>
        /\ exact = <<>>
        /\ rounded = <<>>
        /\ synced = 0
        /\ crashes = 0

-----------------------------------------------------------------------------

(* The first vector is stored as it is. *)
Begin(v) == /\ vectors = <<>>
            /\ vectors' = <<v>>
            /\ exact' = <<v>>
            /\ rounded' = <<v>>
            /\ UNCHANGED <<synced, crashes>>

(* Each next one as a difference. *)
Extend(v) == /\ Len(vectors) \in 1..(Most - 1)
             /\ vectors' = Append(vectors, v)
             /\ exact' = Append(exact, (v - vectors[Len(vectors)]) % Modulus)
             /\ rounded' = Append(rounded, Nearest(v - Rounded(Len(rounded))))
             /\ UNCHANGED <<synced, crashes>>

(* Records are synced in their order. *)
Sync == /\ synced < Len(vectors)
        /\ synced' = synced + 1
        /\ UNCHANGED <<vectors, exact, rounded, crashes>>

(* A crash cuts off what was not. *)
Crash == /\ crashes < Crashes
         /\ crashes' = crashes + 1
         /\ vectors' = SubSeq(vectors, 1, synced)
         /\ exact' = SubSeq(exact, 1, synced)
         /\ rounded' = SubSeq(rounded, 1, synced)
         /\ UNCHANGED synced

Next == \/ Sync \/ Crash
        \/ \E v \in Patterns : Begin(v) \/ Extend(v)

Spec == Init /\ [][Next]_vars /\ WF_vars(Sync)

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* The document's invertibility, for the lossless mode. *)
Inv_4 == \A i \in 1..Len(vectors) : Exact(i) = vectors[i]

(* The bound of the lossy mode: half a step, however many there are. *)
ErrorIsBounded == \A i \in 1..Len(vectors) :
                     /\ 2 * (Rounded(i) - vectors[i]) <= Step
                     /\ 2 * (vectors[i] - Rounded(i)) <= Step

-----------------------------------------------------------------------------
(* Properties. *)

(* What is safe stays as it is. *)
SyncedIsKept == [][\A i \in 1..synced : i <= Len(exact') /\ exact'[i] = exact[i] /\ rounded'[i] = rounded[i]]_vars

(* What was given becomes safe, or is lost in a crash. *)
AllBecomesSafe == synced < Len(vectors) ~> synced = Len(vectors)

(* The document's module, of vectors of one element: Inv_4 is its DeltaEncodingInvertibility. *)
Document == INSTANCE MnemosyneInvariants WITH
               VECTOR_DIM <- 1, PATTERNS <- Modulus, VECTORS <- Most,
               V_sequence <- [i \in 1..Len(vectors) |-> <<vectors[i]>>],
               Delta_sequence <- [i \in 1..(Len(exact) - 1) |-> <<exact[i + 1]>>],
               Regions <- 0, PHYSICAL_RAM <- 0, MAX_REGION_SIZE <- 0, PAGES <- 0, PAGE <- 1, THREADS <- {}, TILES <- 0,
               size <- <<>>, base_addr <- <<>>, write_set <- <<>>, locks <- <<>>
RefinesInvariants == Document!Spec

THEOREM Spec => [](TypeOK /\ Inv_4 /\ ErrorIsBounded)
THEOREM Spec => SyncedIsKept /\ AllBecomesSafe /\ RefinesInvariants

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

(* Rounded differences are not invertible: the document's pipeline ends in one. *)
RoundedIsInvertible == \A i \in 1..Len(vectors) : Rounded(i) = vectors[i]
NeverWraps == \A i \in 2..Len(vectors) : exact[i] = vectors[i] - vectors[i - 1]

(* No vector need be given. *)
AVectorComes == <>(vectors # <<>>)
=============================================================================
