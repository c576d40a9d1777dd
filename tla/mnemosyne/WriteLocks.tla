----------------------------- MODULE WriteLocks -----------------------------
(***************************************************************************)
(* Threads that write tiles. Each needs a set of tiles, takes the lock of  *)
(* each in ascending order, writes, and releases the locks. A thread that  *)
(* waits for a lock stands in its queue, and gets it in turn. No two       *)
(* threads write one tile at a time (Inv_3 of the document), none wait in  *)
(* a circle, and every thread that waits for a lock gets it.               *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Threads,   \* the threads, by name
          Tiles      \* tiles are 1..Tiles, each with its lock

VARIABLES needs,     \* the tiles that each thread will write
          locks,     \* the locks that it holds
          writes,    \* the tiles that it is writing
          queue      \* the threads that wait for the lock of each tile, first come first

vars == <<needs, locks, writes, queue>>

TileSet == 1..Tiles

Queued(t, tile) == \E i \in 1..Len(queue[tile]) : queue[tile][i] = t

TypeOK == /\ needs \in [Threads -> SUBSET TileSet]
          /\ locks \in [Threads -> SUBSET TileSet]
          /\ writes \in [Threads -> SUBSET TileSet]
          /\ \A tile \in TileSet : Len(queue[tile]) <= Cardinality(Threads)

Init == /\ needs = [t \in Threads |-> {}]
        /\ locks = [t \in Threads |-> {}]
        /\ writes = [t \in Threads |-> {}]
        /\ queue = [tile \in TileSet |-> <<>>]

-----------------------------------------------------------------------------

(* A thread comes with the tiles that it will write. *)
Begin(t, tiles) == /\ needs[t] = {}
                   /\ tiles # {}
                   /\ needs' = [needs EXCEPT ![t] = tiles]
                   /\ UNCHANGED <<locks, writes, queue>>

Missing(t) == needs[t] \ locks[t]
Lowest(tiles) == CHOOSE tile \in tiles : \A other \in tiles : tile <= other

(* It asks for the lowest lock that it lacks, *)
Request(t) == /\ Missing(t) # {}
              /\ LET tile == Lowest(Missing(t)) IN
                    /\ ~Queued(t, tile)
                    /\ queue' = [queue EXCEPT ![tile] = Append(@, t)]
              /\ UNCHANGED <<needs, locks, writes>>

(* and takes it when it is free and its turn has come. *)
Take(t, tile) == /\ Queued(t, tile)
                 /\ Head(queue[tile]) = t
                 /\ \A other \in Threads : tile \notin locks[other]
                 /\ locks' = [locks EXCEPT ![t] = @ \cup {tile}]
                 /\ queue' = [queue EXCEPT ![tile] = SelectSeq(@, LAMBDA x : x # t)]
                 /\ UNCHANGED <<needs, writes>>

(* With all its locks it writes, *)
Write(t) == /\ needs[t] # {}
            /\ Missing(t) = {}
            /\ writes[t] = {}
            /\ writes' = [writes EXCEPT ![t] = needs[t]]
            /\ UNCHANGED <<needs, locks, queue>>

(* and ends. *)
End(t) == /\ writes[t] # {}
          /\ writes' = [writes EXCEPT ![t] = {}]
          /\ locks' = [locks EXCEPT ![t] = {}]
          /\ needs' = [needs EXCEPT ![t] = {}]
          /\ UNCHANGED queue

Next == \E t \in Threads : \/ Request(t) \/ Write(t) \/ End(t)
                           \/ \E tiles \in SUBSET TileSet : Begin(t, tiles)
                           \/ \E tile \in TileSet : Take(t, tile)

Fairness == \A t \in Threads : /\ WF_vars(Request(t)) /\ WF_vars(Write(t)) /\ WF_vars(End(t))
                               /\ \A tile \in TileSet : WF_vars(Take(t, tile))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A lock has one holder. *)
LocksExclude == \A s, t \in Threads : s # t => locks[s] \cap locks[t] = {}

(* What is written is locked. *)
WritesUnderLock == \A t \in Threads : writes[t] \subseteq locks[t]

(* The document's absence of data races. *)
Inv_3 == \A s, t \in Threads : s # t =>
            writes[s] \cap writes[t] = {} \/ locks[s] \cap locks[t] # {}

(* No thread waits for a lock below one that it holds: no circle can close. *)
Ascending == \A t \in Threads, tile \in TileSet :
                Queued(t, tile) => \A held \in locks[t] : held < tile

-----------------------------------------------------------------------------
(* Properties. *)

(* Every thread that waits for a lock gets it. *)
EveryWaiterGetsItsLock == \A t \in Threads, tile \in TileSet : Queued(t, tile) ~> tile \in locks[t]

(* Every thread that begins writes. *)
EveryThreadWrites == \A t \in Threads : needs[t] # {} ~> writes[t] # {}

THEOREM Spec => [](TypeOK /\ LocksExclude /\ WritesUnderLock /\ Inv_3 /\ Ascending)
THEOREM Spec => EveryWaiterGetsItsLock /\ EveryThreadWrites

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverBothWrite == Cardinality({t \in Threads : writes[t] # {}}) < 2
NeverTwoWait == \A tile \in TileSet : Len(queue[tile]) < 2
=============================================================================
