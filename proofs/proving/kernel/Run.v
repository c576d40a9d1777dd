(** Running a plan: a machine with private memory for each tensor, a machine with arenas in one memory, and the theorem
    that they do the same.

    Each machine runs a program alone. It decides by its registers what it does next, and so by all that it has loaded.
    The machine with arenas uses addresses and nothing else. The law of a program is asked of the run in private memory
    only. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Safe.
Import ListNotations.
Open Scope Z_scope.

Section Run.
Variable V : Type.                                  (* the content of a byte *)
Variable p : plan.

Definition private := Z -> Z -> V.                  (* tensor, byte number: each tensor has private memory *)

(** A store of some bytes of a result. [chosen] selects the bytes and [value] gives their contents: a function of the
    memory that it receives. *)
Record store := Store { result : Z; chosen : Z -> bool; value : private -> Z -> V }.

(** The two memories are the same for step [n]: they have the same bytes [d] in the tensors that it accesses. *)
Definition SameFor (n : Z) (d : Z -> Z -> Prop) (u v : private) : Prop :=
  forall i x, touches p n i -> inside p i x -> d i x -> u i x = v i x.

(** Step [n] may make the store, if bytes [d] are defined: it writes the result, the bytes are the result's, and the
    value depends only on defined bytes of the tensors that the step accesses. *)
Definition allowed (n : Z) (d : Z -> Z -> Prop) (w : store) : Prop :=
  is_step p n /\ step_writes p n (result w) /\ ~ is_view p (result w) /\
  (forall x, chosen w x = true -> inside p (result w) x) /\
  (forall u v, SameFor n d u v -> forall x, chosen w x = true -> value w u x = value w v x).

(** The stored bytes are defined from then on. The bytes that an in-place result is stored over are not. A kernel that
    works in place must satisfy only this: it does not load a byte of the operand again after it has stored the result's
    byte of the same number. A plan states an operand only if the result is over it. The leave of an exclusive node must
    satisfy this of what it takes from a branch, whether or not the two share bytes. *)
Definition defined_after (d : Z -> Z -> Prop) (w : store) (i x : Z) : Prop :=
  i = result w /\ chosen w x = true \/
  d i x /\ ~ (Replaces p (result w) i /\ i <> result w /\ chosen w x = true).

(** * Private memory *)

(** The step that runs, the bytes of the tensors that have a defined value, and private memory. No machine looks at
    [defined]: it says which bytes a program may load. *)
Record state := State { now : Z; defined : Z -> Z -> Prop; own : private }.

Definition store_own (w : store) (u : private) : private := fun i x =>
  if (i =? result w) && chosen w x then value w u x else u i x.
Definition stored (s : state) (w : store) : state :=
  State (now s) (defined_after (defined s) w) (store_own w (own s)).

(** A view is made: private memory gets a copy of the bytes that it shows. *)
Definition shown (s : state) (v : Z) : state :=
  let t := tensor_at p v in
  State (now s)
    (fun i x => i = v /\ inside p v x /\ defined s (base t) (shift t + x) \/ i <> v /\ defined s i x)
    (fun i x => if i =? v then own s (base t) (shift t + x) else own s i x).

(** Control goes on to a later step. *)
Definition moved (s : state) (n : Z) : state := State n (defined s) (own s).
(** The caller or a step up to [e] writes tensor [i]. *)
Definition MadeBy (e i : Z) : Prop :=
  writer (tensor_at p i) = -1 \/ exists z, 0 <= z <= e /\ In i (writes p z).
(** Control goes back to the enter of a loop. The tensors that its steps are to make have no value any more. *)
Definition begun_again (s : state) (e : Z) : state :=
  State e (fun i x => defined s i x /\ MadeBy e i) (own s).

(** Before step 0 the caller has written its tensors, and nothing else is defined. *)
Definition begins (s : state) : Prop := now s = -1 /\ forall i x, defined s i x ->
  is_tensor p i /\ inside p i x /\ writer (tensor_at p i) = -1.

(** Tensor [i] is or will be read: by this step or a later one, or by the caller after the last step. *)
Definition still_read (s : state) (i : Z) : Prop :=
  (exists n, now s <= n /\ is_step p n /\ touches p n i) \/ returned (tensor_at p i) = true.

(** * The two machines *)

Section Machines.
Variable R : Type.                                  (* what the registers hold *)

(** The next action of a machine, with the registers that it has then. A load fills them from memory. *)
Inductive action :=
  | Load (f : private -> R) | Put (w : store) (r : R) | Show (v : Z) (r : R)
  | Go (n : Z) (r : R) | Back (e : Z) (r : R) | Stop.
(** A program, whatever it is: its next action is a function of the step and the registers. *)
Variable code : Z -> R -> action.

Record private_machine := Private { at_state :> state; registers : R }.

Definition private_step (s : private_machine) : private_machine :=
  match code (now s) (registers s) with
  | Load f => Private s (f (own s))
  | Put w r => Private (stored s w) r
  | Show v r => Private (shown s v) r
  | Go n r => Private (moved s n) r
  | Back e r => Private (begun_again s e) r
  | Stop => s
  end.

(** The law of the program, in private memory. It loads and stores what its step may, in any order and a few bytes at
    a time. Control may leave out steps, but never goes from a branch to one that excludes it. It may go back from a
    loop's leave to its enter. *)
Definition lawful (s : private_machine) : Prop :=
  match code (now s) (registers s) with
  | Load f => is_step p (now s) /\ forall u v, SameFor (now s) (defined s) u v -> f u = f v
  | Put w _ => allowed (now s) (defined s) w
  | Show v _ => is_step p (now s) /\ is_tensor p v /\ is_view p v /\ step_writes p (now s) v
  | Go n _ => now s <= n /\ is_step p n /\ ~ Siblings p (now s) n
  | Back e _ => In (e, now s) (loops p)
  | Stop => True
  end.

(** One memory, in which arena [a] begins at [start a]. *)
Variable start : Z -> Z.
Definition flat_address (i : Z) : Z := start (tensor_arena p i) + address_of p i.
(** The content of the memory at the place that the plan gives byte [x] of tensor [i]. *)
Definition found (m : Z -> V) : private := fun i x => m (flat_address i + x).
Definition store_flat (w : store) (m : Z -> V) : Z -> V := fun y =>
  let x := y - flat_address (result w) in if chosen w x then value w (found m) x else m y.

Record arena_machine := Arenas { at_step : Z; content : Z -> V; registers_ : R }.

(** A view is in its base's bytes, so that nothing is done to make it. *)
Definition arena_step (s : arena_machine) : arena_machine :=
  match code (at_step s) (registers_ s) with
  | Load f => Arenas (at_step s) (content s) (f (found (content s)))
  | Put w r => Arenas (at_step s) (store_flat w (content s)) r
  | Show _ r => Arenas (at_step s) (content s) r
  | Go n r | Back n r => Arenas n (content s) r
  | Stop => s
  end.

(** The memory and private memory have the same defined bytes of tensor [i]. *)
Definition agree (m : Z -> V) (s : state) (i : Z) : Prop := forall x, defined s i x -> found m i x = own s i x.
End Machines.

(** No storage of an arena has a byte of memory that a storage of another arena has. *)
Definition ArenasApart (start : Z -> Z) : Prop := forall k l x y, is_storage p k -> is_storage p l ->
  arena_of p k <> arena_of p l -> has_byte p k x -> has_byte p l y ->
  start (arena_of p k) + x <> start (arena_of p l) + y.

(** The theorem. Both machines begin with the same values in the caller's tensors and with the same registers, and the
    program keeps to its law in private memory. Then after any number of actions both are at the same step, have the
    same registers, and all tensors that are still read have the same bytes. *)
Definition RunsAsPrivate : Prop := forall (R : Type) (code : Z -> R -> action R) start s m r k,
  ArenasApart start -> begins s -> (forall i, agree start m s i) ->
  (forall j, (j < k)%nat -> lawful R code (Nat.iter j (private_step R code) (Private R s r))) ->
  let t := Nat.iter k (private_step R code) (Private R s r) in
  let f := Nat.iter k (arena_step R code start) (Arenas R (now s) m r) in
  at_step R f = now t /\ registers_ R f = registers R t /\ forall i, still_read t i -> agree start (content R f) t i.

(** The caller may give its tensors any values, as long as its views show the bytes of their bases: a memory exists that
    has them. *)
Definition CallersCanBegin : Prop := forall start s, ArenasApart start -> begins s ->
  (forall v x, is_tensor p v -> is_view p v -> writer (tensor_at p v) = -1 -> inside p v x ->
     own s v x = own s (base (tensor_at p v)) (shift (tensor_at p v) + x)) ->
  exists m, forall i, agree start m s i.

(** * Reads find values

    A run that completes each step, and takes steps in order, finds a value in whatever was written on its way. *)

(** A loop that control may pass without an iteration: no step outside of its body makes a view of what the body
    writes. *)
Definition Passable (e n : Z) : Prop := In (e, n) (loops p) /\ forall z k v, e < z < n -> ~ e < k < n ->
  In v (writes p k) -> is_view p v -> ~ In (base (tensor_at p v)) (writes p z).

(** Control comes from step [m], or from the caller, to the next step [n]: to the step behind, through one branch of an
    exclusive node, which may have no step, or from a loop's enter to its leave, if it has no iteration. *)
Definition Goes (m n : Z) : Prop := is_step p n /\ m < n /\ ~ Siblings p m n /\
  (n = m + 1 \/ Passable m n \/ exists x a, is_arm p x a /\
    (m = enter_of p x /\ n = fst a /\ fst a <= snd a \/
     m = snd a /\ n = leave_of p x /\ fst a <= snd a \/
     m = enter_of p x /\ n = leave_of p x /\ snd a < fst a)).

(** Control that keeps to the steps of [way] has come from step [m] to step [n], and has run the steps of the list
    before. Those of earlier iterations are not in the list. *)
Inductive Path (way : Z -> Prop) : list Z -> Z -> Z -> Prop :=
  | from_caller : forall n, Goes (-1) n -> way n -> Path way [] (-1) n
  | onward : forall l k m n, Path way l k m -> Goes m n -> way n -> Path way (m :: l) m n
  | again : forall l k m e, Path way l k m -> In (e, m) (loops p) -> In e l -> way e ->
      Path way (filter (fun z => z <? e) l) m e.

(** Whatever the kernel of a step does. *)
Inductive acts : state -> state -> Prop :=
  | idle : forall s, acts s s
  | stores : forall s t w, acts s t -> allowed (now t) (defined t) w -> acts s (stored t w)
  | views : forall s t v, acts s t -> is_step p (now t) -> is_tensor p v -> is_view p v -> step_writes p (now t) v ->
      acts s (shown t v).

Definition done (s : state) : Prop := forall w x, is_step p (now s) -> In w (writes p (now s)) -> inside p w x ->
  defined s w x.

(** The caller has written all of its tensors. *)
Definition given (s : state) : Prop := begins s /\
  forall i x, is_tensor p i -> inside p i x -> writer (tensor_at p i) = -1 -> defined s i x.

(** A step is about to begin, and all steps that control has passed were completed. *)
Inductive in_full : list Z -> Z -> state -> Prop :=
  | full_first : forall s n, given s -> Goes (-1) n -> in_full [] (-1) (moved s n)
  | full_onward : forall l m s t n, in_full l m s -> acts s t -> done t -> Goes (now s) n ->
      in_full (now s :: l) (now s) (moved t n)
  | full_again : forall l m s t e, in_full l m s -> acts s t -> done t -> In (e, now s) (loops p) -> In e l ->
      in_full (filter (fun z => z <? e) l) (now s) (begun_again t e).

(** The bytes that a step finds in a tensor that it accesses, if the steps of [l] have run and control comes from step [m]: the
    values of the caller and of those steps, also the values that a loop carries to its leave; and at the enter of a loop that
    begins again, the values that its leave has stored there for this iteration. *)
Definition Readable (l : list Z) (m n r x : Z) : Prop := touches p n r /\ inside p r x /\
  (writer (tensor_at p r) = -1 \/ (exists z, In z l /\ In r (writes p z)) \/ In (n, m) (loops p) /\ In r (writes p n)).

(** Control has passed a loop without an iteration, and a step of that loop writes tensor [r]. *)
Definition Skipped (l : list Z) (n r : Z) : Prop := exists e f z, Passable e f /\ In e l /\ f <= n /\
  (forall k, In k l -> ~ e < k < f) /\ e < z < f /\ In r (writes p z).
(** A step of [l] has written tensor [r], or control has passed the loop that does. *)
Definition Met (l : list Z) (n r : Z) : Prop := (exists z, In z l /\ In r (writes p z)) \/ Skipped l n r.

(** A step finds values, and so does the caller after the last step. On every path there is a value of whatever the plan
    states as written before, and of the results of the branch that ran; unless control has passed the loop that makes
    it without an iteration. *)
Definition ReadsFindValues : Prop :=
  (forall l m s r x, in_full l m s -> Readable l m (now s) r x -> defined s r x) /\
  (forall l m s t r x, in_full l m s -> acts s t -> done t -> now s = last_step p -> is_tensor p r ->
     returned (tensor_at p r) = true -> inside p r x ->
     writer (tensor_at p r) = -1 \/ (exists z, In z (now s :: l) /\ In r (writes p z)) -> defined t r x) /\
  (forall way l m n r, Path way l m n -> WrittenBefore p r n -> Met l n r) /\
  (forall way l m y a z r, Path way l m (leave_of p y) -> is_arm p y a -> in_arm a m -> Directly p a z ->
     In r (writes p z) -> Met l (leave_of p y) r) /\
  (forall way l m r, Path way l m (last_step p) -> is_tensor p r -> returned (tensor_at p r) = true ->
     writer (tensor_at p r) = -1 \/ Met (last_step p :: l) (last_step p) r).

(** * Programs run. spec: V6.8

    A program has for each step the instructions of its kernel. It may choose them by the step that control comes from
    and by the steps that have run. The number of iterations of loops is left open; there may be none. *)

Section Programs.
Variable R : Type.

(** A kernel loads into registers, and stores bytes that depend on registers and memory. *)
Inductive instruction :=
  | load (f : private -> R -> R)
  | put (w : Z) (selected : Z -> bool) (content_ : R -> private -> Z -> V).
Definition program := list Z -> Z -> Z -> list instruction.

(** These instructions are a kernel of step [n] to which bytes [d] are known: whatever the registers hold, each is
    allowed when its turn comes, and together they make all bytes of its results. *)
Inductive Kernel (n : Z) : (Z -> Z -> Prop) -> list instruction -> Prop :=
  | whole : forall d : Z -> Z -> Prop,
      (forall w x, In w (writes p n) -> ~ is_view p w -> inside p w x -> d w x) -> Kernel n d []
  | then_load : forall (d : Z -> Z -> Prop) f l, (forall r u v, SameFor n d u v -> f u r = f v r) ->
      Kernel n d l -> Kernel n d (load f :: l)
  | then_put : forall (d : Z -> Z -> Prop) w c f l, (forall r, allowed n d (Store w c (f r))) ->
      (forall r, Kernel n (defined_after d (Store w c (f r))) l) -> Kernel n d (put w c f :: l).

(** A program whose kernels depend only on the bytes that exist on each path. This is a property of the plan and not of a run,
    so that it covers a kernel that uses everything that its step reads. *)
Definition Local (way : Z -> Prop) (f : program) : Prop := forall l m n, Path way l m n ->
  Kernel n (Readable l m n) (f l m n).

(** A step makes its views, and carries out exactly these instructions, in this order. *)
Inductive performs : list instruction -> private_machine R -> private_machine R -> Prop :=
  | performed : forall s, performs [] s s
  | makes_view : forall l (s : private_machine R) v t, is_step p (now s) -> is_tensor p v -> is_view p v ->
      step_writes p (now s) v -> performs l (Private R (shown s v) (registers R s)) t -> performs l s t
  | loads : forall f l (s : private_machine R) t,
      (forall u v, SameFor (now s) (defined s) u v -> f u (registers R s) = f v (registers R s)) -> is_step p (now s) ->
      performs l (Private R s (f (own s) (registers R s))) t -> performs (load f :: l) s t
  | puts : forall w c f l (s : private_machine R) t, allowed (now s) (defined s) (Store w c (f (registers R s))) ->
      performs l (Private R (stored s (Store w c (f (registers R s)))) (registers R s)) t ->
      performs (put w c f :: l) s t.

(** [f] has run from [s0], each step whole, and has come from step [m] to a step of [way], which is about to begin. *)
Inductive runs (way : Z -> Prop) (f : program) (s0 : private_machine R) : list Z -> Z -> private_machine R -> Prop :=
  | run_first : forall n, given s0 -> Goes (-1) n -> way n ->
      runs way f s0 [] (-1) (Private R (moved s0 n) (registers R s0))
  | run_onward : forall l m s t n, runs way f s0 l m s -> performs (f l m (now s)) s t -> done t -> Goes (now s) n ->
      way n -> runs way f s0 (now s :: l) (now s) (Private R (moved t n) (registers R t))
  | run_again : forall l m s t e, runs way f s0 l m s -> performs (f l m (now s)) s t -> done t ->
      In (e, now s) (loops p) -> In e l -> way e ->
      runs way f s0 (filter (fun z => z <? e) l) (now s) (Private R (begun_again t e) (registers R t)).
End Programs.

(** A machine comes from the one state to the other by a program that keeps to its law. *)
Definition Reaches (s t : state) : Prop := exists (R : Type) (code : Z -> R -> action R) r r' k,
  Nat.iter k (private_step R code) (Private R s r) = Private R t r' /\
  forall j, (j < k)%nat -> lawful R code (Nat.iter j (private_step R code) (Private R s r)).

(** A choice of one branch of each exclusive node, and the steps that control then passes. *)
Definition Choice (c : Z -> Z * Z) : Prop := forall x, is_exclusive p x -> is_arm p x (c x).
Definition Chosen (c : Z -> Z * Z) (n : Z) : Prop := is_step p n /\ forall x a, is_arm p x a -> in_arm a n -> a = c x.

(** A local program never comes to a step without the bytes that it reads: the step carries out the program's
    instructions, and completes. For every choice of branches, the program comes to each step of that choice and passes
    no other. All of this is among the runs that [RunsAsPrivate] is about. *)
Definition Progress : Prop :=
  (forall R way f s0 l m s, Local R way f -> runs R way f s0 l m s ->
     exists t, performs R (f l m (now s)) s t /\ done t) /\
  (forall R c f s0 n, Choice c -> Local R (Chosen c) f -> given (at_state R s0) -> Chosen c n ->
     exists l m s, runs R (Chosen c) f s0 l m s /\ now s = n) /\
  (forall R way f s0 l m s t, runs R way f s0 l m s -> performs R (f l m (now s)) s t -> Reaches s0 t).

(** The same for programs that are given as functions: result [w] of step [n] is this function of private memory. The
    kernel loads the values of all results into registers, of which those that nothing has loaded hold [zero], and then
    stores them. *)
Definition functions := list Z -> Z -> Z -> Z -> private -> Z -> V.
Definition results (n : Z) : list Z := nodup Z.eq_dec (filter (fun w => base (tensor_at p w) =? -1) (writes p n)).
Definition whole_result (w x : Z) : bool := (0 <=? x) && (x <? bytes (tensor_at p w)).
Definition load_all (g : Z -> private -> Z -> V) (ws : list Z) (u : private) : list (Z * list V) :=
  map (fun w => (w, map (fun x => g w u (Z.of_nat x)) (seq 0 (Z.to_nat (bytes (tensor_at p w)))))) ws.
Definition register (zero : V) (r : list (Z * list V)) (w x : Z) : V :=
  match find (fun b => fst b =? w) r with Some b => nth (Z.to_nat x) (snd b) zero | None => zero end.
Definition kernels_of (zero : V) (g : functions) : program (list (Z * list V)) := fun l m n =>
  load _ (fun u _ => load_all (g l m n) (results n) u) ::
  map (fun w => put _ w (whole_result w) (fun r _ x => register zero r w x)) (results n).

(** Results may depend on all that the step finds, also on operands whose place other results of the step take. *)
Definition LocalFunctions (way : Z -> Prop) (g : functions) : Prop := forall l m n w, Path way l m n ->
  In w (writes p n) -> ~ is_view p w -> forall u v, (forall i x, Readable l m n i x -> u i x = v i x) ->
  forall x, inside p w x -> g l m n w u x = g l m n w v x.

(** Each step of each choice is reached, and then every result holds its function of the memory that the step found. *)
Definition FunctionsAreComputed : Prop := forall zero c g s0 n, Choice c -> LocalFunctions (Chosen c) g ->
  given (at_state _ s0) -> Chosen c n -> exists l m s t, runs _ (Chosen c) (kernels_of zero g) s0 l m s /\ now s = n /\
    performs _ (kernels_of zero g l m n) s t /\ done t /\
    forall w x, In w (writes p n) -> ~ is_view p w -> inside p w x -> own t w x = g l m n w (own s) x.
End Run.
