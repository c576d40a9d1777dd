(** Steps one after another are the special case of one stream.

    If all steps are on one stream, happens-before is the order of rows. A run of [Run.v], in which control goes from step
    to step, is then a schedule: each step acts to its end, those that control passes over are left out, and the next
    begins with the registers that control leaves. So [RunsAsPrivate] follows from the theorem about schedules, for plans
    that have neither loops nor exclusive branches. *)
From Coq Require Import ZArith List Bool Lia Relations.
From Tmmu Require Import Lists Columns Safe Run Streams ListsProof RunProof StreamsProof.
Import ListNotations.
Open Scope Z_scope.

(** One stream, and no events. *)
Definition one_stream : streams := Streams (fun _ => 0) (fun _ => []).
Lemma one_stream_is_in_order n m : 0 <= n -> (Before one_stream n m <-> n < m).
Proof.
  intros N. split.
  - intros H. apply clos_trans_tn1 in H. induction H as [m W|k m W H IH]; destruct W as [[L _]|[]]; lia.
  - intros L. apply t_step. left. split; [lia | reflexivity].
Qed.

Section Embeds.
Variable V : Type.
Variable p : plan.
Hypothesis safe : Safe p.
Hypothesis no_branches : exclusives p = 0.
Hypothesis no_loops : loops p = [].

Section Program.
Variable R : Type.
Variable code : Z -> R -> action V R.
Variable start : Z -> Z.
Local Notation before := (Before one_stream).
Local Notation private_after := (private_after V p R code).
Local Notation arena_after := (arena_after V p R code start).
Local Notation lawful_schedule := (lawful_schedule V p before R code).

(** The events of one action of the private machine. *)
Definition events_of (s : private_machine V R) : list (event R) :=
  match code (now V s) (registers V R s) with
  | Load _ _ _ | Put _ _ _ _ | Show _ _ _ _ => [Act R (now V s)]
  | Go _ _ n r =>
      if n =? now V s then [Act R n]
      else (if now V s =? -1 then [] else [Act R (now V s)]) ++ map (Skip R) (run (now V s + 1) n) ++ [Begin R n r]
  | Back _ _ _ _ | Stop _ _ => []
  end.

(** The machine and the threads are at the same step, with the same registers and memory. *)
Definition like (s : private_machine V R) (c : private_threads V R) : Prop :=
  (exists z, kept V R c = State V z (defined V s) (own V s)) /\
  (now V s = -1 \/ is_step p (now V s) /\ is_running R c (now V s) /\ of_step R c (now V s) = registers V R s) /\
  (forall n, now V s < n -> began R c n = false /\ ended R c n = false) /\
  (forall n, is_step p n -> n < now V s -> ended R c n = true).

Lemma lawful_more l k : forall c, lawful_schedule l c -> lawful_schedule k (private_after l c) -> lawful_schedule (l ++ k) c.
Proof. induction l as [|e l IH]; intros c L K; [exact K|]. destruct L as [L Ls]. split; [exact L | apply IH; auto]. Qed.

Lemma skips l : forall c, (forall n, In n l -> began R (of_private V R c) n = false) ->
  let d := private_after (map (Skip R) l) c in
  lawful_schedule (map (Skip R) l) c /\ kept V R d = kept V R c /\
  began R d = began R c /\ of_step R d = of_step R c /\
  (forall n, In n l -> ended R d n = true) /\ (forall n, ~ In n l -> ended R d n = ended R c n).
Proof.
  induction l as [|m l IH]; intros c B; cbv zeta.
  - repeat split; auto.
  - destruct (IH (private_event V p R code c (Skip R m))) as (L & K & Bg & O & E & F); [intros n I; apply B; right; auto|].
    cbn [map]. unfold Streams.private_after in *. cbn [fold_left].
    split; [split; [apply B; left; auto | exact L]|]. split; [exact K|]. split; [exact Bg|]. split; [exact O|].
    split.
    + intros n [<-|I]; [|auto]. destruct (in_dec Z.eq_dec m l) as [I|I]; [auto|]. rewrite F by auto. apply same_row.
    + intros n N. rewrite F by (intros I; apply N; right; auto). cbn. apply other_row. intros ->. apply N. left. auto.
Qed.

Lemma skips_arena l : forall g, bytes_now V R (arena_after (map (Skip R) l) g) = bytes_now V R g.
Proof. induction l as [|m l IH]; intros g; [reflexivity|]. exact (IH _). Qed.

