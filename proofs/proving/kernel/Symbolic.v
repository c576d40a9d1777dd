(** Symbolic plans: at each shape the slots have the sizes that their storages need there, one behind the other. If the
    offsets of a plan are the prefix sums of its slots, they are too at each shape, with the sizes there.
    [SymbolicProof.v] proves that storages are then as safe as those of the plan. R6.15 *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Check Safe Shapes Claims.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** The least multiple of [a] that is not below [x]. A1.1 *)
Definition round_up (a x : Z) : Z := (x + a - 1) / a * a.

Section Symbolic.
Variable p : memory.

(** Slots one behind the other from byte [from] on, each at a multiple of its alignment, with the bytes that [room]
    states: each slot with its offset. *)
Fixpoint put (room : Z -> Z) (from : Z) (l : list Z) : list (Z * Z) :=
  match l with
  | [] => []
  | s :: l' => let o := round_up (k_alignment (slot_at p s)) from in (s, o) :: put room (o + room s) l'
  end.
Definition offset_in (room : Z -> Z) (s : Z) : Z :=
  match find (fun q => fst q =? s) (put room 0 (slots_of p (k_arena (slot_at p s)))) with Some q => snd q | None => 0 end.

(** A shape gives each storage its bytes and each slot its room. *)
Definition ShapeFits (size room : Z -> Z) : Prop :=
  (forall s, 0 <= s < slots p -> 0 <= room s <= k_bytes (slot_at p s)) /\
  (forall k, is_storage p k -> 0 <= size k <= s_bytes (storage_at p k) /\ size k <= room (s_slot (storage_at p k))).

(** The plan at a shape. *)
Definition at_shape (size room : Z -> Z) : memory :=
  {| steps := steps p; storages := storages p; slots := slots p; arenas := arenas p; by_slots := by_slots p;
     storage_at := fun k => let s := storage_at p k in
       {| s_arena := s_arena s; s_bytes := size k; s_alignment := s_alignment s; s_birth := s_birth s;
          s_death := s_death s; s_offset := offset_in room (s_slot s); s_slot := s_slot s; s_place := s_place s |};
     slot_at := fun s => let h := slot_at p s in
       {| k_arena := k_arena h; k_bytes := room s; k_alignment := k_alignment h; k_offset := offset_in room s;
          k_place := k_place h |};
     arena_at := arena_at p; reuse := reuse p; tenants := tenants p; ordered := ordered p; edge_at := edge_at p;
     ups_at := ups_at p; downs := downs p; pairs := pairs p |}.

(** The offsets of the plan itself are the prefix sums of its slots, and addresses are offsets. *)
Definition PrefixSums : Prop := forall k, is_storage p k ->
  let s := storage_at p k in
  s_offset s = offset_in (fun t => k_bytes (slot_at p t)) (s_slot s) /\ scattered (arena_at p (s_arena s)) = false.

(** * The function that is evaluated: the offsets of storages are those of their slots, which are prefix sums *)

Fixpoint summed (from : Z) (l : list Z) : bool :=
  match l with
  | [] => true
  | s :: l' =>
      let h := slot_at p s in
      (1 <=? k_alignment h) &&& (1 <=? k_bytes h) &&& (k_offset h =? round_up (k_alignment h) from) &&& summed (k_offset h + k_bytes h) l'
  end.
Definition at_its_slot (k : Z) : bool :=
  let s := storage_at p k in
  negb (scattered (arena_at p (s_arena s))) &&& (s_offset s =? k_offset (slot_at p (s_slot s))).
Definition symbolic_ok : bool :=
  every (slots p) (fun s => row (k_arena (slot_at p s)) (arenas p)) &&&
  every (arenas p) (fun a => summed 0 (slots_of p a)) &&& every (storages p) at_its_slot.
End Symbolic.

(** A plan with the storages of that shape. *)
Definition moved (p : plan) (size room : Z -> Z) : plan :=
  Plan (at_shape p size room) (tensors p) (tensor_at p) (reads p) (writes p) (mutates p) (loops p) (exclusives p)
    (exclusive_at p) (takes p) (members p) (within p) (also p) (joined p).
(** Sizes of storages and slots, given those of tensors: a storage has the bytes that its tensors need, and a slot
    those of its largest storage, but at least one. *)
Definition largest_of (least : Z) (l : list Z) (f : Z -> Z) : Z := fold_right (fun i most => Z.max (f i) most) least l.
Definition storage_size (p : plan) (bytes_ : Z -> Z) (k : Z) : Z :=
  largest_of 0 (filter (fun i => home (tensor_at p i) =? k) (run 0 (tensors p)))
    (fun i => window (tensor_at p i) + bytes_ i).
Definition slot_size (p : plan) (bytes_ : Z -> Z) (s : Z) : Z :=
  largest_of 1 (filter (fun k => s_slot (storage_at p k) =? s) (run 0 (storages p))) (storage_size p bytes_).
(** A plan at a shape, which gives tensors their sizes: storages have their sizes and offsets there. *)
Definition plan_at_shape (p : plan) (bytes_ : Z -> Z) : plan :=
  moved (at_sizes p bytes_) (storage_size p bytes_) (slot_size p bytes_).

(** The function that is evaluated on the words of an accepted plan that is symbolic. The program evaluates [symbolic_ok]
    on the plan in a file. *)
Definition accepts_symbolic (word : Z -> Z) : bool := symbolic_ok (memory_of word).
