(** Whatever the schedule, steps that respect happens-before run as if every tensor had private memory, and a program
    finds values.

    The plan is safe in the order of its rows, and happens-before is a part of that order. If a store may touch a byte of
    another tensor, race freedom orders all accesses of that tensor with the step that stores. *)
From Coq Require Import ZArith List Bool Lia.
From Tmmu Require Import Lists Columns Safe Run Streams ListsProof RunProof ProgressProof.
Import ListNotations.
Open Scope Z_scope.

Lemma same_row {A} (f : Z -> A) n a : with_row f n a n = a.
Proof. unfold with_row. rewrite Z.eqb_refl. reflexivity. Qed.
Lemma other_row {A} (f : Z -> A) n a m : m <> n -> with_row f n a m = f m.
Proof. intros N. unfold with_row. rewrite (proj2 (Z.eqb_neq _ _) N). reflexivity. Qed.

Section StreamsProof.
Variable V : Type.
Variable p : plan.
Variable before : Z -> Z -> Prop.
Hypothesis safe : Safe p.
Hypothesis no_branches : exclusives p = 0.
Hypothesis no_loops : loops p = [].
Hypothesis no_takes : takes p = [].
Hypothesis in_rows : forall n m, is_step p m -> before n m -> n < m.
Hypothesis race_free : RaceFree p before.

(** * One step against the accesses of another tensor *)

Lemma touch_stays n i : is_step p n -> touches p n i -> is_tensor p i /\ Stays p i n.
Proof.
  intros N T. destruct (touched p safe n i N T) as [H [S|(x & _ & X & _)]]; auto. unfold is_exclusive in X. lia.
Qed.

Lemma write_is_row n w : step_writes p n w -> In w (writes p n).
Proof. intros [W|(e & L & _)]; auto. rewrite no_loops in L. destruct L. Qed.

(** A store into a common byte replaces the other tensor, or comes after all of its accesses, or before all of its
    writes. *)
Lemma undisturbed n w i x y : is_step p n -> step_writes p n w -> ~ is_view p w -> is_tensor p i -> i <> w ->
  inside p w x -> inside p i y -> tensor_arena p w = tensor_arena p i -> address_of p w + x = address_of p i + y ->
  Replaces p w i /\ x = y \/
  returned (tensor_at p i) = false /\ (forall m, is_step p m -> touches p m i -> before m n) \/
  writer (tensor_at p i) <> -1 /\ (forall m, is_step p m -> step_writes p m i -> before n m).
Proof.
  intros N W Vw T Ne X Y A Q.
  assert (Order : forall m, is_step p m -> touches p m i -> m <> n -> before n m \/ before m n)
    by (intros m M To D; apply (race_free n m w i x y); auto).
  destruct (all_safe p safe) as (_ & (_ & _ & _ & _ & _ & Ca & Re) & _ & _ & Dis & _).
  destruct (Z_lt_le_dec (needed (tensor_at p i)) n) as [L|L]; [|destruct (Z_lt_le_dec n (made (tensor_at p i))) as [L'|L']].
  - right. left. split.
    + destruct (returned (tensor_at p i)) eqn:R; auto. destruct (Re i T R) as [E _]. unfold last_step, is_step in *. lia.
    + intros m M To. destruct (touch_stays m i M To) as [_ S]. unfold Stays in S.
      destruct (Order m M To) as [B|B]; auto; [lia|]. apply in_rows in B; auto. lia.
  - right. right. split.
    + intros E. destruct (Ca i T E). unfold is_step in N. lia.
    + intros m M Wm. destruct (touch_stays m i M (or_intror Wm)) as [_ S]. unfold Stays in S.
      destruct (Order m M (or_intror Wm)) as [B|B]; auto; [lia|]. apply in_rows in B; auto. lia.
  - left. destruct (Dis n w i x y) as (R & E & _); auto. left. unfold Stays. lia.
Qed.

(** * Both machines *)

Section Machines.
Variable R : Type.
Variable start : Z -> Z.
Hypothesis apart : ArenasApart p start.
Local Notation found := (found V p start).

(** What holds after any number of events. *)
Definition in_order (t : threads R) : Prop := forall n, began R t n = true ->
  is_step p n /\ forall m, is_step p m -> before m n -> ended R t m = true.
Definition sound (t : threads R) (s : state V) (m : Z -> V) : Prop := in_order t /\ forall i x, defined V s i x ->
  is_tensor p i /\ inside p i x /\
  (writer (tensor_at p i) = -1 \/ exists n, began R t n = true /\ step_writes p n i) /\
  (read_from_now p R t i -> found m i x = own V s i x).

