(** Programs of an accepted set run in turn as in private memory. The key is [call_starts]: wherever the last call has
    stopped, the memory has what the next one finds, since what it does not have it does not write over. *)
From Coq Require Import ZArith List Bool Lia FMapPositive.
From Tmmu Require Import Lists Columns Check Safe Run ListsProof Accesses Soundness RunProof ProgressProof Sets.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Lemma either (a b : bool) : a ||| b = true -> a = true \/ b = true.
Proof. destruct a; auto. Qed.

Section SetsProof.
Variable s : plan_set.
Hypothesis accepted : accepts_set s = true.
Local Notation p c := (plan_at s c).

(** * The meaning of the decision *)

Lemma set_parts : (forall c, is_program s c -> check (p c) = true) /\ (forall k, is_kept s k -> kept_ok s k = true) /\
  forall c, is_program s c -> failing_of_program s c = 0.
Proof.
  generalize accepted. unfold accepts_set, set_ok. intros H. facts. split; [apply every_spec; auto|].
  split; [apply every_spec; auto|]. intros c C. apply Z.eqb_eq.
  apply (every_spec (programs s) (fun c => failing_of_program s c =? 0)); auto.
Qed.

Lemma member_checked c : is_program s c -> check (p c) = true.
Proof. apply set_parts. Qed.
Lemma member_safe c : is_program s c -> Safe (p c).
Proof. intros C. apply check_sound, member_checked, C. Qed.

Lemma program_parts c : is_program s c ->
  (forall a, 0 <= a < arenas (p c) -> plan_arena s c (set_arena s c a) = a) /\
  (forall k u, In (k, u) (PositiveMap.elements (uses s c)) -> ends_ok s c (p c) (Zpos k - 1) u = true) /\
  (forall i, is_tensor (p c) i -> spares s c (p c) i = true) /\
  (forall n, is_step (p c) n -> spared_by s c (p c) n = true) /\
  (forall k u, In (k, u) (PositiveMap.elements (uses s c)) -> is_ready s c (Zpos k - 1) u = true).
Proof.
  intros C. destruct set_parts as (_ & _ & F). specialize (F c C). unfold failing_of_program in F. cbv zeta in F.
  unfold all_ends_ok, ready_once in F.
  repeat match type of F with
  | (if negb ?b then _ else _) = 0 => destruct b eqn:?; cbn [negb] in F; [|discriminate F]
  end.
  clear F. facts. split.
  { intros a A. apply Z.eqb_eq. apply (every_spec (arenas (p c)) (arena_ok s c)); auto. }
  split; [intros k u I; match goal with H : forall e, _ -> ends_ok _ _ _ _ _ = true |- _ => apply (H (k, u) I) end|].
  split; [apply every_spec; auto|]. split; [apply every_spec; auto|].
  intros k u I. match goal with H : forall e, _ -> is_ready _ _ _ _ = true |- _ => apply (H (k, u) I) end.
Qed.

Lemma kept_parts k : is_kept s k -> 0 <= kept_bytes (kept_at s k) /\
  (k = 0 \/ kept_ends s (k - 1) (kept_arena (kept_at s k)) (kept_address (kept_at s k)) = true).
Proof.
  intros K. destruct set_parts as (_ & F & _). specialize (F k K). unfold kept_ok in F. facts. split; [lia|].
  match goal with Q : (k =? 0) ||| _ = true |- _ => apply either in Q as [Q|Q] end; facts; auto.
Qed.

(** What a program states about a kept tensor is listed and checked. *)
Lemma ends_listed c k : ends_of s c k = no_ends \/
  exists j, k = Zpos j - 1 /\ In (j, ends_of s c k) (PositiveMap.elements (uses s c)).
Proof.
  unfold ends_of. destruct (k <? 0) eqn:N; [auto|]. apply Z.ltb_ge in N.
  destruct (PositiveMap.find (Z.to_pos (k + 1)) (uses s c)) as [u|] eqn:F; [|auto]. right.
  exists (Z.to_pos (k + 1)). split; [rewrite Z2Pos.id; lia|]. apply PositiveMap.elements_correct, F.
Qed.

(** Tensor [i] of a program has the place of kept tensor [k]. *)
Definition Placed (c k i : Z) : Prop := is_tensor (p c) i /\
  set_arena s c (tensor_arena (p c) i) = kept_arena (kept_at s k) /\
  address_of (p c) i = kept_address (kept_at s k) /\ bytes (tensor_at (p c) i) = kept_bytes (kept_at s k).

Lemma at_place_spec c k i : at_place s c (p c) k i = true -> Placed c k i.
Proof. unfold at_place, Placed. intros H. facts. repeat split; auto; lia. Qed.

