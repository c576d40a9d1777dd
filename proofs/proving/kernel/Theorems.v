(** The theorems: the consequences of the program's acceptance of a plan. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Check Safe Run Shapes Claims ListsProof Placement Accesses Soundness RunProof
  ProgressProof ShapesProof ClaimsProof Inputs InputsProof Arrivals ArrivalsProof Scan ScanProof Symbolic SymbolicProof Planned
  PlannedProof PlannedChecked Cbor PlanFile CborProof Evidence EvidenceProof SymbolicRunsProof Sets SetsProof SetFile
  SetFileProof Streams StreamsProof StreamsProgressProof Races RacesProof Embeds.
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

(** An input may arrive late, at a step of an accepted plan that writes it: whatever the caller writes there, the program
    keeps to its law, and does in arenas what it does with private memory. *)
Theorem accepted_plans_let_inputs_arrive word : accepts word = true ->
  forall V, InputsMayArrive V (plan_of word) /\ RunsAsPrivate V (plan_of word).
Proof. intros H V. split; [apply inputs_may_arrive | apply (accepted_plans_run_as_private word H)]. Qed.

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
  destruct (symbolic_spec _ Y Fits) as [P A'].
  assert (A : forall s, 0 <= s < slots m -> 1 <= k_alignment (slot_at m s)) by (intros s H; apply A'; exact H).
  pose proof (slots_take_turns _ M S) as T. cbv zeta.
  destruct (safe_at_shape _ T Fits (well_placed _ (all_placed _ M)) P A size room F) as (N & R & W).
  split; [exact N|]. split; [exact R|]. split; [exact W | apply kept_apart_at_shape; auto].
Qed.

(** So is a symbolic plan that the program accepts with its slots. *)
Theorem accepted_symbolic_plans_are_safe_at_every_shape word : accepts word = true \/ accepts_lifetimes word = true ->
  accepts_slots word = true -> accepts_symbolic word = true -> SafeAtEveryShape (memory_of word).
Proof. intros H S Y. apply symbolic_is_safe_at_every_shape; [apply memory_checked, H | exact S | exact Y]. Qed.

(** And its runs are as private memory, with the offsets of each shape that gives no tensor more bytes and shares bytes as
    the plan does. *)
Lemma checked_symbolic_plan_is_safe p size : check p = true -> slots_ok p = true -> symbolic_ok p = true ->
  Shrinks p size -> Safe (plan_at_shape p size).
Proof.
  intros C O Y S. pose proof (proj1 (parts p C)) as M. pose proof (storages_fit_slots _ M O) as F.
  destruct (symbolic_spec _ Y F) as [P A]. apply safe_plan_at_shape; auto using check_sound, slots_take_turns.
Qed.
Theorem accepted_symbolic_plans_run_at_every_shape word : accepts word = true ->
  accepts_slots word = true -> accepts_symbolic word = true -> forall size, Shrinks (plan_of word) size ->
  let p := plan_at_shape (plan_of word) size in
  Safe p /\ (forall V, RunsAsPrivate V p) /\ (forall V, ReadsFindValues V p) /\
  (forall V, CallersCanBegin V p) /\ (forall V, Progress V p) /\ (forall V, FunctionsAreComputed V p).
Proof.
  unfold accepts, accepts_slots, accepts_symbolic. rewrite <- memory_of_plan. intros H O Y size S. facts.
  assert (Safe (plan_at_shape (plan_of word) size)) by (apply checked_symbolic_plan_is_safe; assumption).
  auto 7 using runs_as_private, reads_find_values, callers_can_begin, progress, functions_are_computed.
Qed.

(** The caller's tensors stay at every shape as well, also with the offsets that a symbolic plan has there. *)
Theorem accepted_plans_keep_inputs_at_every_shape word : accepts word = true -> forall size, Shrinks (plan_of word) size ->
  let kept q := (forall V, KeptInputsStay q V) /\ (accepts_inputs word = true -> AllInputsKept q) in
  kept (at_sizes (plan_of word) size) /\
  (accepts_slots word = true -> accepts_symbolic word = true -> kept (plan_at_shape (plan_of word) size)).
Proof.
  intros H size S. pose proof (proj2 (accepted_plans_keep_inputs word H)) as A.
  pose proof (proj1 (accepted_plans_run_at_every_shape word H size S)) as X.
  split; [|intros O Y; pose proof (proj1 (accepted_symbolic_plans_run_at_every_shape word H O Y size S)) as X'];
    (split; [intros V; apply kept_inputs_stay; assumption | exact A]).
Qed.

(** The planner's rule for slots: for all lifetimes that come by birth, storages of one slot live at no common step, and if
    there is a slot, there is a step at which no fewer storages live than there are slots. No assignment has fewer slots,
    since storages that live at one step need different ones. *)
Theorem linear_scan_is_right_and_has_no_slot_to_spare from l : comes_by_birth from l ->
  length (linear_scan l) = length l /\
  (forall i k x y s, nth_error l i = Some x -> nth_error l k = Some y -> i <> k ->
     nth_error (linear_scan l) i = Some s -> nth_error (linear_scan l) k = Some s ->
     forall t, alive t x = true -> alive t y = true -> False) /\
  (slots_opened l = O \/ exists t, In t (map born l) /\ (slots_opened l <= load t l)%nat).
Proof. exact (linear_scan_spec from l). Qed.

(** The planner's rules for one arena: slots by the linear scan, offsets by prefix sums. Whatever is asked of them, the
    checker accepts the planned memory, its slots, its footprint, that no fewer slots would do, and that it is symbolic,
    with the evidence that the functions compute. *)
Theorem planned_memory_is_accepted l last space : Asked l last space -> let p := planned l last space in
  check_lifetimes p = true /\ slots_ok p = true /\ footprints_ok p = true /\
  full p 0 (fullest (arena_at p 0)) = true /\ symbolic_ok p = true.
Proof.
  intros A. split; [apply planned_lifetimes_checked, A|]. split; [apply planned_slots_ok, A|].
  split; [apply planned_footprint_ok, A|]. split; [apply planned_full, A | apply planned_symbolic_ok, A].
Qed.

(** So it has the meaning of all of these. *)
Theorem scan_and_prefix_sums_plan_safely l last space : Asked l last space ->
  let p := planned l last space in SafeMemory p /\ SlotsTakeTurns p /\ StoragesFitSlots p /\ FootprintsHold p /\
  FewestSlots p 0 /\ SafeAtEveryShape p.
Proof.
  intros A p. destruct (planned_memory_is_accepted _ _ _ A) as (L & S & F & T & Y). fold p in L, S, F, T, Y.
  assert (M : memory_ok p = true) by (apply planned_memory_ok, A). split; [apply lifetimes_sound, L|].
  split; [apply slots_take_turns; assumption|]. split; [apply storages_fit_slots; assumption|].
  split; [apply footprints_hold, F|]. split; [eapply fewest_slots_spec; eassumption|].
  apply symbolic_is_safe_at_every_shape; assumption.
Qed.

(** The same of programs without loops and branches whose tensors have a storage each: the checker accepts the plan if
    lifetimes cover what the steps read and write. *)
Theorem planned_programs_are_accepted l last space given_ returned_ reads_ :
  Asked l last space -> Covered l last space given_ returned_ reads_ ->
  check (planned_plan l last space given_ returned_ reads_) = true.
Proof. intros A C. apply planned_checked; assumption. Qed.

(** * Evidence

    Two plans that differ at most in evidence run alike. *)

Theorem evidence_has_no_say p q : bare p = bare q ->
  (Safe q -> SafeInSomeLives p) /\
  (forall V, RunsAsPrivate V q -> RunsAsPrivate V p) /\ (forall V, ReadsFindValues V q -> ReadsFindValues V p) /\
  (forall V, CallersCanBegin V q -> CallersCanBegin V p) /\ (forall V, Progress V q -> Progress V p) /\
  (forall V, FunctionsAreComputed V q -> FunctionsAreComputed V p) /\
  (forall V, KeptInputsStay q V -> KeptInputsStay p V).
Proof.
  intros E. split; [|split; [|split; [|split; [|split; [|split]]]]].
  - intros S. destruct (safe_in_lives q S) as (first & last & H). exists first, last.
    change (Safe (with_lives (bare p) first last)). rewrite E. exact H.
  - intros V H. apply (evidence_has_no_say_about_arenas V p). rewrite E. apply (evidence_has_no_say_about_arenas V q). exact H.
  - intros V H. apply (evidence_has_no_say_about_values V p). rewrite E. apply (evidence_has_no_say_about_values V q). exact H.
  - intros V H. apply (evidence_has_no_say_about_callers V p). rewrite E. apply (evidence_has_no_say_about_callers V q). exact H.
  - intros V H. apply (evidence_has_no_say_about_progress V p). rewrite E. apply (evidence_has_no_say_about_progress V q). exact H.
  - intros V H. apply (evidence_has_no_say_about_functions V p). rewrite E. apply (evidence_has_no_say_about_functions V q). exact H.
  - intros V H. apply (evidence_has_no_say_about_inputs V p). rewrite E. apply (evidence_has_no_say_about_inputs V q). exact H.
Qed.

(** * From the bytes of a plan file

    The plan [p] is what the file states, under the permissions. The evidence is no part of it. *)

Lemma accepted_file_is_checked f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ check (with_evidence p evidence) = true.
Proof. unfold accepts_file. destruct (stated f permission) as [p|]; [eauto|discriminate]. Qed.

Theorem accepted_file_runs_as_private f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\
    SafeInSomeLives p /\ (forall V, RunsAsPrivate V p) /\ (forall V, ReadsFindValues V p).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|].
  destruct (evidence_has_no_say p (with_evidence p evidence) eq_refl) as (A & B & C & _).
  apply checked_plans_run_as_private in H as (X & Y & Z). auto.
Qed.

Theorem accepted_file_progresses f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\
    (forall V, CallersCanBegin V p) /\ (forall V, Progress V p) /\ (forall V, FunctionsAreComputed V p).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|].
  destruct (evidence_has_no_say p (with_evidence p evidence) eq_refl) as (_ & _ & _ & A & B & C & _).
  apply checked_plans_progress in H as (X & Y & Z). auto.
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
  exists p, stated f permission = Some p /\ forall size, Shrinks p size ->
    let q := at_sizes p size in
    SafeInSomeLives q /\ (forall V, RunsAsPrivate V q) /\ (forall V, ReadsFindValues V q) /\
    (forall V, CallersCanBegin V q) /\ (forall V, Progress V q) /\ (forall V, FunctionsAreComputed V q).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|]. intros size Sh.
  pose proof (safe_at_sizes (with_evidence p evidence) size (check_sound _ H) Sh).
  destruct (evidence_has_no_say (at_sizes p size) (at_sizes (with_evidence p evidence) size) eq_refl)
    as (A & B & C & D & E & F & _).
  split; [apply A; assumption|]. split; [intros V; apply B, runs_as_private; assumption|].
  split; [intros V; apply C, reads_find_values; assumption|]. split; [intros V; apply D, callers_can_begin; assumption|].
  split; [intros V; apply E, progress; assumption | intros V; apply F, functions_are_computed; assumption].
Qed.

(** No step stores into a kept input. If the program confirms that all inputs are kept, those are all that the caller does
    not donate. *)
Theorem accepted_file_keeps_inputs f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\
    (forall V, KeptInputsStay p V) /\ (keeps_inputs p = true -> AllInputsKept p).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|].
  split; [|apply keeps_inputs_spec]. intros V.
  apply (evidence_has_no_say p (with_evidence p evidence) eq_refl), kept_inputs_stay, check_sound, H.
Qed.

(** A symbolic plan in a file, with its slots. Lifetimes without accesses are not symbolic: their files have no envelope. *)
Theorem accepted_symbolic_file_is_safe_at_every_shape f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ let m := allocation (with_evidence p evidence) in
    slots_ok m = true -> symbolic_ok m = true -> SafeAtEveryShape p.
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|]. intros m O Y.
  exact (symbolic_is_safe_at_every_shape m (proj1 (parts _ H)) O Y).
