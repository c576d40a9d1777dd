(** Examples of plan sets: one that is accepted, with calls in it, and edits of it that are refused. An edit that makes
    a definition weaker makes a proof fail, or one of these. spec: V6.9, V6.24 *)
From Coq Require Import ZArith List Bool Lia FMapPositive.
From Tmmu Require Import Lists Columns Check Safe Run Sets SetFile ListsProof Examples Table FileExamples.
Import ListNotations.
Open Scope Z_scope.

(** * A set *)

(** One arena of 4 bytes: a cache is kept at byte 0, and a weight at byte 1. Activations are at bytes 2 and 3. *)
Definition byte_at (offset_ birth_ death_ slot_ : Z) : storage := Storage 0 1 1 birth_ death_ offset_ slot_ slot_.
Definition caller_tensor (home_ : Z) (returned_ donated_ : bool) (needed_ row_ : Z) : tensor :=
  Tensor home_ 0 1 1 0 needed_ (-1) (-1) 0 (-1) returned_ donated_ false false (-1) needed_ row_ row_.
Definition result_tensor (home_ step_ operand_ : Z) (returned_ : bool) (needed_ row_ : Z) : tensor :=
  Tensor home_ 0 1 1 step_ needed_ step_ (-1) 0 operand_ returned_ false false false step_ needed_ row_ row_.

(** Tensors: the cache and an input. Step 0 writes the cache. *)
Definition fills (cache_at input_at : Z) (is_returned_ : bool) : plan :=
  small 1 4 [byte_at cache_at 0 0 0; byte_at input_at 0 0 1]
    [result_tensor 0 0 (-1) is_returned_ 0 0; caller_tensor 1 false false 0 1] [[1]] [[0]] [] (fun _ => (0, 1)).
(** Tensors: the cache as it is found, the cache as it is left, the weight, an activation. Step 0 writes the activation,
    and step 1 writes the cache over the cache. *)
Definition decodes : plan :=
  small 2 4 [byte_at 0 0 1 0; byte_at 1 0 1 1; byte_at 2 0 1 2]
    [caller_tensor 0 false true 1 0; result_tensor 0 1 0 true 1 1; caller_tensor 1 true false 1 2;
     result_tensor 2 0 (-1) false 1 3] [[0; 2]; [0; 3]] [[3]; [1]] [] (fun _ => (0, 2)).
(** The same of a program that changes the cache without making another of it: step 0 lists it as mutated. *)
Definition mutating : plan :=
  let p := small 1 4 [byte_at 0 0 0 0] [caller_tensor 0 true true 0 0] [[0]] [[0]] [] (fun _ => (0, 1)) in
  changing p (writes p).
(** A program of two arenas, in which byte 0 has its input and its output. *)
Definition crossing : plan := let p := fills 0 0 true in let m := allocation p in
  Plan (Memory 1 2 2 2 true (fun k => Storage k 1 1 0 0 0 k k) (fun k => Slot k 1 1 0 k)
    (fun _ => Arena 4 1 false 4 (-1) (-1)) (reuse m) (tenants m) (Groups (fun a => a) (fun i => i))
    (edge_at m) (ups_at m) (downs m) [])
    (tensors p) (tensor_at p) (reads p) (writes p) (mutates p) [] 0 (exclusive_at p) [] (members p) (within p) (also p)
    (joined p).

Definition all_ends (l : list (Z * ends)) : PositiveMap.t ends :=
  fold_right (fun e found => PositiveMap.add (Z.to_pos (fst e + 1)) (snd e) found) (PositiveMap.empty ends) l.
(** A set of programs, each with the ends of what it has, and what is kept; the evidence is right. *)
Definition set_with (l : list (plan * list (Z * ends))) (kept_ : list kept) (ranks : Z -> Z) : plan_set :=
  let program := rows l (crossing, []) in
  let at_ := rows kept_ (Kept 0 0 0 true (-1)) in
  {| programs := Z.of_nat (length l); plan_at := fun c => fst (program c); set_arena := fun _ a => a;
     keeps := Z.of_nat (length kept_); kept_at := at_; uses := fun c => all_ends (snd (program c)); rank := ranks;
     plan_arena := fun _ a => a;
     kept_below := fun c i => let p := fst (program c) in let t := tensor_at p i in
       Z.of_nat (length (filter (fun h => kept_address h + kept_bytes h <=? address p t) kept_)) |}.

