(** The meaning of the checks of tensors and steps: lifetimes, accesses, loops. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Check Safe ListsProof Placement Edges.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Section Memory.
Variable p : memory.
Hypothesis checked : memory_ok p = true.

Lemma memory_placed : every (storages p) (placed p) = true.
Proof. generalize checked. unfold memory_ok. intros H. facts. auto. Qed.

Lemma memory_disjoint : KeptDisjoint p.
Proof.
  pose proof memory_placed. generalize checked. unfold memory_ok, no_live_overlap. intros H'. facts.
  destruct (by_slots p); facts; [apply disjoint_by_slots | apply disjoint_by_edges]; auto.
Qed.
End Memory.

Section Accesses.
Variable p : plan.
Hypothesis checked : check p = true.

Lemma parts : memory_ok p = true /\
  every (tensors p) (tensor_ok p) = true /\ every (steps p) (step_ok p) = true /\
  forallb (loop_ok p) (loops p) = true /\ every (storages p) (sharing_is_sound p) = true /\
  forallb (tensors_apart p) (pairs p) = true /\
  every (exclusives p) (exclusive_ok p) = true /\ forallb (take_ok p) (takes p) = true.
Proof.
  generalize checked. unfold check.
  repeat match goal with |- (if ?c then _ else false) = true -> _ => destruct c eqn:?; [|discriminate] end.
  repeat match goal with H : (if ?c then _ else false) = true |- _ => destruct c eqn:?; [|discriminate H] end.
  auto 10.
Qed.

Lemma all_placed : every (storages p) (placed p) = true.
Proof. apply memory_placed, parts. Qed.

Lemma kept_storages_are_disjoint : KeptDisjoint p.
Proof. apply memory_disjoint, parts. Qed.

Lemma live_storages_are_apart : NoLiveOverlap p.
Proof. apply disjoint_when_live; [apply all_placed | apply kept_storages_are_disjoint]. Qed.

(** * Tensors and steps *)

Lemma tensor_checked i : is_tensor p i -> tensor_ok p i = true.
Proof. destruct parts as (_ & H & _). exact (every_spec _ _ H i). Qed.

Lemma tensors_within_storages : TensorsWithinStorages p.
Proof.
  intros i H. apply tensor_checked in H. unfold tensor_ok in H. facts. cbv zeta.
  assert (S : is_storage p (home (tensor_at p i))) by (unfold is_storage; lia).
  pose proof (storage_lives p all_placed _ S).
  repeat split; try lia; auto using power_of_two_spec.
  apply divides; auto. apply Z.eqb_eq. assumption.
Qed.

Lemma stays_within i : is_tensor p i ->
  -1 <= made (tensor_at p i) <= needed (tensor_at p i) /\ made (tensor_at p i) <= writer (tensor_at p i) /\
  (forall n, 0 <= n -> Stays p i n -> birth (tensor_at p i) <= n <= death (tensor_at p i)) /\
  (forall n, 0 <= n -> Stays p i n -> lives_at p (home (tensor_at p i)) n) /\
  In i (group (members p) (home (tensor_at p i))).
Proof.
  intros H. pose proof (tensor_checked i H) as C. unfold tensor_ok in C. facts.
  assert (M : In i (group (members p) (home (tensor_at p i)))) by (eapply listed_spec; eauto).
  unfold Stays, lives_at. destruct (writer (tensor_at p i) =? -1) eqn:W; facts; repeat split; try lia; auto.
Qed.

Lemma loops_keep : LoopsKeep p.
Proof.
  intros e n H. destruct parts as (_ & _ & _ & L & _). rewrite forallb_forall in L.
  pose proof (L _ H) as Q. unfold loop_ok in Q. facts. cbn in *. split; [lia|]. split; [lia|]. split.
  - intros i I S. apply tensor_checked in I. unfold tensor_ok in I. facts.
    match goal with K : forall x, In x (loops p) -> outlasts _ _ = true |- _ => specialize (K _ H) end.
    unfold outlasts, Stays in *. cbn in *.
    assert (B : between (made (tensor_at p i)) e (needed (tensor_at p i)) = true)
      by (unfold between; apply andb_true_iff; split; apply Z.leb_le; lia).
    rewrite B in *. cbn in *. facts. lia.
  - intros r R. match goal with K : forall x, In x (reads p e) -> _ |- _ => apply K in R end.
    unfold stays in R. facts. unfold Stays. lia.
Qed.

(** * Exclusive branches *)

Lemma exclusive_checked x : is_exclusive p x -> exclusive_ok p x = true.
Proof. destruct parts as (_ & _ & _ & _ & _ & _ & H & _). exact (every_spec _ _ H x). Qed.

Lemma in_range_spec a n : in_range a n = true <-> in_arm a n.
Proof. unfold in_range, in_arm, between. rewrite andb_true_iff, !Z.leb_le. tauto. Qed.

Lemma within_spec x a z : is_arm p x a -> in_arm a z -> fst a <= fst (within p z) /\ snd (within p z) <= snd a.
Proof.
  intros [X A] I. apply exclusive_checked in X. unfold exclusive_ok in X. facts.
  match goal with K : forall b : Z * Z, _ -> _ = true |- _ => specialize (K a A) end. facts.
  match goal with K : forall n : Z, In n (run _ _) -> _ = true |- _ => specialize (K z) end.
  rewrite run_spec in *. unfold in_arm in I.
  match goal with K : _ -> _ = true |- _ => specialize (K ltac:(lia)) end. facts. lia.
Qed.

Lemma covers_spec z n : covers p z n = true -> Covers p z n.
Proof.
  unfold covers. rewrite in_range_spec. intros C x a A I. pose proof (within_spec x a z A I). unfold in_arm in *. lia.
Qed.

Lemma directly_spec a z : directly p a z = true -> Directly p a z.
Proof.
  unfold directly. intros H. facts. rewrite in_range_spec in *. split; auto.
  intros n I x b B Iz. pose proof (within_spec x b z B Iz). unfold in_arm in *. lia.
Qed.

Lemma follow_spec l : forall from stop, follow from stop l = true -> from <= stop /\
  (forall a, In a l -> from <= fst a <= snd a + 1 /\ snd a < stop) /\
  (forall n, from <= n < stop -> exists a, In a l /\ in_arm a n) /\
  ForallOrdPairs (fun a b => snd a < fst b) l.
Proof.
  induction l as [|a l IH]; intros from stop H; cbn in H; facts.
  - split; [lia|]. split; [intros a []|]. split; [lia|constructor].
  - destruct (IH (snd a + 1) stop) as (L & B & T & O); auto. split; [lia|]. split; [|split].
    + intros b [<-|I]; [lia|]. apply B in I. lia.
    + intros n N. destruct (Z_le_gt_dec n (snd a)); [exists a; split; [left; auto|unfold in_arm; lia]|].
      destruct (T n) as (b & I & In_); [lia|]. exists b. split; [right; auto|auto].
    + constructor; auto. apply Forall_forall. intros b I. apply B in I. lia.
Qed.

Lemma leaves_ascend x k : 0 <= k -> is_exclusive p x -> is_exclusive p (x + 1 + k) ->
  leave_of p x < leave_of p (x + 1 + k).
Proof.
  intros N X. revert k N. apply (natlike_ind (fun k => is_exclusive p (x + 1 + k) -> _ < leave_of p (x + 1 + k))).
  - intros Y. pose proof (exclusive_checked _ Y) as C. unfold exclusive_ok in C. facts.
    match goal with K : _ || _ = true |- _ => apply orb_prop in K as [K|K]; facts end;
      unfold is_exclusive, leave_of in *; [lia|].
    replace (x + 1 + 0 - 1) with x in * by lia. assumption.
  - intros j J IH Y. assert (L : leave_of p x < leave_of p (x + 1 + j)) by (apply IH; unfold is_exclusive in *; lia).
    pose proof (exclusive_checked _ Y) as C. unfold exclusive_ok in C. facts.
    match goal with K : _ || _ = true |- _ => apply orb_prop in K as [K|K]; facts end;
      unfold is_exclusive, leave_of in *; [lia|].
    replace (x + 1 + Z.succ j - 1) with (x + 1 + j) in * by lia. lia.
Qed.

Lemma arms_nest : ArmsNest p.
Proof.
  split.
  - intros x X. pose proof (exclusive_checked x X) as C. unfold exclusive_ok in C. facts.
    match goal with K : follow _ _ _ = true |- _ => apply follow_spec in K as (_ & B & T & O) end.
    unfold enter_of, leave_of, is_arm. split; [lia|]. split; [lia|]. split; [|split; [|split; [|split; [|split]]]].
    + destruct (arms (exclusive_at p x)) as [|a l] eqn:E; [discriminate|]. exists a. split; auto. left. auto.
    + intros a [_ A]. apply B in A. lia.
    + intros n N. destruct (T n) as (a & A & I); [lia|]. exists a. auto.
    + intros a b [_ A] [_ A']. apply (ordered_apart _ _ O); auto.
    + apply covers_spec. assumption.
    + intros y Y E. destruct (Z.lt_total x y) as [L|[L|L]]; auto; exfalso;
        [pose proof (leaves_ascend x (y - x - 1)) as Q | pose proof (leaves_ascend y (x - y - 1)) as Q];
        unfold leave_of in Q.
      * replace (x + 1 + (y - x - 1)) with y in Q by lia. specialize (Q ltac:(lia) X Y). lia.
      * replace (y + 1 + (x - y - 1)) with x in Q by lia. specialize (Q ltac:(lia) Y X). lia.
  - intros e n L. destruct parts as (_ & _ & _ & K & _). rewrite forallb_forall in K. apply K in L.
    unfold loop_ok in L. facts. apply covers_spec. assumption.
Qed.

(** The steps that [Check.writers] lists write the tensor. *)
Lemma writers_write i z : is_tensor p i -> In z (Check.writers p i (tensor_at p i)) ->
  writer (tensor_at p i) <> -1 /\ is_step p z /\ In i (writes p z).
Proof.
  intros T I. apply tensor_checked in T. unfold tensor_ok in T. facts. unfold Check.writers in I.
  destruct (writer (tensor_at p i) =? -1) eqn:W; [destruct I|]. facts. split; auto.
  destruct I as [<-|I]; [split; [unfold is_step; lia | apply mem_spec; assumption]|].
  match goal with K : forall j : Z, In j (also p i) -> _ = true |- _ => specialize (K z I) end. facts.
  split; [unfold is_step; lia | apply mem_spec; assumption].
Qed.

Lemma arms_join i l : forall zs,
  (forall z, In z zs -> In i (writes p z) \/ exists y, z = leave_of p y /\ ArmsWrite p i y) ->
  all_join p zs l = true -> forall x, In x l -> ArmsWrite p i x.
Proof.
  induction l as [|x l IH]; intros zs Known H y I; cbn in H; [destruct I|]. facts.
  assert (W : ArmsWrite p i x).
  { constructor; [unfold is_exclusive; lia|]. intros a [_ A].
    match goal with K : forall b : Z * Z, _ -> _ = true |- _ => specialize (K a A) end.
    match goal with K : existsb _ _ = true |- _ => apply existsb_exists in K as (z & Iz & D) end.
    apply directly_spec in D. destruct (Known z Iz) as [Wz|(y' & -> & Wy)]; [eapply by_step | eapply by_node]; eauto. }
  destruct I as [<-|I]; auto. eapply IH; [|eassumption|exact I].
  intros z [<-|Iz]; auto. right. exists x. auto.
Qed.

Lemma written_before_spec i n : is_tensor p i -> writer (tensor_at p i) <> -1 ->
  written_before p i (tensor_at p i) n = true -> WrittenBefore p i n.
Proof.
  intros T W H. pose proof (tensor_checked i T) as C. unfold tensor_ok in C. facts.
  assert (Ws : forall z, In z (writer (tensor_at p i) :: also p i) -> is_step p z /\ In i (writes p z)).
  { intros z I. apply (writers_write i z T). unfold Check.writers.
    rewrite (proj2 (Z.eqb_neq _ _) W). exact I. }
  unfold written_before in H. apply orb_prop in H as [H|H]; [apply orb_prop in H as [H|H]|]; facts.
  - destruct (Ws (writer (tensor_at p i))) as [S I]; [left; auto|]. left. exists (writer (tensor_at p i)).
    split; [unfold is_step in S; lia|]. split; [apply covers_spec; assumption | assumption].
  - apply existsb_exists in H as (z & Iz & H). facts. destruct (Ws z) as [S I]; [right; auto|]. left. exists z.
    split; [unfold is_step in S; lia|]. split; [apply covers_spec; assumption | assumption].
  - apply existsb_exists in H as (x & Ix & H). facts. right. exists x. unfold leave_of.
    split; [assumption|]. split; [apply covers_spec; assumption|].
    match goal with K : all_join _ _ _ = true |- _ => eapply arms_join; [|exact K|exact Ix] end.
    intros z Iz. left. apply (writers_write i z T Iz).
Qed.

Lemma arms_result_spec x i : is_exclusive p x -> is_tensor p i -> In i (reads p (leave_of p x)) ->
  arms_result p x i = true -> ArmResult p x i /\ handed (tensor_at p i) = true.
Proof.
  intros X T R H. unfold arms_result in H. facts. split; auto.
  match goal with K : existsb (fun _ => existsb _ _) _ = true |- _ => apply existsb_exists in K as (a & Aa & Q) end.
  match goal with K : existsb _ (arms _) = true |- _ => apply existsb_exists in K as (b & Ab & Eb) end.
  apply existsb_exists in Q as (z & Iz & D). facts.
  split; [auto|]. split; [auto|]. split; [assumption|]. split; [assumption|]. split.
  - exists b. split; [split|]; auto.
  - exists a, z. split; [split; auto|]. split; [apply directly_spec; assumption|].
    apply (writers_write i z T Iz).
Qed.

(** * Accesses *)

Lemma step_checked n : is_step p n -> step_ok p n = true.
Proof. destruct parts as (_ & _ & H & _). exact (every_spec _ _ H n). Qed.

Lemma read_checked n r : is_step p n -> In r (reads p n) -> read_ok p n r = true.
Proof. intros H I. apply step_checked in H. unfold step_ok in H. facts. auto. Qed.

Lemma write_checked n w : is_step p n -> In w (writes p n) -> write_ok p n w = true.
Proof. intros H I. apply step_checked in H. unfold step_ok in H. facts. auto. Qed.

Lemma write_stays n i : is_step p n -> In i (writes p n) -> is_tensor p i /\ Stays p i n.
Proof.
  intros H I. apply write_checked in I as C; auto. unfold write_ok, stays in C. facts. unfold is_tensor, Stays. lia.
Qed.

Lemma read_stays n i : is_step p n -> In i (reads p n) ->
  is_tensor p i /\ (Stays p i n \/ exists x, n = leave_of p x /\ ArmResult p x i /\ handed (tensor_at p i) = true).
Proof.
  intros H I. apply read_checked in I as C; auto. unfold read_ok in C. facts.
  assert (T : is_tensor p i) by (unfold is_tensor; lia). split; auto.
  destruct (stays (tensor_at p i) n) eqn:S; [left; unfold stays in S; facts; unfold Stays; lia|]. right.
  match goal with K : existsb _ (run _ _) = true |- _ => apply existsb_exists in K as (x & X & K) end.
  rewrite run_spec in X. facts. exists x. subst n. split; auto. apply arms_result_spec; auto.
Qed.

Lemma loop_steps e n : In (e, n) (loops p) -> is_step p e.
Proof. intros H. destruct (loops_keep _ _ H) as (? & ? & _). unfold is_step. lia. Qed.

Lemma written_stays n i : is_step p n -> step_writes p n i -> is_tensor p i /\ Stays p i n.
Proof.
  intros H [I|[e [L I]]]; [apply write_stays; auto|].
  destruct (write_stays e i (loop_steps _ _ L) I) as [T S]. split; auto.
  destruct (loops_keep _ _ L) as (_ & _ & K & _). auto.
Qed.

Lemma touched_stays n i : is_step p n -> touches p n i -> is_tensor p i /\ (Stays p i n \/ TakenAt p n i).
Proof.
  intros H [[I|[e [L I]]]|W]; [| |split; [|left]; eapply written_stays; eauto].
  - destruct (read_stays n i H I) as [T [S|(x & E & R & _)]]; split; auto. right. exists x. auto.
  - destruct (read_stays e i (loop_steps _ _ L) I) as [T _]. split; auto. left.
    destruct (loops_keep _ _ L) as (_ & _ & K & R). auto.
Qed.

Lemma writer_checked i : is_tensor p i ->
  let t := tensor_at p i in
  (writer t = -1 /\ made t = -1 /\ birth t = 0) \/ (is_step p (writer t) /\ 0 <= made t /\ In i (writes p (writer t))).
Proof.
  intros H. apply tensor_checked in H. unfold tensor_ok in H. facts. cbv zeta.
  destruct (writer (tensor_at p i) =? -1) eqn:W; facts; [left; auto | right]. unfold is_step.
  repeat split; try lia. apply mem_spec. assumption.
Qed.

Lemma lifetimes_cover_accesses : LifetimesCoverAccesses p.
Proof.
  split; [|split; [|split; [|split; [|split; [|split]]]]].
  - intros n i H T. apply touched_stays; auto.
  - intros n i H T. apply written_stays; auto.
  - intros i n H N S. apply stays_within; auto.
  - intros n r H I. apply read_checked in I as C; auto. unfold read_ok in C. facts.
    assert (T : is_tensor p r) by (unfold is_tensor; lia).
    destruct (stays (tensor_at p r) n) eqn:S.
    + destruct (Z.eq_dec (writer (tensor_at p r)) (-1)) as [W|W]; [auto|].
      match goal with K : _ || _ = true |- _ => apply orb_prop in K as [K|K]; [apply orb_prop in K as [K|K]|] end;
        facts; auto using written_before_spec.
    + destruct (read_stays n r H I) as [_ [S'|(x & E & R & _)]]; [|right; right; right; exists x; auto].
      unfold stays, between, Stays in *. apply andb_false_iff in S as [S|S]; facts; lia.
  - intros i H W. pose proof (stays_within i H). destruct (writer_checked i H) as [?|?]; cbv zeta in *; tauto.
  - intros i H W. destruct (writer_checked i H) as [?|(S & _)]; cbv zeta in *; [tauto|]. unfold is_step in S. lia.
  - intros i T R. pose proof (tensor_checked i T) as H. unfold tensor_ok in H. facts. rewrite R in *. facts.
    split; [assumption|]. destruct (Z.eq_dec (writer (tensor_at p i)) (-1)) as [W|W]; [auto | right].
    match goal with K : (writer _ =? -1) || _ = true |- _ => apply orb_prop in K as [K|K] end;
      facts; [contradiction | auto using written_before_spec].
Qed.

Lemma siblings_spec n m : siblings p n m = true -> Siblings p n m.
Proof.
  unfold siblings. intros H. apply existsb_exists in H as (x & X & H). rewrite run_spec in X. facts.
  destruct arms_nest as [N _]. destruct (N x X) as (_ & _ & _ & _ & T & _).
  destruct (T n) as (a & A & Ia); [unfold enter_of, leave_of; lia|].
  destruct (T m) as (b & B & Ib); [unfold enter_of, leave_of; lia|].
  exists x, a, b. split; [auto|]. split; [auto|]. split; [|auto]. intros ->.
  match goal with K : existsb _ _ = false |- _ => rewrite <- not_true_iff_false in K; apply K end.
  apply existsb_exists. exists b. split; [apply A|]. apply andb_true_iff. split; apply in_range_spec; auto.
Qed.

Lemma all_siblings_spec l : all_siblings p l = true -> ForallOrdPairs (Siblings p) l.
Proof.
  induction l as [|n l IH]; intros H; cbn in H; [constructor|]. facts. constructor; auto.
  apply Forall_forall. intros m M. apply siblings_spec. auto.
Qed.

Lemma write_spec n w : is_step p n -> In w (writes p n) ->
  In n (Check.writers p w (tensor_at p w)) \/
  In w (mutates p n) /\ (writer (tensor_at p w) <> -1 \/ donated (tensor_at p w) = true).
Proof.
  intros H I. apply write_checked in I; auto. unfold write_ok in I. facts.
  match goal with K : _ || _ = true |- _ => apply orb_prop in K as [K|K]; [apply orb_prop in K as [K|K]|] end; facts.
  - left. unfold Check.writers. rewrite (proj2 (Z.eqb_neq _ _)); [left; auto | unfold is_step in H; lia].
  - left. apply mem_spec. assumption.
  - right. split; [apply mem_spec; assumption|].
    match goal with K : _ || _ = true |- _ => apply orb_prop in K as [K|K] end; facts; auto.
Qed.

Lemma written_once : WrittenOnce p.
Proof.
  split.
  - intros n m w N M In_ Im Fn Fm. destruct (write_spec n w N In_) as [A|[? _]]; [|contradiction].
    destruct (write_spec m w M Im) as [B|[? _]]; [|contradiction].
    destruct (write_stays n w N In_) as [T _]. apply tensor_checked in T. unfold tensor_ok in T. facts.
    match goal with K : all_siblings _ _ = true |- _ => apply all_siblings_spec in K as O end.
    exact (ordered_apart _ _ O n m A B).
  - intros n w N I. destruct (write_spec n w N I) as [A|[A [?|?]]]; auto.
    left. apply (writers_write w n); auto. apply (write_stays n w N I).
Qed.
End Accesses.
