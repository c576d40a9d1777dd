(** The plan set that files state: the plan of each program from the bytes of its file, and the agreement from words.

    The agreement is what the verifier has read of the programs: what is kept, in which tensors each program finds and
    leaves it, and which arenas of two plans are one. It is trusted like the permissions, except for the places of what
    is kept, which the plans must have. The evidence among the words is not. [accepts_set_files] is what the program
    evaluates. spec: V6.24 *)
From Coq Require Import ZArith List Bool FMapPositive.
From Tmmu Require Import Lists Columns Check Cbor PlanFile Sets.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** One program: its file, the readers' words and the evidence beside it, and the words that link it to the set. *)
Record member := Member { file : source; permission : Z -> Z; evidence : Z -> Z; link : Z -> Z }.

(** The words of a link: the numbers of kept tensors that the program has, and of the set's arenas, and the rank; the
    set's arena of each arena of the plan; the plan's of each of the set; the rows of kept tensors, their entries + 1,
    exits + 1, and [beyond]; then how many kept tensors end below each tensor of the plan. *)
Definition LINK : Z := 3.
Definition ends_from (word : Z -> Z) (c0 n : Z) : PositiveMap.t ends :=
  fold_left (fun found i => PositiveMap.add (Z.to_pos (word (c0 + i) + 1))
      (Ends (word (c0 + n + i) - 1) (word (c0 + 2 * n + i) - 1) (word (c0 + 3 * n + i))) found)
    (run 0 n) (PositiveMap.empty ends).

(** A program of the set, as it is read. *)
Record linked := Linked {
  its_plan : plan; its_ends : PositiveMap.t ends; its_rank : Z; its_arena : Z -> Z; its_own : Z -> Z; its_below : Z -> Z
}.
Definition link_to (p : plan) (word : Z -> Z) : linked :=
  let U := word 0 in let S := word 1 in let A := arenas p in
  let u0 := LINK + A + S in              (* kept tensors, entries, exits, beyond *)
  let b0 := u0 + 4 * U in                (* tensors *)
  {| its_plan := p; its_ends := ends_from word u0 U; its_rank := word 2; its_arena := fun a => word (LINK + a);
     its_own := fun a => word (LINK + A + a); its_below := fun i => word (b0 + i) |}.
Definition linked_of (m : member) : option linked :=
  let* p := stated (file m) (permission m) in Some (link_to (with_evidence p (evidence m)) (link m)).
Definition no_memory : memory :=
  {| steps := 0; storages := 0; slots := 0; arenas := 0; by_slots := false;
     storage_at := fun _ => Storage 0 0 1 0 0 0 0 0; slot_at := fun _ => Slot 0 0 1 0 0;
     arena_at := fun _ => fst no_arena; reuse := fun _ => false; tenants := no_groups; ordered := no_groups;
     edge_at := fun _ => Edge 0 0 0 0; ups_at := fun _ => 0; downs := no_groups; pairs := [] |}.
Definition no_plan : plan :=
  {| allocation := no_memory; tensors := 0;
     tensor_at := fun _ => Tensor 0 0 0 1 0 0 0 (-1) 0 (-1) false false false false 0 0 0 0;
     reads := fun _ => []; writes := fun _ => []; mutates := fun _ => []; loops := []; exclusives := 0;
     exclusive_at := fun _ => Exclusive 0 0 []; takes := []; members := no_groups; within := fun _ => (0, 0);
     also := fun _ => []; joined := fun _ => [] |}.

(** The programs by row. The first is at 1. *)
Fixpoint programs_from (l : list member) (next : positive) (found : PositiveMap.t linked) :
  option (PositiveMap.t linked) :=
  match l with
  | [] => Some found
  | m :: l' => let* j := linked_of m in programs_from l' (Pos.succ next) (PositiveMap.add next j found)
  end.
Definition program_in (found : PositiveMap.t linked) (c : Z) : linked :=
  match PositiveMap.find (Z.to_pos (c + 1)) found with Some j => j | None => link_to no_plan (fun _ => 0) end.

(** The words of the agreement: the version, the number of kept tensors, then their arenas, addresses, bytes, whether
    each is initial, and the program that leaves it first + 1. *)
Definition SET_VERSION : Z := 1.
Definition AGREEMENT : Z := 2.
Definition kept_from (word : Z -> Z) (n : Z) : Z -> kept := fun k =>
  let at_ := fun column => word (AGREEMENT + column * n + k) in
  {| kept_arena := at_ 0; kept_address := at_ 1; kept_bytes := at_ 2; initial := at_ 3 =? 1; left_first := at_ 4 - 1 |}.

Definition stated_set (l : list member) (word : Z -> Z) : option plan_set :=
  require word 0 =? SET_VERSION in
  let* found := programs_from l 1 (PositiveMap.empty linked) in
  Some
  {| programs := count l; plan_at := fun c => its_plan (program_in found c);
     set_arena := fun c => its_arena (program_in found c); keeps := word 1; kept_at := kept_from word (word 1);
     uses := fun c => its_ends (program_in found c); rank := fun c => its_rank (program_in found c);
     plan_arena := fun c => its_own (program_in found c); kept_below := fun c => its_below (program_in found c) |}.

(** The function that the program evaluates. *)
Definition accepts_set_files (l : list member) (word : Z -> Z) : bool :=
  match stated_set l word with Some s => accepts_set s | None => false end.

(** Each program's plan is the one that its file states, with its evidence. *)
Definition SetOfFiles (l : list member) (s : plan_set) : Prop := programs s = count l /\
  forall c m, nth_error l c = Some m -> exists p, stated (file m) (permission m) = Some p /\
    plan_at s (Z.of_nat c) = with_evidence p (evidence m).
