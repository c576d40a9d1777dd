(** One plan at every shape: the same steps, storages, addresses and lifetimes, with smaller tensors.

    A plan for an envelope is checked at the largest size of each tensor. [Shrinks] states the facts that
    another shape needs. A solver shows them for each shape of an envelope, see [proofs/proving/obligations/sizes_over_envelope.py]. *)
From Coq Require Import ZArith.
From Tmmu Require Import Columns Safe.
Open Scope Z_scope.

Definition resized (t : tensor) (n : Z) : tensor :=
  Tensor (home t) (window t) n (alignment t) (birth t) (death t) (writer t) (base t) (shift t) (operand t) (returned t)
    (donated t) (scratch t) (handed t) (made t) (needed t) (root t) (place t).

(** The plan in which tensor [i] has [size i] bytes. A view begins at the same byte of its base. *)
Definition at_sizes (p : plan) (size : Z -> Z) : plan :=
  Plan (allocation p) (tensors p) (fun i => resized (tensor_at p i) (size i)) (reads p) (writes p) (mutates p) (loops p)
    (exclusives p) (exclusive_at p) (takes p) (members p) (within p) (also p) (joined p).

(** R6.5, R6.6: no tensor is larger than planned, a result in place has the size of its operand, and a view is inside of
    its base. *)
Definition Shrinks (p : plan) (size : Z -> Z) : Prop :=
  (forall i, is_tensor p i -> 0 <= size i <= bytes (tensor_at p i)) /\
  (forall w, is_tensor p w -> operand (tensor_at p w) <> -1 -> size w = size (operand (tensor_at p w))) /\
  (forall v, is_tensor p v -> is_view p v -> shift (tensor_at p v) + size v <= size (base (tensor_at p v))).
