(** The plan set that files state has the plans of these files. *)
From Coq Require Import ZArith List Lia FMapPositive.
From Tmmu Require Import Lists Columns Cbor PlanFile Sets SetFile.
Import ListNotations.
Open Scope Z_scope.

Lemma programs_are_found l : forall next found out, programs_from l next found = Some out ->
  (forall j, (j < next)%positive -> PositiveMap.find j out = PositiveMap.find j found) /\
  forall c m, nth_error l c = Some m -> exists q, linked_of m = Some q /\
    PositiveMap.find (Z.to_pos (Zpos next + Z.of_nat c)) out = Some q.
Proof.
  induction l as [|m l IH]; intros next found out H; cbn in H.
  - injection H as <-. split; [auto|]. intros [|c] m N; discriminate.
  - destruct (linked_of m) as [q|] eqn:Q; [|discriminate]. destruct (IH _ _ _ H) as [Low High]. split.
    + intros j J. rewrite Low by lia. apply PositiveMap.gso. lia.
    + intros [|c] m' N; cbn in N.
      * injection N as <-. exists q. split; [exact Q|]. replace (Z.to_pos (Zpos next + Z.of_nat 0)) with next by lia.
        rewrite Low by lia. apply PositiveMap.gss.
      * destruct (High c m' N) as (q' & Q' & F). exists q'. split; [exact Q'|]. rewrite <- F. f_equal. lia.
Qed.

Lemma stated_set_is_of_files l word s : stated_set l word = Some s -> SetOfFiles l s.
Proof.
  unfold stated_set. destruct (word 0 =? SET_VERSION); [|discriminate].
  destruct (programs_from l 1 (PositiveMap.empty linked)) as [found|] eqn:F; [|discriminate]. intros H.
  injection H as <-. split; [reflexivity|]. intros c m N. destruct (programs_are_found _ _ _ _ F) as [_ Found].
  destruct (Found c m N) as (q & Q & E). unfold linked_of in Q.
  destruct (stated (file m) (permission m)) as [p|] eqn:S; [|discriminate]. injection Q as <-. exists p.
  split; [reflexivity|]. cbn. unfold program_in. replace (Z.of_nat c + 1) with (1 + Z.of_nat c) by lia.
  rewrite E. reflexivity.
Qed.
