(** A safe plan runs as if every tensor had private memory, and the reads of a run find values. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Safe Run.
Import ListNotations.
Open Scope Z_scope.

Section RunProof.
Variable V : Type.
Variable p : plan.
Hypothesis safe : Safe p.

Lemma all_safe : TensorsWithinStorages p /\ LifetimesCoverAccesses p /\ ViewsShow p /\ InPlaceIsLast p /\
  WritesDisturbNothing p /\ LoopsKeep p /\ ArmsNest p /\ TakenAreDead p.
Proof. unfold Safe in safe. tauto. Qed.

Lemma touched n i : is_step p n -> touches p n i -> is_tensor p i /\ (Stays p i n \/ TakenAt p n i).
Proof. destruct all_safe as (_ & (H & _) & _). apply H. Qed.

Lemma written n i : is_step p n -> step_writes p n i -> is_tensor p i /\ Stays p i n.
Proof.
  intros N W. split; [eapply touched; eauto; right; auto|].
  destruct all_safe as (_ & (_ & H & _) & _). apply H; auto.
Qed.

Lemma writes_stay n i : is_step p n -> In i (writes p n) -> Stays p i n.
Proof. intros N W. apply written; auto. left. auto. Qed.

Lemma writers i : is_tensor p i ->
  let t := tensor_at p i in
  writer t = -1 /\ made t = -1 \/
  writer t <> -1 /\ is_step p (writer t) /\ In i (writes p (writer t)) /\ 0 <= made t <= writer t.
Proof.
  intros H. destruct all_safe as (_ & (_ & _ & _ & _ & W & C & _) & _). cbv zeta.
  destruct (Z.eq_dec (writer (tensor_at p i)) (-1)) as [E|E]; [left; destruct (C i H E) | right]; auto.
Qed.

Lemma nests : ArmsNest p.
Proof. apply all_safe. Qed.

(** The required properties of branches. *)
Lemma node x : is_exclusive p x -> 0 <= enter_of p x < leave_of p x /\ leave_of p x < steps p.
Proof. intros X. destruct nests as [N _]. destruct (N x X) as (A & B & _). auto. Qed.

Lemma arm_bounds x a : is_arm p x a -> enter_of p x < fst a <= snd a + 1 /\ snd a < leave_of p x.
Proof. intros A. destruct nests as [N _]. destruct (N x (proj1 A)) as (_ & _ & _ & B & _). auto. Qed.

Lemma arm_at_step x n : is_exclusive p x -> enter_of p x < n < leave_of p x -> exists a, is_arm p x a /\ in_arm a n.
Proof. intros X. destruct nests as [N _]. destruct (N x X) as (_ & _ & _ & _ & T & _). apply T. Qed.

Lemma arms_ordered x a b : is_arm p x a -> is_arm p x b -> a = b \/ snd a < fst b \/ snd b < fst a.
Proof. intros A. destruct nests as [N _]. destruct (N x (proj1 A)) as (_ & _ & _ & _ & _ & O & _). apply O; auto. Qed.

Lemma one_arm x a b n : is_arm p x a -> is_arm p x b -> in_arm a n -> in_arm b n -> a = b.
Proof. unfold in_arm. intros A B. destruct (arms_ordered x a b A B) as [?|[?|?]]; auto; lia. Qed.

Lemma leave_nests x y a : is_exclusive p x -> is_arm p y a -> in_arm a (leave_of p x) -> in_arm a (enter_of p x).
Proof.
  intros X A I. destruct nests as [N _]. destruct (N x X) as (_ & _ & _ & _ & _ & _ & C & _). eapply C; eauto.
Qed.

Lemma one_leave x y : is_exclusive p x -> is_exclusive p y -> leave_of p x = leave_of p y -> x = y.
Proof. intros X. destruct nests as [N _]. destruct (N x X) as (_ & _ & _ & _ & _ & _ & _ & O). apply O. Qed.

Lemma loop_nests e n : In (e, n) (loops p) -> Covers p e n.
Proof. intros L. destruct nests as [_ N]. auto. Qed.

Lemma loop e n : In (e, n) (loops p) -> 0 <= e < n /\ n < steps p /\
  (forall i, is_tensor p i -> Stays p i e -> Stays p i n) /\ (forall r, In r (reads p e) -> Stays p r e).
Proof. destruct all_safe as (_ & _ & _ & _ & _ & K & _). apply K. Qed.

(** * The invariant *)

(** The place of control, and that all tensors that are defined and stay have their own bytes in the arenas; at the
    leave of an exclusive node, so do the results of the branch that ran. *)
Definition taken_in (s : state V) (i : Z) (good : Prop) : Prop := forall x, ArmResult p x i ->
  (now V s <= needed (tensor_at p i) \/ leave_of p x <= now V s) /\ (now V s = leave_of p x -> good).
Definition sound (s : state V) : Prop :=
  (now V s = -1 \/ is_step p (now V s)) /\
  forall i x, defined V s i x ->
    is_tensor p i /\ inside p i x /\ made (tensor_at p i) <= now V s /\
    (Stays p i (now V s) -> seen V p (held V s) i x = own V s i x) /\
    taken_in s i (seen V p (held V s) i x = own V s i x).

Lemma sound_begin s : begins V p s -> sound s.
Proof.
  intros [N B]. split; auto. intros i x D. destruct (B i x D) as (T & I & W & A).
  assert (M : made (tensor_at p i) = -1) by (destruct (writers i T) as [[_ M]|M]; cbv zeta in *; [lia|tauto]).
  split; [auto|]. split; [auto|]. split; [lia|]. split; [auto|].
  intros y (Y & _ & E & _). pose proof (node y Y). lia.
Qed.

(** The contents that stay at a step, or are taken there, agree. *)
Lemma sound_agrees s i x : sound s -> defined V s i x -> Stays p i (now V s) \/ TakenAt p (now V s) i ->
  seen V p (held V s) i x = own V s i x.
Proof.
  intros [_ S] D [St|(y & E & R)]; destruct (S i x D) as (_ & _ & _ & A & Q); auto. apply (Q y R). assumption.
Qed.

Lemma sound_stores s w : sound s -> allowed V p (now V s) (defined V s) w -> sound (stored V p s w).
Proof.
  intros So (Hn & Hw & NV & In_ & Local). pose proof So as [N S]. split; auto. cbn.
  destruct (written (now V s) (result V w) Hn Hw) as [Tw Sw].
  assert (E : forall x, chosen V w x = true -> value V w (own V s) x = value V w (seen V p (held V s)) x).
  { apply Local. intros i x To I D. symmetry. apply sound_agrees; auto. apply touched; auto. }
  intros i x D. assert (P : is_tensor p i /\ inside p i x /\ made (tensor_at p i) <= now V s).
  { destruct D as [[-> C]|[D _]]; [split; [auto|]; split; [auto | apply Sw]|].
    destruct (S i x D) as (? & ? & ? & _). auto. }
  destruct P as (Ti & I & M). split; [auto|]. split; [auto|]. split; [auto|].
  assert (G : Stays p i (now V s) \/ TakenAt p (now V s) i ->
    seen V p (store_held V p w (held V s)) i x = store_own V w (own V s) i x).
  { intros St. cbn. unfold seen at 1, store_held, store_own.
    destruct (Z.eq_dec i (result V w)) as [->|Ne].
    - rewrite !Z.eqb_refl. replace (address_of p (result V w) + x - address_of p (result V w)) with x by lia. cbn.
      destruct (chosen V w x) eqn:C; [symmetry; auto|].
      destruct D as [[_ D]|[D _]]; [congruence|]. apply (sound_agrees s); auto.
    - rewrite (proj2 (Z.eqb_neq _ _) Ne). cbn.
      destruct D as [[? _]|[D Kept]]; [congruence|].
      destruct ((tensor_arena p i =? tensor_arena p (result V w)) && _) eqn:Hit; [|apply (sound_agrees s); auto].
      apply andb_prop in Hit as [A C]. apply Z.eqb_eq in A. exfalso. apply Kept.
      destruct all_safe as (_ & _ & _ & _ & Q & _).
      destruct (Q (now V s) (result V w) i (address_of p i + x - address_of p (result V w)) x) as (O & X & _); auto.
      { lia. }
      rewrite X in C. auto. }
  split; [auto|]. intros y R. split; [|intros Ey; apply G; right; exists y; auto]. cbn.
  destruct D as [[-> _]|[D _]]; [left; apply Sw|]. destruct (S i x D) as (_ & _ & _ & _ & Q). apply (Q y R).
Qed.

Lemma sound_acts s t : sound s -> acts V p s t -> sound t.
Proof.
  intros S A. destruct A as [s w H|s v Hn Tv Vv Wv]; [apply sound_stores; auto|].
  destruct S as [N S]. split; auto. cbn. intros i x D.
  destruct all_safe as (_ & _ & Vs & _). specialize (Vs v Tv Vv). cbv zeta in Vs.
  destruct Vs as (Tb & Hb & Ad & _ & _ & Sb & Once).
  destruct D as [(-> & I & D)|[Ne D]].
  - destruct (written (now V s) v Hn Wv) as [_ Sv].
    split; [auto|]. split; [auto|]. split; [apply Sv|]. split.
    + intros _. rewrite Z.eqb_refl. destruct (S _ _ D) as (_ & _ & _ & A & _). rewrite <- A.
      * unfold seen, tensor_arena. rewrite Hb, Ad. f_equal. lia.
      * rewrite (Once _ Hn Wv). apply Sb. pose proof (Once _ Hn Wv) as M. unfold is_step in Hn.
        destruct (writers v Tv) as [[_ ?]|[? _]]; cbv zeta in *; lia || auto.
    + intros y (Y & _ & _ & L & _). unfold Stays in Sv. cbn. split; [left|]; lia.
  - rewrite (proj2 (Z.eqb_neq _ _) Ne). exact (S i x D).
Qed.

(** Control that leaves the part of an exclusive node in which a result of its branches stays goes to the leave or on.
    *)
Lemma leaves_arms n m x i : ArmResult p x i -> made (tensor_at p i) <= n <= needed (tensor_at p i) ->
  n <= m -> ~ Siblings p n m -> m <= needed (tensor_at p i) \/ leave_of p x <= m.
Proof.
  intros (X & _ & E & _ & (a & A & Ea) & _) M L Sib.
  destruct (Z_le_gt_dec m (needed (tensor_at p i))) as [|G]; [auto|].
  destruct (Z_le_gt_dec (leave_of p x) m) as [|G']; [auto|]. exfalso.
  destruct (arm_at_step x n) as (b & B & Ib); auto; [lia|].
  destruct (arm_at_step x m) as (c & C & Ic); auto; [lia|].
  apply Sib. exists x, b, c. repeat split; auto; try apply Ib; try apply Ic; try apply B; try apply C.
  intros ->. pose proof (arm_bounds x a A). unfold in_arm in *. destruct (arms_ordered x a c A C) as [->|[?|?]]; lia.
Qed.

Lemma sound_goes s t : sound s -> goes V p s t -> sound t.
Proof.
  intros [N S] G. destruct G as [s n L Hn Sib|s e L]; split; cbn; auto.
  - intros i x D. destruct (S i x D) as (T & I & M & A & Q). split; [auto|]. split; [auto|]. split; [lia|].
    split; [intros St; apply A; unfold Stays in *; lia|].
    intros y R. cbn. destruct (Q y R) as [[J|J] B].
    + split; [eapply leaves_arms; eauto; lia|]. intros _. apply A. unfold Stays. lia.
    + split; [right; lia|]. intros ->. apply B. lia.
  - right. destruct (loop _ _ L). unfold is_step. lia.
  - intros i x [D M]. destruct (S i x D) as (T & I & _ & A & Q). split; [auto|]. split; [auto|]. split; [auto|].
    destruct (loop _ _ L) as (B1 & B2 & Keep & Rd).
    split; [intros St; apply A; apply Keep; auto|].
    intros y R. cbn. pose proof R as (Y & Ry & E & Nd & _).
    assert (Ne : e <> leave_of p y) by (intros ->; apply Rd in Ry; unfold Stays in Ry; lia).
    split; [|congruence]. destruct (Q y R) as [[J|J] _]; [left; lia|]. right.
    destruct (Z_lt_le_dec e (leave_of p y)) as [G|]; [|auto]. exfalso.
    destruct (arm_at_step y e) as (a & Aa & Ia); auto; [lia|].
    pose proof (loop_nests _ _ L y a Aa Ia) as In'. pose proof (arm_bounds y a Aa). unfold in_arm in In'. lia.
Qed.

Lemma sound_always s t : begins V p s -> reaches V p s t -> sound t.
Proof.
  intros B R. induction R as [s|s t u R IH M]; [apply sound_begin; auto|].
  specialize (IH B). destruct M; eauto using sound_acts, sound_goes.
Qed.

Theorem runs_as_private : RunsAsPrivate V p.
Proof.
  intros s t B R i Still x D. pose proof (sound_always s t B R) as So. pose proof So as [N S].
  destruct (S i x D) as (T & I & M & A & Q).
  destruct Still as [(n & L & Hn & To)|Re].
  - destruct (touched n i Hn To) as [_ [St|(y & -> & Ry)]]; [apply A; unfold Stays in *; lia|].
    destruct (Q y Ry) as [[J|J] B']; [apply A; unfold Stays; lia | apply B'; lia].
  - apply A. split; auto. destruct all_safe as (_ & (_ & _ & _ & _ & _ & _ & W) & _). rewrite (proj1 (W i T Re)).
    unfold last_step, is_step in *. lia.
Qed.

(** * Values *)

Lemma acts_same s t : acts V p s t -> now V t = now V s.
Proof. intros A. destruct A; reflexivity. Qed.

Lemma acts_on_same s t : acts_on V p s t -> now V t = now V s.
Proof. intros A. induction A as [|s t u A IH M]; auto. apply acts_same in M. congruence. Qed.

(** The tensors that were made before this step and are needed after it, by the next iteration, by the leave of an
    exclusive node or by the caller, keep their values. *)
Definition outlives (n i : Z) : Prop := made (tensor_at p i) < Z.max 0 n /\
  (n < needed (tensor_at p i) \/
   n = needed (tensor_at p i) /\ 
     ((exists e, In (e, n) (loops p)) \/ (exists x, ArmResult p x i) \/ returned (tensor_at p i) = true)).

Lemma act_keeps s t i x : acts V p s t -> is_tensor p i -> outlives (now V s) i -> defined V s i x -> defined V t i x.
Proof.
  intros A T [W O] D. destruct A as [s w (Hn & Hw & _)|s v Hn Tv Vv Wv]; cbn.
  - right. split; auto. intros (Op & Ne & _).
    destruct (written (now V s) (result V w)) as [Tw [Mw _]]; auto.
    destruct all_safe as (_ & _ & _ & P & _ & _ & _ & Dead). destruct Op as [Op|Op].
    + destruct (P (result V w) Tw) as (_ & _ & _ & _ & Nd & Md & _ & Nr & Na & _ & Lp);
        [unfold is_tensor in T; lia|].
      rewrite Op in *. destruct O as [O|[O [[e L]|[[y R]|R]]]]; [lia| |exact (Na y R)|congruence].
      apply (Lp e). replace (writer (tensor_at p (result V w))) with (now V s) by lia. assumption.
    + apply Dead in Op. lia.
  - right. split; auto. intros ->. destruct all_safe as (_ & _ & Vs & _).
    destruct (Vs v Tv Vv) as (_ & _ & _ & _ & _ & _ & Once). specialize (Once _ Hn Wv).
    unfold is_step in Hn. lia.
Qed.

Lemma acts_keep s t i x : acts_on V p s t -> is_tensor p i -> outlives (now V s) i -> defined V s i x ->
  defined V t i x.
Proof.
  intros A. induction A as [s|s t u A IH M]; auto. intros T O D. apply act_keeps with (s := t); auto.
  rewrite (acts_on_same _ _ A). assumption.
Qed.

Lemma acts_on_steps s t : acts_on V p s t -> s = t \/ is_step p (now V s).
Proof.
  intros A. induction A as [s|s t u A [->|IH] M]; auto. right. destruct M as [s w (Hn & _)|s v Hn]; auto.
Qed.

Scheme arm_writes_ind := Induction for ArmWrites Sort Prop
  with arms_write_ind := Induction for ArmsWrite Sort Prop.

(** If each branch writes a tensor, some step before the leave does. *)
Lemma arms_write_by_step i x : ArmsWrite p i x -> exists z, 0 <= z < leave_of p x /\ In i (writes p z).
Proof.
  revert x. apply (arms_write_ind p i
    (fun a _ => forall x, is_arm p x a -> exists z, 0 <= z < leave_of p x /\ In i (writes p z))
    (fun x _ => exists z, 0 <= z < leave_of p x /\ In i (writes p z))).
  - intros a z [I _] W x A. pose proof (arm_bounds x a A). pose proof (node x (proj1 A)). unfold in_arm in I.
    exists z. split; auto. lia.
  - intros a y [I _] _ (z & Z & W) x A. pose proof (arm_bounds x a A). unfold in_arm in I. exists z. split; auto. lia.
  - intros x X _ IH. destruct nests as [N _]. destruct (N x X) as (_ & _ & (a & A) & _). eapply IH; eauto.
Qed.

(** How control comes to a later step: the steps that it passes over are in branches that do not hold that step. *)
Lemma passes_over n m z : -1 <= n -> follows p n m -> n < z < m -> ~ Covers p z m.
Proof.
  intros N F Z C. destruct F as [F|[F|(x & a & A & F)]]; try lia.
  pose proof (arm_bounds x a A) as B. pose proof A as [X _].
  assert (Q : exists b, is_arm p x b /\ in_arm b z).
  { apply arm_at_step; auto. unfold in_arm in *. lia. }
  destruct Q as (b & Ab & Ib). pose proof (C x b Ab Ib) as Im. pose proof (arm_bounds x b Ab).
  unfold in_arm in *. destruct F as [(-> & -> & L)|[(-> & -> & L)|(-> & -> & L)]]; try lia.
  destruct (arms_ordered x a b A Ab) as [->|[?|?]]; lia.
Qed.

(** How control comes to the leave of an exclusive node: from the end of a branch, or past one without steps. *)
Lemma comes_to_leave n m x : -1 <= n -> follows p n m -> n < m -> is_exclusive p x -> m = leave_of p x ->
  exists a, is_arm p x a /\ (n = snd a /\ fst a <= snd a \/ n = enter_of p x /\ snd a < fst a).
Proof.
  intros N F L X E. pose proof (node x X) as B. destruct F as [F|[F|(y & a & A & F)]]; try lia.
  - destruct (Z.eq_dec n (enter_of p x)) as [->|Ne].
    + destruct nests as [Q _]. destruct (Q x X) as (_ & _ & (a & A) & _). pose proof (arm_bounds x a A).
      exists a. split; auto. right. lia.
    + assert (enter_of p x < n) as G by lia. destruct (arm_at_step x n) as (a & A & I); auto; [lia|].
      pose proof (arm_bounds x a A). unfold in_arm in I. exists a. split; auto. left. lia.
  - destruct F as [(-> & E' & L')|[(-> & E' & L')|(-> & E' & L')]].
    + exfalso. assert (I : in_arm a (leave_of p x)) by (unfold in_arm; lia).
      pose proof (leave_nests x y a X A I) as I'. unfold in_arm in *. lia.
    + replace y with x in * by (apply one_leave; auto; [apply A | congruence]). exists a. auto.
    + replace y with x in * by (apply one_leave; auto; [apply A | congruence]). exists a. auto.
Qed.

(** All that was written on every path to this step, and is still needed, is defined. *)
Definition ready (s : state V) : Prop := forall i x, is_tensor p i -> inside p i x ->
  now V s <= needed (tensor_at p i) ->
  (writer (tensor_at p i) = -1 -> defined V s i x) /\
  (forall z, is_step p z -> z < now V s -> Covers p z (now V s) -> In i (writes p z) -> defined V s i x) /\
  (forall y, leave_of p y <= now V s -> Covers p (leave_of p y) (now V s) -> ArmsWrite p i y -> defined V s i x).

Lemma is_node i y : ArmsWrite p i y -> is_exclusive p y.
Proof. intros W. destruct W. assumption. Qed.

Lemma covers_between z m n : z <= m <= n -> Covers p z n -> Covers p z m.
Proof. intros L C x a A I. pose proof (C x a A I). unfold in_arm in *. lia. Qed.

(** The bytes that [t], which has completed the last step of a branch, has of the tensors that the branch writes. *)
Lemma ready_in_arm s t i x a y : -1 <= now V s -> ready s -> acts_on V p s t -> done V p t ->
  is_arm p y a -> now V t = snd a -> fst a <= snd a -> ArmWrites p i a -> is_tensor p i -> inside p i x ->
  now V t < needed (tensor_at p i) \/ now V t = needed (tensor_at p i) /\ (exists x, ArmResult p x i) ->
  defined V t i x.
Proof.
  intros N R A D Ar E Le W T I Nd. pose proof (acts_on_same _ _ A) as Same.
  destruct (R i x T I) as (_ & R1 & R2); [lia|].
  assert (O : now V s < needed (tensor_at p i) \/ now V s = needed (tensor_at p i) /\
    ((exists e, In (e, now V s) (loops p)) \/ (exists x, ArmResult p x i) \/ returned (tensor_at p i) = true))
    by (rewrite <- Same; tauto).
  pose proof (arm_bounds y a Ar) as B. pose proof (node y (proj1 Ar)) as B'.
  assert (St : is_step p (now V t)) by (unfold is_step; lia).
  inversion W as [a' z [Iz C] Wz Ea|a' y' [Iz C] Wy Ea]; subst.
  - assert (Sz : is_step p z) by (unfold is_step, in_arm in *; lia).
    destruct (Z.eq_dec z (now V t)) as [->|Ne]; [apply D; auto|].
    apply acts_keep with (s := s); auto.
    + split; [|exact O]. pose proof (writes_stay z i Sz Wz) as [M _]. unfold in_arm in *. lia.
    + apply (R1 z); auto; [unfold in_arm in *; lia|]. rewrite <- Same, E. apply C. unfold in_arm. lia.
  - apply acts_keep with (s := s); auto.
    + split; [|exact O]. destruct (arms_write_by_step i y' Wy) as (z & Z & Wz).
      pose proof (node y' (is_node _ _ Wy)).
      pose proof (writes_stay z i) as [M _]; auto; [unfold is_step; lia|]. unfold in_arm in *. lia.
    + apply (R2 y'); auto; [unfold in_arm in *; lia|]. rewrite <- Same, E. apply C. unfold in_arm. lia.
Qed.

Lemma ready_when_full s : in_full V p s -> -1 <= now V s /\ ready s.
Proof.
  intros F. induction F as [s [[N B] All]|s t u F [N IH] A D G J].
  - split; [lia|]. intros i x T I W. split; [apply All; auto|]. split.
    + intros z Z L. unfold is_step in Z. lia.
    + intros y L _ Wy. pose proof (node y (is_node _ _ Wy)). lia.
  - pose proof (acts_on_same _ _ A) as Same. destruct G as [t n L Hn Sib|t e L]; cbn in *.
    + assert (Jn : n = now V t -> False).
      { intros ->. destruct J as [J|[J|(x & a & Ar & J)]]; try lia.
        pose proof (arm_bounds x a Ar). pose proof (node x (proj1 Ar)). lia. }
      split; [unfold is_step in Hn; lia|]. intros i x T I Ne. cbn in *.
      destruct (IH i x T I) as (R0 & R1 & R2); [lia|].
      assert (Keep : made (tensor_at p i) < Z.max 0 (now V s) -> defined V s i x -> defined V t i x).
      { intros M Df. apply acts_keep with (s := s); auto. split; [assumption|]. left. lia. }
      split; [|split].
      * intros W. apply Keep; auto. destruct (writers i T) as [[_ M]|[? _]]; cbv zeta in *; lia.
      * intros z Sz Lz C W. destruct (Z_lt_le_dec (now V t) z) as [G|G].
        { exfalso. eapply (passes_over (now V t) n z); eauto; lia. }
        destruct (Z.eq_dec z (now V t)) as [->|Nz]; [apply D; auto|].
        apply Keep.
        { pose proof (writes_stay z i Sz W) as [M _]. lia. }
        apply (R1 z); auto; [lia|]. eapply covers_between; [|exact C]. lia.
      * intros y Ly C W. pose proof (is_node _ _ W) as Y. pose proof (node y Y) as By.
        destruct (Z_lt_le_dec (now V t) (leave_of p y)) as [G|G].
        { destruct (Z.eq_dec (leave_of p y) n) as [E|E].
          - destruct (comes_to_leave (now V t) n y) as (a & Ar & [[Ea La]|[_ La]]); auto; [lia|lia| |].
            + inversion W as [y' Y' Each Ey]; subst y'.
              eapply ready_in_arm; eauto. left. lia.
            + exfalso. inversion W as [y' Y' Each Ey]; subst y'. specialize (Each a Ar).
              inversion Each as [a' z [Iz C1] W1 E1|a' z [Iz C1] W1 E1]; subst; unfold in_arm in Iz; lia.
          - exfalso. eapply (passes_over (now V t) n (leave_of p y)); eauto; lia. }
        apply Keep.
        { destruct (arms_write_by_step i y W) as (z & Z & Wz).
          pose proof (writes_stay z i) as [M _]; auto; [unfold is_step; lia|]. lia. }
        apply (R2 y); auto; [lia|]. eapply covers_between; [|exact C]. lia.
    + destruct (loop _ _ L) as (E1 & E2 & E3 & _). pose proof (loop_nests _ _ L) as Ne'.
      assert (Trans : forall z, Covers p z e -> Covers p z (now V t)).
      { intros z C y a Ar Ia. apply (Ne' y a Ar). apply (C y a Ar). assumption. }
      split; [lia|]. intros i x T I Ne. cbn in *.
      assert (Back : made (tensor_at p i) <= e -> (now V s <= needed (tensor_at p i) -> defined V s i x) ->
        defined V t i x /\ made (tensor_at p i) <= e).
      { intros M Df. split; auto. destruct (E3 i T) as [_ Le]; [unfold Stays; lia|].
        apply acts_keep with (s := s); auto; [|apply Df; lia].
        split; [lia|]. rewrite <- Same.
        destruct (Z.eq_dec (now V t) (needed (tensor_at p i))); [right|left; lia]. split; eauto. }
      split; [|split].
      * intros W. destruct (writers i T) as [[_ M]|[? _]]; cbv zeta in *; [|lia].
        apply Back; [lia|]. intros Nd. destruct (IH i x T I Nd) as (R0 & _). auto.
      * intros z Sz Lz C W. pose proof (writes_stay z i Sz W) as [M _]. apply Back; [lia|].
        intros Nd. destruct (IH i x T I Nd) as (_ & R1 & _). apply (R1 z); auto; [lia|].
        rewrite <- Same. auto.
      * intros y Ly C W. pose proof (node y (is_node _ _ W)).
        destruct (arms_write_by_step i y W) as (z & Z & Wz).
        pose proof (writes_stay z i) as [M _]; auto; [unfold is_step; lia|]. apply Back; [lia|].
        intros Nd. destruct (IH i x T I Nd) as (_ & _ & R2). apply (R2 y); auto; [lia|].
        rewrite <- Same. auto.
Qed.

(** The caller finds, after the last step, all that was written on every path to the end. *)
Lemma caller_finds s t r x : in_full V p s -> acts_on V p s t -> done V p t -> is_step p (now V s) ->
  now V s = last_step p -> is_tensor p r -> returned (tensor_at p r) = true -> inside p r x -> defined V t r x.
Proof.
  intros F A D N E T Ret I. destruct (ready_when_full s F) as [_ Rd]. pose proof (acts_on_same _ _ A) as Same.
  destruct all_safe as (_ & (_ & _ & _ & _ & _ & _ & W) & _). destruct (W r T Ret) as [Nd Wr].
  destruct (Rd r x T I) as (R0 & R1 & R2); [lia|]. unfold is_step, last_step in *.
  assert (Free : forall z, Covers p z (steps p) -> Covers p z (now V s)).
  { intros z C y a Ar Ia. pose proof (C y a Ar Ia) as Q. pose proof (arm_bounds y a Ar).
    pose proof (node y (proj1 Ar)). unfold in_arm in Q. lia. }
  assert (Keep : made (tensor_at p r) < Z.max 0 (now V s) -> defined V s r x -> defined V t r x).
  { intros M Df. apply acts_keep with (s := s); auto. split; [assumption|]. right. split; [lia|]. auto. }
  destruct Wr as [Wr|[(z & L & C & Wz)|(y & L & C & Wy)]].
  - apply Keep; auto. destruct (writers r T) as [[_ M]|[? _]]; cbv zeta in *; lia.
  - destruct (Z.eq_dec z (now V s)) as [->|Ne]; [apply D; unfold is_step; rewrite ?Same; auto|].
    assert (Sz : is_step p z) by (unfold is_step; lia). apply Keep.
    + pose proof (writes_stay z r Sz Wz) as [M _]. lia.
    + apply (R1 z); auto; lia.
  - pose proof (node y (is_node _ _ Wy)). destruct (arms_write_by_step r y Wy) as (z & Z & Wz).
    pose proof (writes_stay z r) as [M _]; auto; [unfold is_step; lia|]. apply Keep; [lia|].
    apply (R2 y); auto. lia.
Qed.

Theorem reads_find_values : ReadsFindValues V p.
Proof.
  split; [|split; [|exact caller_finds]].
  - intros s r x F Hn I W NT In_. destruct (ready_when_full s F) as [_ R].
    destruct (touched (now V s) r) as [T [[_ Nd]|Tk]]; auto; [left; auto | | contradiction].
    destruct (R r x T In_ Nd) as (R0 & R1 & R2). destruct W as [W|[(z & L & C & W)|(y & L & C & W)]]; auto.
    + apply (R1 z); auto; [|lia]. unfold is_step in *. lia.
    + apply (R2 y); auto.
  - intros s t u y a z r x F A D G J E R Ar Ia Dz W I. destruct (ready_when_full s F) as [N Rd].
    pose proof (acts_on_same _ _ A) as Same. pose proof R as (Y & Rr & _ & Ln & (b & Ab & Eb) & _).
    pose proof (node y Y) as By. pose proof (arm_bounds y a Ar) as Ba. pose proof (arm_bounds y b Ab) as Bb.
    assert (T : is_tensor p r) by (eapply (touched (leave_of p y)); [unfold is_step; lia | left; left; exact Rr]).
    assert (St : Stays p r z) by (apply writes_stay; auto; destruct Dz as [Iz _]; unfold is_step, in_arm in *; lia).
    assert (Last : now V t = snd a).
    { destruct (comes_to_leave (now V t) (now V u) y) as (c & Ac & [[Ec Lc]|[Ec _]]); auto; unfold in_arm in *; try lia.
      replace a with c; auto. apply (one_arm y c a (now V t)); auto; unfold in_arm; lia. }
    assert (Df : defined V t r x).
    { apply ready_in_arm with (s := s) (a := a) (y := y); auto; [unfold in_arm in Ia; lia | econstructor; eauto |].
      destruct Dz as [Iz _]. unfold in_arm, Stays in *. 
      assert (now V t <= needed (tensor_at p r)) by (destruct (arms_ordered y a b Ar Ab) as [->|[?|?]]; lia).
      destruct (Z.eq_dec (now V t) (needed (tensor_at p r))); [right; split; eauto | left; lia]. }
    unfold in_arm in Ia. destruct G as [t n L Hn Sib|t e L]; cbn in *; auto.
    destruct (loop _ _ L). lia.
Qed.
End RunProof.