Lemma entry_spec c k : is_program s c -> found_as s c k <> -1 -> is_kept s k /\ Placed c k (found_as s c k) /\
  writer (tensor_at (p c) (found_as s c k)) = -1 /\ ~ is_view (p c) (found_as s c k).
Proof.
  intros C N. destruct (program_parts c C) as (_ & H & _). unfold found_as in *.
  destruct (ends_listed c k) as [E|(j & -> & I)]; [rewrite E in N; destruct N; reflexivity|].
  specialize (H j _ I). unfold ends_ok in H. facts. split; [unfold is_kept; lia|].
  match goal with Q : (entry _ =? -1) ||| _ = true |- _ => apply either in Q as [Q|Q] end; facts; [contradiction|].
  split; [apply at_place_spec; auto|]. split; [auto|]. unfold is_view. lia.
Qed.

Lemma exit_spec c k : is_program s c -> left_as s c k <> -1 -> is_kept s k /\ Placed c k (left_as s c k) /\
  returned (tensor_at (p c) (left_as s c k)) = true /\
  (beyond (ends_of s c k) = k + 1 \/
   left_as s c (k + 1) <> -1 /\ beyond (ends_of s c k) = beyond (ends_of s c (k + 1))).
Proof.
  intros C N. destruct (program_parts c C) as (_ & H & _). unfold left_as in *.
  destruct (ends_listed c k) as [E|(j & -> & I)]; [rewrite E in N; destruct N; reflexivity|].
  specialize (H j _ I). unfold ends_ok in H. facts. split; [unfold is_kept; lia|].
  match goal with Q : (exit _ =? -1) ||| _ = true |- _ => apply either in Q as [Q|Q] end; facts; [contradiction|].
  split; [apply at_place_spec; auto|]. split; [auto|].
  match goal with Q : _ ||| _ = true |- _ => apply either in Q as [Q|Q] end; facts; auto.
Qed.

(** Kept tensors are apart, and in order. *)
Lemma kept_ends_spec k a y : kept_ends s k a y = true <-> kept_arena (kept_at s k) < a \/
  kept_arena (kept_at s k) = a /\ kept_address (kept_at s k) + kept_bytes (kept_at s k) <= y.
Proof.
  unfold kept_ends. split.
  - intros H. apply either in H as [H|H]; facts; auto.
  - intros [H|[H L]].
    + rewrite (proj2 (Z.ltb_lt _ _) H). reflexivity.
    + rewrite (proj2 (Z.eqb_eq _ _) H), (proj2 (Z.leb_le _ _) L). destruct (_ <? _); reflexivity.
Qed.

Lemma kept_before : forall n k a y, 0 <= n -> 0 <= k -> is_kept s (k + n) -> kept_ends s (k + n) a y = true ->
  kept_ends s k a y = true.
Proof.
  intros n k a y N K. revert n N.
  apply (natlike_ind (fun n => is_kept s (k + n) -> kept_ends s (k + n) a y = true -> kept_ends s k a y = true)).
  - rewrite Z.add_0_r. auto.
  - intros n N IH I E. unfold is_kept in *. apply IH; [lia|].
    destruct (kept_parts (k + Z.succ n) I) as (B & [?|O]); [lia|].
    replace (k + Z.succ n - 1) with (k + n) in O by lia. rewrite kept_ends_spec in *. lia.
Qed.

Lemma kept_ordered k l : is_kept s k -> is_kept s l -> k < l ->
  kept_ends s k (kept_arena (kept_at s l)) (kept_address (kept_at s l)) = true.
Proof.
  intros K L Lt. unfold is_kept in *. destruct (kept_parts l L) as (_ & [?|O]); [lia|].
  apply (kept_before (l - 1 - k) k); unfold is_kept; try lia. replace (k + (l - 1 - k)) with (l - 1) by lia. exact O.
Qed.

Lemma kept_apart k l x y : kept_byte s k x -> kept_byte s l y ->
  kept_arena (kept_at s k) = kept_arena (kept_at s l) ->
  kept_address (kept_at s k) + x = kept_address (kept_at s l) + y -> k = l.
Proof.
  intros [K X] [L Y] A E. destruct (Z.lt_total k l) as [H|[H|H]]; auto; exfalso.
  - pose proof (kept_ordered k l K L H) as O. apply kept_ends_spec in O. lia.
  - pose proof (kept_ordered l k L K H) as O. apply kept_ends_spec in O. lia.
Qed.

(** A kept tensor without an exit is not before [next_without_exit]. *)
Lemma next_spec c k : is_program s c -> left_as s c k = -1 ->
  forall n, 0 <= n -> next_without_exit s c (k - n) <= k.
