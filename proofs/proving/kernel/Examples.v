(** Examples that show that the definitions are not vacuous: plans that are refused, plans that are each unsafe in one
    way, and a plan with a program that runs. An edit that makes a definition weaker makes a proof fail, or one of
    these. spec: V6.9 *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Check Safe Run ListsProof Accesses Soundness RunProof ProgressProof Theorems.
Import ListNotations.
Open Scope Z_scope.

(** Closed statements about numbers. *)
Ltac decided := vm_compute; intuition (reflexivity || discriminate).

(** Row [i] of a table. *)
Fixpoint rows {A} (l : list A) (other : A) (i : Z) : A :=
  match l with [] => other | a :: l' => if i =? 0 then a else rows l' other (i - 1) end.
Definition no_storage := Storage 0 0 1 0 0 0 0 0.
Definition no_tensor := Tensor 0 0 0 1 0 0 0 (-1) 0 (-1) false false false false 0 0 0 0.

(** Storages, each in a separate slot with its bytes, tensors listed by storage, and one arena. *)
Definition small (steps_ room : Z) (s : list storage) (t : list tensor) (reads_ writes_ : list (list Z))
  (nodes : list exclusive) (arms_ : Z -> Z * Z) : plan :=
  let count := Z.of_nat (length s) in
  {| allocation := {| steps := steps_; storages := count; slots := count; arenas := 1; by_slots := true;
       storage_at := rows s no_storage;
       slot_at := fun k => Slot 0 (s_bytes (rows s no_storage k)) 1 (s_offset (rows s no_storage k)) k;
       arena_at := fun _ => Arena room 1 false room (-1) (-1); reuse := fun _ => true;
       tenants := Groups (fun k => k) (fun i => i); ordered := Groups (fun a => a * count) (fun i => i);
       edge_at := fun _ => Edge 0 0 0 0; ups_at := fun _ => 0; downs := Groups (fun _ => 0) (fun i => i); pairs := [] |};
     tensors := Z.of_nat (length t); tensor_at := rows t no_tensor;
     reads := rows reads_ []; writes := rows writes_ []; mutates := fun _ => [];
     loops := []; exclusives := Z.of_nat (length nodes); exclusive_at := rows nodes (Exclusive 0 0 []); takes := [];
     members := Groups (fun k => Z.of_nat (length (filter (fun u => home u <? k) t))) (fun i => i);
     within := arms_; also := fun _ => []; joined := fun _ => [] |}.

(** * Plans that are refused *)

(** Step 0 writes [a], 1 makes [v], a view of [r], 2 reads [v] and writes [y], and only 3 writes [r]: no whole run could
    come to step 2. *)
Definition view_before_its_base := small 4 12
  [Storage 0 4 1 0 3 0 0 0; Storage 0 4 1 0 0 4 1 1; Storage 0 4 1 2 3 8 2 2]
  [Tensor 0 0 4 1 0 3 3 (-1) 0 (-1) false false false false 0 3 0 0;  (* r *)
   Tensor 0 0 4 1 1 2 1 0 0 (-1) false false false false 1 2 0 1;     (* v *)
   Tensor 1 0 4 1 0 0 0 (-1) 0 (-1) false false false false 0 0 2 2;  (* a *)
   Tensor 2 0 4 1 2 3 2 (-1) 0 (-1) true false false false 2 3 3 3]   (* y *)
  [[]; []; [1]; []] [[2]; [1]; [3]; [0]] [] (fun _ => (0, 4)).
Example view_before_its_base_refused : check view_before_its_base = false.
Proof. vm_compute. reflexivity. Qed.

(** Step 1 makes two views of one root, each a view of the other, and reads both, as its scratch. *)
Definition views_of_each_other := small 3 4
  [Storage 0 4 1 0 2 0 0 0]
  [Tensor 0 0 4 1 0 2 0 (-1) 0 (-1) false false false false 0 2 0 0;
   Tensor 0 0 4 1 1 2 1 2 0 (-1) false false true false 1 2 0 1;
   Tensor 0 0 4 1 1 2 1 1 0 (-1) false false true false 1 2 0 2]
  [[]; [1; 2]; [1]] [[0]; [1; 2]; []] [] (fun _ => (0, 3)).
Example views_of_each_other_refused : check views_of_each_other = false.
Proof. vm_compute. reflexivity. Qed.
Example views_in_turn_accepted : check
  (small 3 4 [Storage 0 4 1 0 2 0 0 0]
    [Tensor 0 0 4 1 0 2 0 (-1) 0 (-1) false false false false 0 2 0 0;
     Tensor 0 0 4 1 1 2 1 0 0 (-1) false false true false 1 2 0 1;
     Tensor 0 0 4 1 1 2 1 0 0 (-1) false false true false 1 2 0 2]
    [[]; [0; 1; 2]; [1]] [[0]; [1; 2]; []] [] (fun _ => (0, 3))) = true.
Proof. vm_compute. reflexivity. Qed.

(** * Plans that are not safe *)

(** A storage that ends beyond its arena, one that is not aligned, one whose alignment is not a power of two, one that
    outlives the plan, one that is dead before it is born, and one in no arena. *)
Theorem storages_may_be_ill_placed s : In s
  [Storage 0 4 1 0 0 1 0 0; Storage 0 2 2 0 0 1 0 0; Storage 0 2 3 0 0 0 0 0; Storage 0 4 1 0 1 0 0 0;
   Storage 0 4 1 1 0 0 0 0; Storage 1 4 1 0 0 0 0 0] -> ~ WellPlaced (small 1 4 [s] [] [] [] [] (fun _ => (0, 1))).
Proof.
  intros I W. destruct (W 0) as (? & ? & ? & ? & ? & ? & ? & (k & K & E) & (z & D) & _); [unfold is_storage; cbn; lia|].
  assert (P : 2 ^ k = 1 \/ 2 ^ k = 2 \/ exists y, 2 ^ k = 4 * y).
  { destruct (Z_lt_le_dec k 2); [assert (k = 0 \/ k = 1) as [->| ->] by lia; auto|]. right. right.
    exists (2 ^ (k - 2)). change 4 with (2 ^ 2). rewrite <- Z.pow_add_r by lia. f_equal. lia. }
  rewrite <- E in P. clear E.
  cbn in I. repeat destruct I as [<-|I]; try contradiction; unfold last_step, limit in *;
    cbn -[Z.mul Z.max] in *; destruct P as [P|[P|(y & P)]]; lia.
Qed.

(** The caller writes two tensors to one byte. *)
Definition inputs_overlap := small 1 1 [Storage 0 1 1 0 0 0 0 0]
  [Tensor 0 0 1 1 0 0 (-1) (-1) 0 (-1) false false false false (-1) (-1) 0 0;
   Tensor 0 0 1 1 0 0 (-1) (-1) 0 (-1) false false false false (-1) (-1) 1 1] [[]] [[]] [] (fun _ => (0, 1)).
Example inputs_overlap_refused : check inputs_overlap = false /\ ~ CallersTensorsApart inputs_overlap.
Proof.
  split; [reflexivity|]. intros H. specialize (H 0 1 0 0). unfold is_tensor, inside in H. cbn in H.
  cut (0 = 1); [discriminate|]. apply H; auto; lia.
Qed.

(** Two steps write one tensor. *)
Definition written_twice := small 2 1 [Storage 0 1 1 0 1 0 0 0]
  [Tensor 0 0 1 1 0 1 0 (-1) 0 (-1) true false false false 0 1 0 0] [[]; []] [[0]; [0]] [] (fun _ => (0, 2)).
Example written_twice_refused : check written_twice = false /\ ~ WrittenOnce written_twice.
Proof.
  split; [reflexivity|]. intros [H _]. specialize (H 0 1 0). unfold is_step in H. cbn in H.
  assert (N : forall n m, ~ Siblings written_twice n m).
  { intros n m (x & a & b & [X _] & _). unfold is_exclusive in X. cbn in X. lia. }
  destruct H as [?|[S|S]]; auto; try lia; exact (N _ _ S).
Qed.

(** A step changes a tensor that the caller owns and has not donated, and lists it as changed. *)
Definition changing (p : plan) (lists : Z -> list Z) : plan :=
  Plan (allocation p) (tensors p) (tensor_at p) (reads p) (writes p) lists (loops p) (exclusives p) (exclusive_at p)
    (takes p) (members p) (within p) (also p) (joined p).
Definition input_changed := changing (small 1 1 [Storage 0 1 1 0 0 0 0 0]
  [Tensor 0 0 1 1 0 0 (-1) (-1) 0 (-1) false false false false (-1) 0 0 0] [[0]] [[0]] [] (fun _ => (0, 1)))
  (fun _ => [0]).
Example input_changed_refused : check input_changed = false /\ ~ WrittenOnce input_changed.
Proof.
  split; [reflexivity|]. intros [_ H]. destruct (H 0 0) as [E|[_ E]]; [unfold is_step; cbn; lia | left; reflexivity | |];
    cbn in E; congruence.
Qed.

(** * A plan that does not run as private memory would *)

(** Step 0 writes [a], step 1 writes [b] at its address, step 2 reads [a]. *)
Definition overwritten := small 3 1
  [Storage 0 1 1 0 2 0 0 0; Storage 0 1 1 1 2 0 1 1]
  [Tensor 0 0 1 1 0 2 0 (-1) 0 (-1) false false false false 0 2 0 0;
   Tensor 1 0 1 1 1 2 1 (-1) 0 (-1) false false false false 1 2 1 1]
  [[]; []; [0]] [[0]; [1]; []] [] (fun _ => (0, 3)).

Definition put (w : Z) (v : bool) : store bool := Store bool w (fun x => x =? 0) (fun _ _ => v).
Definition at_step (n : Z) (s : state bool) := State bool n (defined bool s) (own bool s) (held bool s).
Definition empty : state bool := State bool (-1) (fun _ _ => False) (fun _ _ => false) (fun _ _ => false).

Local Notation p := overwritten.
Theorem not_every_plan_runs_as_private : check overwritten = false /\ ~ NoLiveOverlap overwritten /\
  ~ RunsAsPrivate bool overwritten.
Proof.
  split; [vm_compute; reflexivity|]. split.
  { intros H. refine (H 0 1 1 _ _ _ _ _ _ 0 _ _); decided. }
  intros R.
  pose (s2 := stored bool p (at_step 0 empty) (put 0 true)). pose (s4 := stored bool p (at_step 1 s2) (put 1 false)).
  assert (A : agree bool p (at_step 2 s4) 0).
  { apply R with (s := empty).
    - split; [reflexivity|]. intros i x [].
    - assert (G : forall n s, 0 <= n < 3 -> now bool s <= n -> goes bool p s (at_step n s)).
      { intros n s N L. apply on; [lia | unfold is_step; cbn; lia |]. intros (x & a & b & [E _] & _).
        unfold is_exclusive in E. cbn in E. lia. }
      assert (S : forall n v s, 0 <= n < 2 -> now bool s = n -> acts bool p s (stored bool p s (put n v))).
      { intros n v s N E. apply stores. rewrite E. split; [unfold is_step; cbn; lia|].
        split; [left; cbn; assert (n = 0 \/ n = 1) as [->| ->] by lia; cbn; auto|].
        split; [unfold is_view; cbn; assert (n = 0 \/ n = 1) as [->| ->] by lia; cbn; lia|].
        split; [|reflexivity]. intros x H. apply Z.eqb_eq in H. subst x.
        unfold inside. assert (n = 0 \/ n = 1) as [->| ->] by lia; cbn; lia. }
      apply further with s4; [|right; apply G; cbn; lia].
      apply further with (at_step 1 s2); [|left; apply S; cbn; lia].
      apply further with s2; [|right; apply G; cbn; lia].
      apply further with (at_step 0 empty); [|left; apply S; cbn; lia].
      apply further with empty; [constructor|]. right. apply G; cbn; lia.
    - left. exists 2. split; [cbn; lia|]. split; [unfold is_step; cbn; lia|]. left. left. cbn. auto. }
  specialize (A 0). assert (D : defined bool (at_step 2 s4) 0 0).
  { right. split; [left; split; reflexivity|]. intros ([H|[]] & _). cbn in H. discriminate. }
  specialize (A D). cbv in A. discriminate.
Qed.

(** * A program that runs *)

(** Step 0 enters a node of two branches; 1 writes [a] in one, 2 writes [b] in the other, and 3 leaves it and writes
    [y]; 4 makes [v], a view of [y], 5 writes [z], and 6 writes its result in place of [z], for the caller. *)
Definition branching := small 7 5
  [Storage 0 1 1 0 2 0 0 0; Storage 0 1 1 1 3 1 1 1; Storage 0 1 1 2 3 2 2 2; Storage 0 1 1 3 5 3 3 3;
   Storage 0 1 1 5 6 4 4 4]
  [Tensor 0 0 1 1 0 2 (-1) (-1) 0 (-1) false false false false (-1) 2 0 0;  (* the input *)
   Tensor 1 0 1 1 1 3 1 (-1) 0 (-1) false false false true 1 1 1 1;         (* a *)
   Tensor 2 0 1 1 2 3 2 (-1) 0 (-1) false false false true 2 2 2 2;         (* b *)
   Tensor 3 0 1 1 3 5 3 (-1) 0 (-1) false false false false 3 4 3 3;        (* y *)
   Tensor 3 0 1 1 4 5 4 3 0 (-1) false false false false 4 5 3 4;           (* v *)
   Tensor 4 0 1 1 5 6 5 (-1) 0 (-1) false false false false 5 6 5 5;        (* z *)
   Tensor 4 0 1 1 6 6 6 (-1) 0 5 true false false false 6 6 6 6]            (* the output *)
  [[0]; [0]; [0]; [1; 2]; [3]; [4]; [5]] [[]; [1]; [2]; [3]; [4]; [5]; [6]]
  [Exclusive 0 3 [(1, 1); (2, 2)]] (fun n => if n =? 1 then (1, 1) else if n =? 2 then (2, 2) else (0, 7)).
Local Notation q := branching.
Example branching_accepted : check q = true.
Proof. vm_compute. reflexivity. Qed.

(** One branch negates the input, the other copies it; the leave passes on the result of the branch that ran, and steps
    5 and 6 negate again. *)
Definition negations : functions bool := fun m n _ u x =>
  if n =? 1 then negb (u 0 x) else if n =? 2 then u 0 x else if n =? 3 then u (if m =? 1 then 1 else 2) x
  else negb (u (n - 1) x).

Lemma arms_of_branching x a : is_arm q x a -> x = 0 /\ (a = (1, 1) \/ a = (2, 2)).
Proof.
  intros [X A]. unfold is_exclusive in X. cbn in X. assert (x = 0) as -> by lia. cbn in A. intuition congruence.
Qed.

Ltac operand := split; [split; [left; decided|]; split; [assumption|] | intros o; cbn; intuition congruence].

Lemma negations_are_local c : LocalFunctions bool q (Chosen q c) negations.
Proof.
  intros m n w (N & _ & _ & F & Mv) W Vw u v Eq x I. unfold is_step in N. cbn in N.
  assert (Free : forall i, n <> 3 -> ~ TakenAt q n i).
  { intros i Ne (y & E & [Y _]). unfold is_exclusive in Y. cbn in Y. assert (y = 0) as -> by lia. auto. }
  assert (Made : forall i, is_tensor q i -> writer (tensor_at q i) <> -1 ->
    written_before q i (tensor_at q i) n = true -> WrittenBefore q i n).
  { intros i T Wr. exact (written_before_spec q branching_accepted i n T Wr). }
  assert (n = 0 \/ n = 1 \/ n = 2 \/ n = 3 \/ n = 4 \/ n = 5 \/ n = 6) as Cases by lia.
  destruct Cases as [->|[->|[->|[->|[->|[->| ->]]]]]]; cbn in W;
    try destruct W as [<-|W]; try contradiction; cbn.
  - f_equal. apply Eq. operand. left. split; [apply Free; lia | left; reflexivity].
  - apply Eq. operand. left. split; [apply Free; lia | left; reflexivity].
  - assert (m = 1 \/ m = 2) as M.
    { destruct Mv as [[L _]|[]]. destruct F as [?|[?|(y & a & A & F)]]; [lia | lia |].
      apply arms_of_branching in A as (-> & [->| ->]); cbn in F; lia. }
    assert (Result : forall i, In i [1; 2] -> ArmResult q 0 i).
    { intros i Hi. apply (arms_result_spec q branching_accepted); try exact Hi;
        cbn in Hi; destruct Hi as [<-|[<-|[]]]; decided. }
    destruct M as [->| ->]; apply Eq; operand; right; exists 0; [exists (1, 1), 1 | exists (2, 2), 2];
      (split; [reflexivity|]; split; [apply Result; cbn; auto|]; split; [split; decided|]; split; [decided|];
       split; [apply (directly_spec q branching_accepted); reflexivity | decided]).
  - destruct Vw. decided.
  - f_equal. apply Eq. operand. left. split; [apply Free; lia | right; apply Made; decided].
  - f_equal. apply Eq. operand. left. split; [apply Free; lia | right; apply Made; decided].
Qed.

(** For each branch there is a run from each input to the last step, and its result is that of the program. *)
Theorem programs_run (input : bool) (arm : Z * Z) : In arm [(1, 1); (2, 2)] -> exists s0 m s t,
  own bool s0 0 0 = input /\ runs bool q (Chosen q (fun _ => arm)) (kernels_of bool q negations) s0 m s /\ now bool s = 6 /\
  performs bool q (kernels_of bool q negations m 6) s t /\ own bool t 6 0 = negb (own bool s 5 0) /\
  seen bool q (held bool t) 6 0 = own bool t 6 0.
Proof.
  intros A. destruct (checked_plans_progress q branching_accepted) as [_ F].
  destruct (checked_plans_run_as_private q branching_accepted) as (_ & P & _).
  set (s0 := State bool (-1) (fun i x => i = 0 /\ x = 0) (fun _ _ => input) (fun _ _ => input)).
  assert (G : given bool q s0).
  { split; [split; [reflexivity|]|].
    - intros i x [-> ->]. unfold is_tensor, inside. cbn. repeat split; lia.
    - intros i x T I W. unfold is_tensor in T. cbn in T.
      assert (i = 0 \/ i = 1 \/ i = 2 \/ i = 3 \/ i = 4 \/ i = 5 \/ i = 6) as Cases by lia.
      destruct Cases as [->|[->|[->|[->|[->|[->| ->]]]]]]; try discriminate W. unfold inside in I. cbn in *. lia. }
  destruct (F bool (fun _ => arm) negations s0 6) as (m & s & t & R & E & Pf & D & Own); auto.
  - intros x X. unfold is_exclusive in X. cbn in X. split; [exact X|]. assert (x = 0) as -> by lia. exact A.
  - apply negations_are_local.
  - split; [unfold is_step; cbn; lia|]. intros x a Ar I. apply arms_of_branching in Ar as [_ [->| ->]];
      unfold in_arm in I; cbn in I; lia.
  - exists s0, m, s, t. split; [reflexivity|]. split; [auto|]. split; [auto|]. split; [auto|].
    split; [apply (Own 6 0); decided|].
    assert (Et : now bool t = 6) by (rewrite (acts_on_same bool q _ _ (performs_acts bool q _ _ _ Pf)); auto).
    apply (P bool s0 t); [apply G | | left; exists 6; rewrite Et; split; [lia|]; split; [decided | right; left; decided] |].
    + apply runs_reach in R. eapply performs_reach; eauto.
    + apply D; rewrite ?Et; decided.
Qed.

Print Assumptions storages_may_be_ill_placed.
Print Assumptions not_every_plan_runs_as_private.
Print Assumptions programs_run.

(** * Inputs that are kept (Z1). An input and a result of its own, with or without the caller's read after the last step. *)
From Tmmu Require Import Inputs InputsProof.

Definition with_input (kept : bool) : plan := small 1 2 [Storage 0 1 1 0 0 0 0 0; Storage 0 1 1 0 0 1 1 1]
  [Tensor 0 0 1 1 0 0 (-1) (-1) 0 (-1) kept false false false (-1) 0 0 0;
   Tensor 1 0 1 1 0 0 0 (-1) 0 (-1) true false false false 0 0 1 1] [[0]] [[1]] [] (fun _ => (0, 1)).
Example kept_accepted : check (with_input true) = true /\ keeps_inputs (with_input true) = true.
Proof. vm_compute. auto. Qed.
Example not_kept : check (with_input false) = true /\ keeps_inputs (with_input false) = false /\
  ~ AllInputsKept (with_input false).
Proof.
  split; [vm_compute; reflexivity|]. split; [vm_compute; reflexivity|]. intros A.
  destruct (A 0) as [_ R]; [|discriminate R]. split; [vm_compute; split; [discriminate|reflexivity]|].
  split; reflexivity.
Qed.
(** Steps do change memory: this one changes the byte of its result. *)
Definition written_byte : contents bool := fun a y => (a =? 0) && (y =? 1).
Example results_change : becomes (with_input true) bool (fun _ _ => false) written_byte.
Proof.
  apply changed with (l := fun _ _ => false) (n := 0); [apply unchanged|].
  split; [vm_compute; split; [discriminate|reflexivity]|].
  intros a y N. unfold written_byte. destruct (Z.eqb_spec a 0) as [->|]; auto. destruct (Z.eqb_spec y 1) as [->|]; auto.
  exfalso. apply N. exists 1, 0. split; [left; cbn; auto|]. split; [intros V; apply V; reflexivity|].
  split; [vm_compute; split; [discriminate|reflexivity]|]. split; reflexivity.
Qed.
(** The byte of the kept input is never another. *)
Example kept_byte_stays : ~ becomes (with_input true) bool (fun _ _ => false) (fun a y => (a =? 0) && (y =? 0)).
Proof.
  intros B. destruct kept_accepted as [C _].
  pose proof (kept_inputs_stay _ (check_sound _ C) bool _ _ 0 0 B) as H.
  assert (K : is_kept (with_input true) 0).
  { split; [|reflexivity]. split; [vm_compute; split; [discriminate|reflexivity]|]. split; reflexivity. }
  assert (I : inside (with_input true) 0 0) by (vm_compute; split; [discriminate|reflexivity]).
  specialize (H K I). discriminate H.
Qed.
