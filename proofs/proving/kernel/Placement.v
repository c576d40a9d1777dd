(** The meaning of [Check.placed], and that ranges of slots show storages to be disjoint. *)
From Coq Require Import ZArith List Bool Lia Znumtheory.
From Tmmu Require Import Lists Columns Check Safe ListsProof.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Lemma power_of_two_spec x : power_of_two x = true -> PowerOfTwo x.
Proof.
  unfold power_of_two, U64. intros H. facts.
  assert (D : (x | 2 ^ 64)) by (apply Z.mod_divide; lia).
  clear H0. revert x H D.
  assert (G : forall n, 0 <= n -> forall x, 1 <= x -> (x | 2 ^ n) -> PowerOfTwo x).
  { intros n Hn. pattern n. apply natlike_ind; [| |exact Hn].
    - intros x Hx D. exists 0. apply Z.divide_pos_le in D; lia.
    - intros m Hm IH x Hx D. rewrite Z.pow_succ_r in D by lia.
      destruct (Zdivide_dec 2 x) as [E|E].
      + destruct E as [y ->]. destruct D as [q D].
        destruct (IH y) as [k [Hk ->]]; [lia | exists q; nia |].
        exists (Z.succ k). split; [lia|]. rewrite Z.pow_succ_r; lia.
      + apply IH; auto. apply Gauss with 2; auto.
        apply rel_prime_sym, prime_rel_prime; auto. apply prime_2. }
  intros x Hx D. apply (G 64); lia || assumption.
Qed.

Lemma power_of_two_positive x : power_of_two x = true -> x <> 0.
Proof. unfold power_of_two. intros H. facts. lia. Qed.

Lemma divides a x : power_of_two a = true -> (x mod a =? 0) = true -> (a | x).
Proof. intros P H. facts. apply Z.mod_divide; auto. apply power_of_two_positive; auto. Qed.

Section Placement.
Variable p : memory.
Hypothesis all_placed : every (storages p) (placed p) = true.

Lemma storage_placed k : is_storage p k -> placed p k = true.
Proof. intros H. exact (every_spec _ _ all_placed k H). Qed.

Lemma storage_lives k : is_storage p k ->
  0 <= s_birth (storage_at p k) <= s_death (storage_at p k) /\ s_death (storage_at p k) <= last_step p /\
  0 <= s_bytes (storage_at p k) /\ 0 <= s_offset (storage_at p k) /\ 0 <= arena_of p k < arenas p.
Proof. intros H. apply storage_placed in H. unfold placed in H. facts. repeat split; unfold arena_of; lia. Qed.

Lemma well_placed : WellPlaced p.
Proof.
  intros k H. apply storage_placed in H. unfold placed in H. facts. cbv zeta.
  repeat split; try lia; auto using power_of_two_spec, divides.
  - apply divides; auto. apply Z.eqb_eq; auto.
  - apply divides; auto. apply Z.eqb_eq; auto.
Qed.

(** At step [n] the bytes of storage [k] serve nothing else. *)
Definition keeps (k n : Z) : Prop := since p (storage_at p k) <= n <= until p (storage_at p k).

Lemma lives_keeps k n : is_storage p k -> lives_at p k n -> keeps k n.
Proof.
  intros H. pose proof (storage_lives k H). unfold lives_at, keeps, since, until. destruct (reuse p _); lia.
Qed.

Lemma keeps_without_reuse k n : reuse p (arena_of p k) = false -> 0 <= n <= last_step p -> keeps k n.
Proof. intros R. unfold keeps, since, until. unfold arena_of in R. rewrite R. auto. Qed.

(** The conclusion from either kind of evidence. *)
Definition KeptDisjoint : Prop := forall k l n, is_storage p k -> is_storage p l -> k <> l ->
  keeps k n -> keeps l n -> Disjoint p k l.

Lemma disjoint_when_live : KeptDisjoint -> NoLiveOverlap p.
Proof. intros D k l n Hk Hl N Lk Ll. apply (D k l n); auto using lives_keeps. Qed.

