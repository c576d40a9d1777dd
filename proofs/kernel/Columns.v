(** A plan as the kernel sees it, and how it is read from a row of 64-bit words.

    The tables are those of [tmmu/plan/columns.py], with the permissions of [proofs/readers/sharing.py] and the evidence
    of [proofs/kernel/evidence.py]. Rows are numbered from 0; -1 stands for none, and for the caller. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists.
Import ListNotations.
Open Scope Z_scope.

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
  donated : bool;    (* the caller gave it up *)
  scratch : bool;    (* its own step reads it too *)
  (* evidence, which is checked: *)
  made : Z;          (* the first step at which its bytes are its own: its writer, or the enter of the loop it leaves *)
  needed : Z;        (* the last step that touches it; what a loop touches, the loop's leave; -1: none does *)
  root : Z;          (* where its chain of views ends *)
  place : Z          (* where it stands among the tensors of its storage *)
}.

Record storage := Storage {
  s_arena : Z; s_bytes : Z; s_alignment : Z; s_birth : Z; s_death : Z; s_slot : Z; s_offset : Z;
  s_place : Z        (* where it stands among the storages of its slot *)
}.

Record slot := Slot {
  k_arena : Z; k_bytes : Z; k_alignment : Z;
  k_offset : Z;      (* where it begins, if slots have addresses *)
  k_place : Z        (* where it stands among the slots of its arena *)
}.

Record arena := Arena {
  capacity : Z; least_alignment : Z; footprint : Z;
  scattered : bool;  (* addresses lie anywhere in 64 bits *)
  reuse : bool;      (* else every storage has a slot of its own *)
  fullest : Z;       (* claims: a step at which most storages live, and one at which most bytes do *)
  peak : Z
}.

(** That [above] is the next storage over [below] from step [first] to step [last]. *)
Record edge := Edge { below : Z; above : Z; first : Z; last : Z }.

Record plan := Plan {
  steps : Z; tensors : Z; storages : Z; slots : Z; arenas : Z;
  by_slots : bool;   (* each storage begins where its slot does *)
  tensor_at : Z -> tensor; storage_at : Z -> storage; slot_at : Z -> slot; arena_at : Z -> arena;
  reads : Z -> list Z; writes : Z -> list Z; mutates : Z -> list Z;
  loops : list (Z * Z);                  (* enter and leave of each node that iterates *)
  apart_pairs : list (Z * Z);            (* tensors that must not alias *)
  members : groups;                      (* the tensors of each storage, by [made] *)
  tenants : groups;                      (* the storages of each slot, by birth *)
  ordered : groups;                      (* the slots of each arena, by offset *)
  edge_at : Z -> edge;                   (* where slots have no addresses: edges, by [below], then [first] *)
  ups_at : Z -> Z;                       (* the edges from storage k up; the floor of arena a is [storages + a] *)
  downs : groups                         (* the edges down from each storage, by [first] *)
}.

(** The last step; 0 for a plan without steps. *)
Definition last_step (p : plan) : Z := Z.max 0 (steps p - 1).
Definition U64 : Z := 2 ^ 64.
(** The byte at or before which every storage of an arena ends. *)
Definition ends (a : arena) : Z := if scattered a then U64 else footprint a.

(** * Reading

    Words 0 to 4 are the version and the digest of the plan file, then come eleven counts and the flags, then the columns, each behind
    the other. What may be -1 is stored with 1 added. *)
Definition VERSION : Z := 1.
Definition bit (n x : Z) : bool := Z.odd (x / n).
Definition pairs (word : Z -> Z) (start count : Z) : list (Z * Z) :=
  map (fun i => (word (start + i), word (start + count + i))) (run 0 count).
(** Row [n] of a table whose [N] + 1 bounds begin at [start], and its elements behind them. *)
Definition row_of (word : Z -> Z) (start N n : Z) : list Z :=
  map (fun i => word (start + N + 1 + i)) (run (word (start + n)) (word (start + n + 1))).
Definition grouped (word : Z -> Z) (start count : Z) : groups :=
  Groups (fun k => word (start + k)) (fun i => word (start + count + 1 + i)).

(** 15 columns of tensors, 8 of storages, 5 of slots, 6 of arenas, 4 of edges, each [n] words long. *)
Definition tensors_from (word : Z -> Z) (c0 n : Z) : Z -> tensor :=
  let c1 := c0 + n in let c2 := c1 + n in let c3 := c2 + n in let c4 := c3 + n in let c5 := c4 + n in
  let c6 := c5 + n in let c7 := c6 + n in let c8 := c7 + n in let c9 := c8 + n in let c10 := c9 + n in
  let c11 := c10 + n in let c12 := c11 + n in let c13 := c12 + n in let c14 := c13 + n in
  fun i =>
    let flags := word (c10 + i) in
    {| home := word (c0 + i); window := word (c1 + i); bytes := word (c2 + i); alignment := word (c3 + i);
       birth := word (c4 + i); death := word (c5 + i); writer := word (c6 + i) - 1; base := word (c7 + i) - 1;
       shift := word (c8 + i); operand := word (c9 + i) - 1;
       returned := bit 1 flags; donated := bit 2 flags; scratch := bit 4 flags;
       made := word (c11 + i) - 1; needed := word (c12 + i) - 1; root := word (c13 + i); place := word (c14 + i) |}.
Definition storages_from (word : Z -> Z) (c0 n : Z) : Z -> storage :=
  let c1 := c0 + n in let c2 := c1 + n in let c3 := c2 + n in let c4 := c3 + n in let c5 := c4 + n in
  let c6 := c5 + n in let c7 := c6 + n in
  fun k =>
    {| s_arena := word (c0 + k); s_bytes := word (c1 + k); s_alignment := word (c2 + k); s_birth := word (c3 + k);
       s_death := word (c4 + k); s_slot := word (c5 + k); s_offset := word (c6 + k); s_place := word (c7 + k) |}.
Definition slots_from (word : Z -> Z) (c0 n : Z) : Z -> slot :=
  let c1 := c0 + n in let c2 := c1 + n in let c3 := c2 + n in let c4 := c3 + n in
  fun s =>
    {| k_arena := word (c0 + s); k_bytes := word (c1 + s); k_alignment := word (c2 + s); k_offset := word (c3 + s);
       k_place := word (c4 + s) |}.
Definition arenas_from (word : Z -> Z) (c0 n : Z) : Z -> arena :=
  fun a =>
    let flags := word (c0 + 3 * n + a) in
    {| capacity := word (c0 + a); least_alignment := word (c0 + n + a); footprint := word (c0 + 2 * n + a);
       scattered := bit 1 flags; reuse := bit 2 flags;
       fullest := word (c0 + 4 * n + a); peak := word (c0 + 5 * n + a) |}.
Definition edges_from (word : Z -> Z) (c0 n : Z) : Z -> edge :=
  let c1 := c0 + n in let c2 := c1 + n in let c3 := c2 + n in
  fun e => {| below := word (c0 + e); above := word (c1 + e); first := word (c2 + e); last := word (c3 + e) |}.

(** The plan that a row of words is. Whether it is a right one is what [Check.check] asks. *)
Definition plan_of (word : Z -> Z) : plan :=
  let N := word 5 in let T := word 6 in let K := word 7 in let S := word 8 in let A := word 9 in let L := word 10 in
  let R := word 11 in let W := word 12 in let M := word 13 in let P := word 14 in let E := word 15 in
  let s0 := 17 + 15 * T in               (* storages *)
  let k0 := s0 + 8 * K in                (* slots *)
  let a0 := k0 + 5 * S in                (* arenas *)
  let r0 := a0 + 6 * A in                (* reads of each step: N + 1 bounds, then R rows; writes, mutates likewise *)
  let w0 := r0 + (N + 1) + R in
  let m0 := w0 + (N + 1) + W in
  let l0 := m0 + (N + 1) + M in          (* loops: enters, then leaves *)
  let p0 := l0 + 2 * L in                (* pairs that must not alias *)
  let g0 := p0 + 2 * P in                (* tensors of each storage: K + 1 bounds, then T rows *)
  let t0 := g0 + (K + 1) + T in          (* storages of each slot: S + 1 bounds, then K rows *)
  let o0 := t0 + (S + 1) + K in          (* slots of each arena: A + 1 bounds, then S rows *)
  let e0 := o0 + (A + 1) + S in          (* edges *)
  let u0 := e0 + 4 * E in                (* bounds of the edges up from each of K storages and A floors *)
  let d0 := u0 + (K + A + 1) in          (* edges down from each storage: K + 1 bounds, then E rows *)
  {| steps := N; tensors := T; storages := K; slots := S; arenas := A; by_slots := bit 1 (word 16);
     tensor_at := tensors_from word 17 T; storage_at := storages_from word s0 K; slot_at := slots_from word k0 S;
     arena_at := arenas_from word a0 A;
     reads := row_of word r0 N; writes := row_of word w0 N; mutates := row_of word m0 N;
     loops := pairs word l0 L; apart_pairs := pairs word p0 P;
     members := grouped word g0 K; tenants := grouped word t0 S; ordered := grouped word o0 A;
     edge_at := edges_from word e0 E; ups_at := fun k => word (u0 + k); downs := grouped word d0 K |}.
