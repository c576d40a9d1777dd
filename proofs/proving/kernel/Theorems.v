(** The theorems: the consequences of the program's acceptance of a plan. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Check Safe Run Shapes Claims ListsProof Placement Accesses Soundness RunProof
  ProgressProof ShapesProof ClaimsProof Inputs InputsProof Scan ScanProof Symbolic SymbolicProof Planned
  PlannedProof Cbor PlanFile CborProof Streams StreamsProof StreamsProgressProof Races RacesProof Embeds.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** A plan that is checked is safe, and its program does in arenas what it does with private memory for every tensor. *)
Theorem checked_plans_run_as_private p : check p = true ->
  Safe p /\ (forall V, RunsAsPrivate V p) /\ (forall V, ReadsFindValues V p).
Proof. intros H. pose proof (check_sound p H). auto using runs_as_private, reads_find_values. Qed.

(** There are such runs: the caller can begin with any values, and a local program is never stuck, comes to each step of
    each choice of branches, and computes its functions. *)
Theorem checked_plans_progress p : check p = true ->
  (forall V, CallersCanBegin V p) /\ (forall V, Progress V p) /\ (forall V, FunctionsAreComputed V p).
Proof. intros H. pose proof (check_sound p H). auto using callers_can_begin, progress, functions_are_computed. Qed.

(** The same about the words of a file, which are the input of the program. *)
Theorem accepted_plans_run_as_private word : accepts word = true ->
  Safe (plan_of word) /\ (forall V, RunsAsPrivate V (plan_of word)) /\ (forall V, ReadsFindValues V (plan_of word)).
Proof. unfold accepts. intros H. facts. apply checked_plans_run_as_private. assumption. Qed.

Theorem accepted_plans_progress word : accepts word = true ->
  (forall V, CallersCanBegin V (plan_of word)) /\ (forall V, Progress V (plan_of word)) /\
  (forall V, FunctionsAreComputed V (plan_of word)).
Proof. unfold accepts. intros H. facts. apply checked_plans_progress. assumption. Qed.

(** And at every shape that gives no tensor more bytes, and shares bytes as the plan does. *)
Theorem accepted_plans_run_at_every_shape word : accepts word = true -> forall size, Shrinks (plan_of word) size ->
  let p := at_sizes (plan_of word) size in
  Safe p /\ (forall V, RunsAsPrivate V p) /\ (forall V, ReadsFindValues V p) /\
  (forall V, CallersCanBegin V p) /\ (forall V, Progress V p) /\ (forall V, FunctionsAreComputed V p).
Proof.
  unfold accepts. intros H size S. facts. pose proof (safe_at_sizes _ size (check_sound _ H) S).
  auto 7 using runs_as_private, reads_find_values, callers_can_begin, progress, functions_are_computed.
Qed.

Lemma memory_of_plan word : allocation (plan_of word) = memory_of word.
Proof. unfold plan_of, memory_of. destruct (memory_and_end word). reflexivity. Qed.

(** Lifetimes without accesses that are accepted do not overlap when they must not; nothing follows about runs. *)
Theorem accepted_lifetimes_are_safe word : accepts_lifetimes word = true -> SafeMemory (memory_of word).
Proof. unfold accepts_lifetimes. intros H. facts. apply lifetimes_sound. assumption. Qed.

Lemma memory_checked word : accepts word = true \/ accepts_lifetimes word = true -> memory_ok (memory_of word) = true.
Proof.
  unfold accepts, accepts_lifetimes, check_lifetimes. intros [H|H]; facts; auto.
  rewrite <- memory_of_plan. apply parts. assumption.
Qed.

(** Of an accepted plan the tensors that the caller keeps stay as they were, in whatever order steps run and whatever they
    store; and if the program confirms that all inputs are kept, those are all that the caller does not donate. *)
Theorem accepted_plans_keep_inputs word : accepts word = true ->
  (forall V, KeptInputsStay (plan_of word) V) /\ (accepts_inputs word = true -> AllInputsKept (plan_of word)).
