(** A symbolic plan is safe at every shape with the offsets of that shape, tensors and accesses included. If two tensors have
    a byte in common there, their storages are of one slot, and then they have it in common in the plan too. *)
From Coq Require Import ZArith List Bool Lia Znumtheory.
From Tmmu Require Import Lists Columns Check Safe Shapes Claims Symbolic ListsProof ShapesProof SymbolicProof Evidence
  EvidenceProof.
Import ListNotations.
Open Scope Z_scope.

Section Moved.
Variable p : plan.
Variables size room : Z -> Z.
Hypothesis safe : Safe p.
Hypothesis turns : SlotsTakeTurns p.
Hypothesis fits : StoragesFitSlots p.
Hypothesis sums : PrefixSums p.
Hypothesis aligned : forall s, 0 <= s < slots p -> 1 <= k_alignment (slot_at p s).
Hypothesis shape : ShapeFits p size room.
Hypothesis within_storages : forall i, is_tensor p i ->
  window (tensor_at p i) + bytes (tensor_at p i) <= size (home (tensor_at p i)).
Local Notation q := (moved p size room).

Lemma same_place i j x y : is_tensor p i -> is_tensor p j -> inside p i x -> inside p j y ->
  tensor_arena p i = tensor_arena p j -> address_of q i + x = address_of q j + y ->
  address_of p i + x = address_of p j + y.
Proof.
  intros I J X Y A E. destruct safe as (_ & _ & _ & TW & _). destruct (TW i I) as (K & W & _), (TW j J) as (L & U & _).
  pose proof (within_storages i I) as Fi. pose proof (within_storages j J) as Fj.
  assert (Aq : forall i, address_of q i =
    offset_in p room (s_slot (storage_at p (home (tensor_at p i)))) + window (tensor_at p i)) by reflexivity.
  rewrite !Aq in E. unfold address_of.
  destruct (Z.eq_dec (s_slot (storage_at p (home (tensor_at p i)))) (s_slot (storage_at p (home (tensor_at p j))))) as [S|S].
  - destruct (sums _ K) as [Ok _]. destruct (sums _ L) as [Om _]. rewrite S in *. cbv zeta in *. lia.
  - exfalso. apply (apart_at_shape p fits aligned size room shape _ _ K L S A (address_of q i + x)); rewrite Aq;
      unfold has_byte, inside in *; cbn in *; lia.
Qed.

