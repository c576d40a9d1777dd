------------------------ MODULE MnemosyneInvariants -------------------------
(***************************************************************************)
(* The module of the document's section 3.1.9, under its names, and with   *)
(* what it lacks: an initial state and actions. It says what regions,      *)
(* locks and differences are to keep; how, the modules say that refine it: *)
(* MappedRegions, WriteLocks and DeltaEncoding.                            *)
(*                                                                         *)
(* What differs from the document: 10 * Sum <= 7 * RAM in place of a real  *)
(* number, sequences from 1 (the first vector is V_sequence[1], and        *)
(* Delta_sequence has one element less), vectors of bit patterns with a    *)
(* sum of their own, modulo 2 to the width, and `size` as what is mapped   *)
(* of each region. PHYSICAL_RAM is memory as it is at first; what is kept  *)
(* where it shrinks, MappedRegions says.                                   *)
(***************************************************************************)
EXTENDS Naturals, Sequences

CONSTANTS Regions,         \* how many regions there are
          PHYSICAL_RAM,    \* bytes of memory
          MAX_REGION_SIZE, \* bytes of the largest region
          THREADS,         \* the threads, by name
          VECTOR_DIM,      \* elements of a vector
          TILES,           \* tiles that threads write: 1..TILES
          PAGES,           \* the address space has the pages 0..(PAGES - 1)
          PAGE,            \* bytes of a page, of which a tile is a multiple
          PATTERNS,        \* elements are 0..(PATTERNS - 1)
          VECTORS          \* how many vectors there may be

VARIABLES size,            \* bytes that are mapped of each region
          base_addr,       \* where it begins, 0 where nothing of it is mapped
          write_set,       \* the tiles that each thread is writing
          locks,           \* the locks that it holds
          V_sequence,      \* the vectors, the document's V_0 first
          Delta_sequence   \* their differences, each from the vector before

memory == <<size, base_addr>>
threads == <<write_set, locks>>
vectors == <<V_sequence, Delta_sequence>>
vars == <<memory, threads, vectors>>

TILE == 16384

RECURSIVE Sum(_)
Sum(seq) == IF seq = <<>> THEN 0 ELSE Head(seq) + Sum(Tail(seq))

Vectors == [1..VECTOR_DIM -> 0..(PATTERNS - 1)]
Plus(v, w) == [d \in 1..VECTOR_DIM |-> (v[d] + w[d]) % PATTERNS]
Minus(v, w) == [d \in 1..VECTOR_DIM |-> (v[d] + PATTERNS - w[d]) % PATTERNS]

(* The document's Sum, of vectors. *)
RECURSIVE Added(_, _)
Added(v, seq) == IF seq = <<>> THEN v ELSE Added(Plus(v, Head(seq)), Tail(seq))

Sizes == {TILE * tiles : tiles \in 0..(PHYSICAL_RAM \div TILE)}

TypeOK == /\ size \in [1..Regions -> Sizes]
          /\ base_addr \in [1..Regions -> 0..(PAGES * PAGE + TILE)]
          /\ write_set \in [THREADS -> SUBSET (1..TILES)]
          /\ locks \in [THREADS -> SUBSET (1..TILES)]
          /\ V_sequence \in Seq(Vectors)
          /\ Delta_sequence \in Seq(Vectors)

Init == /\ size = [i \in 1..Regions |-> 0]
        /\ base_addr = [i \in 1..Regions |-> 0]
        /\ write_set = [t \in THREADS |-> {}]
        /\ locks = [t \in THREADS |-> {}]
        /\ V_sequence = <<>>
        /\ Delta_sequence = <<>>

-----------------------------------------------------------------------------
(* Regions. *)

AlignUp(address) == ((address + TILE - 1) \div TILE) * TILE

(* More of a region is mapped. One of which nothing is mapped is placed: the system reserves addresses from any page on,
   and it begins at the first tile in them. *)
Map(i, bytes) ==
    /\ bytes > size[i]
    /\ bytes <= MAX_REGION_SIZE
    /\ size' = [size EXCEPT ![i] = bytes]
    /\ 10 * (Sum(size) - size[i] + bytes) <= 7 * PHYSICAL_RAM
    /\ IF size[i] > 0 THEN UNCHANGED base_addr
       ELSE \E page \in 0..(PAGES - 1) : base_addr' = [base_addr EXCEPT ![i] = AlignUp(page * PAGE)]
    /\ UNCHANGED <<threads, vectors>>

(* Less of it is mapped, or nothing more. *)
Unmap(i, bytes) ==
    /\ bytes < size[i]
    /\ size' = [size EXCEPT ![i] = bytes]
    /\ base_addr' = [base_addr EXCEPT ![i] = IF bytes > 0 THEN @ ELSE 0]
    /\ UNCHANGED <<threads, vectors>>

-----------------------------------------------------------------------------
(* Threads. *)

(* A lock that no thread holds is taken, *)
Lock(t, tile) ==
    /\ \A other \in THREADS : tile \notin locks[other]
    /\ locks' = [locks EXCEPT ![t] = @ \cup {tile}]
    /\ UNCHANGED <<memory, write_set, vectors>>

(* tiles are written whose locks the thread holds, *)
Write(t, tiles) ==
    /\ tiles \subseteq locks[t]
    /\ write_set' = [write_set EXCEPT ![t] = tiles]
    /\ UNCHANGED <<memory, locks, vectors>>

(* and when they are, locks are given back. *)
Unlock(t, tiles) ==
    /\ write_set' = [write_set EXCEPT ![t] = {}]
    /\ locks' = [locks EXCEPT ![t] = @ \ tiles]
    /\ UNCHANGED <<memory, vectors>>

-----------------------------------------------------------------------------
(* Vectors. *)

(* One more vector is stored, the first as it is. *)
Store(v) ==
    /\ Len(V_sequence) < VECTORS
    /\ V_sequence' = Append(V_sequence, v)
    /\ Delta_sequence' = IF V_sequence = <<>> THEN <<>>
                         ELSE Append(Delta_sequence, Minus(v, V_sequence[Len(V_sequence)]))
    /\ UNCHANGED <<memory, threads>>

(* A crash leaves the first ones. *)
Lose(kept) ==
    /\ V_sequence' = SubSeq(V_sequence, 1, kept)
    /\ Delta_sequence' = SubSeq(Delta_sequence, 1, IF kept = 0 THEN 0 ELSE kept - 1)
    /\ UNCHANGED <<memory, threads>>

Next == \/ \E i \in 1..Regions, bytes \in Sizes : Map(i, bytes) \/ Unmap(i, bytes)
        \/ \E t \in THREADS : \/ \E tile \in 1..TILES : Lock(t, tile)
                              \/ \E tiles \in SUBSET (1..TILES) : Write(t, tiles) \/ Unlock(t, tiles)
        \/ \E v \in Vectors : Store(v)
        \/ \E kept \in 0..(Len(V_sequence) - 1) : Lose(kept)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* The document's invariants. *)

(* Inv_1. *)
MemoryBound ==
    /\ \A i \in DOMAIN size : size[i] <= MAX_REGION_SIZE
    /\ 10 * Sum(size) <= 7 * PHYSICAL_RAM

(* Inv_2. *)
PageAlignment ==
    \A i \in DOMAIN base_addr : base_addr[i] % TILE = 0

(* What Inv_3 leaves out: it is also true of two threads that hold one lock at one time. *)
LocksExclude == \A i, j \in THREADS : i # j => locks[i] \cap locks[j] = {}

(* Inv_3. *)
NoDataRace ==
    \A i, j \in THREADS : i # j =>
        \/ write_set[i] \cap write_set[j] = {}
        \/ locks[i] \cap locks[j] # {}

(* Inv_4. *)
DeltaEncodingInvertibility ==
    \A i \in 1..Len(V_sequence) :
        V_sequence[i] = Added(V_sequence[1], SubSeq(Delta_sequence, 1, i - 1))

SystemInvariant ==
    /\ MemoryBound
    /\ PageAlignment
    /\ NoDataRace
    /\ DeltaEncodingInvertibility

THEOREM Spec => [](TypeOK /\ LocksExclude /\ SystemInvariant)
THEOREM Spec => [](MemoryBound /\ PageAlignment /\ NoDataRace /\ DeltaEncodingInvertibility)

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the module would say too little. *)

(* The document's text, with V_0 as the first element: its sum has one difference too many. *)
AsPrinted ==
    \A i \in 1..(Len(V_sequence) - 1) :
        V_sequence[i] = Added(V_sequence[1], SubSeq(Delta_sequence, 1, i))

(* Two threads write at one time, each its own tile. *)
NeverBothWrite == \A i, j \in THREADS : i # j => write_set[i] = {} \/ write_set[j] = {}

NeverFull == 10 * (Sum(size) + TILE) <= 7 * PHYSICAL_RAM
=============================================================================
