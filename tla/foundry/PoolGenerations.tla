-------------------------- MODULE PoolGenerations ---------------------------
(***************************************************************************)
(* Foundry's pool: a bump allocator over chunks, emptied as a whole. A     *)
(* request takes the first chunk with room, or opens the next, larger one; *)
(* beyond the last it is refused. A reset makes all bytes free again and   *)
(* raises the generation. Handles from before it remain with their users:  *)
(* each access of any kind compares generations first, and a stale one is  *)
(* refused. So no access reads or writes what now belongs to another       *)
(* allocation.                                                             *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS ChunkBytes,   \* the size of each chunk that may be opened, in order
          MaxRequest,   \* requests are of 1..MaxRequest bytes
          Handles,      \* how many handles are given out in all
          Resets        \* how often the pool is reset

VARIABLES generation,   \* the pool's generation, from 0
          cursor,       \* of each open chunk, how far it is given out
          handles,      \* the handles given out: chunk, first byte, bytes, generation
          content,      \* of each byte, the number of the handle that wrote it, or 0
          granted,      \* the last access: <<number of its handle, what it found>>
          refused       \* the number of the handle last refused an access, or 0

vars == <<generation, cursor, handles, content, granted, refused>>

Chunks == 1..Len(ChunkBytes)
Bytes == {<<c, b>> : c \in Chunks, b \in 0..4}
Numbers == 1..Len(handles)
Range(h) == {<<h.chunk, b>> : b \in h.first..(h.first + h.bytes - 1)}
IsCurrent(n) == handles[n].generation = generation

TypeOK == /\ generation \in 0..Resets
          /\ Len(cursor) <= Len(ChunkBytes)
          /\ \A c \in 1..Len(cursor) : cursor[c] \in 0..ChunkBytes[c]
          /\ Len(handles) <= Handles
          /\ content \in [Bytes -> 0..Handles]
          /\ refused \in 0..Handles

Init == /\ generation = 0
        /\ cursor = <<0>>
        /\ handles = <<>>
        /\ content = [b \in Bytes |-> 0]
        /\ granted = <<>>
        /\ refused = 0

-----------------------------------------------------------------------------

Room(c) == ChunkBytes[c] - cursor[c]
First(chunks) == CHOOSE c \in chunks : \A other \in chunks : c <= other
Roomy(bytes) == {c \in 1..Len(cursor) : Room(c) >= bytes}

Give(c, bytes, from) == handles' = Append(handles, [chunk |-> c, first |-> from, bytes |-> bytes,
                                                    generation |-> generation])

(* A request takes the first chunk with room. *)
Take(bytes) == /\ Len(handles) < Handles
               /\ Roomy(bytes) # {}
               /\ LET c == First(Roomy(bytes)) IN
                     /\ Give(c, bytes, cursor[c])
                     /\ cursor' = [cursor EXCEPT ![c] = @ + bytes]
               /\ UNCHANGED <<generation, content, granted, refused>>

(* Where none has room, the next chunk is opened, if there may be one more. *)
Grow(bytes) == /\ Len(handles) < Handles
               /\ Roomy(bytes) = {}
               /\ Len(cursor) < Len(ChunkBytes)
               /\ ChunkBytes[Len(cursor) + 1] >= bytes
               /\ Give(Len(cursor) + 1, bytes, 0)
               /\ cursor' = Append(cursor, bytes)
               /\ UNCHANGED <<generation, content, granted, refused>>

(* The pool is emptied: its chunks stay open. *)
Reset == /\ generation < Resets
         /\ generation' = generation + 1
         /\ cursor' = [c \in 1..Len(cursor) |-> 0]
         /\ UNCHANGED <<handles, content, granted, refused>>

(* A user writes through a handle: *)
Write(n) == /\ n \in Numbers
            /\ IsCurrent(n)
            /\ content' = [b \in Bytes |-> IF b \in Range(handles[n]) THEN n ELSE content[b]]
            /\ UNCHANGED <<generation, cursor, handles, granted, refused>>

(* reads what was written, *)
Read(n) == /\ n \in Numbers
           /\ IsCurrent(n)
           /\ \E b \in Range(handles[n]) : content[b] = n
           /\ granted' = <<n, {content[b] : b \in Range(handles[n])}>>
           /\ UNCHANGED <<generation, cursor, handles, content, refused>>

(* or is refused, because the pool was reset since. *)
Refuse(n) == /\ n \in Numbers
             /\ ~IsCurrent(n)
             /\ refused' = n
             /\ UNCHANGED <<generation, cursor, handles, content, granted>>

Next == \/ Reset
        \/ \E bytes \in 1..MaxRequest : Take(bytes) \/ Grow(bytes)
        \/ \E n \in 1..Handles : Write(n) \/ Read(n) \/ Refuse(n)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A handle of now lies within what was given out of its chunk. *)
InBounds == \A n \in Numbers : IsCurrent(n) =>
               /\ handles[n].chunk \in 1..Len(cursor)
               /\ handles[n].first + handles[n].bytes <= cursor[handles[n].chunk]

(* Handles of now share no byte. *)
CurrentAreDisjoint == \A m, n \in Numbers : m # n /\ IsCurrent(m) /\ IsCurrent(n) =>
                         Range(handles[m]) \cap Range(handles[n]) = {}

(* An access that is granted finds the bytes of its own handle. *)
ReadsFindTheirOwn == granted # <<>> => granted[2] = {granted[1]}

(* Only a handle from before a reset is refused. *)
OnlyStaleIsRefused == refused # 0 => handles[refused].generation < generation

-----------------------------------------------------------------------------
(* Properties. *)

(* No generation comes again. *)
GenerationsRise == [][generation' # generation => generation' > generation]_vars

(* No write changes bytes of another handle of now. *)
WritesKeepToTheirOwn ==
    [][\A m \in Numbers, b \in Bytes :
          (IsCurrent(m) /\ b \in Range(handles[m]) /\ content[b] = m) => content'[b] = m]_vars

THEOREM Spec => [](TypeOK /\ InBounds /\ CurrentAreDisjoint /\ ReadsFindTheirOwn /\ OnlyStaleIsRefused)
THEOREM Spec => GenerationsRise /\ WritesKeepToTheirOwn

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverTakenAgain == \A m, n \in Numbers : handles[m].generation # handles[n].generation =>
                      Range(handles[m]) \cap Range(handles[n]) = {}
NeverSecondChunk == Len(cursor) = 1
=============================================================================
