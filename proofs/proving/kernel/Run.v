(** Running a plan: the machine with arenas, the machine with private memory, and the theorem that they agree.

    A program is any that has the plan's steps. The functions of its kernels are unknown: a kernel stores bytes, in any
    order and a few at a time, each a function of bytes that it may read at that moment. Control may leave out steps (a
    branch of an If that is not taken, a loop that never runs) and go back from a loop's leave to its enter. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Safe.
Import ListNotations.
Open Scope Z_scope.

Section Run.
Variable V : Type.                                  (* the content of a byte *)
Variable p : plan.

Definition private := Z -> Z -> V.                  (* tensor, byte number: each tensor has private memory *)
Definition arenas_ := Z -> Z -> V.                  (* arena, address *)

(** The content of the arenas at the place that the plan gives byte [x] of tensor [i]. *)
Definition seen (m : arenas_) : private := fun i x => m (tensor_arena p i) (address_of p i + x).

(** The two machines side by side: the step that runs; which bytes of which tensors have a defined value, so that a
    kernel may read them; private memory; and the arenas. *)
Record state := State { now : Z; defined : Z -> Z -> Prop; own : private; held : arenas_ }.

(** A store of some bytes of a result. [chosen] selects the bytes and [value] gives their contents: a function of the
    memory that it receives. *)
Record store := Store { result : Z; chosen : Z -> bool; value : private -> Z -> V }.

(** Step [n] may make the store, if bytes [d] are defined: it writes the result, the bytes are the result's, and the
    value depends only on defined bytes of the tensors that the step accesses. *)
Definition allowed (n : Z) (d : Z -> Z -> Prop) (w : store) : Prop :=
  is_step p n /\ step_writes p n (result w) /\ ~ is_view p (result w) /\
  (forall x, chosen w x = true -> inside p (result w) x) /\
  (forall u v, (forall i x, touches p n i -> inside p i x -> d i x -> u i x = v i x) ->
     forall x, chosen w x = true -> value w u x = value w v x).

(** The stored bytes are defined from then on. The bytes that an in-place result is stored over are not. A kernel that
    works in place must satisfy only this: it does not read a byte of the operand again after it has stored the result's
    byte of the same number. It makes no difference to the program whether the result is really over the operand. *)
Definition defined_after (d : Z -> Z -> Prop) (w : store) (i x : Z) : Prop :=
  i = result w /\ chosen w x = true \/
  d i x /\ ~ (Replaces p (result w) i /\ i <> result w /\ chosen w x = true).

Definition store_own (w : store) (u : private) : private := fun i x =>
  if (i =? result w) && chosen w x then value w u x else u i x.

Definition store_held (w : store) (m : arenas_) : arenas_ := fun a y =>
  let x := y - address_of p (result w) in
  if (a =? tensor_arena p (result w)) && chosen w x then value w (seen m) x else m a y.

Definition stored (s : state) (w : store) : state :=
  State (now s) (defined_after (defined s) w) (store_own w (own s)) (store_held w (held s)).

(** A view is made: private memory gets a copy of the bytes that it shows, and the arenas do not change. *)
Definition shown (s : state) (v : Z) : state :=
  let t := tensor_at p v in
  State (now s)
    (fun i x => i = v /\ inside p v x /\ defined s (base t) (shift t + x) \/ i <> v /\ defined s i x)
    (fun i x => if i =? v then own s (base t) (shift t + x) else own s i x)
    (held s).

(** The actions of a step: a kernel stores some bytes, or a view is made. *)
Inductive acts : state -> state -> Prop :=
  | stores : forall s w, allowed (now s) (defined s) w -> acts s (stored s w)
  | views : forall s v, is_step p (now s) -> is_tensor p v -> is_view p v -> step_writes p (now s) v ->
      acts s (shown s v).

(** The transitions of control. *)
Inductive goes : state -> state -> Prop :=
  (** On to a later step, but never from a branch to one that excludes it. *)
  | on : forall s n, now s <= n -> is_step p n -> ~ Siblings p (now s) n -> goes s (State n (defined s) (own s) (held s))
  (** Back to the enter of a loop. The tensors that its steps are to make have no value any more. *)
  | back : forall s e, In (e, now s) (loops p) ->
      goes s (State e (fun i x => defined s i x /\ made (tensor_at p i) <= e) (own s) (held s)).

Inductive reaches : state -> state -> Prop :=
  | here : forall s, reaches s s
  | further : forall s t u, reaches s t -> acts t u \/ goes t u -> reaches s u.

(** Before step 0 the caller has written its tensors, and nothing else is defined. *)
Definition begins (s : state) : Prop := now s = -1 /\ forall i x, defined s i x ->
  is_tensor p i /\ inside p i x /\ writer (tensor_at p i) = -1 /\ seen (held s) i x = own s i x.

(** The arenas and private memory have the same content. *)
Definition agree (s : state) (i : Z) : Prop := forall x, defined s i x -> seen (held s) i x = own s i x.

(** Tensor [i] is or will be read: by this step or a later one, or by the caller after the last step. *)
Definition still_read (s : state) (i : Z) : Prop :=
  (exists n, now s <= n /\ is_step p n /\ touches p n i) \/ returned (tensor_at p i) = true.

(** The theorem: at every moment of every run, all tensors that are still read have their own bytes in the arenas. *)
Definition RunsAsPrivate : Prop := forall s t, begins s -> reaches s t -> forall i, still_read t i -> agree t i.

(** * Reads find values

    A run that completes each step, and takes steps in order or back from a leave to its enter, reads only defined
    values. *)

Inductive acts_on : state -> state -> Prop :=
  | idle : forall s, acts_on s s
  | one_more : forall s t u, acts_on s t -> acts t u -> acts_on s u.

Definition done (s : state) : Prop := forall w x, is_step p (now s) -> In w (writes p (now s)) -> inside p w x ->
  defined s w x.

(** Control goes step by step, back from a leave, and through one branch of an exclusive node, which may have no step.
    *)
Definition follows (n m : Z) : Prop :=
  m = n + 1 \/ m < n \/ exists x a, is_arm p x a /\
    (n = enter_of p x /\ m = fst a /\ fst a <= snd a \/
     n = snd a /\ m = leave_of p x /\ fst a <= snd a \/
     n = enter_of p x /\ m = leave_of p x /\ snd a < fst a).

(** The caller has written all of its tensors. *)
Definition given (s : state) : Prop := begins s /\
  forall i x, is_tensor p i -> inside p i x -> writer (tensor_at p i) = -1 -> defined s i x.

(** A step is about to begin, and all steps that control has passed were completed. *)
Inductive in_full : state -> Prop :=
  | at_first : forall s, given s -> in_full s
  | passed : forall s t u, in_full s -> acts_on s t -> done t -> goes t u -> follows (now t) (now u) ->
      in_full u.

(** Scratch excepted, which a step reads after it has written it: the tensors written on every path to a step; of the
    results of exclusive branches, those of the branch that ran; and all that the caller reads after the last step. *)
Definition ReadsFindValues : Prop :=
  (forall s r x, in_full s -> is_step p (now s) -> step_reads p (now s) r ->
     writer (tensor_at p r) = -1 \/ WrittenBefore p r (now s) -> ~ TakenAt p (now s) r -> inside p r x -> defined s r x) /\
  (forall s t u n a z r x, in_full s -> acts_on s t -> done t -> goes t u -> follows (now t) (now u) ->
     now u = leave_of p n -> ArmResult p n r -> is_arm p n a -> in_arm a (now t) -> Directly p a z ->
     In r (writes p z) -> inside p r x -> defined u r x) /\
  (forall s t r x, in_full s -> acts_on s t -> done t -> is_step p (now s) -> now s = last_step p -> is_tensor p r ->
     returned (tensor_at p r) = true -> inside p r x -> defined t r x).

(** * Programs run. spec: V6.8

    A program has for each step, and the step that control came from, the stores of its kernel in order. It may choose
    among the results of branches by the branch that ran. The number of iterations of loops is left open. *)
Definition program := Z -> Z -> list store.

(** The bytes that step [n] has to read if control comes from step [m]: those that exist on every path, and the results
    of the branch that ran. Values may depend only on these and on the kernel's own stores. This is a property of the
    plan and not of a run, so that it covers a kernel that uses everything that its step reads. *)
Definition Readable (m n r x : Z) : Prop := step_reads p n r /\ inside p r x /\
  (~ TakenAt p n r /\ (writer (tensor_at p r) = -1 \/ WrittenBefore p r n) \/
   exists y a z, n = leave_of p y /\ ArmResult p y r /\ is_arm p y a /\ in_arm a m /\ Directly p a z /\
     In r (writes p z)).

(** These stores are a kernel of step [n] to which bytes [d] are known: each is allowed when its turn comes, and
    together they make all bytes of its results. *)
Inductive Kernel (n : Z) : (Z -> Z -> Prop) -> list store -> Prop :=
  | whole : forall d : Z -> Z -> Prop,
      (forall w x, In w (writes p n) -> ~ is_view p w -> inside p w x -> d w x) -> Kernel n d nil
  | then_stores : forall (d : Z -> Z -> Prop) w l, allowed n d w -> Kernel n (defined_after d w) l -> Kernel n d (w :: l).

(** Control that keeps to the steps of [way] may come from step [m], or from the caller, to step [n]. *)
Definition Comes (way : Z -> Prop) (m n : Z) : Prop := is_step p n /\ way n /\ (m = -1 \/ way m) /\ follows m n /\
  (m < n /\ ~ Siblings p m n \/ In (n, m) (loops p)).

(** A program whose kernels are local wherever control may come. *)
Definition Local (way : Z -> Prop) (f : program) : Prop := forall m n, Comes way m n -> Kernel n (Readable m n) (f m n).

(** A step makes its views, and stores exactly these other bytes, in this order. *)
Inductive performs : list store -> state -> state -> Prop :=
  | performed : forall s, performs nil s s
  | makes_view : forall l s v t, is_step p (now s) -> is_tensor p v -> is_view p v -> step_writes p (now s) v ->
      performs l (shown s v) t -> performs l s t
  | makes_store : forall w l s t, allowed (now s) (defined s) w -> performs l (stored s w) t -> performs (w :: l) s t.

(** [f] has run from [s0], each step whole, and has come from step [m] to a step of [way], which is about to begin. *)
Inductive runs (way : Z -> Prop) (f : program) (s0 : state) : Z -> state -> Prop :=
  | to_first : forall u, given s0 -> goes s0 u -> follows (now s0) (now u) -> way (now u) -> runs way f s0 (-1) u
  | to_next : forall m s t u, runs way f s0 m s -> performs (f m (now s)) s t -> done t -> goes t u ->
      follows (now t) (now u) -> way (now u) -> runs way f s0 (now t) u.

(** A choice of one branch of each exclusive node, and the steps that control then passes. *)
Definition Choice (c : Z -> Z * Z) : Prop := forall x, is_exclusive p x -> is_arm p x (c x).
Definition Chosen (c : Z -> Z * Z) (n : Z) : Prop := is_step p n /\ forall x a, is_arm p x a -> in_arm a n -> a = c x.

(** A local program never comes to a step without the bytes that it reads: the step stores the program's values, and
    completes. For every choice of branches, the program comes to each step of that choice and passes no other. *)
Definition Progress : Prop :=
  (forall way f s0 m s, Local way f -> runs way f s0 m s -> exists t, performs (f m (now s)) s t /\ done t) /\
  (forall c f s0 n, Choice c -> Local (Chosen c) f -> given s0 -> Chosen c n ->
     exists m s, runs (Chosen c) f s0 m s /\ now s = n).

(** The same for programs that are given as functions: result [w] of step [n] is this function of private memory. *)
Definition functions := Z -> Z -> Z -> private -> Z -> V.
Definition whole_store (g : private -> Z -> V) (w : Z) : store :=
  Store w (fun x => (0 <=? x) && (x <? bytes (tensor_at p w))) g.
Definition kernels_of (g : functions) : program := fun m n => map (fun w => whole_store (g m n w) w)
  (nodup Z.eq_dec (filter (fun w => base (tensor_at p w) =? -1) (writes p n))).

(** It may depend on all that the step has to read, except what other results of the step are, or take the place of. *)
Definition Operand (m n w i x : Z) : Prop := Readable m n i x /\
  forall o, In o (writes p n) -> o <> w -> o <> i /\ ~ Replaces p o i.
Definition LocalFunctions (way : Z -> Prop) (g : functions) : Prop := forall m n w, Comes way m n ->
  In w (writes p n) -> ~ is_view p w -> forall u v, (forall i x, Operand m n w i x -> u i x = v i x) ->
  forall x, inside p w x -> g m n w u x = g m n w v x.

(** Each step of each choice is reached, and then every result holds its function of the memory that the step found. *)
Definition FunctionsAreComputed : Prop := forall c g s0 n, Choice c -> LocalFunctions (Chosen c) g -> given s0 ->
  Chosen c n -> exists m s t, runs (Chosen c) (kernels_of g) s0 m s /\ now s = n /\
    performs (kernels_of g m n) s t /\ done t /\
    forall w x, In w (writes p n) -> ~ is_view p w -> inside p w x -> own t w x = g m n w (own s) x.
End Run.
