(** Words and bytes by their position: a plan that is written into a Coq file (`verify-plan --coq`) gives its words by
    [table], and the examples give files by [source_of]. *)
From Coq Require Import ZArith List FMapPositive.
From Tmmu Require Import Cbor.
Import ListNotations.
Open Scope Z_scope.

Definition filled (words : list Z) : PositiveMap.t Z :=
  snd (fold_left (fun at_ w => (Pos.succ (fst at_), PositiveMap.add (fst at_) w (snd at_)))
         words (xH, PositiveMap.empty Z)).

(** Word [i] of the row, or 0 if there is none. *)
Definition table (words : list Z) : Z -> Z :=
  let t := filled words in
  fun i => match i with
           | Zneg _ => 0
           | _ => match PositiveMap.find (Z.to_pos (i + 1)) t with Some w => w | None => 0 end
           end.

(** The file that has these bytes. *)
Definition source_of (bytes : list Z) : source :=
  let word := table bytes in
  let byte := fun at_ => word at_ mod 256 in
  {| size := Z.of_nat (length bytes); byte := byte; word4 := least_first byte 4; word8 := least_first byte 8;
     is_byte := fun at_ => Z.mod_pos_bound (word at_) 256 eq_refl;
     is_word4 := fun _ => eq_refl; is_word8 := fun _ => eq_refl |}.
