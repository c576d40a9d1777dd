(** Whatever the schedule, a program whose kernels depend only on what happens before them is never stuck, and comes to
    its end. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Safe Run Streams ListsProof RunProof ProgressProof StreamsProof.
Import ListNotations.
Open Scope Z_scope.

Section StreamsProgress.
Variable V : Type.
Variable p : plan.
Variable before : Z -> Z -> Prop.
Hypothesis safe : Safe p.
Hypothesis no_branches : exclusives p = 0.
Hypothesis no_loops : loops p = [].
Hypothesis no_takes : takes p = [].
Hypothesis in_rows : forall n m, is_step p m -> before n m -> n < m.
Hypothesis race_free : RaceFree p before.
Hypothesis reads_ordered : ReadsOrdered p before.
Section Program.
Variable R : Type.
Variable program_of : Z -> list (instruction V R).
Local Notation work := (work V R).
Local Notation machine := (private_threads V work).
Local Notation next := (private_event V p work (carry_out V R)).
Local Notation after_all := (private_after V p work (carry_out V R)).

(** A tensor that a result replaces has the same bytes, and the step that writes the result first is the last to access
    it. *)
Lemma replaced n w i : is_step p n -> step_writes p n w -> Replaces p w i -> is_tensor p i ->
  i <> w /\ tensor_arena p w = tensor_arena p i /\ address_of p w = address_of p i /\
  bytes (tensor_at p w) = bytes (tensor_at p i) /\ needed (tensor_at p i) <= n /\ returned (tensor_at p i) = false.
Proof.
  intros N W [E|E] T; [|rewrite no_takes in E; destruct E].
  destruct (touch_stays p safe no_branches n w N (or_intror W)) as [Tw Sw].
  destruct (all_safe p safe) as (_ & _ & _ & P & _).
  destruct (P w Tw) as (_ & H & A & B & Nd & Md & Lt & Re & _); [unfold is_tensor in T; lia|].
  rewrite E in *. unfold Stays in Sw. split; [intros ->; lia|]. split; [unfold tensor_arena; congruence|].
  split; [auto|]. split; [auto|]. split; [lia | auto].
Qed.

(** What a step that runs relies on: the bytes that its kernel may load, and the views that it has made. *)
Definition supplied (d : Z -> Z -> Prop) (n : Z) (k : work) : Prop := exists known : Z -> Z -> Prop,
  Kernel V p R n known (instructions_left V R k) /\
  (forall i x, known i x -> touches p n i /\ inside p i x /\ d i x) /\
  (forall v, In v (views_left V R k) -> In v (writes p n) /\ is_view p v /\
     forall x, inside p v x -> d (base (tensor_at p v)) (shift (tensor_at p v) + x)) /\
  (forall v x, In v (writes p n) -> is_view p v -> inside p v x -> In v (views_left V R k) \/ d v x).

Lemma supplied_more (d e : Z -> Z -> Prop) n k : is_step p n -> supplied d n k ->
  (forall i x, touches p n i -> inside p i x -> d i x -> e i x) -> supplied e n k.
Proof.
  intros N (known & K & D & Vs & Ms) More. exists known. split; [exact K|]. split; [|split].
  - intros i x Kn. destruct (D i x Kn) as (T & I & Dx). auto.
  - intros v Iv. destruct (Vs v Iv) as (W & Vw & B). split; [exact W|]. split; [exact Vw|]. intros x I.
    destruct (view_made p safe n v N W Vw) as (_ & _ & _ & _ & Rd & S0 & S1).
    apply More; auto; [left; left; exact Rd | unfold inside in *; lia].
  - intros v x W Vw I. destruct (Ms v x W Vw I) as [|Dx]; auto. right. apply More; auto. right. left. exact W.
Qed.

Definition good (s : machine) : Prop :=
  in_order p before work (of_private V work s) /\
  (forall n, ended work (of_private V work s) n = true -> began work (of_private V work s) n = true) /\
  (forall i x, is_tensor p i -> inside p i x ->
     writer (tensor_at p i) = -1 \/
       (exists z, is_step p z /\ ended work (of_private V work s) z = true /\ In i (writes p z)) ->
     (exists n, is_step p n /\ began work (of_private V work s) n = false /\ touches p n i) \/
       returned (tensor_at p i) = true ->
     defined V (kept V work s) i x) /\
  forall n, is_running work (of_private V work s) n ->
    supplied (defined V (kept V work s)) n (of_step work (of_private V work s) n).

Lemma good_at_rest s r : given V p s -> good (at_rest V R s r).
Proof.
  intros [B G]. split; [intros n Bn; discriminate Bn|]. split; [intros n E; discriminate E|]. split.
  - intros i x T I [W|(z & _ & E & _)] _; [apply G; auto | discriminate E].
  - intros n [Bn _]. discriminate Bn.
Qed.

(** Steps that run at one time leave each other's bytes as they are. *)
Lemma store_spares t n m w i x d : in_order p before work t -> is_running work t n -> is_running work t m -> n <> m ->
  allowed V p m d w -> touches p n i -> d i x -> defined_after V p d w i x.
Proof.
  intros O Rn Rm Ne (M & W & Vw & In_ & _) T D. right. split; [exact D|]. intros (Re & Nw & C).
  destruct (O n (proj1 Rn)) as [N Pn]. destruct (O m (proj1 Rm)) as [_ Pm].
  destruct (touch_stays p safe no_branches n i N T) as [Ti _].
  destruct (replaced m (result V w) i M W Re Ti) as (_ & A & Q & B & _). pose proof (In_ x C) as I.
  destruct (race_free m n (result V w) i x x) as [H|H]; auto; [unfold inside in *; lia|lia| |].
  - pose proof (Pn m M H) as E. destruct Rm as [_ Em]. congruence.
  - pose proof (Pm n N H) as E. destruct Rn as [_ En]. congruence.
Qed.

(** What has not begun, and the caller, still find what was written. *)
Lemma store_keeps (s : machine) (n : Z) w i x : good s -> is_running work (of_private V work s) n ->
  allowed V p n (defined V (kept V work s)) w -> is_tensor p i -> inside p i x ->
  (exists m, is_step p m /\ began work (of_private V work s) m = false /\ touches p m i) \/
    returned (tensor_at p i) = true ->
  defined V (kept V work s) i x -> defined_after V p (defined V (kept V work s)) w i x.
Proof.
  intros (O & Eb & _) Rn (N & W & Vw & In_ & _) T I Still D. right. split; [exact D|]. intros (Re & Nw & C).
  destruct (replaced n (result V w) i N W Re T) as (_ & A & Q & B & Nd & Rt). destruct Still as [(m & M & Bm & Tm)|Still].
  - destruct (Z.eq_dec m n) as [->|Ne]; [destruct Rn as [Rn _]; congruence|]. pose proof (In_ x C) as Iw.
    destruct (race_free n m (result V w) i x x) as [H|H]; auto; [lia| |].
    + apply in_rows in H; auto. destruct (touch_stays p safe no_branches m i M Tm) as [_ S]. unfold Stays in S. lia.
    + destruct (O n (proj1 Rn)) as [_ Past]. apply (Past m M) in H. apply Eb in H. congruence.
  - congruence.
Qed.

Lemma show_keeps (s : machine) v : (forall x, inside p v x ->
    defined V (kept V work s) (base (tensor_at p v)) (shift (tensor_at p v) + x)) ->
  forall i x, inside p i x -> defined V (kept V work s) i x -> defined V (shown V p (kept V work s) v) i x.
Proof.
  intros B i x I D. destruct (Z.eq_dec i v) as [->|Ne]; [left | right]; auto.
Qed.

Lemma same_for_known n (d e : Z -> Z -> Prop) u v : (forall i x, d i x -> touches p n i /\ inside p i x /\ e i x) ->
  SameFor V p n e u v -> SameFor V p n d u v.
Proof. intros K S i x T I D. apply S; auto. apply K. exact D. Qed.

Hypothesis local : forall n, is_step p n -> Kernel V p R n (Supplied p before n) (program_of n).

Lemma good_begin (s : machine) n r : good s -> may_begin p before work (of_private V work s) n ->
  good (next s (Begin work n (whole_work V p R program_of n r))).
Proof.
  intros (O & Eb & Rd & Su) M. pose proof M as (N & Bn & En & Past).
  assert (Find : forall i x, Supplied p before n i x -> defined V (kept V work s) i x).
  { intros i x (T & I & W). apply Rd; auto; [apply (touch_stays p safe no_branches n); auto| |].
    - destruct W as [W|(z & Z & H & W)]; [auto|]. right. exists z. auto.
    - left. exists n. auto. }
  split; [apply begin_in_order; auto|]. split; [|split].
  - intros m E. cbn in *. destruct (Z.eq_dec m n) as [->|Ne]; [apply same_row | rewrite other_row by auto; auto].
  - intros i x T I W St. cbn in *. apply Rd; auto. destruct St as [(m & Mm & Bm & Tm)|]; [left; exists m|auto].
    split; [exact Mm|]. split; [|exact Tm]. destruct (Z.eq_dec m n) as [->|Ne]; [exact Bn|].
    rewrite other_row in Bm by auto. exact Bm.
  - intros m [Bm Em]. cbn in *. destruct (Z.eq_dec m n) as [->|Ne].
    + rewrite same_row. exists (Supplied p before n). split; [apply local; auto|]. split; [|split]; cbn.
      * intros i x D. pose proof D as (T & I & _). auto.
      * intros v Iv. apply filter_In in Iv as [W Vw]. apply negb_true_iff, Z.eqb_neq in Vw. split; [exact W|].
        split; [exact Vw|]. intros x I. destruct (view_made p safe n v N W Vw) as (_ & _ & _ & Lt & Rb & S0 & S1).
        apply Find. split; [left; left; exact Rb|]. split; [unfold inside in *; lia|].
        destruct (Z.eq_dec (writer (tensor_at p (base (tensor_at p v)))) (-1)) as [E|E]; [auto|]. right.
        destruct (reads_ordered n _ N Rb E) as [H|H]; [|lia]. eexists. split; [|split; [exact H|]].
        -- destruct (touch_stays p safe no_branches n _ N (or_introl (or_introl Rb))) as [Tb _].
           destruct (writers p safe _ Tb) as [[? _]|(_ & Sb & _)]; [contradiction | exact Sb].
        -- destruct (touch_stays p safe no_branches n _ N (or_introl (or_introl Rb))) as [Tb _].
           destruct (writers p safe _ Tb) as [[? _]|(_ & _ & Wb & _)]; [contradiction | exact Wb].
      * intros v x W Vw I. left. apply filter_In. split; [exact W|]. apply negb_true_iff, Z.eqb_neq. exact Vw.
    + rewrite !other_row in * by auto. apply Su. split; auto.
Qed.

(** A step that runs can take its next action, and then the state is good again. *)
Lemma good_act (s : machine) n : good s -> is_running work (of_private V work s) n ->
  lawful_event V p before work (carry_out V R) s (Act work n) /\ good (next s (Act work n)).
Proof.
  intros G Rn. pose proof G as (O & Eb & Rd & Su). pose proof (O n (proj1 Rn)) as [N Past].
  pose proof (Su n Rn) as (known & K & D & Vs & Ms). cbn. unfold carry_out.
  destruct (views_left V R (of_step work s n)) as [|v vs] eqn:Ev.
  - destruct (instructions_left V R (of_step work s n)) as [|[f|w c g] l] eqn:El.
    + (* the step ends *)
      split; [split; [exact Rn | exact I]|]. inversion K as [d All Ed| |]; subst.
      assert (Made : forall w x, In w (writes p n) -> inside p w x -> defined V (kept V work s) w x).
      { intros w x W In_. destruct (Z.eq_dec (base (tensor_at p w)) (-1)) as [B|B].
        - apply D, All; auto.
        - destruct (Ms w x W B In_) as [[]|]; auto. }
      split; [apply end_in_order; auto|]. split; [|split].
      * intros m E. cbn in *. destruct (Z.eq_dec m n) as [->|Ne]; [apply Rn|]. rewrite other_row in E by auto. auto.
      * intros i x T In_ W St. cbn in *. destruct W as [W|(z & Z & E & W)]; [apply Rd; auto|].
        destruct (Z.eq_dec z n) as [->|Ne]; [apply Made; auto|]. rewrite other_row in E by auto.
        apply Rd; auto. right. exists z. auto.
      * intros m [Bm Em]. apply Su. split; [exact Bm | eapply ended_more; exact Em].
    + (* it loads *)
      inversion K as [|d f' l' Loc K'|]; subst. split.
      * split; [exact Rn|]. intros u v S. rewrite (Loc (holds V R (of_step work s n)) u v); auto.
        eapply same_for_known; eauto.
      * split; [exact O|]. split; [exact Eb|]. split; [exact Rd|]. intros m Rm. cbn.
        destruct (Z.eq_dec m n) as [->|Ne]; [rewrite same_row | rewrite other_row by auto; apply Su; exact Rm].
        exists known. cbn. split; [exact K'|]. split; [exact D|]. split; [intros v []|]. intros v x W Vw In_.
        destruct (Ms v x W Vw In_) as [[]|]; auto.
    + (* it stores *)
      inversion K as [| |d w' c' f' l' Al K']; subst. set (r := holds V R (of_step work s n)) in *.
      assert (A : allowed V p n (defined V (kept V work s)) (Store V w c (g r))).
      { destruct (Al r) as (H1 & H2 & H3 & H4 & H5). split; [exact H1|]. split; [exact H2|]. split; [exact H3|].
        split; [exact H4|]. intros u v S. apply H5. eapply same_for_known; eauto. }
      split; [split; [exact Rn | exact A]|].
      split; [exact O|]. split; [exact Eb|]. split.
      * intros i x T In_ W St. cbn. apply (store_keeps s n); auto.
      * intros m Rm. cbn. destruct (Z.eq_dec m n) as [->|Ne].
        -- rewrite same_row. exists (defined_after V p known (Store V w c (g r))). cbn. split; [apply K'|].
           destruct A as (_ & Ww & _ & Iw & _). cbn in *. split; [|split].
           ++ intros i x [[-> C]|[Kn Nr]].
              ** split; [right; exact Ww|]. split; [apply Iw; exact C | left; auto].
              ** destruct (D i x Kn) as (T & In_ & Dx). split; [exact T|]. split; [exact In_ | right; auto].
           ++ intros v [].
           ++ intros v x W Vw In_. destruct (Ms v x W Vw In_) as [[]|Dx]. right. right. split; [exact Dx|].
              intros (Re & _). exact (view_kept p safe n v w N W Vw Ww Re).
        -- rewrite other_row by auto. destruct (O m (proj1 Rm)) as [Mm _].
           apply (supplied_more (defined V (kept V work s))); auto. intros i x T In_ Dx.
           eapply (store_spares (of_private V work s) m n); eauto.
  - (* it makes a view *)
    destruct (Vs v (or_introl eq_refl)) as (W & Vw & B).
    destruct (view_made p safe n v N W Vw) as (Tv & _). split.
    { split; [exact Rn|]. split; [exact Tv|]. split; [exact Vw | left; exact W]. }
    split; [exact O|]. split; [exact Eb|]. split.
    + intros i x T In_ Wr St. apply show_keeps; auto.
    + intros m Rm. cbn -[shown]. destruct (O m (proj1 Rm)) as [Mm _]. destruct (Z.eq_dec m n) as [->|Ne].
      * rewrite same_row. exists known. split; [exact K|]. split; [|split].
        -- intros i x Kn. destruct (D i x Kn) as (T & In_ & Dx). split; [exact T|]. split; [exact In_|].
           apply show_keeps; auto.
        -- intros u Iu. destruct (Vs u (or_intror Iu)) as (Wu & Vu & Bu). split; [exact Wu|]. split; [exact Vu|].
           intros x In_. destruct (view_made p safe n u N Wu Vu) as (_ & _ & _ & _ & _ & S0 & S1).
           apply show_keeps; [exact B | unfold inside in *; lia | auto].
        -- intros u x Wu Vu In_. destruct (Ms u x Wu Vu In_) as [[<-|Iu]|Dx]; [right; left; auto | left; exact Iu|].
           right. apply show_keeps; auto.
      * rewrite other_row by auto. apply (supplied_more (defined V (kept V work s))); auto.
        intros; apply show_keeps; auto.
Qed.

(** * Schedules *)

Local Notation respects := (respects V p before R program_of).

Lemma good_next (s : machine) e : good s -> respects_order V p before R program_of (of_private V work s) e ->
  lawful_event V p before work (carry_out V R) s e /\ good (next s e).
Proof.
  destruct e as [n k|n|n]; cbn; intros G L; [|apply good_act; auto|destruct L].
  destruct L as [M [r ->]]. split; [exact M | apply good_begin; auto].
Qed.

Lemma good_after l : forall s : machine, good s -> respects l s ->
  lawful_schedule V p before work (carry_out V R) l s /\ good (after_all l s).
Proof.
  induction l as [|e l IH]; intros s G L; [split; [exact I | exact G]|]. destruct L as [L Ls].
  destruct (good_next s e G L) as [Lw Gn]. destruct (IH _ Gn Ls) as [A B]. split; [split|]; auto.
Qed.

Lemma after_more l k (s : machine) : after_all (l ++ k) s = after_all k (after_all l s).
Proof. apply fold_left_app. Qed.

Lemma respects_more l k : forall s : machine, respects l s -> respects k (after_all l s) -> respects (l ++ k) s.
Proof. induction l as [|e l IH]; intros s L K; [exact K|]. destruct L as [L Ls]. split; [exact L | apply IH; auto]. Qed.

Lemma still_ended l n : forall s : machine, ended work (of_private V work s) n = true ->
  ended work (of_private V work (after_all l s)) n = true.
Proof.
  assert (End : forall (t : threads work) m, ended work t n = true -> ended work (end_thread work t m) n = true).
  { intros t m E. cbn. unfold with_row. destruct (n =? m); auto. }
  induction l as [|e l IH]; intros s E; [exact E|]. apply IH. destruct e as [m k|m|m]; cbn [private_event];
    [exact E | | exact (End _ m E)].
  destruct (carry_out V R m (of_step work s m)) as [f|w k|v k|j k|j k|]; try exact E; try exact (End _ m E).
  cbn. destruct (j =? m); [exact E | exact (End _ m E)].
Qed.

(** A step that runs can be carried to its end. *)
Lemma finishes n m : forall s : machine, good s -> is_running work (of_private V work s) n ->
  (length (views_left V R (of_step work s n)) + length (instructions_left V R (of_step work s n)) < m)%nat ->
  exists k, respects k s /\ ended work (of_private V work (after_all k s)) n = true.
Proof.
  induction m as [|m IH]; intros s G Rn L; [lia|]. destruct (good_act s n G Rn) as [_ Gn]. pose proof Rn as [Bn En].
  assert (Go : is_running work (of_private V work (next s (Act work n))) n ->
    (length (views_left V R (of_step work (next s (Act work n)) n)) +
       length (instructions_left V R (of_step work (next s (Act work n)) n)) < m)%nat ->
    exists k, respects k s /\ ended work (of_private V work (after_all k s)) n = true).
  { intros Rn' L'. destruct (IH _ Gn Rn' L') as (k & Rk & Ek). exists (Act work n :: k). split; [split|]; auto. }
  unfold private_event, carry_out in Go.
  destruct (views_left V R (of_step work s n)) as [|v vs] eqn:Ev.
  - destruct (instructions_left V R (of_step work s n)) as [|[f|w c g] l] eqn:El; cbn in L.
    + exists [Act work n]. split; [split; [exact Rn | exact I]|]. cbn. unfold carry_out. rewrite Ev, El. apply same_row.
    + apply Go; [split; auto|]. cbn. rewrite same_row. cbn. lia.
    + apply Go; [split; auto|]. cbn. rewrite same_row. cbn. lia.
  - cbn in L. apply Go; [split; auto|]. cbn. rewrite same_row. cbn. lia.
Qed.

(** Then all steps can be, in the order of rows. *)
Lemma completes (s : machine) (r : R) : good s -> forall j, 0 <= j -> j <= Z.max 0 (steps p) ->
  exists k, respects k s /\ forall n, 0 <= n < j -> ended work (of_private V work (after_all k s)) n = true.
Proof.
  intros G. apply (natlike_ind (fun j => j <= Z.max 0 (steps p) -> exists k, respects k s /\
    forall n, 0 <= n < j -> ended work (of_private V work (after_all k s)) n = true)).
  - intros _. exists []. split; [exact I | intros n H; lia].
  - intros j J IH Le. destruct IH as (k & Rk & Ek); [lia|]. destruct (good_after k s G Rk) as [_ Gk].
    set (u := after_all k s) in *. assert (N : is_step p j) by (unfold is_step; lia).
    assert (Last : forall k', respects k' u -> ended work (of_private V work (after_all k' u)) j = true ->
      exists k, respects k s /\ forall n, 0 <= n < Z.succ j -> ended work (of_private V work (after_all k s)) n = true).
    { intros k' Rk' Ej. exists (k ++ k'). split; [apply respects_more; auto|]. intros n H. rewrite after_more. fold u.
      destruct (Z.eq_dec n j) as [->|Ne]; [exact Ej|]. apply still_ended, Ek. lia. }
    pose proof Gk as (O & Eb & _).
    destruct (ended work (of_private V work u) j) eqn:E; [apply (Last []); [exact I | exact E]|].
    destruct (began work (of_private V work u) j) eqn:B.
    + destruct (finishes j _ u Gk (conj B E) (PeanoNat.Nat.lt_succ_diag_r _)) as (k' & Rk' & Ek'). eauto.
    + assert (M : may_begin p before work (of_private V work u) j).
      { split; [exact N|]. split; [exact B|]. split; [exact E|]. intros m Sm H. apply Ek.
        apply in_rows in H; auto. unfold is_step in Sm. lia. }
      set (e := Begin work j (whole_work V p R program_of j r)).
      pose proof (good_begin u j r Gk M) as Gb. fold e in Gb.
      assert (Rn : is_running work (of_private V work (next u e)) j) by (split; [apply same_row | exact E]).
      destruct (finishes j _ (next u e) Gb Rn (PeanoNat.Nat.lt_succ_diag_r _)) as (k' & Rk' & Ek').
      apply (Last (e :: k')); auto. split; [split; eauto | exact Rk'].
Qed.
End Program.

Theorem concurrent_progress : ConcurrentProgress V p before.
Proof.
  intros R f r s Local Gv l Rl. cbv zeta.
  assert (G : good R (at_rest V R s r)) by (apply good_at_rest; auto).
  destruct (good_after R f Local l _ G Rl) as [Lw Gl]. split; [exact Lw|]. split.
  - destruct (completes R f Local _ r Gl (Z.max 0 (steps p))) as (k & Rk & Ek); [lia | lia |].
    exists k. split; [apply respects_more; auto|]. intros n N. rewrite after_more. apply Ek. unfold is_step in N. lia.
  - intros All i x Ti Re I. destruct Gl as (_ & _ & Rd & _). apply Rd; auto.
    destruct (writers p safe i Ti) as [[W _]|(_ & N & W & _)]; [auto|]. right. eexists. split; [exact N|]. auto.
Qed.
End StreamsProgress.