Proof.
  unfold accepts, accepts_inputs. intros H. facts. split; [intros V; apply kept_inputs_stay, check_sound; assumption|].
  apply keeps_inputs_spec.
Qed.

(** The claims, each for a plan that the program accepts and whose claim it confirms. *)
Theorem claimed_slots_hold word : accepts word = true \/ accepts_lifetimes word = true -> accepts_slots word = true ->
  SlotsTakeTurns (memory_of word) /\ StoragesFitSlots (memory_of word).
Proof. intros H S. apply memory_checked in H. auto using slots_take_turns, storages_fit_slots. Qed.

Theorem no_fewer_slots word a : accepts word = true \/ accepts_lifetimes word = true -> accepts_slots word = true ->
  fewest_slots word a = true -> FewestSlots (memory_of word) a.
Proof. intros H S F. apply memory_checked in H. eapply fewest_slots_spec; eauto. Qed.

Theorem claimed_footprints_hold word : accepts_footprints word = true -> FootprintsHold (memory_of word).
Proof. apply footprints_hold. Qed.

Theorem no_smaller_footprint word a : accepts word = true \/ accepts_lifetimes word = true ->
  least_footprint word a = true -> LeastFootprint (memory_of word) a.
Proof. intros H F. apply memory_checked in H. eapply least_footprint_spec; eauto. Qed.

(** A memory whose offsets are those of its slots is as safe at every shape, with the offsets of that shape. *)
Definition SafeAtEveryShape (m : memory) : Prop := forall size room, ShapeFits m size room ->
  let p := at_shape m size room in
  NoLiveOverlap p /\ NoReuse p /\ WellPlaced p /\ (StoragesKeptApart m -> StoragesKeptApart p).
Lemma symbolic_is_safe_at_every_shape m : memory_ok m = true -> slots_ok m = true -> symbolic_ok m = true ->
  SafeAtEveryShape m.
Proof.
  intros M S Y size room F. pose proof (storages_fit_slots _ M S) as Fits.
  destruct (symbolic_spec _ Y Fits) as [P A]. pose proof (slots_take_turns _ M S) as T. cbv zeta.
  destruct (safe_at_shape _ T Fits (well_placed _ (all_placed _ M)) P A size room F) as (N & R & W).
  split; [exact N|]. split; [exact R|]. split; [exact W | apply kept_apart_at_shape; auto].
Qed.

(** So is a symbolic plan that the program accepts with its slots. *)
Theorem accepted_symbolic_plans_are_safe_at_every_shape word : accepts word = true \/ accepts_lifetimes word = true ->
  accepts_slots word = true -> accepts_symbolic word = true -> SafeAtEveryShape (memory_of word).
Proof. intros H S Y. apply symbolic_is_safe_at_every_shape; [apply memory_checked, H | exact S | exact Y]. Qed.

(** The planner's rule for slots: for all lifetimes that come by birth, storages of one slot live at no common step, and if
    there is a slot, there is a step at which no fewer storages live than there are slots. No assignment has fewer slots,
    since storages that live at one step need different ones. *)
Theorem linear_scan_is_right_and_has_no_slot_to_spare from l : comes_by_birth from l ->
  length (linear_scan l) = length l /\
  (forall i k x y s, nth_error l i = Some x -> nth_error l k = Some y -> i <> k ->
     nth_error (linear_scan l) i = Some s -> nth_error (linear_scan l) k = Some s ->
     forall t, alive t x = true -> alive t y = true -> False) /\
  (slots_opened l = O \/ exists t, (slots_opened l <= load t l)%nat).
Proof. exact (linear_scan_spec from l). Qed.

