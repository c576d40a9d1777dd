(** What a safe plan is. Nothing here is evaluated.

    A byte of an arena is known by its address. Storages, tensors and steps are known by their rows. *)
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

(** What a plan of lifetimes alone promises: it states no accesses, and nothing follows about them. *)
Definition SafeMemory : Prop := NoLiveOverlap /\ NoReuse /\ WellPlaced /\ StoragesKeptApart.
End Memory.

Section Safe.
Variable p : plan.

Definition is_tensor (i : Z) : Prop := 0 <= i < tensors p.

(** * Tensors *)

Definition tensor_arena (i : Z) : Z := arena_of p (home (tensor_at p i)).
Definition address_of (i : Z) : Z := s_offset (storage_at p (home (tensor_at p i))) + window (tensor_at p i).
(** Byte number [x] of tensor [i] is one that it has. *)
Definition inside (i x : Z) : Prop := 0 <= x < bytes (tensor_at p i).
(** Its bytes are its own from when it is made, and stay until it is last needed. *)
Definition Stays (i n : Z) : Prop := made (tensor_at p i) <= n <= needed (tensor_at p i).

(** T2.10, V1.2: every tensor lies within its storage, in bytes and in steps, at an address that is aligned. *)
Definition TensorsWithinStorages : Prop := forall i, is_tensor i ->
  let t := tensor_at p i in let s := storage_at p (home t) in
  is_storage p (home t) /\ 0 <= window t /\ window t + bytes t <= s_bytes s /\
  s_birth s <= birth t <= death t /\ death t <= s_death s <= last_step p /\
  PowerOfTwo (alignment t) /\ (alignment t | address_of i) /\ alignment t <= s_alignment s.

(** What a step touches: what it reads and writes; the leave of a loop, what its enter does, for the next iteration. *)
Definition step_reads (n r : Z) : Prop := In r (reads p n) \/ exists e, In (e, n) (loops p) /\ In r (reads p e).
Definition step_writes (n w : Z) : Prop := In w (writes p n) \/ exists e, In (e, n) (loops p) /\ In w (writes p e).
Definition touches (n i : Z) : Prop := step_reads n i \/ step_writes n i.

(** V1.4: every access falls into the lifetime, each read after its write, and the caller finds what it reads. *)
Definition LifetimesCoverAccesses : Prop :=
  (forall n i, is_step p n -> touches n i -> is_tensor i /\ Stays i n) /\
  (forall i n, is_tensor i -> 0 <= n -> Stays i n -> birth (tensor_at p i) <= n <= death (tensor_at p i)) /\
  (forall n r, is_step p n -> In r (reads p n) ->
     writer (tensor_at p r) < n \/ writer (tensor_at p r) = n /\ scratch (tensor_at p r) = true) /\
  (forall i, is_tensor i -> writer (tensor_at p i) <> -1 ->
     is_step p (writer (tensor_at p i)) /\ In i (writes p (writer (tensor_at p i))) /\
     0 <= made (tensor_at p i) <= writer (tensor_at p i)) /\
  (forall i, is_tensor i -> writer (tensor_at p i) = -1 -> made (tensor_at p i) = -1 /\ birth (tensor_at p i) = 0) /\
  (forall i, is_tensor i -> returned (tensor_at p i) = true -> needed (tensor_at p i) = last_step p).

(** V1.7, V1.10: a tensor is written by one step, and by those that list it as mutated; the caller's, if donated. *)
Definition WrittenOnce : Prop := forall n w, is_step p n -> In w (writes p n) ->
  writer (tensor_at p w) = n \/
  In w (mutates p n) /\ (writer (tensor_at p w) <> -1 \/ donated (tensor_at p w) = true).

(** V1.6: a view lies at its base's bytes; the step that makes it reads its base, which stays. *)
Definition is_view (i : Z) : Prop := base (tensor_at p i) <> -1.
Definition ViewsShow : Prop := forall v, is_tensor v -> is_view v ->
  let b := base (tensor_at p v) in
  is_tensor b /\ home (tensor_at p v) = home (tensor_at p b) /\
  address_of v = address_of b + shift (tensor_at p v) /\
  0 <= shift (tensor_at p v) /\ shift (tensor_at p v) + bytes (tensor_at p v) <= bytes (tensor_at p b) /\
  (writer (tensor_at p v) <> -1 -> Stays b (made (tensor_at p v)) /\ In b (reads p (made (tensor_at p v)))) /\
  (forall n, is_step p n -> step_writes n v -> n = made (tensor_at p v)).

(** T3: an in-place result takes the identical slice of an operand that nobody needs any more. *)
Definition InPlaceIsLast : Prop := forall w, is_tensor w -> operand (tensor_at p w) <> -1 ->
  let o := operand (tensor_at p w) in
  is_tensor o /\ home (tensor_at p w) = home (tensor_at p o) /\ address_of w = address_of o /\
  bytes (tensor_at p w) = bytes (tensor_at p o) /\ needed (tensor_at p o) = writer (tensor_at p w) /\
  made (tensor_at p w) = writer (tensor_at p w) /\ made (tensor_at p o) < made (tensor_at p w) /\
  returned (tensor_at p o) = false /\ (writer (tensor_at p o) <> -1 \/ donated (tensor_at p o) = true) /\
  forall e, ~ In (e, writer (tensor_at p w)) (loops p).

(** V1.5: what a step writes has no byte in common with anything else that stays at that step, but for the operand
    whose place it takes. *)
Definition WritesDisturbNothing : Prop := forall n w i x y,
  is_step p n -> step_writes n w -> ~ is_view w -> is_tensor i -> i <> w -> Stays i n ->
  inside w x -> inside i y -> tensor_arena w = tensor_arena i -> address_of w + x = address_of i + y ->
  operand (tensor_at p w) = i /\ x = y /\ n = made (tensor_at p w).

(** V1.13: what the caller writes has bytes of its own, views apart, whether or not a step reads it. *)
Definition CallersTensorsApart : Prop := forall i j x y,
  is_tensor i -> is_tensor j -> i <> j -> writer (tensor_at p i) = -1 -> writer (tensor_at p j) = -1 ->
  inside i x -> inside j y ->
  tensor_arena i = tensor_arena j -> address_of i + x = address_of j + y ->
  root (tensor_at p i) = root (tensor_at p j).

(** T8.3: what is there when a loop begins and is needed after that stays until it is left. *)
Definition LoopsKeep : Prop := forall e n, In (e, n) (loops p) ->
  0 <= e < n /\ n < steps p /\ forall i, is_tensor i -> Stays i e -> Stays i n.

(** T5.1: tensors that must not alias lie in storages without a common byte. *)
Definition KeptApart : Prop := forall i j, In (i, j) (pairs p) ->
  is_tensor i /\ is_tensor j /\ Disjoint p (home (tensor_at p i)) (home (tensor_at p j)).

Definition Safe : Prop :=
  NoLiveOverlap p /\ NoReuse p /\ WellPlaced p /\ TensorsWithinStorages /\ LifetimesCoverAccesses /\ WrittenOnce /\
  ViewsShow /\ InPlaceIsLast /\ WritesDisturbNothing /\ LoopsKeep /\ KeptApart /\ CallersTensorsApart.
End Safe.
