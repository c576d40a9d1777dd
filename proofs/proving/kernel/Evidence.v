(** A plan without its evidence. The order of rows, edges, the branch of each step, and the steps at which tensors are made
    and last needed are given to the checker so that it can decide quickly. They are no part of the plan.
    [EvidenceProof.v] proves that no statement about runs depends on them. spec: V6.22 *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Safe.
Import ListNotations.
Open Scope Z_scope.

Definition no_rows : groups := Groups (fun _ => 0) (fun _ => 0).

(** A memory of [N] steps. The slot of each storage is a claim, and stays. *)
Definition bare_memory (m : memory) (N : Z) : memory :=
  {| steps := N; storages := storages m; slots := slots m; arenas := arenas m; by_slots := false;
     storage_at := fun k => let s := storage_at m k in
       Storage (s_arena s) (s_bytes s) (s_alignment s) (s_birth s) (s_death s) (s_offset s) (s_slot s) 0;
     slot_at := fun i => let h := slot_at m i in Slot (k_arena h) (k_bytes h) (k_alignment h) 0 0;
     arena_at := arena_at m; reuse := reuse m; tenants := no_rows; ordered := no_rows;
     edge_at := fun _ => Edge 0 0 0 0; ups_at := fun _ => 0; downs := no_rows; pairs := pairs m |}.

(** The plan, if the bytes of tensor [i] are its own from step [first i] to step [last i]. Nothing else is evidence here. *)
Definition with_lives (p : plan) (first last : Z -> Z) : plan :=
  {| allocation := bare_memory p (steps p); tensors := tensors p;
     tensor_at := fun i => let t := tensor_at p i in
       {| home := home t; window := window t; bytes := bytes t; alignment := alignment t; birth := birth t;
          death := death t; writer := writer t; base := base t; shift := shift t; operand := operand t;
          returned := returned t; donated := donated t; scratch := scratch t;
          handed := false; made := first i; needed := last i; root := 0; place := 0 |};
     reads := reads p; writes := writes p; mutates := mutates p; loops := loops p; exclusives := exclusives p;
     exclusive_at := exclusive_at p; takes := takes p;
     members := no_rows; within := fun _ => (0, 0); also := fun _ => []; joined := fun _ => [] |}.
Definition bare (p : plan) : plan := with_lives p (fun _ => 0) (fun _ => 0).

(** The plan is safe: its tensors have lives with which it is. *)
Definition SafeInSomeLives (p : plan) : Prop := exists first last, Safe (with_lives p first last).
Definition SafeInSomeSteps (m : memory) : Prop := exists N, SafeMemory (bare_memory m N).