Lemma safe_when_moved : Safe q.
Proof.
  destruct safe as (NLO & NR & WP & TW & LC & WO & VS & IP & WD & LK & KA & CA & AN & TD).
  destruct (safe_at_shape p turns fits WP sums aligned size room shape) as (NLO' & NR' & WP').
  assert (Tt : forall n i, is_step p n -> touches p n i -> is_tensor p i) by (intros n i N T; apply (proj1 LC n i N T)).
  split; [exact NLO'|]. split; [exact NR'|]. split; [exact WP'|]. split; [|split; [|split; [exact WO|split; [|split; [|split;
    [|split; [exact LK|split; [|split; [|split; [exact AN|exact TD]]]]]]]]]].
  - intros i I. destruct (TW i I) as (K & W & B & L1 & L2 & P & D & A). pose proof (within_storages i I) as F.
    destruct (WP _ K) as (_ & _ & _ & _ & _ & _ & _ & Ps & Ds & _).
    destruct (WP' _ K) as (_ & _ & _ & _ & _ & _ & _ & _ & Ds' & _). cbv zeta in *.
    pose proof (power_divides _ _ P Ps A) as Ad.
    assert (Dw : (alignment (tensor_at p i) | window (tensor_at p i))).
    { unfold address_of in D. apply (Z.divide_add_cancel_r _ _ _ (Z.divide_trans _ _ _ Ad Ds) D). }
    split; [exact K|]. split; [exact W|]. split; [exact F|]. split; [exact L1|]. split; [exact L2|]. split; [exact P|].
    split; [|exact A]. unfold address_of. apply Z.divide_add_r; [exact (Z.divide_trans _ _ _ Ad Ds') | exact Dw].
  - destruct LC as (A & B & C & D & E & F & G).
    assert (Wq : forall i n, WrittenBefore p i n -> WrittenBefore q i n) by (intros i n; apply same_written; auto).
    split; [exact A|]. split; [exact B|]. split; [exact C|]. split; [|split; [exact E|split; [exact F|]]].
    + intros n r N I. destruct (D n r N I) as [W|[W|W]]; [left; exact W | right; left; apply Wq; exact W | right; right; exact W].
    + intros i H R. destruct (G i H R) as [X [W|W]]; (split; [exact X|]); [left; exact W | right; apply Wq; exact W].
  - intros v I V. destruct (VS v I V) as (Tb & H & Ad & R). split; [exact Tb|]. split; [exact H|]. split; [|exact R].
    unfold address_of in *. cbn in *. rewrite H in *. lia.
  - intros w I O. destruct (IP w I O) as (To & H & Ad & R). split; [exact To|]. split; [exact H|]. split; [|exact R].
    unfold address_of in *. cbn in *. rewrite H in *. lia.
  - intros n w i x y N W V I D S X Y A E. apply (WD n w i x y N W V I D S X Y A).
    exact (same_place w i x y (Tt n w N (or_intror W)) I X Y A E).
  - intros i j I. destruct (KA i j I) as (Ti & Tj & D). split; [exact Ti|]. split; [exact Tj|].
    destruct (TW i Ti) as (K & _), (TW j Tj) as (L & _).
    set (k := home (tensor_at p i)) in *. set (m := home (tensor_at p j)) in *.
    destruct (Z.eq_dec (s_slot (storage_at p k)) (s_slot (storage_at p m))) as [S|S];
      [|exact (apart_at_shape p fits aligned size room shape k m K L S)].
    intros A x X Y. destruct (sums k K) as [Ok _]. destruct (sums m L) as [Om _]. rewrite S in Ok.
    destruct shape as [_ Sh]. destruct (Sh k K) as [Zk _]. destruct (Sh m L) as [Zm _].
    change (home (tensor_at q i)) with k in *. change (home (tensor_at q j)) with m in *.
    unfold arena_of, has_byte in *. cbn in *. apply (D A (s_offset (storage_at p k))); unfold has_byte; lia.
  - intros i j x y I J N Wi Wj X Y A E.
    destruct (CA i j x y I J N Wi Wj X Y A (same_place i j x y I J X Y A E)) as (r & Si & Sj). exists r.
    assert (Sq : forall i r, Shows p i r -> Shows q i r).
    { induction 1 as [k Vk|k t Vk Sk IH]; [apply itself; exact Vk | apply through; [exact Vk | exact IH]]. }
    split; apply Sq; assumption.
Qed.
End Moved.

Lemma largest_of_spec least l f most : least <= most -> (forall i, In i l -> f i <= most) ->
  least <= largest_of least l f <= most /\ forall i, In i l -> f i <= largest_of least l f.
Proof.
  intros L. unfold largest_of. induction l as [|i l IH]; intros H; cbn; [split; [lia | intros ? []]|].
  destruct IH as [B U]; [intros j J; apply H; right; exact J|]. pose proof (H i (or_introl eq_refl)). split; [lia|].
  intros j [<-|J]; [lia|]. specialize (U j J). lia.
Qed.

(** Tensors never need more than is planned. *)
Lemma sizes_fit p bytes_ : Safe p -> StoragesFitSlots p -> (forall s, 0 <= s < slots p -> 1 <= k_bytes (slot_at p s)) ->
  Shrinks p bytes_ -> ShapeFits p (storage_size p bytes_) (slot_size p bytes_) /\
  forall i, is_tensor p i -> window (tensor_at p i) + bytes_ i <= storage_size p bytes_ (home (tensor_at p i)).
Proof.
  intros (_ & _ & WP & TW & _) F B (Sh & _).
  assert (St : forall k, is_storage p k -> (0 <= storage_size p bytes_ k <= s_bytes (storage_at p k)) /\
    forall i, In i (filter (fun i => home (tensor_at p i) =? k) (run 0 (tensors p))) ->
      window (tensor_at p i) + bytes_ i <= storage_size p bytes_ k).
  { intros k K. apply largest_of_spec; [destruct (WP k K) as (_ & _ & _ & Z & _); exact Z|].
    intros i I. apply filter_In in I as [I E]. apply run_spec in I. apply Z.eqb_eq in E. subst k.
    destruct (TW i I) as (_ & _ & W & _). specialize (Sh i I). lia. }
  split; [split|].
  - intros s S. enough (1 <= slot_size p bytes_ s <= k_bytes (slot_at p s)) by lia. apply largest_of_spec; [auto|].
    intros k K. apply filter_In in K as [K E]. apply run_spec in K. apply Z.eqb_eq in E. subst s.
    destruct (St k K) as [[_ U] _]. destruct (F k K) as (_ & _ & U' & _). lia.
  - intros k K. split; [apply St; exact K|]. destruct (F k K) as (S & _ & U & _).
    refine (proj2 (largest_of_spec 1 _ _ (k_bytes (slot_at p (s_slot (storage_at p k)))) (B _ S) _) k _).
    + intros m M. apply filter_In in M as [M E]. apply run_spec in M. apply Z.eqb_eq in E. destruct (St m M) as [[_ U1] _].
      destruct (F m M) as (_ & _ & U2 & _). rewrite E in U2. lia.
    + apply filter_In. split; [apply run_spec; exact K | apply Z.eqb_refl].
  - intros i I. destruct (TW i I) as (K & _). apply St; [exact K|]. apply filter_In. split; [apply run_spec; exact I | apply Z.eqb_refl].
Qed.

Lemma safe_plan_at_shape p bytes_ : Safe p -> SlotsTakeTurns p -> StoragesFitSlots p -> PrefixSums p ->
  (forall s, 0 <= s < slots p -> 1 <= k_alignment (slot_at p s) /\ 1 <= k_bytes (slot_at p s)) ->
  Shrinks p bytes_ -> Safe (plan_at_shape p bytes_).
Proof.
  intros S T F P A Sh. destruct (sizes_fit p bytes_ S F (fun s H => proj2 (A s H)) Sh) as [Fit Tf].
  apply safe_when_moved; auto; [apply safe_at_sizes; assumption | intros s H; apply A; exact H].
Qed.
