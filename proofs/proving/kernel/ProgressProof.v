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

Lemma performs_acts l s t : performs V p l s t -> acts_on V p s t.
Proof.
  assert (Before : forall s u t, acts V p s u -> acts_on V p u t -> acts_on V p s t).
  { intros a b c A B. induction B as [b|b c d B IH M]; econstructor; eauto. constructor. }
  intros P. induction P; [constructor | |]; eapply Before; eauto; constructor; auto.
Qed.

(** Such runs are among those that [RunsAsPrivate] is about. *)
Lemma acts_reach a s t : reaches V p a s -> acts_on V p s t -> reaches V p a t.
Proof. intros R A. induction A; auto. apply further with t; auto. Qed.

Lemma performs_reach l a s t : reaches V p a s -> performs V p l s t -> reaches V p a t.
Proof. intros R P. eapply acts_reach; eauto using performs_acts. Qed.

Lemma runs_reach way f s0 m s : runs V p way f s0 m s -> reaches V p s0 s.
Proof.
  intros R. induction R as [u G Go _ _|m s t u R IH P _ Go _ _].
  - apply further with s0; [constructor | right; auto].
  - apply further with t; [eapply performs_reach; eauto | right; auto].
Qed.

Lemma view_made n v : is_step p n -> In v (writes p n) -> is_view p v -> is_tensor p v /\ made (tensor_at p v) = n /\
  Stays p (base (tensor_at p v)) n /\ writer (tensor_at p (base (tensor_at p v))) < n /\
  In (base (tensor_at p v)) (reads p n) /\
  0 <= shift (tensor_at p v) /\ shift (tensor_at p v) + bytes (tensor_at p v) <= bytes (tensor_at p (base (tensor_at p v))).
Proof.
  intros N W Vw. assert (T : is_tensor p v) by (eapply (written p safe n); eauto; left; auto).
  destruct (all_safe p safe) as (_ & _ & Vs & _). destruct (Vs v T Vw) as (_ & _ & _ & S0 & S1 & Rd & Once).
  assert (E : n = made (tensor_at p v)) by (apply Once; auto; left; auto).
  destruct (writers p safe v T) as [[_ M]|[Nw _]]; cbv zeta in *; [unfold is_step in N; lia|].
  destruct (Rd Nw) as (St & Lt & I). rewrite <- E in *. auto 10.
Qed.

