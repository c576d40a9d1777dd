(** A local program runs on a safe plan: at each step it finds the tensors that it reads, and every choice of branches
    leads to its steps. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Safe Run ListsProof RunProof.
Import ListNotations.
Open Scope Z_scope.

Section ProgressProof.
Variable V : Type.
Variable p : plan.
Hypothesis safe : Safe p.

(** * One step *)

Lemma view_made n v : is_step p n -> In v (writes p n) -> is_view p v -> is_tensor p v /\ made (tensor_at p v) = n /\
  Stays p (base (tensor_at p v)) n /\ writer (tensor_at p (base (tensor_at p v))) < n /\
  In (base (tensor_at p v)) (reads p n) /\
  0 <= shift (tensor_at p v) /\ shift (tensor_at p v) + bytes (tensor_at p v) <= bytes (tensor_at p (base (tensor_at p v))).
Proof.
  intros N W Vw. assert (T : is_tensor p v) by (eapply (written p safe n); eauto; left; auto).
  destruct (all_safe p safe) as (_ & _ & Vs & _). destruct (Vs v T Vw) as (_ & _ & _ & S0 & S1 & _ & Rd & Once).
  assert (E : n = made (tensor_at p v)) by (apply Once; auto; left; auto).
  destruct (writers p safe v T) as [[_ M]|[Nw _]]; cbv zeta in *; [unfold is_step in N; lia|].
  destruct (Rd Nw) as (St & Lt & I). rewrite <- E in *. auto 10.
Qed.

(** A view's base exists before its step. *)
Lemma base_readable way l m n v x : Path p way l m n -> In v (writes p n) -> is_view p v -> inside p v x ->
  Readable p l m n (base (tensor_at p v)) (shift (tensor_at p v) + x).
Proof.
  intros P W Vw I. destruct (path_facts p safe _ _ _ _ P) as (N & _).
  destruct (view_made n v N W Vw) as (T & M & St & Lt & Rd & S0 & S1).
  split; [left; left; auto|]. split; [unfold inside in *; lia|].
  destruct (all_safe p safe) as (_ & (_ & _ & _ & R & _) & _).
  destruct (R n _ N Rd) as [Wr|[Wr|[[Wr _]|(y & -> & (_ & _ & _ & L & _))]]];
    [left; auto | | lia | unfold Stays in St; lia].
  right. left.
  destruct (written_met p safe _ _ _ _ _ P Wr) as [Wr'|(e & f & z & [L Closed] & Ie & Le & No & Z & Wz)]; auto.
  exfalso. apply (Closed z n v Z); auto. lia.
Qed.

(** A view that a step makes is not overwritten by it. *)
Lemma view_kept n v w : is_step p n -> In v (writes p n) -> is_view p v -> step_writes p n w -> ~ Replaces p w v.
Proof.
  intros N W Vw Ww R. destruct (view_made n v N W Vw) as (T & M & _).
  destruct (written p safe n w N Ww) as [Tw Sw]. assert (Sv : Stays p v n) by (apply (writes_stay p safe); auto).
  unfold Stays in *. destruct (all_safe p safe) as (_ & _ & _ & P & _ & _ & _ & Dead). destruct R as [R|R].
  - destruct (P w Tw) as (_ & _ & _ & _ & _ & _ & L & _); [unfold is_tensor in T; lia|]. rewrite R in L. lia.
  - apply Dead in R. lia.
Qed.

(** The views that a step makes are no tensors that it finds. *)
Lemma view_not_found way l m n v x : Path p way l m n -> is_tensor p v -> is_view p v -> step_writes p n v ->
  ~ Readable p l m n v x.
Proof.
  intros P T Vw W (_ & _ & R). destruct (path_facts p safe _ _ _ _ P) as (N & _ & B).
  destruct (all_safe p safe) as (_ & _ & Vs & _). destruct (Vs v T Vw) as (_ & _ & _ & _ & _ & _ & _ & Once).
  pose proof (Once n N W) as M. unfold is_step in N. destruct R as [R|[(z & J & Wz)|[L Wn]]].
  - destruct (writers p safe v T) as [[_ ?]|[? _]]; cbv zeta in *; lia.
  - destruct (B z J) as [Bz _]. assert (z = made (tensor_at p v)); [|lia].
    apply Once; [unfold is_step; lia | left; auto].
  - destruct (loop p safe _ _ L) as (? & ? & _). assert (m = made (tensor_at p v)); [|lia].
    apply Once; [unfold is_step; lia | right; eauto].
Qed.

Section Programs.
Variable R : Type.
Local Notation machine := (private_machine V R).

Lemma acts_before s t u : acts V p s t -> acts V p t u -> acts V p s u.
Proof. intros A B. induction B; auto; [apply stores | apply views]; auto. Qed.

Lemma performs_acts l (s t : machine) : performs V p R l s t -> acts V p s t.
Proof.
  induction 1 as [s|l s v t N T Vw W P IH|f l s t L N P IH|w c f l s t A P IH]; [constructor | | exact IH |];
    eapply acts_before; eauto; [apply views | apply stores]; auto; constructor.
Qed.

Definition views_done (n : Z) (s : state V) : Prop := forall v x, In v (writes p n) -> is_view p v -> inside p v x ->
  defined V s v x.

(** All views of a step can be made. *)
Lemma makes_views way l m n vs : Path p way l m n -> (forall v, In v vs -> In v (writes p n) /\ is_view p v) ->
  forall s : machine, now V s = n -> (forall i x, Readable p l m n i x -> defined V s i x) ->
  exists u : machine, now V u = n /\ (forall i x, Readable p l m n i x -> defined V u i x) /\
    (forall v x, In v vs -> inside p v x -> defined V u v x) /\
    forall k t, performs V p R k u t -> performs V p R k s t.
Proof.
  intros P. destruct (path_facts p safe _ _ _ _ P) as (N & _). induction vs as [|v vs IH]; intros L s E D.
  - exists s. repeat split; auto. intros v x [].
  - destruct IH with (s := s) as (u & Eu & Du & Vu & Pu); auto; [intros w Hw; apply L; right; auto|].
    destruct (L v (or_introl eq_refl)) as [W Vw]. destruct (view_made n v N W Vw) as (T & _).
    assert (B : forall x, inside p v x -> defined V u (base (tensor_at p v)) (shift (tensor_at p v) + x))
      by (intros x I; apply Du; eapply base_readable; eauto).
    assert (Keep : forall i x, inside p i x -> defined V u i x -> defined V (shown V p u v) i x).
    { intros i x I Dx. cbn. destruct (Z.eq_dec i v) as [->|Ne]; auto. }
    exists (Private V R (shown V p u v) (registers V R u)). split; [exact Eu|]. split; [|split].
    + intros i x Re. apply Keep; [apply Re | auto].
    + intros w x [<-|Hw] I; [cbn; left; auto | apply Keep; auto].
    + intros k t Q. apply Pu. apply makes_view with v; rewrite ?Eu; auto. left. auto.
Qed.

Lemma same_for_more n (d : Z -> Z -> Prop) (s : state V) u v : now V s = n -> (forall i x, d i x -> defined V s i x) ->
  SameFor V p (now V s) (defined V s) u v -> SameFor V p n d u v.
Proof. intros <- D Eq i x T I Dx. apply Eq; auto. Qed.

(** A kernel to which fewer bytes are known than are defined can carry out its instructions. *)
Lemma makes_stores n l d : is_step p n -> Kernel V p R n d l -> forall s : machine, now V s = n ->
  (forall i x, d i x -> defined V s i x) -> views_done n s -> exists t, performs V p R l s t /\ done V p t.
Proof.
  intros N K. induction K as [d All|d f l Loc K IH|d w c f l A K IH]; intros s E D Vs.
  - exists s. split; [constructor|]. intros w x _ W I. rewrite E in W.
    destruct (Z.eq_dec (base (tensor_at p w)) (-1)) as [B|B]; [|apply Vs; auto].
    apply D, All; auto.
  - destruct (IH (Private V R s (f (own V s) (registers V R s)))) as (t & P & F); auto.
    exists t. split; auto. constructor; auto; [|congruence]. intros u v Eq. apply Loc. eapply same_for_more; eauto.
  - destruct (A (registers V R s)) as (_ & Ww & Vw & I & Loc).
    destruct (IH (registers V R s) (Private V R (stored V p s (Store V w c (f (registers V R s)))) (registers V R s)))
      as (t & P & F); auto.
    + intros i x [?|[Dx Nr]]; [left; auto | right; auto].
    + intros v x W Vv In_. right. split; [apply Vs; auto|]. intros (Re & _). exact (view_kept n v w N W Vv Ww Re).
    + exists t. split; auto. constructor; auto. rewrite E. split; [auto|]. split; [auto|]. split; [auto|].
      split; [auto|]. intros u v Eq. apply Loc. rewrite <- E in Eq. eapply same_for_more; eauto.
Qed.

(** The meaning of [runs] about control and values. *)
Lemma runs_find way f s0 l m s : runs V p R way f s0 l m s -> in_full V p l m s /\ Path p way l m (now V s).
Proof.
  induction 1 as [n G Go W|l m s t n Rn [F P] Pf D Go W|l m s t e Rn [F P] Pf D L I W].
  - split; constructor; auto.
  - apply performs_acts in Pf. split; econstructor; eauto.
  - apply performs_acts in Pf. split; econstructor; eauto.
Qed.

Lemma never_stuck way f s0 l m s : Local V p R way f -> runs V p R way f s0 l m s ->
  exists t, performs V p R (f l m (now V s)) s t /\ done V p t.
Proof.
  intros L Rn. destruct (runs_find _ _ _ _ _ _ Rn) as (F & P).
  pose proof (L l m (now V s) P) as K. destruct (path_facts p safe _ _ _ _ P) as (N & _).
  set (vs := filter (fun v => negb (base (tensor_at p v) =? -1)) (writes p (now V s))).
  assert (Vs : forall v, In v vs <-> In v (writes p (now V s)) /\ is_view p v).
  { intros v. unfold vs, is_view. rewrite filter_In, negb_true_iff, Z.eqb_neq. tauto. }
  destruct (makes_views way l m (now V s) vs P) with (s := s) as (u & Eu & Du & Vu & Pu); auto; [intros v; apply Vs | |].
  - intros i x Re. eapply finds_readable; eauto.
  - destruct (makes_stores (now V s) _ _ N K u Eu Du) as (t & Pt & D).
    + intros v x Iv Vv. apply Vu. apply Vs. auto.
    + exists t. auto.
Qed.

(** * Runs as those of machines *)

(** What one run does, as a program of its own: the registers hold what is left to do. *)
Inductive command := Do (i : instruction V R) | Make (v : Z) | Next (n : Z) | Again (e : Z).
Definition script (_ : Z) (c : R * list command) : action V (R * list command) :=
  let (r, l) := c in
  match l with
  | [] => Stop V _
  | Do (load _ _ f) :: l => Load V _ (fun u => (f u r, l))
  | Do (put _ _ w c f) :: l => Put V _ (Store V w c (f r)) (r, l)
  | Make v :: l => Show V _ v (r, l)
  | Next n :: l => Go V _ n (r, l)
  | Again e :: l => Back V _ e (r, l)
  end.
Definition scripted (s : machine) (l : list command) : private_machine V (R * list command) :=
  Private V _ s (registers V R s, l).
Definition carries_out (l : list command) (s t : machine) : Prop := forall rest, exists k,
  Nat.iter k (private_step V p _ script) (scripted s (l ++ rest)) = scripted t rest /\
  forall j, (j < k)%nat -> lawful V p _ script (Nat.iter j (private_step V p _ script) (scripted s (l ++ rest))).

Lemma iter_more {A} (f : A -> A) (j k : nat) a : Nat.iter (j + k) f a = Nat.iter j f (Nat.iter k f a).
Proof. induction j as [|j IH]; [reflexivity|]. exact (f_equal f IH). Qed.

Lemma carries_more l l' s t u : carries_out l s t -> carries_out l' t u -> carries_out (l ++ l') s u.
Proof.
  intros H H' rest. destruct (H (l' ++ rest)) as (k & E & L), (H' rest) as (k' & E' & L'). exists (k' + k)%nat.
  rewrite <- app_assoc. split; [rewrite iter_more, E; auto|]. intros j J.
  destruct (Nat.lt_ge_cases j k) as [|Ge]; [apply L; auto|].
  replace j with (j - k + k)%nat by lia. rewrite iter_more, E. apply L'. lia.
Qed.

Lemma carries_one c s t : (forall rest, private_step V p _ script (scripted s (c :: rest)) = scripted t rest) ->
  (forall rest, lawful V p _ script (scripted s (c :: rest))) -> carries_out [c] s t.
Proof.
  intros E L rest. exists 1%nat. split; [apply E|]. intros j J. replace j with 0%nat by lia. apply L.
Qed.

Lemma performs_carries l s t : performs V p R l s t -> exists cs, carries_out cs s t.
Proof.
  induction 1 as [s|l s v t N T Vw W P (cs & IH)|f l s t L N P (cs & IH)|w c f l s t A P (cs & IH)].
  - exists []. intros rest. exists 0%nat. split; [reflexivity|]. intros j J. lia.
  - exists ([Make v] ++ cs). eapply carries_more; [|exact IH]. apply carries_one; [reflexivity|]. intros rest.
    split; auto.
  - exists ([Do (load V R f)] ++ cs). eapply carries_more; [|exact IH]. apply carries_one; [reflexivity|]. intros rest.
    split; [auto|]. intros u v Eq. cbn in *. f_equal. apply L. assumption.
  - exists ([Do (put V R w c f)] ++ cs). eapply carries_more; [|exact IH]. apply carries_one; [reflexivity|].
    intros rest. exact A.
Qed.

Lemma runs_carries way f s0 l m s : runs V p R way f s0 l m s -> exists cs, carries_out cs s0 s.
Proof.
  induction 1 as [n G Go W|l m s t n Rn (cs & IH) Pf D Go W|l m s t e Rn (cs & IH) Pf D L I W].
  - exists [Next n]. apply carries_one; [reflexivity|]. intros rest. destruct G as [[E _] _].
    destruct Go as (N & Lt & Sib & _). cbn. rewrite E. split; [lia | auto].
  - pose proof (acts_same V p _ _ (performs_acts _ _ _ Pf)) as E. apply performs_carries in Pf as (cs' & Pf).
    exists (cs ++ cs' ++ [Next n]). repeat (eapply carries_more; eauto). apply carries_one; [reflexivity|].
    intros rest. destruct Go as (N & Lt & Sib & _). cbn. rewrite E. split; [lia | auto].
  - pose proof (acts_same V p _ _ (performs_acts _ _ _ Pf)) as E. apply performs_carries in Pf as (cs' & Pf).
    exists (cs ++ cs' ++ [Again e]). repeat (eapply carries_more; eauto). apply carries_one; [reflexivity|].
    intros rest. cbn. rewrite E. assumption.
Qed.

Lemma runs_reach way f s0 l m s t : runs V p R way f s0 l m s -> performs V p R (f l m (now V s)) s t ->
  Reaches V p s0 t.
Proof.
  intros Rn Pf. apply runs_carries in Rn as (cs & Rn). apply performs_carries in Pf as (cs' & Pf).
  destruct (carries_more _ _ _ _ _ Rn Pf []) as (k & E & L).
  exists _, script, (registers V R s0, (cs ++ cs') ++ []), (registers V R t, []), k. split; [exact E | exact L].
Qed.
End Programs.

(** * The path of a choice *)

Section Choosing.
Variable c : Z -> Z * Z.
Hypothesis choice : Choice p c.

(** If a branch and a node have a step in common, one holds the other, or the branch is the node's. *)
Lemma arm_and_node x y b m : is_exclusive p x -> is_arm p y b -> in_arm b m -> enter_of p x <= m < leave_of p x ->
  in_arm b (enter_of p x) /\ in_arm b (leave_of p x) \/ x = y \/
  exists a, is_arm p x a /\ in_arm a (enter_of p y) /\ in_arm a (leave_of p y).
Proof.
  intros X B I M. pose proof (node p safe x X). pose proof (node p safe y (proj1 B)).
  pose proof (arm_bounds p safe y b B) as Bb. unfold in_arm in I.
  destruct (Z.lt_total (leave_of p y) (leave_of p x)) as [L|[L|L]].
  - right. right. destruct (arm_at_step p safe x (leave_of p y) X) as (a & A & Ia); [lia|].
    exists a. split; auto. split; auto. eapply (leave_nests p safe y x); eauto. apply B.
  - right. left. apply (one_leave p safe); auto. apply B.
  - left. destruct (arm_at_step p safe y (leave_of p x) (proj1 B)) as (b' & B' & I'); [lia|].
    pose proof (leave_nests p safe x y b' X B' I') as I''.
    replace b with b'; auto. apply (one_arm p safe y b' b m); auto; unfold in_arm in *; lia.
Qed.

Lemma enter_chosen x n : Chosen p c n -> is_exclusive p x -> enter_of p x < n <= leave_of p x ->
  Chosen p c (enter_of p x).
Proof.
  intros [N Ch] X L. pose proof (node p safe x X). split; [unfold is_step in *; lia|]. intros y b B I.
  pose proof (arm_bounds p safe y b B).
  destruct (arm_and_node x y b (enter_of p x) X B I) as [[I1 I2]|[->|(a & A & Ia & _)]]; [lia| | |].
  - apply Ch; auto. unfold in_arm in *. lia.
  - unfold in_arm in I. lia.
  - pose proof (arm_bounds p safe x a A). unfold in_arm in *. lia.
Qed.

Lemma end_chosen x : Chosen p c (leave_of p x) -> is_exclusive p x -> fst (c x) <= snd (c x) -> Chosen p c (snd (c x)).
Proof.
  intros [N Ch] X L. pose proof (node p safe x X). pose proof (choice x X) as A.
  pose proof (arm_bounds p safe x (c x) A). split; [unfold is_step in *; lia|]. intros y b B I.
  pose proof (node p safe y (proj1 B)). pose proof (arm_bounds p safe y b B).
  destruct (arm_and_node x y b (snd (c x)) X B I) as [[_ I']|[->|(a & A' & I1 & I2)]]; [lia|auto| |].
  - apply (one_arm p safe y b (c y) (snd (c y))); auto. unfold in_arm. lia.
  - unfold in_arm in *. replace a with (c x) in *; [lia|].
    apply (one_arm p safe x (c x) a (snd (c x))); auto; unfold in_arm; lia.
Qed.

Lemma no_siblings m n : Chosen p c m -> Chosen p c n -> ~ Siblings p m n.
Proof. intros [_ M] [_ N] (x & a & b & A & B & D & Ia & Ib). apply D. rewrite (M x a), (N x b); auto. Qed.

(** Each step of the choice is the first, or control comes to it from one before. *)
Lemma comes_from n : Chosen p c n -> n = 0 \/ exists m, Chosen p c m /\ Goes p m n.
Proof.
  intros Ch. pose proof Ch as [N Arms].
  assert (Step : forall m, Chosen p c m -> m < n -> (n = m + 1 \/ Passable p m n \/ exists x a, is_arm p x a /\
    (m = enter_of p x /\ n = fst a /\ fst a <= snd a \/ m = snd a /\ n = leave_of p x /\ fst a <= snd a \/
     m = enter_of p x /\ n = leave_of p x /\ snd a < fst a)) -> exists m, Chosen p c m /\ Goes p m n).
  { intros m Cm L F. exists m. split; [auto|]. split; [auto|]. split; [auto|]. split; [apply no_siblings; auto | auto]. }
  unfold is_step in N.
  destruct (existsb (fun x => leave_of p x =? n) (run 0 (exclusives p))) eqn:Lv.
  { apply existsb_exists in Lv as (x & X & E). apply run_spec in X. apply Z.eqb_eq in E. subst n. right.
    pose proof (choice x X) as A. pose proof (arm_bounds p safe x _ A). pose proof (node p safe x X).
    destruct (Z_le_gt_dec (fst (c x)) (snd (c x))) as [L|L].
    - apply (Step (snd (c x))); [apply end_chosen; auto | lia |]. right. right. exists x, (c x). split; auto 6.
    - apply (Step (enter_of p x)); [eapply enter_chosen; eauto; lia | lia |]. right. right. exists x, (c x).
      split; auto. right. right. lia. }
  destruct (existsb (fun x => existsb (fun a => (fst a =? n) && (n <=? snd a)) (arms (exclusive_at p x)))
    (run 0 (exclusives p))) eqn:Fst.
  { apply existsb_exists in Fst as (x & X & E). apply run_spec in X. apply existsb_exists in E as (a & Ia & E). facts.
    subst n. right. assert (A : is_arm p x a) by (split; auto). pose proof (arm_bounds p safe x a A).
    apply (Step (enter_of p x)); [eapply enter_chosen; eauto; lia | lia |]. right. right. exists x, a. split; auto. }
  destruct (Z.eq_dec n 0) as [->|Nz]; [left; auto|]. right. apply (Step (n - 1)); [|lia | left; lia].
  split; [unfold is_step; lia|]. intros y b B I. pose proof (node p safe y (proj1 B)) as Ny.
  pose proof (arm_bounds p safe y b B) as Bb. unfold in_arm in I.
  destruct (Z_le_gt_dec n (snd b)) as [L|L]; [apply Arms; auto; unfold in_arm; lia|]. exfalso.
  assert (Nl : n <> leave_of p y).
  { intros ->. rewrite <- not_true_iff_false in Lv. apply Lv. apply existsb_exists. exists y.
    split; [apply run_spec, B | apply Z.eqb_eq; auto]. }
  destruct (arm_at_step p safe y n (proj1 B)) as (a & A & Ia); [lia|]. unfold in_arm in Ia.
  rewrite <- not_true_iff_false in Fst. apply Fst. apply existsb_exists. exists y. split; [apply run_spec, B|].
  apply existsb_exists. exists a. split; [apply A|]. apply andb_true_iff. rewrite Z.eqb_eq, Z.leb_le.
  destruct (arms_ordered p safe y b a B A) as [->|[?|?]]; lia.
Qed.

Lemma comes_to R f (s0 : private_machine V R) : Local V p R (Chosen p c) f -> given V p s0 -> forall n, Chosen p c n ->
  exists l m s, runs V p R (Chosen p c) f s0 l m s /\ now V s = n.
Proof.
  intros L G n Ch. assert (N : 0 <= n) by (unfold Chosen, is_step in Ch; lia). revert n N Ch.
  apply (Z_lt_induction (fun n => Chosen p c n -> exists l m s, runs V p R (Chosen p c) f s0 l m s /\ now V s = n)).
  intros n IH Ch. pose proof Ch as [N _].
  destruct (comes_from n Ch) as [->|(m & Cm & Go)].
  - exists [], (-1), (Private V R (moved V s0 0) (registers V R s0)). split; [|reflexivity]. constructor; auto.
    split; [auto|]. split; [lia|]. split; [|left; lia]. intros (x & a & b & A & _ & _ & Ia & _).
    pose proof (arm_bounds p safe x a A). pose proof (node p safe x (proj1 A)). unfold in_arm in Ia. lia.
  - destruct (IH m) as (l & k & s & Rn & E); 
      [destruct Go as (_ & Lt & _), Cm as [Sm _]; unfold is_step in Sm; lia | auto |].
    destruct (never_stuck _ _ _ _ _ _ _ L Rn) as (t & P & D). subst m.
    exists (now V s :: l), (now V s), (Private V R (moved V t n) (registers V R t)). split; [|reflexivity].
    eapply run_onward; eauto.
Qed.
End Choosing.

Theorem progress : Progress V p.
Proof.
  split; [exact never_stuck|]. split; [intros R c f s0 n C L G Ch; eapply comes_to; eauto | exact runs_reach].
Qed.

(** * Functions *)

Lemma results_of n w : In w (results p n) <-> In w (writes p n) /\ ~ is_view p w.
Proof. unfold results, is_view. rewrite nodup_In, filter_In, Z.eqb_eq. split; intros [? ?]; split; auto; lia. Qed.

Lemma whole_result_spec w x : whole_result p w x = true <-> inside p w x.
Proof. unfold whole_result, inside. rewrite andb_true_iff, Z.leb_le, Z.ltb_lt. tauto. Qed.

(** A result takes the place of no other of its step. *)
Lemma result_kept n w o x : is_step p n -> In w (writes p n) -> ~ is_view p w -> In o (writes p n) -> w <> o ->
  inside p w x -> inside p o x -> ~ Replaces p o w.
Proof.
  intros N Ww Vw Wo D I J R. destruct (written p safe n w N) as [Tw Sw]; [left; auto|].
  destruct (written p safe n o N) as [To So]; [left; auto|]. unfold Stays in *.
  destruct (all_safe p safe) as (_ & _ & _ & P & Dis & _ & _ & Dead). destruct R as [R|R].
  2: { apply Dead in R. lia. }
  destruct (P o To) as (_ & Hm & Ad & _ & Nd & Md & L & _); [unfold is_tensor in Tw; lia|]. rewrite R in *.
  assert (o <> w) by congruence. destruct (Dis n w o x x) as ([Q|Q] & _); auto; [left; auto | unfold tensor_arena; rewrite Hm; auto | lia | |].
  - destruct (P w Tw) as (_ & _ & _ & _ & _ & _ & L' & _); [unfold is_tensor in To; lia|]. rewrite Q in L'. lia.
  - apply Dead in Q. lia.
Qed.

Lemma load_all_same l m n (g : functions V) way u v : Path p way l m n -> LocalFunctions V p way g ->
  (forall i x, Readable p l m n i x -> u i x = v i x) ->
  load_all V p (g l m n) (results p n) u = load_all V p (g l m n) (results p n) v.
Proof.
  intros P Loc Eq. apply map_ext_in. intros w Iw. f_equal. apply map_ext_in. intros x Ix. apply in_seq in Ix.
  apply results_of in Iw as [Iw Vw]. apply (Loc l m n w P Iw Vw u v Eq). unfold inside. lia.
Qed.

Lemma register_loaded zero g ws u w x : In w ws -> inside p w x -> register V zero (load_all V p g ws u) w x = g w u x.
Proof.
  intros Iw I. unfold register. induction ws as [|o ws IH]; [destruct Iw|]. cbn.
  destruct (Z.eqb_spec o w) as [->|Ne]; [|apply IH; destruct Iw; [contradiction | auto]]. cbn. unfold inside in I.
  assert (K : (Z.to_nat x < Z.to_nat (bytes (tensor_at p w)))%nat) by lia.
  rewrite nth_indep with (d' := g w u (Z.of_nat 0)); [|rewrite map_length, seq_length; lia].
  rewrite (map_nth (fun k => g w u (Z.of_nat k))), seq_nth by lia. f_equal. lia.
Qed.

Lemma functions_are_kernels way zero g : LocalFunctions V p way g -> Local V p _ way (kernels_of V p zero g).
Proof.
  intros Loc l m n P. destruct (path_facts p safe _ _ _ _ P) as (N & _). unfold kernels_of. constructor.
  { intros r u v Eq. eapply load_all_same; eauto. intros i x Re. apply Eq; [apply Re | apply Re | exact Re]. }
  assert (G : forall ws before (d : Z -> Z -> Prop), NoDup (before ++ ws) ->
    (forall w, In w (before ++ ws) <-> In w (results p n)) -> (forall w x, In w before -> inside p w x -> d w x) ->
    Kernel V p _ n d (map (fun w => put V _ w (whole_result p w) (fun r _ x => register V zero r w x)) ws)).
  { induction ws as [|w ws IH]; intros before d ND All St; cbn.
    - constructor. intros w x Iw Vw I. apply St; auto. rewrite app_nil_r in All. apply All, results_of. auto.
    - assert (Iw : In w (results p n)) by (apply All, in_app_iff; right; left; auto). apply results_of in Iw as [Iw Vw].
      constructor.
      + intros r. split; [auto|]. split; [left; auto|]. split; [auto|]. split; [|reflexivity]. intros x.
        apply whole_result_spec.
      + intros r. apply (IH (before ++ [w])); rewrite <- ?app_assoc; auto. intros o x Io I.
        apply in_app_iff in Io as [Io|[<-|[]]]; [|left; split; auto; apply whole_result_spec; auto].
        right. split; [apply St; auto|]. intros (Q & D & C). cbn in *. apply whole_result_spec in C.
        assert (Ro : In o (results p n)) by (apply All, in_app_iff; auto). apply results_of in Ro as [Wo Vo].
        exact (result_kept n o w x N Wo Vo Iw D I C Q). }
  apply (G (results p n) []); cbn; [apply NoDup_nodup | tauto | intros w x []].
Qed.

Local Notation registers_of := (list (Z * list V)).

Lemma results_stored zero k (s t : private_machine V registers_of) : performs V p _ k s t -> forall ws,
  k = map (fun w => put V _ w (whole_result p w) (fun r _ x => register V zero r w x)) ws -> NoDup ws ->
  (forall w, In w ws -> ~ is_view p w) ->
  (forall w x, In w ws -> inside p w x -> own V t w x = register V zero (registers V _ s) w x) /\
  (forall i x, ~ In i ws -> ~ is_view p i -> own V t i x = own V s i x).
Proof.
  induction 1 as [s|k s v t Hn Tv Vv Wv P IH|f k s t L N P IH|w c f k s t A P IH]; intros ws L' ND Res.
  - destruct ws; [|discriminate]. split; [intros w x [] | auto].
  - destruct (IH ws L' ND Res) as [S O]. split; [exact S|]. intros i x Ni Vi. rewrite O; auto. cbn.
    destruct (Z.eqb_spec i v) as [->|]; auto. contradiction.
  - destruct ws; discriminate.
  - destruct ws as [|o ws]; [discriminate|]. cbn in L'. injection L' as -> -> -> ->.
    apply NoDup_cons_iff in ND as [No ND].
    destruct (IH ws eq_refl ND) as [S O]; [intros; apply Res; right; auto|]. split.
    + intros w x [<-|Iw] I; [|apply S; auto]. rewrite O; auto; [|apply Res; left; auto]. cbn. unfold store_own. cbn.
      rewrite Z.eqb_refl, (proj2 (whole_result_spec o x)); auto.
    + intros i x Ni Vi. rewrite O; auto; [|intros ?; apply Ni; right; auto]. cbn. unfold store_own. cbn.
      destruct (Z.eqb_spec i o) as [->|]; auto. exfalso. apply Ni. left. auto.
Qed.

Lemma functions_stored way l m n zero g (u : private V) : Path p way l m n -> LocalFunctions V p way g ->
  forall k (s t : private_machine V registers_of), performs V p _ k s t -> k = kernels_of V p zero g l m n ->
  now V s = n -> (forall i x, Readable p l m n i x -> own V s i x = u i x) ->
  forall w x, In w (results p n) -> inside p w x -> own V t w x = g l m n w u x.
Proof.
  intros P Loc. induction 1 as [s|k s v t Hn Tv Vv Wv Pf IH|f k s t L N Pf IH|w' c f k s t A Pf IH];
    intros E En Eq w x Iw I; try discriminate.
  - apply IH; auto. intros i y Re. cbn. destruct (Z.eqb_spec i v) as [->|]; [|auto]. rewrite En in *.
    destruct (view_not_found _ _ _ _ v y P Tv Vv Wv Re).
  - injection E as -> ->. destruct (results_stored zero _ _ _ Pf (results p n) eq_refl) as [S _].
    + apply NoDup_nodup.
    + intros o Io. apply results_of in Io. tauto.
    + rewrite S; auto. cbn. rewrite register_loaded; auto. apply results_of in Iw as [Iw Vw].
      apply (Loc l m n w P Iw Vw); auto.
Qed.

Theorem functions_are_computed : FunctionsAreComputed V p.
Proof.
  intros zero c g s0 n C Loc G Ch. pose proof (functions_are_kernels _ zero _ Loc) as L.
  destruct (comes_to c C _ _ s0 L G n Ch) as (l & m & s & Rn & E). exists l, m, s.
  destruct (never_stuck _ _ _ _ _ _ _ L Rn) as (t & P & D). rewrite E in P. exists t.
  split; [auto|]. split; [auto|]. split; [auto|]. split; [auto|].
  destruct (runs_find _ _ _ _ _ _ _ Rn) as (_ & Pa). rewrite E in Pa. intros w x Iw Vw I.
  apply (functions_stored _ l m n zero g (own V s) Pa Loc _ s t P); auto. apply results_of. auto.
Qed.
End ProgressProof.
