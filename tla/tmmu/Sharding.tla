------------------------------ MODULE Sharding ------------------------------
(***************************************************************************)
(* One tensor over a mesh of ranks. Ranks stand at coordinates of two      *)
(* axes, data and tensor. A shard spec names the axis that splits the      *)
(* tensor, or none. Each rank reads the spec for itself and plans by       *)
(* itself; then all send each other the hash of what they have read, and a *)
(* rank begins only when it has received the same hash from every other.   *)
(* Then they gather the tensor in a ring: each sends its shard to its      *)
(* neighbour on the axis, and passes on what arrives, unless it was the    *)
(* neighbour's.                                                            *)
(*                                                                         *)
(* Every element lies on exactly one coordinate of the axis that splits    *)
(* the tensor, and the other axis holds replicas that are equal. A number  *)
(* of elements that does not divide is refused.                            *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences

CONSTANTS Sizes,     \* numbers of elements that the tensor may have
          Data,      \* coordinates on the axis data
          Tensor,    \* coordinates on the axis tensor
          Specs      \* what a rank may have read: a subset of {"none", "data", "tensor"}

VARIABLES size,      \* elements of the tensor
          spec,      \* the spec that each rank has read
          phase,     \* where each rank stands
          received,  \* the ranks of which a rank has received the hash
          holds,     \* the elements that a rank has
          mail,      \* shards on their way to a rank, the oldest first
          got        \* how many shards have arrived at a rank

vars == <<size, spec, phase, received, holds, mail, got>>
given == <<size, spec>>
ring == <<mail, got>>

Ranks == (0..(Data - 1)) \X (0..(Tensor - 1))
Elements == 0..(size - 1)

(* The coordinate of a rank on the axis that splits, and how many there are. *)
Coordinate(rank, by) == CASE by = "none" -> 0 [] by = "data" -> rank[1] [] by = "tensor" -> rank[2]
Parts(by) == CASE by = "none" -> 1 [] by = "data" -> Data [] by = "tensor" -> Tensor

(* Its shard is a range of equal length. *)
Shard(rank, by) ==
    LET length == size \div Parts(by)
        first == length * Coordinate(rank, by)
    IN  first..(first + length - 1)

Divides(by) == size % Parts(by) = 0

(* The next rank on the axis that splits. *)
Neighbour(rank) ==
    CASE spec[rank] = "none" -> rank
      [] spec[rank] = "data" -> <<(rank[1] + 1) % Data, rank[2]>>
      [] spec[rank] = "tensor" -> <<rank[1], (rank[2] + 1) % Tensor>>

TypeOK == /\ size \in Sizes
          /\ spec \in [Ranks -> Specs]
          /\ phase \in [Ranks -> {"read", "planned", "agreed", "refused", "gathered"}]
          /\ received \in [Ranks -> SUBSET Ranks]
          /\ holds \in [Ranks -> SUBSET Elements]
          /\ mail \in [Ranks -> Seq(SUBSET Elements)]
          /\ got \in [Ranks -> 0..(Cardinality(Ranks) - 1)]

(* All ranks read one spec, or one of them reads another. *)
Init == /\ size \in Sizes
        /\ \E most, other \in Specs, odd \in Ranks :
              spec = [rank \in Ranks |-> IF rank = odd THEN other ELSE most]
        /\ phase = [rank \in Ranks |-> "read"]
        /\ received = [rank \in Ranks |-> {}]
        /\ holds = [rank \in Ranks |-> {}]
        /\ mail = [rank \in Ranks |-> <<>>]
        /\ got = [rank \in Ranks |-> 0]

-----------------------------------------------------------------------------

Move(rank, to) == phase' = [phase EXCEPT ![rank] = to]

(* A rank plans its shard, and sends the hash of its spec to all. *)
Plan(rank) == /\ phase[rank] = "read"
              /\ Divides(spec[rank])
              /\ Move(rank, "planned")
              /\ holds' = [holds EXCEPT ![rank] = Shard(rank, spec[rank])]
              /\ UNCHANGED <<given, received, ring>>

(* It refuses a size that does not divide. *)
RefuseSize(rank) == /\ phase[rank] = "read"
                    /\ ~Divides(spec[rank])
                    /\ Move(rank, "refused")
                    /\ UNCHANGED <<given, received, holds, ring>>

(* It receives the hashes of the others. *)
Exchange(rank) == /\ phase[rank] = "planned"
                  /\ \A other \in Ranks : phase[other] # "read"
                  /\ received[rank] # Ranks
                  /\ received' = [received EXCEPT ![rank] = Ranks]
                  /\ UNCHANGED <<given, phase, holds, ring>>

(* How many shards come to a rank, all but its own. *)
Last(rank) == Parts(spec[rank]) - 1

Same(rank) == \A other \in Ranks : spec[other] = spec[rank]

(* If all are its own, it begins: it sends its shard on. *)
Agree(rank) == /\ phase[rank] = "planned"
               /\ received[rank] = Ranks
               /\ Same(rank)
               /\ Move(rank, "agreed")
               /\ mail' = IF Last(rank) = 0 THEN mail
                           ELSE [mail EXCEPT ![Neighbour(rank)] = Append(@, holds[rank])]
               /\ UNCHANGED <<given, received, holds, got>>

(* If not, it refuses, with the rank whose spec is another. *)
RefuseSpec(rank) == /\ phase[rank] = "planned"
                    /\ received[rank] = Ranks
                    /\ ~Same(rank)
                    /\ Move(rank, "refused")
                    /\ UNCHANGED <<given, received, holds, ring>>

(* What arrives is put beside its own, and passed on but for the last. *)
Receive(rank) ==
    /\ phase[rank] = "agreed"
    /\ mail[rank] # <<>>
    /\ LET piece == Head(mail[rank])
           rest == [mail EXCEPT ![rank] = Tail(@)]
       IN  /\ holds' = [holds EXCEPT ![rank] = @ \cup piece]
           /\ mail' = IF got[rank] + 1 < Last(rank)
                      THEN [rest EXCEPT ![Neighbour(rank)] = Append(@, piece)]
                      ELSE rest
    /\ got' = [got EXCEPT ![rank] = @ + 1]
    /\ UNCHANGED <<given, phase, received>>

(* When as many have come as there are others, it is whole. *)
End(rank) == /\ phase[rank] = "agreed"
             /\ got[rank] = Last(rank)
             /\ Move(rank, "gathered")
             /\ UNCHANGED <<given, received, holds, ring>>

Next == \E rank \in Ranks : \/ Plan(rank) \/ RefuseSize(rank) \/ Exchange(rank)
                            \/ Agree(rank) \/ RefuseSpec(rank) \/ Receive(rank) \/ End(rank)

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

(* No rank begins beside one that has read another spec, or has refused. *)
BeginsOnlyTogether == \A a, b \in Ranks :
    phase[a] \in {"agreed", "gathered"} => spec[a] = spec[b] /\ phase[b] # "refused"

(* Nothing is sent to a rank that has it. *)
SentOnce == \A rank \in Ranks : \A k \in 1..Len(mail[rank]) :
               mail[rank][k] # {} /\ mail[rank][k] \cap holds[rank] = {}

(* What was gathered is the whole tensor. *)
GatheredIsWhole == \A rank \in Ranks : phase[rank] = "gathered" => holds[rank] = Elements

-----------------------------------------------------------------------------
(* Properties. *)

(* Every rank gathers the tensor, or every rank refuses. *)
AllEndAlike == <>(\/ \A rank \in Ranks : phase[rank] = "gathered"
                  \/ \A rank \in Ranks : phase[rank] = "refused")

THEOREM Spec => [](/\ TypeOK /\ ReplicasAgree /\ CoveredOnce /\ BeginsOnlyTogether /\ SentOnce
                   /\ GatheredIsWhole)
THEOREM Spec => AllEndAlike

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverGathered == \A rank \in Ranks : phase[rank] # "gathered"
NeverPassedOn == \A rank \in Ranks : got[rank] < 2
NeverSpecRefused == \A rank \in Ranks : received[rank] = {} \/ phase[rank] # "refused"
=============================================================================