Proof.
  intros C X. apply natlike_ind; unfold next_without_exit.
  - rewrite Z.sub_0_r, X. cbn. lia.
  - intros n N IH. destruct (left_as s c (k - Z.succ n) =? -1) eqn:E; [lia|]. apply Z.eqb_neq in E.
    destruct (exit_spec c _ C E) as (_ & _ & _ & [->|[Y B]]); [lia|].
    replace (k - Z.succ n + 1) with (k - n) in * by lia. rewrite (proj2 (Z.eqb_neq _ _) Y) in IH. lia.
Qed.

(** Two tensors that are kept as one are one, if they have bytes. *)
Lemma carried_once c k l x : is_program s c -> kept_byte s k x -> found_as s c k <> -1 ->
  found_as s c l = found_as s c k -> l = k.
Proof.
  intros C B N E. destruct (entry_spec c k C N) as (_ & (_ & A & Ad & By) & _).
  destruct (entry_spec c l C) as (L & (_ & A' & Ad' & By') & _); [congruence|]. rewrite E in *.
  apply (kept_apart l k x x); [|auto|congruence|congruence]. split; [auto|]. destruct B. congruence.
Qed.

(** A tensor of a program with a byte of a kept tensor that has no exit is the entry, and no step writes that. *)
Lemma only_the_entry c k i x y : is_program s c -> left_as s c k = -1 -> kept_byte s k y -> is_tensor (p c) i ->
  ~ is_view (p c) i -> inside (p c) i x -> set_arena s c (tensor_arena (p c) i) = kept_arena (kept_at s k) ->
  address_of (p c) i + x = kept_address (kept_at s k) + y ->
  found_as s c k = i /\ next_without_exit s c (kept_below s c i) = k.
Proof.
  intros C Ex B T NV X A E. pose proof B as [K Y]. destruct (program_parts c C) as (_ & _ & Sp & _).
  specialize (Sp i T). unfold spares in Sp. unfold is_view, inside, is_kept in *.
  apply either in Sp as [Sp|Sp]; [apply either in Sp as [Sp|Sp]; facts; lia|]. facts.
  set (from := kept_below s c i) in *. set (next := next_without_exit s c from) in *.
  change (address (p c) (tensor_at (p c) i)) with (address_of (p c) i) in *.
  change (s_arena (storage_at (p c) (home (tensor_at (p c) i)))) with (tensor_arena (p c) i) in *. rewrite A in *.
  assert (L : from <= k).
  { destruct (Z_le_gt_dec from k) as [|L]; [auto|]. exfalso.
    match goal with Q : (from =? 0) ||| _ = true |- _ => apply either in Q as [Q|Q] end; facts; [lia|].
    assert (O : kept_ends s k (kept_arena (kept_at s k)) (address_of (p c) i) = true).
    { apply (kept_before (from - 1 - k) k); unfold is_kept; try lia.
      replace (k + (from - 1 - k)) with (from - 1) by lia. assumption. }
    apply kept_ends_spec in O. lia. }
  pose proof (next_spec c k C Ex (k - from) ltac:(lia)) as Nx. replace (k - (k - from)) with from in Nx by lia.
  fold next in Nx.
  match goal with Q : (keeps s <=? next) ||| _ = true |- _ => apply either in Q as [Q|Q] end; facts; [lia|].
  match goal with Q : kept_begins _ _ _ _ ||| _ = true |- _ => apply either in Q as [Q|Q] end; facts.
  - exfalso.
    match goal with H : kept_begins _ _ _ _ = true |- _ => unfold kept_begins in H; apply either in H; destruct H end;
      facts; (destruct (Z.eq_dec next k) as [En|Ne]; [rewrite En in *; lia|];
        assert (In_ : is_kept s next) by (unfold is_kept; lia);
        pose proof (kept_ordered next k In_ K ltac:(lia)) as O; apply kept_ends_spec in O;
        destruct (kept_parts _ In_); lia).
  - assert (N : found_as s c next <> -1) by (unfold is_tensor in T; lia).
    destruct (entry_spec c next C N) as (In_ & (_ & A' & Ad & By) & _).
    assert (Q : next = k); [|split; [rewrite <- Q; assumption | exact Q]].
    match goal with Q : found_as s c next = i |- _ => rewrite Q in * end.
    apply (kept_apart next k x y); auto; [split; [auto|lia] | congruence | lia].
Qed.

(** * One call *)

Section Memory.
Variable V : Type.
Variable start : Z -> Z.
Hypothesis apart : SetArenasApart s start.
Local Notation from c := (start_in s start c).

Lemma arenas_apart c : is_program s c -> ArenasApart (p c) (from c).
Proof.
  intros C k l x y K L N X Y. unfold start_in. apply apart; [apply some_storage; auto | apply some_storage; auto|].
  intros E. apply N. destruct (program_parts c C) as (I & _).
  assert (B : forall k, is_storage (p c) k -> 0 <= arena_of (p c) k < arenas (p c)).
  { intros h H. destruct (member_safe c C) as (_ & _ & W & _). destruct (W h H) as (_ & _ & A & _). exact A. }
  rewrite <- (I _ (B k K)), <- (I _ (B l L)). congruence.
Qed.

(** A byte of a tensor and of a kept tensor is at one address of one arena. *)
Lemma same_kept_byte c i x k y : is_program s c -> is_tensor (p c) i -> inside (p c) i x -> kept_byte s k y ->
  flat_address (p c) (from c) i + x = kept_at_byte s start k + y ->
  set_arena s c (tensor_arena (p c) i) = kept_arena (kept_at s k) /\
  address_of (p c) i + x = kept_address (kept_at s k) + y.
Proof.
  intros C T I K E. destruct (byte_of_storage (p c) (member_safe c C) i x T I) as [St B].
  pose proof (some_storage s c _ _ C St B) as S1. pose proof (some_kept s k y K) as S2.
  fold (tensor_arena (p c) i) in S1. unfold flat_address, start_in, kept_at_byte in E.
  destruct (Z.eq_dec (set_arena s c (tensor_arena (p c) i)) (kept_arena (kept_at s k))) as [Q|Q].
  - split; auto. rewrite Q in E. lia.
  - exfalso. apply (apart _ _ _ _ S1 S2 Q). lia.
Qed.

Lemma placed_byte c k i : Placed c k i -> flat_address (p c) (from c) i = kept_at_byte s start k.
Proof. intros (_ & A & Ad & _). unfold flat_address, start_in, kept_at_byte. rewrite A, Ad. reflexivity. Qed.

Section Call.
Variable a : call V.
Hypothesis is_proper : proper s V a.
Local Notation c := (calls V a).
Local Notation flat i := (flat_address (p c) (from c) i).

Lemma is_program_called : is_program s c.
Proof. apply is_proper. Qed.

(** What the caller writes before a call, and what it leaves. *)
Lemma given_found m i x : is_tensor (p c) i -> writer (tensor_at (p c) i) = -1 -> ~ is_view (p c) i ->
  inside (p c) i x ->
  with_given s V start a m (flat i + x) = if gives V a i x then given_value V a i x else m (flat i + x).
Proof.
  intros T W NV I. unfold with_given. cbv zeta. unfold plan_of_call.
  assert (Same : forall j, gives V a j (flat i + x - flat j) = true -> j = i).
  { intros j G. destruct is_proper as [C P]. destruct (P j _ G) as [(Tj & Wj & NVj & _) Ij]. unfold plan_of_call in *.
    destruct (Z.eq_dec j i) as [|Ne]; [auto|]. exfalso.
    destruct (same_byte (p c) (member_safe c C) (from c) (arenas_apart c C) i j x (flat i + x - flat j)) as [Ea Eb];
      auto; [lia|].
    destruct (member_safe c C) as (_ & _ & _ & _ & _ & _ & _ & _ & _ & _ & _ & Ap & _).
    destruct (Ap i j x (flat i + x - flat j)) as (r & Si & Sj); auto.
    destruct Si as [i _|i r Vi _]; [|contradiction]. destruct Sj as [j _|j r Vj _]; [congruence | contradiction]. }
  destruct (find _ _) as [j|] eqn:F.
  - apply find_some in F as [_ G]. pose proof (Same j G). subst j.
    replace (flat i + x - flat i) with x in * by lia. rewrite G. reflexivity.
  - destruct (gives V a i x) eqn:G; [|reflexivity]. exfalso. pose proof (find_none _ _ F i) as N. cbv beta in N.
    replace (flat i + x - flat i) with x in N by lia. rewrite N in G; [discriminate | apply run_spec; exact T].
Qed.

(** The next call begins as one does, wherever the last has stopped. *)
Lemma call_starts m w t : holds s V start m w -> call_begins s V w a t -> begins V (p c) t /\
  forall i, agree V (p c) (from c) (with_given s V start a m) t i.
Proof.
  intros H [N B].
  assert (F : forall i x, finds s V w a t i x -> is_tensor (p c) i /\ inside (p c) i x /\
    writer (tensor_at (p c) i) = -1 /\ found V (p c) (from c) (with_given s V start a m) i x = own V t i x).
  { induction 1 as [k x K Fa Kn O|i x G O|v x b Tv Vv Wv Iv O _ IH].
    - destruct (entry_spec c k is_program_called Fa) as (_ & Pl & W & NV). pose proof Pl as (T & _ & _ & By).
      assert (I : inside (p c) (found_as s c k) x) by (destruct K; unfold inside; lia).
      split; [auto|]. split; [auto|]. split; [auto|]. unfold found. rewrite given_found by auto.
      destruct (gives V a (found_as s c k) x) eqn:G.
      + destruct is_proper as [_ P]. destruct (P _ _ G) as [(_ & _ & _ & Ca) _]. destruct Ca. exists k.
        split; [apply K | reflexivity].
      + rewrite O, (placed_byte c k _ Pl). apply H; auto.
    - destruct is_proper as [C P]. destruct (P i x G) as [(T & W & NV & _) I]. unfold plan_of_call in *.
      split; [auto|]. split; [auto|]. split; [auto|]. unfold found. rewrite given_found, G by auto. auto.
    - unfold plan_of_call in *. split; [auto|]. split; [auto|]. split; [auto|]. rewrite O.
      destruct IH as (_ & _ & _ & <-).
      unfold found. f_equal. destruct (member_safe c is_program_called) as (_ & _ & _ & _ & _ & _ & Vs & _).
      destruct (Vs v Tv Vv) as (_ & Hb & Ad & _). unfold flat_address, tensor_arena, b in *. rewrite Hb, Ad. lia. }
  split; [split; [exact N|]; intros i x D; destruct (F i x (B i x D)) as (T & I & W & _); auto|].
  intros i x D. apply F, B, D.
Qed.

(** A call leaves kept tensors without an exit as they were. *)
Lemma given_elsewhere m k x : left_as s c k = -1 -> kept_byte s k x ->
  with_given s V start a m (kept_at_byte s start k + x) = m (kept_at_byte s start k + x).
Proof.
  intros Ex K. unfold with_given. cbv zeta. unfold plan_of_call. destruct (find _ _) as [i|] eqn:F; [|reflexivity].
  exfalso. apply find_some in F as [_ G]. destruct is_proper as [C P]. destruct (P i _ G) as [(T & W & NV & Ca) I].
  unfold plan_of_call in *. destruct (same_kept_byte c i _ k x C T I K) as [A E]; [lia|].
  destruct (only_the_entry c k i _ x C Ex K T NV I A E) as [Q _]. apply Ca. exists k. split; [apply K | exact Q].
Qed.

Lemma written_elsewhere n w x k y : left_as s c k = -1 -> kept_byte s k y -> is_step (p c) n -> step_writes (p c) n w ->
  ~ is_view (p c) w -> inside (p c) w x -> flat w + x <> kept_at_byte s start k + y.
Proof.
  intros Ex K N W NV I E. pose proof is_program_called as C. pose proof (member_safe c C) as Sf.
  destruct (written (p c) Sf n w N W) as [T _]. destruct (same_kept_byte c w x k y C T I K E) as [A Ad].
  destruct (only_the_entry c k w x y C Ex K T NV I A Ad) as [Q Nx].
  assert (M : exists n, is_step (p c) n /\ In w (writes (p c) n)).
  { destruct W as [W|(e & L & W)]; [exists n; auto|]. exists e. split; auto.
    destruct (loop (p c) Sf e n L) as (? & ? & _). unfold is_step in *. lia. }
  destruct M as (z & Z & Wz). destruct (program_parts c C) as (_ & _ & _ & Sp & _). specialize (Sp z Z).
  unfold spared_by in Sp. rewrite forallb_forall in Sp. specialize (Sp w Wz). cbv zeta in Sp. rewrite Nx, Q, Ex in Sp.
  rewrite Z.eqb_refl in Sp. unfold inside in I. rewrite (proj2 (Z.eqb_neq _ 0)) in Sp by lia. discriminate.
Qed.

Section Run.
Variables (m : Z -> V) (w : world V) (t : state V).
Hypothesis has : holds s V start m w.
Hypothesis starts : call_begins s V w a t.
Local Notation R := (registers_are V a).
Local Notation code := (code_of V a).
Local Notation privately j := (Nat.iter j (private_step V (p c) R code) (Private V R t (first_registers V a))).
Local Notation in_arenas j := (Nat.iter j (arena_step V (p c) R code (from c))
  (Arenas V R (-1) (with_given s V start a m) (first_registers V a))).

Lemma in_step k : (forall j, (j < k)%nat -> lawful V (p c) R code (privately j)) ->
  at_step V R (in_arenas k) = now V (privately k) /\ registers_ V R (in_arenas k) = registers V R (privately k) /\
  forall i, still_read V (p c) (privately k) i -> agree V (p c) (from c) (content V R (in_arenas k)) (privately k) i.
Proof.
  intros L. destruct (call_starts m w t has starts) as [B Ag]. destruct starts as [N _].
  pose proof (runs_as_private V (p c) (member_safe c is_program_called) R code (from c) t _ (first_registers V a) k
    (arenas_apart c is_program_called) B Ag L) as H. cbv zeta in H. rewrite N in H. exact H.
Qed.

Lemma kept_elsewhere k x : left_as s c k = -1 -> kept_byte s k x -> forall n,
  (forall j, (j < n)%nat -> lawful V (p c) R code (privately j)) ->
  content V R (in_arenas n) (kept_at_byte s start k + x) = m (kept_at_byte s start k + x).
Proof.
  intros Ex K. induction n as [|n IH]; intros L.
  - cbn. apply given_elsewhere; auto.
  - rewrite <- IH by (intros j J; apply L; lia).
    pose proof (in_step n ltac:(intros j J; apply L; lia)) as (E1 & E2 & _).
    specialize (L n ltac:(lia)). unfold lawful in L. cbn [Nat.iter nat_rect]. unfold Nat.iter in *. cbn [nat_rect].
    unfold arena_step at 1. rewrite E1, E2.
    destruct (code _ _) as [f|st r|v r|z r|e r|]; cbn; auto.
    destruct L as (Hn & Hw & NV & I & _). unfold store_flat. cbv zeta. destruct (chosen V st _) eqn:Ch; [|reflexivity].
    exfalso. apply (written_elsewhere _ (result V st) _ k x Ex K Hn Hw NV (I _ Ch)). lia.
Qed.

Lemma call_ends : obeys s V a t ->
  let u := private_end s V a t in
  let f := arena_end s V start a m in
  at_step V _ f = now V u /\ registers_ V _ f = registers V _ u /\
  (forall i, still_read V (p c) u i -> agree V (p c) (from c) (content V _ f) u i) /\
  holds s V start (content V _ f) (after s V w a u).
Proof.
  intros Ob. cbv zeta. pose proof (in_step (actions V a) Ob) as (E1 & E2 & Ag). split; [exact E1|]. split; [exact E2|].
  split; [exact Ag|]. intros k x K. cbn. destruct (Z.eqb_spec (left_as s c k) (-1)) as [Ex|Ex].
  - intros Kn. unfold arena_end, plan_of_call. rewrite (kept_elsewhere k x Ex K (actions V a) Ob). apply has; auto.
  - intros [_ D]. destruct (exit_spec c k is_program_called Ex) as (_ & Pl & Rt & _).
    rewrite <- (placed_byte c k _ Pl). apply (Ag (left_as s c k)); [right; exact Rt | exact D].
Qed.
End Run.
End Call.

(** * Calls in turn *)

Lemma writing_holds m w k which value_ : (forall x, which x = true -> kept_byte s k x) -> holds s V start m w ->
  holds s V start (write_kept s V start k which value_ m) (rewritten V w k which value_).
Proof.
  intros P H l x L Kn. unfold write_kept. cbn in *.
  destruct (which (kept_at_byte s start l + x - kept_at_byte s start k)) eqn:W.
  - assert (E : l = k).
    { pose proof (P _ W) as K. pose proof (some_kept s k _ K) as S1. pose proof (some_kept s l x L) as S2.
      unfold kept_at_byte in *.
      destruct (Z.eq_dec (kept_arena (kept_at s l)) (kept_arena (kept_at s k))) as [Q|Q].
      - rewrite Q in *. eapply kept_apart; [exact L | exact K | congruence | lia].
      - exfalso. apply (apart _ _ _ _ S2 S1 Q). lia. }
    subst. rewrite Z.eqb_refl. replace (kept_at_byte s start k + x - kept_at_byte s start k) with x in * by lia.
    rewrite W. reflexivity.
  - destruct (Z.eqb_spec l k) as [->|Ne]; cbn.
    + replace (kept_at_byte s start k + x - kept_at_byte s start k) with x in * by lia. rewrite W. apply H; auto.
      destruct Kn as [Kn|[_ Kn]]; [auto | congruence].
    + apply H; auto. destruct Kn as [Kn|[? _]]; [auto | contradiction].
Qed.

Lemma memory_holds m w l v : holds s V start m w -> in_turn s V w l v ->
  holds s V start (memory_after s V start m l) v.
Proof.
  intros H. induction 1 as [|l v a t T IH P B Ob|l v k which value_ T IH P]; cbn; auto.
  - apply (call_ends a P _ v t IH B Ob).
  - apply writing_holds; auto.
Qed.
End Memory.

Theorem runs_in_turn_as_private V : RunsInTurnAsPrivate s V.
Proof.
  intros start m w l v a t Ap H T P B Ob. cbv zeta.
  apply (call_ends V start Ap a P (memory_after s V start m l) v t); auto. apply memory_holds with w; auto.
Qed.

Theorem weights_stay V : WeightsStay s V.
Proof.
  intros w l v k T Wt. induction T as [|l v a t T IH P B Ob|l v j which value_ T IH P]; intros NW x.
  - split; reflexivity.
  - cbn. rewrite Wt. cbn. apply IH. intros l_ g u I. apply (NW l_ g u). right. exact I.
  - assert (N : j <> k) by (apply (NW j which value_); left; reflexivity).
    destruct (IH ltac:(intros l_ g u I; apply (NW l_ g u); right; exact I) x) as [Kn E]. cbn.
    rewrite (proj2 (Z.eqb_neq k j)) by auto. cbn. split; [|exact E]. rewrite <- Kn.
    split; [intros [?|[? _]]; auto; congruence | auto].
Qed.

(** * What is found was written *)

Lemma left_is_known V w l v k x : at_first s V w -> whole_in_turn s V w l v -> kept_byte s k x ->
  initial (kept_at s k) = true \/ (exists d, In d (programs_of V l) /\ left_as s d k <> -1) -> known V v k x.
Proof.
  intros F T K. induction T as [|l v a t T IH P B Ob L|l v j which value_ T IH P]; intros H; cbn in *.
  - destruct H as [I|(d & [] & _)]. apply F; auto.
  - destruct (Z.eqb_spec (left_as s (calls V a) k) (-1)) as [E|N].
    + apply IH. destruct H as [I|(d & [<-|I] & D)]; [auto | contradiction | eauto].
    + split; [exact K|]. apply L; auto.
  - left. apply IH. exact H.
Qed.

Lemma shows_once q i r : Shows q i r -> forall r', Shows q i r' -> r = r'.
Proof.
  induction 1 as [i N|i r Vw _ IH]; intros r' S; destruct S as [i N'|i r' Vw' S];
    [reflexivity | contradiction | contradiction | apply IH, S].
Qed.

Theorem calls_find_values V : CallsFindValues s V.
Proof.
  intros w l v a F T P Or G. pose proof P as [C _]. set (c := calls V a) in *. pose proof (member_checked c C) as Ck.
  assert (Ready : forall k x, kept_byte s k x -> found_as s c k <> -1 -> known V v k x).
  { intros k x K N. apply (left_is_known V w l v k x F T K). destruct Or as (_ & _ & Or).
    apply Or; [apply K | exact N]. }
  set (r i := root (tensor_at (p c) i)).
  set (o i x := let y := address_of (p c) i - address_of (p c) (r i) + x in
    match find (fun k => found_as s c k =? r i) (run 0 (keeps s)) with
    | Some k => held V v k y | None => given_value V a (r i) y
    end).
  set (t := State V (-1) (fun i x => is_tensor (p c) i /\ inside (p c) i x /\ writer (tensor_at (p c) i) = -1) o).
  exists t. split; [|split; [split; [reflexivity | auto]|cbn; auto]]. split; [reflexivity|].
  assert (H : forall i q, Shows (p c) i q -> q = r i -> is_tensor (p c) i -> writer (tensor_at (p c) i) = -1 ->
    forall x, inside (p c) i x -> finds s V v a t i x).
  { induction 1 as [i N|i q Vw S IH]; intros E Ti W x I.
    - assert (Own : o i x = match find (fun k => found_as s c k =? i) (run 0 (keeps s)) with
        | Some k => held V v k x | None => given_value V a i x end).
      { unfold o. rewrite <- E. replace (address_of (p c) i - address_of (p c) i + x) with x by lia. reflexivity. }
      destruct (find _ _) as [k|] eqn:Fd.
      + apply find_some in Fd as [K Q]. apply run_spec in K. apply Z.eqb_eq in Q. subst i.
        assert (N' : found_as s c k <> -1) by (unfold is_tensor in Ti; lia).
        destruct (entry_spec c k C N') as (_ & (_ & _ & _ & By) & _).
        assert (Kb : kept_byte s k x) by (split; [exact K | unfold inside in I; lia]).
        apply from_before; auto.
      + apply from_caller_; [|exact Own]. apply G; [|exact I]. split; [exact Ti|]. split; [exact W|]. split; [exact N|].
        intros (k & K & Q). pose proof (find_none _ _ Fd k) as No. cbv beta in No. rewrite Q, Z.eqb_refl in No.
        discriminate No. apply run_spec. exact K.
    - destruct (member_safe c C) as (_ & _ & _ & _ & _ & _ & Vs & _).
      destruct (Vs i Ti Vw) as (Tb & _ & Ad & S0 & S1 & Wb & _).
      assert (Q : r (base (tensor_at (p c) i)) = r i).
      { rewrite <- E. apply (shows_once (p c) (base (tensor_at (p c) i))); [apply root_shown; auto | exact S]. }
      apply by_view; auto.
      + change (o i x = o (base (tensor_at (p c) i)) (shift (tensor_at (p c) i) + x)). unfold o. rewrite Q. cbv zeta.
        replace (address_of (p c) (base (tensor_at (p c) i)) - address_of (p c) (r i) + (shift (tensor_at (p c) i) + x))
          with (address_of (p c) i - address_of (p c) (r i) + x) by lia. reflexivity.
      + apply IH; auto; [congruence | unfold inside in *; unfold plan_of_call; fold c; lia]. }
  intros i x (Ti & I & W). apply (H i (r i)); auto. apply root_shown; auto.
Qed.

Lemma in_order_app l k : in_order s l -> in_order s k -> in_order s (l ++ k).
Proof.
  intros L K. induction l as [|c l IH]; [exact K|]. destruct L as (C & L & Fd). cbn. split; [exact C|].
  split; [apply IH, L|]. intros j J N. destruct (Fd j J N) as [I|(d & I & D)]; [auto|]. right. exists d.
  split; [apply in_or_app; auto | exact D].
Qed.

Theorem every_program_has_its_turn : EveryProgramHasItsTurn s.
Proof.
  assert (H : forall n c, is_program s c -> rank s c <= Z.of_nat n -> exists l, in_order s (c :: l)).
  { induction n as [n IH] using lt_wf_ind. intros c C Rk.
    assert (G : forall ks, exists l, in_order s l /\ forall k, In k ks -> found_as s c k <> -1 ->
      initial (kept_at s k) = true \/ exists d, In d l /\ left_as s d k <> -1).
    { induction ks as [|k ks (l & O & Fd)]; [exists []; split; [exact I | intros k []]|].
      destruct (Z.eq_dec (found_as s c k) (-1)) as [E|N].
      { exists l. split; [exact O|]. intros j [<-|J] Nj; [contradiction | apply Fd; auto]. }
      assert (Rd : is_ready s c k (ends_of s c k) = true).
      { destruct (program_parts c C) as (_ & _ & _ & _ & Rd).
        destruct (ends_listed c k) as [E|(j & -> & J)]; [|apply Rd, J].
        unfold found_as in N. rewrite E in N. destruct N. reflexivity. }
      unfold is_ready in Rd. apply either in Rd as [Rd|Rd]; [apply either in Rd as [Rd|Rd]|].
      - apply Z.eqb_eq in Rd. contradiction.
      - exists l. split; [exact O|]. intros j [<-|J] Nj; [auto | apply Fd; auto].
      - facts. set (d := left_first (kept_at s k)) in *.
        destruct (IH (Z.to_nat (rank s d)) ltac:(lia) d) as (k' & O'); [unfold is_program; lia | lia|].
        exists ((d :: k') ++ l). split; [apply in_order_app; auto|]. intros j [<-|J] Nj.
        + right. exists d. split; [left; reflexivity | assumption].
        + destruct (Fd j J Nj) as [I|(e & I & D)]; [auto|]. right. exists e. split; [apply in_or_app; auto | exact D]. }
    destruct (G (run 0 (keeps s))) as (l & O & Fd). exists l. split; [exact C|]. split; [exact O|].
    intros k K N. apply Fd; [apply run_spec; exact K | exact N]. }
  intros c C. apply (H (Z.to_nat (rank s c)) c C). lia.
Qed.

Lemma full_path V q l m t : in_full V q l m t -> Path q (fun _ => True) l m (now V t).
Proof.
  induction 1 as [t n G Go|l m t u n F IH A D Go|l m t u e F IH A D L I]; cbn.
  - apply from_caller; auto.
  - apply onward with m; auto.
  - apply again with m; auto.
Qed.

Theorem whole_runs_leave_all V : WholeRunsLeaveAll s V.
Proof.
  intros c k x l m t u C K N F A D E. destruct (exit_spec c k C N) as (_ & (T & _ & _ & By) & Rt & _).
  destruct (reads_find_values V (p c) (member_safe c C)) as (_ & Vals & _ & _ & Met_).
  assert (I : inside (p c) (left_as s c k) x) by (destruct K; unfold inside; lia).
  pose proof (full_path V (p c) l m t F) as Pa. rewrite E in Pa.
  destruct (Met_ _ _ _ _ Pa T Rt) as [W|[W|Sk]]; [left | left | right; rewrite E; exact Sk].
  - apply (Vals l m t u); auto.
  - apply (Vals l m t u); auto. right. rewrite E. exact W.
Qed.

Theorem run_in_turn V : RunInTurn s V.
Proof.
  split; [apply runs_in_turn_as_private|]. split; [apply weights_stay|].
  split; [apply calls_find_values | apply whole_runs_leave_all].
Qed.
End SetsProof.