Definition cache : kept := Kept 0 0 1 false 0.
Definition weight : kept := Kept 0 1 1 true (-1).
Definition of_filling : list (Z * ends) := [(0, Ends (-1) 0 1)].
Definition of_decoding : list (Z * ends) := [(0, Ends 0 1 1); (1, Ends 2 (-1) 0)].
Definition filling := (fills 0 2 true, of_filling).
Definition decoding := (decodes, of_decoding).
(** A program that has nothing of what is kept. *)
Definition other := (fills 2 3 true, @nil (Z * ends)).
Definition session : plan_set := set_with [filling; decoding; other] [cache; weight] (fun c => c).
Example session_is_accepted : accepts_set session = true.
Proof. vm_compute. reflexivity. Qed.

(** * Sets that are refused *)

(** The plans of these sets are accepted, and a part of the decision fails: [kept_ok], or that part of a program. *)
Definition fails_at (c part : Z) (s : plan_set) : Prop :=
  every (programs s) (fun c => check (plan_at s c)) = true /\ every (keeps s) (kept_ok s) = true /\
  failing_of_program s c = part /\ accepts_set s = false.
Ltac refused := repeat split; vm_compute; reflexivity.

Example cache_at_another_address :
  fails_at 0 2 (set_with [(fills 1 2 true, of_filling); decoding] [cache; weight] (fun c => c)).
Proof. refused. Qed.
Example cache_of_another_size : fails_at 0 2 (set_with [filling] [Kept 0 0 2 false 0] (fun c => c)).
Proof. refused. Qed.
Example cache_in_another_arena : fails_at 0 2 (set_with [filling] [Kept 1 0 1 false 0] (fun c => c)).
Proof. refused. Qed.
Example exit_that_the_caller_does_not_read :
  fails_at 0 2 (set_with [(fills 0 2 false, of_filling)] [cache] (fun c => c)).
Proof. refused. Qed.
Example entry_that_a_step_writes : fails_at 0 2 (set_with [(fills 0 2 true, [(0, Ends 0 0 1)])] [cache] (fun c => c)).
Proof. refused. Qed.
Example result_over_the_cache : fails_at 1 3 (set_with [filling; (fills 0 3 true, [])] [cache; weight] (fun c => c)).
Proof. refused. Qed.
Example input_over_the_weight : fails_at 1 3 (set_with [decoding; (fills 1 2 true, [])] [cache; weight] (fun c => c)).
Proof. refused. Qed.
Example input_over_the_cache : fails_at 0 3 (set_with [(fills 2 3 true, [])] [Kept 0 3 1 true (-1)] (fun c => c)).
Proof. refused. Qed.
Example cache_changed_without_an_exit :
  fails_at 0 3 (set_with [(decodes, [(0, Ends 0 (-1) 0)])] [Kept 0 0 1 true (-1)] (fun c => c)).
Proof. refused. Qed.
Example entry_mutated_without_an_exit :
  fails_at 0 4 (set_with [(mutating, [(0, Ends 0 (-1) 0)])] [Kept 0 0 1 true (-1)] (fun c => c)).
Proof. refused. Qed.
Example entry_mutated_is_its_exit :
  accepts_set (set_with [(mutating, [(0, Ends 0 0 1)])] [Kept 0 0 1 true (-1)] (fun c => c)) = true.
Proof. vm_compute. reflexivity. Qed.
(** Nothing writes the cache before the first call. *)
Example first_call_finds_nothing : fails_at 0 5 (set_with [decoding] [cache; weight] (fun c => c)).
Proof. refused. Qed.
Example first_calls_in_another_order : fails_at 1 5 (set_with [filling; decoding] [cache; weight] (fun c => - c)).
Proof. refused. Qed.
Example two_arenas_are_one :
  let s := set_with [(crossing, [])] [] (fun c => c) in accepts_set s = true /\
  fails_at 0 1
    (PlanSet (programs s) (plan_at s) (fun _ _ => 0) 0 (kept_at s) (uses s) (rank s) (plan_arena s) (kept_below s)).
