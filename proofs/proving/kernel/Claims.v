(** The claims of a plan about its size, in addition to being safe: its slots, its footprints, that no assignment of
    storages to slots uses fewer slots (T6.4), and that no placement needs fewer bytes (V5.6). First the functions that
    are evaluated, then their meaning. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Check Safe.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Section Claims.
Variable p : memory.

(** * The functions that are evaluated *)

(** A storage is listed in its slot, which is in its arena and has enough bytes and alignment for it; the storages of a
    slot take turns. If ranges of slots show that storages are disjoint, most of this is checked already. T6.2, A1.2 *)
Definition fits_slot (k : Z) : bool :=
  let s := storage_at p k in
  let h := slot_at p (s_slot s) in
  (if by_slots p then true else slotted p k s h) &&&
  (s_bytes s <=? k_bytes h) &&& power_of_two (k_alignment h) &&& (s_alignment s <=? k_alignment h) &&&
  (least_alignment (arena_at p (s_arena s)) <=? k_alignment h).
Definition slots_ok : bool := every (storages p) fits_slot &&& (if by_slots p then true else every (slots p) (turns_taken p)).

(** At step [t] every slot of arena [a] holds a live storage. T6.4 *)
Definition lives (k t : Z) : bool := between (s_birth (storage_at p k)) t (s_death (storage_at p k)).
Definition full (a t : Z) : bool :=
  every (slots p) (fun s =>
    negb (k_arena (slot_at p s) =? a) ||
    existsb (fun k => row k (storages p) && (s_slot (storage_at p k) =? s) && lives k t) (group (tenants p) s)).

(** Each arena has its footprint within its capacity and, if addresses are offsets, its storages within its footprint.
    A3.1, A2.3 *)
Definition within_footprint (k : Z) : bool :=
  let s := storage_at p k in
  let a := arena_at p (s_arena s) in
  scattered a || (s_offset s + s_bytes s <=? footprint a).
Definition footprints_ok : bool :=
  every (arenas p) (fun a => footprint (arena_at p a) <=? capacity (arena_at p a)) &&&
  every (storages p) within_footprint.

(** The storages of arena [a] that live at step [t] have together exactly the bytes that the arena needs. V5.6 *)
Definition live_bytes (a t : Z) : Z :=
  sum (storages p) (fun k => if (s_arena (storage_at p k) =? a) && lives k t then s_bytes (storage_at p k) else 0).
Definition no_byte_to_spare (a t : Z) : bool := footprint (arena_at p a) <=? live_bytes a t.

(** * Their meaning *)

(** T6.2: storages of one slot live at no common step; in an arena that does not reuse, a slot has only one storage.
    M3.1 *)
Definition SlotsTakeTurns : Prop := forall k l,
  is_storage p k -> is_storage p l -> k <> l -> s_slot (storage_at p k) = s_slot (storage_at p l) ->
  (forall n, lives_at p k n -> lives_at p l n -> False) /\ reuse p (arena_of p k) = true.

Definition StoragesFitSlots : Prop := forall k, is_storage p k ->
  let s := storage_at p k in let h := slot_at p (s_slot s) in
  0 <= s_slot s < slots p /\ k_arena h = s_arena s /\ s_bytes s <= k_bytes h /\ PowerOfTwo (k_alignment h) /\
  s_alignment s <= k_alignment h /\ least_alignment (arena_at p (s_arena s)) <= k_alignment h.

Definition FootprintsHold : Prop :=
  (forall a, 0 <= a < arenas p -> footprint (arena_at p a) <= capacity (arena_at p a)) /\
  forall k, is_storage p k -> scattered (arena_at p (arena_of p k)) = false ->
    s_offset (storage_at p k) + s_bytes (storage_at p k) <= footprint (arena_at p (arena_of p k)).

Definition slots_of (a : Z) : list Z := filter (fun s => k_arena (slot_at p s) =? a) (run 0 (slots p)).
Definition in_arena (a k : Z) : Prop := is_storage p k /\ arena_of p k = a.
Definition meet (k l : Z) : Prop := exists n, lives_at p k n /\ lives_at p l n.

(** Any assignment that gives storages living at one step different slots uses no fewer than the plan has. *)
Definition FewestSlots (a : Z) : Prop := forall (C : Type) (colour : Z -> C) (colours : list C),
  (forall k l, in_arena a k -> in_arena a l -> k <> l -> meet k l -> colour k <> colour l) ->
  (forall k, in_arena a k -> In (colour k) colours) -> (length (slots_of a) <= length colours)%nat.

(** Any placement of the arena's storages that gives two that live at one step no common byte needs no fewer bytes. *)
Definition LeastFootprint (a : Z) : Prop := forall (offset : Z -> Z) (enough : Z),
  (forall k, in_arena a k -> 0 <= offset k /\ offset k + s_bytes (storage_at p k) <= enough) ->
  (forall k l x, in_arena a k -> in_arena a l -> k <> l -> meet k l ->
     offset k <= x < offset k + s_bytes (storage_at p k) ->
     offset l <= x < offset l + s_bytes (storage_at p l) -> False) ->
  0 <= enough -> footprint (arena_at p a) <= enough.
End Claims.

(** The function that the program evaluates on the words of an accepted file, if the plan makes these claims. *)
Definition accepts_slots (word : Z -> Z) : bool := slots_ok (memory_of word).
Definition fewest_slots (word : Z -> Z) (a : Z) : bool :=
  let p := memory_of word in full p a (fullest (arena_at p a)).
Definition accepts_footprints (word : Z -> Z) : bool := footprints_ok (memory_of word).
Definition least_footprint (word : Z -> Z) (a : Z) : bool :=
  let p := memory_of word in no_byte_to_spare p a (peak (arena_at p a)).
