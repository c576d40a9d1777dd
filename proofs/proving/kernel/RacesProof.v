(** What [Races.check_streams] accepts is free of races, and its reads are ordered.

    Fix a byte of an arena. Each version of a tensor that owns it took it from the floor or from a version before, and no
    two took it from one. So the owners of the byte are a chain, whatever the partial order of steps is. *)
From Coq Require Import ZArith List Bool Lia Relations.
From Tmmu Require Import Lists Columns Check Safe Streams Races ListsProof Accesses Soundness.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** * Owners of one byte *)

Section Owners.
Variables (owns : Z -> Prop) (earlier : Z -> Z -> Prop) (rank : Z -> Z) (ground : Z) (took : Z -> Z -> Prop).
Hypothesis ranked : forall x y, earlier x y -> 0 <= rank x < rank y.
Hypothesis transitive_ : forall x y z, earlier x y -> earlier y z -> earlier x z.
Hypothesis from_one : forall y, owns y -> exists x, took y x /\ (x = ground \/ owns x /\ earlier x y).
Hypothesis to_one_ : forall x y z, took y x -> took z x -> y = z.

Fixpoint height (m : nat) (y : Z) : Prop :=
  match m with
  | O => took y ground
  | S m' => exists x, height m' x /\ took y x /\ owns x /\ earlier x y
  end.

Lemma has_height y : owns y -> exists m, height m y.
Proof.
  assert (G : forall k, 0 <= k -> forall y, rank y < k -> owns y -> exists m, height m y).
  { intros k Hk. pattern k. apply Z_lt_induction; auto. clear k Hk. intros k IH z L O.
    destruct (from_one z O) as (x & T & [->|[Ox B]]); [exists 0%nat; exact T|].
    pose proof (ranked x z B). destruct (IH (rank z)) with (y := x) as [m Hm]; auto; try lia.
    exists (S m), x. auto. }
  intros O. apply (G (Z.max 0 (rank y + 1))); auto; lia.
Qed.

Lemma one_at_each m : forall x y, height m x -> height m y -> x = y.
Proof.
  induction m as [|m IH]; cbn; intros x y Hx Hy; [eapply to_one_; eauto|].
  destruct Hx as (a & Ha & Ta & _), Hy as (b & Hb & Tb & _). assert (a = b) by auto. subst. eapply to_one_; eauto.
Qed.

Lemma higher_later m : forall x y k, height k x -> height m y -> (k < m)%nat -> earlier x y.
Proof.
  induction m as [|m IH]; intros x y k Hx Hy L; [lia|]. destruct Hy as (z & Hz & _ & _ & B).
  destruct (PeanoNat.Nat.eq_dec k m) as [->|N].
  - rewrite (one_at_each m x z Hx Hz). assumption.
  - apply transitive_ with z; auto. apply (IH x z k); auto. lia.
Qed.

Lemma owners_take_turns x y : owns x -> owns y -> x <> y -> earlier x y \/ earlier y x.
Proof.
  intros Ox Oy N. destruct (has_height x Ox) as [k Hk], (has_height y Oy) as [m Hm].
  destruct (PeanoNat.Nat.lt_total k m) as [L|[->|L]].
  - left. eapply higher_later; eauto.
  - destruct N. eapply one_at_each; eauto.
  - right. eapply higher_later; eauto.
Qed.
End Owners.

Lemma pairwise_spec f l : forall k, pairwise f l k = true -> forall x, In x l -> exists y, f x y = true.
Proof.
  induction l as [|x l IH]; intros [|y k] H z I; cbn in H; try discriminate; [destruct I|]. facts.
  destruct I as [<-|I]; eauto.
Qed.

Section RacesProof.
Variable p : plan.
Variable q : streams.
Variable e : order_evidence.
Hypothesis checked : check p = true.
Hypothesis ok : races_ok p q e = true.
Local Notation V := (version_at e).

