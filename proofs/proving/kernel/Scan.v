(** The planner's rule for slots as a function of lifetimes: each storage takes the first slot whose last tenant is dead,
    or opens one. [ScanProof.v] proves that it is right and has no slot to spare. T6.1 to T6.4 *)
From Coq Require Import ZArith List Bool.
Import ListNotations.
Open Scope Z_scope.

Record life := Life { born : Z; dies : Z }.
Definition alive (t : Z) (x : life) : bool := (born x <=? t) && (t <=? dies x).
(** The number of storages that live at step [t]. *)
Definition load (t : Z) (l : list life) : nat := length (filter (alive t) l).

(** [ends] has the last step of the last tenant of each slot. The first slot that is free at step [b]; their number if
    none is. *)
Fixpoint first_free (b : Z) (ends : list Z) : nat :=
  match ends with [] => O | e :: ends' => if e <? b then O else S (first_free b ends') end.
(** The slot gets a tenant whose last step is [d]. *)
Fixpoint occupy (j : nat) (d : Z) (ends : list Z) : list Z :=
  match ends, j with
  | [], _ => [d]
  | _ :: ends', O => d :: ends'
  | e :: ends', S j' => e :: occupy j' d ends'
  end.
(** The slots of the storages, in the order of their births, and the last step of each slot. *)
Fixpoint scan (ends : list Z) (l : list life) : list nat * list Z :=
  match l with
  | [] => ([], ends)
  | x :: l' =>
      let j := first_free (born x) ends in
      let (chosen, last) := scan (occupy j (dies x) ends) l' in (j :: chosen, last)
  end.
Definition linear_scan (l : list life) : list nat := fst (scan [] l).
Definition slots_opened (l : list life) : nat := length (snd (scan [] l)).

(** The first comes first, and none ends before it begins. *)
Fixpoint comes_by_birth (from : Z) (l : list life) : Prop :=
  match l with [] => True | x :: l' => from <= born x <= dies x /\ comes_by_birth (born x) l' end.
