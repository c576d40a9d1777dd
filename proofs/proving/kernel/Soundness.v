(** [Check.check] accepts only plans that are safe, [Check.check_lifetimes] only lifetimes that are. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Check Safe ListsProof Placement Accesses.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Section Soundness.
Variable p : plan.
Hypothesis checked : check p = true.
Local Notation T := (tensor_at p).

(** * Views and in-place results *)

Lemma shows_spec i : is_tensor p i -> shows p i (T i) = true.
Proof. intros H. apply tensor_checked in H; auto. unfold tensor_ok in H. facts. assumption. Qed.

Lemma views_show : ViewsShow p.
Proof.
  intros v H V. pose proof (shows_spec v H) as S. unfold shows in S. unfold is_view in V.
  destruct (base (tensor_at p v) =? -1) eqn:B; facts; [congruence|]. cbv zeta. unfold is_tensor, address_of.
  match goal with K : home _ = home _ |- _ => rewrite <- K end.
  split; [lia|]. split; [reflexivity|]. split; [lia|]. split; [lia|]. split; [lia|]. split; [|split].
  - intros W. destruct (writer_checked p checked v H) as [(_ & M & _)|(St & _)]; cbv zeta in *;
      [|unfold is_step in St; lia].
    destruct (made (tensor_at p v) =? -1) eqn:E; facts; [|lia].
    destruct (writer_checked p checked (base (tensor_at p v))) as [(? & _)|(_ & ? & _)]; cbv zeta in *;
      [unfold is_tensor; lia | assumption | lia].
  - intros W. destruct (writer_checked p checked v H) as [?|(_ & M & _)]; cbv zeta in *; [tauto|].
    destruct (made (tensor_at p v) =? -1) eqn:E; facts; [lia|]. unfold stays in *. facts. split; [unfold Stays; lia|]. split; [lia | apply mem_spec; assumption].
  - intros n N [I|[e [L I]]].
    + apply write_checked in I; auto. unfold write_ok in I. facts.
      destruct (made (tensor_at p v) =? n) eqn:E; facts; congruence.
    + destruct (parts p checked) as (_ & _ & _ & K & _). rewrite forallb_forall in K. apply K in L.
      unfold loop_ok in L. facts. cbn in *.
      match goal with Q : forall x, In x (writes p e) -> _ |- _ => specialize (Q _ I) end. facts. congruence.
Qed.

(** The stated root is the end of the chain of bases. *)
Lemma root_shown i : is_tensor p i -> Shows p i (root (T i)).
Proof.
  assert (G : forall n, 0 <= n -> forall k j, is_tensor p j -> home (T j) = k -> place (T j) = at_ (members p) k + n ->
    Shows p j (root (T j))).
  { apply (Z_lt_induction (fun n => forall k j, _ -> _ -> place (T j) = at_ (members p) k + n -> Shows p j (root (T j)))).
    intros n IH k j H K P. pose proof (shows_spec j H) as S. unfold shows in S.
    destruct (base (T j) =? -1) eqn:B; facts.
    - replace (root (T j)) with j by congruence. apply itself. unfold is_view. lia.
    - assert (Hb : is_tensor p (base (T j))) by (unfold is_tensor; lia).
      pose proof (tensor_checked p checked _ Hb) as C. unfold tensor_ok in C. facts. unfold listed in *. facts.
      match goal with E : root (T j) = root _ |- _ => rewrite E end. apply through; [unfold is_view; lia|].
      assert (Kb : home (T (base (T j))) = k) by congruence. rewrite Kb in *.
      apply (IH (place (T (base (T j))) - at_ (members p) k)) with k; auto; lia. }
  intros H. pose proof (tensor_checked p checked i H) as C. unfold tensor_ok in C. facts. unfold listed in *. facts.
  apply (G (place (T i) - at_ (members p) (home (T i)))) with (home (T i)); auto; lia.
Qed.

Lemma arm_results_are_handed x i : ArmResult p x i -> handed (T i) = true.
Proof.
  intros (X & R & _ & N & _). destruct (arms_nest p checked) as [A _]. destruct (A x X) as (B & C & _).
  destruct (read_stays p checked (leave_of p x) i) as [_ [S|(y & _ & _ & H)]]; auto; [unfold is_step; lia|].
  unfold Stays in S. lia.
Qed.

Lemma in_place_is_last : InPlaceIsLast p.
Proof.
  intros w H O. apply tensor_checked in H; auto. unfold tensor_ok in H. facts.
  match goal with K : takes_place _ _ = true |- _ => unfold takes_place in K end.
  destruct (operand (tensor_at p w) =? -1) eqn:E; facts; [congruence|]. cbv zeta. unfold is_tensor, address_of.
  match goal with K : home _ = home _ |- _ => rewrite <- K end.
  split; [lia|]. split; [reflexivity|]. split; [lia|]. split; [lia|]. split; [lia|]. split; [lia|].
  split; [lia|]. split; [assumption|]. split; [|split].
  - intros x R. apply arm_results_are_handed in R. congruence.
  - match goal with K : _ || _ = true |- _ => apply orb_prop in K as [K|K] end; facts; auto.
  - intros e L. match goal with K : leaves _ _ = false |- _ => unfold leaves in K; rewrite <- not_true_iff_false in K;
      apply K end. apply existsb_exists. exists (e, writer (tensor_at p w)). split; auto. cbn. apply Z.eqb_eq. lia.
Qed.

(** * Bytes of one storage *)

Lemma sweep_spec l : forall present now, sweep p l present now = true ->
  Forall (fun j => now <= made (T j)) l /\
  (forall e j, In e present -> In j l -> made (T j) <= needed (snd e) -> compatible j (T j) e = true) /\
  ForallOrdPairs (fun i j => made (T i) <= made (T j) /\
    (made (T j) <= needed (T i) -> compatible j (T j) (i, T i) = true)) l.
Proof.
  induction l as [|j l IH]; intros present now H; cbn in *; [repeat constructor; tauto|].
  facts. apply IH in H as (I1 & I2 & I3). split; [|split].
  - constructor; auto. eapply Forall_impl; [|apply I1]. cbn. lia.
  - intros e j' He [->|Hj] L.
    + match goal with K : forall x, In x (filter _ _) -> _ |- _ => apply K end.
      apply filter_In. split; auto. apply Z.leb_le. assumption.
    + apply I2; auto. right. apply filter_In. split; auto. apply Z.leb_le.
      rewrite Forall_forall in I1. specialize (I1 _ Hj). cbn in I1. lia.
  - constructor; auto. apply Forall_forall. intros j' Hj. rewrite Forall_forall in I1. split; [apply I1; auto|].
    intros L. apply (I2 (j, tensor_at p j)); auto. left. reflexivity.
Qed.

Lemma apart_spec s t x y : apart s t = true ->
  0 <= x < bytes s -> 0 <= y < bytes t -> window s + x <> window t + y.
Proof.
  unfold apart, ends_before. intros H X Y. repeat (apply orb_prop in H as [H|H]); facts; lia.
Qed.

Lemma undisturbed_spec n w i x y : undisturbed p n w (T w) = true -> is_tensor p i -> i <> w -> Stays p i n ->
  home (T i) = home (T w) -> 0 <= x < bytes (T w) -> 0 <= y < bytes (T i) -> window (T w) + x <> window (T i) + y.
Proof.
  intros U I N S E X Y. destruct (stays_within p checked i I) as (_ & _ & _ & _ & M).
  unfold undisturbed in U. rewrite forallb_forall in U. rewrite <- E in U. specialize (U i M).
  apply orb_prop in U as [U|U]; [apply orb_prop in U as [U|U]; facts; [congruence|]|].
  - unfold stays, between, Stays in *. apply andb_false_iff in U as [U|U]; facts; lia.
  - intros W. eapply apart_spec; eauto.
Qed.

(** A view of [w] is made after [w] is. *)
Lemma shown_later w i : is_tensor p i -> is_tensor p w -> ~ is_view p w -> i <> w -> root (T i) = root (T w) ->
  0 <= made (T w) -> made (T w) < made (T i).
Proof.
  intros I W V N R M. pose proof (shows_spec i I) as Si. pose proof (shows_spec w W) as Sw. unfold shows in *.
  unfold is_view in V. destruct (base (T w) =? -1) eqn:B; facts; [|tauto].
  destruct (base (T i) =? -1) eqn:C; facts; [congruence|].
  replace (root (T i)) with w in * by congruence. 
  destruct (made (T i) =? -1) eqn:E; facts; lia.
Qed.

Lemma two_of_one_storage n w i x y : is_step p n -> In w (writes p n) -> made (T w) = n -> ~ is_view p w ->
  is_tensor p w -> is_tensor p i -> i <> w -> Stays p i n -> home (T i) = home (T w) ->
  0 <= x < bytes (T w) -> 0 <= y < bytes (T i) -> window (T w) + x = window (T i) + y -> operand (T w) = i.
Proof.
  intros N I M V W Ti D S E X Y Q. destruct (parts p checked) as (_ & _ & _ & _ & A & _).
  destruct (tensors_within_storages p checked w W) as [Sw _]. 
  apply (every_spec _ _ A) in Sw. unfold sharing_is_sound in Sw. apply sweep_spec in Sw as (_ & _ & O).
  destruct (stays_within p checked w W) as (_ & _ & _ & _ & Mw).
  destruct (stays_within p checked i Ti) as (_ & _ & _ & _ & Mi). rewrite E in Mi.
  unfold Stays in S. unfold is_step in N.
  assert (Z : root (T i) <> root (T w)) by (intros R; apply shown_later in R; auto; lia).
  destruct (ordered_apart _ _ O w i Mw Mi) as [?|[[L K]|[L K]]]; [congruence| |].
  - specialize (K ltac:(destruct (stays_within p checked w W) as (? & _); lia)).
    unfold compatible in K. cbn in K. apply orb_prop in K as [K|K]; [apply orb_prop in K as [K|K]|]; facts.
    + congruence.
    + exfalso. eapply apart_spec; eauto.
    + exfalso. pose proof (tensor_checked p checked i Ti) as C. unfold tensor_ok in C. facts.
      match goal with G : takes_place _ _ = true |- _ => unfold takes_place in G end.
      destruct (operand (T i) =? -1) eqn:G; facts; [unfold is_tensor in W; lia|].
      replace (operand (T i)) with w in * by congruence. lia.
  - specialize (K ltac:(lia)).
    unfold compatible in K. cbn in K. apply orb_prop in K as [K|K]; [apply orb_prop in K as [K|K]|]; facts.
    + congruence.
    + exfalso. eapply apart_spec; eauto.
    + assumption.
Qed.

(** The results that a leave takes from a branch. *)
Lemma taken_undisturbed n w i x y : is_step p n -> step_writes p n w -> ~ is_view p w -> TakenAt p n i ->
  inside p w x -> inside p i y -> tensor_arena p w = tensor_arena p i -> address_of p w + x = address_of p i + y ->
  Replaces p w i /\ x = y /\ n = made (T w).
Proof.
  intros N W V (v & -> & R) X Y A Q. pose proof R as (Ev & Ri & _ & Dead & _).
  pose proof (exclusive_checked p checked v Ev) as C. unfold exclusive_ok in C. facts.
  destruct W as [W|(e & L & _)].
  2: { exfalso. match goal with K : leaves _ _ = false |- _ => unfold leaves in K; rewrite <- not_true_iff_false in K;
         apply K end. apply existsb_exists. exists (e, leave_of p v). split; auto. apply Z.eqb_refl. }
  match goal with K : forall j : Z, In j (reads p _) -> _ = true |- _ => specialize (K i Ri) end.
  match goal with K : _ || forallb _ _ = true |- _ => apply orb_prop in K as [K|K] end.
  { unfold stays in *. facts. unfold leave_of in Dead. lia. }
  facts. match goal with K : forall j : Z, In j (writes p _) -> _ = true |- _ => specialize (K w W); rename K into Dj end.
  unfold disjoint_or_taken, address in Dj. unfold inside, is_view, tensor_arena, arena_of, address_of in *.
  repeat (apply orb_prop in Dj as [Dj|Dj]; facts; try lia; try congruence).
  match goal with K : existsb _ (takes p) = true |- _ => apply existsb_exists in K as ([w' i'] & Iq & K) end.
  facts. cbn in *. subst. split; [right; assumption|]. unfold leave_of. lia.
Qed.

Lemma writes_disturb_nothing : WritesDisturbNothing p.
Proof.
  intros n w i x y N Sw V Ti D [S|S] X Y A Q; [|exact (taken_undisturbed n w i x y N Sw V S X Y A Q)].
  unfold inside in X, Y.
  destruct (written_stays p checked n w N Sw) as [Tw Stw]. assert (Zn : 0 <= n) by (unfold is_step in N; lia).
  destruct (tensors_within_storages p checked w Tw) as (Hw & W0 & W1 & _).
  destruct (tensors_within_storages p checked i Ti) as (Hi & I0 & I1 & _).
  destruct (stays_within p checked w Tw) as (_ & _ & _ & Lw & _).
  destruct (stays_within p checked i Ti) as (_ & _ & _ & Li & _).
  unfold tensor_arena in A. unfold address_of in Q.
  destruct (Z.eq_dec (home (tensor_at p i)) (home (tensor_at p w))) as [E|E].
  2: { exfalso. apply (live_storages_are_apart p checked (home (tensor_at p w)) (home (tensor_at p i)) n) with
         (s_offset (storage_at p (home (tensor_at p w))) + window (tensor_at p w) + x);
       auto; unfold has_byte in *; try lia; congruence. }
  assert (Q' : window (T w) + x = window (T i) + y) by (rewrite E in Q; lia).
  assert (R : In w (writes p n) /\ made (T w) = n).
  { destruct Sw as [I|[e [L I]]].
    - split; auto. apply write_checked in I; auto. unfold write_ok in I. facts. 
      destruct (made (T w) =? n) eqn:F; facts; auto. exfalso.
      exact (undisturbed_spec n w i x y I Ti D S E X Y Q').
    - exfalso. destruct (parts p checked) as (_ & _ & _ & K & _). rewrite forallb_forall in K. apply K in L.
      unfold loop_ok in L. facts. cbn in *.
      match goal with G : forall x, In x (writes p e) -> _ |- _ => specialize (G _ I); facts end.
      match goal with G : undisturbed _ _ _ _ = true |- _ =>
        exact (undisturbed_spec n w i x y G Ti D S E X Y Q') end. }
  destruct R as [I M].
  assert (O : operand (T w) = i) by (exact (two_of_one_storage n w i x y N I M V Tw Ti D S E X Y Q')).
  split; [left; auto|]. split; auto.
  destruct (in_place_is_last w Tw) as (_ & _ & Ad & _); [unfold is_tensor in Ti; lia|].
  rewrite O in Ad. unfold address_of in Ad. rewrite E in Ad. lia.
Qed.

Lemma callers_tensors_apart : CallersTensorsApart p.
Proof.
  assert (G : forall i j x y, is_tensor p i -> is_tensor p j -> made (T j) = -1 -> 0 <= x < bytes (T i) ->
    0 <= y < bytes (T j) -> window (T i) + x = window (T j) + y -> compatible j (T j) (i, T i) = true ->
    root (T i) = root (T j)).
  { intros i j x y I J M X Y Q C. unfold compatible in C. cbn in C.
    apply orb_prop in C as [C|C]; [apply orb_prop in C as [C|C]|]; facts; auto.
    - exfalso. eapply apart_spec; eauto.
    - exfalso. destruct (in_place_is_last j J) as (Io & _ & _ & _ & _ & _ & L & _);
        [unfold is_tensor in I; lia|]. pose proof (stays_within p checked _ Io). lia. }
  intros i j x y I J N Wi Wj X Y A Q. exists (root (T i)). split; [apply root_shown; auto|].
  replace (root (T i)) with (root (T j)); [apply root_shown; auto|]. unfold inside in X, Y. symmetry.
  destruct (tensors_within_storages p checked i I) as (Hi & I0 & I1 & Li1 & Li2 & _).
  destruct (tensors_within_storages p checked j J) as (Hj & J0 & J1 & Lj1 & Lj2 & _).
  destruct (writer_checked p checked i I) as [(_ & Mi & Bi)|(S & _)]; cbv zeta in *; [|unfold is_step in S; lia].
  destruct (writer_checked p checked j J) as [(_ & Mj & Bj)|(S & _)]; cbv zeta in *; [|unfold is_step in S; lia].
  pose proof (storage_lives p (all_placed p checked) _ Hi). pose proof (storage_lives p (all_placed p checked) _ Hj).
  unfold tensor_arena in A. unfold address_of in Q.
  destruct (Z.eq_dec (home (T i)) (home (T j))) as [E|E].
  - destruct (parts p checked) as (_ & _ & _ & _ & Sh & _). apply (every_spec _ _ Sh) in Hi.
    unfold sharing_is_sound in Hi. apply sweep_spec in Hi as (_ & _ & O).
    destruct (stays_within p checked i I) as (Ni & _ & _ & _ & Mem).
    destruct (stays_within p checked j J) as (Nj & _ & _ & _ & Mem'). rewrite <- E in Mem'. rewrite E in Q.
    destruct (ordered_apart _ _ O i j Mem Mem') as [?|[[_ K]|[_ K]]]; [congruence| |].
    + apply (G i j x y); auto; [lia|]. apply K; lia.
    + symmetry. apply (G j i y x); auto; [lia|]. apply K; lia.
  - exfalso. apply (live_storages_are_apart p checked (home (T i)) (home (T j)) 0) with
      (s_offset (storage_at p (home (T i))) + window (T i) + x); auto; unfold has_byte, lives_at; lia.
Qed.

Lemma tensors_kept_apart : KeptApart p.
Proof.
  intros i j I. destruct (parts p checked) as (_ & _ & _ & _ & _ & H & _). rewrite forallb_forall in H.
  apply H in I. unfold tensors_apart in I. facts. cbn in *. unfold is_tensor.
  split; [lia|]. split; [lia|]. eapply kept_apart_spec; eauto.
Qed.

Lemma taken_are_dead : TakenAreDead p.
Proof.
  intros w i I. destruct (parts p checked) as (_ & _ & _ & _ & _ & _ & _ & H). rewrite forallb_forall in H.
  apply H in I. unfold take_ok in I. facts. assumption.
Qed.

Theorem check_sound : Safe p.
Proof.
  exact (conj (live_storages_are_apart p checked)
    (conj (disjoint_without_reuse p (kept_storages_are_disjoint p checked))
    (conj (well_placed p (all_placed p checked)) (conj (tensors_within_storages p checked)
    (conj (lifetimes_cover_accesses p checked) (conj (written_once p checked) (conj views_show (conj in_place_is_last
    (conj writes_disturb_nothing (conj (loops_keep p checked)
    (conj tensors_kept_apart (conj callers_tensors_apart
    (conj (arms_nest p checked) taken_are_dead))))))))))))).
Qed.
End Soundness.

Theorem lifetimes_sound (m : memory) : check_lifetimes m = true -> SafeMemory m.
Proof.
  unfold check_lifetimes. intros H. facts. pose proof (memory_placed m Heqb) as P.
  pose proof (memory_disjoint m Heqb) as D.
  split; [|split; [|split]]; auto using disjoint_when_live, disjoint_without_reuse, well_placed.
  intros k l I. apply kept_apart_spec. exact (H _ I).
Qed.