Lemma all_ok : exclusives p = 0 /\ loops p = [] /\ takes p = [] /\ every (steps p) (step_ordered q e) = true /\
  every (steps p) (accesses_ordered p q e) = true /\ every (versions e) (version_ok p q e) = true /\
  every (versions e + arenas p) (gives_once e) = true.
Proof.
  generalize ok. unfold races_ok, straight. intros H. facts.
  destruct (loops p) eqn:L; [|discriminate]. destruct (takes p) eqn:T; [|discriminate]. repeat split; auto.
Qed.

(** * Order *)

Lemma waits_in_rows n m : is_step p m -> Waits q n m -> 0 <= n < m.
Proof.
  intros M [[L _]|I]; [exact L|]. destruct all_ok as (_ & _ & _ & H & _). apply (every_spec _ _ H) in M.
  unfold step_ordered in M. facts. match goal with K : forall a, In a _ -> _ |- _ => specialize (K n I); facts end. lia.
Qed.

Lemma before_in_rows n m : is_step p m -> Before q n m -> 0 <= n < m.
Proof.
  intros M H. apply clos_trans_tn1 in H. revert M. induction H as [m W|l m W H IH]; intros M.
  - apply waits_in_rows; auto.
  - pose proof (waits_in_rows l m M W). assert (0 <= n < l); [|lia]. apply IH. unfold is_step in *. lia.
Qed.

Lemma direct_waits a m : is_step p m -> In a (direct q e m) -> 0 <= a < m /\ Waits q a m.
Proof.
  intros M I. destruct all_ok as (_ & _ & _ & H & _). apply (every_spec _ _ H) in M.
  unfold step_ordered in M. unfold direct in I. destruct (previous e m =? -1); cbn in M; facts.
  - match goal with K : forall a, In a _ -> _ |- _ => specialize (K _ I) end. facts. split; [lia | right; auto].
  - destruct I as [<-|I]; [split; [lia | left; split; [lia | auto]]|].
    match goal with K : forall a, In a _ -> _ |- _ => specialize (K _ I) end. facts. split; [lia | right; auto].
Qed.

Lemma clocks_are_waited_for n m : is_step p n -> is_step p m -> comes_before q e n m = true -> Before q n m.
Proof.
  intros N. destruct all_ok as (_ & _ & _ & H & _). intros M. unfold is_step in M. assert (G : 0 <= m) by lia. revert M.
  assert (Sn : 0 <= stream q n < stream_count e)
    by (apply (every_spec _ _ H) in N; unfold step_ordered in N; facts; lia). unfold is_step in N.
  pattern m. apply Z_lt_induction; auto. clear m G. intros m IH M C. unfold comes_before in C. apply Z.ltb_lt in C.
  assert (Hand : hand_of_clock q e m (stream q n) = true).
  { pose proof (every_spec _ _ H m M) as O. unfold step_ordered in O. facts.
    match goal with K : every _ (hand_of_clock _ _ m) = true |- _ => exact (every_spec _ _ K _ Sn) end. }
  unfold hand_of_clock in Hand. apply orb_prop in Hand as [Hand|Hand]; [facts; lia|].
  apply existsb_exists in Hand as (a & Ia & Hand). destruct (direct_waits a m M Ia) as [La Wa].
  apply orb_prop in Hand as [Hand|Hand]; facts.
  - apply t_trans with a; [apply IH; [lia | lia | unfold comes_before; apply Z.ltb_lt; lia] | apply t_step; auto].
  - destruct (Z.eq_dec n a) as [->|Ne]; [apply t_step; auto|].
    apply t_trans with a; [apply t_step; left; split; [lia | congruence] | apply t_step; auto].
Qed.

(** One step is another or happens before it. *)
Definition Until (n m : Z) : Prop := n = m \/ Before q n m.
Lemma until_trans n m k : Until n m -> Until m k -> Until n k.
Proof.
  intros [->|A] [<-|B]; [left | right | right | right]; auto. eapply t_trans; eauto.