(** One action is these events. *)
Lemma events_like s c : like s c -> lawful V p R code s ->
  lawful_schedule (events_of s) c /\ like (private_step V p R code s) (private_after (events_of s) c).
Proof.
  intros ((z & Kc) & At & Later & Earlier) L. unfold lawful in L. unfold private_step, events_of.
  assert (Runs : is_step p (now V s) -> is_running R c (now V s) /\ of_step R c (now V s) = registers V R s).
  { intros N. destruct At as [At|(_ & Ru & E)]; [unfold is_step in N; lia | auto]. }
  assert (Goes : forall r, of_step R (go_on R c (now V s) r) (now V s) = r) by (intros r; apply same_row).
  destruct (code (now V s) (registers V R s)) as [f|w r|v r|n r|e r|] eqn:Ec.
  - destruct L as [N L]. destruct (Runs N) as [Ru E]. unfold like. cbn. rewrite E, Ec. cbn. rewrite Kc. cbn.
    split; [auto|]. split; [exists z; reflexivity|]. split; [right; split; [exact N|]; split; [exact Ru | apply Goes]|]. auto.
  - pose proof L as (N & _). destruct (Runs N) as [Ru E]. unfold like. cbn. rewrite E, Ec. cbn. rewrite Kc. cbn.
    split; [auto|]. split; [exists z; reflexivity|].
    split; [right; split; [exact N|]; split; [exact Ru | apply Goes]|]. auto.
  - destruct L as (N & T & Vw & W). destruct (Runs N) as [Ru E]. unfold like. cbn. rewrite E, Ec. cbn. rewrite Kc. cbn.
    split; [auto 10|]. split; [exists z; reflexivity|].
    split; [right; split; [exact N|]; split; [exact Ru | apply Goes]|]. auto.
  - destruct L as (Le & N & _). destruct (n =? now V s) eqn:Q.
    + apply Z.eqb_eq in Q. subst n. destruct (Runs N) as [Ru E]. unfold like. cbn. rewrite E, Ec. cbn.
      rewrite Z.eqb_refl. cbn. split; [auto|]. split; [exists z; exact Kc|].
      split; [right; split; [exact N|]; split; [exact Ru | apply Goes]|]. auto.
    + apply Z.eqb_neq in Q. set (first := if now V s =? -1 then [] else [Act R (now V s)]).
      set (d := private_after first c).
      assert (D : lawful_schedule first c /\ kept V R d = kept V R c /\ began R d = began R c /\
        (forall m, is_step p m -> m <= now V s -> ended R d m = true) /\
        forall m, now V s < m -> ended R d m = false).
      { unfold d, first. destruct (now V s =? -1) eqn:M.
        - apply Z.eqb_eq in M. cbn. repeat split; auto; [intros m Sm Lm; unfold is_step in Sm; lia | intros m Lm; apply Later; auto].
        - apply Z.eqb_neq in M. destruct At as [At|(Ns & Ru & E)]; [contradiction|]. cbn. rewrite E, Ec. cbn.
          rewrite (proj2 (Z.eqb_neq _ _) Q). cbn. repeat split; auto; try apply Ru.
          + intros m Sm Lm. destruct (Z.eq_dec m (now V s)) as [->|Ne]; [apply same_row | rewrite other_row by auto].
            apply Earlier; auto. lia.
          + intros m Lm. rewrite other_row by lia. apply Later. exact Lm. }
      destruct D as (L1 & K1 & B1 & E1 & F1).
      destruct (skips (run (now V s + 1) n) d) as (L2 & K2 & B2 & O2 & E2 & F2).
      { intros m I. apply run_spec in I. rewrite B1. apply Later. lia. }
      set (u := private_after (map (Skip R) (run (now V s + 1) n)) d) in *.
      assert (All : private_after (first ++ map (Skip R) (run (now V s + 1) n) ++ [Begin R n r]) c =
        private_event V p R code u (Begin R n r)).
      { unfold Streams.private_after. rewrite !fold_left_app. reflexivity. }
      assert (Past : forall m, is_step p m -> m < n -> ended R u m = true).
      { intros m Sm Lm. destruct (Z_le_gt_dec m (now V s)) as [Lo|Hi]; [|apply E2, run_spec; lia].
        rewrite F2 by (rewrite run_spec; lia). apply E1; auto. }
      assert (En : ended R u n = false) by (rewrite F2 by (rewrite run_spec; lia); apply F1; lia).
      assert (Bn : began R u n = false) by (rewrite B2, B1; apply Later; lia).
      split.
      * apply lawful_more; [exact L1|]. fold d. apply lawful_more; [exact L2|]. fold u. split; [|exact I].
        split; [exact N|]. split; [exact Bn|]. split; [exact En|]. intros m Sm H. apply Past; auto.
        apply one_stream_is_in_order in H; [exact H | unfold is_step in Sm; lia].
      * rewrite All. unfold like. cbn. split; [exists z; rewrite K2, K1; exact Kc|].
        split; [right; split; [exact N|]; split; [split; [apply same_row | exact En] | apply same_row]|]. split.
        -- intros m Lm. rewrite other_row by lia. rewrite B2, B1. rewrite F2 by (rewrite run_spec; lia).
           split; [apply Later; lia | apply F1; lia].
        -- exact Past.
  - rewrite no_loops in L. destruct L.
  - split; [exact I|]. unfold like. split; [exists z; exact Kc|]. auto.
