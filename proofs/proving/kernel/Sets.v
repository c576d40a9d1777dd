(** Plan sets: programs that run in turn over one memory. First the set and its decision, which is evaluated, then what
    it means that all sequences of calls behave as in private memory. spec: V6.24

    A program finds what is kept between calls in tensors of its plan, and leaves it in such tensors. Everything else
    that it writes is on other bytes. Programs, tensors and kept tensors are identified by their rows. *)
From Coq Require Import ZArith List Bool FMapPositive.
From Tmmu Require Import Lists Columns Check Safe Run.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** What is kept between calls: a shared or persistent tensor, at one place in all programs. *)
Record kept := Kept {
  kept_arena : Z;                        (* among the arenas of the set *)
  kept_address : Z; kept_bytes : Z;
  initial : bool;                        (* the caller has written it before the first call *)
  left_first : Z                         (* evidence: a program that leaves it, and can be called before it is found *)
}.

(** The tensors of one program that have the value of a kept tensor. *)
Record ends := Ends {
  entry : Z;                             (* the tensor that has it when a call begins; -1: none does *)
  exit : Z;                              (* the tensor that has it when a call ends; -1: it stays as it was *)
  beyond : Z                             (* evidence: a later row before which each kept tensor has an exit *)
}.
Definition no_ends : ends := Ends (-1) (-1) 0.