Qed.

Theorem accepted_symbolic_file_runs_at_every_shape f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ let m := allocation (with_evidence p evidence) in
    slots_ok m = true -> symbolic_ok m = true -> forall size, Shrinks p size ->
    let q := plan_at_shape p size in
    SafeInSomeLives q /\ (forall V, RunsAsPrivate V q) /\ (forall V, ReadsFindValues V q) /\
    (forall V, CallersCanBegin V q) /\ (forall V, Progress V q) /\ (forall V, FunctionsAreComputed V q).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|]. intros m O Y size Sh.
  pose proof (checked_symbolic_plan_is_safe (with_evidence p evidence) size H O Y Sh) as X.
  destruct (evidence_has_no_say (plan_at_shape p size) (plan_at_shape (with_evidence p evidence) size) eq_refl)
    as (A & B & C & D & E & F & _).
  split; [exact (A X)|]. split; [intros V; apply B, runs_as_private; exact X|].
  split; [intros V; apply C, reads_find_values; exact X|]. split; [intros V; apply D, callers_can_begin; exact X|].
  split; [intros V; apply E, progress; exact X | intros V; apply F, functions_are_computed; exact X].
Qed.

(** Kept inputs stay at every shape, also with the offsets that a symbolic plan has there. *)
Theorem accepted_file_keeps_inputs_at_every_shape f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ let m := allocation (with_evidence p evidence) in
    forall size, Shrinks p size ->
    let kept q := (forall V, KeptInputsStay q V) /\ (keeps_inputs p = true -> AllInputsKept q) in
    kept (at_sizes p size) /\ (slots_ok m = true -> symbolic_ok m = true -> kept (plan_at_shape p size)).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|]. intros m size Sh.
  set (c := with_evidence p evidence) in *.
  assert (K : forall q q', bare q = bare q' -> Safe q' -> forall V, KeptInputsStay q V)
    by (intros q q' E X V; apply (evidence_has_no_say q q' E), kept_inputs_stay, X).
  split.
  - split; [|exact (keeps_inputs_spec p)].
    exact (K (at_sizes p size) (at_sizes c size) eq_refl (safe_at_sizes _ size (check_sound _ H) Sh)).
  - intros O Y. split; [|exact (keeps_inputs_spec p)].
    exact (K (plan_at_shape p size) (plan_at_shape c size) eq_refl (checked_symbolic_plan_is_safe c size H O Y Sh)).
