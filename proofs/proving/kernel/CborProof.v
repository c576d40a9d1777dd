(** The encoder of [Cbor.v] writes each value that its decoder reads as the same bytes, so that no two files have one
    meaning. *)
From Coq Require Import ZArith List Bool Lia Sorted.
From Tmmu Require Import Lists Cbor.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Section Decoder.
Variable f : source.
Notation bytes_from := (bytes_from f).
Notation slice := (slice f).
Notation content_of := (content_of f).
Notation contents := (contents f).
Notation head := (head f).
Notation string_at := (string_at f).
Notation compare_from := (compare_from f).
Notation before := (before f).
Notation item_at := (item_at f).
Notation number_at := (number_at f).
Notation long := (long f).

Lemma power_positive k : 0 < 256 ^ Z.of_nat k. Proof. apply Z.pow_pos_nonneg; lia. Qed.
Lemma bytes_length n : forall at_, length (bytes_from n at_) = n.
Proof. induction n; cbn; auto. Qed.
Lemma slice_count a b : a <= b -> count (slice a b) = b - a.
Proof. intros H. unfold count, slice. rewrite bytes_length. lia. Qed.
Lemma bytes_app n : forall m at_, bytes_from (n + m) at_ = bytes_from n at_ ++ bytes_from m (at_ + Z.of_nat n).
Proof.
  induction n as [|n IH]; intros m at_; cbn [bytes_from plus app]; [f_equal; lia|]. f_equal. rewrite IH. do 2 f_equal. lia.
Qed.
Lemma slice_app a b c : a <= b <= c -> slice a c = slice a b ++ slice b c.
Proof.
  intros H. unfold slice. replace (Z.to_nat (c - a)) with (Z.to_nat (b - a) + Z.to_nat (c - b))%nat by lia.
  rewrite bytes_app. do 2 f_equal. lia.
Qed.
Lemma slice_one a : slice a (a + 1) = [byte f a].
Proof. unfold slice. replace (a + 1 - a) with 1 by lia. reflexivity. Qed.
Lemma slice_none a : slice a a = [].
Proof. unfold slice. rewrite Z.sub_diag. reflexivity. Qed.

Lemma number_digits k : forall at_ n, 0 <= n ->
  0 <= number_at k at_ n /\ number_at k at_ n / 256 ^ Z.of_nat k = n /\
  greatest_first k (number_at k at_ n mod 256 ^ Z.of_nat k) = bytes_from k at_.
Proof.
  induction k as [|k IH]; intros at_ n N; cbn [number_at greatest_first bytes_from].
  - rewrite Z.pow_0_r, Z.div_1_r. auto.
  - pose proof (is_byte f at_) as B. pose proof (power_positive k) as P.
    destruct (IH (at_ + 1) (n * 256 + byte f at_)) as (I1 & I2 & I3); [lia|].
    set (m := number_at k (at_ + 1) (n * 256 + byte f at_)) in *. rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia.
    assert (D : m / (256 * 256 ^ Z.of_nat k) = n).
    { rewrite (Z.mul_comm 256), <- Z.div_div, I2 by lia. rewrite Z.div_add_l, Z.div_small; lia. }
    split; [exact I1|]. split; [exact D|].
    assert (R : m mod (256 * 256 ^ Z.of_nat k) = byte f at_ * 256 ^ Z.of_nat k + m mod 256 ^ Z.of_nat k).
    { rewrite (Z.mul_comm 256), Z.rem_mul_r, I2 by lia.
      replace ((n * 256 + byte f at_) mod 256) with (byte f at_); [lia|].
      rewrite Z.add_comm, Z.mod_add, Z.mod_small; lia. }
    pose proof (Z.mod_pos_bound m (256 ^ Z.of_nat k) P). rewrite R. f_equal.
    + rewrite Z.div_add_l, Z.div_small; lia.
    + rewrite Z.add_comm, Z.mod_add, Z.mod_mod by lia. exact I3.
