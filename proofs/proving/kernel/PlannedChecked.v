(** The checker accepts what the planner's functions give, with the evidence that they compute, for all requests: the
    memory and its claims, and the plans of straight programs. spec: V6.20 *)
From Coq Require Import ZArith List Bool Lia Znumtheory.
From Tmmu Require Import Lists Columns Check Safe Claims Scan Symbolic Planned ListsProof Placement ClaimsProof ScanProof
  SymbolicProof PlannedProof.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** * All rows, and runs of rows *)

Lemma every_holds count f : (forall i, 0 <= i < count -> f i = true) -> every count f = true.
Proof.
  intros H. unfold every. destruct count as [|q|]; auto.
  assert (G : forall n start, (forall i, start <= i < start + Zpos n -> f i = true) -> every_from n start f = true).
  { induction n as [n IH|n IH|]; intros start F; cbn [every_from].
    - rewrite F by lia. rewrite IH by (intros i I; apply F; lia). apply IH. intros i I. apply F. lia.
    - rewrite IH by (intros i I; apply F; lia). apply IH. intros i I. apply F. lia.
    - apply F. lia. }
  apply G. intros i I. apply H. lia.
Qed.

Lemma run_is_seq a n : run (Z.of_nat a) (Z.of_nat (a + n)) = map Z.of_nat (seq a n).
Proof.
  assert (G : forall c a rest, run_from c (Z.of_nat a) rest = map Z.of_nat (seq a (Pos.to_nat c)) ++ rest).
  { induction c as [c IH|c IH|]; intros b rest; cbn [run_from].
    - replace (Z.of_nat b + 1 + Zpos c) with (Z.of_nat (S b + Pos.to_nat c)) by lia.
      replace (Z.of_nat b + 1) with (Z.of_nat (S b)) by lia. rewrite !IH, Pos2Nat.inj_xI.
      replace (S (2 * Pos.to_nat c)) with (S (Pos.to_nat c + Pos.to_nat c)) by lia. cbn [seq map app].
      rewrite seq_app, map_app, <- app_assoc. reflexivity.
    - replace (Z.of_nat b + Zpos c) with (Z.of_nat (b + Pos.to_nat c)) by lia. rewrite !IH, Pos2Nat.inj_xO.
      replace (2 * Pos.to_nat c)%nat with (Pos.to_nat c + Pos.to_nat c)%nat by lia.
      rewrite seq_app, map_app, <- app_assoc. reflexivity.
    - reflexivity. }
  unfold run. replace (Z.of_nat (a + n) - Z.of_nat a) with (Z.of_nat n) by lia. destruct n as [|n]; [reflexivity|].
  cbn [Z.of_nat]. rewrite G, app_nil_r, SuccNat2Pos.id_succ. reflexivity.
Qed.

Lemma run_split a b c : 0 <= a <= b -> b <= c -> run a c = run a b ++ run b c.
Proof.
  intros A B. rewrite <- (Z2Nat.id a), <- (Z2Nat.id b), <- (Z2Nat.id c) by lia.
  set (x := Z.to_nat a). set (y := (Z.to_nat b - x)%nat). set (z := (Z.to_nat c - Z.to_nat b)%nat).
  replace (Z.to_nat b) with (x + y)%nat by lia. replace (Z.to_nat c) with (x + y + z)%nat by lia.
  rewrite !run_is_seq. replace (x + y + z)%nat with (x + (y + z))%nat by lia. rewrite run_is_seq, seq_app, map_app.
  reflexivity.
Qed.
Lemma run_first a c : 0 <= a < c -> run a c = a :: run (a + 1) c.
Proof.
  intros A. rewrite (run_split a (a + 1) c) by lia. unfold run at 1. replace (a + 1 - a) with 1 by lia. reflexivity.
Qed.

Lemma filter_pairs {A} (R : A -> A -> Prop) f l : ForallOrdPairs R l -> ForallOrdPairs R (filter f l).
Proof.
  induction 1 as [|x l F _ IH]; cbn; [constructor|]. destruct (f x); [|exact IH]. constructor; [|exact IH].
  rewrite Forall_forall in *. intros y I. apply F. apply filter_In in I. tauto.