(** The planner's rules for one arena, whatever is asked of it: slots by the linear scan, offsets by prefix sums. *)
Theorem scan_and_prefix_sums_plan_safely l last base : Asked l last base ->
  let p := planned l last base in SafeMemory p /\ SlotsTakeTurns p /\ StoragesFitSlots p /\
  (slots p = 0 \/ exists t, (Z.to_nat (slots p) <= load t (map of_life l))%nat).
Proof.
  intros A. split; [apply planned_is_safe, A|]. split; [apply planned_turns, A|]. split; [apply planned_fits, A|].
  destruct A as (C & _). destruct (linear_scan_spec _ _ C) as (_ & _ & [E|(t & L)]); cbn; [left; rewrite E; reflexivity|].
  right. exists t. rewrite Nat2Z.id. exact L.
Qed.

(** * From the bytes of a plan file

    The plan [p] is what the file states, under the permissions. The evidence is no part of it. *)

Lemma lifetimes_have_no_evidence m evidence : SameMemory m (lifetimes_with_evidence m evidence).
Proof. repeat split. Qed.
Lemma plans_have_no_evidence p evidence : SamePlan p (with_evidence p evidence).
Proof. repeat split. Qed.

Lemma accepted_file_is_checked f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ check (with_evidence p evidence) = true.
Proof. unfold accepts_file. destruct (stated f permission) as [p|]; [eauto|discriminate]. Qed.

Theorem accepted_file_runs_as_private f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ let q := with_evidence p evidence in SamePlan p q /\
    Safe q /\ (forall V, RunsAsPrivate V q) /\ (forall V, ReadsFindValues V q).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|].
  split; [apply plans_have_no_evidence | apply checked_plans_run_as_private, H].
Qed.

Theorem accepted_file_progresses f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ let q := with_evidence p evidence in
    (forall V, CallersCanBegin V q) /\ (forall V, Progress V q) /\ (forall V, FunctionsAreComputed V q).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|].
  apply checked_plans_progress, H.
Qed.

Lemma stated_of_top f permission : top_of_file f = None -> stated f permission = None.
Proof. unfold stated. intros ->. reflexivity. Qed.
Lemma top_of_decoded f : decoded f = None -> top_of_file f = None.
Proof. unfold top_of_file. intros ->. reflexivity. Qed.

(** An accepted file has one reading: its bytes are the canonical encoding of what was read. *)
Theorem accepted_file_is_canonical f permission evidence : accepts_file f permission evidence = true ->
  exists i, decoded f = Some i /\ file_bytes f = encode (contents f i) /\ Ordered (contents f i).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & _). destruct (decoded f) as [i|] eqn:D.
  - exists i. split; [reflexivity|]. apply file_is_canonical, D.
  - rewrite (stated_of_top f permission (top_of_decoded f D)) in S. discriminate.
Qed.

(** At every shape that gives no tensor more bytes, and shares bytes as the plan does. *)
Theorem accepted_file_runs_at_every_shape f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ forall size, Shrinks (with_evidence p evidence) size ->
    let q := at_sizes (with_evidence p evidence) size in
    Safe q /\ (forall V, RunsAsPrivate V q) /\ (forall V, ReadsFindValues V q) /\
    (forall V, CallersCanBegin V q) /\ (forall V, Progress V q) /\ (forall V, FunctionsAreComputed V q).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|]. intros size Sh.
  pose proof (safe_at_sizes _ size (check_sound _ H) Sh).
  auto 7 using runs_as_private, reads_find_values, callers_can_begin, progress, functions_are_computed.
Qed.

(** No step stores into a kept input. If the program confirms that all inputs are kept, those are all that the caller does
    not donate. *)
Theorem accepted_file_keeps_inputs f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ let q := with_evidence p evidence in
    (forall V, KeptInputsStay q V) /\ (keeps_inputs q = true -> AllInputsKept q).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|].
  split; [intros V; apply kept_inputs_stay, check_sound, H | apply keeps_inputs_spec].
Qed.