Qed.

(** So they are for the machine in arenas, if both have the same registers. *)
Lemma events_arena (s : private_machine V R) f g : lawful V p R code s ->
  at_step V R f = now V s -> registers_ V R f = registers V R s -> content V R f = bytes_now V R g ->
  now V s = -1 \/ of_step R (of_arenas V R g) (now V s) = registers V R s ->
  content V R (arena_step V p R code start f) = bytes_now V R (arena_after (events_of s) g).
Proof.
  intros L A Rg C At. unfold lawful in L. unfold arena_step, events_of. rewrite A, Rg.
  assert (Here : is_step p (now V s) -> of_step R (of_arenas V R g) (now V s) = registers V R s)
    by (intros N; destruct At as [At|At]; [unfold is_step in N; lia | exact At]).
  destruct (code (now V s) (registers V R s)) as [l|w r|v r|n r|e r|] eqn:Ec; cbn; try exact C.
  - rewrite (Here (proj1 L)), Ec. exact C.
  - rewrite (Here (proj1 L)), Ec. cbn. rewrite C. reflexivity.
  - rewrite (Here (proj1 L)), Ec. exact C.
  - destruct (n =? now V s) eqn:Q.
    + apply Z.eqb_eq in Q. subst n. cbn. rewrite Here, Ec by apply L. exact C.
    + unfold Streams.arena_after. rewrite !fold_left_app.
      set (h := fold_left _ (if now V s =? -1 then [] else [Act R (now V s)]) g).
      assert (Hb : bytes_now V R h = bytes_now V R g).
      { unfold h. destruct (now V s =? -1) eqn:M; [reflexivity|]. apply Z.eqb_neq in M.
        destruct At as [At|At]; [contradiction|]. cbn. rewrite At, Ec. destruct (n =? now V s); reflexivity. }
      cbn. rewrite C, <- Hb. symmetry. exact (skips_arena _ h).
Qed.
End Program.

