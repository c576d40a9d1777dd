(** Tensors that the caller keeps stay as they were, whatever the steps of a safe plan store. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Safe ListsProof Inputs.
Open Scope Z_scope.

Section InputsProof.
Variable p : plan.

Lemma keeps_inputs_spec : keeps_inputs p = true -> AllInputsKept p.
Proof.
  intros H i I. destruct I as (T & W & D). pose proof (every_spec _ _ H i T) as K. unfold kept_if_given in K.
  rewrite W, D in K. split; [split; auto | exact K].
Qed.

Hypothesis safe : Safe p.

Lemma step_of_writes n w : is_step p n -> step_writes p n w -> exists m, is_step p m /\ In w (writes p m).
Proof.
  intros N [W|(e & L & W)]; [exists n; auto|]. exists e. split; auto.
  destruct safe as (_ & _ & _ & _ & _ & _ & _ & _ & _ & K & _). destruct (K e n L) as (E & B & _). unfold is_step in *. lia.
Qed.

Lemma kept_is_disturbed_by_none n i y : is_step p n -> is_kept p i -> inside p i y ->
  ~ written_by p n (tensor_arena p i) (address_of p i + y).
Proof.
  intros N ((T & W & D) & R) I (w & x & S & NV & J & A & E).
  destruct safe as (_ & _ & _ & _ & C & O & _ & P & Q & _ & _ & _ & _ & Dead).
  destruct C as (_ & _ & _ & _ & _ & G & End). destruct (End i T R) as [Last _]. destruct (G i T W) as [M _].
  assert (Bound : 0 <= n <= last_step p) by (unfold is_step, last_step in *; lia).
  assert (Ne : i <> w).
  { intros ->. destruct (step_of_writes n w N S) as (m & Sm & Wm). destruct O as [_ O].
    destruct (O m w Sm Wm) as [H|[_ H]]; congruence. }
  assert (St : Stays p i n) by (unfold Stays; lia).
  destruct (Q n w i x y N S NV T Ne (or_introl St) J I (eq_sym A) (eq_sym E)) as ([H|H] & _ & Made).
  - assert (Tw : is_tensor p w).
    { destruct safe as (_ & _ & _ & _ & (F & _) & _). apply (F n w N). right. exact S. }
    assert (Hn : operand (tensor_at p w) <> -1) by (rewrite H; unfold is_tensor in T; lia).
    destruct (P w Tw Hn) as (_ & _ & _ & _ & _ & _ & _ & Ret & _). rewrite H in Ret. congruence.
  - pose proof (Dead w i H). lia.
Qed.

Theorem kept_inputs_stay V : KeptInputsStay p V.
Proof.
  intros m k i x B K I. induction B as [m|m l n k B IH [N C]]; auto.
  rewrite C; auto. apply kept_is_disturbed_by_none; auto.
Qed.
End InputsProof.
