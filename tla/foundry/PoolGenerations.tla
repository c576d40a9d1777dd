-------------------------- MODULE PoolGenerations ---------------------------
(***************************************************************************)
(* Foundry's pool: a bump allocator over chunks, emptied as a whole. A     *)
(* request takes the first chunk with room, or opens the next, half as     *)
(* large again as the last; beyond the limit it is refused. A reset makes  *)
(* all bytes free again and raises the generation. Handles from before it  *)
(* remain with their users: each access of any kind compares generations   *)
(* first, and a stale one is refused.                                      *)
(* The device executes commands later than they are submitted, and a host  *)
(* keeps an array for however long; neither compares anything then.        *)
(* So a command holds the generation until it is completed, and an array,  *)
(* the lease of a handle, until it is returned. Several users share the    *)
(* pool, and each may ask for a reset. It takes place while nothing is     *)
(* held; else the user waits, and others go on, or gives up. Generations   *)
(* have a width: in the last one no reset takes place, for one that came   *)
(* again would make handles current that are not.                          *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Initial,         \* the size of the first chunk
          Limit,           \* the size of all chunks together
          MaxChunks,       \* how many chunks may be opened
          MaxRequest,      \* requests are of 1..MaxRequest bytes
          Handles,         \* how many handles are given out in all
          Users,           \* who may ask for a reset
          LastGeneration,  \* the largest that its width can hold
          MaxCommands,     \* how many commands may be submitted and not completed
          MaxLeases,       \* how many leases of one handle there may be
          Looked           \* which bytes of each chunk are looked at

VARIABLES generation,   \* the pool's generation, from 0
          sizes,        \* of each open chunk, its bytes
          cursor,       \* of each open chunk, how far it is given out
          handles,      \* the handles given out: chunk, first byte, bytes, generation
          content,      \* of each place, the number of the handle that wrote it, or 0
          queue,        \* the commands submitted and not completed: handles that it reads and writes
          leases,       \* of each handle, how many leases of it there are
          asking,       \* the users whose reset is not answered
          granted,      \* the last access: pairs of a handle's number and what it found
          refused       \* the number of the handle last refused an access, or 0

vars == <<generation, sizes, cursor, handles, content, queue, leases, asking, granted, refused>>

Places == (1..MaxChunks) \X Looked
Numbers == 1..Len(handles)
Range(h) == {<<h.chunk, b>> : b \in {b \in Looked : h.first <= b /\ b < h.first + h.bytes}}
IsCurrent(n) == handles[n].generation = generation
IsIdle == queue = <<>> /\ \A n \in 1..Handles : leases[n] = 0

TypeOK == /\ generation \in 0..LastGeneration
          /\ Len(sizes) = Len(cursor) /\ Len(cursor) <= MaxChunks
          /\ \A c \in 1..Len(cursor) : cursor[c] \in 0..sizes[c]
          /\ Len(handles) <= Handles
          /\ content \in [Places -> 0..Handles]
          /\ Len(queue) <= MaxCommands
          /\ leases \in [1..Handles -> 0..MaxLeases]
          /\ asking \subseteq Users
          /\ refused \in 0..Handles

Init == /\ generation = 0
        /\ sizes = <<>>
        /\ cursor = <<>>
        /\ handles = <<>>
        /\ content = [p \in Places |-> 0]
        /\ queue = <<>>
        /\ leases = [n \in 1..Handles |-> 0]
        /\ asking = {}
        /\ granted = {}
        /\ refused = 0

-----------------------------------------------------------------------------
(* Memory is given out. *)

Least(a, b) == IF a <= b THEN a ELSE b
Most(a, b) == IF a >= b THEN a ELSE b
RECURSIVE Sum(_)
Sum(numbers) == IF numbers = <<>> THEN 0 ELSE Head(numbers) + Sum(Tail(numbers))

Room(c) == sizes[c] - cursor[c]
First(chunks) == CHOOSE c \in chunks : \A other \in chunks : c <= other
Roomy(bytes) == {c \in 1..Len(cursor) : Room(c) >= bytes}
Left == Limit - Sum(sizes)
Wanted == IF sizes = <<>> THEN Initial ELSE (3 * sizes[Len(sizes)]) \div 2
MayOpen(bytes) == Len(sizes) < MaxChunks /\ Left >= Most(bytes, 1)

Give(c, bytes, from) == handles' = Append(handles, [chunk |-> c, first |-> from, bytes |-> bytes,
                                                    generation |-> generation])

