(** Inputs that arrive late: the caller writes them when a step begins, and not before step 0. spec: T1.9

    The kernel of an arrival is the caller. So an arrival is a step that stores all bytes of its results, with contents
    that depend on nothing. A program may do that whatever the plan is, and then finds what the caller wrote. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Safe Run.
Open Scope Z_scope.

Section Arrivals.
Variable V : Type.                                  (* the content of a byte *)
Variable p : plan.

(** The caller writes all bytes of tensor [i]. *)
Definition arrival (i : Z) (content : Z -> V) : store V :=
  Store V i (fun x => (0 <=? x) && (x <? bytes (tensor_at p i))) (fun _ => content).

(** At a step that writes tensor [i] the caller may write any content. All bytes of the tensor are defined then, and
    private memory has that content. *)
Definition InputsMayArrive : Prop := forall n i content d u,
  is_step p n -> In i (writes p n) -> ~ is_view p i -> let w := arrival i content in
  allowed V p n d w /\
  forall x, inside p i x -> defined_after V p d w i x /\ store_own V w u i x = content x.
End Arrivals.
