(** Examples that show that the definitions are not vacuous: plans that are refused, plans that are each unsafe in one
    way, and a plan with a program that runs. An edit that makes a definition weaker makes a proof fail, or one of
    these. spec: V6.9 *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Check Safe Run Shapes ListsProof Accesses Soundness RunProof ProgressProof
  Evidence Theorems.
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
  split; [reflexivity|]. intros H. destruct (H 0 1 0 0) as (r & S0 & S1); try decided.
  assert (N : forall i s, Shows inputs_overlap i s -> 0 <= i < 2 -> s = i).
  { intros i s [j _|j k Vw _] J; [reflexivity|]. destruct Vw. assert (j = 0 \/ j = 1) as [->| ->] by lia; reflexivity. }
  apply N in S0; [|lia]. apply N in S1; [|lia]. lia.
Qed.

(** The caller writes [a] and [b] to the same bytes, where [b] is stated as a view of itself, with [a] as its root. *)
Definition view_of_itself := small 1 4 [Storage 0 4 1 0 0 0 0 0]
  [Tensor 0 0 4 1 0 0 (-1) (-1) 0 (-1) false false false false (-1) 0 0 0;
   Tensor 0 0 4 1 0 0 (-1) 1 0 (-1) false false false false (-1) 0 0 1] [[0; 1]] [[]] [] (fun _ => (0, 1)).
Lemma shows_only_itself r : ~ Shows view_of_itself 1 r.
Proof.
  assert (G : forall i s, Shows view_of_itself i s -> i <> 1); [|intros S; exact (G 1 r S eq_refl)].
  induction 1 as [i N|i s _ _ IH]; intros ->; [apply N; decided | exact (IH eq_refl)].
Qed.
Example view_of_itself_refused : check view_of_itself = false /\ ~ CallersTensorsApart view_of_itself.
Proof.
  split; [reflexivity|]. intros H. destruct (H 0 1 0 0) as (r & _ & S); try decided. exact (shows_only_itself r S).
Qed.
Example callers_view_accepted : check
  (small 1 4 [Storage 0 4 1 0 0 0 0 0]
    [Tensor 0 0 4 1 0 0 (-1) (-1) 0 (-1) false false false false (-1) 0 0 0;
     Tensor 0 0 4 1 0 0 (-1) 0 0 (-1) false false false false (-1) 0 0 1] [[0; 1]] [[]] [] (fun _ => (0, 1))) = true.
Proof. vm_compute. reflexivity. Qed.

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

Definition byte (w : Z) (v : bool) : store bool := Store bool w (fun x => x =? 0) (fun _ _ => v).
Definition empty : state bool := State bool (-1) (fun _ _ => False) (fun _ _ => false).
Definition no_address : Z -> Z := fun _ => 0.

(** The program that writes both: its register counts its actions. *)
Definition overwriting (_ : Z) (r : nat) : action bool nat :=
  match r with
  | 0 => Go bool nat 0 1 | 1 => Put bool nat (byte 0 true) 2 | 2 => Go bool nat 1 3
  | 3 => Put bool nat (byte 1 false) 4 | 4 => Go bool nat 2 5 | _ => Stop bool nat
  end%nat.

Lemma one_arena : ArenasApart overwritten no_address.
Proof. intros k l x y K L D. exfalso. apply D. unfold is_storage in *. cbn in *. 
  assert (k = 0 \/ k = 1) as [->| ->] by lia; assert (l = 0 \/ l = 1) as [->| ->] by lia; reflexivity. Qed.

Local Notation p := overwritten.
Theorem not_every_plan_runs_as_private : check overwritten = false /\ ~ NoLiveOverlap overwritten /\
  ~ RunsAsPrivate bool overwritten.
Proof.
  split; [vm_compute; reflexivity|]. split.
  { intros H. refine (H 0 1 1 _ _ _ _ _ _ 0 _ _); decided. }
  intros R. destruct (R nat overwriting no_address empty (fun _ => false) 0%nat 5%nat one_arena) as (_ & _ & A).
  - split; [reflexivity|]. intros i x [].
  - intros i x [].
  - assert (G : forall m n, -1 <= m <= n -> 0 <= n < 3 -> m <= n /\ is_step p n /\ ~ Siblings p m n).
    { intros m n M N. split; [lia|]. split; [unfold is_step; cbn; lia|]. intros (x & a & b & [E _] & _).
      unfold is_exclusive in E. cbn in E. lia. }
    assert (S : forall n v d, 0 <= n < 2 -> allowed bool p n d (byte n v)).
    { intros n v d N. split; [unfold is_step; cbn; lia|].
      split; [left; assert (n = 0 \/ n = 1) as [->| ->] by lia; cbn; auto|].
      split; [unfold is_view; assert (n = 0 \/ n = 1) as [->| ->] by lia; cbn; lia|].
      split; [|reflexivity]. intros x H. apply Z.eqb_eq in H. subst x.
      unfold inside. assert (n = 0 \/ n = 1) as [->| ->] by lia; cbn; lia. }
    intros j J. assert (j = 0 \/ j = 1 \/ j = 2 \/ j = 3 \/ j = 4)%nat as Cases by lia.
    destruct Cases as [->|[->|[->|[->| ->]]]].
    + exact (G (-1) 0 ltac:(lia) ltac:(lia)).
    + exact (S 0 true _ ltac:(lia)).
    + exact (G 0 1 ltac:(lia) ltac:(lia)).
    + exact (S 1 false _ ltac:(lia)).
    + exact (G 1 2 ltac:(lia) ltac:(lia)).
  - assert (D : found bool p no_address (content bool nat
        (Nat.iter 5 (arena_step bool p nat overwriting no_address) (Arenas bool nat (-1) (fun _ => false) 0%nat))) 0 0 =
        own bool (Nat.iter 5 (private_step bool p nat overwriting) (Private bool nat empty 0%nat)) 0 0).
    { apply A; [left; exists 2; split; [cbn; lia|]; split; [unfold is_step; cbn; lia | left; left; cbn; auto]|].
      right. split; [left; split; reflexivity|]. intros ([H|[]] & _). cbn in H. discriminate. }
    cbv in D. discriminate.
Qed.

(** Nor do other lives of its tensors make it safe, or another number of steps. *)
Example no_evidence_makes_it_safe : ~ SafeInSomeLives overwritten /\ ~ SafeInSomeSteps overwritten.
Proof.
  destruct not_every_plan_runs_as_private as (_ & O & _). split.
  - intros (first & last & N & _). exact (O N).
  - intros (steps_ & N & _). exact (O N).
Qed.

(** Of two arenas that begin at one address, a run may not come out the same. *)
Definition two_arenas := let p := overwritten in let m := allocation p in
  Plan (Memory 3 2 2 2 true (fun k => if k =? 0 then Storage 0 1 1 0 2 0 0 0 else Storage 1 1 1 1 2 0 1 1)
    (fun s => Slot s 1 1 0 s) (fun _ => Arena 1 1 false 1 (-1) (-1)) (reuse m) (tenants m)
    (Groups (fun a => a) (fun i => i))
    (edge_at m) (ups_at m) (downs m) [])
    (tensors p) (tensor_at p) (reads p) (writes p) (mutates p) [] 0 (exclusive_at p) [] (members p) (within p) (also p)
    (joined p).
Example arenas_at_addresses : check two_arenas = true /\ ~ ArenasApart two_arenas no_address /\
  ArenasApart two_arenas (fun a => a).
Proof.
  split; [vm_compute; reflexivity|]. split.
  - intros H. apply (H 0 1 0 0); decided.
  - intros k l x y K L D Bk Bl. unfold is_storage, arena_of, has_byte in *. cbn -[Z.add] in *.
    assert (k = 0 \/ k = 1) as [->| ->] by lia; assert (l = 0 \/ l = 1) as [->| ->] by lia; cbn -[Z.add] in *; lia.
Qed.

(** A caller begins with any value. *)
Example callers_begin (b : bool) : exists m, found bool (small 1 1 [Storage 0 1 1 0 0 0 0 0]
    [Tensor 0 0 1 1 0 0 (-1) (-1) 0 (-1) false false false false (-1) 0 0 0] [[0]] [[]] [] (fun _ => (0, 1)))
    no_address m 0 0 = b.
Proof.
  set (one := small _ _ _ _ _ _ _ _).
  destruct (callers_can_begin bool one (check_sound one ltac:(vm_compute; reflexivity)) no_address
    (State bool (-1) (fun i x => i = 0 /\ x = 0) (fun _ _ => b))) as (m & H).
  - intros k l x y K L D. exfalso. apply D. unfold is_storage in *. cbn in *. assert (k = 0) as -> by lia.
    assert (l = 0) as -> by lia. reflexivity.
  - split; [reflexivity|]. intros i x [-> ->]. decided.
  - intros v x T V. destruct V. unfold is_tensor in T. cbn in T. assert (v = 0) as -> by lia. reflexivity.
  - exists m. apply H. cbn. auto.
Qed.

(** * Registers *)

(** Step 1 writes [y] in the place of [z], two bytes. Its kernel loads the first byte of [z], stores a constant over it,
    and then stores what it has loaded. *)
Definition in_place := small 2 2 [Storage 0 2 1 0 1 0 0 0]
  [Tensor 0 0 2 1 0 1 0 (-1) 0 (-1) false false false false 0 1 0 0;  (* z *)
   Tensor 0 0 2 1 1 1 1 (-1) 0 0 true false false false 1 1 1 1]     (* y *)
  [[]; [0]] [[0]; [1]] [] (fun _ => (0, 2)).
Example in_place_accepted : check in_place = true.
Proof. vm_compute. reflexivity. Qed.

Definition keeps_a_byte : list (instruction bool bool) :=
  [load bool bool (fun u _ => u 0 0); put bool bool 1 (fun x => x =? 0) (fun _ _ _ => true);
   put bool bool 1 (fun x => x =? 1) (fun r _ _ => r)].
Example registers_keep_bytes : Kernel bool in_place bool 1 (Readable in_place [0] 0 1) keeps_a_byte.
Proof.
  assert (A : forall d x v, 0 <= x < 2 -> allowed bool in_place 1 d (Store bool 1 (fun y => y =? x) (fun _ _ => v))).
  { intros d x v X. split; [unfold is_step; cbn; lia|]. split; [left; left; reflexivity|].
    split; [unfold is_view; cbn; lia|]. split; [|reflexivity]. intros y Y. apply Z.eqb_eq in Y. unfold inside. cbn. lia. }
  constructor.
  - intros r u v Eq. apply Eq; [left; left; left; reflexivity | unfold inside; cbn; lia |].
    split; [left; left; left; reflexivity|]. split; [unfold inside; cbn; lia|]. right. left. exists 0.
    split; left; reflexivity.
  - constructor; [intros r; apply A; lia|]. intros r. constructor; [intros r'; apply A; lia|]. intros r'. constructor.
    intros w x [<-|[]] _ I. unfold inside in I. cbn in I. assert (x = 0 \/ x = 1) as [->| ->] by lia.
    + right. split; [left; split; reflexivity|]. intros (_ & N & _). apply N. reflexivity.
    + left. split; reflexivity.
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
Definition negations : functions bool := fun _ m n _ u x =>
  if n =? 1 then negb (u 0 x) else if n =? 2 then u 0 x else if n =? 3 then u (if m =? 1 then 1 else 2) x
  else negb (u (n - 1) x).

Lemma arms_of_branching x a : is_arm q x a -> x = 0 /\ (a = (1, 1) \/ a = (2, 2)).
Proof.
  intros [X A]. unfold is_exclusive in X. cbn in X. assert (x = 0) as -> by lia. cbn in A. intuition congruence.
Qed.

(** The ways to a step of [branching]: the step before, and the tensors that are written. *)
Lemma ways_of_branching c l m n : Path q (Chosen q c) l m n ->
  (n = 0 /\ m = -1 \/ n = 1 /\ m = 0 \/ n = 2 /\ m = 0 \/ n = 3 /\ (m = 1 \/ m = 2) \/ 4 <= n < 7 /\ m = n - 1) /\
  (0 <= m -> In m l) /\ (4 <= n -> In 3 l).
Proof.
  assert (G : forall m n, Goes q m n ->
    n = 0 /\ m = -1 \/ n = 1 /\ m = 0 \/ n = 2 /\ m = 0 \/ n = 3 /\ (m = 1 \/ m = 2) \/ 4 <= n < 7 /\ m = n - 1).
  { intros m' n' (N & Lt & Sib & F). unfold is_step in N. cbn in N.
    destruct F as [F|[[[] _]|(x & a & A & F)]].
    - assert (n' = 2 -> False); [|lia]. intros ->. apply Sib. exists 0, (1, 1), (2, 2). unfold in_arm.
      assert (m' = 1) as -> by lia.
      split; [split; decided|]. split; [split; decided|]. split; [discriminate|]. cbn. lia.
    - apply arms_of_branching in A as (-> & [->| ->]); cbn in F; lia. }
  induction 1 as [n Go W|l k m n P (IH & I & J) Go W|l k m e P _ []].
  - apply G in Go. lia.
  - apply G in Go. split; [auto|]. split; [left; auto|]. intros N.
    destruct (Z.eq_dec n 4) as [->|Ne]; [left; lia | right; apply J; lia].
Qed.

Lemma negations_are_local c : LocalFunctions bool q (Chosen q c) negations.
Proof.
  intros l m n w P W Vw u v Eq x I. destruct (ways_of_branching _ _ _ _ P) as (Cases & Im & _).
  assert (Found : forall i, touches q n i -> inside q i x -> writer (tensor_at q i) = -1 \/ 0 <= m /\ In i (writes q m) ->
    u i x = v i x).
  { intros i T Ii Wi. apply Eq. split; [auto|]. split; [auto|]. destruct Wi as [Wi|[M Wi]]; eauto 6. }
  destruct Cases as [[-> ->]|[[-> ->]|[[-> ->]|[[-> [->| ->]]|[N ->]]]]].
  6: assert (n = 4 \/ n = 5 \/ n = 6) as [->|[->| ->]] by lia.
  all: cbn in W; try destruct W as [<-|W]; try contradiction; cbn; try apply (f_equal negb);
    try (apply Found; [left; left; cbn; tauto | exact I | first [left; reflexivity | right; cbn; split; [lia | auto]]]).
Qed.

(** The machine of a program that is given as functions. *)
Definition loaded (V : Type) := private_machine V (list (Z * list V)).

(** For each branch there is a run from each input to the last step, and its result is that of the program. The machine
    in arenas has it at the result's address. *)
Theorem programs_run (input : bool) (arm : Z * Z) : In arm [(1, 1); (2, 2)] ->
  exists (s0 : loaded bool) l m (s t : loaded bool),
  own bool s0 0 0 = input /\
  runs bool q _ (Chosen q (fun _ => arm)) (kernels_of bool q false negations) s0 l m s /\ now bool s = 6 /\
  performs bool q _ (kernels_of bool q false negations l m 6) s t /\ own bool t 6 0 = negb (own bool s 5 0) /\
  exists R code r k, let f := Nat.iter k (arena_step bool q R code no_address) (Arenas bool R (-1) (fun _ => input) r) in
    at_step bool R f = 6 /\ found bool q no_address (content bool R f) 6 0 = own bool t 6 0.
Proof.
  intros A. destruct (checked_plans_progress q branching_accepted) as (_ & Pr & F).
  destruct (checked_plans_run_as_private q branching_accepted) as (_ & Pa & _). destruct (Pr bool) as (_ & _ & Rc).
  set (s0 := Private bool (list (Z * list bool)) (State bool (-1) (fun i x => i = 0 /\ x = 0) (fun _ _ => input)) []).
  assert (G : given bool q s0).
  { split; [split; [reflexivity|]|].
    - intros i x [-> ->]. unfold is_tensor, inside. cbn. repeat split; lia.
    - intros i x T I W. unfold is_tensor in T. cbn in T.
      assert (i = 0 \/ i = 1 \/ i = 2 \/ i = 3 \/ i = 4 \/ i = 5 \/ i = 6) as Cases by lia.
      destruct Cases as [->|[->|[->|[->|[->|[->| ->]]]]]]; try discriminate W. unfold inside in I. cbn in *. lia. }
  destruct (F bool false (fun _ => arm) negations s0 6) as (l & m & s & t & R & E & Pf & D & Own); auto.
  - intros x X. unfold is_exclusive in X. cbn in X. split; [exact X|]. assert (x = 0) as -> by lia. exact A.
  - apply negations_are_local.
  - split; [unfold is_step; cbn; lia|]. intros x a Ar I. apply arms_of_branching in Ar as [_ [->| ->]];
      unfold in_arm in I; cbn in I; lia.
  - exists s0, l, m, s, t. split; [reflexivity|]. split; [auto|]. split; [auto|]. split; [auto|].
    split; [apply (Own 6 0); decided|].
    rewrite <- E in Pf. destruct (Rc _ _ _ _ _ _ _ _ R Pf) as (R' & code & r & r' & k & Ek & Lk).
    assert (Et : now bool t = 6) by (rewrite <- E; exact (acts_same bool q _ _ (performs_acts bool q _ _ _ _ Pf))).
    exists R', code, r, k. destruct (Pa bool R' code no_address s0 (fun _ => input) r k) as (E1 & _ & Ag); auto.
    + intros k' l' x y K L N. exfalso. apply N. unfold is_storage in *. cbn in *.
      assert (Z0 : forall z, 0 <= z < 5 -> arena_of q z = 0).
      { intros z Z. assert (z = 0 \/ z = 1 \/ z = 2 \/ z = 3 \/ z = 4) as Cases by lia.
        destruct Cases as [->|[->|[->|[->| ->]]]]; reflexivity. }
      rewrite !Z0; auto.
    + apply G.
    + intros i x [-> ->]. reflexivity.
    + cbv zeta. rewrite Ek in *. split; [rewrite <- Et; exact E1|].
      apply Ag; [left; exists 6; cbn; rewrite Et; split; [lia|]; split; [decided | right; left; decided]|].
      apply D; cbn; rewrite ?Et; decided.
Qed.

(** A program that loads the input, and takes the branch that it chooses by it. Its registers count its actions and hold
    what it has loaded. *)
Definition deciding (_ : Z) (r : nat * bool) : action bool (nat * bool) :=
  let (k, b) := r in
  let taken := if b then 1 else 2 in
  match k with
  | 0%nat => Go bool _ 0 (1%nat, b) | 1%nat => Load bool _ (fun u => (2%nat, u 0 0))
  | 2%nat => Go bool _ taken (3%nat, b) | 3%nat => Put bool _ (byte taken b) (4%nat, b)
  | 4%nat => Go bool _ 3 (5%nat, b) | _ => Stop bool _
  end.

(** It keeps to its law, and both machines take the branch that the input decides. *)
Theorem data_decide (input : bool) :
  let s := Private bool _ (State bool (-1) (fun i x => i = 0 /\ x = 0) (fun _ _ => input)) (0%nat, false) in
  let own_run k := Nat.iter k (private_step bool q _ deciding) s in
  let run k := Nat.iter k (arena_step bool q _ deciding no_address)
    (Arenas bool _ (-1) (fun _ => input) (0%nat, false)) in
  (forall j, (j < 5)%nat -> lawful bool q _ deciding (own_run j)) /\
  now bool (own_run 3%nat) = at_step bool _ (run 3%nat) /\ at_step bool _ (run 3%nat) = if input then 1 else 2.
Proof.
  cbv zeta. set (s := Private bool _ _ _).
  assert (Sib : forall m n, m <= 0 \/ 3 <= n -> ~ Siblings q m n).
  { intros m n M (x & a & b & A & B & _ & Ia & Ib). apply arms_of_branching in A as (-> & [->| ->]);
      apply arms_of_branching in B as (_ & [->| ->]); unfold in_arm in *; cbn in *; lia. }
  assert (L : forall j, (j < 5)%nat -> lawful bool q _ deciding (Nat.iter j (private_step bool q _ deciding) s)).
  { intros j J. assert (j = 0 \/ j = 1 \/ j = 2 \/ j = 3 \/ j = 4)%nat as C by lia. destruct C as [->|[->|[->|[->| ->]]]].
    - split; [cbn; lia|]. split; [unfold is_step; cbn; lia | apply Sib; cbn; lia].
    - split; [unfold is_step; cbn; lia|]. intros u v Eq. cbn. f_equal. apply Eq; [left; left; cbn; auto | decided|].
      cbn. auto.
    - destruct input; (split; [cbn; lia|]; split; [unfold is_step; cbn; lia | apply Sib; cbn; lia]).
    - destruct input; (split; [unfold is_step; cbn; lia|]; split; [left; cbn; auto|]; split; [unfold is_view; cbn; lia|];
        split; [|reflexivity]; intros x X; apply Z.eqb_eq in X; subst x; unfold inside; cbn; lia).
    - destruct input; (split; [cbn; lia|]; split; [unfold is_step; cbn; lia | apply Sib; cbn; lia]). }
  split; [exact L|]. destruct input; split; reflexivity.
Qed.

(** * A fused step *)

(** An optimizer changes a parameter [0] and its mean [1]. The new parameter depends on both, and the new mean on the old
    parameter. *)
Definition fused := changing (small 1 2 [Storage 0 1 1 0 0 0 0 0; Storage 0 1 1 0 0 1 1 1]
  [Tensor 0 0 1 1 0 0 (-1) (-1) 0 (-1) true true false false (-1) 0 0 0;
   Tensor 1 0 1 1 0 0 (-1) (-1) 0 (-1) true true false false (-1) 0 1 1] [[0; 1]] [[0; 1]] [] (fun _ => (0, 1)))
  (fun _ => [0; 1]).
Definition optimizer : functions bool := fun _ _ _ w u x => if w =? 0 then xorb (u 0 x) (u 1 x) else andb (u 0 x) (u 1 x).
Example fused_accepted : check fused = true.
Proof. vm_compute. reflexivity. Qed.

Theorem fused_steps_are_computed (a b : bool) : exists s t : loaded bool,
  own bool s 0 0 = a /\ own bool s 1 0 = b /\
  performs bool fused _ (kernels_of bool fused false optimizer [] (-1) 0) s t /\
  own bool t 0 0 = xorb a b /\ own bool t 1 0 = andb a b.
Proof.
  destruct (checked_plans_progress fused fused_accepted) as (_ & _ & F).
  set (s0 := Private bool (list (Z * list bool))
    (State bool (-1) (fun i x => is_tensor fused i /\ inside fused i x) (fun i _ => if i =? 0 then a else b)) []).
  assert (Two : forall i, is_tensor fused i -> i = 0 \/ i = 1) by (unfold is_tensor; cbn; lia).
  assert (NA : forall x a, ~ is_arm fused x a) by (intros x c [X _]; unfold is_exclusive in X; cbn in X; lia).
  destruct (F bool false (fun _ => (0, 0)) optimizer s0 0) as (l & m & s & t & R & E & Pf & _ & Own).
  - intros x X. unfold is_exclusive in X. cbn in X. lia.
  - intros l m n w P W _ u v Eq x I. destruct (path_facts fused (check_sound fused fused_accepted) _ _ _ _ P) as (N & _).
    unfold is_step in N. cbn in N. assert (n = 0) as -> by lia.
    assert (Found : forall i, In i [0; 1] -> u i x = v i x).
    { intros i Hi. apply Eq. split; [left; left; exact Hi|]. split; [|left; destruct Hi as [<-|[<-|[]]]; reflexivity].
      unfold inside in *. destruct Hi as [<-|[<-|[]]], W as [<-|[<-|[]]]; exact I. }
    unfold optimizer. rewrite (Found 0), (Found 1) by (cbn; auto). reflexivity.
  - split; [split; [reflexivity|]|].
    + intros i x [T I]. split; [auto|]. split; [auto|]. apply Two in T as [->| ->]; reflexivity.
    + intros i x T I _. cbn. auto.
  - split; [unfold is_step; cbn; lia|]. intros x c A. destruct (NA x c A).
  - exists s, t. inversion R as [n G Go W|l' m' s' t' n R' Pf' D' Go W|l' m' s' t' e R' Pf' D' [] I W]; subst.
    + cbn in E. subst n. split; [reflexivity|]. split; [reflexivity|]. split; [exact Pf|].
      split; [rewrite (Own 0 0); try reflexivity; decided | rewrite (Own 1 0); try reflexivity; decided].
    + exfalso. cbn in E. subst n. destruct Go as (_ & Lt & _). destruct (runs_find bool fused _ _ _ _ _ _ _ R') as [_ P].
      destruct (path_facts fused (check_sound fused fused_accepted) _ _ _ _ P) as (N & _). unfold is_step in N. lia.
Qed.

(** * Loops *)

(** Step 0 enters a loop and writes [w], the body's input. Step 1, the body, reads [w] and writes [b]. Step 2 leaves the
    loop, reads [b], and writes the result [r] and the next iteration's [w]. *)
Definition looping := let p := small 3 3
  [Storage 0 1 1 0 2 0 0 0; Storage 0 1 1 1 2 1 1 1; Storage 0 1 1 0 2 2 2 2]
  [Tensor 0 0 1 1 0 2 0 (-1) 0 (-1) false false false false 0 2 0 0;  (* w *)
   Tensor 1 0 1 1 1 2 1 (-1) 0 (-1) false false false false 1 2 1 1;  (* b *)
   Tensor 2 0 1 1 0 2 2 (-1) 0 (-1) true false false false 0 2 2 2]   (* r *)
  [[]; [0]; [1]] [[0]; [1]; [2]] [] (fun _ => (0, 3)) in
  Plan (allocation p) (tensors p) (tensor_at p) (reads p) (writes p) (mutates p) [(0, 2)] (exclusives p) (exclusive_at p)
    (takes p) (members p) (within p) (also p) (joined p).
Example looping_accepted : check looping = true.
Proof. vm_compute. reflexivity. Qed.

(** The enter starts with false, the body negates, and the leave passes on what the body has made; without an iteration
    it passes on what the enter has stored. *)
Definition counting : program bool unit := fun _ m n =>
  let one w g := put bool unit w (fun x => x =? 0) (fun _ (u : private bool) _ => g u) in
  if n =? 0 then (if m =? 2 then [] else [one 0 (fun _ => false)])
  else if n =? 1 then [one 1 (fun u => negb (u 0 0))]
  else if m =? 0 then [one 2 (fun u => u 0 0)] else [one 2 (fun u => u 1 0); one 0 (fun u => u 1 0)].

Lemma looping_passable : Passable looping 0 2.
Proof.
  split; [left; reflexivity|]. intros z k v Z K W Vw. destruct Vw. cbn in W.
  destruct (k =? 0); [destruct W as [<-|[]]; reflexivity|]. destruct (k - 1 =? 0); [destruct W as [<-|[]]; reflexivity|].
  destruct (k - 1 - 1 =? 0); [destruct W as [<-|[]]; reflexivity | destruct W].
Qed.

Lemma ways_of_looping way l m n : Path looping way l m n ->
  n = 0 /\ (m = -1 \/ m = 2) \/ n = 1 /\ m = 0 /\ l = [0] \/ n = 2 /\ (m = 0 /\ l = [0] \/ m = 1 /\ l = [1; 0]).
Proof.
  assert (G : forall m n, Goes looping m n -> 0 <= n < 3 /\ (n = m + 1 \/ m = 0 /\ n = 2)).
  { intros m' n' (N & Lt & _ & [F|[[F _]|(x & a & [X _] & _)]]); unfold is_step in N; cbn in N; [auto | |].
    - destruct F as [F|[]]. injection F as <- <-. lia.
    - unfold is_exclusive in X. cbn in X. lia. }
  induction 1 as [n Go W|l k m n P IH Go W|l k m e P IH L I W].
  - apply G in Go. lia.
  - apply G in Go as [N F]. assert (m = 0 -> l = []).
    { intros ->. destruct (path_facts looping (check_sound looping looping_accepted) _ _ _ _ P) as (_ & _ & B).
      destruct l as [|z l]; [reflexivity|]. destruct (B z (or_introl eq_refl)). lia. }
    destruct F as [->|[-> ->]].
    + destruct IH as [[-> _]|[(-> & -> & ->)|[-> _]]]; [rewrite H by reflexivity; lia || auto | auto 7 | lia].
    + rewrite H by reflexivity. auto 7.
  - destruct L as [L|[]]. injection L as <- <-. lia.
Qed.

Theorem counting_is_local : Local bool looping unit (fun _ => True) counting.
Proof.
  assert (Put : forall n w g (d : Z -> Z -> Prop) (r : unit), 0 <= n < 3 -> 0 <= w < 3 -> step_writes looping n w ->
    (forall u v : private bool, SameFor bool looping n d u v -> g u = g v) ->
    allowed bool looping n d (Store bool w (fun x => x =? 0) (fun u _ => g u))).
  { intros n w g d r N W Sw Loc. split; [unfold is_step; cbn; lia|]. split; [auto|].
    split; [unfold is_view; cbn; assert (w = 0 \/ w = 1 \/ w = 2) as [->|[->| ->]] by lia; cbn; lia|].
    split; [|intros u v Eq x _; apply Loc; exact Eq]. intros x X. apply Z.eqb_eq in X. subst x. unfold inside.
    assert (w = 0 \/ w = 1 \/ w = 2) as [->|[->| ->]] by lia; cbn; lia. }
  assert (Whole : forall i x, 0 <= i < 3 -> inside looping i x -> (x =? 0) = true).
  { intros i x I H. unfold inside in H. assert (i = 0 \/ i = 1 \/ i = 2) as [->|[->| ->]] by lia; cbn in H;
      apply Z.eqb_eq; lia. }
  intros l m n P. destruct (ways_of_looping _ _ _ _ P) as [[-> [->| ->]]|[(-> & -> & ->)|[-> [[-> ->]|[-> ->]]]]];
    unfold counting; cbn.
  - constructor; [intros r; apply Put; auto; try lia; left; left; reflexivity|]. intros r. constructor.
    intros w x [<-|[]] _ I. left. split; [reflexivity | apply (Whole 0); auto; lia].
  - constructor. intros w x [<-|[]] _ I. split; [right; left; left; reflexivity|]. split; [exact I|]. right. right.
    split; left; reflexivity.
  - constructor.
    + intros r. apply Put; auto; try lia; [left; left; reflexivity|]. intros u v Eq. f_equal.
      apply Eq; [left; left; left; reflexivity | unfold inside; cbn; lia |].
      split; [left; left; left; reflexivity|]. split; [unfold inside; cbn; lia|]. right. left.
      exists 0. split; left; reflexivity.
    + intros r. constructor. intros w x [<-|[]] _ I. left. split; [reflexivity | apply (Whole 1); auto; lia].
  - assert (T : touches looping 2 0) by (right; right; exists 0; split; left; reflexivity). constructor.
    + intros r. apply Put; auto; try lia; [left; left; reflexivity|]. intros u v Eq.
      apply Eq; [exact T | unfold inside; cbn; lia |]. split; [exact T|]. split; [unfold inside; cbn; lia|]. right. left.
      exists 0. split; left; reflexivity.
    + intros r. constructor. intros w x [<-|[]] _ I. left. split; [reflexivity | apply (Whole 2); auto; lia].
  - assert (T : touches looping 2 1) by (left; left; left; reflexivity).
    assert (B : Readable looping [1; 0] 1 2 1 0).
    { split; [exact T|]. split; [unfold inside; cbn; lia|]. right. left. exists 1. split; left; reflexivity. }
    assert (I1 : inside looping 1 0) by (unfold inside; cbn; lia).
    constructor; [intros r; apply Put; auto; try lia; left; left; reflexivity|]. intros r. constructor.
    + intros r'. apply Put; auto; try lia; [right; exists 0; split; left; reflexivity|]. intros u v Eq. apply Eq; auto.
      right. split; [exact B|]. intros ([Q|[]] & _). cbn in Q. discriminate.
    + intros r'. constructor. intros w x [<-|[]] _ I. right. split.
      * left. split; [reflexivity | apply (Whole 2); auto; lia].
      * intros ([Q|[]] & _). cbn in Q. discriminate.
Qed.

(** All that instructions leave in private memory, where no view is made. *)
Fixpoint after (l : list (instruction bool unit)) (u : private bool) : private bool :=
  match l with
  | [] => u
  | load _ _ _ :: l => after l u
  | put _ _ w c f :: l => after l (store_own bool (Store bool w c (f tt)) u)
  end.
Lemma performs_after l s t : performs bool looping unit l s t ->
  own bool t = after l (own bool s) /\ now bool t = now bool s.
Proof.
  induction 1 as [s|l s v t N T Vw W P IH|f l s t L N P IH|w c f l s t A P IH]; auto.
  - destruct Vw. unfold is_tensor in T. cbn in T. assert (v = 0 \/ v = 1 \/ v = 2) as [->|[->| ->]] by lia; reflexivity.
  - cbn in *. destruct (registers bool unit s). auto.
Qed.

(** A run of this program from the beginning. No tensor has a value then. *)
Definition nothing : private_machine bool unit :=
  Private bool unit (State bool (-1) (fun _ _ => False) (fun _ _ => false)) tt.
Definition counts := runs bool looping unit (fun _ => True) counting nothing.

Lemma nothing_given : given bool looping nothing.
Proof.
  split; [split; [reflexivity | intros i x []]|]. intros i x T I W. unfold is_tensor in T. cbn in T.
  assert (i = 0 \/ i = 1 \/ i = 2) as [->|[->| ->]] by lia; discriminate W.
Qed.

Lemma counting_goes m n : -1 <= m -> n = m + 1 \/ m = 0 /\ n = 2 -> 0 <= n < 3 -> Goes looping m n.
Proof.
  intros M F N. split; [unfold is_step; cbn; lia|]. split; [lia|]. split.
  - intros (x & a & b & [X _] & _). unfold is_exclusive in X. cbn in X. lia.
  - destruct F as [F|[-> ->]]; [auto | right; left; exact looping_passable].
Qed.

Lemma counting_ends l m s : counts l m s -> exists t, performs bool looping unit (counting l m (now bool s)) s t /\
  done bool looping t /\ own bool t = after (counting l m (now bool s)) (own bool s).
Proof.
  intros R. destruct (checked_plans_progress looping looping_accepted) as (_ & Pr & _). destruct (Pr bool) as (Stuck & _).
  destruct (Stuck unit _ _ _ _ _ _ counting_is_local R) as (t & P & D). exists t. split; [auto|]. split; [auto|].
  apply (performs_after _ _ _ P).
Qed.

Lemma counting_next l m s n : counts l m s -> Goes looping (now bool s) n -> exists u,
  counts (now bool s :: l) (now bool s) u /\ now bool u = n /\
  own bool u = after (counting l m (now bool s)) (own bool s).
Proof.
  intros R G. destruct (counting_ends _ _ _ R) as (t & P & D & O). eexists. split; [eapply run_onward; eauto|]. auto.
Qed.

(** There are runs with any number of iterations, and each negates what the one before has made. A run without an
    iteration comes to the leave too, and has a result. *)
Theorem loops_run :
  (forall k, exists l m s, counts l m s /\ now bool s = 1 /\ own bool s 0 0 = Nat.odd k) /\
  exists s t, counts [0] 0 s /\ now bool s = 2 /\ performs bool looping unit (counting [0] 0 2) s t /\
    done bool looping t /\ own bool t 2 0 = false.
Proof.
  set (s1 := Private bool unit (moved bool nothing 0) tt).
  assert (R1 : counts [] (-1) s1).
  { apply run_first; [apply nothing_given | apply counting_goes; lia | exact I]. }
  split.
  - induction k as [|k (l & m & s & R & E & O)].
    + destruct (counting_next _ _ _ 1 R1) as (u & R & E & O); [apply counting_goes; cbn; lia|].
      exists [0], 0, u. split; [exact R|]. split; [exact E | rewrite O; reflexivity].
    + destruct (runs_find _ _ _ _ _ _ _ _ _ R) as [_ P]. rewrite E in P.
      destruct (ways_of_looping _ _ _ _ P) as [[? _]|[(_ & -> & ->)|[? _]]]; try lia.
      destruct (counting_next _ _ _ 2 R) as (u & R2 & E2 & O2); [rewrite E; apply counting_goes; lia|].
      rewrite E in *. destruct (counting_ends _ _ _ R2) as (t & Pt & D & Ot).
      assert (R3 : counts [] 2 (Private bool unit (begun_again bool looping t 0) (registers bool unit t))).
      { pose proof (run_again bool looping unit (fun _ => True) counting nothing _ _ u t 0 R2 Pt D) as H.
        rewrite E2 in H. apply H; cbn; auto. }
      destruct (counting_next _ _ _ 1 R3) as (v & R4 & E4 & O4); [apply counting_goes; cbn; lia|].
      eexists _, _, v. split; [exact R4|]. split; [exact E4|]. rewrite O4. cbn. rewrite Ot, E2. cbn.
      unfold store_own. cbn.
      rewrite O2. cbn. unfold store_own. cbn. rewrite O, Nat.odd_succ, Nat.negb_odd. reflexivity.
  - destruct (counting_next _ _ _ 2 R1) as (u & R & E & O); [apply counting_goes; cbn; lia|].
    destruct (counting_ends _ _ _ R) as (t & P & D & Ot). cbn in P, Ot. rewrite E in *. exists u, t.
    split; [exact R|]. split; [auto|]. split; [exact P|]. split; [exact D|]. rewrite Ot. cbn. unfold store_own. cbn.
    rewrite O. reflexivity.
Qed.

(** * Shapes *)

(** Each tensor may have fewer bytes, even none. A result in place must have as many as its operand, a view must be
    inside of its base, and no tensor may have more than planned. *)
Example shapes_of_branching : Shrinks branching (fun _ => 0) /\ Shrinks branching (fun _ => 1) /\
  ~ Safe (at_sizes branching (fun i => if i =? 5 then 0 else 1)) /\
  ~ Safe (at_sizes branching (fun i => if i =? 3 then 0 else 1)) /\ ~ Safe (at_sizes branching (fun _ => 2)).
Proof.
  assert (S : forall n, 0 <= n <= 1 -> Shrinks branching (fun _ => n)).
  { intros n N. split; [|split; [reflexivity|]].
    - intros i T. unfold is_tensor in T. cbn in T. split; [lia|].
      assert (i = 0 \/ i = 1 \/ i = 2 \/ i = 3 \/ i = 4 \/ i = 5 \/ i = 6) as C by lia.
      destruct C as [->|[->|[->|[->|[->|[->| ->]]]]]]; cbn; lia.
    - intros v T V. unfold is_tensor in T. cbn in T.
      assert (v = 0 \/ v = 1 \/ v = 2 \/ v = 3 \/ v = 4 \/ v = 5 \/ v = 6) as C by lia.
      destruct C as [->|[->|[->|[->|[->|[->| ->]]]]]]; cbn; lia. }
  split; [apply S; lia|]. split; [apply S; lia|]. split; [|split].
  - intros (_ & _ & _ & _ & _ & _ & _ & IP & _). destruct (IP 6) as (_ & _ & _ & B & _); [decided | decided |].
    cbn in B. lia.
  - intros (_ & _ & _ & _ & _ & _ & VS & _). destruct (VS 4) as (_ & _ & _ & _ & B & _); [decided | decided |].
    cbn in B. lia.
  - intros (_ & _ & _ & TW & _). destruct (TW 0) as (_ & _ & B & _); [decided|]. cbn in B. lia.
Qed.

Print Assumptions storages_may_be_ill_placed.
Print Assumptions not_every_plan_runs_as_private.
Print Assumptions programs_run.
Print Assumptions data_decide.
Print Assumptions fused_steps_are_computed.
Print Assumptions counting_is_local.
Print Assumptions loops_run.

(** * Inputs that are kept (Z1): an input and a result that share no byte, with or without the caller's read at the end *)
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