Qed.
Lemma pairs_imply {A} (R Q : A -> A -> Prop) l : ForallOrdPairs R l ->
  (forall x y, In x l -> In y l -> R x y -> Q x y) -> ForallOrdPairs Q l.
Proof.
  induction 1 as [|x l F _ IH]; intros H; constructor.
  - rewrite Forall_forall in *. intros y I. apply H; [left; reflexivity | right; exact I | apply F; exact I].
  - apply IH. intros y z I J. apply H; right; assumption.
Qed.
Lemma run_ascends n : 0 <= n -> ForallOrdPairs Z.lt (run 0 n).
Proof.
  intros N. rewrite <- (Z2Nat.id n) by lia. change 0 with (Z.of_nat 0).
  rewrite <- (Nat.add_0_l (Z.to_nat n)), run_is_seq. generalize 0%nat. induction (Z.to_nat n) as [|m IH]; intros a; cbn; constructor; auto.
  rewrite Forall_forall. intros y I. apply in_map_iff in I as (j & <- & J). apply in_seq in J. lia.
Qed.

(** * Groups *)

Lemma slice (A B C : list Z) : map (fun x => nth (Z.to_nat x) (A ++ B ++ C) 0)
  (run (Z.of_nat (length A)) (Z.of_nat (length A + length B))) = B.
Proof.
  rewrite run_is_seq, map_map. revert A. induction B as [|b B IH]; intros A; [reflexivity|]. cbn [length seq map].
  rewrite Nat2Z.id, app_nth2, Nat.sub_diag by lia. cbn [app nth]. f_equal.
  specialize (IH (A ++ [b])). rewrite app_length, <- app_assoc in IH. cbn [length app] in IH.
  rewrite Nat.add_1_r in IH. exact IH.
Qed.

Section Gathered.
Variable of : Z -> Z.
Variables rows count : Z.
Local Notation members_of := (members_of of rows).
Local Notation before_group := (before_group of rows).

Lemma before_split g : 0 <= g < count -> exists rest, before_group count = before_group g ++ members_of g ++ rest.
Proof.
  intros G. unfold Planned.before_group. rewrite (run_split 0 g count), (run_first g count), flat_map_app by lia.
  cbn [flat_map]. eauto.
Qed.
Lemma before_next g : 0 <= g -> before_group (g + 1) = before_group g ++ members_of g.
Proof.
  intros G. unfold Planned.before_group. rewrite (run_split 0 g (g + 1)), (run_first g (g + 1)), flat_map_app by lia.
  f_equal. unfold run. rewrite Z.sub_diag. cbn. apply app_nil_r.
Qed.

Lemma gathered_group g : 0 <= g < count -> group (gathered of rows count) g = members_of g.
Proof.
  intros G. unfold group, gathered. cbn [at_ order]. rewrite before_next, app_length by lia.
  destruct (before_split g G) as (rest & ->). apply slice.
Qed.

Lemma gathered_lists k : 0 <= k < rows -> 0 <= of k < count ->
  listed (gathered of rows count) (of k) (place_of of rows k) k = true.
Proof.
  intros K G. unfold listed, gathered, place_of. cbn [at_ order]. rewrite before_next, Nat2Z.id by lia.
  destruct (before_split (of k) G) as (rest & ->).
  assert (M : members_of (of k) = filter (fun j => of j =? of k) (run 0 k) ++ k :: filter (fun j => of j =? of k) (run (k + 1) rows)).
  { unfold Planned.members_of. rewrite (run_split 0 k rows), (run_first k rows), filter_app by lia. cbn [filter].
    rewrite Z.eqb_refl. reflexivity. }
  rewrite M, app_nth2_plus, <- app_assoc, app_nth2, Nat.sub_diag, !app_length by lia. cbn [app nth length].
  rewrite Z.eqb_refl, andb_true_r. apply andb_true_intro. split; [apply Z.leb_le | apply Z.ltb_lt]; lia.
Qed.
End Gathered.

(** * The memory *)