(* A request takes the first chunk with room. *)
Take(bytes) == /\ Len(handles) < Handles
               /\ Roomy(bytes) # {}
               /\ LET c == First(Roomy(bytes)) IN
                     /\ Give(c, bytes, cursor[c])
                     /\ cursor' = [cursor EXCEPT ![c] = @ + bytes]
               /\ UNCHANGED <<generation, sizes, content, queue, leases, asking, granted, refused>>

(* Where none has room, the next chunk is opened, if there may be one more. *)
Grow(bytes) == /\ Len(handles) < Handles
               /\ Roomy(bytes) = {}
               /\ MayOpen(bytes)
               /\ Give(Len(cursor) + 1, bytes, 0)
               /\ sizes' = Append(sizes, Least(Most(Wanted, bytes), Left))
               /\ cursor' = Append(cursor, bytes)
               /\ UNCHANGED <<generation, content, queue, leases, asking, granted, refused>>

(* Else it is refused, as where the device has no more; nothing changes. *)
Lack(bytes, isDenied) == /\ Roomy(bytes) = {}
                         /\ isDenied <=> MayOpen(bytes)
                         /\ UNCHANGED vars

-----------------------------------------------------------------------------
(* Memory is accessed. *)

Found(n) == {content[p] : p \in Range(handles[n])}
Written(n) == n \in Found(n)
Finds(numbers) == {<<n, Found(n)>> : n \in {m \in numbers : Written(m)}}
Overwritten(numbers) == [p \in Places |-> IF \E n \in numbers : p \in Range(handles[n])
                                          THEN CHOOSE n \in numbers : p \in Range(handles[n]) ELSE content[p]]

(* A command is submitted on handles that are current. *)
Submit(reads, writes) == /\ reads \cup writes \subseteq Numbers
                         /\ \A n \in reads \cup writes : IsCurrent(n)
                         /\ Len(queue) < MaxCommands
                         /\ queue' = Append(queue, [reads |-> reads, writes |-> writes])
                         /\ UNCHANGED <<generation, sizes, cursor, handles, content, leases, asking, granted, refused>>

(* The device executes the first one: it finds what lies there, and writes. *)
Complete == /\ queue # <<>>
            /\ granted' = Finds(Head(queue).reads)
            /\ content' = Overwritten(Head(queue).writes)
            /\ queue' = Tail(queue)
            /\ UNCHANGED <<generation, sizes, cursor, handles, leases, asking, refused>>

(* It may fail, and is not left to be executed either. *)
Fail == /\ queue # <<>>
        /\ queue' = Tail(queue)
        /\ UNCHANGED <<generation, sizes, cursor, handles, content, leases, asking, granted, refused>>

(* A user leases a handle that is current: *)
Lease(n) == /\ n \in Numbers
            /\ IsCurrent(n)
            /\ leases[n] < MaxLeases
            /\ leases' = [leases EXCEPT ![n] = @ + 1]
            /\ UNCHANGED <<generation, sizes, cursor, handles, content, queue, asking, granted, refused>>

(* writes through it, *)
Write(n) == /\ n \in Numbers
            /\ leases[n] > 0
            /\ content' = Overwritten({n})
            /\ UNCHANGED <<generation, sizes, cursor, handles, queue, leases, asking, granted, refused>>

(* reads what was written, *)
Read(n) == /\ n \in Numbers
           /\ leases[n] > 0
           /\ Written(n)
           /\ granted' = Finds({n})
           /\ UNCHANGED <<generation, sizes, cursor, handles, content, queue, leases, asking, refused>>

(* and returns it. *)
Return(n) == /\ n \in Numbers
             /\ leases[n] > 0
             /\ leases' = [leases EXCEPT ![n] = @ - 1]
             /\ UNCHANGED <<generation, sizes, cursor, handles, content, queue, asking, granted, refused>>

(* Any access is refused where the pool was reset since. *)
Refuse(n) == /\ n \in Numbers
             /\ ~IsCurrent(n)
             /\ refused' = n
             /\ UNCHANGED <<generation, sizes, cursor, handles, content, queue, leases, asking, granted>>

-----------------------------------------------------------------------------
(* The pool is emptied. *)

