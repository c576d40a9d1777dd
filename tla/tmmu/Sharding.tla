------------------------------ MODULE Sharding ------------------------------
(***************************************************************************)
(* One tensor over a mesh of ranks. Ranks stand at coordinates of two      *)
(* axes, data and tensor. A shard spec says which axis splits the tensor,  *)
(* or none. Each rank reads the spec for itself and plans by itself; then  *)
(* all tell each other the hash of what they have read, and a rank begins  *)
(* only when it has heard the same hash from every other. Begun, they      *)
(* gather the tensor: each sends its shard to its neighbour on the axis.   *)
(*                                                                         *)
(* Every element lies on exactly one coordinate of the axis that splits    *)
(* the tensor, and the other axis holds replicas that are equal. A number  *)
(* of elements that does not divide is refused.                            *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Sizes,     \* numbers of elements that the tensor may have
          Width,     \* coordinates on each axis
          Specs      \* what a rank may have read: a subset of {"none", "data", "tensor"}

VARIABLES size,      \* elements of the tensor
          spec,      \* the spec that each rank has read
          phase,     \* where each rank stands
          heard,     \* the ranks of which a rank has heard the hash
          holds,     \* the elements that a rank has
          mail       \* elements on their way: <<from, to>> -> elements

vars == <<size, spec, phase, heard, holds, mail>>
given == <<size, spec>>

Coordinates == 0..(Width - 1)
Ranks == Coordinates \X Coordinates        \* <<data, tensor>>
Elements == 0..(size - 1)

(* The coordinate of a rank on the axis that splits, and how many there are. *)
Coordinate(rank, by) == CASE by = "none" -> 0 [] by = "data" -> rank[1] [] by = "tensor" -> rank[2]
Parts(by) == IF by = "none" THEN 1 ELSE Width

(* Its shard is a range of equal length. *)
Shard(rank, by) ==
    LET length == size \div Parts(by)
        first == length * Coordinate(rank, by)
    IN  first..(first + length - 1)

Divides(by) == size % Parts(by) = 0

(* The next rank on the axis that splits. *)
Neighbour(rank) ==
    CASE spec[rank] = "none" -> rank
      [] spec[rank] = "data" -> <<(rank[1] + 1) % Width, rank[2]>>
      [] spec[rank] = "tensor" -> <<rank[1], (rank[2] + 1) % Width>>

TypeOK == /\ size \in Sizes
          /\ spec \in [Ranks -> Specs]
          /\ phase \in [Ranks -> {"read", "planned", "agreed", "refused", "gathered"}]
          /\ heard \in [Ranks -> SUBSET Ranks]
          /\ holds \in [Ranks -> SUBSET Elements]
          /\ mail \in [Ranks -> SUBSET Elements]

(* All ranks read one spec, or one of them reads another. *)
Init == /\ size \in Sizes
        /\ \E most, other \in Specs, odd \in Ranks :
              spec = [rank \in Ranks |-> IF rank = odd THEN other ELSE most]
        /\ phase = [rank \in Ranks |-> "read"]
        /\ heard = [rank \in Ranks |-> {}]
        /\ holds = [rank \in Ranks |-> {}]
        /\ mail = [rank \in Ranks |-> {}]

-----------------------------------------------------------------------------

Move(rank, to) == phase' = [phase EXCEPT ![rank] = to]

(* A rank plans its shard, and tells the hash of its spec to all. *)
Plan(rank) == /\ phase[rank] = "read"
              /\ Divides(spec[rank])
              /\ Move(rank, "planned")
              /\ holds' = [holds EXCEPT ![rank] = Shard(rank, spec[rank])]
              /\ UNCHANGED <<given, heard, mail>>

(* It refuses a size that does not divide. *)
RefuseSize(rank) == /\ phase[rank] = "read"
                    /\ ~Divides(spec[rank])
                    /\ Move(rank, "refused")
                    /\ UNCHANGED <<given, heard, holds, mail>>

(* It hears the hashes of the others. *)
Hear(rank) == /\ phase[rank] = "planned"
              /\ \A other \in Ranks : phase[other] # "read"
              /\ heard[rank] # Ranks
              /\ heard' = [heard EXCEPT ![rank] = Ranks]
              /\ UNCHANGED <<given, phase, holds, mail>>

Same(rank) == \A other \in Ranks : spec[other] = spec[rank]

(* If all are its own, it begins: it sends its shard on. *)
Agree(rank) == /\ phase[rank] = "planned"
               /\ heard[rank] = Ranks
               /\ Same(rank)
               /\ Move(rank, "agreed")
               /\ mail' = [mail EXCEPT ![Neighbour(rank)] = holds[rank]]
               /\ UNCHANGED <<given, heard, holds>>

(* If not, it refuses, with the rank whose spec is another. *)
RefuseSpec(rank) == /\ phase[rank] = "planned"
                    /\ heard[rank] = Ranks
                    /\ ~Same(rank)
                    /\ Move(rank, "refused")
                    /\ UNCHANGED <<given, heard, holds, mail>>

(* What arrives is put beside its own. *)
Receive(rank) == /\ phase[rank] = "agreed"
                 /\ mail[rank] # {}
                 /\ holds' = [holds EXCEPT ![rank] = @ \cup mail[rank]]
                 /\ mail' = [mail EXCEPT ![rank] = {}]
                 /\ Move(rank, "gathered")
                 /\ UNCHANGED <<given, heard>>

Next == \E rank \in Ranks : \/ Plan(rank) \/ RefuseSize(rank) \/ Hear(rank)
                            \/ Agree(rank) \/ RefuseSpec(rank) \/ Receive(rank)

Fairness == WF_vars(Next)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

Planned == \A rank \in Ranks : phase[rank] = "planned"

(* Ranks with one spec and one coordinate on its axis hold the same shard. *)
ReplicasAgree == Planned => \A a, b \in Ranks :
                    /\ spec[a] = spec[b]
                    /\ Coordinate(a, spec[a]) = Coordinate(b, spec[b])
                    => holds[a] = holds[b]

(* Under one spec every element lies on exactly one coordinate of its axis. *)
CoveredOnce == Planned /\ Same(<<0, 0>>) => \A e \in Elements :
    Cardinality({Coordinate(rank, spec[rank]) : rank \in {r \in Ranks : e \in holds[r]}}) = 1

(* Nobody begins beside a rank that has read another spec, or has refused. *)
BeginsOnlyTogether == \A a, b \in Ranks :
    phase[a] \in {"agreed", "gathered"} => spec[a] = spec[b] /\ phase[b] # "refused"

(* What was gathered is the whole tensor. *)
GatheredIsWhole == \A rank \in Ranks : phase[rank] = "gathered" => holds[rank] = Elements

-----------------------------------------------------------------------------
(* Properties. *)

(* Every rank gathers the tensor, or every rank refuses. *)
AllEndAlike == <>(\/ \A rank \in Ranks : phase[rank] = "gathered"
                  \/ \A rank \in Ranks : phase[rank] = "refused")

THEOREM Spec => [](TypeOK /\ ReplicasAgree /\ CoveredOnce /\ BeginsOnlyTogether /\ GatheredIsWhole)
THEOREM Spec => AllEndAlike

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverGathered == \A rank \in Ranks : phase[rank] # "gathered"
NeverSpecRefused == \A rank \in Ranks : heard[rank] = {} \/ phase[rank] # "refused"
=============================================================================
