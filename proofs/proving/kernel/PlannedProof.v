(** Whatever is asked, the planned memory is safe, and at some step as many storages live as there are slots. *)
From Coq Require Import ZArith List Bool Lia Znumtheory.
From Tmmu Require Import Lists Columns Check Safe Claims Scan Symbolic Planned ListsProof ScanProof SymbolicProof.
Import ListNotations.
Open Scope Z_scope.

Lemma slots_are_opened l : forall ends, let (chosen, last) := scan ends l in
  (length ends <= length last)%nat /\ Forall (fun j => (j < length last)%nat) chosen.
Proof.
  induction l as [|x l IH]; intros ends; cbn; [split; auto|].
  assert (J : (first_free (born x) ends <= length ends)%nat).
  { destruct (free_or_new (born x) ends) as [(e & N & _)|[N _]]; [|lia]. apply Nat.lt_le_incl, nth_error_Some. congruence. }
  specialize (IH (occupy (first_free (born x) ends) (dies x) ends)).
  destruct (scan (occupy (first_free (born x) ends) (dies x) ends) l) as [chosen last]. destruct IH as [L F].
  pose proof (occupied_length _ (dies x) ends J) as O.
  assert (B : (length ends <= length (occupy (first_free (born x) ends) (dies x) ends))%nat) by
    (rewrite O; destruct (_ =? _)%nat; lia).
  split; [lia|]. constructor; [|exact F].
  enough ((first_free (born x) ends < length (occupy (first_free (born x) ends) (dies x) ends))%nat) by lia.
  apply nth_error_Some. rewrite occupied_here by exact J. discriminate.
Qed.

Section Planned.
Variable l : list request.
Variable last : Z.
Variable space : arena.
Hypothesis asked : Asked l last space.
Local Notation p := (planned l last space).
Local Notation lives := (map of_life l).

Lemma slot_chosen k : 0 <= k < Z.of_nat (length l) ->
  exists x, nth_error lives (Z.to_nat k) = Some x /\ x = of_life (request_at l k) /\
    nth_error (linear_scan lives) (Z.to_nat k) = Some (Z.to_nat (slot_of l k)) /\
    0 <= slot_of l k < Z.of_nat (slots_opened lives).