Qed.
Lemma number_bounds k at_ : 0 <= number_at k at_ 0 < 256 ^ Z.of_nat k /\
  greatest_first k (number_at k at_ 0) = bytes_from k at_.
Proof.
  destruct (number_digits k at_ 0) as (N & D & E); [lia|]. pose proof (power_positive k) as P.
  apply Z.div_small_iff in D; [|lia]. assert (B : 0 <= number_at k at_ 0 < 256 ^ Z.of_nat k) by lia.
  rewrite Z.mod_small in E by exact B. auto.
Qed.

Lemma head_spec at_ major n next : head at_ = Some (major, n, next) ->
  at_ < next /\ 0 <= major < 8 /\ 0 <= n < 2 ^ 64 /\ next <= size f /\ slice at_ next = encode_head major n.
Proof.
  unfold head. intros H. destruct (Z.ltb_spec at_ (size f)) as [W|]; [|discriminate]. cbv zeta in H.
  pose proof (is_byte f at_) as B. set (b := byte f at_) in *.
  pose proof (Z.div_mod b 32 ltac:(lia)) as Q. pose proof (Z.mod_pos_bound b 32 ltac:(lia)) as R.
  assert (M : 0 <= b / 32 < 8) by (split; [apply Z.div_pos; lia | apply Z.div_lt_upper_bound; lia]).
  assert (L : forall k least, long k least (b / 32) (at_ + 1) = Some (major, n, next) ->
    major = b / 32 /\ next = at_ + 1 + Z.of_nat k /\ next <= size f /\ least <= n < 256 ^ Z.of_nat k /\ 0 <= n /\
    slice at_ next = b :: greatest_first k n).
  { intros k least E. unfold long in E. destruct (Z.leb_spec (at_ + 1 + Z.of_nat k) (size f)); [|discriminate].
    destruct (Z.leb_spec least (number_at k (at_ + 1) 0)); [|discriminate]. inversion E; subst.
    destruct (number_bounds k (at_ + 1)) as [N Eq]. repeat split; try lia.
    rewrite (slice_app at_ (at_ + 1)), slice_one by lia. cbn [app]. f_equal. rewrite Eq. unfold slice. f_equal. lia. }
  unfold encode_head. destruct (Z.ltb_spec (b mod 32) 24).
  - inversion H; subst. rewrite (proj2 (Z.ltb_lt _ _)) by lia. repeat split; try lia.
    rewrite slice_one. fold b. f_equal. lia.
  - destruct (Z.eqb_spec (b mod 32) 24); [|destruct (Z.eqb_spec (b mod 32) 25); [|destruct (Z.eqb_spec (b mod 32) 26);
      [|destruct (Z.eqb_spec (b mod 32) 27); [|discriminate]]]]; apply L in H as (-> & -> & S & N1 & N0 & ->).
    + change (256 ^ Z.of_nat 1) with (2 ^ 8) in N1.
      rewrite (proj2 (Z.ltb_ge n 24)), (proj2 (Z.ltb_lt n (2 ^ 8))) by lia. repeat split; try lia. f_equal. lia.
    + change (256 ^ Z.of_nat 2) with (2 ^ 16) in N1.
      rewrite (proj2 (Z.ltb_ge n 24)), (proj2 (Z.ltb_ge n (2 ^ 8))), (proj2 (Z.ltb_lt n (2 ^ 16))) by lia.
      repeat split; try lia. f_equal. lia.
    + change (256 ^ Z.of_nat 4) with (2 ^ 32) in N1.
      rewrite (proj2 (Z.ltb_ge n 24)), (proj2 (Z.ltb_ge n (2 ^ 8))), (proj2 (Z.ltb_ge n (2 ^ 16))),
        (proj2 (Z.ltb_lt n (2 ^ 32))) by lia.
      repeat split; try lia. f_equal. lia.
    + change (256 ^ Z.of_nat 8) with (2 ^ 64) in N1.
      rewrite (proj2 (Z.ltb_ge n 24)), (proj2 (Z.ltb_ge n (2 ^ 8))), (proj2 (Z.ltb_ge n (2 ^ 16))),
        (proj2 (Z.ltb_ge n (2 ^ 32))) by lia.
      repeat split; try lia. f_equal. lia.