Lemma running_reads t n i : in_order t -> is_running R t n -> touches p n i -> read_from_now p R t i.
Proof. intros O [B E] T. left. exists n. split; [apply O; auto | auto]. Qed.

Lemma sound_same t s m n : sound t s m -> is_running R t n -> SameFor V p n (defined V s) (found m) (own V s).
Proof. intros [O S] Ru i x T I D. destruct (S i x D) as (_ & _ & _ & A). apply A. eapply running_reads; eauto. Qed.

Lemma sound_store t s m n w : sound t s m -> is_running R t n -> allowed V p n (defined V s) w ->
  sound t (stored V p s w) (store_flat V p start w m).
Proof.
  intros So Ru (Hn & Hw & NV & In_ & Local). pose proof So as [O S]. split; [exact O|]. cbn.
  destruct (touch_stays n (result V w) Hn (or_intror Hw)) as [Tw _].
  assert (Eq : forall x, chosen V w x = true -> value V w (found m) x = value V w (own V s) x).
  { apply Local. eapply sound_same; eauto. }
  intros i x D.
  assert (P : is_tensor p i /\ inside p i x /\
    (writer (tensor_at p i) = -1 \/ exists k, began R t k = true /\ step_writes p k i)).
  { destruct D as [[-> C]|[D _]].
    - split; [exact Tw|]. split; [auto|]. right. exists n. split; [apply Ru | exact Hw].
    - destruct (S i x D) as (A & B & C & _). auto. }
  destruct P as (T & I & W). split; [exact T|]. split; [exact I|]. split; [exact W|]. intros L.
  unfold Run.found at 1, store_flat, store_own. destruct (Z.eq_dec i (result V w)) as [->|Ne].
  - rewrite Z.eqb_refl. replace (flat_address p start (result V w) + x - flat_address p start (result V w)) with x by lia.
    cbn. destruct (chosen V w x) eqn:C; [auto|]. destruct D as [[_ D]|[D _]]; [congruence|].
    destruct (S _ x D) as (_ & _ & _ & A). auto.
  - rewrite (proj2 (Z.eqb_neq _ _) Ne). cbn. destruct D as [[? _]|[D Kept]]; [congruence|].
    destruct (S i x D) as (_ & _ & _ & A).
    destruct (chosen V w (flat_address p start i + x - flat_address p start (result V w))) eqn:C; [|exact (A L)].
    exfalso. pose proof (In_ _ C) as Iw.
    destruct (same_byte p safe start apart i (result V w) x _ T Tw I Iw) as [Ea Eb]; [lia|].
    destruct (undisturbed n (result V w) i _ x Hn Hw NV T Ne Iw I) as [[Re Q]|[[Rt Q]|[Nw Q]]]; auto.
    + apply Kept. rewrite Q in C. auto.
    + destruct L as [(k & Sk & Ek & Tk)|L]; [|congruence]. destruct (O n (proj1 Ru)) as [_ Past].
      rewrite (Past k Sk (Q k Sk Tk)) in Ek. discriminate.
    + destruct W as [W|(k & Bk & Wk)]; [congruence|]. destruct (O k Bk) as [Sk Past].
      destruct Ru as [_ E]. rewrite (Past n Hn (Q k Sk Wk)) in E. discriminate.
Qed.

Lemma sound_show t s m n v : sound t s m -> is_running R t n -> is_tensor p v -> is_view p v -> step_writes p n v ->
  sound t (shown V p s v) m.
Proof.
  intros [O S] Ru Tv Vv Wv. split; [exact O|]. cbn. destruct (O n (proj1 Ru)) as [Hn _].
  pose proof (view_made p safe n v Hn (write_is_row n v Wv) Vv) as (_ & _ & _ & _ & Rd & _).
  destruct (all_safe p safe) as (_ & _ & Vs & _). destruct (Vs v Tv Vv) as (_ & Hb & Ad & _).
  intros i x D. destruct D as [(-> & I & D)|[Ne D]].
  - split; [exact Tv|]. split; [exact I|]. split; [right; exists n; split; [apply Ru | exact Wv]|]. intros _.
    rewrite Z.eqb_refl. destruct (S _ _ D) as (_ & _ & _ & A). rewrite <- A.
    + unfold Run.found, flat_address, tensor_arena. rewrite Hb, Ad. f_equal. lia.
    + eapply running_reads; eauto. left. left. exact Rd.
  - rewrite (proj2 (Z.eqb_neq _ _) Ne). exact (S i x D).