Qed.

(** The lifetimes that a file states. It does not state how many steps there are. *)
Theorem accepted_file_of_lifetimes_is_safe f evidence : accepts_lifetimes_file f evidence = true ->
  exists m, stated_lifetimes f = Some m /\ SafeInSomeSteps m.
Proof.
  unfold accepts_lifetimes_file. destruct (stated_lifetimes f) as [m|]; [|discriminate]. intros H. exists m.
  split; [reflexivity|]. exists (evidence 4). exact (lifetimes_sound (lifetimes_with_evidence m evidence) H).
Qed.

(** The claims that an accepted file makes, each if the program confirms it with this evidence. *)
Definition ClaimsHold (m checked : memory) : Prop :=
  (slots_ok checked = true -> SlotsTakeTurns m /\ StoragesFitSlots m) /\
  (footprints_ok checked = true -> FootprintsHold m) /\
  forall a, (slots_ok checked = true -> full checked a (fullest (arena_at m a)) = true -> FewestSlots m a) /\
            (no_byte_to_spare checked a (peak (arena_at m a)) = true -> LeastFootprint m a).
Lemma claims_hold m : memory_ok m = true -> ClaimsHold m m.
Proof.
  intros H. split; [auto using slots_take_turns, storages_fit_slots|]. split; [apply footprints_hold|].
  intros a. split; [intros; eapply fewest_slots_spec; eauto | intros; eapply least_footprint_spec; eauto].
