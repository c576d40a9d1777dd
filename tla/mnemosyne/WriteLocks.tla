----------------------------- MODULE WriteLocks -----------------------------
(***************************************************************************)
(* Threads that read and write tiles under locks. A section of a thread    *)
(* has a set of locks, takes all of them in ascending order, reads and     *)
(* writes its tiles, and releases them. A section that only reads may hold *)
(* its locks together with other such sections. A thread that waits for a  *)
(* lock stands in its queue, and gets it in turn.                          *)
(*                                                                         *)
(* Which locks a section has is up to the program, as long as any two that *)
(* meet at a tile which one of them writes share a lock, and not both as   *)
(* readers: that is Inv_3. The document's Inv_3 is about write sets alone, *)
(* and has no readers. Both are about   the locks under which tiles are    *)
(* accessed: those that are held at one moment never meet, but as readers. *)
(* From Inv_3 it follows that no tile is written while another thread      *)
(* accesses it.                                                            *)
(*                                                                         *)
(* A process that is killed loses its locks. spec: MN7.2, MN7.5 to MN7.7   *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Threads,   \* the threads, by name
          Tiles,     \* tiles are 1..Tiles
          Locks,     \* locks are 1..Locks
          Kills      \* how often a thread may be killed

VARIABLES reads,     \* the tiles that the section of each thread reads
          writes,    \* those that it writes
          needs,     \* the locks of the section that it has not released
          shared,    \* does it hold them together with other readers?
          locks,     \* the locks that it holds
          active,    \* is it between its last lock and its first release?
          queue,     \* the threads that wait for each lock, first come first
          kills      \* threads killed so far

vars == <<reads, writes, needs, shared, locks, active, queue, kills>>

TileSet == 1..Tiles
LockSet == 1..Locks

Queued(t, lock) == \E i \in 1..Len(queue[lock]) : queue[lock][i] = t

TypeOK == /\ reads \in [Threads -> SUBSET TileSet]
          /\ writes \in [Threads -> SUBSET TileSet]
          /\ needs \in [Threads -> SUBSET LockSet]
          /\ shared \in [Threads -> BOOLEAN]
          /\ locks \in [Threads -> SUBSET LockSet]
          /\ active \in [Threads -> BOOLEAN]
          /\ \A lock \in LockSet : Len(queue[lock]) <= Cardinality(Threads)
          /\ kills \in 0..Kills

Init == /\ reads = [t \in Threads |-> {}]
        /\ writes = [t \in Threads |-> {}]
        /\ needs = [t \in Threads |-> {}]
        /\ shared = [t \in Threads |-> FALSE]
        /\ locks = [t \in Threads |-> {}]
        /\ active = [t \in Threads |-> FALSE]
        /\ queue = [lock \in LockSet |-> <<>>]
        /\ kills = 0

-----------------------------------------------------------------------------

Accessed(t) == reads[t] \cup writes[t]
Idle(t) == Accessed(t) = {} /\ needs[t] = {}

(* Two sections meet at a tile that one of them writes. *)
Meet(r, w, t) == w \cap Accessed(t) # {} \/ r \cap writes[t] # {}

(* A lock that both have keeps them apart, unless both hold it as readers. *)
KeptApart(n, s, t) == n \cap needs[t] # {} /\ ~(s /\ shared[t])

(* A section begins, with locks that keep it apart from those that it meets. *)
Begin(t, r, w, n, s) ==
    /\ Idle(t)
    /\ r \cup w # {} /\ r \cap w = {}
    /\ s => n # {}
    /\ \A other \in Threads \ {t} : Meet(r, w, other) => KeptApart(n, s, other)
    /\ reads' = [reads EXCEPT ![t] = r]
    /\ writes' = [writes EXCEPT ![t] = w]
    /\ needs' = [needs EXCEPT ![t] = n]
    /\ shared' = [shared EXCEPT ![t] = s]
    /\ UNCHANGED <<locks, active, queue, kills>>

Missing(t) == needs[t] \ locks[t]
Lowest(set) == CHOOSE lock \in set : \A other \in set : lock <= other

(* It asks for the lowest lock that it lacks, *)
Request(t) == /\ Missing(t) # {}
              /\ LET lock == Lowest(Missing(t)) IN
                    /\ ~Queued(t, lock)
                    /\ queue' = [queue EXCEPT ![lock] = Append(@, t)]
              /\ UNCHANGED <<reads, writes, needs, shared, locks, active, kills>>

(* and takes it when it is free, or held by readers as it is one, and its turn has come. *)
Take(t, lock) == /\ Queued(t, lock)
                 /\ Head(queue[lock]) = t
                 /\ \A other \in Threads : lock \in locks[other] => shared[t] /\ shared[other]
                 /\ locks' = [locks EXCEPT ![t] = @ \cup {lock}]
                 /\ queue' = [queue EXCEPT ![lock] = SelectSeq(@, LAMBDA x : x # t)]
                 /\ UNCHANGED <<reads, writes, needs, shared, active, kills>>

(* With all its locks it reads and writes its tiles, in any order, *)
Enter(t) == /\ Accessed(t) # {}
            /\ ~active[t]
            /\ Missing(t) = {}
            /\ active' = [active EXCEPT ![t] = TRUE]
            /\ UNCHANGED <<reads, writes, needs, shared, locks, queue, kills>>

(* until it has done so, *)
Leave(t) == /\ active[t]
            /\ active' = [active EXCEPT ![t] = FALSE]
            /\ reads' = [reads EXCEPT ![t] = {}]
            /\ writes' = [writes EXCEPT ![t] = {}]
            /\ UNCHANGED <<needs, shared, locks, queue, kills>>

(* and releases its locks in any order. *)
Release(t, lock) == /\ Accessed(t) = {}
                    /\ lock \in locks[t]
                    /\ locks' = [locks EXCEPT ![t] = @ \ {lock}]
                    /\ needs' = [needs EXCEPT ![t] = @ \ {lock}]
                    /\ shared' = [shared EXCEPT ![t] = @ /\ needs[t] # {lock}]
                    /\ UNCHANGED <<reads, writes, active, queue, kills>>

(* A thread is killed with its process: it accesses nothing more, holds nothing and waits for nothing. *)
Kill(t) == /\ ~Idle(t)
           /\ kills < Kills
           /\ kills' = kills + 1
           /\ reads' = [reads EXCEPT ![t] = {}]
           /\ writes' = [writes EXCEPT ![t] = {}]
           /\ needs' = [needs EXCEPT ![t] = {}]
           /\ shared' = [shared EXCEPT ![t] = FALSE]
           /\ locks' = [locks EXCEPT ![t] = {}]
           /\ active' = [active EXCEPT ![t] = FALSE]
           /\ queue' = [lock \in LockSet |-> SelectSeq(queue[lock], LAMBDA x : x # t)]

(* What a thread does in its section. *)
GoOn(t) == \/ Request(t) \/ Enter(t) \/ Leave(t)
           \/ \E lock \in LockSet : Take(t, lock) \/ Release(t, lock)

Next == \E t \in Threads : \/ GoOn(t) \/ Kill(t)
                           \/ \E r, w \in SUBSET TileSet, n \in SUBSET LockSet, s \in BOOLEAN : Begin(t, r, w, n, s)

Fairness == \A t \in Threads : WF_vars(GoOn(t))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A lock has one holder, or readers alone. *)
LocksExclude == \A s, t \in Threads : s # t /\ locks[s] \cap locks[t] # {} => shared[s] /\ shared[t]

(* What is accessed is accessed under all locks of the section. *)
AccessesUnderLocks == \A t \in Threads : active[t] => needs[t] \subseteq locks[t]

(* The document's absence of data races, with readers. *)
Inv_3 == \A s, t \in Threads : s # t /\ writes[s] \cap Accessed(t) # {} => KeptApart(needs[s], shared[s], t)

(* No tile is written while another thread accesses it. *)
NoRace == \A s, t \in Threads : s # t /\ active[s] /\ active[t] => writes[s] \cap Accessed(t) = {}

(* No thread waits for a lock below one that it holds: no circle can close. *)
Ascending == \A t \in Threads, lock \in LockSet :
                Queued(t, lock) => \A held \in locks[t] : held < lock

-----------------------------------------------------------------------------
(* Properties. *)

(* Every section ends: its thread gets each lock that it waits for, and gives all of them back. *)
EverySectionEnds == \A t \in Threads : ~Idle(t) ~> Idle(t)

THEOREM Spec => [](TypeOK /\ LocksExclude /\ AccessesUnderLocks /\ Inv_3 /\ NoRace /\ Ascending)
THEOREM Spec => EverySectionEnds

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverBothActive == Cardinality({t \in Threads : active[t]}) < 2
NeverTwoReadersOfOneLock == \A s, t \in Threads : s # t => locks[s] \cap locks[t] = {}

(* Sets that overlap in part keep apart as well. *)
NeverPartly == \A s, t \in Threads : active[s] /\ Meet(reads[s], writes[s], t) /\ s # t => needs[s] = needs[t]

(* No thread need begin a section. *)
SomeoneBegins == <>(\E t \in Threads : ~Idle(t))
=============================================================================