(** A symbolic plan in a file, with its slots. Lifetimes without accesses are not symbolic: their files have no envelope. *)
Theorem accepted_symbolic_file_is_safe_at_every_shape f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ let m := allocation (with_evidence p evidence) in
    slots_ok m = true -> symbolic_ok m = true -> SafeAtEveryShape m.
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|].
  apply symbolic_is_safe_at_every_shape, parts, H.
Qed.

(** The lifetimes that a file states. *)
Theorem accepted_file_of_lifetimes_is_safe f evidence : accepts_lifetimes_file f evidence = true ->
  exists m, stated_lifetimes f = Some m /\ let q := lifetimes_with_evidence m evidence in SameMemory m q /\ SafeMemory q.
Proof.
  unfold accepts_lifetimes_file. destruct (stated_lifetimes f) as [m|]; [|discriminate]. intros H. exists m.
  split; [reflexivity|]. split; [apply lifetimes_have_no_evidence | apply lifetimes_sound, H].
Qed.

(** The claims that an accepted file makes, each if the program confirms it. *)
Definition ClaimsHold (m : memory) : Prop :=
  (slots_ok m = true -> SlotsTakeTurns m /\ StoragesFitSlots m) /\
  (footprints_ok m = true -> FootprintsHold m) /\
  forall a, (slots_ok m = true -> full m a (fullest (arena_at m a)) = true -> FewestSlots m a) /\
            (no_byte_to_spare m a (peak (arena_at m a)) = true -> LeastFootprint m a).
Lemma claims_hold m : memory_ok m = true -> ClaimsHold m.
Proof.
  intros H. split; [auto using slots_take_turns, storages_fit_slots|]. split; [apply footprints_hold|].
  intros a. split; [intros; eapply fewest_slots_spec; eauto | intros; eapply least_footprint_spec; eauto].
Qed.

Theorem claims_of_accepted_file_hold f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ ClaimsHold (with_evidence p evidence).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|].
  apply claims_hold, parts, H.
Qed.

Theorem claims_of_accepted_file_of_lifetimes_hold f evidence : accepts_lifetimes_file f evidence = true ->
  exists m, stated_lifetimes f = Some m /\ ClaimsHold (lifetimes_with_evidence m evidence).
Proof.
  unfold accepts_lifetimes_file, check_lifetimes. destruct (stated_lifetimes f) as [m|]; [|discriminate]. intros H. facts.
  exists m. split; [reflexivity|]. apply claims_hold. assumption.
Qed.

(** * Streams

    The steps of a plan may overlap in time. Happens-before [Before] orders them: it follows from streams and events. What
    the clocks and the versions of the evidence are does not matter. *)

(** For every interleaving of loads and stores, of single bytes or of more, that respects happens-before: whatever a
    step that runs, a later step or the caller reads has the bytes that private memory has. *)
Theorem checked_streams_run_as_private p q e : check_streams p q e = true ->
  Safe p /\ RaceFree p (Before q) /\ ReadsOrdered p (Before q) /\ forall V, RunsConcurrentlyAsPrivate V p (Before q).
Proof.
  intros H. apply streams_checked in H as (S & X & L & T & B & F & R). split; [exact S|]. split; [exact F|].
  split; [exact R|]. intros V. apply runs_concurrently_as_private; auto.
Qed.

(** There are such runs: the caller can begin with any values, and whatever the schedule, a program whose kernels depend
    only on what happens before them is never stuck, and can come to its end. *)
Theorem checked_streams_progress p q e : check_streams p q e = true ->
  (forall V, CallersCanBegin V p) /\ forall V, ConcurrentProgress V p (Before q).
Proof.
  intros H. apply streams_checked in H as (S & X & L & T & B & F & R). split; [auto using callers_can_begin|].
  intros V. apply concurrent_progress; auto.
Qed.

Lemma accepted_streams_checked p statement evidence : accepts_streams p statement evidence = true ->
  check_streams p (streams_of statement) (order_evidence_of p statement evidence) = true.
Proof. unfold accepts_streams. intros H. facts. assumption. Qed.

