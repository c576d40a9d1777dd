(** The definition of a safe plan. Nothing here is evaluated.

    A byte of an arena is identified by its address. Storages, tensors and steps are identified by their rows. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns.
Open Scope Z_scope.

Section Memory.
Variable p : memory.

Definition is_storage (k : Z) : Prop := 0 <= k < storages p.
Definition is_step (n : Z) : Prop := 0 <= n < steps p.

(** * Storages *)

Definition arena_of (k : Z) : Z := s_arena (storage_at p k).
Definition lives_at (k n : Z) : Prop := s_birth (storage_at p k) <= n <= s_death (storage_at p k).
Definition has_byte (k x : Z) : Prop :=
  s_offset (storage_at p k) <= x < s_offset (storage_at p k) + s_bytes (storage_at p k).
Definition Disjoint (k l : Z) : Prop := arena_of k = arena_of l -> forall x, has_byte k x -> has_byte l x -> False.

(** V1.1: no byte of an arena belongs to two storages that live at one step. *)
Definition NoLiveOverlap : Prop := forall k l n,
  is_storage k -> is_storage l -> k <> l -> lives_at k n -> lives_at l n -> Disjoint k l.

(** M3.1: in an arena that does not reuse, no byte belongs to two storages. *)
Definition NoReuse : Prop := forall k l,
  is_storage k -> is_storage l -> k <> l -> reuse p (arena_of k) = false -> Disjoint k l.

Definition PowerOfTwo (a : Z) : Prop := exists k, 0 <= k /\ a = 2 ^ k.

(** V1.2, V1.3: every storage lives at steps of the plan, at an address that is aligned and in bounds. *)
Definition WellPlaced : Prop := forall k, is_storage k ->
  let s := storage_at p k in let a := arena_at p (s_arena s) in
  0 <= s_birth s <= s_death s /\ s_death s <= last_step p /\ 0 <= s_arena s < arenas p /\
  0 <= s_bytes s /\ 0 <= s_offset s /\ s_offset s + s_bytes s <= limit a /\ capacity a < U64 /\
  PowerOfTwo (s_alignment s) /\ (s_alignment s | s_offset s) /\
  PowerOfTwo (least_alignment a) /\ (least_alignment a | s_offset s).

(** T5.1: storages that must not alias have no byte in common, at any steps. *)
Definition StoragesKeptApart : Prop := forall k l, In (k, l) (pairs p) ->
  is_storage k /\ is_storage l /\ Disjoint k l.

(** The promise of a plan of lifetimes: it states no accesses, and nothing follows about them. *)
Definition SafeMemory : Prop := NoLiveOverlap /\ NoReuse /\ WellPlaced /\ StoragesKeptApart.
End Memory.

Section Safe.
Variable p : plan.

Definition is_tensor (i : Z) : Prop := 0 <= i < tensors p.

(** * Tensors *)

Definition tensor_arena (i : Z) : Z := arena_of p (home (tensor_at p i)).
Definition address_of (i : Z) : Z := s_offset (storage_at p (home (tensor_at p i))) + window (tensor_at p i).
(** Byte number [x] is one of the bytes of tensor [i]. *)
Definition inside (i x : Z) : Prop := 0 <= x < bytes (tensor_at p i).
(** Its bytes are its own from the step that makes it, and stay until it is last needed. *)
Definition Stays (i n : Z) : Prop := made (tensor_at p i) <= n <= needed (tensor_at p i).

(** T2.10, V1.2: every tensor is within its storage, in bytes and in steps, at an address that is aligned. *)
Definition TensorsWithinStorages : Prop := forall i, is_tensor i ->
  let t := tensor_at p i in let s := storage_at p (home t) in
  is_storage p (home t) /\ 0 <= window t /\ window t + bytes t <= s_bytes s /\
  s_birth s <= birth t <= death t /\ death t <= s_death s <= last_step p /\
  PowerOfTwo (alignment t) /\ (alignment t | address_of i) /\ alignment t <= s_alignment s.

(** * Exclusive branches *)

Definition in_arm (a : Z * Z) (n : Z) : Prop := fst a <= n <= snd a.
Definition is_exclusive (x : Z) : Prop := 0 <= x < exclusives p.
Definition is_arm (x : Z) (a : Z * Z) : Prop := is_exclusive x /\ In a (arms (exclusive_at p x)).
Definition enter_of (x : Z) : Z := enter (exclusive_at p x).
Definition leave_of (x : Z) : Z := leave (exclusive_at p x).
(** Two steps in different branches of one node. *)
Definition Siblings (n m : Z) : Prop := exists x a b, is_arm x a /\ is_arm x b /\ a <> b /\ in_arm a n /\ in_arm b m.
(** Every branch that holds step [z] holds step [n]: a run that comes to [n] from before [z] without going back passed
    [z]. *)
Definition Covers (z n : Z) : Prop := forall x a, is_arm x a -> in_arm a z -> in_arm a n.
(** A run that comes to the end of branch [a] passed its step [z]. *)
Definition Directly (a : Z * Z) (z : Z) : Prop := in_arm a z /\ forall n, in_arm a n -> Covers z n.

(** Branch [a] writes tensor [i]: by a step, or by a node that writes it in each of its branches. *)
Inductive ArmWrites (i : Z) : Z * Z -> Prop :=
  | by_step : forall a z, Directly a z -> In i (writes p z) -> ArmWrites i a
  | by_node : forall a x, Directly a (leave_of x) -> ArmsWrite i x -> ArmWrites i a
with ArmsWrite (i : Z) : Z -> Prop :=
  | each : forall x, is_exclusive x -> (forall a, is_arm x a -> ArmWrites i a) -> ArmsWrite i x.

(** On every path to step [n] tensor [i] was written. *)
Definition WrittenBefore (i n : Z) : Prop :=
  (exists z, 0 <= z < n /\ Covers z n /\ In i (writes p z)) \/
  (exists x, leave_of x <= n /\ Covers (leave_of x) n /\ ArmsWrite i x).

(** X4: a result of a branch of node [x], which the leave reads. It stays to the end of a branch; then the leave takes
    it. *)
Definition ArmResult (x i : Z) : Prop :=
  is_exclusive x /\ In i (reads p (leave_of x)) /\
  enter_of x < made (tensor_at p i) /\ needed (tensor_at p i) < leave_of x /\
  (exists a, is_arm x a /\ snd a = needed (tensor_at p i)) /\
  exists a z, is_arm x a /\ Directly a z /\ In i (writes p z).
Definition TakenAt (n i : Z) : Prop := exists x, n = leave_of x /\ ArmResult x i.

(** X4: branches follow one another from enter to leave, and hold a loop or an exclusive node whole or not at all. *)
Definition ArmsNest : Prop :=
  (forall x, is_exclusive x ->
     0 <= enter_of x < leave_of x /\ leave_of x < steps p /\ (exists a, is_arm x a) /\
     (forall a, is_arm x a -> enter_of x < fst a <= snd a + 1 /\ snd a < leave_of x) /\
     (forall n, enter_of x < n < leave_of x -> exists a, is_arm x a /\ in_arm a n) /\
     (forall a b, is_arm x a -> is_arm x b -> a = b \/ snd a < fst b \/ snd b < fst a) /\
     Covers (leave_of x) (enter_of x) /\
     (forall y, is_exclusive y -> leave_of x = leave_of y -> x = y)) /\
  (forall e n, In (e, n) (loops p) -> Covers e n).

(** The accesses of a step: its reads and writes; for the leave of a loop also those of its enter, for the next
    iteration. *)
Definition step_reads (n r : Z) : Prop := In r (reads p n) \/ exists e, In (e, n) (loops p) /\ In r (reads p e).
Definition step_writes (n w : Z) : Prop := In w (writes p n) \/ exists e, In (e, n) (loops p) /\ In w (writes p e).
Definition touches (n i : Z) : Prop := step_reads n i \/ step_writes n i.

(** V1.4: every access falls into the lifetime, each read after its write, and the caller finds what it reads. *)
Definition LifetimesCoverAccesses : Prop :=
  (forall n i, is_step p n -> touches n i -> is_tensor i /\ (Stays i n \/ TakenAt n i)) /\
  (forall n i, is_step p n -> step_writes n i -> Stays i n) /\
  (forall i n, is_tensor i -> 0 <= n -> Stays i n -> birth (tensor_at p i) <= n <= death (tensor_at p i)) /\
  (forall n r, is_step p n -> In r (reads p n) ->
     writer (tensor_at p r) = -1 \/ WrittenBefore r n \/
     writer (tensor_at p r) = n /\ scratch (tensor_at p r) = true \/ TakenAt n r) /\
  (forall i, is_tensor i -> writer (tensor_at p i) <> -1 ->
     is_step p (writer (tensor_at p i)) /\ In i (writes p (writer (tensor_at p i))) /\
     0 <= made (tensor_at p i) <= writer (tensor_at p i)) /\
  (forall i, is_tensor i -> writer (tensor_at p i) = -1 -> made (tensor_at p i) = -1 /\ birth (tensor_at p i) = 0) /\
  (forall i, is_tensor i -> returned (tensor_at p i) = true -> needed (tensor_at p i) = last_step p /\
     (writer (tensor_at p i) = -1 \/ WrittenBefore i (steps p))).

(** V1.7, V1.10, X4: a tensor is written by one step, or by steps of exclusive branches, and by those that list it as
    mutated; the caller's only by the latter, if donated. *)
Definition WrittenOnce : Prop :=
  (forall n m w, is_step p n -> is_step p m -> In w (writes p n) -> In w (writes p m) ->
     ~ In w (mutates p n) -> ~ In w (mutates p m) -> n = m \/ Siblings n m \/ Siblings m n) /\
  (forall n w, is_step p n -> In w (writes p n) ->
     writer (tensor_at p w) <> -1 \/ In w (mutates p n) /\ donated (tensor_at p w) = true).

(** V1.6: a view is at its base's bytes. The step that makes it reads its base, which stays and was written by an
    earlier step or the caller; the caller's views are of tensors that the caller writes. Therefore no view shows,
    through other views or directly, a tensor that its own step has yet to make. *)
Definition is_view (i : Z) : Prop := base (tensor_at p i) <> -1.
Definition ViewsShow : Prop := forall v, is_tensor v -> is_view v ->
  let b := base (tensor_at p v) in
  is_tensor b /\ home (tensor_at p v) = home (tensor_at p b) /\
  address_of v = address_of b + shift (tensor_at p v) /\
  0 <= shift (tensor_at p v) /\ shift (tensor_at p v) + bytes (tensor_at p v) <= bytes (tensor_at p b) /\
  (writer (tensor_at p v) = -1 -> writer (tensor_at p b) = -1) /\
  (writer (tensor_at p v) <> -1 -> Stays b (made (tensor_at p v)) /\ writer (tensor_at p b) < made (tensor_at p v) /\
     In b (reads p (made (tensor_at p v)))) /\
  (forall n, is_step p n -> step_writes n v -> n = made (tensor_at p v)).

(** Tensor [i] shows the bytes of [r], which is not a view: directly, or through other views. *)
Inductive Shows : Z -> Z -> Prop :=
  | itself : forall i, ~ is_view i -> Shows i i
  | through : forall i r, is_view i -> Shows (base (tensor_at p i)) r -> Shows i r.

(** T3: an in-place result takes the identical slice of an operand that neither a later step nor the caller reads. *)
Definition InPlaceIsLast : Prop := forall w, is_tensor w -> operand (tensor_at p w) <> -1 ->
  let o := operand (tensor_at p w) in
  is_tensor o /\ home (tensor_at p w) = home (tensor_at p o) /\ address_of w = address_of o /\
  bytes (tensor_at p w) = bytes (tensor_at p o) /\ needed (tensor_at p o) = writer (tensor_at p w) /\
  made (tensor_at p w) = writer (tensor_at p w) /\ made (tensor_at p o) < made (tensor_at p w) /\
  returned (tensor_at p o) = false /\ (forall x, ~ ArmResult x o) /\ (writer (tensor_at p o) <> -1 \/ donated (tensor_at p o) = true) /\
  forall e, ~ In (e, writer (tensor_at p w)) (loops p).

(** The program lets [w] be stored over the bytes of [i] that it no longer reads. *)
Definition Replaces (w i : Z) : Prop := operand (tensor_at p w) = i \/ In (w, i) (takes p).
(** X4: a result that a leave takes from a branch is dead from then on. *)
Definition TakenAreDead : Prop := forall w i, In (w, i) (takes p) -> needed (tensor_at p i) < made (tensor_at p w).

(** V1.5, X4: the writes of a step have no byte in common with anything else that stays at that step, or that it takes
    from a branch, except the operand whose place they take. *)
Definition WritesDisturbNothing : Prop := forall n w i x y,
  is_step p n -> step_writes n w -> ~ is_view w -> is_tensor i -> i <> w -> Stays i n \/ TakenAt n i ->
  inside w x -> inside i y -> tensor_arena w = tensor_arena i -> address_of w + x = address_of i + y ->
  Replaces w i /\ x = y /\ n = made (tensor_at p w).

(** V1.13: each tensor that the caller writes has separate bytes, whether or not a step reads it. Two that have a byte in
    common show the bytes of one tensor. *)
Definition CallersTensorsApart : Prop := forall i j x y,
  is_tensor i -> is_tensor j -> i <> j -> writer (tensor_at p i) = -1 -> writer (tensor_at p j) = -1 ->
  inside i x -> inside j y ->
  tensor_arena i = tensor_arena j -> address_of i + x = address_of j + y ->
  exists r, Shows i r /\ Shows j r.

(** T8.3: tensors that exist when a loop begins and are needed after that stay until it is left. *)
Definition LoopsKeep : Prop := forall e n, In (e, n) (loops p) ->
  0 <= e < n /\ n < steps p /\ (forall i, is_tensor i -> Stays i e -> Stays i n) /\
  (forall r, In r (reads p e) -> Stays r e).

(** T5.1: tensors that must not alias have storages without a common byte. *)
Definition KeptApart : Prop := forall i j, In (i, j) (pairs p) ->
  is_tensor i /\ is_tensor j /\ Disjoint p (home (tensor_at p i)) (home (tensor_at p j)).

Definition Safe : Prop :=
  NoLiveOverlap p /\ NoReuse p /\ WellPlaced p /\ TensorsWithinStorages /\ LifetimesCoverAccesses /\ WrittenOnce /\
  ViewsShow /\ InPlaceIsLast /\ WritesDisturbNothing /\ LoopsKeep /\ KeptApart /\ CallersTensorsApart /\
  ArmsNest /\ TakenAreDead.
End Safe.