Qed.
Lemma not_after_spec n m : is_step p n -> is_step p m -> not_after q e n m = true -> Until n m.
Proof.
  unfold not_after. intros N M H. apply orb_prop in H as [H|H]; [facts; left; auto|].
  right. apply clocks_are_waited_for; auto.
Qed.

(** A step comes no later than one of the last that access a version. *)
Definition Ends (k n : Z) : Prop := exists l, In l (last_by (V k)) /\ is_step p l /\ Until n l.
Lemma ends_after_spec k n : is_step p n -> ends_after p q e k n = true -> Ends k n.
Proof.
  unfold ends_after. intros N H. apply existsb_exists in H as (l & I & H). facts. exists l. unfold is_step in *.
  split; [auto|]. split; [lia|]. destruct (Z.eq_dec n l) as [->|Ne]; [left; auto|]. right. apply t_step. left.
  split; [lia | auto].
Qed.

(** * Versions *)

Definition is_version (k : Z) : Prop := 0 <= k < versions e.
Lemma version_checked k : is_version k -> is_tensor p (of_tensor (V k)) /\
  (made_by (V k) = -1 \/ is_step p (made_by (V k)) /\ Ends k (made_by (V k))) /\
  takes_all p q e k (start_of_version p e k) (group (taken e) k) = true.
Proof.
  intros K. destruct all_ok as (_ & _ & _ & _ & _ & H & _). apply (every_spec _ _ H) in K. unfold version_ok in K. facts.
  split; [unfold is_tensor; lia|]. split; [|assumption].
  match goal with G : _ || _ = true |- _ => apply orb_prop in G as [G|G] end; facts; [left; auto|right].
  assert (is_step p (made_by (V k))) by (unfold is_step; lia). split; [auto|]. apply ends_after_spec; auto.
Qed.

(** All accesses of version [x] come before the step that makes version [y], or are of that step. *)
Definition earlier (x y : Z) : Prop := is_version x /\ is_version y /\ made_by (V x) < made_by (V y) /\
  forall l, In l (last_by (V x)) -> is_step p l -> Until l (made_by (V y)).

Lemma earlier_ends x y n : earlier x y -> Ends x n -> Until n (made_by (V y)).
Proof. intros (_ & _ & _ & A) (l & I & L & U). eapply until_trans; eauto. Qed.

Lemma earlier_ranked x y : earlier x y -> 0 <= made_by (V x) + 1 < made_by (V y) + 1.
Proof.
  intros (X & _ & L & _). destruct (version_checked x X) as (_ & [E|[S _]] & _); [lia|]. unfold is_step in S. lia.
Qed.