Proof.
  intros K. destruct asked as (C & _). destruct (linear_scan_spec _ _ C) as (N & _). rewrite map_length in N.
  assert (I : (Z.to_nat k < length l)%nat) by lia.
  exists (of_life (request_at l k)). unfold request_at, slot_of. split; [|split; [reflexivity|]].
  - apply map_nth_error, nth_error_nth'. exact I.
  - rewrite Nat2Z.id. split; [apply nth_error_nth'; lia|]. unfold linear_scan, slots_opened.
    pose proof (slots_are_opened lives []) as S. unfold linear_scan in N. destruct (scan [] lives) as [chosen ends].
    destruct S as [_ S]. rewrite Forall_forall in S. cbn in *.
    assert (In (nth (Z.to_nat k) chosen O) chosen) by (apply nth_In; lia). specialize (S _ H). lia.
Qed.

Lemma request_in k : 0 <= k < Z.of_nat (length l) -> In (request_at l k) l.
Proof. intros K. apply nth_In. lia. Qed.

(** The largest of a slot. *)
Lemma largest_spec f least s : (least <= largest l f least s) /\
  (forall k, 0 <= k < Z.of_nat (length l) -> slot_of l k = s -> f (request_at l k) <= largest l f least s) /\
  (forall P : Z -> Prop, P least -> (forall k, 0 <= k < Z.of_nat (length l) -> P (f (request_at l k))) -> P (largest l f least s)).
Proof.
  unfold largest. assert (B : forall k, In k (run 0 (Z.of_nat (length l))) -> 0 <= k < Z.of_nat (length l)) by
    (intros k H; apply run_spec in H; lia).
  assert (A : forall k, 0 <= k < Z.of_nat (length l) -> In k (run 0 (Z.of_nat (length l)))) by
    (intros k H; apply run_spec; lia).
  split; [|split].
  - clear A. induction (run 0 (Z.of_nat (length l))) as [|k r IH]; cbn; [lia|].
    specialize (IH (fun x H => B x (or_intror H))). destruct (slot_of l k =? s); lia.
  - intros k K S. specialize (A k K). clear B. induction (run 0 (Z.of_nat (length l))) as [|j r IH]; [destruct A|]. cbn.
    destruct A as [->|A].
    + rewrite (proj2 (Z.eqb_eq _ _) S). lia.
    + specialize (IH A). destruct (slot_of l j =? s); lia.
  - intros P L F. clear A. induction (run 0 (Z.of_nat (length l))) as [|k r IH]; cbn; [exact L|].
    specialize (IH (fun x H => B x (or_intror H))). destruct (slot_of l k =? s); [|exact IH].
    destruct (Z.max_spec (f (request_at l k)) (fold_right (fun k most => if slot_of l k =? s then Z.max (f (request_at l k)) most else most) least r)) as [[_ ->]|[_ ->]];
      [exact IH | apply F, B; left; reflexivity].
Qed.

Lemma planned_turns : SlotsTakeTurns p.
Proof.
  intros k m K M N E. cbn in *. split; [|reflexivity]. intros n Lk Lm. destruct asked as (C & _).
  destruct (linear_scan_spec _ _ C) as (_ & T & _). unfold is_storage in K, M. cbn in K, M.
  destruct (slot_chosen k K) as (x & X & -> & S & _). destruct (slot_chosen m M) as (y & Y & -> & S' & _).
  rewrite E in S. unfold lives_at in Lk, Lm. cbn in Lk, Lm.
  apply (T (Z.to_nat k) (Z.to_nat m) _ _ _ X Y ltac:(lia) S S' n); unfold alive; apply andb_true_intro; split; apply Z.leb_le; lia.
Qed.

Lemma planned_alignment s : PowerOfTwo (largest l alignment_of (least_alignment space) s).
Proof.
  destruct asked as (_ & R & B & _). apply largest_spec; [apply B|]. intros k K. apply R, request_in, K.
Qed.

Lemma planned_fits : StoragesFitSlots p.
Proof.
  intros k K. unfold is_storage in K. cbn in *. destruct (slot_chosen k K) as (_ & _ & _ & _ & S).
  destruct (largest_spec room_of 1 (slot_of l k)) as (_ & Z1 & _).
  destruct (largest_spec alignment_of (least_alignment space) (slot_of l k)) as (A1 & A2 & _).
  repeat split; try lia; auto using planned_alignment.
Qed.

Lemma planned_shape : ShapeFits p (fun k => room_of (request_at l k)) (fun s => k_bytes (slot_at p s)).
Proof.
  split.
  - intros s S. destruct (largest_spec room_of 1 s) as (L & _). cbn. lia.
  - intros k K. destruct (planned_fits k K) as (_ & _ & B & _). unfold is_storage in K. cbn in *.
    destruct asked as (_ & R & _). pose proof (R _ (request_in k K)). lia.
Qed.

Lemma planned_slots_aligned s : 0 <= s < slots p -> 1 <= k_alignment (slot_at p s).
Proof. intros _. apply power_positive. apply planned_alignment. Qed.

Lemma planned_offset s : 0 <= s < slots p ->
  0 <= offset_of l last space s /\ (k_alignment (slot_at p s) | offset_of l last space s).
Proof.
  intros S. destruct (slot_offset p planned_slots_aligned _ _ planned_shape s S) as [[L _] D]. auto.
Qed.

Lemma planned_sums : PrefixSums p.
Proof. intros k K. destruct asked as (_ & _ & _ & Sc & _). split; [reflexivity | exact Sc]. Qed.

Lemma comes_within from m : comes_by_birth from m -> forall x, In x m -> from <= born x <= dies x.
Proof.
  revert from. induction m as [|y m IH]; intros from C x I; [destruct I|]. destruct C as [H C].
  destruct I as [->|I]; [exact H|]. specialize (IH _ C x I). lia.
Qed.

Lemma slots_end s : 0 <= s < slots p -> offset_of l last space s + k_bytes (slot_at p s) <= footprint_of l last space.
Proof.
  intros S. unfold footprint_of. assert (I : In s (run 0 (slots p))) by (apply run_spec; lia). cbn in *.
  induction (run 0 (Z.of_nat (slots_opened lives))) as [|t r IH]; [destruct I|]. cbn in *.
  destruct I as [->|I]; [lia|]. specialize (IH I). lia.
Qed.

Lemma planned_well : WellPlaced p.
Proof.
  intros k K. destruct (planned_fits k K) as (S & _ & B & P & A & A'). destruct (planned_offset _ S) as [O D].
  destruct asked as (C & R & [Pb _] & Sc & Cap & Fits). pose proof (slots_end _ S). unfold is_storage in K. cbn in K.
  destruct (R _ (request_in k K)) as (Z & [Pa _] & E). pose proof (comes_within _ _ C (of_life (request_at l k))
    ltac:(apply in_map, request_in; exact K)) as Bd. cbv zeta. cbn in *. unfold last_step, limit. cbn. rewrite Sc.
  repeat split; try lia; auto.
  - apply Z.divide_trans with (2 := D). apply power_divides; auto.
  - apply Z.divide_trans with (2 := D). apply power_divides; auto.
Qed.

Lemma planned_is_safe : SafeMemory p.
Proof.
  destruct (safe_at_shape p planned_turns planned_fits planned_well planned_sums planned_slots_aligned _ _ planned_shape)
    as (N & _ & _).
  split; [exact N|]. split; [intros k m _ _ _ H; discriminate H|]. split; [exact planned_well | intros k m []].
Qed.
End Planned.

(** * An example: of three storages the third takes the slot of the first, which is dead *)

Definition three : list request := [Request (Life 0 1) 100 16; Request (Life 1 2) 200 64; Request (Life 2 3) 300 16].
Definition roomy : arena :=
  {| capacity := 1000; least_alignment := 128; scattered := false; footprint := 0; fullest := 0; peak := 0 |}.
Example three_are_planned : map (fun k => (slot_of three k, offset_of three 4 roomy (slot_of three k))) [0; 1; 2] =
  [(0, 0); (1, 384); (0, 0)].
Proof. reflexivity. Qed.
Example three_are_asked : Asked three 4 roomy.
Proof.
  assert (P : forall k, 0 <= k < 64 -> Alignment (2 ^ k)).
  { intros k K. split; [exists k; split; [lia | reflexivity] | apply Z.pow_lt_mono_r; lia]. }
  split; [cbn; lia|]. split; [|split; [exact (P 7 ltac:(lia))|]].
  - intros r [<-|[<-|[<-|[]]]]; (split; [cbn; lia|split; [|cbn; lia]]); [exact (P 4 ltac:(lia)) | exact (P 6 ltac:(lia)) |
      exact (P 4 ltac:(lia))].
  - split; [reflexivity|]. split; [reflexivity|]. vm_compute. discriminate.
Qed.
