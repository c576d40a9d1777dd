(** The theorem: what the program's yes means. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Check Safe Run ListsProof Accesses Soundness RunProof Claims.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** A plan that is checked is safe, and runs in its arenas as if every tensor had memory of its own. *)
Theorem checked_plans_run_as_private p : check p = true ->
  Safe p /\ (forall V, RunsAsPrivate V p) /\ (forall V, ReadsFindValues V p).
Proof. intros H. pose proof (check_sound p H). auto using runs_as_private, reads_find_values. Qed.

(** The same of the words of a file, which is what the program is given. *)
Theorem accepted_plans_run_as_private word : accepts word = true ->
  Safe (plan_of word) /\ (forall V, RunsAsPrivate V (plan_of word)) /\ (forall V, ReadsFindValues V (plan_of word)).
Proof. unfold accepts. intros H. facts. apply checked_plans_run_as_private. assumption. Qed.

(** The claims, where the program says that they hold. *)
Theorem no_fewer_slots word a : accepts word = true -> fewest_slots word a = true -> FewestSlots (plan_of word) a.
Proof.
  unfold accepts, fewest_slots. intros H F. facts. eapply fewest_slots_spec; [apply all_placed | exact F]. assumption.
Qed.

Theorem no_smaller_footprint word a : accepts word = true -> least_footprint word a = true ->
  LeastFootprint (plan_of word) a.
Proof.
  unfold accepts, least_footprint. intros H F. facts. eapply least_footprint_spec; [apply all_placed | exact F].
  assumption.
Qed.

Print Assumptions checked_plans_run_as_private.
Print Assumptions accepted_plans_run_as_private.
Print Assumptions no_fewer_slots.
Print Assumptions no_smaller_footprint.