Record plan_set := PlanSet {
  programs : Z;
  plan_at : Z -> plan;
  set_arena : Z -> Z -> Z;               (* the arena of the set that an arena of a program's plan is *)
  keeps : Z;                             (* how many tensors are kept *)
  kept_at : Z -> kept;
  uses : Z -> PositiveMap.t ends;         (* of a program, by kept tensors; the first is at 1 *)
  (* evidence, which is checked: *)
  rank : Z -> Z;                         (* the first calls of programs can be in this order *)
  plan_arena : Z -> Z -> Z;              (* the arena of a program's plan that an arena of the set is *)
  kept_below : Z -> Z -> Z               (* how many kept tensors end below the first byte of a program's tensor *)
}.

Section Sets.
Variable s : plan_set.

Definition ends_of (c k : Z) : ends :=
  if k <? 0 then no_ends
  else match PositiveMap.find (Z.to_pos (k + 1)) (uses s c) with Some u => u | None => no_ends end.
Definition found_as (c k : Z) : Z := entry (ends_of c k).
Definition left_as (c k : Z) : Z := exit (ends_of c k).

(** * The functions that are evaluated *)

Section Program.
Variable c : Z.

(** Tensor [i] of the plan is where tensor [k] is kept. *)
Definition at_place (p : plan) (k i : Z) : bool :=
  let t := tensor_at p i in
  let h := kept_at s k in
  row i (tensors p) &&& (set_arena s c (s_arena (storage_at p (home t))) =? kept_arena h) &&&
  (address p t =? kept_address h) &&& (bytes t =? kept_bytes h).
(** A program finds a kept tensor as a tensor of the caller that is no view, and leaves it as one that the caller reads
    after the last step. The rows before the one that [beyond] states have exits. *)
Definition ends_ok (p : plan) (k : Z) (u : ends) : bool :=
  row k (keeps s) &&&
  ((entry u =? -1) ||| (at_place p k (entry u) &&& (writer (tensor_at p (entry u)) =? -1) &&&
                        (base (tensor_at p (entry u)) =? -1))) &&&
  ((exit u =? -1) |||
   (at_place p k (exit u) &&& returned (tensor_at p (exit u)) &&&
    ((beyond u =? k + 1) |||
     (negb (left_as c (k + 1) =? -1) &&& (beyond u =? beyond (ends_of c (k + 1))))))).
Definition all_ends_ok (p : plan) : bool :=
  forallb (fun e => ends_ok p (Zpos (fst e) - 1) (snd e)) (PositiveMap.elements (uses s c)).

(** The first kept tensor from [k] on that has no exit, or one before it. *)
Definition next_without_exit (k : Z) : Z := if left_as c k =? -1 then k else beyond (ends_of c k).
(** Kept tensor [k] ends below an address, or begins at or beyond it. *)
Definition kept_ends (k arena_ address_ : Z) : bool :=
  let h := kept_at s k in
  (kept_arena h <? arena_) ||| ((kept_arena h =? arena_) &&& (kept_address h + kept_bytes h <=? address_)).
Definition kept_begins (k arena_ stop : Z) : bool :=
  let h := kept_at s k in
  (arena_ <? kept_arena h) ||| ((arena_ =? kept_arena h) &&& (stop <=? kept_address h)).
(** Tensor [i] has no byte in common with a kept tensor that has no exit, unless it is the entry. *)
Definition spares (p : plan) (i : Z) : bool :=
  let t := tensor_at p i in
  let a := set_arena s c (s_arena (storage_at p (home t))) in
  let from := kept_below s c i in
  let next := next_without_exit from in
  negb (base t =? -1) ||| (bytes t =? 0) |||
  ((0 <=? from) &&& (from <=? keeps s) &&& ((from =? 0) ||| kept_ends (from - 1) a (address p t)) &&&
   ((keeps s <=? next) |||
    ((0 <=? next) &&& (kept_begins next a (address p t + bytes t) ||| (found_as c next =? i))))).
(** No step writes an entry without an exit. *)
Definition spared_by (p : plan) (n : Z) : bool :=
  forallb (fun w => let next := next_without_exit (kept_below s c w) in
    (bytes (tensor_at p w) =? 0) ||| negb (found_as c next =? w) ||| negb (left_as c next =? -1)) (writes p n).

(** What the program finds at its first call is initial, or left by a program whose first call is earlier. *)
Definition is_ready (k : Z) (u : ends) : bool :=
  (entry u =? -1) ||| initial (kept_at s k) |||
  (let d := left_first (kept_at s k) in
   row d (programs s) &&& negb (left_as d k =? -1) &&& (0 <=? rank s d) &&& (rank s d <? rank s c)).
Definition ready_once : bool :=
  forallb (fun e => is_ready (Zpos (fst e) - 1) (snd e)) (PositiveMap.elements (uses s c)).

(** Two arenas of a plan are two arenas of the set. *)
Definition arena_ok (a : Z) : bool := plan_arena s c (set_arena s c a) =? a.

(** The number of the part that fails, for messages; 0 if none does. *)
Definition failing_of_program : Z :=
  let p := plan_at s c in
  if negb (every (arenas p) arena_ok) then 1 else if negb (all_ends_ok p) then 2
  else if negb (every (tensors p) (spares p)) then 3 else if negb (every (steps p) (spared_by p)) then 4
  else if negb ready_once then 5 else 0.
End Program.

(** Kept tensors follow one another, in each arena by their addresses. *)
Definition kept_ok (k : Z) : bool :=
  let h := kept_at s k in
  (0 <=? kept_bytes h) &&& ((k =? 0) ||| kept_ends (k - 1) (kept_arena h) (kept_address h)).

Definition set_ok : bool :=
  every (keeps s) kept_ok &&& every (programs s) (fun c => failing_of_program c =? 0).
Definition accepts_set : bool := every (programs s) (fun c => check (plan_at s c)) &&& set_ok.

(** * Calls in private memory *)

Definition is_program (c : Z) : Prop := 0 <= c < programs s.
Definition is_kept (k : Z) : Prop := 0 <= k < keeps s.
Definition kept_byte (k x : Z) : Prop := is_kept k /\ 0 <= x < kept_bytes (kept_at s k).
(** The program finds a kept tensor in tensor [i] of its plan. *)
Definition carried (c i : Z) : Prop := exists k, is_kept k /\ found_as c k = i.
(** The caller may write tensor [i] before a call. It does not write views, which show what is written there. *)
Definition is_given (c i : Z) : Prop := let p := plan_at s c in
  is_tensor p i /\ writer (tensor_at p i) = -1 /\ ~ is_view p i /\ ~ carried c i.

Section Calls.
Variable V : Type.                                  (* the content of a byte *)

(** Between calls each kept tensor has its value, by its name and not at a place; bytes that nothing has written have
    none. *)
Record world := World { known : Z -> Z -> Prop; held : Z -> Z -> V }.

(** A call: the program, the bytes that the caller writes before and their values, a program for its steps, and the
    number of actions that it takes. Between two calls the caller may also write bytes of a kept tensor. *)
Record call := Call {
  calls : Z;
  gives : Z -> Z -> bool; given_value : Z -> Z -> V;
  registers_are : Type; code_of : Z -> registers_are -> action V registers_are; first_registers : registers_are;
  actions : nat
}.
Inductive event := Runs (a : call) | Writes (k : Z) (which : Z -> bool) (value_ : Z -> V).
Definition plan_of_call (a : call) : plan := plan_at s (calls a).
Definition proper (a : call) : Prop := is_program (calls a) /\
  forall i x, gives a i x = true -> is_given (calls a) i /\ inside (plan_of_call a) i x.

(** The bytes that a call finds: of kept tensors, of what the caller gives, and of views of those. *)
Inductive finds (w : world) (a : call) (t : state V) : Z -> Z -> Prop :=
  | from_before : forall k x, kept_byte k x -> found_as (calls a) k <> -1 -> known w k x ->
      own V t (found_as (calls a) k) x = held w k x -> finds w a t (found_as (calls a) k) x
  | from_caller_ : forall i x, gives a i x = true -> own V t i x = given_value a i x -> finds w a t i x
  | by_view : forall v x, let b := tensor_at (plan_of_call a) v in
      is_tensor (plan_of_call a) v -> is_view (plan_of_call a) v -> writer b = -1 -> inside (plan_of_call a) v x ->
      own V t v x = own V t (base b) (shift b + x) -> finds w a t (base b) (shift b + x) -> finds w a t v x.
Definition call_begins (w : world) (a : call) (t : state V) : Prop :=
  now V t = -1 /\ forall i x, defined V t i x -> finds w a t i x.

(** The call runs alone in private memory, by its law. *)
Definition private_end (a : call) (t : state V) : private_machine V (registers_are a) :=
  Nat.iter (actions a) (private_step V (plan_of_call a) _ (code_of a)) (Private V _ t (first_registers a)).
Definition obeys (a : call) (t : state V) : Prop := forall j, (j < actions a)%nat ->
  lawful V (plan_of_call a) _ (code_of a)
    (Nat.iter j (private_step V (plan_of_call a) _ (code_of a)) (Private V _ t (first_registers a))).

(** After a call, wherever it has stopped, kept tensors have the values that it left. Those without an exit have their
    values from before. *)
Definition after (w : world) (a : call) (t : state V) : world := World
  (fun k x => if left_as (calls a) k =? -1 then known w k x
              else kept_byte k x /\ defined V t (left_as (calls a) k) x)
  (fun k x => if left_as (calls a) k =? -1 then held w k x else own V t (left_as (calls a) k) x).

Definition rewritten (w : world) (k : Z) (which : Z -> bool) (value_ : Z -> V) : world := World
  (fun l x => known w l x \/ l = k /\ which x = true)
  (fun l x => if (l =? k) && which x then value_ x else held w l x).

(** Events in turn, the last one first in the list, lead from one world to another. *)
Inductive in_turn (w : world) : list event -> world -> Prop :=
  | no_event : in_turn w [] w
  | one_call : forall l v a t, in_turn w l v -> proper a -> call_begins v a t -> obeys a t ->
      in_turn w (Runs a :: l) (after v a (private_end a t))
  | one_writing : forall l v k which value_, in_turn w l v -> (forall x, which x = true -> kept_byte k x) ->
      in_turn w (Writes k which value_ :: l) (rewritten v k which value_).

(** * Calls in one memory *)

Variable start : Z -> Z.                            (* where an arena of the set begins *)
Definition start_in (c : Z) : Z -> Z := fun a => start (set_arena s c a).

(** The caller writes what it gives to the places of the plan. The rest of the memory is as the last call left it. *)
Definition with_given (a : call) (m : Z -> V) : Z -> V := fun y =>
  let at_ := fun i => y - flat_address (plan_of_call a) (start_in (calls a)) i in
  match find (fun i => gives a i (at_ i)) (run 0 (tensors (plan_of_call a))) with
  | Some i => given_value a i (at_ i) | None => m y
  end.
Definition arena_end (a : call) (m : Z -> V) : arena_machine V (registers_are a) :=
  Nat.iter (actions a) (arena_step V (plan_of_call a) _ (code_of a) (start_in (calls a)))
    (Arenas V _ (-1) (with_given a m) (first_registers a)).
Definition kept_at_byte (k : Z) : Z := start (kept_arena (kept_at s k)) + kept_address (kept_at s k).
Definition write_kept (k : Z) (which : Z -> bool) (value_ : Z -> V) (m : Z -> V) : Z -> V := fun y =>
  if which (y - kept_at_byte k) then value_ (y - kept_at_byte k) else m y.
Fixpoint memory_after (m : Z -> V) (l : list event) : Z -> V :=
  match l with
  | [] => m
  | Runs a :: l' => content V _ (arena_end a (memory_after m l'))
  | Writes k which value_ :: l' => write_kept k which value_ (memory_after m l')
  end.

