(** The theorems: the consequences of the program's acceptance of a plan. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Check Safe Run Claims ListsProof Placement Accesses Soundness RunProof ProgressProof
  ClaimsProof Inputs InputsProof.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** A plan that is checked is safe, and runs in its arenas as if every tensor had private memory. *)
Theorem checked_plans_run_as_private p : check p = true ->
  Safe p /\ (forall V, RunsAsPrivate V p) /\ (forall V, ReadsFindValues V p).
Proof. intros H. pose proof (check_sound p H). auto using runs_as_private, reads_find_values. Qed.

(** There are such runs: a local program is never stuck, comes to each step of each choice of branches, and computes its
    functions. *)
Theorem checked_plans_progress p : check p = true ->
  (forall V, Progress V p) /\ (forall V, FunctionsAreComputed V p).
Proof. intros H. pose proof (check_sound p H). auto using progress, functions_are_computed. Qed.

(** The same about the words of a file, which are the input of the program. *)
Theorem accepted_plans_run_as_private word : accepts word = true ->
  Safe (plan_of word) /\ (forall V, RunsAsPrivate V (plan_of word)) /\ (forall V, ReadsFindValues V (plan_of word)).
Proof. unfold accepts. intros H. facts. apply checked_plans_run_as_private. assumption. Qed.

Theorem accepted_plans_progress word : accepts word = true ->
  (forall V, Progress V (plan_of word)) /\ (forall V, FunctionsAreComputed V (plan_of word)).
Proof. unfold accepts. intros H. facts. apply checked_plans_progress. assumption. Qed.

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

Print Assumptions checked_plans_run_as_private.
Print Assumptions checked_plans_progress.
Print Assumptions accepted_plans_run_as_private.
Print Assumptions accepted_plans_progress.
Print Assumptions accepted_lifetimes_are_safe.
Print Assumptions accepted_plans_keep_inputs.
Print Assumptions claimed_slots_hold.
Print Assumptions no_fewer_slots.
Print Assumptions claimed_footprints_hold.
Print Assumptions no_smaller_footprint.
