(** The planner for one arena as functions of requests: [Scan.linear_scan] chooses slots, each slot is as large and as
    aligned as its storages require, and offsets are prefix sums of the slots. T6.1 to T6.4, A1.1, A1.2 *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Check Safe Claims Scan Symbolic.
Import ListNotations.
Open Scope Z_scope.

(** The request for one storage. *)
Record request := Request { of_life : life; room_of : Z; alignment_of : Z }.
Definition nothing : request := Request (Life 0 0) 0 1.

Section Planned.
Variable l : list request.     (* by birth *)
Variable last : Z.             (* the number of steps *)
Variable base : arena.         (* its alignment and capacity *)

Definition request_at (k : Z) : request := nth (Z.to_nat k) l nothing.
Definition slot_of (k : Z) : Z := Z.of_nat (nth (Z.to_nat k) (linear_scan (map of_life l)) O).
(** The largest that [f] is of a storage of slot [s], and no less than [least]. *)
Definition largest (f : request -> Z) (least s : Z) : Z :=
  fold_right (fun k most => if slot_of k =? s then Z.max (f (request_at k)) most else most) least
    (run 0 (Z.of_nat (length l))).

(** Offsets depend only on the slots. [k_offset] and [k_place] are evidence, which is not needed here. *)
Definition slots_planned : memory :=
  {| steps := last; storages := Z.of_nat (length l); slots := Z.of_nat (slots_opened (map of_life l)); arenas := 1;
     by_slots := true; storage_at := fun _ => Storage 0 0 1 0 0 0 0 0;
     slot_at := fun s => Slot 0 (largest room_of 0 s) (largest alignment_of (least_alignment base) s) 0 0;
     arena_at := fun _ => base; reuse := fun _ => true;
     tenants := Groups (fun _ => 0) (fun _ => 0); ordered := Groups (fun _ => 0) (fun _ => 0);
     edge_at := fun _ => Edge 0 0 0 0; ups_at := fun _ => 0; downs := Groups (fun _ => 0) (fun _ => 0); pairs := [] |}.
Definition offset_of (s : Z) : Z := offset_in slots_planned (fun t => k_bytes (slot_at slots_planned t)) s.

Definition planned : memory :=
  {| steps := steps slots_planned; storages := storages slots_planned; slots := slots slots_planned; arenas := 1;
     by_slots := true;
     storage_at := fun k => let r := request_at k in
       Storage 0 (room_of r) (alignment_of r) (born (of_life r)) (dies (of_life r)) (offset_of (slot_of k)) (slot_of k) 0;
     slot_at := slot_at slots_planned; arena_at := fun _ => base; reuse := fun _ => true;
     tenants := tenants slots_planned; ordered := ordered slots_planned; edge_at := edge_at slots_planned;
     ups_at := fun _ => 0; downs := downs slots_planned; pairs := [] |}.

(** Sizes are not negative, alignments are powers of two, lifetimes are within the steps, and the slots fit into the arena. *)
Definition Asked : Prop :=
  comes_by_birth 0 (map of_life l) /\
  (forall r, In r l -> 0 <= room_of r /\ PowerOfTwo (alignment_of r) /\ dies (of_life r) <= Z.max 0 (last - 1)) /\
  PowerOfTwo (least_alignment base) /\ scattered base = false /\ capacity base < U64 /\
  forall s, 0 <= s < slots planned -> offset_of s + k_bytes (slot_at planned s) <= capacity base.
End Planned.