Lemma power_is_found a : Alignment a -> power_of_two a = true.
Proof.
  intros [(k & K & ->) B]. unfold power_of_two. apply andb_true_intro. split.
  - apply Z.leb_le. pose proof (Z.pow_pos_nonneg 2 k). lia.
  - apply Z.eqb_eq. unfold U64 in *. assert (k < 64) by (apply (Z.pow_lt_mono_r_iff 2); lia).
    replace 64 with (64 - k + k) by lia. rewrite Z.pow_add_r by lia. apply Z.mod_mul.
    pose proof (Z.pow_pos_nonneg 2 k). lia.
Qed.
Lemma divides_evenly a x : Alignment a -> (a | x) -> x mod a = 0.
Proof.
  intros [P _] D. apply Z.mod_divide; [|exact D]. apply power_positive in P. lia.
Qed.

Section Planned.
Variable l : list request.
Variable last : Z.
Variable space : arena.
Hypothesis asked : Asked l last space.
Local Notation p := (planned l last space).
Local Notation lives := (map of_life l).

Lemma slot_aligned s : Alignment (largest l alignment_of (least_alignment space) s).
Proof.
  destruct asked as (_ & R & B & _). apply largest_spec; [exact B|]. intros k K. apply R, request_in, K.
Qed.

Lemma planned_placed k : is_storage p k -> placed p k = true.
Proof.
  intros K. destruct (planned_well l last space asked k K) as (B & D & A & Z & O & C & U & _ & M & _ & M').
  destruct asked as (_ & R & Ab & _). destruct (R _ (request_in l k K)) as (_ & Ak & _).
  pose proof (divides_evenly _ _ Ak M) as E. pose proof (divides_evenly _ _ Ab M') as E'.
  pose proof (power_is_found _ Ak) as P. pose proof (power_is_found _ Ab) as P'.
  unfold placed. cbv zeta in *.
  repeat match goal with |- (_ &&& _) = true => apply andb_true_intro; split end;
    unfold row; rewrite ?andb_true_iff, ?Z.leb_le, ?Z.ltb_lt, ?Z.eqb_eq; auto; lia.
Qed.

Lemma planned_lists k : is_storage p k -> listed (tenants p) (slot_of l k) (s_place (storage_at p k)) k = true.
Proof.
  intros K. destruct (planned_fits l last space asked k K) as (S & _). apply gathered_lists; [exact K | exact S].
Qed.

Lemma planned_slotted k : is_storage p k ->
  slotted p k (storage_at p k) (slot_at p (s_slot (storage_at p k))) = true.
Proof.
  intros K. destruct (planned_fits l last space asked k K) as (S & _). unfold slotted, row.
  apply andb_true_intro; split; [|exact (planned_lists k K)]. apply andb_true_intro; split; [|reflexivity].
  apply andb_true_intro; split; [apply Z.leb_le | apply Z.ltb_lt]; lia.
Qed.

Lemma planned_in_slot k : is_storage p k -> in_slot p k = true.
Proof.
  intros K. destruct (planned_fits l last space asked k K) as (S & _ & B & _). unfold in_slot. cbv zeta.
  rewrite planned_slotted by exact K. cbn [planned storage_at slot_at s_slot s_bytes k_bytes] in B, S.
  cbn -[Z.leb Z.ltb Z.eqb Z.add Z.mul listed] in *.
  rewrite (proj2 (Z.leb_le _ _) (Z.le_refl _)), (proj2 (Z.leb_le _ _) (Zplus_le_compat_l _ _ _ B)).
  unfold listed. cbn -[Z.leb Z.ltb Z.eqb Z.mul] in *.
  rewrite (proj2 (Z.leb_le _ _)), (proj2 (Z.ltb_lt _ _)), Z.eqb_refl by lia. reflexivity.
Qed.

Lemma born_in_order k m : 0 <= k <= m -> m < storages p ->
  born (of_life (request_at l k)) <= born (of_life (request_at l m)).
Proof.
  destruct asked as (C & _). cbn. intros K M. unfold request_at.
  assert (G : forall r from i j, comes_by_birth from (map of_life r) -> (i <= j < length r)%nat ->
    born (of_life (nth i r nothing)) <= born (of_life (nth j r nothing))).
  { clear. induction r as [|x r IH]; intros from i j C I; cbn in I; [lia|]. destruct C as [F C]. destruct i as [|i], j as [|j]; cbn; try lia.
    - apply (comes_within _ _ C). apply in_map, nth_In. lia.
    - apply (IH (born (of_life x))); [exact C | lia]. }
  apply (G l 0 _ _ C). lia.
Qed.
Lemma born_and_dead k : is_storage p k ->
  0 <= born (of_life (request_at l k)) <= dies (of_life (request_at l k)).
Proof.
  intros K. destruct asked as (C & _). apply (comes_within _ _ C), in_map, request_in, K.
Qed.

Lemma taking_turns r : forall ended,
  (forall k, In k r -> is_storage p k /\ ended < born (of_life (request_at l k))) ->
  ForallOrdPairs (fun k m => dies (of_life (request_at l k)) < born (of_life (request_at l m))) r ->
  take_turns p ended r = true.
Proof.
  induction r as [|k r IH]; intros ended H T; [reflexivity|]. inversion T as [|? ? F T']. subst.
  destruct (H k) as [K E]; [left; reflexivity|]. pose proof (born_and_dead k K). cbn [take_turns].
  repeat (apply andb_true_intro; split); unfold since, until; cbn [reuse planned storage_at s_birth s_death];
    [apply Z.ltb_lt; lia | apply Z.leb_le; lia|].
  apply IH; [|exact T']. intros m M. destruct (H m) as [M' _]; [right; exact M|]. split; [exact M'|].
  rewrite Forall_forall in F. apply F, M.
Qed.

Lemma planned_take_turns s : 0 <= s < slots p -> turns_taken p s = true.
Proof.
  intros S. unfold turns_taken. cbn [tenants planned]. rewrite gathered_group by exact S.
  assert (I : forall k, In k (members_of (slot_of l) (storages p) s) -> is_storage p k /\ slot_of l k = s).
  { intros k I. apply filter_In in I as [I E]. apply run_spec in I. apply Z.eqb_eq in E. split; [exact I | exact E]. }
  apply taking_turns.
  - intros k M. apply I in M as [K _]. pose proof (born_and_dead k K). split; [exact K | lia].
  - apply pairs_imply with (1 := filter_pairs _ _ _ (run_ascends (storages p) ltac:(cbn; lia))).
    intros k m M N L. apply I in M as [K E]. apply I in N as [M E'].
    destruct (planned_turns l last space asked k m K M ltac:(lia) ltac:(cbn; congruence)) as [T _].
    pose proof (born_and_dead m M). pose proof (born_in_order k m ltac:(unfold is_storage in *; lia) ltac:(apply M)).
    destruct (Z_lt_le_dec (dies (of_life (request_at l k))) (born (of_life (request_at l m)))); [assumption|].
    exfalso. apply (T (born (of_life (request_at l m)))); unfold lives_at; cbn; lia.
Qed.

(** Slots one behind the other, as prefix sums put them. *)
Lemma put_in_order r : NoDup r -> (forall s, In s r -> 0 <= s < slots p) -> forall from,
  (forall s, In s r -> find (fun q => fst q =? s) (put (slots_planned l last space) (fun t => k_bytes (slot_at p t)) from r)
     = Some (s, offset_of l last space s)) ->
  behind p from r = true /\ summed p from r = true.
Proof.
  induction r as [|s r IH]; intros N B from H; [split; reflexivity|]. inversion N as [|? ? A N']. subst.
  pose proof (H s (or_introl eq_refl)) as E. cbn [put find fst] in E. rewrite Z.eqb_refl in E. inversion E as [O]. clear E.
  assert (Al : 1 <= k_alignment (slot_at p s)) by (apply power_positive, (planned_alignment l last space asked)).
  destruct (largest_spec l room_of 1 s) as (Z & _).
  destruct (IH N' (fun t I => B t (or_intror I)) (k_offset (slot_at p s) + k_bytes (slot_at p s))) as [X Y].
  { intros t I. specialize (H t (or_intror I)). cbn [put find fst] in H.
    destruct (Z.eqb_spec s t) as [->|D]; [contradiction|].
    replace (k_offset (slot_at p s)) with (round_up (k_alignment (slot_at p s)) from) by exact O. exact H. }
  split; cbn [behind summed]; rewrite ?X, ?Y, ?andb_true_r.
  - repeat (apply andb_true_intro; split); auto; apply Z.leb_le; [|cbn; lia]. cbn. rewrite <- O.
    apply rounded. exact Al.
  - repeat (apply andb_true_intro; split); auto; [apply Z.leb_le; exact Al | apply Z.leb_le; exact Z | apply Z.eqb_eq; symmetry; exact O].
Qed.

Lemma all_slots : slots_of (slots_planned l last space) 0 = run 0 (slots p).
Proof.
  unfold slots_of. cbn [slot_at slots_planned k_arena slots planned].
  induction (run 0 (Z.of_nat (slots_opened lives))) as [|x r IH]; cbn; [reflexivity | f_equal; exact IH].
Qed.

Lemma planned_in_order : behind p 0 (run 0 (slots p)) = true /\ summed p 0 (run 0 (slots p)) = true.
Proof.
  apply put_in_order; [apply run_distinct | intros s I; apply run_spec in I; exact I|]. intros s I. apply run_spec in I.
  rewrite <- all_slots. exact (proj2 (offset_found (slots_planned l last space) _ s I)).
Qed.

Lemma planned_memory_ok : memory_ok p = true.
Proof.
  unfold memory_ok, no_live_overlap. cbn [by_slots planned].
  rewrite (every_holds _ _ planned_placed), (every_holds _ _ planned_in_slot), (every_holds _ _ planned_take_turns).
  apply every_holds. intros a A. cbn [arenas planned] in A. replace a with 0 by lia. unfold group. cbn [ordered planned at_ order].
  rewrite map_id, Z.mul_0_l, Z.add_0_l, Z.mul_1_l. exact (proj1 planned_in_order).
Qed.

Lemma planned_lifetimes_checked : check_lifetimes p = true.
Proof. unfold check_lifetimes. rewrite planned_memory_ok. reflexivity. Qed.

(** * Its claims *)

Lemma planned_slots_ok : slots_ok p = true.
Proof.
  unfold slots_ok. cbn [by_slots planned]. apply andb_true_intro; split; [|reflexivity]. apply every_holds. intros k K.
  destruct (planned_fits l last space asked k K) as (_ & _ & B & _ & A & A').
  unfold fits_slot. cbn [by_slots planned]. cbv zeta.
  rewrite (proj2 (Z.leb_le _ _) B), (proj2 (Z.leb_le _ _) A), 
    (power_is_found (k_alignment (slot_at p (s_slot (storage_at p k)))) (slot_aligned _)).
  exact (proj2 (Z.leb_le _ _) A').
Qed.

Lemma planned_symbolic_ok : symbolic_ok p = true.
Proof.
  unfold symbolic_ok. rewrite (every_holds (slots p)) by (intros; reflexivity).
  rewrite (every_holds (arenas p)).
  - apply every_holds. intros k _. unfold at_its_slot. destruct asked as (_ & _ & _ & Sc & _).
    cbn -[Z.eqb]. rewrite Sc. apply Z.eqb_refl.
  - intros a A. cbn [arenas planned] in A. replace a with 0 by lia. change (slots_of p 0) with (slots_of (slots_planned l last space) 0).
    rewrite all_slots. exact (proj2 planned_in_order).
Qed.

Lemma planned_footprint_ok : footprints_ok p = true.
Proof.
  destruct asked as (_ & _ & _ & _ & _ & F). unfold footprints_ok. rewrite every_holds by (intros; apply Z.leb_le; exact F).
  apply every_holds. intros k K. destruct (planned_fits l last space asked k K) as (S & _ & B & _).
  pose proof (slots_end l last space _ S). unfold within_footprint. cbn -[Z.leb Z.add] in *. apply orb_true_intro. right.
  apply Z.leb_le. lia.
Qed.

(** At the fullest step each slot has a live storage, since no two that live there are of one slot. *)
Lemma full_at t : (slots_opened lives <= load t lives)%nat -> full p 0 t = true.
Proof.
  intros L. apply every_holds. intros s S. apply orb_true_intro. right. apply existsb_exists.
  set (living := filter (fun k => Claims.lives p k t) (run 0 (storages p))).
  assert (A : forall k, In k living -> is_storage p k /\ lives_at p k t).
  { intros k I. apply filter_In in I as [I E]. apply run_spec in I. split; [exact I|].
    unfold Claims.lives, between, lives_at in *. apply andb_prop in E as [E E']. apply Z.leb_le in E, E'. auto. }
  assert (D : NoDup (map (slot_of l) living)).
  { assert (N : NoDup living) by apply NoDup_filter, run_distinct. clearbody living.
    induction living as [|k r IH]; [constructor|]. inversion N. subst. cbn. constructor; [|apply IH; auto; intros; apply A; right; auto].
    intros I. apply in_map_iff in I as (m & E & I). destruct (A k (or_introl eq_refl)) as [K Lk], (A m (or_intror I)) as [M Lm].
    destruct (planned_turns l last space asked k m K M ltac:(congruence) ltac:(cbn; congruence)) as [T _]. apply (T t); auto. }
  assert (C : incl (map (slot_of l) living) (run 0 (slots p))).
  { intros x I. apply in_map_iff in I as (k & <- & I). apply run_spec. apply A in I as [K _].
    destruct (planned_fits l last space asked k K) as (Sk & _). exact Sk. }
  assert (N : (length (run 0 (slots p)) <= length (map (slot_of l) living))%nat).
  { pose proof (run_length 0 (slots p) ltac:(cbn; lia)) as R. cbn [slots planned slots_planned] in R.
    enough (load t lives = length living) by (rewrite map_length; cbn in *; lia).
    unfold living, load. cbn [storages planned slots_planned]. rewrite <- (Nat.add_0_l (length l)). change 0 with (Z.of_nat 0) at 1.
    rewrite run_is_seq. clear. unfold Claims.lives. cbn [storage_at planned s_birth s_death]. unfold request_at.
    assert (G : forall r a m, (forall j, (j < length r)%nat -> nth (a + j) m nothing = nth j r nothing) ->
      length (filter (alive t) (map of_life r)) = length (filter (fun k => let x := of_life (nth (Z.to_nat k) m nothing) in
        between (born x) t (dies x)) (map Z.of_nat (seq a (length r))))).
    { induction r as [|x r IH]; intros a m H; [reflexivity|]. cbn [map length seq filter].
      pose proof (H 0%nat ltac:(cbn; lia)) as X. rewrite Nat.add_0_r in X. rewrite Nat2Z.id, X. cbn [nth].
      specialize (IH (S a) m ltac:(intros j J; rewrite Nat.add_succ_comm; apply (H (S j)); cbn; lia)).
      change (between (born (of_life x)) t (dies (of_life x))) with (alive t (of_life x)).
      destruct (alive t (of_life x)); cbn [length]; [f_equal|]; exact IH. }
    apply G. intros j _. reflexivity. }
  pose proof (NoDup_length_incl D N C s) as I. rewrite run_spec in I. specialize (I S). apply in_map_iff in I as (k & E & I).
  exists k. destruct (A k I) as [K _]. split.
  - cbn [tenants planned]. rewrite gathered_group by exact S. apply filter_In. split; [apply run_spec; exact K | apply Z.eqb_eq; exact E].
  - apply filter_In in I as [_ I]. rewrite I, andb_true_r. unfold row, is_storage in *.
    rewrite (proj2 (Z.leb_le _ _)), (proj2 (Z.ltb_lt _ _)) by lia. cbn. apply Z.eqb_eq. exact E.
Qed.

Lemma planned_full : full p 0 (fullest (arena_at p 0)) = true.
Proof.
  cbn [arena_at planned fullest]. unfold fullest_step. destruct (find _ (map born lives)) as [t|] eqn:F.
  - apply find_some in F as [_ F]. apply Nat.leb_le in F. apply full_at, F.
  - destruct asked as (C & _). destruct (linear_scan_spec _ _ C) as (_ & _ & [E|(t & I & L)]).
    + apply full_at. rewrite E. lia.
    + pose proof (find_none _ _ F t I) as N. cbn in N. apply Nat.leb_gt in N. lia.
Qed.

(** * Plans of straight programs *)

Section Program.
Variables given_ returned_ : Z -> bool.
Variable reads_ : Z -> list Z.
Hypothesis covered : Covered l last space given_ returned_ reads_.
Local Notation q := (planned_plan l last space given_ returned_ reads_).

Lemma one_branch z n : 0 <= n <= last -> covers q z n = true.
Proof. intros N. unfold covers, in_range, between. cbn. apply andb_true_intro. split; apply Z.leb_le; lia. Qed.

Lemma planned_tensor_ok i : is_tensor q i -> tensor_ok q i = true.
Proof.
  intros I. destruct covered as [T _]. specialize (T i I). cbv zeta in T.
  destruct (planned_well l last space asked i I) as (B & D & A & Z & O & C & U & _ & M & _). destruct T as [W Rt].
  destruct asked as (_ & R & _). destruct (R _ (request_in l i I)) as (Bz & Al & De). pose proof (divides_evenly _ _ Al M) as E.
  cbn [planned storage_at s_birth s_death s_bytes s_offset] in *.
  assert (Wr : if given_ i then born (of_life (request_at l i)) = 0
    else row (born (of_life (request_at l i))) last = true /\ mem i (writes q (born (of_life (request_at l i)))) = true).
  { destruct (given_ i) eqn:G; [exact W|]. split; [unfold row; rewrite (proj2 (Z.leb_le _ _)), (proj2 (Z.ltb_lt _ _)) by lia; reflexivity|].
    apply existsb_exists. exists i. split; [|apply Z.eqb_refl]. apply filter_In. split; [apply run_spec; exact I|].
    unfold planned_tensor. cbn [writer]. rewrite G. apply Z.eqb_refl. }
  assert (Rd : returned_ i = true -> (dies (of_life (request_at l i)) =? last_step p) = true) by
    (intros X; apply Z.eqb_eq; exact (Rt X)).
  assert (Cv : given_ i = false -> ((born (of_life (request_at l i)) <? last) &&& covers q (born (of_life (request_at l i))) last) = true).
  { intros X. rewrite X in W. rewrite one_branch, (proj2 (Z.ltb_lt _ _)) by lia. reflexivity. }
  unfold tensor_ok, address, shows, takes_place, written_before, listed. cbv zeta.
  cbn -[Z.leb Z.ltb Z.eqb Z.add Z.modulo row mem writes covers last_step storages power_of_two].
  rewrite !Z.add_0_r, !Z.add_0_l, E, (power_is_found _ Al). unfold row in *. cbn [andb].
  repeat match goal with |- (if _ then _ else false) = true => apply andb_true_intro; split end;
    try (apply andb_true_intro; split);
    try (first [apply Z.leb_le; lia | apply Z.ltb_lt; (unfold is_tensor in I; cbn in I |- *); lia | apply Z.eqb_refl | reflexivity]).
  - apply Z.leb_le. apply I.
  - destruct (given_ i) eqn:G; [rewrite Wr; reflexivity|]. destruct Wr as [W1 W2]. apply andb_prop in W1 as [W1 W3].
    rewrite W1, W2, W3, Z.leb_refl. destruct (Z.eqb_spec (born (of_life (request_at l i))) (-1)); [lia | reflexivity].
  - apply Z.leb_le. destruct (given_ i); lia.
  - destruct (returned_ i); [|reflexivity]. rewrite (Rd eq_refl). destruct (given_ i); [reflexivity|].
    rewrite (Cv eq_refl). apply orb_true_r.
  - unfold writers. destruct (_ =? -1); reflexivity.
  - rewrite Z.leb_refl. cbn. apply Z.ltb_lt. lia.
Qed.

Lemma planned_stays i n : born (of_life (request_at l i)) <= n <= dies (of_life (request_at l i)) -> 0 <= n ->
  stays (tensor_at q i) n = true.
Proof.
  intros B N. unfold stays, between. cbn. apply andb_true_intro. split; apply Z.leb_le; [destruct (given_ i)|]; lia.
Qed.

Lemma planned_step_ok n : is_step q n -> step_ok q n = true.
Proof.
  intros N. destruct covered as [T Rc]. unfold step_ok.
  assert (Rd : forallb (read_ok q n) (reads q n) = true).
  { apply forallb_forall. intros r I. destruct (Rc n r N I) as (K & D & W). specialize (T r K). cbv zeta in *.
    pose proof (born_and_dead r K). unfold is_step, is_storage in *. unfold read_ok, row, written_before. cbv zeta.
    rewrite planned_stays by (destruct W as [W|W]; [rewrite W in T|]; lia).
    cbn -[Z.leb Z.ltb Z.eqb covers] in *. rewrite (proj2 (Z.leb_le 0 r)), (proj2 (Z.ltb_lt r _)) by lia. cbn [andb].
    destruct (given_ r) eqn:G; [reflexivity|]. destruct W as [W|W]; [discriminate|].
    rewrite (proj2 (Z.ltb_lt _ _) W), one_branch by lia. rewrite orb_true_r. reflexivity. }
  rewrite Rd. apply andb_true_intro; split; [|reflexivity]. apply forallb_forall. intros w I.
  apply filter_In in I as [I E]. apply run_spec in I. specialize (T w I). cbv zeta in T. pose proof (born_and_dead w I).
  unfold planned_tensor in E. cbn [writer] in E. apply Z.eqb_eq in E. unfold is_step in N.
  destruct (given_ w) eqn:G; [lia|]. subst n. unfold write_ok, row. cbv zeta. rewrite planned_stays by lia.
  unfold is_storage in I. cbn -[Z.leb Z.ltb Z.eqb writers] in *. rewrite G, Z.eqb_refl.
  rewrite (proj2 (Z.leb_le 0 w)), (proj2 (Z.ltb_lt w _)) by lia. reflexivity.
Qed.

Lemma planned_checked : check q = true.
Proof.
  unfold check.
  change (memory_ok q) with (memory_ok p). rewrite planned_memory_ok, (every_holds _ _ planned_tensor_ok), (every_holds _ _ planned_step_ok).
  rewrite (every_holds (storages q)); [reflexivity|]. intros k K. unfold sharing_is_sound, group. cbn [members planned_plan at_ order].
  rewrite map_id, run_first by (unfold is_storage in K; lia). unfold run. rewrite Z.sub_diag. cbn -[Z.leb].
  rewrite (proj2 (Z.leb_le _ _)); [reflexivity|]. pose proof (born_and_dead k K). destruct (given_ k); lia.
Qed.
End Program.
End Planned.

(** * An example: the caller writes the first of three tensors, and reads the last two *)

Definition three_read (n : Z) : list Z := match n with 1 => [0] | 2 | 3 => [1] | _ => [] end.
Definition three_tensors : list request :=
  [Request (Life 0 1) 100 16; Request (Life 1 3) 200 64; Request (Life 2 3) 300 16].
Definition three_planned (reads_ : Z -> list Z) : plan :=
  planned_plan three_tensors 4 roomy (Z.eqb 0) (Z.leb 1) reads_.
Example three_are_covered : Covered three_tensors 4 roomy (Z.eqb 0) (Z.leb 1) three_read.
Proof.
  split; cbv zeta.
  - intros k K. unfold is_storage in K. cbn in K. assert (k = 0 \/ k = 1 \/ k = 2) as [->|[->| ->]] by lia;
      (split; [reflexivity | intros H; discriminate H || reflexivity]).
  - intros n r N I. unfold is_step in N. cbn in N. assert (n = 0 \/ n = 1 \/ n = 2 \/ n = 3) as [->|[->|[->| ->]]] by lia;
      cbn in I; (destruct I as [<-|[]] || destruct I);
      (split; [split; [vm_compute; discriminate | reflexivity]
        | split; [vm_compute; discriminate | (left; reflexivity) || (right; reflexivity)]]).
Qed.
Example three_are_checked : check (three_planned three_read) = true.
Proof. vm_compute. reflexivity. Qed.
Example early_reads_are_refused : check (three_planned (fun _ => [2])) = false.
Proof. vm_compute. reflexivity. Qed.