Lemma earlier_trans x y z : earlier x y -> earlier y z -> earlier x z.
Proof.
  intros A B. pose proof (earlier_ranked x y A). pose proof A as (X & Y & L & Ax). pose proof B as (_ & Z & L' & _).
  split; [exact X|]. split; [exact Z|]. split; [lia|]. intros l I S. eapply until_trans; [apply Ax; eauto|].
  apply (earlier_ends y z); auto. destruct (version_checked y Y) as (_ & [E|[_ E]] & _); [lia | exact E].
Qed.

(** The version has the byte at this address of this arena. *)
Definition owns (a z k : Z) : Prop := is_version k /\ arena_of_version p e k = a /\
  start_of_version p e k <= z < end_of_version p e k.
(** Version [y] took the byte from [x]. *)
Definition took (z y x : Z) : Prop := 0 <= x < versions e + arenas p /\
  exists h, In h (run (given_at e x) (given_at e (x + 1))) /\ above (hand_at e h) = y /\
    first (hand_at e h) <= z <= last (hand_at e h).

Lemma takes_all_spec k l : forall from, takes_all p q e k from l = true -> forall z, from <= z < end_of_version p e k ->
  exists h, above (hand_at e h) = k /\ first (hand_at e h) <= z <= last (hand_at e h) /\ hands_over p q e k h = true.
Proof.
  induction l as [|h l IH]; cbn; intros from H z Hz; facts; [lia|].
  destruct (Z_le_gt_dec z (last (hand_at e h))); [|eapply IH; eauto; lia]. exists h. repeat split; auto; lia.
Qed.

Lemma to_one_spec l : forall ended, to_one e ended l = true ->
  Forall (fun h => ended < first (hand_at e h) <= last (hand_at e h)) l /\
  ForallOrdPairs (fun h g => last (hand_at e h) < first (hand_at e g)) l.
Proof.
  induction l as [|h l IH]; intros ended H; cbn in *; [repeat constructor|].
  facts. destruct (IH (last (hand_at e h))) as [I1 I2]; auto. split; constructor; auto.
  - eapply Forall_impl; [|apply I1]. cbn. lia.
  - eapply Forall_impl; [|apply I1]. cbn. lia.
Qed.

Lemma took_by_one z x y w : took z y x -> took z w x -> y = w.
Proof.
  intros (B & h & Ih & <- & Lh) (_ & g & Ig & <- & Lg). destruct all_ok as (_ & _ & _ & _ & _ & _ & H).
  apply (every_spec _ _ H), to_one_spec in B as [_ O].
  destruct (ordered_apart _ _ O h g Ih Ig) as [->|[?|?]]; auto; lia.
Qed.

Lemma versions_take_turns a z x y : owns a z x -> owns a z y -> x <> y -> earlier x y \/ earlier y x.
Proof.
  apply (owners_take_turns (owns a z) earlier (fun k => made_by (V k) + 1) (versions e + a) (took z));
    [exact earlier_ranked | exact earlier_trans | | intros; eapply took_by_one; eauto].
  clear x y. intros y (Y & A & Z). destruct (version_checked y Y) as (Ty & My & Ta).
  destruct (takes_all_spec _ _ _ Ta z Z) as (h & U & F & H). unfold hands_over in H. facts.
  exists (below (hand_at e h)). destruct (below (hand_at e h) =? versions e + arena_of_version p e y) eqn:G; facts.
  - rewrite G in *. split; [|left; congruence].
    destruct (tensors_within_storages p checked _ Ty) as (S & _).
    pose proof (Placement.storage_lives p (all_placed p checked) _ S) as (_ & _ & _ & _ & Q).
    unfold arena_of_version, arena_of in *. unfold is_version in Y. split; [lia|]. exists h. rewrite run_spec.
    repeat split; auto; lia.
  - split; [|right; split].
    + unfold is_version in Y. destruct (tensors_within_storages p checked _ Ty) as (S & _).
      pose proof (Placement.storage_lives p (all_placed p checked) _ S) as (_ & _ & _ & _ & Q).
      split; [lia|]. exists h. rewrite run_spec. repeat split; auto; lia.
    + split; [unfold is_version; lia|]. split; [congruence | lia].
    + split; [unfold is_version; lia|]. split; [exact Y|]. split; [assumption|]. intros l I L.
      apply not_after_spec; auto. destruct My as [My|[My _]]; [|exact My]. exfalso.
      assert (X : is_version (below (hand_at e h))) by (unfold is_version; lia).
      destruct (version_checked _ X) as (_ & [E|[E _]] & _); [lia|]. unfold is_step in E. lia.
Qed.

(** * Accesses *)

Lemma base_is_root r w x : Shows p r w -> is_tensor p r -> inside p r x -> exists y, is_tensor p w /\ ~ is_view p w /\
  inside p w y /\ tensor_arena p w = tensor_arena p r /\ address_of p w + y = address_of p r + x.
Proof.
  intros S. revert x. induction S as [r N|r w Vw S IH]; intros x T I; [exists x; auto|].
  destruct (views_show p checked r T Vw) as (Tb & Hb & Ad & S0 & S1 & _).
  destruct (IH (shift (tensor_at p r) + x) Tb) as (y & A & B & C & D & F); [unfold inside in *; lia|].
  exists y. split; [exact A|]. split; [exact B|]. split; [exact C|]. split; [unfold tensor_arena in *; congruence | lia].
Qed.

(** The version of an access: it has the byte, the step comes after the one that made it, and before its last ones. *)
Definition accesses (n a z k : Z) : Prop := owns a z k /\
  (made_by (V k) = -1 \/ is_step p (made_by (V k)) /\ Until (made_by (V k)) n) /\ Ends k n.

Lemma owns_of i x k : is_tensor p i -> inside p i x -> is_version k -> of_tensor (V k) = i ->
  owns (tensor_arena p i) (address_of p i + x) k.
Proof.
  intros T I K E. split; [exact K|]. unfold arena_of_version, start_of_version, end_of_version, start_of_version, address.
  rewrite E. unfold tensor_arena, arena_of, address_of, inside in *. split; [reflexivity | lia].
Qed.

Lemma read_has_version n r x : is_step p n -> In r (reads p n) -> inside p r x ->
  exists k, accesses n (tensor_arena p r) (address_of p r + x) k.
Proof.
  intros N I In_. destruct all_ok as (_ & _ & _ & _ & H & _). pose proof (every_spec _ _ H n N) as A.
  unfold accesses_ordered in A. facts.
  match goal with K : pairwise (read_ordered _ _ _ _) _ _ = true |- _ => destruct (pairwise_spec _ _ _ K r I) as (k & O) end.
  unfold read_ordered in O. facts. assert (K : is_version k) by (unfold is_version; lia).
  destruct (read_stays p checked n r N I) as [T _].
  destruct (base_is_root r _ x (root_shown p checked r T) T In_) as (y & Tw & _ & Iw & Ea & Eb).
  exists k. rewrite <- Ea, <- Eb. split; [apply owns_of; auto|].
  destruct (version_checked k K) as (_ & M & _). split; [|apply ends_after_spec; auto].
  match goal with G : _ || _ = true |- _ => apply orb_prop in G as [G|G] end; facts; [left; auto|].
  destruct M as [M|[M _]]; [left; auto|]. right. split; [exact M|]. apply not_after_spec; auto.
Qed.

Lemma write_has_version n w x : is_step p n -> In w (writes p n) -> ~ is_view p w -> inside p w x ->
  exists k, accesses n (tensor_arena p w) (address_of p w + x) k /\ made_by (V k) = n.
Proof.
  intros N I Vw In_. destruct all_ok as (_ & _ & _ & _ & H & _). pose proof (every_spec _ _ H n N) as A.
  unfold accesses_ordered in A. facts.
  match goal with K : pairwise (write_ordered _ _ _) _ _ = true |- _ => destruct (pairwise_spec _ _ _ K w I) as (k & O) end.
  unfold write_ordered in O. apply orb_prop in O as [O|O]; [facts; destruct Vw; unfold is_view; congruence|]. facts.
  assert (K : is_version k) by (unfold is_version; lia). destruct (write_stays p checked n w N I) as [T _].
  exists k. split; [|assumption]. destruct (version_checked k K) as (_ & [M|[M En]] & _); [unfold is_step in N; lia|].
  split; [apply owns_of; auto|]. replace n with (made_by (V k)) by assumption. split; [right; split; [exact M | left; auto]|].
  exact En.
Qed.

Lemma access_has_version n i x : is_step p n -> touches p n i -> inside p i x ->
  exists k, accesses n (tensor_arena p i) (address_of p i + x) k.
Proof.
  intros N T In_. destruct all_ok as (_ & L & _).
  assert (D : In i (reads p n) \/ In i (writes p n)).
  { destruct T as [[T|(m & M & _)]|[T|(m & M & _)]]; auto; rewrite L in M; destruct M. }
  destruct D as [D|D]; [apply read_has_version; auto|].
  destruct (Z.eq_dec (base (tensor_at p i)) (-1)) as [B|B].
  - destruct (write_has_version n i x N D) as (k & A & _); eauto.
  - destruct (write_stays p checked n i N D) as [Ti _].
    destruct (views_show p checked i Ti B) as (Tb & Hb & Ad & S0 & S1 & Ca & Rd & Once).
    assert (M : n = made (tensor_at p i)) by (apply Once; auto; left; auto).
    destruct (writer_checked p checked i Ti) as [(W & Mi & _)|(W & _ & _)]; cbv zeta in *; [unfold is_step in N; lia|].
    assert (Nw : writer (tensor_at p i) <> -1) by (unfold is_step in W; lia). destruct (Rd Nw) as (_ & _ & R).
    rewrite <- M in R. destruct (read_has_version n _ (shift (tensor_at p i) + x) N R) as (k & A);
      [unfold inside in *; lia|]. exists k. unfold tensor_arena in *. rewrite Hb, Ad.
    replace (address_of p (base (tensor_at p i)) + shift (tensor_at p i) + x)
      with (address_of p (base (tensor_at p i)) + (shift (tensor_at p i) + x)) by lia. exact A.
Qed.

Theorem race_free : RaceFree p (Before q).
Proof.
  intros n m w i x y N M Ne W Vw T X Y A Q. destruct all_ok as (_ & L & _).
  assert (Wn : In w (writes p n)) by (destruct W as [W|(j & J & _)]; [auto | rewrite L in J; destruct J]).
  destruct (write_has_version n w x N Wn Vw X) as (k & (Ok & _ & Ek) & Mk).
  destruct (access_has_version m i y M T Y) as (j & Oj & Mj & Ej). rewrite <- A, <- Q in Oj.
  assert (Sharp : forall a b, Until a b -> a <> b -> Before q a b) by (intros a b [?|?] ?; [contradiction | auto]).
  destruct (Z.eq_dec k j) as [->|D].
  - left. rewrite Mk in *. destruct Mj as [Mj|[_ Mj]]; [unfold is_step in N; lia | apply Sharp; auto].
  - destruct (versions_take_turns _ _ k j Ok Oj D) as [B|B].
    + left. apply Sharp; auto. apply (until_trans n (made_by (V j))); [exact (earlier_ends k j n B Ek)|].
      destruct Mj as [Mj|[_ Mj]]; [|exact Mj]. destruct B as (_ & _ & B & _). unfold is_step in N. lia.
    + right. apply Sharp; auto. rewrite <- Mk. exact (earlier_ends j k m B Ej).
Qed.

Theorem reads_ordered : ReadsOrdered p (Before q).
Proof.
  intros n r N I W. destruct all_ok as (_ & _ & _ & _ & H & _). pose proof (every_spec _ _ H n N) as A.
  unfold accesses_ordered in A. facts.
  match goal with K : pairwise (read_ordered _ _ _ _) _ _ = true |- _ => destruct (pairwise_spec _ _ _ K r I) as (k & O) end.
  unfold read_ordered in O. destruct (read_stays p checked n r N I) as [T _].
  destruct (writer_checked p checked r T) as [(? & _)|(S & _)]; cbv zeta in *; [contradiction|]. facts.
  match goal with G : (writer _ =? -1) || _ = true |- _ => apply orb_prop in G as [G|G] end; facts; [contradiction|].
  destruct (not_after_spec _ _ S N ltac:(eassumption)); [right | left]; auto.
Qed.
End RacesProof.

Lemma streams_checked p q e : check_streams p q e = true -> Safe p /\ exclusives p = 0 /\ loops p = [] /\ takes p = [] /\
  (forall n m, is_step p m -> Before q n m -> n < m) /\ RaceFree p (Before q) /\ ReadsOrdered p (Before q).
Proof.
  unfold check_streams. intros H. facts. rename Heqb into C. destruct (all_ok p q e H) as (X & L & T & _).
  split; [apply check_sound, C|]. split; [exact X|]. split; [exact L|]. split; [exact T|].
  split; [intros n m M B; apply (before_in_rows p q e H n m M B)|].
  split; [eapply race_free; eauto | eapply reads_ordered; eauto].
Qed.
