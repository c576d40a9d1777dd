(** A statement about the runs of a plan holds if and only if it holds of the bare plan. Definitions about the one plan and
    about the other are the same terms after computation, except for those that are inductive. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Safe Run Inputs Evidence Streams.
Import ListNotations.
Open Scope Z_scope.

(** * Writes, and the bytes that views show *)

Scheme arm_writes_mut := Minimality for ArmWrites Sort Prop
  with arms_write_mut := Minimality for ArmsWrite Sort Prop.

Section Same.
Variables p q : plan.
Hypothesis exclusive : forall x, is_exclusive p x -> is_exclusive q x.
Hypothesis arm : forall x a, is_arm q x a -> is_arm p x a.
Hypothesis direct : forall a z, Directly p a z -> Directly q a z.
Hypothesis written : forall i z, In i (writes p z) -> In i (writes q z).
Hypothesis left_at : forall x, leave_of p x = leave_of q x.
Hypothesis covers : forall z n, Covers p z n -> Covers q z n.

Lemma same_arms i x : ArmsWrite p i x -> ArmsWrite q i x.
Proof.
  apply (arms_write_mut p i (ArmWrites q i) (ArmsWrite q i)).
  - intros a z D W. exact (by_step q i a z (direct _ _ D) (written _ _ W)).
  - intros a y D _ Y. apply (by_node q i a y); [rewrite <- left_at; apply direct; exact D | exact Y].
  - intros y Y _ H. apply each; [apply exclusive; exact Y|]. intros a A. apply H. apply arm. exact A.
Qed.
Lemma same_written i n : WrittenBefore p i n -> WrittenBefore q i n.
Proof.
  intros [(z & Z & C & W)|(x & L & C & W)]; [left; exists z; auto|]. right. exists x. rewrite <- left_at. auto using same_arms.
Qed.
End Same.

Lemma same_shown p first last i r : Shows p i r -> Shows (with_lives p first last) i r.
Proof. induction 1 as [i N|i r V S IH]; [apply itself; exact N | apply through; [exact V | exact IH]]. Qed.

Lemma written_bare p first last i n : WrittenBefore p i n -> WrittenBefore (with_lives p first last) i n.
Proof. apply same_written; auto. Qed.
Lemma written_whole p first last i n : WrittenBefore (with_lives p first last) i n -> WrittenBefore p i n.
Proof. apply same_written; auto. Qed.

Lemma safe_in_lives p : Safe p -> SafeInSomeLives p.
Proof.
  intros (NLO & NR & WP & TW & LC & WO & VS & IP & WD & LK & KA & CA & AN & TD).
  exists (fun i => made (tensor_at p i)), (fun i => needed (tensor_at p i)).
  split; [exact NLO|]. split; [exact NR|]. split; [exact WP|]. split; [exact TW|]. split; [|split; [exact WO|]].
  - destruct LC as (A & B & C & D & E & F & G).
    split; [exact A|]. split; [exact B|]. split; [exact C|]. split; [|split; [exact E|split; [exact F|]]].
    + intros n r N I. destruct (D n r N I) as [W|[W|W]]; [left; exact W | right; left; apply written_bare; exact W |
        right; right; exact W].
    + intros i H R. destruct (G i H R) as [X [W|W]]; (split; [exact X|]); [left; exact W | right; apply written_bare; exact W].
  - split; [exact VS|]. split; [exact IP|]. split; [exact WD|]. split; [exact LK|]. split; [exact KA|].
    split; [|split; [exact AN | exact TD]].
    intros i j x y I J N Wi Wj X Y A E. destruct (CA i j x y I J N Wi Wj X Y A E) as (r & Si & Sj). exists r.
    split; apply same_shown; assumption.
Qed.

(** * Paths and runs *)

Section Runs.
Variables (V : Type) (p : plan).
Local Notation q := (bare p).

Ltac to_path t := induction 1 as [n G W|l k m n P IH G W|l k m e P IH L I W];
  [exact (from_caller t _ n G W) | exact (onward t _ l k m n IH G W) | exact (again t _ l k m e IH L I W)].
Lemma path_bare way l m n : Path p way l m n -> Path q way l m n.
Proof. to_path constr:(bare p). Qed.
Lemma path_whole way l m n : Path q way l m n -> Path p way l m n.
Proof. to_path constr:(p). Qed.

Ltac to_acts t := induction 1 as [s|s u w A IH Al|s u v A IH N T W S];
  [exact (idle V t s) | exact (stores V t s u w IH Al) | exact (views V t s u v IH N T W S)].
Lemma acts_bare s t : acts V p s t -> acts V q s t.
Proof. to_acts constr:(bare p). Qed.
Lemma acts_whole s t : acts V q s t -> acts V p s t.
Proof. to_acts constr:(p). Qed.

Ltac to_full t acts_to := induction 1 as [s n G Go|l m s u n F IH A D Go|l m s u e F IH A D L I];
  [exact (full_first V t s n G Go) | exact (full_onward V t l m s u n IH (acts_to _ _ A) D Go)
  | exact (full_again V t l m s u e IH (acts_to _ _ A) D L I)].
Lemma full_bare l m s : in_full V p l m s -> in_full V q l m s.
Proof. to_full constr:(bare p) acts_bare. Qed.
Lemma full_whole l m s : in_full V q l m s -> in_full V p l m s.
Proof. to_full constr:(p) acts_whole. Qed.

Section Programs.
Variable R : Type.

Ltac to_kernel t := induction 1 as [d W|d f l F K IH|d w c f l A K IH];
  [exact (whole V t R _ d W) | exact (then_load V t R _ d f l F IH) | exact (then_put V t R _ d w c f l A IH)].
Lemma kernel_bare n d l : Kernel V p R n d l -> Kernel V q R n d l.
Proof. to_kernel constr:(bare p). Qed.
Lemma kernel_whole n d l : Kernel V q R n d l -> Kernel V p R n d l.
Proof. to_kernel constr:(p). Qed.

Ltac to_performs t := induction 1 as [s|l s v u N T W S P IH|f l s u L N P IH|w c f l s u A P IH];
  [exact (performed V t R s) | exact (makes_view V t R l s v u N T W S IH) | exact (loads V t R f l s u L N IH)
  | exact (puts V t R w c f l s u A IH)].
Lemma performs_bare l s t : performs V p R l s t -> performs V q R l s t.
Proof. to_performs constr:(bare p). Qed.
Lemma performs_whole l s t : performs V q R l s t -> performs V p R l s t.
Proof. to_performs constr:(p). Qed.

Ltac to_runs t performs_to := induction 1 as [n G Go W|l m s u n X IH P D Go W|l m s u e X IH P D L I W];
  [exact (run_first V t R _ _ _ n G Go W) | exact (run_onward V t R _ _ _ l m s u n IH (performs_to _ _ _ P) D Go W)
  | exact (run_again V t R _ _ _ l m s u e IH (performs_to _ _ _ P) D L I W)].
Lemma runs_bare way f s0 l m s : runs V p R way f s0 l m s -> runs V q R way f s0 l m s.
Proof. to_runs constr:(bare p) performs_bare. Qed.
Lemma runs_whole way f s0 l m s : runs V q R way f s0 l m s -> runs V p R way f s0 l m s.
Proof. to_runs constr:(p) performs_whole. Qed.

Lemma local_bare way f : Local V p R way f -> Local V q R way f.
Proof. intros L l m n P. exact (kernel_bare _ _ _ (L l m n (path_whole _ _ _ _ P))). Qed.
Lemma local_whole way f : Local V q R way f -> Local V p R way f.
Proof. intros L l m n P. exact (kernel_whole _ _ _ (L l m n (path_bare _ _ _ _ P))). Qed.
End Programs.

(** * The statements *)

Lemma evidence_has_no_say_about_arenas : RunsAsPrivate V p <-> RunsAsPrivate V q.
Proof. split; intros H; exact H. Qed.
Lemma evidence_has_no_say_about_callers : CallersCanBegin V p <-> CallersCanBegin V q.
Proof. split; intros H; exact H. Qed.

Lemma evidence_has_no_say_about_values : ReadsFindValues V p <-> ReadsFindValues V q.
Proof.
  split; intros (A & B & C & D & E); (split; [|split; [|split; [|split]]]).
  - intros l m s r x F. exact (A l m s r x (full_whole _ _ _ F)).
  - intros l m s t r x F Ac. exact (B l m s t r x (full_whole _ _ _ F) (acts_whole _ _ Ac)).
  - intros way l m n r P W. exact (C way l m n r (path_whole _ _ _ _ P) (written_whole p _ _ _ _ W)).
  - intros way l m y a z r P. exact (D way l m y a z r (path_whole _ _ _ _ P)).
  - intros way l m r P. exact (E way l m r (path_whole _ _ _ _ P)).
  - intros l m s r x F. exact (A l m s r x (full_bare _ _ _ F)).
  - intros l m s t r x F Ac. exact (B l m s t r x (full_bare _ _ _ F) (acts_bare _ _ Ac)).
  - intros way l m n r P W. exact (C way l m n r (path_bare _ _ _ _ P) (written_bare p _ _ _ _ W)).
  - intros way l m y a z r P. exact (D way l m y a z r (path_bare _ _ _ _ P)).
  - intros way l m r P. exact (E way l m r (path_bare _ _ _ _ P)).
Qed.

Lemma evidence_has_no_say_about_progress : Progress V p <-> Progress V q.
Proof.
  split; intros (A & B & C); (split; [|split]).
  - intros R way f s0 l m s L X. destruct (A R way f s0 l m s (local_whole R way f L) (runs_whole R _ _ _ _ _ _ X)) as (t & P & D).
    exists t. split; [exact (performs_bare R _ _ _ P) | exact D].
  - intros R c f s0 n Ch L G N. destruct (B R c f s0 n Ch (local_whole R (Chosen p c) f L) G N) as (l & m & s & X & E). exists l, m, s.
    split; [exact (runs_bare R _ _ _ _ _ _ X) | exact E].
  - intros R way f s0 l m s t X P. exact (C R way f s0 l m s t (runs_whole R _ _ _ _ _ _ X) (performs_whole R _ _ _ P)).
  - intros R way f s0 l m s L X. destruct (A R way f s0 l m s (local_bare R way f L) (runs_bare R _ _ _ _ _ _ X)) as (t & P & D).
    exists t. split; [exact (performs_whole R _ _ _ P) | exact D].
  - intros R c f s0 n Ch L G N. destruct (B R c f s0 n Ch (local_bare R (Chosen p c) f L) G N) as (l & m & s & X & E). exists l, m, s.
    split; [exact (runs_whole R _ _ _ _ _ _ X) | exact E].
  - intros R way f s0 l m s t X P. exact (C R way f s0 l m s t (runs_bare R _ _ _ _ _ _ X) (performs_bare R _ _ _ P)).
Qed.

Lemma evidence_has_no_say_about_functions : FunctionsAreComputed V p <-> FunctionsAreComputed V q.
Proof.
  split; intros H zero c g s0 n Ch L G N.
  - destruct (H zero c g s0 n Ch (fun l m k w P => L l m k w (path_bare _ _ _ _ P)) G N) as (l & m & s & t & X & E & P & D & W).
    exists l, m, s, t. split; [exact (runs_bare _ _ _ _ _ _ _ X)|]. split; [exact E|].
    split; [exact (performs_bare _ _ _ _ P)|]. split; [exact D | exact W].
  - destruct (H zero c g s0 n Ch (fun l m k w P => L l m k w (path_whole _ _ _ _ P)) G N) as (l & m & s & t & X & E & P & D & W).
    exists l, m, s, t. split; [exact (runs_whole _ _ _ _ _ _ _ X)|]. split; [exact E|].
    split; [exact (performs_whole _ _ _ _ P)|]. split; [exact D | exact W].
Qed.

Lemma becomes_bare m k : becomes p V m k -> becomes q V m k.
Proof. induction 1 as [m|m l n k B IH C]; [exact (unchanged q V m) | exact (changed q V m l n k IH C)]. Qed.
Lemma becomes_whole m k : becomes q V m k -> becomes p V m k.
Proof. induction 1 as [m|m l n k B IH C]; [exact (unchanged p V m) | exact (changed p V m l n k IH C)]. Qed.
Lemma evidence_has_no_say_about_inputs : KeptInputsStay p V <-> KeptInputsStay q V.
Proof.
  split; intros H m k i x B; [exact (H m k i x (becomes_whole _ _ B)) | exact (H m k i x (becomes_bare _ _ B))].
Qed.

Variable before : Z -> Z -> Prop.
Lemma evidence_has_no_say_about_schedules : RunsConcurrentlyAsPrivate V p before <-> RunsConcurrentlyAsPrivate V q before.
Proof. split; intros H; exact H. Qed.
Lemma evidence_has_no_say_about_their_progress : ConcurrentProgress V p before <-> ConcurrentProgress V q before.
Proof.
  split; intros H R f r s K.
  - exact (H R f r s (fun n N => kernel_whole R n _ _ (K n N))).
  - exact (H R f r s (fun n N => kernel_bare R n _ _ (K n N))).
Qed.
End Runs.