Proof. refused. Qed.
Example kept_tensors_overlap : let s := set_with [other] [Kept 0 0 2 true (-1); weight] (fun c => c) in
  accepts_set s = false /\ map (kept_ok s) [0; 1] = [true; false].
Proof. refused. Qed.

(** * Calls that run *)

(** A call whose caller gives these bytes the value [b]. Its program counts its actions in a register. *)
Definition call_of (c : Z) (gives_ : Z -> Z -> bool) (b : bool) (code : Z -> nat -> action bool nat) (n : nat) :
  call bool :=
  Call bool c gives_ (fun _ _ => b) nat code 0%nat n.
Definition put (w : Z) (value_ : private bool -> bool) : store bool :=
  Store bool w (fun x => x =? 0) (fun u _ => value_ u).
Definition the_input (u : private bool) : bool := u 1 0.
Definition cache_and_weight (u : private bool) : bool := xorb (u 0 0) (u 2 0).
Definition the_activation (u : private bool) : bool := u 3 0.
Definition fill_code (_ : Z) (r : nat) : action bool nat :=
  match r with 0 => Go bool nat 0 1 | 1 => Put bool nat (put 0 the_input) 2 | _ => Stop bool nat end%nat.
(** The new cache is the exclusive or of the cache and the weight. *)
Definition decode_code (_ : Z) (r : nat) : action bool nat :=
  match r with
  | 0 => Go bool nat 0 1 | 1 => Put bool nat (put 3 cache_and_weight) 2
  | 2 => Go bool nat 1 3 | 3 => Put bool nat (put 1 the_activation) 4 | _ => Stop bool nat
  end%nat.
Definition fill (c : Z) (b : bool) : call bool := call_of c (fun i x => (i =? 1) && (x =? 0)) b fill_code 2.
Definition decode : call bool := call_of 1 (fun _ _ => false) false decode_code 4.

(** The states in which calls begin. *)
Definition fill_begins (b : bool) : state bool := State bool (-1) (fun i x => i = 1 /\ x = 0) (fun _ _ => b).
Definition decode_begins (b : bool) : state bool :=
  State bool (-1) (fun i x => (i = 0 \/ i = 2) /\ x = 0) (fun i _ => if i =? 0 then b else true).
Definition first_world : world bool := World bool (fun k x => k = 1 /\ x = 0) (fun _ _ => true).

Lemma no_siblings (p : plan) n m : exclusives p = 0 -> ~ Siblings p n m.
Proof. intros E (x & a & b & [X _] & _). unfold is_exclusive in X. lia. Qed.
Lemma going (p : plan) m n : exclusives p = 0 -> m <= n -> is_step p n -> m <= n /\ is_step p n /\ ~ Siblings p m n.
Proof. auto using no_siblings. Qed.
Lemma storing (p : plan) n d w f : is_step p n -> step_writes p n w -> ~ is_view p w -> bytes (tensor_at p w) = 1 ->
  (forall u v, SameFor bool p n d u v -> f u = f v) -> allowed bool p n d (put w f).
Proof.
  intros N W NV B L. split; [exact N|]. split; [exact W|]. split; [exact NV|]. cbn. split.
  - intros x X. apply Z.eqb_eq in X. unfold inside. lia.
  - intros u v S x _. apply L, S.
Qed.

(** The plan in which step 0 writes tensor 0 from tensor 1, called as a program of any set that has it. *)
Lemma fill_runs s c b at_ input : is_program s c -> plan_at s c = fills at_ input true -> ~ carried s c 1 ->
  proper s bool (fill c b) /\ (forall w, call_begins s bool w (fill c b) (fill_begins b)) /\
  obeys s bool (fill c b) (fill_begins b).
