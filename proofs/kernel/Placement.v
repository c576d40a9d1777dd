(** The checks of [Check.no_live_overlap] and [Check.placed] mean what [Safe] says of storages: by slots, or by edges. *)
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
Variable p : plan.
Hypothesis all_placed : every (storages p) (placed p) = true.
Hypothesis slots_ok : every (slots p) (fun s => take_turns p (-1) (group (tenants p) s) &&& alone p s) = true.

Lemma storage_placed k : is_storage p k -> placed p k = true.
Proof. intros H. exact (every_spec _ _ all_placed k H). Qed.

Lemma storage_lives k : is_storage p k ->
  0 <= s_birth (storage_at p k) <= s_death (storage_at p k) /\ s_death (storage_at p k) <= last_step p /\
  0 <= s_bytes (storage_at p k) /\ 0 <= s_offset (storage_at p k) /\ 0 <= arena_of p k < arenas p /\
  0 <= s_slot (storage_at p k) < slots p /\ In k (group (tenants p) (s_slot (storage_at p k))).
Proof.
  intros H. apply storage_placed in H. unfold placed in H. facts.
  repeat split; try lia; try (unfold arena_of; lia). eapply listed_spec; eauto.
Qed.

Lemma well_placed : WellPlaced p.
Proof.
  intros k H. apply storage_placed in H. unfold placed in H. facts. cbv zeta.
  repeat split; try lia; auto using power_of_two_spec, divides.
  - apply divides; auto. apply Z.eqb_eq; auto.
  - apply divides; auto. apply Z.eqb_eq; auto.
  - intros B. rewrite B in *. facts. apply divides; auto. apply Z.eqb_eq; auto.
Qed.

Lemma turns_in_order l : forall died, take_turns p died l = true ->
  Forall (fun k => died < s_birth (storage_at p k)) l /\
  ForallOrdPairs (fun k m => s_death (storage_at p k) < s_birth (storage_at p m)) l.
Proof.
  induction l as [|k l IH]; intros died H; cbn in *; [repeat constructor|].
  facts. destruct (IH (s_death (storage_at p k))) as [I1 I2]; auto. split; constructor; auto.
  eapply Forall_impl; [|apply I1]. cbn. lia.
Qed.

Lemma slot_ok s : 0 <= s < slots p ->
  ForallOrdPairs (fun k m => s_death (storage_at p k) < s_birth (storage_at p m)) (group (tenants p) s) /\
  alone p s = true.
Proof.
  intros H. apply (every_spec _ _ slots_ok) in H. facts. split; auto. eapply turns_in_order; eauto.
Qed.

Lemma slots_take_turns : SlotsTakeTurns p.
Proof.
  intros k l Hk Hl N E.
  destruct (storage_lives k Hk) as (_ & _ & _ & _ & _ & S & Ik), (storage_lives l Hl) as (_ & _ & _ & _ & _ & _ & Il).
  rewrite <- E in Il. destruct (slot_ok _ S) as [T O]. split.
  - intros n [B D] [B' D']. destruct (ordered_apart _ _ T k l Ik Il) as [?|[?|?]]; congruence || lia.
  - unfold alone in O. apply orb_prop in O as [O|O].
    + destruct (well_placed k Hk) as (_ & _ & _ & _ & _ & _ & _ & _ & A & _). unfold arena_of. rewrite <- A. exact O.
    + destruct (group (tenants p) (s_slot (storage_at p k))) as [|a [|]]; try discriminate; cbn in *; [tauto|].
      intuition congruence.
Qed.

(** * Slots that have addresses *)

Lemma behind_in_order l : forall stop, behind p stop l = true ->
  Forall (fun s => stop <= k_offset (slot_at p s)) l /\
  ForallOrdPairs (fun s t => k_offset (slot_at p s) + k_bytes (slot_at p s) <= k_offset (slot_at p t)) l.
Proof.
  induction l as [|s l IH]; intros stop H; cbn in *; [repeat constructor|].
  facts. destruct (IH (k_offset (slot_at p s) + k_bytes (slot_at p s))) as [I1 I2]; auto. split; constructor; auto.
  eapply Forall_impl; [|apply I1]. cbn. lia.
Qed.

Lemma apart_by_slots : by_slots p = true -> every (arenas p) (fun a => behind p 0 (group (ordered p) a)) = true ->
  NoLiveOverlap p.
Proof.
  intros B Q k l n x Hk Hl N E Lk Ll Ck Cl.
  pose proof (storage_placed k Hk) as Pk. pose proof (storage_placed l Hl) as Pl.
  unfold placed in Pk, Pl. rewrite B in Pk, Pl. facts.
  destruct (storage_lives k Hk) as (_ & _ & _ & _ & A & _).
  destruct (Z.eq_dec (s_slot (storage_at p k)) (s_slot (storage_at p l))) as [S|S].
  - destruct (slots_take_turns k l Hk Hl N S) as [T _]. eapply T; eauto.
  - apply (every_spec _ _ Q) in A. apply behind_in_order in A as [_ O].
    unfold has_byte in Ck, Cl. unfold arena_of in *.
    assert (Ik : In (s_slot (storage_at p k)) (group (ordered p) (s_arena (storage_at p k)))) by
      (eapply listed_spec; eauto).
    assert (Il : In (s_slot (storage_at p l)) (group (ordered p) (s_arena (storage_at p k)))) by
      (rewrite E; eapply listed_spec; eauto).
    destruct (ordered_apart _ _ O _ _ Ik Il) as [?|[?|?]]; try congruence; lia.
Qed.
End Placement.