Qed.

Theorem claims_of_accepted_file_hold f permission evidence : accepts_file f permission evidence = true ->
  exists p, stated f permission = Some p /\ ClaimsHold p (with_evidence p evidence).
Proof.
  intros H. apply accepted_file_is_checked in H as (p & S & H). exists p. split; [exact S|].
  exact (claims_hold _ (proj1 (parts _ H))).
Qed.

Theorem claims_of_accepted_file_of_lifetimes_hold f evidence : accepts_lifetimes_file f evidence = true ->
  exists m, stated_lifetimes f = Some m /\ ClaimsHold m (lifetimes_with_evidence m evidence).
Proof.
  unfold accepts_lifetimes_file, check_lifetimes. destruct (stated_lifetimes f) as [m|]; [|discriminate]. intros H. facts.
  exists m. split; [reflexivity|]. apply (claims_hold (lifetimes_with_evidence m evidence)). assumption.
Qed.

(** * Plan sets

    Programs of a set that is accepted run in turn as in private memory, in which what is kept has its value by its
    name: after any events, a call does in arenas what it does in private memory, and leaves every kept tensor there with
    the value that it has in private memory. A weight changes only if the caller writes it. A call finds all bytes of what it
    finds, if all calls before it are whole, and each finds only what is initial or what an earlier one leaves. Every program
    has calls after which it can be called so. With one program, these are the runs of one plan again and again. *)
Theorem accepted_sets_run_as_private s : accepts_set s = true ->
  (forall c, is_program s c ->
     Safe (plan_at s c) /\ forall V, ReadsFindValues V (plan_at s c) /\ Progress V (plan_at s c)) /\
  (forall V, RunInTurn s V) /\ EveryProgramHasItsTurn s.
Proof.
  intros H. split; [|auto using run_in_turn, every_program_has_its_turn].
  intros c C. pose proof (member_safe s H c C). auto using reads_find_values, progress.
Qed.