Theorem one_stream_runs_as_private : RunsAsPrivate V p.
Proof.
  intros R code start s m r k Ap B A L. cbv zeta.
  set (c0 := Apart V R (Threads R (fun _ => false) (fun _ => false) (fun _ => r)) s).
  set (g0 := Together V R (Threads R (fun _ => false) (fun _ => false) (fun _ => r)) m).
  set (t := fun j => Nat.iter j (private_step V p R code) (Private V R s r)).
  set (f := fun j => Nat.iter j (arena_step V p R code start) (Arenas V R (now V s) m r)).
  assert (Conc : RunsConcurrentlyAsPrivate V p (Before one_stream)).
  { apply runs_concurrently_as_private; auto.
    - intros i j J H. apply clos_trans_tn1 in H. induction H as [j W|i' j W H IH]; destruct W as [[W _]|[]]; [lia|].
      assert (i < i'); [apply IH; unfold is_step in *|]; lia.
    - intros i j w o x y I J Ne _ _ _ _ _ _ _. unfold is_step in *.
      destruct (Z.lt_total i j) as [Q|[Q|Q]]; [left | contradiction | right]; apply one_stream_is_in_order; lia. }
  assert (All : forall j, (j <= k)%nat -> exists l,
    lawful_schedule V p (Before one_stream) R code l c0 /\
    like R (t j) (private_after V p R code l c0) /\
    at_step V R (f j) = now V (t j) /\ registers_ V R (f j) = registers V R (t j) /\
    content V R (f j) = bytes_now V R (arena_after V p R code start l g0)).
  { induction j as [|j IH]; intros J.
    - exists []. split; [exact I|]. split; [|auto]. destruct B as [N _]. split; [exists (now V s); destruct s; reflexivity|].
      cbn. split; [left; exact N|]. split; [auto|]. intros n Sn Ln. unfold is_step in Sn. lia.
    - destruct IH as (l & Ls & Lk & E1 & E2 & E3); [lia|]. pose proof (L j ltac:(lia)) as Lw. fold (t j) in Lw.
      destruct (Conc R code start (Threads R (fun _ => false) (fun _ => false) (fun _ => r)) s m l) as [Th Ag]; auto.
      fold c0 in Th, Ag, Ls. fold g0 in Th, Ag. set (c := private_after V p R code l c0) in *.
      set (g := arena_after V p R code start l g0) in *.
      destruct (events_like R code (t j) c Lk Lw) as [Ln Lk'].
      exists (l ++ events_of R code (t j)). split; [apply lawful_more; auto|].
      assert (Pa : private_after V p R code (l ++ events_of R code (t j)) c0 =
        private_after V p R code (events_of R code (t j)) c) by apply fold_left_app.
      assert (Aa : arena_after V p R code start (l ++ events_of R code (t j)) g0 =
        arena_after V p R code start (events_of R code (t j)) g) by apply fold_left_app.
      rewrite Pa, Aa. split; [exact Lk'|].
      assert (Same : now V (t j) = -1 \/ of_step R (of_arenas V R g) (now V (t j)) = registers V R (t j)).
      { rewrite Th. destruct Lk as (_ & [N|(_ & _ & E)] & _); auto. }
      pose proof (events_arena R code start (t j) (f j) g Lw E1 E2 E3 Same) as E3'.
      change (f (S j)) with (arena_step V p R code start (f j)). change (t (S j)) with (private_step V p R code (t j)).
      split; [|split; [|exact E3']].
      + unfold arena_step, private_step. rewrite E1, E2.
        destruct (code (now V (t j)) (registers V R (t j))); cbn; auto.
      + assert (Found : forall h, code (now V (t j)) (registers V R (t j)) = Load V R h ->
          h (found V p start (content V R (f j))) = h (own V (t j))).
        { intros h Ec. unfold lawful in Lw. rewrite Ec in Lw. destruct Lw as [N Lo]. apply Lo. intros i x T I D.
          destruct Lk as ((z & Kc) & [M|(_ & [Bg En] & _)] & _); [unfold is_step in N; lia|].
          assert (Re : read_from_now p R (of_private V R c) i) by (left; exists (now V (t j)); auto).
          pose proof (Ag i Re x) as Q. unfold agree in Q. rewrite E3. rewrite Kc in Q. exact (Q D). }
        unfold arena_step, private_step. rewrite E1, E2.
        destruct (code (now V (t j)) (registers V R (t j))) as [h|w q|v q|n q|e q|]; cbn; auto. }
  destruct (All k (le_n k)) as (l & Ls & Lk & E1 & E2 & E3). split; [exact E1|]. split; [exact E2|].
  destruct (Conc R code start (Threads R (fun _ => false) (fun _ => false) (fun _ => r)) s m l) as [_ Ag]; auto.
  fold c0 in Ag, Ls. fold g0 in Ag. fold (t k) (f k). intros i Still x D.
  destruct Lk as ((z & Kc) & At & Later & _).
  assert (Re : read_from_now p R (of_private V R (private_after V p R code l c0)) i).
  { destruct Still as [(n & Ln & N & T)|Re]; [left; exists n | right; auto]. split; [exact N|]. split; [|exact T].
    destruct (Z.eq_dec n (now V (t k))) as [->|Ne]; [|apply Later; lia].
    destruct At as [At|(_ & [_ En] & _)]; [unfold is_step in N; lia | exact En]. }
  pose proof (Ag i Re x) as Q. rewrite Kc in Q. unfold found. rewrite E3. exact (Q D).
Qed.
End Embeds.
