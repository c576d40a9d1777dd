(** Words by their position: a plan that is written into a Coq file (`verify-plan --coq`) gives its words by this. *)
From Coq Require Import ZArith List FMapPositive.
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
