(** A plan whose offsets are prefix sums of slots is safe at every shape: storages of one slot take turns, whatever their
    sizes are, and those of two slots are apart. Lifetimes do not depend on a shape. *)
From Coq Require Import ZArith List Bool Lia Znumtheory.
From Tmmu Require Import Lists Columns Check Safe Claims Symbolic ListsProof.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Section AtShapes.
Variable p : memory.
Local Notation put := (Symbolic.put p).
Local Notation offset_in := (Symbolic.offset_in p).
Local Notation summed := (Symbolic.summed p).
Local Notation at_shape := (Symbolic.at_shape p).

Lemma slot_is_of_its_arena s : 0 <= s < slots p -> In s (slots_of p (k_arena (slot_at p s))).
Proof. intros S. apply filter_In. split; [apply run_spec; exact S | apply Z.eqb_refl]. Qed.

Lemma summed_spec l : forall from, summed from l = true -> forall s, In s l -> 1 <= k_alignment (slot_at p s) /\
  1 <= k_bytes (slot_at p s) /\ exists q, find (fun q => fst q =? s) (put (fun t => k_bytes (slot_at p t)) from l) = Some q /\
  snd q = k_offset (slot_at p s).
Proof.
  induction l as [|t l IH]; intros from H s I; [destruct I|]. cbn in H.
  destruct (1 <=? _) eqn:A in H; [|discriminate]. destruct (1 <=? k_bytes _) eqn:B in H; [|discriminate].
  destruct (_ =? _) eqn:O in H; [|discriminate]. facts. cbn.
  rewrite <- O. destruct (Z.eqb_spec t s) as [->|N]; [eauto|].
  destruct I as [->|I]; [congruence|]. exact (IH _ H s I).
Qed.

Lemma symbolic_spec : symbolic_ok p = true -> StoragesFitSlots p ->
  PrefixSums p /\ forall s, 0 <= s < slots p -> 1 <= k_alignment (slot_at p s) /\ 1 <= k_bytes (slot_at p s).