Lemma disjoint_without_reuse : KeptDisjoint -> NoReuse p.
Proof.
  intros D k l Hk Hl N R A. assert (0 <= 0 <= last_step p) by (unfold last_step; lia).
  apply (D k l 0); auto; apply keeps_without_reuse; auto. rewrite <- A. exact R.
Qed.

Lemma kept_apart_spec k l : kept_apart p (k, l) = true -> is_storage p k /\ is_storage p l /\ Disjoint p k l.
Proof.
  unfold kept_apart. cbn. intros H. facts. unfold is_storage. split; [lia|]. split; [lia|].
  intros A x K L. unfold arena_of, has_byte in *.
  repeat match goal with G : _ || _ = true |- _ => apply orb_prop in G as [G|G] end; facts; try lia; congruence.
Qed.

(** * Slots *)

Lemma turns_in_order l : forall ended, take_turns p ended l = true ->
  Forall (fun k => ended < since p (storage_at p k)) l /\
  ForallOrdPairs (fun k m => until p (storage_at p k) < since p (storage_at p m)) l.
Proof.
  induction l as [|k l IH]; intros ended H; cbn in *; [repeat constructor|].
  facts. destruct (IH (until p (storage_at p k))) as [I1 I2]; auto. split; constructor; auto.
  eapply Forall_impl; [|apply I1]. cbn. lia.
Qed.

Lemma turns_spec s k l n : turns_taken p s = true -> In k (group (tenants p) s) -> In l (group (tenants p) s) ->
  k <> l -> keeps k n -> keeps l n -> False.
Proof.
  intros T Ik Il N K L. apply turns_in_order in T as [_ T]. unfold keeps in *.
  destruct (ordered_apart _ _ T k l Ik Il) as [?|[?|?]]; congruence || lia.
Qed.

Lemma behind_in_order l : forall stop, behind p stop l = true ->
  Forall (fun s => stop <= k_offset (slot_at p s)) l /\
  ForallOrdPairs (fun s t => k_offset (slot_at p s) + k_bytes (slot_at p s) <= k_offset (slot_at p t)) l.
Proof.
  induction l as [|s l IH]; intros stop H; cbn in *; [repeat constructor|].
  facts. destruct (IH (k_offset (slot_at p s) + k_bytes (slot_at p s))) as [I1 I2]; auto. split; constructor; auto.
  eapply Forall_impl; [|apply I1]. cbn. lia.
Qed.

Lemma disjoint_by_slots : every (storages p) (in_slot p) = true -> every (slots p) (turns_taken p) = true ->
  every (arenas p) (fun a => behind p 0 (group (ordered p) a)) = true -> KeptDisjoint.
Proof.
  intros I T B k l n Hk Hl N Kk Kl A x Ck Cl.
  pose proof (every_spec _ _ I k Hk) as Pk. pose proof (every_spec _ _ I l Hl) as Pl.
  unfold in_slot, slotted in Pk, Pl. facts.
  destruct (Z.eq_dec (s_slot (storage_at p k)) (s_slot (storage_at p l))) as [S|S].
  - apply (turns_spec (s_slot (storage_at p k)) k l n); auto.
    + apply (every_spec _ _ T). lia.
    + eapply listed_spec; eauto.
    + rewrite S. eapply listed_spec; eauto.
  - destruct (storage_lives k Hk) as (_ & _ & _ & _ & Q). apply (every_spec _ _ B) in Q.
    apply behind_in_order in Q as [_ O]. unfold has_byte in Ck, Cl. unfold arena_of in *.
    assert (Ik : In (s_slot (storage_at p k)) (group (ordered p) (s_arena (storage_at p k)))) by
      (eapply listed_spec; eauto).
    assert (Il : In (s_slot (storage_at p l)) (group (ordered p) (s_arena (storage_at p k)))) by
      (rewrite A; eapply listed_spec; eauto).
    destruct (ordered_apart _ _ O _ _ Ik Il) as [?|[?|?]]; try congruence; lia.
Qed.
End Placement.