(** The same about the files of the programs, the readers' words and the agreement. *)
Theorem accepted_set_files_run_as_private l word : accepts_set_files l word = true ->
  exists s, stated_set l word = Some s /\ SetOfFiles l s /\
    (forall c, is_program s c -> Safe (plan_at s c)) /\ (forall V, RunInTurn s V) /\ EveryProgramHasItsTurn s.
Proof.
  unfold accepts_set_files. destruct (stated_set l word) as [s|] eqn:S; [|discriminate]. intros H. exists s.
  split; [reflexivity|]. split; [apply (stated_set_is_of_files l word s S)|].
  destruct (accepted_sets_run_as_private s H) as (M & R & T). split; [intros c C; apply M, C | auto].
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

(** The same of the plan that a file states, if its steps run on these streams. The evidence is no part of it. *)
Theorem accepted_concurrent_file_runs_as_private f permission evidence statement order :
  accepts_concurrent_file f permission evidence statement order = true ->
  exists p, stated f permission = Some p /\ let before := Before (streams_of statement) in
    SafeInSomeLives p /\ RaceFree p before /\ ReadsOrdered p before /\
    (forall V, RunsConcurrentlyAsPrivate V p before) /\
    (forall V, CallersCanBegin V p) /\ (forall V, ConcurrentProgress V p before).
Proof.
  unfold accepts_concurrent_file. destruct (stated f permission) as [p|]; [|discriminate]. intros H. exists p.
  split; [reflexivity|]. apply accepted_streams_checked in H. cbv zeta.
  destruct (evidence_has_no_say p (with_evidence p evidence) eq_refl) as (A & _ & _ & B & _).
  destruct (checked_streams_run_as_private _ _ _ H) as (S & F & O & Ru). destruct (checked_streams_progress _ _ _ H) as (C & Pr).
  split; [apply A, S|]. split; [exact F|]. split; [exact O|]. split; [intros V; exact (Ru V)|].
  split; [intros V; apply B, C|]. intros V. apply evidence_has_no_say_about_their_progress.
  apply (evidence_has_no_say_about_their_progress V (with_evidence p evidence)), Pr.
Qed.

(** Such a file is accepted for its steps in the order of its rows too, so that the theorems about kept inputs and claims
    are about it as well. *)
Theorem accepted_concurrent_file_is_accepted f permission evidence statement order :
  accepts_concurrent_file f permission evidence statement order = true -> accepts_file f permission evidence = true.
Proof.
  unfold accepts_concurrent_file, accepts_file. destruct (stated f permission) as [p|]; [|discriminate]. intros H.
  apply accepted_streams_checked in H. unfold check_streams in H. facts. reflexivity.
Qed.

Print Assumptions checked_plans_run_as_private.
Print Assumptions checked_plans_progress.
Print Assumptions accepted_plans_run_as_private.
Print Assumptions accepted_plans_progress.
Print Assumptions accepted_plans_run_at_every_shape.
Print Assumptions accepted_lifetimes_are_safe.
Print Assumptions accepted_plans_let_inputs_arrive.
Print Assumptions accepted_plans_keep_inputs.
Print Assumptions claimed_slots_hold.
Print Assumptions no_fewer_slots.
Print Assumptions claimed_footprints_hold.
Print Assumptions no_smaller_footprint.
Print Assumptions accepted_symbolic_plans_are_safe_at_every_shape.
Print Assumptions accepted_symbolic_plans_run_at_every_shape.
Print Assumptions accepted_plans_keep_inputs_at_every_shape.
Print Assumptions linear_scan_is_right_and_has_no_slot_to_spare.
Print Assumptions planned_memory_is_accepted.
Print Assumptions scan_and_prefix_sums_plan_safely.
Print Assumptions planned_programs_are_accepted.
Print Assumptions evidence_has_no_say.
Print Assumptions accepted_file_runs_as_private.
Print Assumptions accepted_file_progresses.
Print Assumptions accepted_file_is_canonical.
Print Assumptions accepted_file_runs_at_every_shape.
Print Assumptions accepted_file_keeps_inputs.
Print Assumptions accepted_symbolic_file_is_safe_at_every_shape.
Print Assumptions accepted_symbolic_file_runs_at_every_shape.
Print Assumptions accepted_file_keeps_inputs_at_every_shape.
Print Assumptions accepted_file_of_lifetimes_is_safe.
Print Assumptions claims_of_accepted_file_hold.
Print Assumptions claims_of_accepted_file_of_lifetimes_hold.
Print Assumptions accepted_sets_run_as_private.
Print Assumptions accepted_set_files_run_as_private.
Print Assumptions checked_streams_run_as_private.
Print Assumptions checked_streams_progress.
Print Assumptions accepted_concurrent_plans_run_as_private.
Print Assumptions accepted_concurrent_plans_progress.
Print Assumptions steps_in_order_are_one_stream.
Print Assumptions accepted_concurrent_file_runs_as_private.
Print Assumptions accepted_concurrent_file_is_accepted.
