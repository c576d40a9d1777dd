(** Edges between neighbours show that storages are disjoint (V1.12).

    Fix a step. Each storage that keeps its bytes, and has any, rests on another one or on the floor, and no two
    storages rest on the same one. The storages therefore form one column: counted from the floor, there is at most one
    storage at each height, and a higher one begins at or after the end of the lower one. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Check Safe ListsProof Placement.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Section Column.
Variables (start stop : Z -> Z) (stands_there : Z -> Prop) (ground : Z) (rests_on : Z -> Z -> Prop).
Hypothesis has_bytes : forall x, stands_there x -> 0 <= start x < stop x.
Hypothesis rests : forall y, stands_there y ->
  exists x, rests_on y x /\ (x = ground \/ stands_there x /\ stop x <= start y).
Hypothesis carries_one : forall x y z, rests_on y x -> rests_on z x -> y = z.

Fixpoint height (m : nat) (y : Z) : Prop :=
  match m with
  | O => rests_on y ground
  | S m' => exists x, height m' x /\ rests_on y x /\ stands_there x /\ stop x <= start y
  end.

Lemma has_height y : stands_there y -> exists m, height m y.
Proof.
  assert (G : forall k, 0 <= k -> forall y, start y < k -> stands_there y -> exists m, height m y).
  { intros k Hk. pattern k. apply natlike_ind; auto.
    - intros z Z Sz. apply has_bytes in Sz. lia.
    - intros j Hj IH z Z Sz. destruct (rests z Sz) as (x & R & [->|[Sx L]]); [exists O; exact R|].
      destruct (IH x) as [m Hm]; auto; [pose proof (has_bytes x Sx); lia|]. exists (S m), x. auto. }
  intros Sy. apply (G (start y + 1)); auto; [pose proof (has_bytes y Sy)|]; lia.
Qed.

Lemma one_at_each_height m : forall x y, height m x -> height m y -> x = y.
Proof.
  induction m as [|m IH]; cbn; intros x y Hx Hy; [eapply carries_one; eauto|].
  destruct Hx as (x' & Hx & Rx & _), Hy as (y' & Hy & Ry & _). assert (x' = y') by auto. subst.
  eapply carries_one; eauto.
Qed.

Lemma higher m : forall x y k, height k x -> height m y -> (k < m)%nat -> stands_there x -> stop x <= start y.
Proof.
  induction m as [|m IH]; intros x y k Hx Hy L Sx; [lia|]. destruct Hy as (z & Hz & _ & Sz & Ez).
  destruct (PeanoNat.Nat.eq_dec k m) as [->|N].
  - assert (x = z) by (eapply one_at_each_height; eauto). subst. assumption.
  - assert (stop x <= start z) by (apply (IH x z k); auto; lia). pose proof (has_bytes z Sz). lia.
Qed.

Lemma apart_in_column x y : stands_there x -> stands_there y -> x <> y -> stop x <= start y \/ stop y <= start x.
Proof.
  intros Sx Sy N. destruct (has_height x Sx) as [k Hk], (has_height y Sy) as [m Hm].
  destruct (PeanoNat.Nat.lt_total k m) as [L|[->|L]].
  - left. eapply higher; eauto.
  - destruct N. eapply one_at_each_height; eauto.
  - right. eapply higher; eauto.
Qed.
End Column.

Section Edges.
Variable p : memory.
Hypothesis all_placed : every (storages p) (placed p) = true.
Hypothesis all_stand : every (storages p) (stands p) = true.
Hypothesis all_carry_one : every (storages p + arenas p) (one_above p) = true.

Lemma tile_spec k y l : forall from, tile p k y from l = true -> forall n, from <= n <= until p y ->
  exists e, above (edge_at p e) = k /\ first (edge_at p e) <= n <= last (edge_at p e) /\ leads_up p y e = true.
Proof.
  induction l as [|e l IH]; cbn; intros from H n Hn; facts; [lia|].
  destruct (Z_le_gt_dec n (last (edge_at p e))); [|eapply IH; eauto; lia].
  exists e. repeat split; auto; lia.
Qed.

Lemma at_a_time_spec l : forall ended, one_at_a_time p ended l = true ->
  Forall (fun e => ended < first (edge_at p e) <= last (edge_at p e)) l /\
  ForallOrdPairs (fun e f => last (edge_at p e) < first (edge_at p f)) l.
Proof.
  induction l as [|e l IH]; intros ended H; cbn in *; [repeat constructor|].
  facts. destruct (IH (last (edge_at p e))) as [I1 I2]; auto. split; constructor; auto.
  - eapply Forall_impl; [|apply I1]. cbn. lia.
  - eapply Forall_impl; [|apply I1]. cbn. lia.
Qed.

(** At step [n], storage [y] rests on [x]. *)
Definition rests (n y x : Z) : Prop :=
  0 <= x < storages p + arenas p /\
  exists e, In e (run (ups_at p x) (ups_at p (x + 1))) /\ above (edge_at p e) = y /\
            first (edge_at p e) <= n <= last (edge_at p e).

Lemma rests_alone n x y z : rests n y x -> rests n z x -> y = z.
Proof.
  intros (B & e & Ie & <- & Le) (_ & f & If & <- & Lf).
  apply (every_spec _ _ all_carry_one), at_a_time_spec in B as [_ O].
  destruct (ordered_apart _ _ O e f Ie If) as [->|[?|?]]; auto; lia.
Qed.

Lemma disjoint_by_edges : KeptDisjoint p.
Proof.
  intros k l n Hk Hl N Lk Ll E x Ck Cl.
  set (there := fun y => is_storage p y /\ arena_of p y = arena_of p k /\ keeps p y n /\
                         1 <= s_bytes (storage_at p y)).
  destruct (apart_in_column (fun y => s_offset (storage_at p y))
      (fun y => s_offset (storage_at p y) + s_bytes (storage_at p y)) there (floor p (arena_of p k)) (rests n))
    with (x := k) (y := l) as [A|A]; auto.
  - intros y (Sy & _ & _ & By). pose proof (storage_lives p all_placed y Sy). lia.
  - intros y (Sy & Ay & Ly & By). pose proof (storage_lives p all_placed y Sy) as W.
    pose proof (every_spec _ _ all_stand y Sy) as T. unfold stands in T. apply orb_prop in T as [T|T]; [facts; lia|].
    destruct (tile_spec _ _ _ _ T n Ly) as (e & U & F & R). unfold leads_up in R. facts.
    exists (below (edge_at p e)). destruct (below (edge_at p e) =? floor p (s_arena (storage_at p y))) eqn:G; facts.
    + rewrite G in *. unfold arena_of, is_storage in *. split; [|left; congruence].
      split; [unfold floor in *; rewrite ?Ay in *; lia|]. exists e. rewrite run_spec. repeat split; auto; lia.
    + unfold is_storage in *. unfold arena_of in *. split; [|right; split].
      * split; [lia|]. exists e. rewrite run_spec. repeat split; auto; lia.
      * unfold there, is_storage, keeps, arena_of. repeat split; try lia; congruence.
      * lia.
  - intros; eapply rests_alone; eauto.
  - unfold there. repeat split; auto; unfold is_storage, has_byte, keeps in *; lia.
  - unfold there. repeat split; auto; unfold is_storage, has_byte, keeps in *; lia.
  - unfold has_byte in *. lia.
  - unfold has_byte in *. lia.
Qed.
End Edges.
