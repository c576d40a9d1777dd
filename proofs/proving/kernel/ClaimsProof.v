(** The checks of [Claims] have the meaning that is stated there. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Check Safe ListsProof Placement Accesses Claims.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Section ClaimsProof.
Variable p : memory.
Hypothesis checked : memory_ok p = true.

Lemma all_placed : every (storages p) (placed p) = true.
Proof. apply memory_placed, checked. Qed.

(** * Slots *)

Section Slots.
Hypothesis slots_checked : slots_ok p = true.

Lemma fits k : is_storage p k ->
  fits_slot p k = true /\ slotted p k (storage_at p k) (slot_at p (s_slot (storage_at p k))) = true.
Proof.
  intros K. generalize slots_checked checked. unfold slots_ok, memory_ok, no_live_overlap. intros H H'. facts.
  assert (F : fits_slot p k = true) by
    (match goal with Q : every _ (fits_slot p) = true |- _ => exact (every_spec _ _ Q k K) end).
  split; auto. destruct (by_slots p) eqn:B; facts.
  - match goal with Q : every _ (in_slot p) = true |- _ => pose proof (every_spec _ _ Q k K) as S end.
    unfold in_slot in S. facts. auto.
  - unfold fits_slot in F. rewrite B in F. facts. auto.
Qed.

Lemma storages_fit_slots : StoragesFitSlots p.
Proof.
  intros k K. apply fits in K as [K S]. unfold fits_slot, slotted in *. facts. cbv zeta. repeat split; auto using power_of_two_spec; lia.
Qed.

Lemma slots_take_turns : SlotsTakeTurns p.
Proof.
  intros k l K L N E. destruct (fits k K) as [_ F], (fits l L) as [_ G]. unfold slotted in F, G. facts.
  assert (T : forall n, keeps p k n -> keeps p l n -> False).
  { intros n. apply (turns_spec p (s_slot (storage_at p k)) k l n); auto.
    - generalize slots_checked checked. unfold slots_ok, memory_ok, no_live_overlap. intros H' H''. facts.
      destruct (by_slots p); facts;
        match goal with Q : every (slots p) _ = true |- _ => apply (every_spec _ _ Q); lia end.
    - eapply listed_spec; eauto.
    - rewrite E. eapply listed_spec; eauto. }
  split; [intros n A B; apply (T n); apply lives_keeps; auto using all_placed|].
  destruct (reuse p (arena_of p k)) eqn:R; auto. exfalso.
  assert (0 <= 0 <= last_step p) by (unfold last_step; lia).
  apply (T 0); apply keeps_without_reuse; auto. rewrite <- R. unfold arena_of. congruence.
Qed.

Lemma run_from_distinct count : forall start rest, NoDup rest -> (forall x, In x rest -> start + Zpos count <= x) ->
  NoDup (run_from count start rest).
Proof.
  induction count as [q IH|q IH|]; intros start rest N R; cbn [run_from].
  - constructor.
    + rewrite !run_from_spec. intros [?|[?|I]]; try lia. apply R in I. lia.
    + apply IH; [apply IH; auto; intros x I; apply R in I; lia|].
      intros x I. rewrite run_from_spec in I. destruct I as [?|I]; [lia|]. apply R in I. lia.
  - apply IH; [apply IH; auto; intros x I; apply R in I; lia|].
    intros x I. rewrite run_from_spec in I. destruct I as [?|I]; [lia|]. apply R in I. lia.
  - constructor; auto. intros I. apply R in I. lia.
Qed.

Lemma run_distinct start stop : NoDup (run start stop).
Proof. unfold run. destruct (stop - start); try constructor. apply run_from_distinct; [constructor|intros x []]. Qed.

Lemma full_spec a t s : full p a t = true -> 0 <= s < slots p -> k_arena (slot_at p s) = a ->
  exists k, in_arena p a k /\ lives_at p k t /\ s_slot (storage_at p k) = s.
Proof.
  intros F S A. apply (every_spec _ _ F) in S. cbn in S. apply orb_prop in S as [S|S]; facts; [congruence|].
  apply existsb_exists in S as (k & _ & K). facts. exists k.
  assert (P : is_storage p k) by (unfold is_storage; lia).
  destruct (storages_fit_slots k P) as (_ & E & _).
  unfold in_arena, arena_of, lives, lives_at in *. facts. repeat split; auto; try lia. congruence.
Qed.

Theorem fewest_slots_spec a t : full p a t = true -> FewestSlots p a.
Proof.
  intros F C colour colours Diff All.
  assert (G : forall l, NoDup l -> (forall s, In s l -> 0 <= s < slots p /\ k_arena (slot_at p s) = a) ->
    exists ws, length ws = length l /\ NoDup (map colour ws) /\
      forall w, In w ws -> in_arena p a w /\ lives_at p w t /\ In (s_slot (storage_at p w)) l).
  { induction l as [|s l IH]; intros N L; [exists []; split; [reflexivity|]; split; [constructor|]; intros w []|].
    inversion N; subst. destruct IH as (ws & Len & ND & W); auto; [intros; apply L; right; auto|].
    destruct (L s) as [S A]; [left; auto|]. destruct (full_spec a t s F S A) as (k & Ka & Kl & Ks).
    exists (k :: ws). split; [cbn; congruence|]. split.
    - cbn. constructor; auto. intros I. apply in_map_iff in I as (w & E & I). destruct (W w I) as (Wa & Wl & Ws).
      assert (k <> w) by congruence. apply (Diff k w); auto. exists t. auto.
    - intros w [<-|I]; [split; [exact Ka|]; split; [exact Kl|]; left; auto|].
      destruct (W w I) as (Wa & Wl & Ws). split; [exact Wa|]. split; [exact Wl|]. right. exact Ws. }
  destruct (G (slots_of p a)) as (ws & Len & ND & W).
  - apply NoDup_filter, run_distinct.
  - intros s I. apply filter_In in I as [I E]. rewrite run_spec in I. apply Z.eqb_eq in E. auto.
  - rewrite <- Len, <- (map_length colour ws). apply NoDup_incl_length; auto.
    intros c I. apply in_map_iff in I as (w & <- & I). apply All, W, I.
Qed.

End Slots.

(** * Bytes *)

Lemma footprints_hold : footprints_ok p = true -> FootprintsHold p.
Proof.
  unfold footprints_ok. intros H. facts. split.
  - intros a A. pose proof (every_spec _ _ Heqb a A) as F. cbn in F. facts. assumption.
  - intros k K S. pose proof (every_spec _ _ H k K) as F. unfold within_footprint, arena_of in *. rewrite S in F.
    cbn in F. facts. assumption.
Qed.

Fixpoint total (f : Z -> Z) (l : list Z) : Z := match l with [] => 0 | x :: l' => f x + total f l' end.

Lemma sum_from_spec count f : forall start rest,
  total f (run_from count start rest) = sum_from count start f + total f rest.
Proof. induction count as [q IH|q IH|]; intros; cbn [run_from sum_from total]; rewrite ?IH; lia. Qed.

Lemma sum_spec count f : sum count f = total f (run 0 count).
Proof. unfold sum, run. rewrite Z.sub_0_r. destruct count; auto. rewrite sum_from_spec. cbn. lia. Qed.

Lemma run_length start stop : start <= stop -> Z.of_nat (length (run start stop)) = stop - start.
Proof.
  assert (G : forall count start rest,
    Z.of_nat (length (run_from count start rest)) = Zpos count + Z.of_nat (length rest)).
  { induction count as [q IH|q IH|]; intros; cbn [run_from length]; rewrite ?Nat2Z.inj_succ, ?IH; lia. }
  intros L. unfold run. destruct (stop - start) eqn:E; [reflexivity| rewrite G; cbn; lia | lia].
Qed.

Lemma distinct_app (l m : list Z) : NoDup l -> NoDup m -> (forall x, In x l -> In x m -> False) -> NoDup (l ++ m).
Proof.
  induction l as [|x l IH]; cbn; auto. intros N M D. inversion N; subst. constructor.
  - intros I. apply in_app_or in I as [?|?]; eauto.
  - apply IH; auto. intros y Hy. apply D. auto.
Qed.

Theorem least_footprint_spec a t : no_byte_to_spare p a t = true -> LeastFootprint p a.
Proof.
  unfold no_byte_to_spare, live_bytes. rewrite sum_spec. intros H offset enough Fits Apart Pos. facts.
  set (counts k := if (s_arena (storage_at p k) =? a) && lives p k t then s_bytes (storage_at p k) else 0) in *.
  set (its_bytes k := run (offset k) (offset k + counts k)).
  assert (C : forall k x, is_storage p k -> In x (its_bytes k) -> in_arena p a k /\ lives_at p k t /\
    offset k <= x < offset k + s_bytes (storage_at p k)).
  { intros k x K I. unfold its_bytes, counts in I. rewrite run_spec in I.
    destruct ((s_arena (storage_at p k) =? a) && lives p k t) eqn:E; [|lia]. unfold lives in E. facts.
    repeat split; auto; try lia; apply K. }
  assert (G : forall l, NoDup l -> (forall k, In k l -> is_storage p k) ->
    NoDup (flat_map its_bytes l) /\ Z.of_nat (length (flat_map its_bytes l)) = total counts l).
  { induction l as [|k l IH]; intros N L; [split; [constructor|reflexivity]|].
    inversion N; subst. destruct IH as [I1 I2]; auto; [intros; apply L; right; auto|].
    assert (K : is_storage p k) by (apply L; left; auto). cbn [flat_map total]. split.
    - apply distinct_app; auto; [apply run_distinct|]. intros x Ix Jx.
      apply in_flat_map in Jx as (m & Im & Jx). assert (M : is_storage p m) by (apply L; right; auto).
      destruct (C k x K Ix) as (Ka & Kl & Kx), (C m x M Jx) as (Ma & Ml & Mx).
      apply (Apart k m x); auto; [congruence|]. exists t. auto.
    - rewrite app_length, Nat2Z.inj_add, I2. unfold its_bytes at 1. rewrite run_length; [lia|].
      unfold counts. destruct (storage_lives p all_placed k K) as (_ & _ & B & _).
      destruct (_ && _); lia. }
  destruct (G (run 0 (storages p))) as [N E]; [apply run_distinct | intros k; apply run_spec|].
  assert (I : incl (flat_map its_bytes (run 0 (storages p))) (run 0 enough)).
  { intros x I. apply in_flat_map in I as (k & K & I). rewrite run_spec in K.
    destruct (C k x K I) as (Ka & _ & X). destruct (Fits k Ka). apply run_spec. lia. }
  apply (NoDup_incl_length N) in I. pose proof (run_length 0 enough Pos). lia.
Qed.
End ClaimsProof.
