(** For all lifetimes that come by birth, the storages of a slot of [Scan.linear_scan] take turns, and at some step as
    many storages live as there are slots. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Scan.
Import ListNotations.
Open Scope Z_scope.

(** * Slots *)

Lemma free_or_new b ends :
  (exists e, nth_error ends (first_free b ends) = Some e /\ e < b) \/
  (first_free b ends = length ends /\ Forall (fun e => b <= e) ends).
Proof.
  induction ends as [|e ends IH]; cbn; [right; auto|]. destruct (Z.ltb_spec e b) as [L|L]; [left; exists e; auto|].
  destruct IH as [(e' & N & L')|[N F]]; [left; exists e'; auto|right; auto].
Qed.

Lemma occupied_here j d ends : (j <= length ends)%nat -> nth_error (occupy j d ends) j = Some d.
Proof. revert j. induction ends as [|e ends IH]; intros [|j] H; cbn in *; auto; try lia. apply IH. lia. Qed.
Lemma occupied_elsewhere j k d ends : (j <= length ends)%nat -> k <> j -> nth_error (occupy j d ends) k = nth_error ends k.
Proof.
  revert j k. induction ends as [|e ends IH]; intros [|j] [|k] H N; cbn in *; auto; try lia.
  - destruct k; reflexivity.
  - apply IH; lia.
Qed.
Lemma occupied_length j d ends : (j <= length ends)%nat ->
  length (occupy j d ends) = if (j =? length ends)%nat then S (length ends) else length ends.
Proof.
  revert j. induction ends as [|e ends IH]; intros [|j] H; cbn in *; auto; try lia.
  rewrite IH by lia. destruct (j =? length ends)%nat; reflexivity.
Qed.

(** * What holds of the storages that have come: [given] has each with its slot *)

Definition given := list (life * nat).
Definition TakeTurns (g : given) : Prop := ForallOrdPairs (fun a b => snd a = snd b -> dies (fst a) < born (fst b)) g.
(** Each slot ends with a tenant that has come, and no other of its tenants ends later. *)
Definition Ends (g : given) (ends : list Z) : Prop :=
  (forall j e, nth_error ends j = Some e -> exists x, In (x, j) g /\ dies x = e) /\
  (forall x j, In (x, j) g -> exists e, nth_error ends j = Some e /\ dies x <= e).
Definition Enough (g : given) (ends : list Z) : Prop :=
  ends = [] \/ exists t, In t (map born (map fst g)) /\ (length ends <= load t (map fst g))%nat.

Lemma load_app t l m : load t (l ++ m) = (load t l + load t m)%nat.
Proof. unfold load. rewrite filter_app, app_length. reflexivity. Qed.

Lemma filter_fst t (g : given) : length (filter (fun a => alive t (fst a)) g) = load t (map fst g).
Proof. unfold load. induction g as [|a g IH]; cbn; auto. destruct (alive t (fst a)); cbn; congruence. Qed.

(** If no slot is free at [b], its last tenant lives then; the tenants of different slots are different. *)
Lemma all_slots_live g ends b : Ends g ends -> Forall (fun e => b <= e) ends -> (forall a, In a g -> born (fst a) <= b) ->
  (length ends <= load b (map fst g))%nat.
Proof.
  intros [T _] F B. rewrite <- filter_fst, <- (seq_length (length ends) 0).
  assert (P : forall j, In j (seq 0 (length ends)) -> exists x, In (x, j) g /\ alive b x = true).
  { intros j J. apply in_seq in J. destruct (nth_error ends j) as [e|] eqn:E; [|apply nth_error_None in E; lia].
    destruct (T _ _ E) as (x & I & D). exists x. split; auto. unfold alive. specialize (B _ I). cbn in B.
    apply nth_error_In in E. rewrite Forall_forall in F. specialize (F _ E).
    apply andb_true_intro. split; apply Z.leb_le; lia. }
  clear T F B. revert P. generalize (seq_NoDup (length ends) 0). generalize (seq 0 (length ends)) as l. intros l N P.
  enough (exists h : given, map snd h = l /\ incl h (filter (fun a => alive b (fst a)) g)) as (h & <- & I).
  { rewrite map_length. apply NoDup_incl_length; auto. apply NoDup_map_inv in N. exact N. }
  clear N. induction l as [|j l IH]; [exists []; split; [reflexivity | intros ? []]|].
  destruct IH as (h & E & I); [intros k K; apply P; right; exact K|]. destruct (P j) as (x & X & A); [left; reflexivity|].
  exists ((x, j) :: h). split; [cbn; congruence|]. intros a [<-|K]; [apply filter_In; auto | apply I; exact K].
Qed.

(** The next storage takes a slot whose tenants are dead, and the slot ends with it. *)
Lemma ends_step g ends x : Ends g ends ->
  let j := first_free (born x) ends in
  (j <= length ends)%nat /\ (forall a, In a g -> snd a = j -> dies (fst a) < born x) /\
  (born x <= dies x -> Ends (g ++ [(x, j)]) (occupy j (dies x) ends)).
Proof.
  intros [T L] j.
  assert (J : (j <= length ends)%nat).
  { destruct (free_or_new (born x) ends) as [(e & N & _)|[N _]]; fold j in N; [|lia].
    apply Nat.lt_le_incl, nth_error_Some. congruence. }
  assert (Old : forall a, In a g -> snd a = j -> dies (fst a) < born x).
  { intros [y k] I K. cbn in *. subst k. destruct (L _ _ I) as (e & N & D).
    destruct (free_or_new (born x) ends) as [(e' & N' & E)|[N' _]]; fold j in N'.
    - assert (e' = e) by congruence. lia.
    - rewrite N', (proj2 (nth_error_None _ _)) in N; [discriminate | lia]. }
  split; [exact J|]. split; [exact Old|]. intros O. split.
  - intros k e K. destruct (Nat.eq_dec k j) as [->|D].
    + rewrite occupied_here in K by exact J. inversion K. subst. exists x. split; auto. apply in_or_app. right. left. auto.
    + rewrite occupied_elsewhere in K by auto. destruct (T _ _ K) as (y & I & Y). exists y. split; auto.
      apply in_or_app. auto.
  - intros y k I. apply in_app_or in I as [I|[I|[]]].
    + destruct (Nat.eq_dec k j) as [->|D].
      * exists (dies x). rewrite occupied_here by exact J. split; auto. specialize (Old _ I eq_refl). cbn in Old. lia.
      * rewrite occupied_elsewhere by auto. eauto.
    + inversion I. subst. exists (dies y). rewrite occupied_here by exact J. split; auto. lia.
Qed.

Lemma turns_step g a : TakeTurns g -> (forall b, In b g -> snd b = snd a -> dies (fst b) < born (fst a)) ->
  TakeTurns (g ++ [a]).
Proof.
  unfold TakeTurns. induction 1 as [|b g F _ IH]; intros H; cbn; [repeat constructor|]. constructor.
  - apply Forall_app. split; auto. constructor; auto. intros E. apply H; [left; reflexivity | exact E].
  - apply IH. intros c C. apply H. right. exact C.
Qed.

Lemma enough_step g ends x : Ends g ends -> Enough g ends -> (forall a, In a g -> born (fst a) <= born x) ->
  born x <= dies x -> let j := first_free (born x) ends in Enough (g ++ [(x, j)]) (occupy j (dies x) ends).
Proof.
  intros E M B O j. destruct (ends_step g ends x E) as (J & _). fold j in J. right. rewrite map_app. cbn [map fst].
  destruct (free_or_new (born x) ends) as [(e & N & _)|[N F]]; fold j in N.
  - assert (L : (j < length ends)%nat) by (apply nth_error_Some; congruence).
    destruct M as [->|(t & I & M)]; [cbn in L; lia|]. exists t. split; [rewrite map_app; apply in_or_app; auto|].
    rewrite occupied_length by exact J. destruct (Nat.eqb_spec j (length ends)); [lia|]. rewrite load_app. lia.
  - exists (born x). split; [rewrite map_app; apply in_or_app; right; left; reflexivity|].
    pose proof (all_slots_live g ends (born x) E F B) as A.
    rewrite occupied_length by exact J. destruct (Nat.eqb_spec j (length ends)); [|lia]. rewrite load_app.
    assert (R : load (born x) [x] = 1%nat); [|lia]. unfold load, alive. cbn.
    rewrite (proj2 (Z.leb_le (born x) (born x))), (proj2 (Z.leb_le (born x) (dies x))) by lia. reflexivity.
Qed.

(** * All storages *)

Lemma scan_keeps l : forall g ends from, Ends g ends -> TakeTurns g -> Enough g ends ->
  (forall a, In a g -> born (fst a) <= from) -> comes_by_birth from l ->
  let (chosen, last) := scan ends l in
  TakeTurns (g ++ combine l chosen) /\ Enough (g ++ combine l chosen) last /\ length chosen = length l.
Proof.
  induction l as [|x l IH]; intros g ends from E T M B C; cbn; [rewrite app_nil_r; auto|].
  destruct C as [[F O] C]. set (j := first_free (born x) ends).
  destruct (ends_step g ends x E) as (J & Old & E'). fold j in J, Old, E'.
  specialize (IH (g ++ [(x, j)]) (occupy j (dies x) ends) (born x)).
  destruct (scan (occupy j (dies x) ends) l) as [chosen last]. cbn. rewrite <- app_assoc in IH. cbn in IH.
  destruct IH as (T' & M' & N); auto.
  - apply turns_step; auto.
  - apply enough_step; auto. intros a A. specialize (B a A). lia.
  - intros a A. apply in_app_or in A as [A|[<-|[]]]; cbn; [specialize (B a A) |]; lia.
Qed.

Lemma linear_scan_spec from l : comes_by_birth from l ->
  length (linear_scan l) = length l /\
  (forall i k x y s, nth_error l i = Some x -> nth_error l k = Some y -> i <> k ->
     nth_error (linear_scan l) i = Some s -> nth_error (linear_scan l) k = Some s ->
     forall t, alive t x = true -> alive t y = true -> False) /\
  (slots_opened l = O \/ exists t, In t (map born l) /\ (slots_opened l <= load t l)%nat).
Proof.
  intros C. unfold linear_scan, slots_opened.
  pose proof (scan_keeps l [] [] from) as H. destruct (scan [] l) as [chosen last]. cbn in *. destruct H as (T & M & N).
  - split; [intros [|j] e H; discriminate | intros ? ? []].
  - constructor.
  - left. reflexivity.
  - intros ? [].
  - exact C.
  - split; [exact N|]. split.
    + assert (G : forall i k x y s, (i < k)%nat -> nth_error l i = Some x -> nth_error l k = Some y ->
        nth_error chosen i = Some s -> nth_error chosen k = Some s -> dies x < born y).
      { clear C M. revert chosen N T. induction l as [|z l IH]; intros chosen N T [|i] [|k] x y s L X Y S S';
          try lia; cbn in X, Y; try discriminate; destruct chosen as [|c chosen]; try discriminate; cbn in *;
          inversion T as [|? ? F T']; subst.
        - inversion X. inversion S. subst. rewrite Forall_forall in F. refine (F (y, s) _ eq_refl).
          clear - Y S'. revert k chosen Y S'. induction l as [|z l IH]; intros [|k] [|c chosen] Y S'; cbn in *;
            try discriminate; [left; congruence | right; eauto].
        - apply (IH chosen ltac:(congruence) T' i k x y s); auto. lia. }
      intros i k x y s X Y Ne S S' t A A'. unfold alive in *. apply andb_prop in A as [A1 A2], A' as [A3 A4].
      apply Z.leb_le in A1, A2, A3, A4.
      destruct (Nat.lt_total i k) as [Lt|[Eq|Lt]]; [pose proof (G i k x y s Lt X Y S S') | | pose proof (G k i y x s Lt Y X S' S)]; lia.
    + destruct M as [->|(t & M)]; [left; reflexivity|]. right. exists t.
      replace (map fst (combine l chosen)) with l in M; [exact M|]. clear - N. revert chosen N.
      induction l as [|x l IH]; intros [|c chosen] N; cbn in *; try discriminate; auto. rewrite <- IH by congruence. reflexivity.
Qed.
