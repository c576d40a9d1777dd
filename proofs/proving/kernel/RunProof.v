(** A safe plan runs as if every tensor had private memory, and the reads of a run find values. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Safe Run ListsProof.
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

(** * The two machines *)

Section Flat.
Variable start : Z -> Z.
Hypothesis apart : ArenasApart p start.
Local Notation found := (found V p start).

Lemma byte_of_storage i x : is_tensor p i -> inside p i x -> is_storage p (home (tensor_at p i)) /\
  has_byte p (home (tensor_at p i)) (address_of p i + x).
Proof.
  intros T I. destruct safe as (_ & _ & _ & W & _). destruct (W i T) as (H & A & B & _).
  unfold inside, has_byte, address_of in *. split; [auto | lia].
Qed.

Lemma same_byte i j x y : is_tensor p i -> is_tensor p j -> inside p i x -> inside p j y ->
  flat_address p start i + x = flat_address p start j + y ->
  tensor_arena p i = tensor_arena p j /\ address_of p i + x = address_of p j + y.
Proof.
  intros Ti Tj I J E. destruct (byte_of_storage i x Ti I) as [Si Bi], (byte_of_storage j y Tj J) as [Sj Bj].
  unfold flat_address in E. destruct (Z.eq_dec (tensor_arena p i) (tensor_arena p j)) as [Q|Q].
  - split; auto. rewrite Q in E. lia.
  - exfalso. apply (apart _ _ _ _ Si Sj Q Bi Bj). unfold tensor_arena in E. lia.
Qed.

(** The place of control, and that all tensors that are defined and stay have their own bytes in the memory; at the
    leave of an exclusive node, so do the results of the branch that ran. *)
Definition taken_in (s : state V) (i : Z) (good : Prop) : Prop := forall x, ArmResult p x i ->
  (now V s <= needed (tensor_at p i) \/ leave_of p x <= now V s) /\ (now V s = leave_of p x -> good).
Definition sound (s : state V) (m : Z -> V) : Prop :=
  (now V s = -1 \/ is_step p (now V s)) /\
  forall i x, defined V s i x ->
    is_tensor p i /\ inside p i x /\ made (tensor_at p i) <= now V s /\
    (Stays p i (now V s) -> found m i x = own V s i x) /\
    taken_in s i (found m i x = own V s i x).

Lemma sound_begin s m : begins V p s -> (forall i, agree V p start m s i) -> sound s m.
Proof.
  intros [N B] A. split; auto. intros i x D. destruct (B i x D) as (T & I & W). pose proof (A i x D) as Eq.
  assert (M : made (tensor_at p i) = -1) by (destruct (writers i T) as [[_ M]|M]; cbv zeta in *; [lia|tauto]).
  split; [auto|]. split; [auto|]. split; [lia|]. split; [auto|].
  intros y (Y & _ & E & _). pose proof (node y Y). lia.
Qed.

(** The contents that stay at a step, or are taken there, agree. *)
Lemma sound_agrees s m i x : sound s m -> defined V s i x -> Stays p i (now V s) \/ TakenAt p (now V s) i ->
  found m i x = own V s i x.
Proof.
  intros [_ S] D [St|(y & E & R)]; destruct (S i x D) as (_ & _ & _ & A & Q); auto. apply (Q y R). assumption.
Qed.

Lemma sound_same s m : sound s m -> is_step p (now V s) -> SameFor V p (now V s) (defined V s) (found m) (own V s).
Proof. intros So N i x To I D. apply sound_agrees; auto. apply touched; auto. Qed.

Lemma sound_stores s m w : sound s m -> allowed V p (now V s) (defined V s) w ->
  sound (stored V p s w) (store_flat V p start w m).
Proof.
  intros So (Hn & Hw & NV & In_ & Local). pose proof So as [N S]. split; auto. cbn.
  destruct (written (now V s) (result V w) Hn Hw) as [Tw Sw].
  assert (E : forall x, chosen V w x = true -> value V w (found m) x = value V w (own V s) x).
  { apply Local. apply sound_same; auto. }
  intros i x D. assert (P : is_tensor p i /\ inside p i x /\ made (tensor_at p i) <= now V s).
  { destruct D as [[-> C]|[D _]]; [split; [auto|]; split; [auto | apply Sw]|].
    destruct (S i x D) as (? & ? & ? & _). auto. }
  destruct P as (Ti & I & M). split; [auto|]. split; [auto|]. split; [auto|].
  assert (G : Stays p i (now V s) \/ TakenAt p (now V s) i ->
    found (store_flat V p start w m) i x = store_own V w (own V s) i x).
  { intros St. unfold Run.found at 1, store_flat, store_own.
    destruct (Z.eq_dec i (result V w)) as [->|Ne].
    - rewrite Z.eqb_refl.
      replace (flat_address p start (result V w) + x - flat_address p start (result V w)) with x by lia. cbn.
      destruct (chosen V w x) eqn:C; [auto|].
      destruct D as [[_ D]|[D _]]; [congruence|]. apply (sound_agrees s m); auto.
    - rewrite (proj2 (Z.eqb_neq _ _) Ne). cbn.
      destruct D as [[? _]|[D Kept]]; [congruence|].
      destruct (chosen V w (flat_address p start i + x - flat_address p start (result V w))) eqn:C;
        [|apply (sound_agrees s m); auto].
      exfalso. apply Kept. pose proof (In_ _ C) as Iw.
      destruct (same_byte i (result V w) x _ Ti Tw I Iw) as [Ea Eb]; [lia|].
      destruct all_safe as (_ & _ & _ & _ & Q & _).
      destruct (Q (now V s) (result V w) i _ x Hn Hw NV Ti Ne St Iw I) as (O & X & _); auto.
      rewrite X in C. auto. }
  split; [auto|]. intros y R. split; [|intros Ey; apply G; right; exists y; auto]. cbn.
  destruct D as [[-> _]|[D _]]; [left; apply Sw|]. destruct (S i x D) as (_ & _ & _ & _ & Q). apply (Q y R).
Qed.

Lemma sound_shows s m v : sound s m -> is_step p (now V s) -> is_tensor p v -> is_view p v ->
  step_writes p (now V s) v -> sound (shown V p s v) m.
Proof.
  intros [N S] Hn Tv Vv Wv. split; auto. cbn. intros i x D.
  destruct all_safe as (_ & _ & Vs & _). specialize (Vs v Tv Vv). cbv zeta in Vs.
  destruct Vs as (Tb & Hb & Ad & _ & _ & _ & Sb & Once).
  destruct D as [(-> & I & D)|[Ne D]].
  - destruct (written (now V s) v Hn Wv) as [_ Sv].
    split; [auto|]. split; [auto|]. split; [apply Sv|]. split.
    + intros _. rewrite Z.eqb_refl. destruct (S _ _ D) as (_ & _ & _ & A & _). rewrite <- A.
      * unfold Run.found, flat_address, tensor_arena. rewrite Hb, Ad. f_equal. lia.
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

Lemma sound_moves s m n : sound s m -> now V s <= n -> is_step p n -> ~ Siblings p (now V s) n ->
  sound (moved V s n) m.
Proof.
  intros [N S] L Hn Sib. split; cbn; auto.
  intros i x D. destruct (S i x D) as (T & I & M & A & Q). split; [auto|]. split; [auto|]. split; [lia|].
  split; [intros St; apply A; unfold Stays in *; lia|].
  intros y R. cbn. destruct (Q y R) as [[J|J] B].
  - split; [eapply leaves_arms; eauto; lia|]. intros _. apply A. unfold Stays. lia.
  - split; [right; lia|]. intros ->. apply B. lia.
Qed.

Lemma sound_begins_again s m e : sound s m -> In (e, now V s) (loops p) -> sound (begun_again V p s e) m.
Proof.
  intros [N S] L. split; cbn.
  - right. destruct (loop _ _ L). unfold is_step. lia.
  - intros i x [D M]. destruct (S i x D) as (T & I & _ & A & Q). destruct (loop _ _ L) as (B1 & B2 & Keep & Rd).
    assert (M' : made (tensor_at p i) <= e).
    { destruct M as [W|(z & Z1 & W)]; [destruct (writers i T) as [[_ M]|[? _]]; cbv zeta in *; lia|].
      assert (Sz : is_step p z) by (unfold is_step; lia). destruct (writes_stay z i Sz W). lia. }
    split; [auto|]. split; [auto|]. split; [auto|].
    split; [intros St; apply A; apply Keep; auto|].
    intros y R. cbn. pose proof R as (Y & Ry & E & Nd & _).
    assert (Ne : e <> leave_of p y) by (intros ->; apply Rd in Ry; unfold Stays in Ry; lia).
    split; [|congruence]. destruct (Q y R) as [[J|J] _]; [left; lia|]. right.
    destruct (Z_lt_le_dec e (leave_of p y)) as [G|]; [|auto]. exfalso.
    destruct (arm_at_step y e) as (a & Aa & Ia); auto; [lia|].
    pose proof (loop_nests _ _ L y a Aa Ia) as In'. pose proof (arm_bounds y a Aa). unfold in_arm in In'. lia.
Qed.

Lemma sound_read s m i : sound s m -> still_read V p s i -> agree V p start m s i.
Proof.
  intros [N S] Still x D. destruct (S i x D) as (T & I & M & A & Q).
  destruct Still as [(n & L & Hn & To)|Re].
  - destruct (touched n i Hn To) as [_ [St|(y & -> & Ry)]]; [apply A; unfold Stays in *; lia|].
    destruct (Q y Ry) as [[J|J] B']; [apply A; unfold Stays; lia | apply B'; lia].
  - apply A. split; auto. destruct all_safe as (_ & (_ & _ & _ & _ & _ & _ & W) & _). rewrite (proj1 (W i T Re)).
    unfold last_step, is_step in *. lia.
Qed.

Section Program.
Variables (R : Type) (code : Z -> R -> action V R).

(** What each machine finds after the same number of actions. *)
Definition alike (s : private_machine V R) (f : arena_machine V R) : Prop :=
  at_step V R f = now V s /\ registers_ V R f = registers V R s /\ sound s (content V R f).

Lemma alike_next s f : alike s f -> lawful V p R code s ->
  alike (private_step V p R code s) (arena_step V p R code start f).
Proof.
  intros (E1 & E2 & So) L. unfold lawful in L. unfold private_step, arena_step. rewrite E1, E2.
  destruct (code (now V s) (registers V R s)) as [l|w r|v r|n r|e r|]; (split; [|split]); cbn; auto.
  - destruct L as [N L]. apply L. apply sound_same; auto.
  - apply sound_stores; auto.
  - destruct L as (N & T & Vw & W). apply sound_shows; auto.
  - destruct L as (Le & N & Sib). apply sound_moves; auto.
  - apply sound_begins_again; auto.
Qed.
End Program.
End Flat.

Theorem runs_as_private : RunsAsPrivate V p.
Proof.
  intros R code start s m r k Ap B A L. cbv zeta.
  assert (Al : alike start R (Nat.iter k (private_step V p R code) (Private V R s r))
    (Nat.iter k (arena_step V p R code start) (Arenas V R (now V s) m r))).
  { induction k as [|k IH]; cbn.
    - split; [reflexivity|]. split; [reflexivity|]. apply sound_begin; auto.
    - apply alike_next; [assumption | apply IH; intros j J; apply L; lia | apply L; lia]. }
  destruct Al as (E1 & E2 & So). split; [auto|]. split; [auto|]. intros i. apply sound_read. assumption.
Qed.

(** The caller's views have the bytes of the tensors that they show. *)
Lemma shown_value start s i r : (forall v x, is_tensor p v -> is_view p v -> writer (tensor_at p v) = -1 ->
    inside p v x -> own V s v x = own V s (base (tensor_at p v)) (shift (tensor_at p v) + x)) ->
  Shows p i r -> is_tensor p i -> writer (tensor_at p i) = -1 -> forall x, inside p i x ->
  own V s i x = own V s r (flat_address p start i + x - flat_address p start r).
Proof.
  intros Vs. induction 1 as [i N|i r Vw S IH]; intros T W x I; [f_equal; lia|].
  destruct all_safe as (_ & _ & Sh & _). destruct (Sh i T Vw) as (Tb & Hb & Ad & S0 & S1 & Cb & _).
  rewrite Vs; auto. rewrite IH; auto; [|unfold inside in *; lia]. f_equal.
  unfold flat_address, tensor_arena in *. rewrite Hb, Ad. lia.
Qed.

Theorem callers_can_begin : CallersCanBegin V p.
Proof.
  intros start s Ap [_ B] Vs.
  set (has := fun y i => (writer (tensor_at p i) =? -1) && (flat_address p start i <=? y) &&
    (y <? flat_address p start i + bytes (tensor_at p i))).
  assert (Has : forall y i, has y i = true <-> writer (tensor_at p i) = -1 /\ inside p i (y - flat_address p start i)).
  { intros y i. unfold has, inside. rewrite !andb_true_iff, Z.eqb_eq, Z.leb_le, Z.ltb_lt. lia. }
  exists (fun y => match find (has y) (run 0 (tensors p)) with
    | Some i => own V s i (y - flat_address p start i) | None => own V s 0 0 end).
  intros i x D. destruct (B i x D) as (T & I & W). unfold found. set (y := flat_address p start i + x).
  assert (Iy : inside p i (y - flat_address p start i)) by (replace (y - _) with x by lia; auto).
  destruct (find (has y) (run 0 (tensors p))) as [j|] eqn:F.
  - apply find_some in F as [Tj H]. apply run_spec in Tj. apply Has in H as [Wj Ij].
    destruct (Z.eq_dec i j) as [<-|Ne]; [f_equal; lia|].
    destruct (same_byte start Ap i j x (y - flat_address p start j) T Tj I Ij) as [Ea Eb]; [lia|].
    destruct safe as (_ & _ & _ & _ & _ & _ & _ & _ & _ & _ & _ & C & _).
    destruct (C i j x (y - flat_address p start j) T Tj Ne W Wj I Ij Ea Eb) as (r & Si & Sj).
    rewrite (shown_value start s i r Vs Si T W x I), (shown_value start s j r Vs Sj Tj Wj _ Ij). f_equal. lia.
  - exfalso. pose proof (find_none _ _ F i) as N. rewrite (proj2 (Has y i)) in N; auto. discriminate N.
    apply run_spec. exact T.
Qed.

(** Arenas are apart if their ranges of addresses are. *)
Lemma ranges_apart start : (forall a b x y, 0 <= a < arenas p -> 0 <= b < arenas p -> a <> b ->
  0 <= x < limit (arena_at p a) -> 0 <= y < limit (arena_at p b) -> start a + x <> start b + y) -> ArenasApart p start.
Proof.
  intros H k l x y Sk Sl D Bk Bl. destruct safe as (_ & _ & W & _).
  destruct (W k Sk) as (_ & _ & Ak & _ & Ok & Lk & _), (W l Sl) as (_ & _ & Al & _ & Ol & Ll & _).
  unfold has_byte in *. apply H; auto; unfold arena_of; lia.
Qed.

(** * Paths *)

Lemma goes_first n : Goes p (-1) n -> n = 0.
Proof.
  intros (N & L & _ & [F|[F|(x & a & A & F)]]); [lia | |].
  - destruct (loop _ _ (proj1 F)). lia.
  - pose proof (arm_bounds x a A). pose proof (node x (proj1 A)). lia.
Qed.

Lemma path_facts way l m n : Path p way l m n -> is_step p n /\ way n /\ forall z, In z l -> 0 <= z < n /\ way z.
Proof.
  induction 1 as [n G W|l k m n P (N & Wm & B) G W|l k m e P (N & Wm & B) L I W].
  - split; [apply G|]. split; [auto|]. intros z [].
  - split; [apply G|]. split; [auto|]. destruct G as (_ & Lt & _). unfold is_step in *.
    intros z [<-|I]; [split; [lia | auto]|]. destruct (B z I). split; [lia | auto].
  - destruct (B e I) as [E _]. split; [unfold is_step in *; destruct (loop _ _ L); lia|]. split; [auto|].
    intros z J. apply filter_In in J as [J Lt]. apply Z.ltb_lt in Lt. destruct (B z J). split; [lia | auto].
Qed.

Lemma goes_in_arm m n x a : Goes p m n -> is_arm p x a -> in_arm a m -> n < leave_of p x -> in_arm a n.
Proof.
  intros (_ & L & Sib & _) A I Lt. pose proof (arm_bounds x a A).
  destruct (arm_at_step x n (proj1 A)) as (b & B & J); [unfold in_arm in *; lia|].
  destruct (arms_ordered x a b A B) as [->|D]; auto. exfalso. apply Sib. exists x, a, b.
  split; [auto|]. split; [auto|]. split; [|auto]. intros ->. unfold in_arm in *. lia.
Qed.

(** The steps of a list that are in a branch are in the one in which control is, until it leaves the node. *)
Lemma path_arms way l m n : Path p way l m n -> forall z x a, In z l -> is_arm p x a -> in_arm a z ->
  n < leave_of p x -> in_arm a n.
Proof.
  induction 1 as [n G W|l k m n P IH G W|l k m e P IH L I W]; intros z x a J A Iz Lt.
  - destruct J.
  - pose proof G as (_ & Mn & _). apply (goes_in_arm m n x a G A); [|exact Lt]. destruct J as [->|J]; auto. apply (IH z x a); auto. lia.
  - apply filter_In in J as [J Ze]. apply Z.ltb_lt in Ze. pose proof (arm_bounds x a A).
    destruct (arm_at_step x e (proj1 A)) as (b & B & Ib); [unfold in_arm in *; lia|].
    pose proof (loop_nests _ _ L x b B Ib) as Im. pose proof (arm_bounds x b B).
    assert (In' : in_arm a m) by (apply (IH z x a J A Iz); unfold in_arm in *; lia).
    replace a with b; auto. apply (one_arm x b a m); auto.
Qed.

(** How control comes to a later step: the steps that it passes over are in branches that do not hold that step, or in
    the body of a loop that it leaves. *)
Lemma goes_over m n z : Goes p m n -> m < z < n -> Covers p z n -> Passable p m n.
Proof.
  intros (_ & _ & _ & [F|[F|(x & a & A & F)]]) Z C; [lia | auto |]. exfalso.
  pose proof (arm_bounds x a A) as B. pose proof A as [X _].
  assert (Q : exists b, is_arm p x b /\ in_arm b z).
  { apply arm_at_step; auto. unfold in_arm in *. lia. }
  destruct Q as (b & Ab & Ib). pose proof (C x b Ab Ib) as Im. pose proof (arm_bounds x b Ab).
  unfold in_arm in *. destruct F as [(-> & -> & L)|[(-> & -> & L)|(-> & -> & L)]]; try lia.
  destruct (arms_ordered x a b A Ab) as [->|[?|?]]; lia.
Qed.

(** How control comes to the leave of an exclusive node: from the end of a branch, past one without steps, or past a
    loop that holds the node. *)
Lemma goes_to_leave m n x : Goes p m n -> is_exclusive p x -> n = leave_of p x ->
  (exists a, is_arm p x a /\ (m = snd a /\ fst a <= snd a \/ m = enter_of p x /\ snd a < fst a)) \/
  Passable p m n /\ m <= enter_of p x.
Proof.
  intros (_ & L & _ & F) X E. pose proof (node x X) as B. destruct F as [F|[F|(y & a & A & F)]].
  - left. destruct (Z.eq_dec m (enter_of p x)) as [->|Ne].
    + destruct nests as [Q _]. destruct (Q x X) as (_ & _ & (a & A) & _). pose proof (arm_bounds x a A).
      exists a. split; auto. right. lia.
    + assert (enter_of p x < m) as G by lia. destruct (arm_at_step x m) as (a & A & I); auto; [lia|].
      pose proof (arm_bounds x a A). unfold in_arm in I. exists a. split; auto. left. lia.
  - right. split; auto. destruct (Z_le_gt_dec m (enter_of p x)) as [|G]; auto. exfalso.
    destruct (arm_at_step x m) as (a & A & I); auto; [lia|].
    pose proof (loop_nests _ _ (proj1 F) x a A I). pose proof (arm_bounds x a A). unfold in_arm in *. lia.
  - left. destruct F as [(-> & E' & L')|[(-> & E' & L')|(-> & E' & L')]].
    + exfalso. assert (I : in_arm a (leave_of p x)) by (unfold in_arm; lia).
      pose proof (leave_nests x y a X A I) as I'. unfold in_arm in *. lia.
    + replace y with x in * by (apply one_leave; auto; [apply A | congruence]). exists a. auto.
    + replace y with x in * by (apply one_leave; auto; [apply A | congruence]). exists a. auto.
Qed.

Lemma covers_between z m n : z <= m <= n -> Covers p z n -> Covers p z m.
Proof. intros L C x a A I. pose proof (C x a A I). unfold in_arm in *. lia. Qed.

Lemma covers_loop z e n : In (e, n) (loops p) -> Covers p z e -> Covers p z n.
Proof. intros L C y a A I. apply (loop_nests _ _ L y a A). apply (C y a A). assumption. Qed.

(** Control has passed step [z] in a loop without an iteration. *)
Definition over (l : list Z) (n z : Z) : Prop := exists e f, Passable p e f /\ In e l /\ f <= n /\
  (forall k, In k l -> ~ e < k < f) /\ e < z < f.

Lemma over_skipped l n z r : over l n z -> In r (writes p z) -> Skipped p l n r.
Proof. intros (e & f & L & I & Le & No & Z) W. exists e, f, z. auto 10. Qed.

Lemma over_on l m n z : over l m z -> m <= n -> over (m :: l) n z.
Proof.
  intros (e & f & L & I & Le & No & Z) Mn. exists e, f. split; [auto|]. split; [right; auto|]. split; [lia|].
  split; [|auto]. intros k [<-|J]; [lia | auto].
Qed.

Lemma over_again l m e z : over l m z -> In e l -> z < e -> over (filter (fun k => k <? e) l) e z.
Proof.
  intros (e' & f & L & I & Le & No & Z) J Lt. pose proof (No e J). exists e', f. split; [auto|].
  split; [apply filter_In; split; auto; apply Z.ltb_lt; lia|]. split; [lia|]. split; [|auto].
  intros k K. apply filter_In in K as [K _]. auto.
Qed.

Lemma over_now way l k m n z : Path p way l k m -> Passable p m n -> m < z < n -> over (m :: l) n z.
Proof.
  intros P L Z. exists m, n. split; [auto|]. split; [left; auto|]. split; [lia|]. split; [|auto].
  destruct (path_facts _ _ _ _ P) as (_ & _ & B). intros j [<-|J]; [lia|]. apply B in J. lia.
Qed.

(** Control has passed each step that covers the one to which it has come. *)
Lemma path_passes way l m n : Path p way l m n -> forall z, 0 <= z < n -> Covers p z n -> In z l \/ over l n z.
Proof.
  induction 1 as [n G W|l k m n P IH G W|l k m e P IH L I W]; intros z Lz C.
  - apply goes_first in G. lia.
  - pose proof G as (_ & Mn & _). destruct (Z.lt_total z m) as [Q|[->|Q]]; [|left; left; auto|].
    + destruct (IH z) as [J|J]; [lia | eapply covers_between; [|exact C]; lia | left; right; auto|].
      right. apply over_on; auto. lia.
    + right. eapply over_now; eauto; [|lia]. eapply goes_over; eauto. lia.
  - destruct (loop _ _ L) as (E & _). destruct (IH z) as [J|J]; [lia | eapply covers_loop; eauto | |].
    + left. apply filter_In. split; auto. apply Z.ltb_lt. lia.
    + right. eapply over_again; eauto. lia.
Qed.

Scheme arm_writes_ind := Induction for ArmWrites Sort Prop
  with arms_write_ind := Induction for ArmsWrite Sort Prop.

(** If each branch writes a tensor, some step of the node does. *)
Lemma arms_write_by_step i x : ArmsWrite p i x -> exists z, enter_of p x < z < leave_of p x /\ In i (writes p z).
Proof.
  revert x. apply (arms_write_ind p i
    (fun a _ => forall x, is_arm p x a -> exists z, enter_of p x < z < leave_of p x /\ In i (writes p z))
    (fun x _ => exists z, enter_of p x < z < leave_of p x /\ In i (writes p z))).
  - intros a z [I _] W x A. pose proof (arm_bounds x a A). unfold in_arm in I. exists z. split; auto. lia.
  - intros a y [I _] Y (z & Z & W) x A. pose proof (arm_bounds x a A). destruct Y as [y Y _].
    pose proof (leave_nests y x a Y A I). unfold in_arm in *. exists z. split; auto. lia.
  - intros x X _ IH. destruct nests as [N _]. destruct (N x X) as (_ & _ & (a & A) & _). eapply IH; eauto.
Qed.

Lemma is_node i y : ArmsWrite p i y -> is_exclusive p y.
Proof. intros W. destruct W. assumption. Qed.

(** The same of nodes that write a tensor in each branch. *)
Lemma path_joins way l m n i : Path p way l m n -> forall y, ArmsWrite p i y -> leave_of p y <= n ->
  Covers p (leave_of p y) n -> exists z, z < leave_of p y /\ In i (writes p z) /\ (In z l \/ over l n z).
Proof.
  induction 1 as [n G W|l k m n P IH G W|l k m e P IH L I W]; intros y Wy Ly C;
    pose proof (is_node _ _ Wy) as Y; pose proof (node y Y) as By.
  - apply goes_first in G. lia.
  - pose proof G as (_ & Mn & _).
    assert (On : forall z, In z l \/ over l m z -> In z (m :: l) \/ over (m :: l) n z).
    { intros z [J|J]; [left; right; auto | right; apply over_on; auto; lia]. }
    assert (Past : Passable p m n -> m <= enter_of p y ->
      exists z, z < leave_of p y /\ In i (writes p z) /\ (In z (m :: l) \/ over (m :: l) n z)).
    { intros Lp Lm. destruct (arms_write_by_step i y Wy) as (z & Z & Wz). exists z. split; [lia|]. split; [auto|].
      right. eapply over_now; eauto. lia. }
    destruct (Z_le_gt_dec (leave_of p y) m) as [Q|Q].
    { destruct (IH y) as (z & Z & Wz & J); auto; [eapply covers_between; [|exact C]; lia|]. exists z. auto. }
    destruct (Z.eq_dec (leave_of p y) n) as [E|E].
    + destruct (goes_to_leave m n y) as [(a & A & [[Ea La]|[_ La]])|[Lp Lm]]; auto.
      * inversion Wy as [y' Y' Each Ey]; subst y'. pose proof (arm_bounds y a A) as Ba.
        pose proof (Each a A) as Wa; inversion Wa as [a' z [Iz Cz] Wz Ea'|a' y' [Iz Cz] Wz Ea']; subst a'.
        -- exists z. unfold in_arm in Iz. split; [lia|]. split; [auto|].
           destruct (Z.eq_dec z m) as [->|Ne]; [left; left; auto|]. apply On. eapply path_passes; eauto.
           { pose proof (node y Y). lia. }
           { rewrite Ea. apply Cz. unfold in_arm. lia. }
        -- destruct (IH y') as (z & Z & Wz' & J); auto.
           { unfold in_arm in Iz. lia. }
           { rewrite Ea. apply Cz. unfold in_arm. lia. }
           exists z. unfold in_arm in Iz. split; [lia | auto].
      * exfalso. inversion Wy as [y' Y' Each Ey]; subst y'.
        pose proof (Each a A) as Wa; inversion Wa as [a' z [Iz Cz] Wz Ea'|a' z [Iz Cz] Wz Ea']; subst; unfold in_arm in Iz; lia.
    + assert (Lp : Passable p m n) by (eapply (goes_over m n (leave_of p y)); eauto; lia).
      apply Past; auto. destruct (Z_le_gt_dec m (enter_of p y)) as [|Gt]; auto. exfalso.
      destruct (arm_at_step y m Y) as (b & B & Ib); [lia|]. pose proof (loop_nests _ _ (proj1 Lp) y b B Ib).
      pose proof (arm_bounds y b B). unfold in_arm in *. lia.
  - destruct (loop _ _ L) as (E & _). destruct (IH y) as (z & Z & Wz & J); auto; [lia | eapply covers_loop; eauto |].
    exists z. split; [auto|]. split; [auto|]. destruct J as [J|J].
    + left. apply filter_In. split; auto. apply Z.ltb_lt. lia.
    + right. eapply over_again; eauto. lia.
Qed.

Lemma written_met way l m n r : Path p way l m n -> WrittenBefore p r n -> Met p l n r.
Proof.
  intros P [(z & Z & C & W)|(y & L & C & W)].
  - destruct (path_passes _ _ _ _ P z Z C) as [J|J]; [left; eauto | right; eapply over_skipped; eauto].
  - destruct (path_joins _ _ _ _ r P y W L C) as (z & _ & Wz & [J|J]);
      [left; eauto | right; eapply over_skipped; eauto].
Qed.

Lemma arm_met way l m y a z r : Path p way l m (leave_of p y) -> is_arm p y a -> in_arm a m -> Directly p a z ->
  In r (writes p z) -> Met p l (leave_of p y) r.
Proof.
  intros P A I [Iz C] W. pose proof (arm_bounds y a A) as B. pose proof (node y (proj1 A)).
  remember (leave_of p y) as n eqn:E. destruct P as [n G _|l k m n P G _|l k m e P L _ _].
  - unfold in_arm in I. lia.
  - destruct (goes_to_leave m n y G (proj1 A) E) as [(b & Ab & [[Eb Lb]|[Eb _]])|[_ Le]]; unfold in_arm in I; try lia.
    assert (a = b) as -> by (apply (one_arm y a b m); auto; unfold in_arm; lia).
    destruct (Z.eq_dec z m) as [->|Ne]; [left; exists m; split; [left|]; auto|].
    destruct (path_passes _ _ _ _ P z) as [J|J].
    + unfold in_arm in Iz. lia.
    + rewrite Eb. apply C. unfold in_arm. lia.
    + left. exists z. split; [right|]; auto.
    + right. eapply over_skipped; eauto. apply over_on; auto. destruct G as (_ & G & _). lia.
  - destruct (loop _ _ L). unfold in_arm in I. lia.
Qed.

Lemma returned_met way l m r : Path p way l m (last_step p) -> is_tensor p r -> returned (tensor_at p r) = true ->
  writer (tensor_at p r) = -1 \/ Met p (last_step p :: l) (last_step p) r.
Proof.
  intros P T Ret. destruct all_safe as (_ & (_ & _ & _ & _ & _ & _ & Q) & _). destruct (Q r T Ret) as [_ [W|W]]; auto.
  right. destruct (path_facts _ _ _ _ P) as (N & _). unfold is_step, last_step in *.
  assert (Free : forall z, Covers p z (steps p) -> Covers p z (Z.max 0 (steps p - 1))).
  { intros z C y a Ar Ia. pose proof (C y a Ar Ia) as I. pose proof (arm_bounds y a Ar).
    pose proof (node y (proj1 Ar)). unfold in_arm in I. lia. }
  assert (On : forall z, In r (writes p z) ->
    In z l \/ over l (Z.max 0 (steps p - 1)) z -> Met p (Z.max 0 (steps p - 1) :: l) (Z.max 0 (steps p - 1)) r).
  { intros z Wz [J|J]; [left; exists z; split; [right|]; auto | right].
    eapply over_skipped; eauto. apply over_on; auto. lia. }
  destruct W as [(z & Z & C & W)|(y & L & C & W)].
  - destruct (Z.eq_dec z (Z.max 0 (steps p - 1))) as [->|Ne]; [left; eexists; split; [left; reflexivity | auto]|].
    apply (On z W). eapply path_passes; eauto. lia.
  - pose proof (node y (is_node _ _ W)). destruct (path_joins _ _ _ _ r P y W) as (z & _ & Wz & J); [lia | auto | eauto].
Qed.

(** * Values *)

Lemma acts_same s t : acts V p s t -> now V t = now V s.
Proof. induction 1; auto. Qed.

(** The tensors that were made before this step and are needed after it, by the next iteration, by the leave of an
    exclusive node or by the caller, keep their values. *)
Definition outlives (n i : Z) : Prop := made (tensor_at p i) < Z.max 0 n /\
  (n < needed (tensor_at p i) \/
   n = needed (tensor_at p i) /\ 
     ((exists e, In (e, n) (loops p)) \/ (exists x, ArmResult p x i) \/ returned (tensor_at p i) = true)).

Lemma acts_keep s t i x : acts V p s t -> is_tensor p i -> outlives (now V s) i -> defined V s i x -> defined V t i x.
Proof.
  intros A T O D. induction A as [s|s t w A IH (Hn & Hw & _)|s t v A IH Hn Tv Vv Wv]; auto; specialize (IH O D);
    rewrite (acts_same _ _ A) in *; destruct O as [W O]; cbn.
  - right. split; auto. intros (Op & Ne & _).
    destruct (written (now V s) (result V w)) as [Tw [Mw _]]; auto.
    destruct all_safe as (_ & _ & _ & P & _ & _ & _ & Dead). destruct Op as [Op|Op].
    + destruct (P (result V w) Tw) as (_ & _ & _ & _ & Nd & Md & _ & Nr & Na & _ & Lp);
        [unfold is_tensor in T; lia|].
      rewrite Op in *. destruct O as [O|[O [[e L]|[[y R]|R]]]]; [lia| |exact (Na y R)|congruence].
      apply (Lp e). replace (writer (tensor_at p (result V w))) with (now V s) by lia. assumption.
    + apply Dead in Op. lia.
  - right. split; auto. intros ->. destruct all_safe as (_ & _ & Vs & _).
    destruct (Vs v Tv Vv) as (_ & _ & _ & _ & _ & _ & _ & Once). specialize (Once _ Hn Wv).
    unfold is_step in Hn. lia.
Qed.

Lemma full_path l m s : in_full V p l m s -> Path p (fun _ => True) l m (now V s).
Proof.
  induction 1 as [s n G Go|l m s t n F IH A D Go|l m s t e F IH A D L I]; cbn; econstructor; eauto.
Qed.

(** All that was written on the way and is still needed, or that the leave of a node takes, is defined. *)
Definition ready (l : list Z) (s : state V) : Prop := forall i x, is_tensor p i -> inside p i x ->
  (writer (tensor_at p i) = -1 -> now V s <= needed (tensor_at p i) -> defined V s i x) /\
  (forall z, In z l -> In i (writes p z) -> now V s <= needed (tensor_at p i) \/ TakenAt p (now V s) i ->
     defined V s i x).

(** What an iteration begins with is there when the loop begins again. *)
Lemma kept_again s t i x e : acts V p s t -> In (e, now V s) (loops p) -> is_tensor p i -> Stays p i e ->
  MadeBy p e i -> (now V s <= needed (tensor_at p i) -> defined V s i x) -> defined V t i x /\ MadeBy p e i.
Proof.
  intros A L T St Mb D. destruct (loop _ _ L) as (E & _ & K & _). destruct (K i T St) as [M Nd].
  split; [|exact Mb]. unfold Stays in St. apply acts_keep with (s := s); auto. split; [lia|].
  destruct (Z.eq_dec (now V s) (needed (tensor_at p i))); [right; split; eauto | left; lia].
Qed.

Lemma ready_when_full l m s : in_full V p l m s -> ready l s.
Proof.
  intros F. pose proof F as F'. induction F as [s n G Go|l m s t n F IH A D Go|l m s t e F IH A D L I];
    intros i x T In_; cbn.
  - split; [intros W _; apply G; auto | intros z []].
  - specialize (IH F i x T In_). destruct IH as [R1 R2]. pose proof (full_path _ _ _ F) as P.
    destruct (path_facts _ _ _ _ P) as (N & _ & B). pose proof Go as (_ & Mn & _). split.
    + intros W Nd. apply acts_keep with (s := s); auto; [|apply R1; auto; lia]. split; [|left; lia].
      destruct (writers i T) as [[_ M]|[? _]]; cbv zeta in *; [unfold is_step in N; lia | lia].
    + intros z [<-|J] Wz Nd.
      { apply D; rewrite ?(acts_same _ _ A); auto. }
      destruct (B z J) as [Lz _]. assert (Sz : is_step p z) by (unfold is_step in *; lia).
      pose proof (writes_stay z i Sz Wz) as [Mz Nz].
      assert (K : now V s < needed (tensor_at p i) \/ now V s = needed (tensor_at p i) /\ exists y, ArmResult p y i).
      { destruct Nd as [Nd|(y & E & R)]; [left; lia|].
        pose proof R as (Y & _ & Ey & Ln & (b & Ab & Eb) & _). pose proof (arm_bounds y b Ab) as Bb.
        destruct (arm_at_step y z Y) as (c & Ac & Ic); [lia|].
        pose proof (path_arms _ _ _ _ P z y c J Ac Ic ltac:(lia)) as Im. pose proof (arm_bounds y c Ac) as Bc.
        destruct (goes_to_leave (now V s) n y) as [(a & Aa & [[Ea La]|[Ea _]])|[_ Le]]; auto; unfold in_arm in *; try lia.
        assert (c = a) as -> by (apply (one_arm y c a (now V s)); auto; unfold in_arm; lia).
        assert (Le : now V s <= needed (tensor_at p i)) by (destruct (arms_ordered y a b Aa Ab) as [->|[?|?]]; lia).
        destruct (Z.eq_dec (now V s) (needed (tensor_at p i))); [right; split; eauto | left; lia]. }
      apply acts_keep with (s := s); auto.
      * split; [lia|]. tauto.
      * apply (R2 z); auto. left. lia.
  - specialize (IH F i x T In_). destruct IH as [R1 R2]. destruct (loop _ _ L) as (E & _ & _ & Rd). split.
    + intros W Nd. destruct (writers i T) as [[_ M]|[? _]]; cbv zeta in *; [|lia].
      apply (kept_again s t i x e A L T); [unfold Stays; lia | left; exact W | intros; apply R1; auto].
    + intros z J Wz Nd. apply filter_In in J as [J Lz]. apply Z.ltb_lt in Lz.
      destruct (path_facts _ _ _ _ (full_path _ _ _ F)) as (N & _ & B). destruct (B z J) as [Bz _].
      assert (Sz : is_step p z) by (unfold is_step in *; lia). pose proof (writes_stay z i Sz Wz) as [Mz _].
      destruct Nd as [Nd|(y & Ey & (_ & Ri & _ & Ln & _))].
      * apply (kept_again s t i x e A L T); [unfold Stays; lia | | intros; apply (R2 z); auto].
        right. exists z. unfold is_step in Sz. split; [lia | exact Wz].
      * rewrite <- Ey in *. apply Rd in Ri. unfold Stays in Ri. lia.
Qed.

Lemma finds_readable l m s r x : in_full V p l m s -> Readable p l m (now V s) r x -> defined V s r x.
Proof.
  intros F (To & I & W). pose proof (full_path _ _ _ F) as P. destruct (path_facts _ _ _ _ P) as (N & _).
  destruct (touched (now V s) r N To) as [T St]. destruct (ready_when_full l m s F r x T I) as [R1 R2].
  destruct W as [W|[(z & J & Wz)|[L W]]].
  - apply R1; auto. destruct St as [[_ St]|(y & _ & (Y & _ & E & _))]; [auto|]. pose proof (node y Y).
    destruct (writers r T) as [[_ M]|[? _]]; cbv zeta in *; lia.
  - apply (R2 z); auto. destruct St as [[_ St]|St]; auto.
  - destruct F as [s n G Go|l m s t n F A D Go|l m s t e F A D Lp J]; cbn in *.
    + destruct (loop _ _ L). lia.
    + destruct (loop _ _ L). destruct Go as (_ & Go & _). lia.
    + destruct (written e r N (or_introl W)) as [_ Se]. apply (kept_again s t r x e A L T Se).
      { destruct (loop _ _ Lp). right. exists e. split; [lia | exact W]. }
      intros Nd. destruct (ready_when_full l m s F r x T I) as [_ R2']. apply (R2' e); auto.
Qed.

Lemma caller_finds l m s t r x : in_full V p l m s -> acts V p s t -> done V p t -> now V s = last_step p ->
  is_tensor p r -> returned (tensor_at p r) = true -> inside p r x ->
  writer (tensor_at p r) = -1 \/ (exists z, In z (now V s :: l) /\ In r (writes p z)) -> defined V t r x.
Proof.
  intros F A D E T Ret I W. pose proof (full_path _ _ _ F) as P. destruct (path_facts _ _ _ _ P) as (N & _ & B).
  destruct (ready_when_full l m s F r x T I) as [R1 R2].
  destruct all_safe as (_ & (_ & _ & _ & _ & _ & _ & Q) & _). destruct (Q r T Ret) as [Nd _].
  assert (Keep : made (tensor_at p r) < Z.max 0 (now V s) -> defined V s r x -> defined V t r x).
  { intros M Df. apply acts_keep with (s := s); auto. split; [assumption|]. right. split; [lia|]. auto. }
  destruct W as [W|(z & [<-|J] & Wz)].
  - destruct (writers r T) as [[_ M]|[? _]]; cbv zeta in *; [|lia]. apply Keep; [lia|]. apply R1; auto. lia.
  - apply D; rewrite ?(acts_same _ _ A); auto.
  - destruct (B z J) as [Bz _]. pose proof (writes_stay z r) as [M _]; auto; [unfold is_step in *; lia|].
    apply Keep; [lia|]. apply (R2 z); auto. left. lia.
Qed.

Theorem reads_find_values : ReadsFindValues V p.
Proof.
  split; [exact finds_readable|]. split; [exact caller_finds|]. split; [exact written_met|].
  split; [exact arm_met | exact returned_met].
Qed.
End RunProof.
