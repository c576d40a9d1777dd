(** Looping over rows: numbers below a bound, runs of numbers, and rows gathered into groups. This file is not about
    memory plans. *)
From Coq Require Import ZArith List Bool.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.   (* [a &&& b] does not evaluate [b] if [a] is false *)

Definition between (low x high : Z) : bool := (low <=? x) && (x <=? high).
(** Whether [x] is a row of a table of [count] rows. *)
Definition row (x count : Z) : bool := (0 <=? x) && (x <? count).
Definition mem (x : Z) (l : list Z) : bool := existsb (Z.eqb x) l.

(** [f] holds from [start] on, [count] times; halved at each call, so that no list of all rows is ever made. *)
Fixpoint every_from (count : positive) (start : Z) (f : Z -> bool) : bool :=
  match count with
  | xH => f start
  | xO half => every_from half start f &&& every_from half (start + Zpos half) f
  | xI half => f start &&& every_from half (start + 1) f &&& every_from half (start + 1 + Zpos half) f
  end.
Definition every (count : Z) (f : Z -> bool) : bool :=
  match count with Zpos p => every_from p 0 f | _ => true end.

(** The same halving for a sum. *)
Fixpoint sum_from (count : positive) (start : Z) (f : Z -> Z) : Z :=
  match count with
  | xH => f start
  | xO half => sum_from half start f + sum_from half (start + Zpos half) f
  | xI half => f start + (sum_from half (start + 1) f + sum_from half (start + 1 + Zpos half) f)
  end.
Definition sum (count : Z) (f : Z -> Z) : Z :=
  match count with Zpos p => sum_from p 0 f | _ => 0 end.

(** The numbers from [start] to [stop] - 1, in order. *)
Fixpoint run_from (count : positive) (start : Z) (rest : list Z) : list Z :=
  match count with
  | xH => start :: rest
  | xO half => run_from half start (run_from half (start + Zpos half) rest)
  | xI half => start :: run_from half (start + 1) (run_from half (start + 1 + Zpos half) rest)
  end.
Definition run (start stop : Z) : list Z :=
  match stop - start with Zpos p => run_from p start [] | _ => [] end.

(** Rows gathered into groups: those of group [g] are [order x] for [x] from [at_ g] to [at_ (g + 1)] - 1. *)
Record groups := Groups { at_ : Z -> Z; order : Z -> Z }.
Definition group (g : groups) (k : Z) : list Z := map (order g) (run (at_ g k) (at_ g (k + 1))).
(** Whether row [i] is in group [k], at [place]. *)
Definition listed (g : groups) (k place i : Z) : bool :=
  (at_ g k <=? place) && (place <? at_ g (k + 1)) && (order g place =? i).