(** A view's base exists before its step. *)
Lemma base_readable m n v x : is_step p n -> In v (writes p n) -> is_view p v -> inside p v x ->
  Readable p m n (base (tensor_at p v)) (shift (tensor_at p v) + x).
Proof.
  intros N W Vw I. destruct (view_made n v N W Vw) as (T & M & St & Lt & Rd & S0 & S1).
  assert (NT : ~ TakenAt p n (base (tensor_at p v))).
  { intros (y & -> & (_ & _ & _ & L & _)). unfold Stays in St. lia. }
  split; [left; auto|]. split; [unfold inside in *; lia|]. left. split; auto.
  destruct (all_safe p safe) as (_ & (_ & _ & _ & R & _) & _). destruct (R n _ N Rd) as [?|[?|[[? _]|?]]]; auto; tauto || lia.
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

Definition views_done (n : Z) (s : state V) : Prop := forall v x, In v (writes p n) -> is_view p v -> inside p v x ->
  defined V s v x.

(** All views of a step can be made. *)
Lemma makes_views m n l : is_step p n -> (forall v, In v l -> In v (writes p n) /\ is_view p v) ->
  forall s, now V s = n -> (forall i x, Readable p m n i x -> defined V s i x) ->
  exists u, now V u = n /\ (forall i x, Readable p m n i x -> defined V u i x) /\
    (forall v x, In v l -> inside p v x -> defined V u v x) /\
    forall k t, performs V p k u t -> performs V p k s t.
Proof.
  intros N. induction l as [|v l IH]; intros L s E D.
  - exists s. repeat split; auto. intros v x [].
  - destruct IH with (s := s) as (u & Eu & Du & Vu & Pu); auto; [intros w Hw; apply L; right; auto|].
    destruct (L v (or_introl eq_refl)) as [W Vw]. destruct (view_made n v N W Vw) as (T & _).
    assert (B : forall x, inside p v x -> defined V u (base (tensor_at p v)) (shift (tensor_at p v) + x))
      by (intros x I; apply Du; apply base_readable; auto).
    assert (Keep : forall i x, inside p i x -> defined V u i x -> defined V (shown V p u v) i x).
    { intros i x I Dx. cbn. destruct (Z.eq_dec i v) as [->|Ne]; auto. }
    exists (shown V p u v). split; [exact Eu|]. split; [|split].
    + intros i x R. apply Keep; [apply R | auto].
    + intros w x [<-|Hw] I; [cbn; left; auto | apply Keep; auto].
    + intros k t P. apply Pu. apply makes_view with v; rewrite ?Eu; auto. left. auto.
Qed.

(** A kernel to which fewer bytes are known than are defined can make its stores. *)
Lemma makes_stores n l d : is_step p n -> Kernel V p n d l -> forall s, now V s = n ->
  (forall i x, d i x -> defined V s i x) -> views_done n s -> exists t, performs V p l s t /\ done V p t.
Proof.
  intros N K. induction K as [d All|d w l (_ & Ww & Vw & I & Loc) K IH]; intros s E D Vs.
  - exists s. split; [constructor|]. intros w x _ W I. rewrite E in W.
    destruct (Z.eq_dec (base (tensor_at p w)) (-1)) as [B|B]; [|apply Vs; auto].
    apply D, All; auto.
  - destruct (IH (stored V p s w)) as (t & P & F); auto.
    + intros i x [?|[Dx Nr]]; [left; auto | right; auto].
    + intros v x W Vv In_. right. split; [apply Vs; auto|]. intros (R & _).
      exact (view_kept n v (result V w) N W Vv Ww R).
    + exists t. split; auto. constructor; auto. rewrite E. split; [auto|]. split; [auto|]. split; [auto|].
      split; [auto|]. intros u v Eq. apply Loc. intros i x To In_ Dx. auto.
Qed.

(** What [runs] states about control, and that all that may be read is defined. *)
Lemma runs_find way f s0 m s : runs V p way f s0 m s ->
  in_full V p s /\ Comes p way m (now V s) /\ forall i x, Readable p m (now V s) i x -> defined V s i x.
Proof.
  assert (Next : forall a b u, in_full V p a -> acts_on V p a b -> done V p b -> goes V p b u ->
    follows p (now V b) (now V u) -> in_full V p u /\ is_step p (now V u) /\
    (now V b < now V u /\ ~ Siblings p (now V b) (now V u) \/ In (now V u, now V b) (loops p)) /\
    forall i x, Readable p (now V b) (now V u) i x -> defined V u i x).
  { intros a b u F A D G J.
    assert (Fu : in_full V p u) by (econstructor; eauto).
    assert (Su : is_step p (now V u)).
    { destruct G as [b n _ Hn|b e L]; cbn; auto. destruct (loop p safe _ _ L). unfold is_step. lia. }
    split; [auto|]. split; [auto|]. split.
    { destruct G as [b n L _ Sib|b e L]; cbn in *; [left|right; auto]. split; auto.
      destruct J as [J|[J|(x & c & Ar & J)]]; try lia. pose proof (arm_bounds p safe x c Ar).
      pose proof (node p safe x (proj1 Ar)). lia. }
    intros i x (R & I & [[NT W]|(y & c & z & E & Ar & Ac & Ic & Dz & Wz)]).
    - destruct (reads_find_values V p safe) as [Find _]. apply (Find u i x); auto.
    - destruct (reads_find_values V p safe) as (_ & Taken & _). apply (Taken a b u y c z i x); auto. }
  intros R. induction R as [u G Go J W|m s t u R (F & (_ & Wy & _) & _) P D Go J W].
  - assert (E : now V s0 = -1) by apply G. destruct (Next s0 s0 u) as (Fu & Su & Mv & Ru); auto.
    + constructor. assumption.
    + constructor.
    + intros w x S. rewrite E in S. unfold is_step in S. lia.
    + rewrite E in *. split; [auto|]. split; [|auto]. split; [auto|]. auto.
  - pose proof (performs_acts _ _ _ P) as A. destruct (Next s t u) as (Fu & Su & Mv & Ru); auto.
    split; [auto|]. split; [|auto]. split; [auto|]. split; [auto|].
    split; [right; rewrite (acts_on_same V p _ _ A); auto|]. auto.
Qed.

Lemma never_stuck way f s0 m s : Local V p way f -> runs V p way f s0 m s ->
  exists t, performs V p (f m (now V s)) s t /\ done V p t.
Proof.
  intros L R. destruct (runs_find _ _ _ _ _ R) as (F & Cm & Re).
  pose proof (L m (now V s) Cm) as K. pose proof (proj1 Cm) as N.
  set (vs := filter (fun v => negb (base (tensor_at p v) =? -1)) (writes p (now V s))).
  assert (Vs : forall v, In v vs <-> In v (writes p (now V s)) /\ is_view p v).
  { intros v. unfold vs, is_view. rewrite filter_In, negb_true_iff, Z.eqb_neq. tauto. }
  destruct (makes_views m (now V s) vs N) with (s := s) as (u & Eu & Du & Vu & Pu); auto; [intros v; apply Vs|].
  destruct (makes_stores (now V s) _ _ N K u Eu Du) as (t & P & D).
  - intros v x Iv Vv. apply Vu. apply Vs. auto.
  - exists t. auto.
Qed.

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

(** Each step of the choice is the first, or control comes to it from one before. *)
Lemma comes_from n : Chosen p c n -> n = 0 \/ exists m, Chosen p c m /\ m < n /\ follows p m n.
Proof.
  intros Ch. pose proof Ch as [N Arms]. unfold is_step in N.
  destruct (existsb (fun x => leave_of p x =? n) (run 0 (exclusives p))) eqn:Lv.
  { apply existsb_exists in Lv as (x & X & E). apply run_spec in X. apply Z.eqb_eq in E. subst n. right.
    pose proof (choice x X) as A. pose proof (arm_bounds p safe x _ A). pose proof (node p safe x X).
    destruct (Z_le_gt_dec (fst (c x)) (snd (c x))) as [L|L].
    - exists (snd (c x)). split; [apply end_chosen; auto|]. split; [lia|]. right. right. exists x, (c x).
      split; auto 6.
    - exists (enter_of p x). split; [eapply enter_chosen; eauto; lia|]. split; [lia|]. right. right. exists x, (c x).
      split; auto. right. right. lia. }
  destruct (existsb (fun x => existsb (fun a => (fst a =? n) && (n <=? snd a)) (arms (exclusive_at p x)))
    (run 0 (exclusives p))) eqn:Fst.
  { apply existsb_exists in Fst as (x & X & E). apply run_spec in X. apply existsb_exists in E as (a & Ia & E). facts.
    subst n. right. assert (A : is_arm p x a) by (split; auto). pose proof (arm_bounds p safe x a A).
    exists (enter_of p x). split; [eapply enter_chosen; eauto; lia|]. split; [lia|]. right. right. exists x, a.
    split; auto. }
  destruct (Z.eq_dec n 0) as [->|Nz]; [left; auto|]. right. exists (n - 1). split; [|split; [lia | left; lia]].
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

Lemma no_siblings m n : Chosen p c m -> Chosen p c n -> ~ Siblings p m n.
Proof. intros [_ M] [_ N] (x & a & b & A & B & D & Ia & Ib). apply D. rewrite (M x a), (N x b); auto. Qed.

Lemma comes_to f s0 : Local V p (Chosen p c) f -> given V p s0 -> forall n, Chosen p c n ->
  exists m s, runs V p (Chosen p c) f s0 m s /\ now V s = n.
Proof.
  intros L G n Ch. assert (N : 0 <= n) by (unfold Chosen, is_step in Ch; lia). revert n N Ch.
  apply (Z_lt_induction (fun n => Chosen p c n -> exists m s, runs V p (Chosen p c) f s0 m s /\ now V s = n)).
  intros n IH Ch. pose proof Ch as [N _].
  destruct (comes_from n Ch) as [->|(m & Cm & Lt & J)].
  - exists (-1), (State V 0 (defined V s0) (own V s0) (held V s0)). destruct G as [[Z B] All].
    split; [|reflexivity]. apply to_first; [split; [split|]; auto | | rewrite Z; left; reflexivity | exact Ch].
    apply on; [lia | auto |]. intros (x & a & b & A & _ & _ & Ia & _). rewrite Z in Ia.
    pose proof (arm_bounds p safe x a A). pose proof (node p safe x (proj1 A)). unfold in_arm in Ia. lia.
  - destruct (IH m) as (k & s & R & E); [unfold Chosen, is_step in Cm; lia | auto |].
    destruct (never_stuck _ _ _ _ _ L R) as (t & P & D).
    assert (Et : now V t = m) by (rewrite (acts_on_same V p _ _ (performs_acts _ _ _ P)); auto).
    exists (now V t), (State V n (defined V t) (own V t) (held V t)). split; [|reflexivity].
    eapply to_next; eauto; cbn; rewrite ?Et; auto.
    apply on; rewrite ?Et; [lia | auto | apply no_siblings; auto].
Qed.
End Choosing.

Theorem progress : Progress V p.
Proof. split; [apply never_stuck | intros c f s0 n C L G Ch; eapply comes_to; eauto]. Qed.

(** * Functions *)

Lemma results_of n w : In w (nodup Z.eq_dec (filter (fun w => base (tensor_at p w) =? -1) (writes p n))) <->
  In w (writes p n) /\ ~ is_view p w.
Proof. unfold is_view. rewrite nodup_In, filter_In, Z.eqb_eq. split; intros [? ?]; split; auto; lia. Qed.

Lemma chosen_inside g w x : chosen V (whole_store V p g w) x = true <-> inside p w x.
Proof. unfold inside. cbn. rewrite andb_true_iff, Z.leb_le, Z.ltb_lt. tauto. Qed.

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

Lemma functions_are_kernels way g : LocalFunctions V p way g -> Local V p way (kernels_of V p g).
Proof.
  intros Loc m n Cm. pose proof (proj1 Cm) as N. unfold kernels_of.
  set (l := nodup Z.eq_dec (filter (fun w => base (tensor_at p w) =? -1) (writes p n))).
  assert (G : forall l' before (d : Z -> Z -> Prop), NoDup (before ++ l') -> (forall w, In w (before ++ l') <-> In w l) ->
    (forall i x, Readable p m n i x -> (forall o, In o before -> o <> i -> ~ Replaces p o i) -> d i x) ->
    (forall w x, In w before -> inside p w x -> d w x) ->
    Kernel V p n d (map (fun w => whole_store V p (g m n w) w) l')).
  { induction l' as [|w l' IH]; intros before d ND All Rd St; cbn.
    - constructor. intros w x Iw Vw I. apply St; auto. rewrite app_nil_r in All. apply All, results_of. auto.
    - assert (Iw : In w l) by (apply All, in_app_iff; right; left; auto). apply results_of in Iw as [Iw Vw].
      assert (B : forall o, In o before -> In o (writes p n) /\ ~ is_view p o /\ o <> w).
      { intros o Io. assert (In o l) as Q by (apply All, in_app_iff; auto). apply results_of in Q as [? ?].
        split; [auto|]. split; [auto|]. intros ->. apply NoDup_remove_2 in ND. apply ND, in_app_iff. auto. }
      constructor.
      + split; [auto|]. split; [left; auto|]. split; [auto|]. split; [intros x; apply chosen_inside|].
        intros u v Eq x I. apply chosen_inside in I. apply (Loc m n w); auto. intros i y [R O].
        apply Eq; [left; apply R | apply R |]. apply Rd; auto. intros o Io _. apply O; apply B; auto.
      + apply (IH (before ++ [w])).
        * rewrite <- app_assoc. exact ND.
        * intros o. rewrite <- app_assoc. apply All.
        * intros i x R Nr. right. split.
          { apply Rd; auto. intros o Io. apply Nr, in_app_iff. auto. }
          intros (Q & D & _). revert Q. apply Nr; [apply in_app_iff; right; left; auto | auto].
        * intros o x Io I. apply in_app_iff in Io as [Io|[<-|[]]]; [|left; split; auto; apply chosen_inside; auto].
          right. split; [apply St; auto|]. intros (Q & _ & C). apply chosen_inside in C.
          destruct (B o Io) as (Wo & Vo & D). exact (result_kept n o w x N Wo Vo Iw D I C Q). }
  apply (G l []); cbn; [apply NoDup_nodup | tauto | auto | intros w x []].
Qed.

Lemma functions_stored n (h : Z -> private V -> Z -> V) : is_step p n ->
  (forall w, In w (writes p n) -> ~ is_view p w -> forall u v,
     (forall i x, i = w \/ ~ In i (writes p n) -> u i x = v i x) -> forall x, inside p w x -> h w u x = h w v x) ->
  forall k s t, performs V p k s t -> now V s = n ->
  forall l, k = map (fun w => whole_store V p (h w) w) l -> NoDup l ->
  (forall w, In w l -> In w (writes p n) /\ ~ is_view p w) ->
  (forall w x, In w l -> inside p w x -> own V t w x = h w (own V s) x) /\
  (forall i x, ~ In i l -> ~ is_view p i -> own V t i x = own V s i x).
Proof.
  intros N Loc k s t P. induction P as [s|k s v t Hn Tv Vv Wv P IH|w k s t A P IH]; intros E l L ND Res.
  - destruct l; [|discriminate]. split; [intros w x [] | auto].
  - destruct (IH E l L ND Res) as [S O]. rewrite E in *.
    assert (Iv : In v (writes p n)).
    { destruct Wv as [?|(e & Le & We)]; auto. exfalso. destruct (loop p safe _ _ Le) as (B & _).
      destruct (all_safe p safe) as (_ & _ & Vs & _). destruct (Vs v Tv Vv) as (_ & _ & _ & _ & _ & _ & Once).
      pose proof (Once n Hn (or_intror (ex_intro _ e (conj Le We)))).
      assert (e = made (tensor_at p v)) by (apply Once; [unfold is_step in *; lia | left; auto]). lia. }
    split.
    + intros w x Iw I. rewrite S; auto. destruct (Res w Iw) as [W Vw]. apply Loc; auto. intros i y D. cbn.
      destruct (Z.eqb_spec i v) as [->|]; auto. destruct D as [->|D]; contradiction.
    + intros i x Ni Vi. rewrite O; auto. cbn. destruct (Z.eqb_spec i v) as [->|]; auto. contradiction.
  - destruct l as [|r l]; [discriminate|]. cbn in L. injection L as -> ->. apply NoDup_cons_iff in ND as [No ND].
    destruct (IH E l eq_refl ND) as [S O]; [intros; apply Res; right; auto|].
    destruct (Res r (or_introl eq_refl)) as [Wr Vr]. split.
    + intros o x [<-|Io] I.
      * rewrite O; auto. cbn. unfold store_own. cbn. rewrite Z.eqb_refl. cbn.
        replace ((0 <=? x) && (x <? bytes (tensor_at p r))) with true; auto.
        symmetry. apply (chosen_inside (h r)). auto.
      * rewrite S; auto. destruct (Res o (or_intror Io)) as [Wo Vo]. apply Loc; auto. intros i y D. cbn. unfold store_own. cbn.
        destruct (Z.eqb_spec i r) as [->|]; auto. destruct D as [->|D]; contradiction.
    + intros i x Ni Vi. rewrite O; auto; [|intros ?; apply Ni; right; auto]. cbn. unfold store_own. cbn.
      destruct (Z.eqb_spec i r) as [->|]; auto. exfalso. apply Ni. left. auto.
Qed.

Theorem functions_are_computed : FunctionsAreComputed V p.
Proof.
  intros c g s0 n C Loc G Ch. pose proof (functions_are_kernels _ _ Loc) as L.
  destruct (comes_to c C _ s0 L G n Ch) as (m & s & R & E). exists m, s.
  destruct (never_stuck _ _ _ _ _ L R) as (t & P & D). rewrite E in P. exists t.
  split; [auto|]. split; [auto|]. split; [auto|]. split; [auto|].
  destruct (runs_find _ _ _ _ _ R) as (_ & Cm & _). rewrite E in *. pose proof (proj1 Cm) as N.
  intros w x Iw Vw I.
  destruct (functions_stored n (g m n) N) with (k := kernels_of V p g m n) (s := s) (t := t)
    (l := nodup Z.eq_dec (filter (fun w => base (tensor_at p w) =? -1) (writes p n))) as [St _]; auto.
  - intros o Wo Vo u v Eq y Iy. apply (Loc m n o); auto. intros i z [_ Op]. apply Eq.
    destruct (Z.eq_dec i o) as [|Ne]; [left; auto|]. right. intros Ii. destruct (Op i Ii Ne). auto.
  - apply NoDup_nodup.
  - intros o. apply results_of.
  - apply St; auto. apply results_of. auto.
Qed.
End ProgressProof.
