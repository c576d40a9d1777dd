(** A plan that is safe at the largest sizes is safe at all smaller ones. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Safe Shapes.
Open Scope Z_scope.

Section ShapesProof.
Variables (p : plan) (size : Z -> Z).
Hypothesis safe : Safe p.
Hypothesis shrinks : Shrinks p size.
Local Notation q := (at_sizes p size).

Lemma inside_smaller i x : is_tensor p i -> inside q i x -> inside p i x.
Proof. intros H. destruct shrinks as (S & _). specialize (S i H). unfold inside. cbn. lia. Qed.

(** What is written in each branch does not depend on sizes. *)
Fixpoint same_arms i x (W : ArmsWrite p i x) {struct W} : ArmsWrite q i x :=
  match W in ArmsWrite _ _ y return ArmsWrite q i y with
  | each _ _ y Y All => each q i y Y (fun a A => same_arm i a (All a A))
  end
with same_arm i a (W : ArmWrites p i a) {struct W} : ArmWrites q i a :=
  match W in ArmWrites _ _ b return ArmWrites q i b with
  | by_step _ _ b z D Wz => by_step q i b z D Wz
  | by_node _ _ b y D Y => by_node q i b y D (same_arms i y Y)
  end.

Lemma same_written i n : WrittenBefore p i n -> WrittenBefore q i n.
Proof.
  intros [W|(x & L & C & W)]; [left; exact W|]. right. exists x. split; [exact L|]. split; [exact C|].
  apply same_arms. exact W.
Qed.

Lemma same_shown i r : Shows p i r -> Shows q i r.
Proof. induction 1 as [i N|i r V S IH]; [apply itself; exact N | apply through; [exact V | exact IH]]. Qed.

Theorem safe_at_sizes : Safe q.
Proof.
  destruct shrinks as (Sb & So & Sv).
  destruct safe as (NLO & NR & WP & TW & LC & WO & VS & IP & WD & LK & KA & CA & AN & TD).
  split; [exact NLO|]. split; [exact NR|]. split; [exact WP|]. split; [|split; [|split; [exact WO|split; [|split; [|split;
    [|split; [exact LK|split; [exact KA|split; [|split; [exact AN|exact TD]]]]]]]]]].
  - intros i H. specialize (TW i H). specialize (Sb i H). cbv zeta in *. cbn in *. unfold address_of in *. cbn in *.
    intuition lia.
  - destruct LC as (A & B & C & D & E & F & G).
    split; [exact A|]. split; [exact B|]. split; [exact C|]. split; [|split; [exact E|split; [exact F|]]].
    + intros n r N I. destruct (D n r N I) as [W|[W|W]]; [left; exact W | right; left; apply same_written; exact W |
        right; right; exact W].
    + intros i H R. destruct (G i H R) as [X [W|W]]; (split; [exact X|]); [left; exact W | right; apply same_written; exact W].
  - intros v H V. specialize (VS v H V). specialize (Sv v H V). cbv zeta in *. cbn in *.
    unfold address_of, Stays in *. cbn in *. intuition lia.
  - intros w H O. specialize (IP w H O). specialize (So w H O). cbv zeta in *. cbn in *. unfold address_of in *. cbn in *.
    intuition.
  - intros n w i x y N W V I D S X Y A E. destruct LC as (T & _).
    assert (Tw : is_tensor p w) by (apply (T n w N); right; exact W).
    refine (WD n w i x y N W V I D S _ _ A E); apply inside_smaller; assumption.
  - intros i j x y I J N Wi Wj X Y A E. destruct (CA i j x y I J N Wi Wj) as (r & Si & Sj); auto using inside_smaller.
    exists r. auto using same_shown.
Qed.
End ShapesProof.

