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
  needed : Z;        (* the last step that touches it; what a loop touches, the loop's leave *)
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
  reuse : bool       (* else every storage has a slot of its own *)
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
Definition bit (n x : Z) : bool := Z.testbit x n.
Definition pairs (word : Z -> Z) (start count : Z) : list (Z * Z) :=
  map (fun i => (word (start + i), word (start + count + i))) (run 0 count).

Definition plan_of (word : Z -> Z) : plan :=
  let N := word 5 in let T := word 6 in let K := word 7 in let S := word 8 in let A := word 9 in
  let L := word 10 in let R := word 11 in let W := word 12 in let M := word 13 in let P := word 14 in let E := word 15 in
  let c0 := 17 in                        (* tensors: 15 columns of T *)
  let s0 := c0 + 15 * T in               (* storages: 8 columns of K *)
  let k0 := s0 + 8 * K in                (* slots: 5 columns of S *)
  let a0 := k0 + 5 * S in                (* arenas: 4 columns of A *)
  let r0 := a0 + 4 * A in                (* reads: N + 1 bounds, then R rows; writes and mutates likewise *)
  let w0 := r0 + (N + 1) + R in
  let m0 := w0 + (N + 1) + W in
  let l0 := m0 + (N + 1) + M in          (* loops: enters, then leaves *)
  let p0 := l0 + 2 * L in                (* pairs that must not alias *)
  let g0 := p0 + 2 * P in                (* tensors of each storage: K + 1 bounds, then T rows *)
  let t0 := g0 + (K + 1) + T in          (* storages of each slot: S + 1 bounds, then K rows *)
  let o0 := t0 + (S + 1) + K in          (* slots of each arena: A + 1 bounds, then S rows *)
  let e0 := o0 + (A + 1) + S in          (* edges: 4 columns of E *)
  let u0 := e0 + 4 * E in                (* bounds of the edges up from each of K storages and A floors *)
  let d0 := u0 + (K + A + 1) in          (* edges down from each storage: K + 1 bounds, then E rows *)
  let lists (start : Z) (n : Z) :=
    map (fun i => word (start + N + 1 + i)) (run (word (start + n)) (word (start + n + 1))) in
  let grouped (start groups : Z) := Groups (fun k => word (start + k)) (fun i => word (start + groups + 1 + i)) in
  {| steps := N; tensors := T; storages := K; slots := S; arenas := A; by_slots := bit 0 (word 16);
     tensor_at := fun i =>
       let w c := word (c0 + c * T + i) in let flags := w 10 in
       {| home := w 0; window := w 1; bytes := w 2; alignment := w 3; birth := w 4; death := w 5;
          writer := w 6 - 1; base := w 7 - 1; shift := w 8; operand := w 9 - 1;
          returned := bit 0 flags; donated := bit 1 flags; scratch := bit 2 flags;
          made := w 11 - 1; needed := w 12; root := w 13; place := w 14 |};
     storage_at := fun k =>
       let w c := word (s0 + c * K + k) in
       {| s_arena := w 0; s_bytes := w 1; s_alignment := w 2; s_birth := w 3; s_death := w 4; s_slot := w 5;
          s_offset := w 6; s_place := w 7 |};
     slot_at := fun s =>
       let w c := word (k0 + c * S + s) in
       {| k_arena := w 0; k_bytes := w 1; k_alignment := w 2; k_offset := w 3; k_place := w 4 |};
     arena_at := fun a =>
       let w c := word (a0 + c * A + a) in
       {| capacity := w 0; least_alignment := w 1; footprint := w 2; scattered := bit 0 (w 3); reuse := bit 1 (w 3) |};
     reads := lists r0; writes := lists w0; mutates := lists m0;
     loops := pairs word l0 L; apart_pairs := pairs word p0 P;
     members := grouped g0 K; tenants := grouped t0 S; ordered := grouped o0 A;
     edge_at := fun e =>
       let w c := word (e0 + c * E + e) in
       {| below := w 0; above := w 1; first := w 2; last := w 3 |};
     ups_at := fun k => word (u0 + k); downs := grouped d0 K |}.
