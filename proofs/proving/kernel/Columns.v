(** A plan as columns, and how it is read from a row of 64-bit words.

    The tables are those of [tmmu/plans/columns.py], with the permissions of [proofs/readers/sharing.py] and the
    evidence of [proofs/proving/kernel/evidence.py]. Rows are numbered from 0; -1 represents none, and the caller. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists.
Import ListNotations.
Open Scope Z_scope.

(** * Memory: storages, arenas, addresses *)

Record storage := Storage {
  s_arena : Z; s_bytes : Z; s_alignment : Z;
  s_birth : Z; s_death : Z;   (* lifetime, both steps included *)
  s_offset : Z;
  s_slot : Z;                 (* claim or evidence: its slot *)
  s_place : Z                 (* evidence: its position among the storages of its slot *)
}.

Record arena := Arena {
  capacity : Z; least_alignment : Z;
  scattered : bool;  (* addresses are anywhere in 64 bits, not below the capacity *)
  footprint : Z;     (* claim: the bytes that the arena needs *)
  fullest : Z;       (* evidence for claims: a step at which every slot has a live storage, and one at which the live *)
  peak : Z           (* bytes equal the footprint; -1 if that is not claimed *)
}.

(** Storages whose lifetimes follow one another: a claim of the plan, and evidence if each slot has a separate range of
    bytes that contains its storages. *)
Record slot := Slot {
  k_arena : Z; k_bytes : Z; k_alignment : Z;
  k_offset : Z;      (* evidence: the first byte of its range *)
  k_place : Z        (* evidence: its position among the slots of its arena *)
}.

(** Evidence: [above] is the next storage over [below] from step [first] to step [last]. *)
Record edge := Edge { below : Z; above : Z; first : Z; last : Z }.

Record memory := Memory {
  steps : Z; storages : Z; slots : Z; arenas : Z;
  by_slots : bool;                       (* which evidence shows disjointness: ranges of slots, or edges *)
  storage_at : Z -> storage; slot_at : Z -> slot; arena_at : Z -> arena;
  reuse : Z -> bool;                     (* of an arena; otherwise no byte serves two storages, at any steps *)
  tenants : groups;                      (* the storages of each slot, by birth *)
  ordered : groups;                      (* the slots of each arena, by offset *)
  edge_at : Z -> edge;                   (* by [below], then [first] *)
  ups_at : Z -> Z;                       (* the edges from storage k up; the floor of arena a is [storages + a] *)
  downs : groups;                        (* the edges down from each storage, by [first] *)
  pairs : list (Z * Z)                   (* storages, or the tensors of a plan with tensors, that must not alias *)
}.

(** The last step; 0 for a plan without steps. *)
Definition last_step (m : memory) : Z := Z.max 0 (steps m - 1).
Definition U64 : Z := 2 ^ 64.
(** The end of an arena's address range. *)
Definition limit (a : arena) : Z := if scattered a then U64 else capacity a.

(** * Plans: tensors and accesses *)

Record tensor := Tensor {
  home : Z;          (* its storage *)
  window : Z;        (* its first byte in the storage *)
  bytes : Z;
  alignment : Z;
  birth : Z;         (* lifetime, both steps included *)
  death : Z;
  writer : Z;        (* the step that writes it; -1: the caller *)
  base : Z;          (* of a view: the tensor that it shows, from byte [shift] on; -1: no view *)
  shift : Z;
  operand : Z;       (* of an in-place result: the tensor whose place it may take; -1: none *)
  returned : bool;   (* the caller reads it after the last step *)
  donated : bool;    (* the caller donated it *)
  scratch : bool;    (* its own step reads it too *)
  (* evidence, which is checked: *)
  handed : bool;     (* the leave of an exclusive node reads it after it was last needed *)
  made : Z;          (* the first step at which its bytes are its own: its writer, or the enter of the loop it leaves *)
  needed : Z;        (* the last step that accesses it; if a loop accesses it, the loop's leave; -1: none does *)
  root : Z;          (* the end of its chain of views *)
  place : Z          (* its position among the tensors of its storage *)
}.

(** A node that runs exactly one of its bodies at each visit: its enter and leave, and the first and last step of each
    branch. A branch without steps ends before it begins. *)
Record exclusive := Exclusive { enter : Z; leave : Z; arms : list (Z * Z) }.

Record plan := Plan {
  allocation :> memory;
  tensors : Z;
  tensor_at : Z -> tensor;
  reads : Z -> list Z; writes : Z -> list Z; mutates : Z -> list Z;
  loops : list (Z * Z);                  (* enter and leave of each node that iterates *)
  exclusives : Z;
  exclusive_at : Z -> exclusive;         (* by leave *)
  takes : list (Z * Z);                  (* a result of a leave, and the result of a branch whose place it may take *)
  (* evidence, which is checked: *)
  members : groups;                      (* the tensors of each storage, by [made] *)
  within : Z -> Z * Z;                   (* the innermost branch of a step, or a range that holds all steps *)
  also : Z -> list Z;                    (* the steps of other branches that write a tensor too *)
  joined : Z -> list Z                   (* exclusive nodes that write a tensor in each branch, inner ones first *)
}.

(** * Reading

    Word 0 is the version, words 1 to 4 the digest of the plan file. Then come the kind (0: steps and accesses, 1: only
    lifetimes), the flags and sixteen counts, then the columns, one behind the other. Values that may be -1 are stored
    with 1 added. *)
Definition VERSION : Z := 2.
Definition HEADER : Z := 23.
Definition with_accesses (word : Z -> Z) : bool := word 5 =? 0.
Definition with_lifetimes (word : Z -> Z) : bool := word 5 =? 1.
Definition bit (n x : Z) : bool := Z.odd (x / n).
Definition slots_claimed (word : Z -> Z) : bool := bit 2 (word 6).
Definition footprints_claimed (word : Z -> Z) : bool := bit 4 (word 6).
Definition pairs_from (word : Z -> Z) (start count : Z) : list (Z * Z) :=
  map (fun i => (word (start + i), word (start + count + i))) (run 0 count).
(** Row [n] of a table whose [N] + 1 bounds begin at [start], and its elements behind them. *)
Definition row_of (word : Z -> Z) (start N n : Z) : list Z :=
  map (fun i => word (start + N + 1 + i)) (run (word (start + n)) (word (start + n + 1))).
Definition grouped (word : Z -> Z) (start count : Z) : groups :=
  Groups (fun k => word (start + k)) (fun i => word (start + count + 1 + i)).

(** 8 columns of storages, 5 of slots, 7 of arenas, 4 of edges, 15 of tensors, each [n] words long. *)
Definition storages_from (word : Z -> Z) (c0 n : Z) : Z -> storage :=
  let c1 := c0 + n in let c2 := c1 + n in let c3 := c2 + n in let c4 := c3 + n in let c5 := c4 + n in
  let c6 := c5 + n in let c7 := c6 + n in
  fun k =>
    {| s_arena := word (c0 + k); s_bytes := word (c1 + k); s_alignment := word (c2 + k); s_birth := word (c3 + k);
       s_death := word (c4 + k); s_offset := word (c5 + k); s_slot := word (c6 + k); s_place := word (c7 + k) |}.
Definition slots_from (word : Z -> Z) (c0 n : Z) : Z -> slot :=
  let c1 := c0 + n in let c2 := c1 + n in let c3 := c2 + n in let c4 := c3 + n in
  fun s =>
    {| k_arena := word (c0 + s); k_bytes := word (c1 + s); k_alignment := word (c2 + s); k_offset := word (c3 + s);
       k_place := word (c4 + s) |}.
Definition arenas_from (word : Z -> Z) (c0 n : Z) : Z -> arena :=
  fun a =>
    {| capacity := word (c0 + a); least_alignment := word (c0 + n + a); scattered := word (c0 + 2 * n + a) =? 1;
       footprint := word (c0 + 3 * n + a); fullest := word (c0 + 4 * n + a) - 1; peak := word (c0 + 5 * n + a) - 1 |}.
Definition edges_from (word : Z -> Z) (c0 n : Z) : Z -> edge :=
  let c1 := c0 + n in let c2 := c1 + n in let c3 := c2 + n in
  fun e => {| below := word (c0 + e); above := word (c1 + e); first := word (c2 + e); last := word (c3 + e) |}.
Definition tensors_from (word : Z -> Z) (c0 n : Z) : Z -> tensor :=
  let c1 := c0 + n in let c2 := c1 + n in let c3 := c2 + n in let c4 := c3 + n in let c5 := c4 + n in
  let c6 := c5 + n in let c7 := c6 + n in let c8 := c7 + n in let c9 := c8 + n in let c10 := c9 + n in
  let c11 := c10 + n in let c12 := c11 + n in let c13 := c12 + n in let c14 := c13 + n in
  fun i =>
    let flags := word (c10 + i) in
    {| home := word (c0 + i); window := word (c1 + i); bytes := word (c2 + i); alignment := word (c3 + i);
       birth := word (c4 + i); death := word (c5 + i); writer := word (c6 + i) - 1; base := word (c7 + i) - 1;
       shift := word (c8 + i); operand := word (c9 + i) - 1;
       returned := bit 1 flags; donated := bit 2 flags; scratch := bit 4 flags; handed := bit 8 flags;
       made := word (c11 + i) - 1; needed := word (c12 + i) - 1; root := word (c13 + i); place := word (c14 + i) |}.

(** The memory that a row of words describes, and the position of the first word behind it. [Check] decides whether it
    is right. *)
Definition memory_and_end (word : Z -> Z) : memory * Z :=
  let N := word 7 in let K := word 8 in let S := word 9 in let A := word 10 in let E := word 11 in let P := word 12 in
  let k0 := HEADER + 8 * K in            (* slots *)
  let a0 := k0 + 5 * S in                (* arenas *)
  let t0 := a0 + 7 * A in                (* storages of each slot: S + 1 bounds, then K rows *)
  let o0 := t0 + (S + 1) + K in          (* slots of each arena: A + 1 bounds, then S rows *)
  let e0 := o0 + (A + 1) + S in          (* edges *)
  let u0 := e0 + 4 * E in                (* bounds of the edges up from each of K storages and A floors *)
  let d0 := u0 + (K + A + 1) in          (* edges down from each storage: K + 1 bounds, then E rows *)
  let p0 := d0 + (K + 1) + E in          (* pairs *)
  ({| steps := N; storages := K; slots := S; arenas := A; by_slots := bit 1 (word 6);
      storage_at := storages_from word HEADER K; slot_at := slots_from word k0 S; arena_at := arenas_from word a0 A;
      reuse := fun a => word (a0 + 6 * A + a) =? 1;
      tenants := grouped word t0 S; ordered := grouped word o0 A;
      edge_at := edges_from word e0 E; ups_at := fun k => word (u0 + k); downs := grouped word d0 K;
      pairs := pairs_from word p0 P |},
   p0 + 2 * P).
Definition memory_of (word : Z -> Z) : memory := fst (memory_and_end word).

(** Exclusive nodes: their enters, their leaves, [n] + 1 bounds of their branches, the first step of each branch. *)
Definition exclusives_from (word : Z -> Z) (c0 n : Z) : Z -> exclusive :=
  fun x =>
    let stop := word (c0 + 2 * n + (x + 1)) in
    let last := word (c0 + n + x) in
    {| enter := word (c0 + x); leave := last;
       arms := map (fun a => (word (c0 + 3 * n + 1 + a), (if a + 1 =? stop then last else word (c0 + 3 * n + 1 + (a + 1))) - 1))
                 (run (word (c0 + 2 * n + x)) stop) |}.

(** The plan that a row of words is. *)
Definition plan_of (word : Z -> Z) : plan :=
  let N := word 7 in let K := word 8 in
  let T := word 13 in let L := word 14 in let R := word 15 in let W := word 16 in let M := word 17 in
  let X := word 18 in let B := word 19 in let D := word 20 in let J := word 21 in let G := word 22 in
  let (m, c0) := memory_and_end word in  (* tensors *)
  let r0 := c0 + 15 * T in               (* reads of each step: N + 1 bounds, then R rows; writes, mutates likewise *)
  let w0 := r0 + (N + 1) + R in
  let m0 := w0 + (N + 1) + W in
  let l0 := m0 + (N + 1) + M in          (* loops: enters, then leaves *)
  let g0 := l0 + 2 * L in                (* tensors of each storage: K + 1 bounds, then T rows *)
  let x0 := g0 + (K + 1) + T in          (* exclusive nodes; the rest is there if there are any *)
  let y0 := x0 + 3 * X + 1 + B in        (* first, then last step of the innermost branch of each step *)
  let z0 := y0 + 2 * N in                (* other writers of each tensor: T + 1 bounds, then D rows *)
  let j0 := z0 + (T + 1) + D in          (* joins of each tensor: T + 1 bounds, then J rows *)
  let t0 := j0 + (T + 1) + J in          (* takes: the results of leaves, then those of branches *)
  {| allocation := m; tensors := T; tensor_at := tensors_from word c0 T;
     reads := row_of word r0 N; writes := row_of word w0 N; mutates := row_of word m0 N;
     loops := pairs_from word l0 L;
     exclusives := X; exclusive_at := exclusives_from word x0 X; takes := pairs_from word t0 G;
     members := grouped word g0 K;
     within := if X =? 0 then fun _ => (0, N) else fun n => (word (y0 + n), word (y0 + N + n));
     also := if X =? 0 then fun _ => [] else row_of word z0 T;
     joined := if X =? 0 then fun _ => [] else row_of word j0 T |}.