Qed.

Lemma string_spec major at_ s next : string_at major at_ = Some (s, next) ->
  at_ < next /\ next <= size f /\ 0 <= snd s /\ slice at_ next = encode_string major (content_of s).
Proof.
  unfold string_at. intros H. destruct (head at_) as [[[m n] start]|] eqn:E; [|discriminate].
  apply head_spec in E as (A & M & N & _ & E). destruct (Z.eqb_spec m major); [subst m|discriminate].
  destruct (Z.leb_spec (start + n) (size f)); [|discriminate]. inversion H; subst. cbn [snd].
  repeat split; try lia. unfold encode_string, content_of. cbn [fst snd].
  rewrite slice_count by lia. rewrite (slice_app at_ start) by lia. rewrite E. do 2 f_equal. lia.
Qed.

(** [times] is that many applications. *)
Fixpoint applied {A} (n : nat) (g : A -> option A) (a : A) : option A :=
  match n with O => Some a | S n' => match g a with Some b => applied n' g b | None => None end end.
Lemma applied_plus {A} (g : A -> option A) n : forall m a,
  applied (n + m) g a = match applied n g a with Some b => applied m g b | None => None end.
Proof. induction n as [|n IH]; intros m a; cbn; [reflexivity|]. destruct (g a); auto. Qed.
Lemma times_applied {A} (g : A -> option A) p : forall a, times p g a = applied (Pos.to_nat p) g a.
Proof.
  induction p as [p IH|p IH|]; intros a; cbn [times].
  - rewrite Pos2Nat.inj_xI. cbn [applied]. replace (2 * Pos.to_nat p)%nat with (Pos.to_nat p + Pos.to_nat p)%nat by lia.
    destruct (g a) as [b|]; [|reflexivity]. rewrite applied_plus, IH. destruct (applied _ g b); auto.
  - rewrite Pos2Nat.inj_xO. replace (2 * Pos.to_nat p)%nat with (Pos.to_nat p + Pos.to_nat p)%nat by lia.
    rewrite applied_plus, IH. destruct (applied _ g a); auto.
  - change (Pos.to_nat 1) with 1%nat. cbn. destruct (g a); reflexivity.
Qed.
Lemma repeated_applied {A} (g : A -> option A) n a : 0 <= n -> repeated n g a = applied (Z.to_nat n) g a.
Proof. destruct n; cbn [repeated Z.to_nat]; intros H; [reflexivity | apply times_applied | lia]. Qed.

Lemma compare_spec p : forall a b,
  match compare_from p a b with
  | Eq => bytes_from (Pos.to_nat p) a = bytes_from (Pos.to_nat p) b
  | Lt => Less (bytes_from (Pos.to_nat p) a) (bytes_from (Pos.to_nat p) b)
  | Gt => True
  end.