Proof.
  unfold symbolic_ok. intros H F. destruct (every (slots p) _) eqn:R in H; [|discriminate].
  destruct (every (arenas p) _) eqn:S in H; [|discriminate]. rename H into A.
  assert (G : forall s, 0 <= s < slots p -> (1 <= k_alignment (slot_at p s) /\ 1 <= k_bytes (slot_at p s)) /\
    offset_in (fun t => k_bytes (slot_at p t)) s = k_offset (slot_at p s)).
  { intros s Hs. pose proof (every_spec _ _ R s Hs) as Q. cbn in Q. facts.
    pose proof (every_spec _ _ S (k_arena (slot_at p s)) ltac:(lia)) as E. cbn in E.
    destruct (summed_spec _ _ E s (slot_is_of_its_arena s Hs)) as (L & L' & q & Fq & O). split; [auto|].
    unfold offset_in. rewrite Fq. exact O. }
  split; [|intros s Hs; apply G; exact Hs]. intros k K. cbv zeta. pose proof (every_spec _ _ A k K) as Q.
  unfold at_its_slot in Q. facts. destruct (F k K) as [Hs _]. destruct (G _ Hs) as [_ E]. rewrite E. split; assumption.
Qed.

(** * Prefix sums *)

Lemma rounded a x : 1 <= a -> x <= round_up a x /\ (a | round_up a x).
Proof.
  intros A. unfold round_up. split; [|exists ((x + a - 1) / a); reflexivity].
  pose proof (Z.div_mod (x + a - 1) a ltac:(lia)). pose proof (Z.mod_pos_bound (x + a - 1) a ltac:(lia)). nia.
Qed.
Lemma rounded_up a x y : 1 <= a -> x <= y -> round_up a x <= round_up a y.
Proof. intros A L. unfold round_up. apply Z.mul_le_mono_nonneg_r; [lia|]. apply Z.div_le_mono; lia. Qed.

Definition Slots (room : Z -> Z) (l : list Z) : Prop :=
  forall s, In s l -> 0 <= room s <= k_bytes (slot_at p s) /\ 1 <= k_alignment (slot_at p s).

Lemma put_spec room l : forall from, Slots room l ->
  Forall (fun q => from <= snd q /\ (k_alignment (slot_at p (fst q)) | snd q)) (put room from l) /\
  ForallOrdPairs (fun q r => snd q + room (fst q) <= snd r) (put room from l).
Proof.
  induction l as [|s l IH]; intros from H; cbn; [repeat constructor|].
  assert (S : Slots room l) by (intros t I; apply H; right; exact I).
  destruct (H s) as [R A]; [left; reflexivity|]. destruct (rounded _ from A) as [L D].
  set (o := round_up (k_alignment (slot_at p s)) from) in *. destruct (IH (o + room s) S) as [F P]. split; constructor; auto.
  - eapply Forall_impl; [|exact F]. cbn. intros q [Q Q']. split; [lia | exact Q'].
  - eapply Forall_impl; [|exact F]. cbn. intros q [Q _]. exact Q.
Qed.

Lemma put_has room l : forall from s, In s l -> exists q, find (fun q => fst q =? s) (put room from l) = Some q.
Proof.
  induction l as [|t l IH]; intros from s I; [destruct I|]. cbn. destruct (Z.eqb_spec t s); [eauto|].
  destruct I as [->|I]; [congruence|]. apply IH. exact I.
Qed.

(** Smaller slots begin and end no later. *)
Lemma put_smaller room l : Slots room l -> forall from from' s q q', from <= from' ->
  find (fun q => fst q =? s) (put room from l) = Some q ->
  find (fun q => fst q =? s) (put (fun t => k_bytes (slot_at p t)) from' l) = Some q' -> snd q <= snd q'.
Proof.
  induction l as [|t l IH]; intros H from from' s q q' L F F'; cbn in F, F'; [discriminate|].
  destruct (H t) as [R A]; [left; reflexivity|]. pose proof (rounded_up _ from from' A L).
  destruct (Z.eqb_spec t s).
  - inversion F. inversion F'. exact H0.
  - refine (IH (fun u I => H u (or_intror I)) _ _ s q q' _ F F'). lia.
Qed.

(** * The plan at a shape *)

Hypothesis turns : SlotsTakeTurns p.
Hypothesis fits : StoragesFitSlots p.
Hypothesis placed : WellPlaced p.
Hypothesis sums : PrefixSums p.

Lemma power_positive a : PowerOfTwo a -> 1 <= a.
Proof. intros (k & K & ->). pose proof (Z.pow_pos_nonneg 2 k). lia. Qed.
Lemma power_divides a b : PowerOfTwo a -> PowerOfTwo b -> a <= b -> (a | b).
Proof.
  intros (k & K & ->) (m & M & ->) L. exists (2 ^ (m - k)). rewrite <- Z.pow_add_r; try lia.
  - f_equal. lia.
  - apply (Z.pow_le_mono_r_iff 2) in L; lia.
Qed.

(** Slots without a storage have a place too. *)
Hypothesis aligned : forall s, 0 <= s < slots p -> 1 <= k_alignment (slot_at p s).

Section Shape.
Variables size room : Z -> Z.
Hypothesis shape : ShapeFits p size room.

Lemma slots_of_arena a : Slots room (slots_of p a) /\ Slots (fun t => k_bytes (slot_at p t)) (slots_of p a).
Proof.
  destruct shape as [R _]. split; intros s I; unfold slots_of in I; apply filter_In in I as [I _];
    apply run_spec in I; pose proof (R s I); pose proof (aligned s I); lia.
Qed.
Lemma offset_found rooms s : 0 <= s < slots p ->
  In (s, offset_in rooms s) (put rooms 0 (slots_of p (k_arena (slot_at p s)))) /\
  find (fun q => fst q =? s) (put rooms 0 (slots_of p (k_arena (slot_at p s)))) = Some (s, offset_in rooms s).
Proof.
  intros S. destruct (put_has rooms _ 0 s (slot_is_of_its_arena s S)) as ([t o] & F). unfold offset_in. rewrite F.
  pose proof (find_some _ _ F) as [I E]. cbn in E. apply Z.eqb_eq in E. cbn in E. subst t. auto.
Qed.

Lemma slot_offset s : 0 <= s < slots p ->
  0 <= offset_in room s <= offset_in (fun t => k_bytes (slot_at p t)) s /\ (k_alignment (slot_at p s) | offset_in room s).
Proof.
  intros S. destruct (slots_of_arena (k_arena (slot_at p s))) as [O _]. destruct (put_spec room _ 0 O) as [F _].
  destruct (offset_found room s S) as [I E]. destruct (offset_found (fun t => k_bytes (slot_at p t)) s S) as [_ E'].
  rewrite Forall_forall in F. destruct (F _ I) as [L D]. cbn in L, D. pose proof (put_smaller room _ O 0 0 s _ _ (Z.le_refl 0) E E').
  cbn in H. auto.
Qed.

Lemma slots_are_apart s t : 0 <= s < slots p -> 0 <= t < slots p -> s <> t -> k_arena (slot_at p s) = k_arena (slot_at p t) ->
  offset_in room s + room s <= offset_in room t \/ offset_in room t + room t <= offset_in room s.
Proof.
  intros S T N A. destruct (slots_of_arena (k_arena (slot_at p s))) as [O _]. destruct (put_spec room _ 0 O) as [_ P].
  destruct (offset_found room s S) as [I _]. destruct (offset_found room t T) as [I' _]. rewrite <- A in I'.
  destruct (ordered_apart _ _ P _ _ I I') as [E|[E|E]]; cbn in E; [congruence | auto | auto].
Qed.

(** The parts of the theorem. *)
Lemma apart_at_shape k l : is_storage p k -> is_storage p l ->
  s_slot (storage_at p k) <> s_slot (storage_at p l) -> Disjoint (at_shape size room) k l.
Proof.
  intros K L N A x X Y. destruct shape as [_ B]. destruct (B k K) as [_ Bk]. destruct (B l L) as [_ Bl].
  destruct (fits k K) as (Sk & Ak & _). destruct (fits l L) as (Sl & Al & _).
  unfold arena_of, has_byte in *. cbn in *.
  destruct (slots_are_apart _ _ Sk Sl N) as [H|H]; [rewrite Ak, Al; exact A | lia | lia].
Qed.

Lemma safe_at_shape : NoLiveOverlap (at_shape size room) /\ NoReuse (at_shape size room) /\ WellPlaced (at_shape size room).
Proof.
  split; [|split].
  - intros k l n K L N Lk Ll. destruct (Z.eq_dec (s_slot (storage_at p k)) (s_slot (storage_at p l))) as [E|E].
    + destruct (turns k l K L N E) as [T _]. destruct (T n Lk Ll).
    + apply apart_at_shape; auto.
  - intros k l K L N R. destruct (Z.eq_dec (s_slot (storage_at p k)) (s_slot (storage_at p l))) as [E|E].
    + destruct (turns k l K L N E) as [_ T]. unfold arena_of in *. cbn in R. congruence.
    + apply apart_at_shape; auto.
  - intros k K. destruct (placed k K) as (B & D & A & _ & _ & C & U & P & _ & P' & _).
    destruct (fits k K) as (S & Ar & F & Pk & Ka & Kl). destruct (sums k K) as [O Sc].
    destruct (slot_offset _ S) as [[O1 O2] Dv]. destruct shape as [_ Sh]. destruct (Sh k K) as [Z1 Z2].
    cbv zeta. cbn. unfold last_step in *. cbn in *. unfold limit in *. rewrite Sc in *.
    repeat split; try lia; auto.
    + apply Z.divide_trans with (k_alignment (slot_at p (s_slot (storage_at p k)))); auto. apply power_divides; auto.
    + apply Z.divide_trans with (k_alignment (slot_at p (s_slot (storage_at p k)))); auto. apply power_divides; auto.
Qed.

Lemma kept_apart_at_shape : StoragesKeptApart p -> StoragesKeptApart (at_shape size room).
Proof.
  intros H k l I. destruct (H k l I) as (K & L & D). split; [exact K|]. split; [exact L|].
  destruct (Z.eq_dec (s_slot (storage_at p k)) (s_slot (storage_at p l))) as [E|E]; [|apply apart_at_shape; auto].
  intros A x X Y. destruct (sums k K) as [Ok _]. destruct (sums l L) as [Ol _]. rewrite E in Ok.
  destruct shape as [_ Sh]. destruct (Sh k K) as [Zk _]. destruct (Sh l L) as [Zl _].
  unfold arena_of, has_byte in *. cbn in *. apply (D A (s_offset (storage_at p k))); unfold has_byte; lia.
Qed.
End Shape.
End AtShapes.

(** * An example: two storages that live at one step, of 100 and 200 bytes; at a shape they have 10 and 20 *)

Definition two : memory :=
  {| steps := 3; storages := 2; slots := 2; arenas := 1; by_slots := true;
     storage_at := fun k =>
       {| s_arena := 0; s_bytes := if k =? 0 then 100 else 200; s_alignment := 16; s_birth := k; s_death := k + 1;
          s_offset := if k =? 0 then 0 else 128; s_slot := k; s_place := k |};
     slot_at := fun s =>
       {| k_arena := 0; k_bytes := if s =? 0 then 100 else 200; k_alignment := 64; k_offset := if s =? 0 then 0 else 128;
          k_place := s |};
     arena_at := fun _ =>
       {| capacity := 328; least_alignment := 64; scattered := false; footprint := 328; fullest := 1; peak := 1 |};
     reuse := fun _ => true; tenants := Groups (fun s => s) (fun k => k); ordered := Groups (fun a => 2 * a) (fun s => s);
     edge_at := fun _ => {| below := 0; above := 0; first := 0; last := 0 |}; ups_at := fun _ => 0;
     downs := Groups (fun _ => 0) (fun _ => 0); pairs := [] |}.
Definition tenth (k : Z) : Z := if k =? 0 then 10 else 20.

Example two_is_symbolic : memory_ok two = true /\ slots_ok two = true /\ symbolic_ok two = true.
Proof. repeat split; reflexivity. Qed.
Example tenth_fits : ShapeFits two tenth tenth.
Proof.
  unfold ShapeFits, is_storage, tenth. cbn. split; intros k H; destruct (k =? 0); lia.
Qed.
Example tenth_is_placed : offset_in two tenth 0 = 0 /\ offset_in two tenth 1 = 64.
Proof. split; reflexivity. Qed.