Qed.

(** Steps that begin or end leave all that is still read as it is. *)
Lemma sound_threads t u s m : sound t s m -> in_order u -> (forall n, began R t n = true -> began R u n = true) ->
  (forall n, ended R u n = false -> ended R t n = false) -> sound u s m.
Proof.
  intros [_ S] O B E. split; [exact O|]. intros i x D. destruct (S i x D) as (T & I & W & A). split; [exact T|].
  split; [exact I|]. split; [destruct W as [W|(n & Bn & Wn)]; [auto | right; exists n; auto]|].
  intros [(n & Sn & En & Tn)|L]; apply A; [left; exists n; auto | right; auto].
Qed.

Lemma begin_in_order t n r : in_order t -> may_begin p before R t n -> in_order (start_thread R t n r).
Proof.
  intros O (N & _ & _ & Past) k. cbn. destruct (Z.eq_dec k n) as [->|Ne]; [intros _; auto|].
  rewrite other_row by auto. apply O.
Qed.

Lemma end_in_order t n : in_order t -> in_order (end_thread R t n).
Proof.
  intros O k B. destruct (O k B) as [N Past]. split; [exact N|]. intros m M H. cbn.
  destruct (Z.eq_dec m n) as [->|Ne]; [apply same_row | rewrite other_row by auto; auto].
Qed.

Lemma ended_more t n k : ended R (end_thread R t n) k = false -> ended R t k = false.
Proof. cbn. unfold with_row. destruct (k =? n); [discriminate | auto]. Qed.

Section Program.
Variable code : Z -> R -> action V R.

Definition alike (s : private_threads V R) (f : arena_threads V R) : Prop :=
  of_arenas V R f = of_private V R s /\ sound (of_private V R s) (kept V R s) (bytes_now V R f).

Lemma alike_next s f e : alike s f -> lawful_event V p before R code s e ->
  alike (private_event V p R code s e) (arena_event V p R code start f e).
Proof.
  intros [E So] L. destruct e as [n r|n|n]; cbn in L |- *; rewrite E.
  - split; [reflexivity|]. pose proof So as [O _]. apply (sound_threads (of_private V R s)); auto.
    + apply begin_in_order; auto.
    + intros k B. cbn. destruct (Z.eq_dec k n) as [->|Ne]; [apply same_row | rewrite other_row; auto].
  - destruct L as [Ru L]. pose proof So as [O _].
    assert (Ends : sound (end_thread R s n) (kept V R s) (bytes_now V R f)).
    { apply (sound_threads (of_private V R s)); auto; [apply end_in_order; auto | apply ended_more]. }
    destruct (code n (of_step R s n)) as [g|w r|v r|k r|k r|]; (split; [|cbn]); cbn; try reflexivity; auto.
    + rewrite (L _ _ (sound_same _ _ _ n So Ru)). reflexivity.
    + exact (sound_store _ _ _ n w So Ru L).
    + destruct L as (T & Vw & W). exact (sound_show _ _ _ n v So Ru T Vw W).
    + destruct (k =? n); [exact So | exact Ends].
  - split; [reflexivity|]. pose proof So as [O _].
    apply (sound_threads (of_private V R s)); auto; [apply end_in_order; auto | apply ended_more].
Qed.

Lemma alike_after l : forall s f, alike s f -> lawful_schedule V p before R code l s ->
  alike (private_after V p R code l s) (arena_after V p R code start l f).
Proof.
  induction l as [|e l IH]; intros s f A L; [exact A|]. destruct L as [L Ls]. apply IH; auto using alike_next.
Qed.
End Program.
End Machines.

Theorem runs_concurrently_as_private : RunsConcurrentlyAsPrivate V p before.
Proof.
  intros R code start t s m l Ap N [_ B] A L. cbv zeta.
  destruct (alike_after R start Ap code l (Apart V R t s) (Together V R t m)) as [E So]; [|exact L|].
  - split; [reflexivity|]. split; [intros n Bn; cbn in Bn; rewrite N in Bn; discriminate|].
    intros i x D. destruct (B i x D) as (T & I & W). cbn. split; [exact T|]. split; [exact I|]. split; [auto|].
    intros _. exact (A i x D).
  - split; [exact E|]. intros i Re x D. destruct So as [_ S]. destruct (S i x D) as (_ & _ & _ & Q). exact (Q Re).
Qed.
End StreamsProof.
