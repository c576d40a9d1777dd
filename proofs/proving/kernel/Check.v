(** The checker: the functions that are evaluated on a plan. [Safe.v] states their meaning, and [Soundness.v] proves it.

    Functions check rows one by one. The comment of each cites the clauses of [spec/tmmu.md] that it decides. Its name
    is that of its counterpart in [proofs/definition/checker/execute.py] or of its obligation, if it has one. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Definition power_of_two (x : Z) : bool := (1 <=? x) && (U64 mod x =? 0).

Section Memory.
Variable p : memory.

(** * The places of storages *)

(** A storage: its lifetime, bounds, capacity and alignment. V1.2, V1.3 *)
Definition placed (k : Z) : bool :=
  let s := storage_at p k in
  let a := arena_at p (s_arena s) in
  row (s_arena s) (arenas p) &&&
  (0 <=? s_birth s) &&& (s_birth s <=? s_death s) &&& (s_death s <=? last_step p) &&&
  (0 <=? s_bytes s) &&& (0 <=? s_offset s) &&& (s_offset s + s_bytes s <=? limit a) &&& (capacity a <? U64) &&&
  power_of_two (s_alignment s) &&& power_of_two (least_alignment a) &&&
  (s_offset s mod s_alignment s =? 0) &&& (s_offset s mod least_alignment a =? 0).

(** The steps at which the bytes of a storage serve nothing else: its lifetime, or all if the arena does not reuse. M3.1
    *)
Definition since (s : storage) : Z := if reuse p (s_arena s) then s_birth s else 0.
Definition until (s : storage) : Z := if reuse p (s_arena s) then s_death s else last_step p.

(** * Evidence that they are disjoint: ranges of slots *)

(** A storage is listed in its slot, which is in its arena, and is within the slot's range. V1.1 *)
Definition slotted (k : Z) (s : storage) (h : slot) : bool :=
  row (s_slot s) (slots p) &&& (k_arena h =? s_arena s) &&& listed (tenants p) (s_slot s) (s_place s) k.
Definition in_slot (k : Z) : bool :=
  let s := storage_at p k in
  let h := slot_at p (s_slot s) in
  slotted k s h &&& (k_offset h <=? s_offset s) &&& (s_offset s + s_bytes s <=? k_offset h + k_bytes h) &&&
  listed (ordered p) (s_arena s) (k_place h) (s_slot s).

(** The storages of a slot take turns: the bytes of each serve nothing else from a step after the last of the one
    before. T6.2 *)
Fixpoint take_turns (ended : Z) (l : list Z) : bool :=
  match l with
  | [] => true
  | k :: l' => let s := storage_at p k in
              let start := since s in
              let stop := until s in (ended <? start) &&& (start <=? stop) &&& take_turns stop l'
  end.
Definition turns_taken (s : Z) : bool := take_turns (-1) (group (tenants p) s).

(** The ranges of an arena's slots follow one behind the other. A1.2 *)
Fixpoint behind (stop : Z) (l : list Z) : bool :=
  match l with
  | [] => true
  | s :: l' =>
      let h := slot_at p s in
      (stop <=? k_offset h) &&& (0 <=? k_bytes h) &&& behind (k_offset h + k_bytes h) l'
  end.

(** * Evidence that they are disjoint: edges between neighbours *)

(** An edge down from storage [y]: from the floor of the arena, or from a storage that has bytes, keeps them while the
    edge lasts, and ends at or before the beginning of [y]. V1.12 *)
Definition floor (a : Z) : Z := storages p + a.
Definition leads_up (y : storage) (e : Z) : bool :=
  let x := below (edge_at p e) in
  between (ups_at p x) e (ups_at p (x + 1) - 1) &&&
  (if x =? floor (s_arena y) then true
   else
     let s := storage_at p x in
     row x (storages p) &&& (s_arena s =? s_arena y) &&& (1 <=? s_bytes s) &&&
     (s_offset s + s_bytes s <=? s_offset y) &&&
     (since s <=? first (edge_at p e)) &&& (last (edge_at p e) <=? until s)).

(** The edges down from storage [y] follow one another from step [from] to the last at which it keeps its bytes. V1.12 *)
Fixpoint tile (k : Z) (y : storage) (from : Z) (l : list Z) : bool :=
  match l with
  | [] => until y <? from
  | e :: l' =>
      (above (edge_at p e) =? k) &&& (first (edge_at p e) =? from) &&& leads_up y e &&&
      tile k y (last (edge_at p e) + 1) l'
  end.
Definition stands (k : Z) : bool :=
  let y := storage_at p k in (s_bytes y =? 0) || tile k y (since y) (group (downs p) k).

(** The edges up from one storage, or from the floor, follow one another, so that no step has two. V1.12 *)
Fixpoint one_at_a_time (ended : Z) (l : list Z) : bool :=
  match l with
  | [] => true
  | e :: l' => (ended <? first (edge_at p e)) &&& (first (edge_at p e) <=? last (edge_at p e)) &&&
               one_at_a_time (last (edge_at p e)) l'
  end.
Definition one_above (x : Z) : bool := one_at_a_time (-1) (run (ups_at p x) (ups_at p (x + 1))).

(** No byte belongs to two storages that live at one step, nor to two of an arena that does not reuse. V1.1, M3.1 *)
Definition no_live_overlap : bool :=
  if by_slots p then
    every (storages p) in_slot &&& every (slots p) turns_taken &&&
    every (arenas p) (fun a => behind 0 (group (ordered p) a))
  else every (storages p) stands &&& every (storages p + arenas p) one_above.

(** Two storages share no byte, at any step. T5.1 *)
Definition kept_apart (pair : Z * Z) : bool :=
  row (fst pair) (storages p) &&& row (snd pair) (storages p) &&&
  let s := storage_at p (fst pair) in
  let t := storage_at p (snd pair) in
  negb (s_arena s =? s_arena t) || (s_offset s + s_bytes s <=? s_offset t) || (s_offset t + s_bytes t <=? s_offset s)
  || (s_bytes s =? 0) || (s_bytes t =? 0).

Definition memory_ok : bool := every (storages p) placed &&& no_live_overlap.

(** * The checker of lifetimes without accesses *)

Definition check_lifetimes : bool := memory_ok &&& forallb kept_apart (pairs p).
Definition failing_part_of_memory : Z :=
  if negb (every (storages p) placed) then 1 else if negb no_live_overlap then 2
  else if negb (forallb kept_apart (pairs p)) then 7 else 0.
End Memory.

Section Check.
Variable p : plan.

(** * When tensors are accessed *)

Definition address (t : tensor) : Z := s_offset (storage_at p (home t)) + window t.
(** Whether a tensor's bytes are its own, or are needed, at step [n]. *)
Definition stays (t : tensor) (n : Z) : bool := between (made t) n (needed t).
(** * Exclusive branches *)

Definition in_range (range : Z * Z) (n : Z) : bool := between (fst range) n (snd range).
(** Every branch that holds step [z] holds step [n]. X4 *)
Definition covers (z n : Z) : bool := in_range (within p z) n.
(** Step [z] is in branch [a], and in no branch inside of it. *)
Definition directly (a : Z * Z) (z : Z) : bool :=
  in_range a z &&& (fst (within p z) <=? fst a) &&& (snd a <=? snd (within p z)).
(** Steps [n] and [m] are in two branches of one node: no run goes from one to the other without going back. *)
Definition siblings (n m : Z) : bool :=
  existsb (fun x => let v := exclusive_at p x in
    (enter v <? n) && (n <? leave v) && (enter v <? m) && (m <? leave v) &&
    negb (existsb (fun a => in_range a n && in_range a m) (arms v))) (run 0 (exclusives p)).
Fixpoint all_siblings (l : list Z) : bool :=
  match l with [] => true | n :: l' => forallb (siblings n) l' &&& all_siblings l' end.

(** The steps that write tensor [i] for the first time, each in its own branch. *)
Definition writers (i : Z) (t : tensor) : list Z := if writer t =? -1 then [] else writer t :: also p i.
(** Each branch of each of these nodes writes tensor [i], directly or by a node inside of it that writes it in each
    branch. *)
Fixpoint all_join (steps_ : list Z) (l : list Z) : bool :=
  match l with
  | [] => true
  | x :: l' =>
      row x (exclusives p) &&&
      forallb (fun a => existsb (directly a) steps_) (arms (exclusive_at p x)) &&&
      all_join (leave (exclusive_at p x) :: steps_) l'
  end.
(** Step [n] comes after a write of tensor [i], on each path to it. *)
Definition written_before (i : Z) (t : tensor) (n : Z) : bool :=
  ((writer t <? n) &&& covers (writer t) n) || existsb (fun z => (z <? n) &&& covers z n) (also p i) ||
  existsb (fun x => let z := leave (exclusive_at p x) in (z <=? n) &&& covers z n) (joined p i).

(** A branch's result is written directly in a branch of node [x], and stays to the end of a branch, where the leave may
    take it. *)
Definition arms_result (x i : Z) : bool :=
  let v := exclusive_at p x in
  let t := tensor_at p i in
  handed t && (enter v <? made t) && (needed t <? leave v) && existsb (fun a => snd a =? needed t) (arms v) &&
  existsb (fun a => existsb (directly a) (writers i t)) (arms v).

(** Whether [n] is the leave of a loop. *)
Definition leaves (n : Z) : bool := existsb (fun l => snd l =? n) (loops p).

(** Tensors that exist when a loop begins and are needed after that are needed until it is left, because the next
    iteration may need them. T8.3, T8.4, T8.7 *)
Definition outlasts (t : tensor) (l : Z * Z) : bool :=
  negb (between (made t) (fst l) (needed t)) || (snd l <=? needed t).

(** A view is at its base's bytes, and was made after its root by a step that reads its base, which an earlier step
    wrote; or the caller wrote them all. Its base precedes it among the tensors of their storage, so that no chain of
    views is a circle. V1.6, V1.14, T2.4 *)
Definition shows (i : Z) (t : tensor) : bool :=
  if base t =? -1 then root t =? i
  else
    let b := tensor_at p (base t) in
    let r := tensor_at p (root t) in
    row (base t) (tensors p) &&& row (root t) (tensors p) &&&
    (home t =? home b) &&& (place b <? place t) &&&
    (window t =? window b + shift t) &&& (0 <=? shift t) &&& (shift t + bytes t <=? bytes b) &&&
    (root t =? root b) &&&
    (if made t =? -1 then (made r =? -1) &&& (made b =? -1)
     else (made r <? made t) &&& stays b (made t) &&& (writer b <? made t) &&&
     mem (base t) (reads p (made t))).

(** An in-place result takes the identical slice of its operand in the step that needs it last. Neither the caller nor a
    next iteration needs the operand any more. T3.1, T3.4, T3.5, T3.6, T8.7 *)
Definition takes_place (t : tensor) : bool :=
  if operand t =? -1 then true
  else
    let o := tensor_at p (operand t) in
    row (operand t) (tensors p) &&& (base t =? -1) &&& (made t =? writer t) &&& (made o <? made t) &&&
    (needed o =? made t) &&& negb (returned o) &&& negb (handed o) &&& (negb (writer o =? -1) || donated o) &&& negb (leaves (made t)) &&&
    (home t =? home o) &&& (window t =? window o) &&& (bytes t =? bytes o).

(** A tensor is in its storage, in bytes and in steps, and aligned. All accesses to it are in its lifetime, and the step
    that is stated as its writer does write it. T2.10, V1.2, V1.4, T1.3 to T1.6 *)
Definition tensor_ok (i : Z) : bool :=
  let t := tensor_at p i in
  let s := storage_at p (home t) in
  row (home t) (storages p) &&&
  (0 <=? window t) &&& (0 <=? bytes t) &&& (window t + bytes t <=? s_bytes s) &&&
  (s_birth s <=? birth t) &&& (birth t <=? death t) &&& (death t <=? s_death s) &&&
  power_of_two (alignment t) &&& (address t mod alignment t =? 0) &&& (alignment t <=? s_alignment s) &&&
  (if writer t =? -1 then (made t =? -1) &&& (birth t =? 0)
   else (0 <=? made t) &&& (birth t <=? made t) &&& (made t <=? writer t) &&& (writer t <? steps p) &&&
        mem i (writes p (writer t))) &&&
  (made t <=? needed t) &&& (needed t <=? death t) &&&
  (if returned t then (needed t =? last_step p) &&& ((writer t =? -1) || written_before i t (steps p)) else true) &&&
  forallb (outlasts t) (loops p) &&&
  forallb (fun z => row z (steps p) &&& mem i (writes p z)) (also p i) &&&
  all_siblings (writers i t) &&& all_join (writers i t) (joined p i) &&&
  shows i t &&& takes_place t &&&
  listed (members p) (home t) (place t) i.

(** A step reads tensors that were written before, while they stay, and scratch that it writes itself. The leave of an
    exclusive node reads the results of its branches. V1.4, X4 *)
Definition read_ok (n r : Z) : bool :=
  let t := tensor_at p r in
  row r (tensors p) &&&
  (if stays t n then (writer t =? -1) || written_before r t n || (scratch t && (writer t =? n))
   else existsb (fun x => (leave (exclusive_at p x) =? n) && arms_result x r) (run 0 (exclusives p))).

(** No other tensor of the storage of [t] that stays at step [n] has a byte in common with [t]. V1.5, V1.10 *)
Definition ends_before (s t : tensor) : bool := window s + bytes s <=? window t.
Definition apart (s t : tensor) : bool :=
  ends_before s t || ends_before t s || (bytes s =? 0) || (bytes t =? 0).
Definition undisturbed (n w : Z) (t : tensor) : bool :=
  forallb (fun i => (i =? w) || negb (stays (tensor_at p i) n) || apart (tensor_at p i) t) (group (members p) (home t)).

(** A tensor is written by its writer, which each of several exclusive branches may have, or by a step that lists it as
    mutated; the caller's only if donated. Writes after its bytes became its own disturb nothing else. V1.7, V1.10,
    I1.11 *)
Definition write_ok (n w : Z) : bool :=
  let t := tensor_at p w in
  row w (tensors p) &&& stays t n &&&
  ((writer t =? n) || mem n (writers w t) || (mem w (mutates p n) && (negb (writer t =? -1) || donated t))) &&&
  (if made t =? n then true else (base t =? -1) &&& undisturbed n w t).

Definition step_ok (n : Z) : bool :=
  forallb (read_ok n) (reads p n) &&& forallb (write_ok n) (writes p n) &&&
  forallb (fun t => mem t (reads p n) && mem t (writes p n)) (mutates p n).

(** * Shared bytes *)

(** If two tensors of one storage both stay at some step, they share no byte, unless both show the bytes of one root, or
    the later takes the place of the earlier. V1.5, V1.9, V1.11, T3.1, T3.7, T3.8 *)
Definition compatible (j : Z) (t : tensor) (earlier : Z * tensor) : bool :=
  (root (snd earlier) =? root t) || apart (snd earlier) t || (operand t =? fst earlier).

(** The tensors of a storage in the order of their making; [present] are the earlier ones that may still stay. The
    caller writes all of its tensors before step 0, in any order, including those that no step reads. V1.13 *)
Fixpoint sweep (l : list Z) (present : list (Z * tensor)) (now : Z) : bool :=
  match l with
  | [] => true
  | j :: l' =>
      let t := tensor_at p j in
      let still := filter (fun earlier => made t <=? needed (snd earlier)) present in
      (now <=? made t) &&& forallb (compatible j t) still &&& sweep l' ((j, t) :: still) (made t)
  end.
Definition sharing_is_sound (k : Z) : bool := sweep (group (members p) k) [] (-1).

(** A loop's leave may write again what its enter writes, for the next iteration. T8.2, T8.3 *)
Definition loop_ok (l : Z * Z) : bool :=
  (0 <=? fst l) &&& (fst l <? snd l) &&& (snd l <? steps p) &&& covers (fst l) (snd l) &&&
  forallb (fun r => stays (tensor_at p r) (fst l)) (reads p (fst l)) &&&
  forallb (fun w => (base (tensor_at p w) =? -1) &&& undisturbed (snd l) w (tensor_at p w)) (writes p (fst l)).

(** * Leaves of exclusive nodes *)

(** The branches follow one another from step [from] to step [stop] - 1. *)
Fixpoint follow (from stop : Z) (l : list (Z * Z)) : bool :=
  match l with
  | [] => from =? stop
  | a :: l' => (fst a =? from) &&& (from - 1 <=? snd a) &&& follow (snd a + 1) stop l'
  end.
(** A result [w] of the leave [n] has no byte in common with the result [i] of a branch, or takes its place. *)
Definition disjoint_or_taken (n i w : Z) : bool :=
  let t := tensor_at p i in
  let u := tensor_at p w in
  negb (base u =? -1) || negb (s_arena (storage_at p (home t)) =? s_arena (storage_at p (home u))) ||
  (address t + bytes t <=? address u) || (address u + bytes u <=? address t) || (bytes t =? 0) || (bytes u =? 0) ||
  (existsb (fun q => (fst q =? w) && (snd q =? i)) (takes p) && (address t =? address u) && (made u =? n)).
(** A node with exclusive branches: they nest with all others, and the writes of its leave spare the results that it
    reads of them. X4 *)
Definition exclusive_ok (x : Z) : bool :=
  let v := exclusive_at p x in
  (0 <=? enter v) &&& (enter v <? leave v) &&& (leave v <? steps p) &&&
  match arms v with [] => false | _ => true end &&& follow (enter v + 1) (leave v) (arms v) &&&
  covers (leave v) (enter v) &&& negb (leaves (leave v)) &&& ((x =? 0) || (leave (exclusive_at p (x - 1)) <? leave v)) &&&
  forallb (fun a => forallb (fun n => (fst a <=? fst (within p n)) &&& (snd (within p n) <=? snd a))
                      (run (fst a) (snd a + 1))) (arms v) &&&
  forallb (fun i => stays (tensor_at p i) (leave v) || forallb (disjoint_or_taken (leave v) i) (writes p (leave v)))
    (reads p (leave v)).
(** A result that was taken is dead from then on. *)
Definition take_ok (pair : Z * Z) : bool := needed (tensor_at p (snd pair)) <? made (tensor_at p (fst pair)).

(** The storages of two tensors that must not alias share no byte. T5.1 *)
Definition tensors_apart (pair : Z * Z) : bool :=
  row (fst pair) (tensors p) &&& row (snd pair) (tensors p) &&&
  kept_apart p (home (tensor_at p (fst pair)), home (tensor_at p (snd pair))).

(** * The checker of plans with accesses *)

Definition check : bool :=
  memory_ok p &&&
  every (tensors p) tensor_ok &&& every (steps p) step_ok &&& forallb loop_ok (loops p) &&&
  every (storages p) sharing_is_sound &&& forallb tensors_apart (pairs p) &&&
  every (exclusives p) exclusive_ok &&& forallb take_ok (takes p).

(** The number of the part that fails, for messages; 0 if none does. *)
Definition failing_part : Z :=
  if negb (memory_ok p) then failing_part_of_memory p else if negb (every (tensors p) tensor_ok) then 3 else if negb (every (steps p) step_ok) then 4
  else if negb (forallb loop_ok (loops p)) then 5 else if negb (every (storages p) sharing_is_sound) then 6
  else if negb (forallb tensors_apart (pairs p)) then 7
  else if negb (every (exclusives p) exclusive_ok &&& forallb take_ok (takes p)) then 8 else 0.
End Check.

(** The functions that the program evaluates on the words of a file: of a plan with accesses, and of one with only
    lifetimes. *)
Definition accepts (word : Z -> Z) : bool :=
  (word 0 =? VERSION) &&& with_accesses word &&& check (plan_of word).
Definition accepts_lifetimes (word : Z -> Z) : bool :=
  (word 0 =? VERSION) &&& with_lifetimes word &&& check_lifetimes (memory_of word).
Definition failing (word : Z -> Z) : Z :=
  if with_accesses word then failing_part (plan_of word)
  else if with_lifetimes word then failing_part_of_memory (memory_of word) else 0.
