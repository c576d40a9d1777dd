(** The caller's tensors that a plan keeps: no store of any step changes them. spec: Z1.2, Z1.3

    This needs no run: whatever steps are taken, in any order and any number of times, and whatever their kernels store
    into their results, the bytes of a kept tensor stay as the caller wrote them. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Safe.
Open Scope Z_scope.

(** * The function that is evaluated *)

(** The plan keeps every tensor of the caller that is not donated: the caller reads it after the last step. *)
Definition kept_if_given (p : plan) (i : Z) : bool :=
  let t := tensor_at p i in negb (writer t =? -1) || donated t || returned t.
Definition keeps_inputs (p : plan) : bool := every (tensors p) (kept_if_given p).
Definition accepts_inputs (word : Z -> Z) : bool := keeps_inputs (plan_of word).

(** * Its meaning *)

Section Inputs.
Variable p : plan.

Definition is_input (i : Z) : Prop := is_tensor p i /\ writer (tensor_at p i) = -1 /\ donated (tensor_at p i) = false.
Definition is_kept (i : Z) : Prop := is_input i /\ returned (tensor_at p i) = true.

(** The byte at an address of an arena is one that step [n] writes: it is of a result that is not a view. *)
Definition written_by (n arena address : Z) : Prop := exists w x, step_writes p n w /\ ~ is_view p w /\ inside p w x /\
  arena = tensor_arena p w /\ address = address_of p w + x.

Section Memory.
Variable V : Type.                                  (* the content of a byte *)
Definition contents := Z -> Z -> V.                 (* arena, address *)

(** Step [n] may turn the one memory into the other: it changes no byte that it does not write. *)
Definition may_change (n : Z) (before after : contents) : Prop :=
  is_step p n /\ forall a y, ~ written_by n a y -> after a y = before a y.

(** Steps turn the one memory into the other, whatever control and kernels do. *)
Inductive becomes : contents -> contents -> Prop :=
  | unchanged : forall m, becomes m m
  | changed : forall m l n k, becomes m l -> may_change n l k -> becomes m k.

Definition KeptInputsStay : Prop := forall m k i x, becomes m k -> is_kept i -> inside p i x ->
  k (tensor_arena p i) (address_of p i + x) = m (tensor_arena p i) (address_of p i + x).
End Memory.

(** Every input that is not donated is kept. *)
Definition AllInputsKept : Prop := forall i, is_input i -> is_kept i.
End Inputs.
