(** A safe plan runs as if every tensor had memory of its own; and what a run reads has a value. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Safe Run.
Import ListNotations.
Open Scope Z_scope.

Section RunProof.
Variable V : Type.
Variable p : plan.
Hypothesis safe : Safe p.

Lemma stays_when_touched n i : is_step p n -> touches p n i -> is_tensor p i /\ Stays p i n.
Proof. destruct safe as (_ & _ & _ & _ & (H & _) & _). apply H. Qed.

Lemma writers i : is_tensor p i ->
  let t := tensor_at p i in
  writer t = -1 /\ made t = -1 \/
  writer t <> -1 /\ is_step p (writer t) /\ In i (writes p (writer t)) /\ 0 <= made t <= writer t.
Proof.
  intros H. destruct safe as (_ & _ & _ & _ & (_ & _ & _ & W & C & _) & _). cbv zeta.
  destruct (Z.eq_dec (writer (tensor_at p i)) (-1)) as [E|E]; [left; destruct (C i H E) | right]; auto.
Qed.

(** * The invariant *)

(** Where control is, and that all that is defined and stays has its own bytes in the arenas. *)
Definition sound (s : state V) : Prop :=
  (now V s = -1 \/ is_step p (now V s)) /\
  forall i x, defined V s i x ->
    is_tensor p i /\ inside p i x /\ made (tensor_at p i) <= now V s /\
    (Stays p i (now V s) -> seen V p (held V s) i x = own V s i x).

Lemma sound_begin s : begins V p s -> sound s.
Proof.
  intros [N B]. split; auto. intros i x D. destruct (B i x D) as (T & I & W & A).
  split; [auto|]. split; [auto|]. split; [|auto].
  destruct (writers i T) as [[_ M]|M]; cbv zeta in *; [lia|tauto].
Qed.

Lemma sound_stores s w : sound s -> allowed V p s w ->
  sound (State V (now V s) (defined_after V p s w) (store_own V w (own V s)) (store_held V p w (held V s))).
Proof.
  intros [N S] (Hn & Hw & NV & In_ & Local). split; auto. cbn.
  destruct (stays_when_touched (now V s) (result V w)) as [Tw Sw]; [auto|right; auto|].
  assert (E : forall x, chosen V w x = true -> value V w (own V s) x = value V w (seen V p (held V s)) x).
  { apply Local. intros i x To I D. destruct (S i x D) as (_ & _ & _ & A). symmetry. apply A.
    eapply stays_when_touched; eauto. }
  intros i x D. assert (P : is_tensor p i /\ inside p i x /\ made (tensor_at p i) <= now V s).
  { destruct D as [[-> C]|[D _]]; [split; [auto|]; split; [auto | apply Sw]|].
    destruct (S i x D) as (? & ? & ? & _). auto. }
  destruct P as (Ti & I & M). split; [auto|]. split; [auto|]. split; [auto|]. intros St.
  cbn. unfold store_held, store_own.
  destruct (Z.eq_dec i (result V w)) as [->|Ne].
  - rewrite !Z.eqb_refl. replace (address_of p (result V w) + x - address_of p (result V w)) with x by lia. cbn.
    destruct (chosen V w x) eqn:C; [symmetry; auto|].
    destruct D as [[_ D]|[D _]]; [congruence|]. apply (S _ _ D). assumption.
  - rewrite (proj2 (Z.eqb_neq _ _) Ne). cbn.
    destruct D as [[? _]|[D Kept]]; [congruence|].
    destruct ((tensor_arena p i =? tensor_arena p (result V w)) && _) eqn:Hit; [|apply (S _ _ D); assumption].
    apply andb_prop in Hit as [A C]. apply Z.eqb_eq in A. exfalso. apply Kept.
    destruct safe as (_ & _ & _ & _ & _ & _ & _ & _ & Q & _).
    destruct (Q (now V s) (result V w) i (address_of p i + x - address_of p (result V w)) x) as (O & X & _); auto.
    { lia. }
    rewrite X in C. auto.
Qed.

Lemma sound_acts s t : sound s -> acts V p s t -> sound t.
Proof.
  intros S A. destruct A as [s w H|s v Hn Tv Vv Wv t]; [apply sound_stores; auto|]; subst t.
  destruct S as [N S]. split; auto. cbn. intros i x D.
  destruct safe as (_ & _ & _ & _ & _ & _ & Vs & _). specialize (Vs v Tv Vv). cbv zeta in Vs.
  destruct Vs as (Tb & Hb & Ad & _ & _ & Sb & Once).
  destruct D as [(-> & I & D)|[Ne D]].
  - assert (Sv : Stays p v (now V s)) by (eapply stays_when_touched; eauto; right; auto).
    split; [auto|]. split; [auto|]. split; [apply Sv|]. intros _. rewrite Z.eqb_refl.
    destruct (S _ _ D) as (_ & _ & _ & A). rewrite <- A.
    + unfold seen, tensor_arena. rewrite Hb, Ad. f_equal. lia.
    + rewrite (Once _ Hn Wv). apply Sb. pose proof (Once _ Hn Wv) as M. unfold is_step in Hn.
      destruct (writers v Tv) as [[_ ?]|[? _]]; cbv zeta in *; lia || auto.
  - rewrite (proj2 (Z.eqb_neq _ _) Ne). exact (S i x D).
Qed.

Lemma sound_goes s t : sound s -> goes V p s t -> sound t.
Proof.
  intros [N S] G. destruct G as [s n L Hn|s e L]; split; cbn; auto.
  - intros i x D. destruct (S i x D) as (T & I & M & A). split; [auto|]. split; [auto|]. split; [lia|].
    intros St. apply A. unfold Stays in *. lia.
  - right. destruct safe as (_ & _ & _ & _ & _ & _ & _ & _ & _ & K & _). destruct (K _ _ L). unfold is_step. lia.
  - intros i x [D M]. destruct (S i x D) as (T & I & _ & A). split; [auto|]. split; [auto|]. split; [auto|].
    intros St. apply A. destruct safe as (_ & _ & _ & _ & _ & _ & _ & _ & _ & K & _). eapply K; eauto.
Qed.

Lemma sound_always s t : begins V p s -> reaches V p s t -> sound t.
Proof.
  intros B R. induction R as [s|s t u R IH M]; [apply sound_begin; auto|].
  specialize (IH B). destruct M; eauto using sound_acts, sound_goes.
Qed.

Theorem runs_as_private : RunsAsPrivate V p.
Proof.
  intros s t B R i Still x D. destruct (sound_always s t B R) as [N S]. destruct (S i x D) as (T & I & M & A).
  apply A. split; auto. destruct Still as [(n & L & Hn & To)|Re].
  - destruct (stays_when_touched n i Hn To) as [_ St]. unfold Stays in St. lia.
  - destruct safe as (_ & _ & _ & _ & (_ & _ & _ & _ & _ & W) & _). rewrite (W i T Re).
    unfold last_step, is_step in *. lia.
Qed.

(** * Values *)

Lemma acts_same s t : acts V p s t -> now V t = now V s.
Proof. intros A. destruct A; reflexivity. Qed.

Lemma acts_on_same s t : acts_on V p s t -> now V t = now V s.
Proof. intros A. induction A as [|s t u A IH M]; auto. apply acts_same in M. congruence. Qed.

(** What was written before this step and is needed after it, or by the next iteration, keeps its values. *)
Definition outlives (n i : Z) : Prop := writer (tensor_at p i) < Z.max 0 n /\
  (n < needed (tensor_at p i) \/ n = needed (tensor_at p i) /\ exists e, In (e, n) (loops p)).

Lemma act_keeps s t i x : acts V p s t -> is_tensor p i -> outlives (now V s) i -> defined V s i x -> defined V t i x.
Proof.
  intros A T [W O] D. destruct A as [s w (Hn & Hw & _)|s v Hn Tv Vv Wv t]; cbn.
  - right. split; auto. intros (Op & Ne & _).
    destruct (stays_when_touched (now V s) (result V w)) as [Tw [Mw _]]; [auto|right; auto|].
    destruct safe as (_ & _ & _ & _ & _ & _ & _ & P & _).
    destruct (P (result V w) Tw) as (_ & _ & _ & _ & Nd & Md & _ & _ & _ & Lp); [unfold is_tensor in T; lia|].
    rewrite Op in *. destruct O as [O|[O [e L]]]; [lia|].
    apply (Lp e). replace (writer (tensor_at p (result V w))) with (now V s) by lia. assumption.
  - right. split; auto. intros ->. destruct safe as (_ & _ & _ & _ & _ & _ & Vs & _).
    destruct (Vs v Tv Vv) as (_ & _ & _ & _ & _ & _ & Once). specialize (Once _ Hn Wv).
    destruct (writers v T) as [[_ ?]|[_ (_ & _ & ?)]]; cbv zeta in *; unfold is_step in Hn; lia.
Qed.

Lemma acts_keep s t i x : acts_on V p s t -> is_tensor p i -> outlives (now V s) i -> defined V s i x ->
  defined V t i x.
Proof.
  intros A. induction A as [s|s t u A IH M]; auto. intros T O D. apply act_keeps with (s := t); auto.
  rewrite (acts_on_same _ _ A). assumption.
Qed.

(** All that was to be written before, and is still needed, is defined. *)
Definition ready (s : state V) : Prop := forall i x, is_tensor p i -> inside p i x ->
  writer (tensor_at p i) < Z.max 0 (now V s) -> now V s <= needed (tensor_at p i) -> defined V s i x.

Lemma ready_when_full s : in_full V p s -> -1 <= now V s /\ ready s.
Proof.
  intros F. induction F as [s [N B] All|s t u F [N IH] A D G J].
  - split; [lia|]. intros i x T I W _. apply All; auto.
    destruct (writers i T) as [[? _]|[_ (? & _)]]; cbv zeta in *; unfold is_step in *; lia.
  - pose proof (acts_on_same _ _ A) as Same. destruct G as [t n L Hn|t e L]; cbn in *.
    + split; [unfold is_step in Hn; lia|]. intros i x T I W Ne. cbn in *. unfold is_step in Hn.
      destruct J as [->|J]; [|lia].
      destruct (Z_lt_le_dec (writer (tensor_at p i)) (Z.max 0 (now V t))) as [E|E].
      * apply acts_keep with (s := s); auto; [split; lia | apply IH; auto; lia].
      * destruct (writers i T) as [[? _]|[_ (Hs & Iw & _)]]; cbv zeta in *; [lia|].
        replace (writer (tensor_at p i)) with (now V t) in * by lia. apply D; auto.
    + destruct safe as (_ & _ & _ & _ & _ & _ & _ & _ & _ & K & _). destruct (K _ _ L) as (E1 & E2 & E3).
      split; [lia|]. intros i x T I W Ne. cbn in *.
      assert (M : made (tensor_at p i) <= e) by
        (destruct (writers i T) as [[? ?]|[_ (_ & _ & ?)]]; cbv zeta in *; lia).
      split; auto. destruct (E3 i T) as [_ Le]; [unfold Stays; lia|].
      apply acts_keep with (s := s); auto; [|apply IH; auto; lia].
      split; [lia|]. rewrite <- Same.
      destruct (Z.eq_dec (now V t) (needed (tensor_at p i))); [right|left; lia]. split; eauto.
Qed.

Theorem reads_find_values : ReadsFindValues V p.
Proof.
  intros s r x F Hn I W In_. destruct (ready_when_full s F) as [_ R].
  destruct (stays_when_touched (now V s) r) as [T [_ Nd]]; auto; [left; left; auto|].
  apply R; auto. unfold is_step in Hn. lia.
Qed.
End RunProof.
