(** What the checks of tensors and steps mean: lifetimes, accesses, loops. *)
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
  forallb (tensors_apart p) (pairs p) = true.
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
  pose proof (L _ H) as Q. unfold loop_ok in Q. facts. cbn in *. split; [lia|]. split; [lia|].
  intros i I S. apply tensor_checked in I. unfold tensor_ok in I. facts.
  match goal with K : forall x, In x (loops p) -> _ |- _ => specialize (K _ H) end.
  unfold outlasts, Stays in *. cbn in *.
  assert (B : between (made (tensor_at p i)) e (needed (tensor_at p i)) = true)
    by (unfold between; apply andb_true_iff; split; apply Z.leb_le; lia).
  rewrite B in *. cbn in *. facts. lia.
Qed.

Lemma step_checked n : is_step p n -> step_ok p n = true.
Proof. destruct parts as (_ & _ & H & _). exact (every_spec _ _ H n). Qed.

Lemma read_checked n r : is_step p n -> In r (reads p n) -> read_ok p n r = true.
Proof. intros H I. apply step_checked in H. unfold step_ok in H. facts. auto. Qed.

Lemma write_checked n w : is_step p n -> In w (writes p n) -> write_ok p n w = true.
Proof. intros H I. apply step_checked in H. unfold step_ok in H. facts. auto. Qed.

Lemma listed_stays n i : is_step p n -> In i (reads p n) \/ In i (writes p n) -> is_tensor p i /\ Stays p i n.
Proof.
  intros H [I|I]; [apply read_checked in I as C | apply write_checked in I as C]; auto;
    unfold read_ok, write_ok, stays in C; facts; unfold is_tensor, Stays; lia.
Qed.

Lemma loop_steps e n : In (e, n) (loops p) -> is_step p e.
Proof. intros H. destruct (loops_keep _ _ H) as (? & ? & _). unfold is_step. lia. Qed.

Lemma touched_stays n i : is_step p n -> touches p n i -> is_tensor p i /\ Stays p i n.
Proof.
  intros H [[I|[e [L I]]]|[I|[e [L I]]]]; auto using listed_stays;
    destruct (listed_stays e i) as [T S]; eauto using loop_steps; split; auto;
    eapply loops_keep; eauto.
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
  split; [|split; [|split; [|split; [|split]]]].
  - intros n i H T. apply touched_stays; auto.
  - intros i n H N S. apply stays_within; auto.
  - intros n r H I. apply read_checked in I as C; auto. unfold read_ok in C. facts.
    match goal with K : _ || _ = true |- _ => apply orb_prop in K as [K|K] end; facts; auto.
  - intros i H W. pose proof (stays_within i H). destruct (writer_checked i H) as [?|?]; cbv zeta in *; tauto.
  - intros i H W. destruct (writer_checked i H) as [?|(S & _)]; cbv zeta in *; [tauto|]. unfold is_step in S. lia.
  - intros i H R. apply tensor_checked in H. unfold tensor_ok in H. facts. rewrite R in *. facts. assumption.
Qed.

Lemma written_once : WrittenOnce p.
Proof.
  intros n w H I. apply write_checked in I as C; auto. unfold write_ok in C. facts.
  match goal with K : _ || _ = true |- _ => apply orb_prop in K as [K|K] end; facts; auto.
  right. split; [apply mem_spec; assumption|].
  match goal with K : _ || _ = true |- _ => apply orb_prop in K as [K|K] end; facts; auto.
Qed.
End Accesses.