Proof.
  intros C P F. unfold proper, call_begins, obeys, is_given, plan_of_call. cbn. rewrite P.
  split; [split; [exact C|]|split; [intros w; split; [reflexivity|]|]].
  - intros i x G. apply andb_prop in G as [I X]. apply Z.eqb_eq in I, X. subst. split; [|decided].
    split; [decided|]. split; [decided|]. split; [decided | exact F].
  - intros i x [-> ->]. apply from_caller_; reflexivity.
  - intros j J. assert (j = 0 \/ j = 1)%nat as [->| ->] by lia.
    + apply going; decided.
    + apply storing; try decided. intros u v S. apply S; decided.
Qed.
Lemma decode_runs w b : known bool w 0 0 -> held bool w 0 0 = b -> known bool w 1 0 -> held bool w 1 0 = true ->
  proper session bool decode /\ call_begins session bool w decode (decode_begins b) /\
  obeys session bool decode (decode_begins b).
Proof.
  intros K0 H0 K1 H1. split; [split; [decided|]|split; [split; [reflexivity|]|]].
  - intros i x G. discriminate G.
  - intros i x [[-> | ->] ->].
    + apply (from_before session bool w decode (decode_begins b) 0 0); try decided; auto.
    + apply (from_before session bool w decode (decode_begins b) 1 0); try decided; auto.
  - intros j J. cbn in J. assert (j = 0 \/ j = 1 \/ j = 2 \/ j = 3)%nat as [->|[->|[->| ->]]] by lia.
    + apply going; decided.
    + apply storing; try decided. intros u v S. unfold cache_and_weight. f_equal; apply S; decided.
    + apply going; decided.
    + apply storing; try decided. intros u v S. apply S; decided.
Qed.

(** The set fills the cache, decodes twice and does something else; the caller then writes the cache, and the set
    decodes. Each call is whole. *)
Definition other_call : call bool := fill 2 false.
Definition rewriting : event bool := Writes bool 0 (fun x => x =? 0) (fun _ => true).
Definition events : list (event bool) :=
  [Runs bool decode; rewriting; Runs bool other_call; Runs bool decode; Runs bool decode; Runs bool (fill 0 true)].
Lemma not_carried s c i k : (forall j, is_kept s j -> j = 0 \/ j = k) -> found_as s c 0 <> i -> found_as s c k <> i ->
  ~ carried s c i.
Proof. intros K N N' (j & J & E). destruct (K j J) as [->| ->]; contradiction. Qed.
Lemma two_are_kept j : is_kept session j -> j = 0 \/ j = 1.
Proof. unfold is_kept. cbn. lia. Qed.

Definition world_of (b : bool) (w : world bool) : Prop :=
  known bool w 0 0 /\ held bool w 0 0 = b /\ known bool w 1 0 /\ held bool w 1 0 = true.
Ltac whole := intros k x [K X] N; destruct (two_are_kept k K) as [->| ->]; cbn in X; assert (x = 0) as -> by lia;
  decided.
Lemma after_decoding l v b : whole_in_turn session bool first_world l v -> world_of b v ->
  exists u, whole_in_turn session bool first_world (Runs bool decode :: l) u /\ world_of (negb b) u.
Proof.
  intros T (K0 & H0 & K1 & H1). destruct (decode_runs v b K0 H0 K1 H1) as (P & B & O). eexists. split.
  - apply (one_whole_call session bool first_world l v decode _ T P B O). whole.
  - destruct b; (split; [decided|]; split; [reflexivity|]; split; [exact K1 | exact H1]).
Qed.
Lemma after_filling l v c b d : whole_in_turn session bool first_world l v -> known bool v 1 0 ->
  held bool v 1 0 = true -> c = 0 /\ d = b \/ c = 2 /\ world_of d v ->
  exists u, whole_in_turn session bool first_world (Runs bool (fill c b) :: l) u /\ world_of d u.
Proof.
  intros T K1 H1 C.
  assert (Nc : ~ carried session c 1).
  { destruct C as [[-> _]|[-> _]]; (eapply not_carried; [exact two_are_kept | decided | decided]). }
  assert (R : proper session bool (fill c b) /\ (forall w, call_begins session bool w (fill c b) (fill_begins b)) /\
    obeys session bool (fill c b) (fill_begins b)).
  { destruct C as [[-> _]|[-> _]];
      [apply (fill_runs session 0 b 0 2) | apply (fill_runs session 2 b 2 3)]; auto; decided. }
  destruct R as (P & B & O). eexists. split.
  - apply (one_whole_call session bool first_world l v (fill c b) _ T P (B v) O).
    destruct C as [[-> _]|[-> _]]; whole.
  - destruct C as [[-> ->]|[-> (K0 & H0 & _)]]; (split; [|split; [|split; [exact K1 | exact H1]]]);
      try exact K0; try exact H0; try reflexivity; decided.