(* A user asks for it. *)
Ask(u) == /\ u \notin asking
          /\ asking' = asking \cup {u}
          /\ UNCHANGED <<generation, sizes, cursor, handles, content, queue, leases, granted, refused>>

(* While nothing is held, the pool is emptied; its chunks stay open. *)
Reset(u) == /\ u \in asking
            /\ IsIdle
            /\ generation < LastGeneration
            /\ generation' = generation + 1
            /\ cursor' = [c \in 1..Len(cursor) |-> 0]
            /\ asking' = asking \ {u}
            /\ UNCHANGED <<sizes, handles, content, queue, leases, granted, refused>>

(* While something is, the user may give up, at once or after a time. *)
GiveUp(u) == /\ u \in asking
             /\ ~IsIdle
             /\ asking' = asking \ {u}
             /\ UNCHANGED <<generation, sizes, cursor, handles, content, queue, leases, granted, refused>>

(* In the last generation it is refused. *)
Exhaust(u) == /\ u \in asking
              /\ generation = LastGeneration
              /\ asking' = asking \ {u}
              /\ UNCHANGED <<generation, sizes, cursor, handles, content, queue, leases, granted, refused>>

Next == \/ \E bytes \in 1..MaxRequest : Take(bytes) \/ Grow(bytes) \/ \E d \in BOOLEAN : Lack(bytes, d)
        \/ \E n \in 1..Handles : \/ Submit({n}, {}) \/ Submit({}, {n}) \/ Lease(n) \/ Write(n) \/ Read(n)
                                 \/ Return(n) \/ Refuse(n)
        \/ Complete
        \/ Fail
        \/ \E u \in Users : Ask(u) \/ Reset(u) \/ GiveUp(u) \/ Exhaust(u)

Fairness == \A u \in Users : WF_vars(Reset(u) \/ GiveUp(u) \/ Exhaust(u))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* Chunks are never more than the limit together. *)
WithinLimit == Sum(sizes) <= Limit

(* A handle of now lies within what was given out of its chunk. *)
InBounds == \A n \in Numbers : IsCurrent(n) =>
               /\ handles[n].chunk \in 1..Len(cursor)
               /\ handles[n].first + handles[n].bytes <= cursor[handles[n].chunk]

(* Handles of now share no byte. *)
CurrentAreDisjoint == \A m, n \in Numbers : m # n /\ IsCurrent(m) /\ IsCurrent(n) =>
                         Range(handles[m]) \cap Range(handles[n]) = {}

(* What the device is to execute and what a user holds is of handles of now. *)
HeldAreCurrent == /\ \A k \in 1..Len(queue) : \A n \in queue[k].reads \cup queue[k].writes : IsCurrent(n)
                  /\ \A n \in Numbers : leases[n] > 0 => IsCurrent(n)

(* An access that is granted finds the bytes of its own handle. *)
ReadsFindTheirOwn == \A access \in granted : access[2] = {access[1]}

(* Only a handle from before a reset is refused. *)
OnlyStaleIsRefused == refused # 0 => handles[refused].generation < generation

-----------------------------------------------------------------------------
(* Properties. *)

(* No generation comes again. *)
GenerationsRise == [][generation' # generation => generation' > generation]_vars

(* No write changes bytes of another handle of now. *)
WritesKeepToTheirOwn ==
    [][\A m \in Numbers, p \in Places :
          (IsCurrent(m) /\ p \in Range(handles[m]) /\ content[p] = m) => content'[p] = m]_vars

(* Each user that asks for a reset is answered, whatever others do meanwhile. *)
EveryAskIsAnswered == \A u \in Users : u \in asking ~> u \notin asking

THEOREM Spec => [](TypeOK /\ WithinLimit /\ InBounds /\ CurrentAreDisjoint /\ HeldAreCurrent /\ ReadsFindTheirOwn
                   /\ OnlyStaleIsRefused)
THEOREM Spec => GenerationsRise /\ WritesKeepToTheirOwn /\ EveryAskIsAnswered

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverTakenAgain == \A m, n \in Numbers : handles[m].generation # handles[n].generation =>
                      Range(handles[m]) \cap Range(handles[n]) = {}
NeverSecondChunk == Len(cursor) < 2
NeverAskedWhileHeld == asking # {} => IsIdle
NeverInTheLast == generation < LastGeneration

(* No user need ask for the pool. *)
SomeoneAsks == <>(asking # {})
=============================================================================
