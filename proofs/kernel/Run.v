(** Running a plan: the machine with arenas, the machine with private memory, and the theorem that they agree.

    A program is any that has the plan's steps. What its kernels compute is unknown: a kernel stores bytes, in any order
    and a few at a time, each a function of bytes that it may read at that moment. Control may leave out steps (an arm of
    an If that is not taken, a loop that never runs) and go back from a loop's leave to its enter. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Safe.
Import ListNotations.
Open Scope Z_scope.

Section Run.
Variable V : Type.                                  (* what a byte holds *)
Variable p : plan.

Definition private := Z -> Z -> V.                  (* tensor, byte number: each tensor has memory of its own *)
Definition arenas_ := Z -> Z -> V.                  (* arena, address *)

(** What the arenas hold where the plan puts byte [x] of tensor [i]. *)
Definition seen (m : arenas_) : private := fun i x => m (tensor_arena p i) (address_of p i + x).

(** The two machines side by side: the step that runs; which bytes of which tensors have a defined value, so that a
    kernel may read them; private memory; and the arenas. *)
Record state := State { now : Z; defined : Z -> Z -> Prop; own : private; held : arenas_ }.

(** A store of some bytes of a result. [chosen] says which, [value] what: a function of the memory that it is given. *)
Record store := Store { result : Z; chosen : Z -> bool; value : private -> Z -> V }.

(** The step may do it: it writes the result, the bytes are the result's, and the value depends on nothing but defined
    bytes of what the step touches. *)
Definition allowed (s : state) (w : store) : Prop :=
  is_step p (now s) /\ step_writes p (now s) (result w) /\ ~ is_view p (result w) /\
  (forall x, chosen w x = true -> inside p (result w) x) /\
  (forall u v, (forall i x, touches p (now s) i -> inside p i x -> defined s i x -> u i x = v i x) ->
     forall x, chosen w x = true -> value w u x = value w v x).

(** What is stored is defined from then on. What an in-place result is stored over is not: this is all that is asked of
    a kernel that works in place, that it does not read a byte of the operand again after it has stored the result's
    byte of the same number. Whether the result does lie over the operand makes no difference to the program. *)
Definition defined_after (s : state) (w : store) (i x : Z) : Prop :=
  i = result w /\ chosen w x = true \/
  defined s i x /\ ~ (Replaces p (result w) i /\ i <> result w /\ chosen w x = true).

Definition store_own (w : store) (u : private) : private := fun i x =>
  if (i =? result w) && chosen w x then value w u x else u i x.

Definition store_held (w : store) (m : arenas_) : arenas_ := fun a y =>
  let x := y - address_of p (result w) in
  if (a =? tensor_arena p (result w)) && chosen w x then value w (seen m) x else m a y.

(** What a step does. *)
Inductive acts : state -> state -> Prop :=
  (** A kernel stores some bytes. *)
  | stores : forall s w, allowed s w ->
      acts s (State (now s) (defined_after s w) (store_own w (own s)) (store_held w (held s)))
  (** A view is made: private memory gets a copy of what it shows, the arenas nothing. *)
  | views : forall s v, is_step p (now s) -> is_tensor p v -> is_view p v -> step_writes p (now s) v ->
      let t := tensor_at p v in
      acts s (State (now s)
        (fun i x => i = v /\ inside p v x /\ defined s (base t) (shift t + x) \/ i <> v /\ defined s i x)
        (fun i x => if i =? v then own s (base t) (shift t + x) else own s i x)
        (held s)).

(** Where control goes. *)
Inductive goes : state -> state -> Prop :=
  (** On to a later step, but never from an arm to one that excludes it. *)
  | on : forall s n, now s <= n -> is_step p n -> ~ Siblings p (now s) n -> goes s (State n (defined s) (own s) (held s))
  (** Back to the enter of a loop. What its steps are to make has no value any more. *)
  | back : forall s e, In (e, now s) (loops p) ->
      goes s (State e (fun i x => defined s i x /\ made (tensor_at p i) <= e) (own s) (held s)).

Inductive reaches : state -> state -> Prop :=
  | here : forall s, reaches s s
  | further : forall s t u, reaches s t -> acts t u \/ goes t u -> reaches s u.

(** Before step 0 the caller has written its tensors, and nothing else is defined. *)
Definition begins (s : state) : Prop := now s = -1 /\ forall i x, defined s i x ->
  is_tensor p i /\ inside p i x /\ writer (tensor_at p i) = -1 /\ seen (held s) i x = own s i x.

(** What is found in the arenas is what private memory holds. *)
Definition agree (s : state) (i : Z) : Prop := forall x, defined s i x -> seen (held s) i x = own s i x.

(** Tensor [i] is or will be read: by this step or a later one, or by the caller after the last step. *)
Definition still_read (s : state) (i : Z) : Prop :=
  (exists n, now s <= n /\ is_step p n /\ touches p n i) \/ returned (tensor_at p i) = true.

(** The theorem: at every moment of every run, whatever is still read has its own bytes in the arenas. *)
Definition RunsAsPrivate : Prop := forall s t, begins s -> reaches s t -> forall i, still_read t i -> agree t i.

(** * That reads find values

    A run that does all of each step, and takes steps in order or back from a leave to its enter, reads defined values only. *)

Inductive acts_on : state -> state -> Prop :=
  | idle : forall s, acts_on s s
  | one_more : forall s t u, acts_on s t -> acts t u -> acts_on s u.

Definition done (s : state) : Prop := forall w x, is_step p (now s) -> In w (writes p (now s)) -> inside p w x ->
  defined s w x.

(** Control goes step by step, back from a leave, and through one arm of an exclusive node, which may have no step. *)
Definition follows (n m : Z) : Prop :=
  m = n + 1 \/ m < n \/ exists x a, is_arm p x a /\
    (n = enter_of p x /\ m = fst a /\ fst a <= snd a \/
     n = snd a /\ m = leave_of p x /\ fst a <= snd a \/
     n = enter_of p x /\ m = leave_of p x /\ snd a < fst a).

(** A step is about to begin, and all that control has passed was done. *)
Inductive in_full : state -> Prop :=
  | at_first : forall s, begins s ->
      (forall i x, is_tensor p i -> inside p i x -> writer (tensor_at p i) = -1 -> defined s i x) -> in_full s
  | passed : forall s t u, in_full s -> acts_on s t -> done t -> goes t u -> follows (now t) (now u) ->
      in_full u.

(** Scratch apart, which a step reads after it has written it: what was written on every way to a step; and of the
    results of exclusive arms, those of the arm that ran. *)
Definition ReadsFindValues : Prop :=
  (forall s r x, in_full s -> is_step p (now s) -> In r (reads p (now s)) ->
     writer (tensor_at p r) = -1 \/ WrittenBefore p r (now s) -> ~ TakenAt p (now s) r -> inside p r x -> defined s r x) /\
  (forall s t u n a z r x, in_full s -> acts_on s t -> done t -> goes t u -> follows (now t) (now u) ->
     now u = leave_of p n -> ArmResult p n r -> is_arm p n a -> in_arm a (now t) -> Directly p a z ->
     In r (writes p z) -> inside p r x -> defined u r x).
End Run.