Qed.
Example calls_are_made : exists v, whole_in_turn session bool first_world events v /\ world_of false v.
Proof.
  destruct (after_filling [] first_world 0 true true) as (v1 & T1 & W1);
    [apply no_whole_call | decided | decided | auto|].
  destruct (after_decoding _ _ _ T1 W1) as (v2 & T2 & W2). destruct (after_decoding _ _ _ T2 W2) as (v3 & T3 & W3).
  destruct W3 as (K0 & H0 & K1 & H1).
  destruct (after_filling _ v3 2 false true T3 K1 H1) as (v4 & T4 & _ & _ & K1' & H1');
    [right; split; [reflexivity|]; split; auto|].
  apply (after_decoding (rewriting :: Runs bool other_call :: _)
    (rewritten bool v4 0 (fun x => x =? 0) (fun _ => true)) true).
  - apply one_whole_writing; [exact T4|]. intros x X. apply Z.eqb_eq in X. subst. decided.
  - split; [right; auto|]. split; [reflexivity|]. split; [left; exact K1' | exact H1'].
Qed.

(** The memory after them, in which the cache is as in private memory, and the weight as it was. *)
Example memory_after_calls :
  map (memory_after session bool no_address (fun y => y =? 1) events) [0; 1] = [false; true] /\
  map (memory_after session bool no_address (fun y => y =? 1) [Runs bool (fill 0 true)]) [0; 1; 2] = [true; true; true].
Proof. split; reflexivity. Qed.
Example calls_are_in_order : in_order session (programs_of bool events) /\ ~ in_order session [1; 2] /\
  at_first session bool first_world /\ holds session bool no_address (fun y => y =? 1) first_world.
Proof.
  split; [|split; [|split]].
  - cbn. repeat split; try decided; intros k K N; destruct (two_are_kept k K) as [->| ->];
      first [right; exists 0; decided | left; reflexivity].
  - intros (_ & _ & F). destruct (F 0) as [I|(d & [<-|[]] & D)]; decided.
  - intros k x [K X] I. destruct (two_are_kept k K) as [->| ->]; cbn in *; [discriminate | lia].
  - intros k x _ [-> ->]. reflexivity.
Qed.

(** * Addresses *)

(** All bytes of [session] are in one arena, and those of [crossing] are in two, which need different bytes. *)
Example arenas_of_sets : SetArenasApart session no_address /\
  let s := set_with [(crossing, [])] [] (fun c => c) in ~ SetArenasApart s no_address /\ SetArenasApart s (fun a => a).
