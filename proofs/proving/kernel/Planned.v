(** The planner for one arena as functions of requests: [Scan.linear_scan] chooses slots, each slot is as large and as
    aligned as its storages require, and has a byte at least, and offsets are prefix sums of the slots. The evidence for the checker is computed
    too. [planned_plan] is the plan of a straight program whose tensors have a storage each. T6.1 to T6.4, A1.1, A1.2 *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Check Safe Claims Scan Symbolic.
Import ListNotations.
Open Scope Z_scope.

(** * Evidence: rows gathered into groups *)

Section Gathered.
Variable of : Z -> Z.          (* the group of each row *)
Variable rows : Z.

Definition members_of (g : Z) : list Z := filter (fun k => of k =? g) (run 0 rows).
(** The rows of all groups below [g], one group behind the other. *)
Definition before_group (g : Z) : list Z := flat_map members_of (run 0 g).
Definition gathered (count : Z) : groups :=
  Groups (fun g => Z.of_nat (length (before_group g))) (fun x => nth (Z.to_nat x) (before_group count) 0).
(** The place of a row: behind the groups below its own, and the rows of its own group that come before it. *)
Definition place_of (k : Z) : Z :=
  Z.of_nat (length (before_group (of k)) + length (filter (fun j => of j =? of k) (run 0 k))).
End Gathered.

(** The request for one storage. *)
Record request := Request { of_life : life; room_of : Z; alignment_of : Z }.
Definition nothing : request := Request (Life 0 0) 0 1.

Section Planned.
Variable l : list request.     (* by birth *)
Variable last : Z.             (* the number of steps *)
Variable space : arena.         (* its alignment and capacity *)

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
     slot_at := fun s => Slot 0 (largest room_of 1 s) (largest alignment_of (least_alignment space) s) 0 0;
     arena_at := fun _ => space; reuse := fun _ => true;
     tenants := Groups (fun _ => 0) (fun _ => 0); ordered := Groups (fun _ => 0) (fun _ => 0);
     edge_at := fun _ => Edge 0 0 0 0; ups_at := fun _ => 0; downs := Groups (fun _ => 0) (fun _ => 0); pairs := [] |}.
Definition offset_of (s : Z) : Z := offset_in slots_planned (fun t => k_bytes (slot_at slots_planned t)) s.
(** The end of the last slot. *)
Definition footprint_of : Z :=
  fold_right (fun s most => Z.max (offset_of s + k_bytes (slot_at slots_planned s)) most) 0 (run 0 (slots slots_planned)).
(** The first birth at which as many storages live as there are slots. *)
Definition fullest_step : Z :=
  match find (fun t => (slots_opened (map of_life l) <=? load t (map of_life l))%nat) (map born (map of_life l)) with
  | Some t => t
  | None => 0
  end.

Definition planned : memory :=
  {| steps := steps slots_planned; storages := storages slots_planned; slots := slots slots_planned; arenas := 1;
     by_slots := true;
     storage_at := fun k => let r := request_at k in
       Storage 0 (room_of r) (alignment_of r) (born (of_life r)) (dies (of_life r)) (offset_of (slot_of k)) (slot_of k)
         (place_of slot_of (storages slots_planned) k);
     slot_at := fun s => let h := slot_at slots_planned s in Slot 0 (k_bytes h) (k_alignment h) (offset_of s) s;
     arena_at := fun _ =>
       Arena (capacity space) (least_alignment space) (scattered space) footprint_of fullest_step (-1);
     reuse := fun _ => true; tenants := gathered slot_of (storages slots_planned) (slots slots_planned);
     ordered := Groups (fun a => a * slots slots_planned) (fun s => s); edge_at := edge_at slots_planned;
     ups_at := fun _ => 0; downs := downs slots_planned; pairs := [] |}.

(** An alignment that 64 bits can state. *)
Definition Alignment (a : Z) : Prop := PowerOfTwo a /\ a < U64.
(** Sizes are not negative, lifetimes are within the steps, and the slots fit into the arena. *)
Definition Asked : Prop :=
  comes_by_birth 0 (map of_life l) /\
  (forall r, In r l -> 0 <= room_of r /\ Alignment (alignment_of r) /\ dies (of_life r) <= Z.max 0 (last - 1)) /\
  Alignment (least_alignment space) /\ scattered space = false /\ capacity space < U64 /\ footprint_of <= capacity space.

(** * A straight program: each request is for a tensor *)

Section Program.
Variable given_ returned_ : Z -> bool.   (* the tensors that the caller writes, and those that it reads at the end *)
Variable reads_ : Z -> list Z.           (* the tensors that a step reads *)

Definition planned_tensor (k : Z) : tensor :=
  let r := request_at k in
  let step := if given_ k then -1 else born (of_life r) in
  {| home := k; window := 0; bytes := room_of r; alignment := alignment_of r; birth := born (of_life r);
     death := dies (of_life r); writer := step; base := -1; shift := 0; operand := -1; returned := returned_ k;
     donated := false; scratch := false; handed := false; made := step; needed := dies (of_life r); root := k;
     place := k |}.
Definition planned_plan : plan :=
  {| allocation := planned; tensors := storages planned; tensor_at := planned_tensor; reads := reads_;
     writes := fun n => filter (fun k => writer (planned_tensor k) =? n) (run 0 (storages planned));
     mutates := fun _ => []; loops := []; exclusives := 0; exclusive_at := fun _ => Exclusive 0 0 []; takes := [];
     members := Groups (fun k => k) (fun k => k); within := fun _ => (0, last); also := fun _ => [];
     joined := fun _ => [] |}.

(** The caller's tensors live from the first step on, and those that it reads until the last. A step reads what lives,
    and what the caller or an earlier step has written. *)
Definition Covered : Prop :=
  (forall k, is_storage planned k -> let x := of_life (request_at k) in
     (if given_ k then born x = 0 else born x < last) /\ (returned_ k = true -> dies x = last_step planned)) /\
  forall n r, is_step planned n -> In r (reads_ n) -> let x := of_life (request_at r) in
    is_storage planned r /\ n <= dies x /\ (given_ r = true \/ born x < n).
End Program.
End Planned.
