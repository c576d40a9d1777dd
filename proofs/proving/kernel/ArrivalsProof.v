(** The caller may write an input at any step that the plan lets write it. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Safe Run Arrivals.
Open Scope Z_scope.

Section ArrivalsProof.
Variable V : Type.
Variable p : plan.

Lemma chosen_inside i content x : chosen V (arrival V p i content) x = true <-> inside p i x.
Proof. unfold arrival, inside. simpl. rewrite andb_true_iff, Z.leb_le, Z.ltb_lt. tauto. Qed.

Theorem inputs_may_arrive : InputsMayArrive V p.
Proof.
  intros n i content d u N W F w. split.
  - split; [exact N|]. split; [left; exact W|]. split; [exact F|]. split; [|reflexivity].
    intros x C. apply chosen_inside in C. exact C.
  - intros x I. apply (proj2 (chosen_inside i content x)) in I. split.
    + left. split; [reflexivity | exact I].
    + unfold store_own. rewrite (Z.eqb_refl i : (i =? result V w) = true). fold w in I. rewrite I. reflexivity.
Qed.
End ArrivalsProof.