Proof.
  assert (Three : forall c, is_program session c -> c = 0 \/ c = 1 \/ c = 2) by (unfold is_program; cbn; lia).
  assert (One : forall a y, serves session a y -> a = 0).
  { intros a y [c k y' C K _|k x [K _]].
    - unfold is_storage in K. destruct (Three c C) as [->|[->| ->]]; cbn in K;
        [assert (k = 0 \/ k = 1) as [->| ->] by lia | assert (k = 0 \/ k = 1 \/ k = 2) as [->|[->| ->]] by lia
        | assert (k = 0 \/ k = 1) as [->| ->] by lia]; reflexivity.
    - destruct (two_are_kept k K) as [->| ->]; reflexivity. }
  split; [intros a b y z A B N; apply One in A, B; congruence|]. cbv zeta. set (s := set_with _ _ _). split.
  - intros H. apply (H 0 1 0 0); try decided; [apply (some_storage s 0 0 0) | apply (some_storage s 0 1 0)]; decided.
  - assert (Zero : forall a y, serves s a y -> y = 0 /\ (a = 0 \/ a = 1)).
    { intros a y [c k y' C K B|k x [K _]]; [|unfold is_kept in K; cbn in K; lia].
      unfold is_program in C. cbn in C. assert (c = 0) as -> by lia. unfold is_storage, has_byte in *. cbn in K, B |- *.
      unfold arena_of. cbn. lia. }
    intros a b y z A B N. apply Zero in A, B. lia.
Qed.

(** * A set in which calls do not run as in private memory *)

(** The output of a program that does not have the cache is over the cache. *)
Definition overwriting_set : plan_set := set_with [(fills 0 2 true, [])] [Kept 0 0 1 true (-1)] (fun c => c).
Example not_every_set_runs_as_private : fails_at 0 3 overwriting_set /\ ~ RunsInTurnAsPrivate overwriting_set bool.
Proof.
  split; [refused|]. intros H. set (w := World bool (fun k x => k = 0 /\ x = 0) (fun _ _ => false)).
  destruct (fill_runs overwriting_set 0 true 0 2) as (P & B & O); [decided | reflexivity | |].
  { intros (k & K & E). unfold is_kept in K. cbn in K. assert (k = 0) as -> by lia. decided. }
  destruct (H no_address (fun _ => false) w [] w (fill 0 true) (fill_begins true)) as (_ & _ & _ & Held); auto.
  - intros a b y z A A' N. exfalso. apply N.
    assert (One : forall a y, serves overwriting_set a y -> a = 0);
      [|rewrite (One a y A); symmetry; apply (One b z A')].
    intros a' y' [c k y'' C K _|k x [K _]]; [|unfold is_kept in K; cbn in K; assert (k = 0) as -> by lia; reflexivity].
    unfold is_program in C. cbn in C. assert (c = 0) as -> by lia. unfold is_storage in K. cbn in K.
    assert (k = 0 \/ k = 1) as [->| ->] by lia; reflexivity.
  - intros k x _ [-> ->]. reflexivity.
  - apply no_event.
  - specialize (Held 0 0). cbv -[kept_byte] in Held. discriminate Held; decided.
Qed.

(** * A set that is read from words *)

(** Of the plan of [FileExamples] the output y is kept, in the second arena. The first arena of the set is another one. *)
Definition small_member : member := Member (source_of small_bytes) FileExamples.permission FileExamples.evidence
  (table [1; 3; 0;  1; 2;  0; 0; 1;  0; 0; 5; 1;  0; 0; 0; 0; 0]).
Definition small_agreement : list Z := [1; 1;  2; 2 ^ 40; 12; 0; 1].
Definition read_set {A} (part : plan_set -> A) (members_ : list member) (words : list Z) : option A :=
  match stated_set members_ (table words) with Some s => Some (part s) | None => None end.
Example small_set_is_accepted : accepts_set_files [small_member] (table small_agreement) = true /\
  accepts_set_files [small_member] (table [2; 1;  2; 2 ^ 40; 12; 0; 1]) = false.
Proof. split; vm_compute; reflexivity. Qed.

(** The words of the agreement and of two links, each of which is another number. *)
Definition other_member : member := Member (source_of small_bytes) FileExamples.permission FileExamples.evidence
  (table [2; 3; 11;  12; 13;  14; 15; 16;  0; 1;  18; 19;  20; 21;  22; 23;  24; 25; 26; 27; 28]).
Example words_of_a_set : read_set (fun s => (programs s, keeps s, map (kept_at s) [0; 1], map (rank s) [0; 1],
    map (set_arena s 0) [0; 1], map (set_arena s 1) [0; 1], map (plan_arena s 1) [0; 1; 2],
    map (ends_of s 0) [0; 1], map (ends_of s 1) [0; 1; 2], map (kept_below s 1) [0; 1; 2; 3; 4]))
  [small_member; other_member] [1; 2;  30; 31;  32; 33;  34; 35;  1; 0;  36; 0] =
  Some (2, 2, [Kept 30 32 34 true 35; Kept 31 33 35 false (-1)], [0; 11],
    [1; 2], [12; 13], [14; 15; 16],
    [Ends (-1) 4 1; no_ends], [Ends 17 19 22; Ends 18 20 23; no_ends], [24; 25; 26; 27; 28]).
Proof. vm_compute. reflexivity. Qed.