Theorem accepted_concurrent_plans_run_as_private word statement evidence :
  accepts_concurrent word statement evidence = true -> let p := plan_of word in let before := Before (streams_of statement) in
  Safe p /\ RaceFree p before /\ ReadsOrdered p before /\ forall V, RunsConcurrentlyAsPrivate V p before.
Proof.
  unfold accepts_concurrent. intros H. facts.
  eapply checked_streams_run_as_private, accepted_streams_checked; eassumption.
Qed.

Theorem accepted_concurrent_plans_progress word statement evidence :
  accepts_concurrent word statement evidence = true -> let p := plan_of word in let before := Before (streams_of statement) in
  (forall V, CallersCanBegin V p) /\ forall V, ConcurrentProgress V p before.
Proof.
  unfold accepts_concurrent. intros H. facts. eapply checked_streams_progress, accepted_streams_checked; eassumption.
Qed.

(** Steps one after another are the special case of one stream: the theorem about schedules has the theorem about the
    order of steps as a consequence. *)
Theorem steps_in_order_are_one_stream p : check p = true -> straight p = true -> forall V, RunsAsPrivate V p.
Proof.
  unfold straight. intros C H V. pose proof (check_sound p C). facts. destruct (loops p) eqn:L; [|discriminate].
  apply one_stream_runs_as_private; auto.
Qed.

(** The same of the plan that a file states, if its steps run on these streams. *)
Theorem accepted_concurrent_file_runs_as_private f permission evidence statement order :
  accepts_concurrent_file f permission evidence statement order = true ->
  exists p, stated f permission = Some p /\ let q := with_evidence p evidence in let before := Before (streams_of statement) in
    SamePlan p q /\ Safe q /\ RaceFree q before /\ ReadsOrdered q before /\
    (forall V, RunsConcurrentlyAsPrivate V q before) /\ (forall V, ConcurrentProgress V q before).
Proof.
  unfold accepts_concurrent_file. destruct (stated f permission) as [p|]; [|discriminate]. intros H. exists p.
  split; [reflexivity|]. apply accepted_streams_checked in H. cbv zeta. split; [apply plans_have_no_evidence|].
  destruct (checked_streams_run_as_private _ _ _ H) as (S & F & R & Ru). destruct (checked_streams_progress _ _ _ H) as (_ & Pr).
  auto.
Qed.

Print Assumptions checked_plans_run_as_private.
Print Assumptions checked_plans_progress.
Print Assumptions accepted_plans_run_as_private.
Print Assumptions accepted_plans_progress.
Print Assumptions accepted_plans_run_at_every_shape.
Print Assumptions accepted_lifetimes_are_safe.
Print Assumptions accepted_plans_keep_inputs.
Print Assumptions claimed_slots_hold.
Print Assumptions no_fewer_slots.
Print Assumptions claimed_footprints_hold.
Print Assumptions no_smaller_footprint.
Print Assumptions accepted_symbolic_plans_are_safe_at_every_shape.
Print Assumptions linear_scan_is_right_and_has_no_slot_to_spare.
Print Assumptions scan_and_prefix_sums_plan_safely.
Print Assumptions accepted_file_runs_as_private.
Print Assumptions accepted_file_progresses.
Print Assumptions accepted_file_is_canonical.
Print Assumptions accepted_file_runs_at_every_shape.
Print Assumptions accepted_file_keeps_inputs.
Print Assumptions accepted_symbolic_file_is_safe_at_every_shape.
Print Assumptions accepted_file_of_lifetimes_is_safe.
Print Assumptions claims_of_accepted_file_hold.
Print Assumptions claims_of_accepted_file_of_lifetimes_hold.
Print Assumptions checked_streams_run_as_private.
Print Assumptions checked_streams_progress.
Print Assumptions accepted_concurrent_plans_run_as_private.
Print Assumptions accepted_concurrent_plans_progress.
Print Assumptions steps_in_order_are_one_stream.
Print Assumptions accepted_concurrent_file_runs_as_private.