(** The memory has the kept tensors at their places. *)
Definition holds (m : Z -> V) (w : world) : Prop := forall k x, kept_byte k x -> known w k x ->
  m (kept_at_byte k + x) = held w k x.
End Calls.

(** The bytes of the set's arenas that programs or kept tensors have. *)
Inductive serves : Z -> Z -> Prop :=
  | some_storage : forall c k y, is_program c -> is_storage (plan_at s c) k -> has_byte (plan_at s c) k y ->
      serves (set_arena s c (arena_of (plan_at s c) k)) y
  | some_kept : forall k x, kept_byte k x -> serves (kept_arena (kept_at s k)) (kept_address (kept_at s k) + x).
(** No byte of memory serves two arenas of the set. *)
Definition SetArenasApart (start : Z -> Z) : Prop := forall a b y z, serves a y -> serves b z -> a <> b ->
  start a + y <> start b + z.

(** The theorem. After any events in turn, a call does in the memory what it does in private memory: after any number
    of its actions both are at the same step, have the same registers, and all tensors that are still read have the same
    bytes. Every kept tensor then has the same bytes in both, also those that the program does not have. *)
Definition RunsInTurnAsPrivate (V : Type) : Prop := forall start m w l v a t, SetArenasApart start ->
  holds V start m w -> in_turn V w l v -> proper V a -> call_begins V v a t -> obeys V a t ->
  let u := private_end V a t in
  let f := arena_end V start a (memory_after V start m l) in
  at_step V _ f = now V u /\ registers_ V _ f = registers V _ u /\
  (forall i, still_read V (plan_of_call V a) u i ->
     agree V (plan_of_call V a) (start_in start (calls V a)) (content V _ f) u i) /\
  holds V start (content V _ f) (after V v a u).

(** A weight, which no program leaves, has its first value after any events in which the caller does not write it. *)
Definition WeightsStay (V : Type) : Prop := forall w l v k, in_turn V w l v -> (forall c, left_as c k = -1) ->
  (forall l_ which value_, In (Writes V l_ which value_) l -> l_ <> k) ->
  forall x, (known V v k x <-> known V w k x) /\ held V v k x = held V w k x.

(** * What is found was written *)

(** The world before the first call has what is initial. *)
Definition at_first (V : Type) (w : world V) : Prop := forall k x, kept_byte k x -> initial (kept_at s k) = true ->
  known V w k x.
(** A call that has written whole what it leaves. *)
Definition leaves_whole (V : Type) (a : call V) (t : state V) : Prop := forall k x, kept_byte k x ->
  left_as (calls V a) k <> -1 -> defined V t (left_as (calls V a) k) x.
Inductive whole_in_turn (V : Type) (w : world V) : list (event V) -> world V -> Prop :=
  | no_whole_call : whole_in_turn V w [] w
  | one_whole_call : forall l v a t, whole_in_turn V w l v -> proper V a -> call_begins V v a t -> obeys V a t ->
      leaves_whole V a (private_end V a t) -> whole_in_turn V w (Runs V a :: l) (after V v a (private_end V a t))
  | one_whole_writing : forall l v k which value_, whole_in_turn V w l v ->
      (forall x, which x = true -> kept_byte k x) ->
      whole_in_turn V w (Writes V k which value_ :: l) (rewritten V v k which value_).
Definition programs_of (V : Type) (l : list (event V)) : list Z :=
  flat_map (fun e => match e with Runs _ a => [calls V a] | Writes _ _ _ _ => [] end) l.

(** Of these calls of programs, the last one first, each finds only what is initial or what an earlier one leaves. *)
Fixpoint in_order (l : list Z) : Prop :=
  match l with
  | [] => True
  | c :: l' => is_program c /\ in_order l' /\ forall k, is_kept k -> found_as c k <> -1 ->
      initial (kept_at s k) = true \/ exists d, In d l' /\ left_as d k <> -1
  end.

(** No call finds what nothing has written: calls in order begin with all bytes of what they find and of what the caller
    gives, so that what is proved of the reads of one run holds of theirs. *)
Definition CallsFindValues (V : Type) : Prop := forall w l v a, at_first V w -> whole_in_turn V w l v -> proper V a ->
  in_order (calls V a :: programs_of V l) ->
  (forall i x, is_given (calls V a) i -> inside (plan_of_call V a) i x -> gives V a i x = true) ->
  exists t, call_begins V v a t /\ given V (plan_of_call V a) t.

(** Every program can be called, after some others. *)
Definition EveryProgramHasItsTurn : Prop := forall c, is_program c -> exists l, in_order (c :: l).

(** A run that completes each step, up to the last, leaves whole what it leaves, except what a loop was to write that
    had no iteration. *)
Definition WholeRunsLeaveAll (V : Type) : Prop := forall c k x l m t u, is_program c -> kept_byte k x ->
  left_as c k <> -1 -> in_full V (plan_at s c) l m t -> acts V (plan_at s c) t u -> done V (plan_at s c) u ->
  now V t = last_step (plan_at s c) ->
  defined V u (left_as c k) x \/ Skipped (plan_at s c) (now V t :: l) (now V t) (left_as c k).

Definition RunInTurn (V : Type) : Prop :=
  RunsInTurnAsPrivate V /\ WeightsStay V /\ CallsFindValues V /\ WholeRunsLeaveAll V.
End Sets.
