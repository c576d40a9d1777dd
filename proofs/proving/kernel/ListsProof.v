(** [every] is for all rows, [run] holds the numbers between its bounds, a listed row is in its group. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** Turns a check that succeeded into the facts that it checked. *)
Ltac facts := repeat (match goal with
  | H : _ && _ = true |- _ => apply andb_prop in H; destruct H
  | H : (if ?c then _ else false) = true |- _ => destruct c eqn:?; [|discriminate H]
  | H : negb _ = true |- _ => apply negb_true_iff in H
  | H : between _ _ _ = true |- _ => unfold between in H
  | H : row _ _ = true |- _ => unfold row in H
  | H : (_ <? _) = true |- _ => apply Z.ltb_lt in H
  | H : (_ <=? _) = true |- _ => apply Z.leb_le in H
  | H : (_ =? _) = true |- _ => apply Z.eqb_eq in H
  | H : (_ =? _) = false |- _ => apply Z.eqb_neq in H
  | H : (_ <=? _) = false |- _ => apply Z.leb_gt in H
  | H : (_ <? _) = false |- _ => apply Z.ltb_ge in H
  | H : forallb _ _ = true |- _ => rewrite forallb_forall in H
  end).

Lemma every_from_spec count : forall start f, every_from count start f = true ->
  forall i, start <= i < start + Zpos count -> f i = true.
Proof.
  induction count as [q IH|q IH|]; simpl; intros start f H i Hi.
  - facts. destruct (Z.eq_dec i start) as [->|]; auto.
    destruct (Z_lt_le_dec i (start + 1 + Zpos q)); [apply (IH (start + 1) f) | apply (IH (start + 1 + Zpos q) f)];
      auto; lia.
  - facts. destruct (Z_lt_le_dec i (start + Zpos q)); [apply (IH start f) | apply (IH (start + Zpos q) f)]; auto; lia.
  - replace i with start by lia. assumption.
Qed.

Lemma every_spec count f : every count f = true -> forall i, 0 <= i < count -> f i = true.
Proof.
  unfold every. destruct count; intros H i Hi; try lia. apply (every_from_spec _ _ _ H). lia.
Qed.

Lemma run_from_spec count : forall start rest x,
  In x (run_from count start rest) <-> start <= x < start + Zpos count \/ In x rest.
Proof.
  induction count as [q IH|q IH|]; intros start rest x; cbn [run_from In]; try rewrite !IH.
  - destruct (Z.eq_dec start x); [split; auto; left; lia|].
    destruct (Z_lt_le_dec x (start + 1 + Zpos q)); intuition lia.
  - destruct (Z_lt_le_dec x (start + Zpos q)); intuition lia.
  - intuition lia.
Qed.

Lemma run_spec start stop x : In x (run start stop) <-> start <= x < stop.
Proof.
  unfold run. destruct (stop - start) eqn:E; [cbn; lia | rewrite run_from_spec; cbn; lia | cbn; lia].
Qed.

Lemma listed_spec g k place i : listed g k place i = true -> In i (group g k).
Proof.
  unfold listed, group. intros H. facts. apply in_map_iff. exists place. split; auto. apply run_spec. lia.
Qed.

Lemma mem_spec x l : mem x l = true -> In x l.
Proof. unfold mem. intros H. apply existsb_exists in H as [y [Hy E]]. apply Z.eqb_eq in E. subst. assumption. Qed.

(** A list is in order for [before] if each of its rows is before all later ones. *)
Lemma ordered_apart {A} (before : A -> A -> Prop) l : ForallOrdPairs before l ->
  forall x y, In x l -> In y l -> x = y \/ before x y \/ before y x.
Proof. intros H x y Hx Hy. destruct (ForallOrdPairs_In H x y Hx Hy) as [E|[E|E]]; auto. Qed.
