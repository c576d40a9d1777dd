--------------------------- MODULE DocumentPools ----------------------------
(***************************************************************************)
(* MiCo's document shows two sets of pools for a network of four layers.   *)
(* Its list puts the input x and the result of layer 1 into one pool,      *)
(* although layer 1 reads x while it writes; its opening snippet puts a    *)
(* result of 1,024 bytes into a pool of 256. Both are run here beside what *)
(* the algorithm makes of the same network, with the operations reading    *)
(* and writing in any order within a step. The document's must fail.       *)
(*                                                                         *)
(* Sizes are in units of 64 bytes, but for the last results of 40.         *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANT Which       \* "list", "snippet" or "algorithm"

VARIABLES at,        \* the layer that runs
          read,      \* has it read its operand?
          wrote,     \* has it written its result?
          content    \* the tensor that each pool holds, "" before

vars == <<at, read, wrote, content>>

Chain == IF Which = "snippet"
         THEN <<"x", "layer1", "layer2", "layer3">>
         ELSE <<"x", "layer1", "layer2", "layer3", "layer4", "layer5", "layer6", "layer7", "output">>
Layers == 2..Len(Chain)
Tensors == {Chain[i] : i \in 1..Len(Chain)}

Bytes == IF Which = "snippet"
         THEN [t \in Tensors |-> 16]
         ELSE [t \in Tensors |-> IF t = "x" THEN 16 ELSE IF t \in {"layer7", "output"} THEN 1 ELSE 4]

(* The first pool holds 1,024 bytes and the second 256; the snippet's input lies apart. *)
PoolBytes == <<16, 4, 16>>

PoolOf == CASE Which = "list" ->
                 [t \in Tensors |-> IF t \in {"x", "layer1", "layer3", "layer5", "layer7"} THEN 1 ELSE 2]
            [] Which = "snippet" ->
                 [t \in Tensors |-> IF t = "x" THEN 3 ELSE IF t = "layer2" THEN 2 ELSE 1]
            [] Which = "algorithm" ->
                 [t \in Tensors |-> IF t \in {"x", "layer2", "layer4", "layer6", "output"} THEN 1 ELSE 2]

TypeOK == /\ at \in Layers
          /\ read \in BOOLEAN
          /\ wrote \in BOOLEAN
          /\ content \in [1..3 -> {""} \cup Tensors]

Init == /\ at = 2
        /\ read = FALSE
        /\ wrote = FALSE
        /\ content = [p \in 1..3 |-> IF p = PoolOf["x"] THEN "x" ELSE ""]

-----------------------------------------------------------------------------

(* A layer reads its operand, *)
Read == /\ ~read
        /\ read' = TRUE
        /\ UNCHANGED <<at, wrote, content>>

(* and writes its result, before or after: it does both bit by bit. *)
Write == /\ ~wrote
         /\ wrote' = TRUE
         /\ content' = [content EXCEPT ![PoolOf[Chain[at]]] = Chain[at]]
         /\ UNCHANGED <<at, read>>

Proceed == /\ read
           /\ wrote
           /\ at < Len(Chain)
           /\ at' = at + 1
           /\ read' = FALSE
           /\ wrote' = FALSE
           /\ UNCHANGED content

Next == Read \/ Write \/ Proceed

Spec == Init /\ [][Next]_vars /\ WF_vars(Next)

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* What a pool holds is no larger than the pool. *)
FitsItsPool == \A p \in 1..3 : content[p] # "" => Bytes[content[p]] <= PoolBytes[p]

(* What the layer is about to read is its operand. *)
ReadsSeeTheirWriter == ~read => content[PoolOf[Chain[at - 1]]] = Chain[at - 1]

-----------------------------------------------------------------------------
(* Properties. *)

RunsToTheEnd == <>(at = Len(Chain) /\ read /\ wrote)

THEOREM Which = "algorithm" /\ Spec => [](TypeOK /\ FitsItsPool /\ ReadsSeeTheirWriter) /\ RunsToTheEnd
=============================================================================