Proof.
  assert (Behind : forall l x y, Less x y -> Less (l ++ x) (l ++ y)) by (induction l; cbn; auto).
  assert (Front : forall x y u v, Less x y -> Less (x ++ u) (y ++ v)).
  { induction x as [|h x IHx]; intros [|k y] u v H; cbn in *; try contradiction. destruct H as [H|[E H]]; auto. }
  assert (Both : forall p,
    (forall a b, match compare_from p a b with
      | Eq => bytes_from (Pos.to_nat p) a = bytes_from (Pos.to_nat p) b
      | Lt => Less (bytes_from (Pos.to_nat p) a) (bytes_from (Pos.to_nat p) b) | Gt => True end) ->
    forall a b,
    match match compare_from p a b with Eq => compare_from p (a + Zpos p) (b + Zpos p) | c => c end with
    | Eq => bytes_from (Pos.to_nat p + Pos.to_nat p) a = bytes_from (Pos.to_nat p + Pos.to_nat p) b
    | Lt => Less (bytes_from (Pos.to_nat p + Pos.to_nat p) a) (bytes_from (Pos.to_nat p + Pos.to_nat p) b)
    | Gt => True end).
  { intros q IH a b. rewrite !bytes_app, positive_nat_Z. pose proof (IH a b) as H1.
    destruct (compare_from q a b); auto. rewrite H1.
    pose proof (IH (a + Zpos q) (b + Zpos q)) as H2. destruct (compare_from q (a + Zpos q) (b + Zpos q)); auto.
    rewrite H2. reflexivity. }
  induction p as [p IH|p IH|]; intros a b; cbn [compare_from].
  - rewrite Pos2Nat.inj_xI. replace (S (2 * Pos.to_nat p)) with (S (Pos.to_nat p + Pos.to_nat p)) by lia.
    cbn [bytes_from]. destruct (Z.compare_spec (byte f a) (byte f b)) as [E|E|E]; cbn [Less]; auto.
    specialize (Both p IH (a + 1) (b + 1)).
    destruct (match compare_from p (a + 1) (b + 1) with Eq => _ | c => c end); auto. rewrite E, Both. reflexivity.
  - rewrite Pos2Nat.inj_xO. replace (2 * Pos.to_nat p)%nat with (Pos.to_nat p + Pos.to_nat p)%nat by lia. apply Both, IH.
  - change (Pos.to_nat 1) with 1%nat. cbn. destruct (Z.compare_spec (byte f a) (byte f b)); auto. congruence.
Qed.
Lemma before_spec a b : 0 <= snd a -> 0 <= snd b -> before a b = true -> Before (content_of a) (content_of b).
Proof.
  destruct a as [a n], b as [b m]. unfold before, Before, content_of. cbn [fst snd]. intros N M H.
  rewrite !slice_count by lia. destruct (Z.eqb_spec n m) as [<-|]; [|apply Z.ltb_lt in H; lia].
  right. split; [lia|]. destruct n as [|n|]; try discriminate. unfold slice.
  replace (a + Zpos n - a) with (Zpos n) by lia. replace (b + Zpos n - b) with (Zpos n) by lia. cbn [Z.to_nat].
  pose proof (compare_spec n a b). destruct (compare_from n a b); try discriminate. assumption.
Qed.

Lemma sorted_snoc {A} (R : A -> A -> Prop) l a b : Sorted R (l ++ [a]) -> R a b -> Sorted R ((l ++ [a]) ++ [b]).
Proof.
  induction l as [|h l IH]; cbn; intros H Rab; [repeat constructor; auto|]. inversion H as [|? ? S Hd]; subst.
  constructor; [auto|]. destruct l; cbn in *; inversion Hd; constructor; assumption.
Qed.
Lemma all_app {A} (P : A -> Prop) l a :
  fold_right (fun x all => P x /\ all) True l -> P a -> fold_right (fun x all => P x /\ all) True (l ++ [a]).
Proof. induction l; cbn; intuition. Qed.

(** A value that was read is written as the same bytes. *)
Theorem item_is_canonical depth : forall at_ i next, item_at depth at_ = Some (i, next) ->
  at_ < next /\ next <= size f /\ slice at_ next = encode (contents i) /\ Ordered (contents i).
Proof.
  induction depth as [|depth IH]; intros at_ i next H; [discriminate|]. cbn [item_at] in H.
  destruct (head at_) as [[[major n] after]|] eqn:Hd; [|discriminate].
  destruct (head_spec _ _ _ _ Hd) as (A & M & N & W & E).
  destruct (Z.eqb_spec major 0); [inversion H; subst; cbn [contents encode]; rewrite (proj2 (Z.leb_le 0 n)) by lia; repeat split; auto|].
  destruct (Z.eqb_spec major 1).
  { assert (i = Number (-1 - n) /\ next = after) as [-> ->] by (split; congruence). subst major. cbn [contents encode].
    rewrite (proj2 (Z.leb_gt 0 (-1 - n))) by lia.
    replace (-1 - (-1 - n)) with n by lia. repeat split; auto. }
  destruct (Z.eqb_spec major 2).
  { destruct (string_at 2 at_) as [[s r]|] eqn:S; [|discriminate]. inversion H; subst.
    apply string_spec in S as (? & ? & _ & ?). cbn. auto. }
  destruct (Z.eqb_spec major 3).
  { destruct (string_at 3 at_) as [[s r]|] eqn:S; [|discriminate]. inversion H; subst.
    apply string_spec in S as (? & ? & _ & ?). cbn. auto. }
  destruct (Z.eqb_spec major 4).
  { subst major. rewrite repeated_applied in H by lia.
    match type of H with match applied _ ?s _ with _ => _ end = _ => set (step := s) in H end.
    assert (G : forall k l r l' r', after <= r <= size f ->
      slice after r = flat_map encode (map contents (rev l)) ->
      fold_right (fun x all => Ordered x /\ all) True (map contents (rev l)) ->
      applied k step (l, r) = Some (l', r') -> length l' = (k + length l)%nat /\ after <= r' <= size f /\
      slice after r' = flat_map encode (map contents (rev l')) /\
      fold_right (fun x all => Ordered x /\ all) True (map contents (rev l'))).
    { induction k as [|k IHk]; cbn [applied]; intros l r l' r' B F O Hk; [inversion Hk; subst; auto|].
      unfold step at 1 in Hk. cbn [fst snd] in Hk. destruct (item_at depth r) as [[j r1]|] eqn:J; [|discriminate].
      apply IH in J as (J1 & J2 & J3 & J4). apply IHk in Hk as (L & B' & F' & O'); try lia.
      - cbn [length] in L. repeat split; try lia; auto.
      - cbn [rev]. rewrite map_app, flat_map_app, <- F, (slice_app after r) by lia. cbn. rewrite app_nil_r, J3. reflexivity.
      - cbn [rev]. rewrite map_app. apply all_app; assumption. }
    destruct (applied (Z.to_nat n) step ([], after)) as [[l r]|] eqn:K; [|discriminate]. inversion H; subst.
    apply G in K as (L & B & F & O); [|lia|apply slice_none|exact I]. unfold rev'. rewrite <- !rev_alt. cbn [contents encode Ordered].
    repeat split; try lia; [|exact O]. rewrite (slice_app at_ after), E, F by lia. unfold count.
    rewrite map_length, rev_length, L. cbn [length]. do 2 f_equal. lia. }
  destruct (Z.eqb_spec major 5).
  { subst major. rewrite repeated_applied in H by lia.
    match type of H with match applied _ ?s _ with _ => _ end = _ => set (step := s) in H end.
    set (enc := fun e : content * item content => encode_string 3 (fst e) ++ encode (snd e)).
    set (con := fun e : span * item span => (content_of (fst e), contents (snd e))).
    assert (G : forall k l r l' r', after <= r <= size f ->
      slice after r = flat_map enc (map con (rev l)) ->
      Forall (fun e => 0 <= snd (fst e)) l -> Sorted Before (map fst (map con (rev l))) ->
      fold_right (fun x all => Ordered (snd x) /\ all) True (map con (rev l)) ->
      applied k step (l, r) = Some (l', r') -> length l' = (k + length l)%nat /\ after <= r' <= size f /\
      slice after r' = flat_map enc (map con (rev l')) /\ Sorted Before (map fst (map con (rev l'))) /\
      fold_right (fun x all => Ordered (snd x) /\ all) True (map con (rev l'))).
    { induction k as [|k IHk]; cbn [applied]; intros l r l' r' B F P S O Hk; [inversion Hk; subst; auto 6|].
      unfold step at 1 in Hk. cbn [fst snd] in Hk. destruct (string_at 3 r) as [[key r1]|] eqn:K; [|discriminate].
      apply string_spec in K as (K1 & K2 & K3 & K4).
      destruct (match l with [] => true | last :: _ => before (fst last) key end) eqn:Bf; [|discriminate].
      destruct (item_at depth r1) as [[j r2]|] eqn:J; [|discriminate]. apply IH in J as (J1 & J2 & J3 & J4).
      apply IHk in Hk as (L & B' & F' & S' & O'); try lia.
      - cbn [length] in L. repeat split; try lia; auto.
      - cbn [rev]. rewrite map_app, flat_map_app, <- F, (slice_app after r), (slice_app r r1) by lia. cbn.
        rewrite app_nil_r, K4, J3. reflexivity.
      - constructor; assumption.
      - cbn [rev]. rewrite !map_app. destruct l as [|last l]; [cbn; repeat constructor|]. cbn [rev map] in *.
        rewrite !map_app in *. inversion P; subst. apply sorted_snoc; [exact S|]. cbn. apply before_spec; auto.
      - cbn [rev]. rewrite map_app. apply (all_app (fun x => Ordered (snd x))); assumption. }
    destruct (applied (Z.to_nat n) step ([], after)) as [[l r]|] eqn:K; [|discriminate]. inversion H; subst.
    apply G in K as (L & B & F & S & O); [|lia|apply slice_none|constructor|constructor|exact I].
    unfold rev'. rewrite <- !rev_alt. cbn [contents encode Ordered]. fold con enc.
    repeat split; try lia; [|exact S|exact O]. rewrite (slice_app at_ after), E, F by lia. unfold count.
    rewrite map_length, rev_length, L. cbn [length]. do 2 f_equal. lia. }
  destruct (Z.eqb_spec major 6).
  { destruct (string_at 2 after) as [[s r]|] eqn:S; [|discriminate]. apply string_spec in S as (S1 & S2 & S3 & S4).
    destruct (Z.eqb_spec (width n) 0); [discriminate|]. cbn [negb] in H.
    destruct (Z.eqb_spec (snd s mod width n) 0); [|discriminate]. inversion H; subst. cbn [contents encode Ordered].
    repeat split; try lia; auto.
    - rewrite (slice_app at_ after), E, S4 by lia. reflexivity.
    - unfold content_of. rewrite slice_count by lia. replace (fst s + snd s - fst s) with (snd s) by lia. assumption. }
  destruct (Z.leb_spec 20 n); [|discriminate]. destruct (Z.leb_spec n 22); [|discriminate]. inversion H; subst.
  assert (major = 7) by lia. subst major. cbn [contents encode Ordered]. repeat split; auto.
  rewrite E. unfold encode_head. rewrite (proj2 (Z.ltb_lt n 24)) by lia. reflexivity.
Qed.

Theorem file_is_canonical i : decoded f = Some i -> file_bytes f = encode (contents i) /\ Ordered (contents i).
Proof.
  unfold decoded, file_bytes. destruct (item_at DEPTH 0) as [[j stop]|] eqn:E; [|discriminate].
  destruct (Z.eqb_spec stop (size f)); [|discriminate]. intros H. inversion H; subst.
  apply item_is_canonical in E as (_ & _ & E & O). auto.
Qed.
End Decoder.

(** Two files with one meaning have the same bytes. *)
Theorem one_file_for_each_meaning f g i j : decoded f = Some i -> decoded g = Some j -> contents f i = contents g j ->
  file_bytes f = file_bytes g.
Proof.
  intros F G E. destruct (file_is_canonical f i F) as [-> _], (file_is_canonical g j G) as [-> _]. rewrite E. reflexivity.
Qed.
