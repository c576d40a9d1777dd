(** Steps that overlap in time: happens-before in place of the order of steps.

    Each step is a thread with its own registers. A step begins when all steps that happen before it have ended. Between
    its begin and its end it acts, interleaved with all others that run. An action may load or store a single byte.
    [StreamsProof.v] proves the theorems that are stated here, for plans without loops and exclusive branches, of which
    [Races.v] checks the premise. *)
From Coq Require Import ZArith List Bool Relations.
From Tmmu Require Import Lists Columns Safe Run.
Import ListNotations.
Open Scope Z_scope.

(** * Happens-before *)

(** The stream of each step, and the steps whose events it waits for. Steps of one stream run in the order of rows. *)
Record streams := Streams { stream : Z -> Z; after : Z -> list Z }.

(** Step [m] waits for step [n]: it is later in the same stream, or waits for its event. *)
Definition Waits (q : streams) (n m : Z) : Prop := 0 <= n < m /\ stream q n = stream q m \/ In n (after q m).
Definition Before (q : streams) : Z -> Z -> Prop := clos_trans Z (Waits q).

Section Streams.
Variable V : Type.                                  (* the content of a byte *)
Variable p : plan.
Variable before : Z -> Z -> Prop.

(** Two steps that access a common byte, one of which stores there, are ordered. *)
Definition RaceFree : Prop := forall n m w i x y, is_step p n -> is_step p m -> n <> m ->
  step_writes p n w -> ~ is_view p w -> touches p m i -> inside p w x -> inside p i y ->
  tensor_arena p w = tensor_arena p i -> address_of p w + x = address_of p i + y -> before n m \/ before m n.

(** Each read is ordered after the step that writes the tensor first, or reads what its own step makes. *)
Definition ReadsOrdered : Prop := forall n r, is_step p n -> In r (reads p n) -> writer (tensor_at p r) <> -1 ->
  before (writer (tensor_at p r)) n \/ writer (tensor_at p r) = n.

(** * The two machines *)

Section Machines.
Variable R : Type.                                  (* what the registers of a step hold *)
(** What a step that runs does next, as in [Run.v]. It ends when it stops or when control goes elsewhere. *)
Variable code : Z -> R -> action V R.

(** A schedule is a list of these events. A step begins with any registers, acts once, or is left out. *)
Inductive event := Begin (n : Z) (r : R) | Act (n : Z) | Skip (n : Z).

Record threads := Threads { began : Z -> bool; ended : Z -> bool; of_step : Z -> R }.
Definition with_row {A} (f : Z -> A) (n : Z) (a : A) : Z -> A := fun m => if m =? n then a else f m.
Definition start_thread (t : threads) (n : Z) (r : R) : threads :=
  Threads (with_row (began t) n true) (ended t) (with_row (of_step t) n r).
Definition go_on (t : threads) (n : Z) (r : R) : threads := Threads (began t) (ended t) (with_row (of_step t) n r).
Definition end_thread (t : threads) (n : Z) : threads := Threads (began t) (with_row (ended t) n true) (of_step t).

(** Private memory for each tensor. No step looks at [now] of the state. *)
Record private_threads := Apart { of_private :> threads; kept : state V }.
Definition private_event (s : private_threads) (e : event) : private_threads :=
  match e with
  | Begin n r => Apart (start_thread s n r) (kept s)
  | Skip n => Apart (end_thread s n) (kept s)
  | Act n =>
      match code n (of_step s n) with
      | Load _ _ f => Apart (go_on s n (f (own V (kept s)))) (kept s)
      | Put _ _ w r => Apart (go_on s n r) (stored V p (kept s) w)
      | Show _ _ v r => Apart (go_on s n r) (shown V p (kept s) v)
      | Go _ _ m r => Apart (if m =? n then go_on s n r else end_thread s n) (kept s)
      | Back _ _ _ _ | Stop _ _ => Apart (end_thread s n) (kept s)
      end
  end.
Definition private_after : list event -> private_threads -> private_threads := fold_left private_event.

(** The law of schedule and program, in private memory: a step begins once, when all steps that happen before it have
    ended. While it runs, it loads and stores what a step may in [Run.v]. A step that is left out never begins. *)
Definition may_begin (t : threads) (n : Z) : Prop := is_step p n /\ began t n = false /\ ended t n = false /\
  forall m, is_step p m -> before m n -> ended t m = true.
Definition is_running (t : threads) (n : Z) : Prop := began t n = true /\ ended t n = false.
Definition lawful_event (s : private_threads) (e : event) : Prop :=
  match e with
  | Begin n _ => may_begin s n
  | Skip n => began s n = false
  | Act n => is_running s n /\
      match code n (of_step s n) with
      | Load _ _ f => forall u v, SameFor V p n (defined V (kept s)) u v -> f u = f v
      | Put _ _ w _ => allowed V p n (defined V (kept s)) w
      | Show _ _ v _ => is_tensor p v /\ is_view p v /\ step_writes p n v
      | Go _ _ _ _ | Back _ _ _ _ | Stop _ _ => True
      end
  end.
Fixpoint lawful_schedule (l : list event) (s : private_threads) : Prop :=
  match l with [] => True | e :: l' => lawful_event s e /\ lawful_schedule l' (private_event s e) end.

(** One memory, in which arena [a] begins at [start a]. *)
Variable start : Z -> Z.
Record arena_threads := Together { of_arenas :> threads; bytes_now : Z -> V }.
Definition arena_event (s : arena_threads) (e : event) : arena_threads :=
  match e with
  | Begin n r => Together (start_thread s n r) (bytes_now s)
  | Skip n => Together (end_thread s n) (bytes_now s)
  | Act n =>
      match code n (of_step s n) with
      | Load _ _ f => Together (go_on s n (f (found V p start (bytes_now s)))) (bytes_now s)
      | Put _ _ w r => Together (go_on s n r) (store_flat V p start w (bytes_now s))
      | Show _ _ _ r => Together (go_on s n r) (bytes_now s)
      | Go _ _ m r => Together (if m =? n then go_on s n r else end_thread s n) (bytes_now s)
      | Back _ _ _ _ | Stop _ _ => Together (end_thread s n) (bytes_now s)
      end
  end.
Definition arena_after : list event -> arena_threads -> arena_threads := fold_left arena_event.

(** Tensor [i] is or will be read: by a step that runs or has not begun, or by the caller after the last step. *)
Definition read_from_now (t : threads) (i : Z) : Prop :=
  (exists n, is_step p n /\ ended t n = false /\ touches p n i) \/ returned (tensor_at p i) = true.
End Machines.

(** The theorem. Both machines begin with the same values in the caller's tensors, and take the same schedule, whatever
    it is. If it and the program keep to the law in private memory, then after any number of events the same steps have
    begun and ended, all registers are the same, and all tensors that are still read have the same bytes. *)
Definition RunsConcurrentlyAsPrivate : Prop := forall (R : Type) (code : Z -> R -> action V R) start t s m l,
  ArenasApart p start -> (forall n, began R t n = false) -> begins V p s -> (forall i, agree V p start m s i) ->
  lawful_schedule R code l (Apart R t s) ->
  let u := private_after R code l (Apart R t s) in
  let f := arena_after R code start l (Together R t m) in
  of_arenas R f = of_private R u /\
  forall i, read_from_now R (of_private R u) i -> agree V p start (bytes_now R f) (kept R u) i.

(** * Programs run *)

(** The bytes that a step finds, whatever the schedule: those of the caller and of steps that happen before it. *)
Definition Supplied (n r x : Z) : Prop := touches p n r /\ inside p r x /\
  (writer (tensor_at p r) = -1 \/ exists z, is_step p z /\ before z n /\ In r (writes p z)).

Section Programs.
Variable R : Type.
Local Notation instruction := (instruction V R).
Variable program_of : Z -> list instruction.

(** What is left of a step: the views that it has yet to make, instructions, and its registers. It makes its views
    first. *)
Record work := Work { views_left : list Z; instructions_left : list instruction; holds : R }.
Definition whole_work (n : Z) (r : R) : work :=
  Work (filter (fun v => negb (base (tensor_at p v) =? -1)) (writes p n)) (program_of n) r.
Definition carry_out (_ : Z) (k : work) : action V work :=
  match views_left k, instructions_left k with
  | v :: vs, l => Show V work v (Work vs l (holds k))
  | [], load _ _ f :: l => Load V work (fun u => Work [] l (f u (holds k)))
  | [], put _ _ w c g :: l => Put V work (Store V w c (g (holds k))) (Work [] l (holds k))
  | [], [] => Stop V work
  end.

(** A schedule that respects happens-before, and leaves out no step. It looks at no memory. *)
Definition respects_order (t : threads work) (e : event work) : Prop :=
  match e with
  | Begin _ n k => may_begin work t n /\ exists r, k = whole_work n r
  | Act _ n => is_running work t n
  | Skip _ _ => False
  end.
Fixpoint respects (l : list (event work)) (s : private_threads work) : Prop :=
  match l with [] => True | e :: l' => respects_order (of_private work s) e /\ respects l' (private_event work carry_out s e) end.

(** Nothing has begun, and the caller has written its tensors. *)
Definition at_rest (s : state V) (r : R) : private_threads work :=
  Apart work (Threads work (fun _ => false) (fun _ => false) (fun _ => Work [] [] r)) s.
End Programs.

(** A program is never stuck: whatever schedule respects happens-before, each action is lawful when its turn comes, so that
    each step finds a value in every byte that its kernel may depend on. The schedule can go on until all steps have
    ended. Then all tensors that the caller reads have values. *)
Definition ConcurrentProgress : Prop := forall (R : Type) (f : Z -> list (instruction V R)) r s,
  (forall n, is_step p n -> Kernel V p R n (Supplied n) (f n)) -> given V p s ->
  forall l, respects R f l (at_rest R s r) ->
  let t := fun k => private_after (work R) (carry_out R) k (at_rest R s r) in
  lawful_schedule (work R) (carry_out R) l (at_rest R s r) /\
  (exists k, respects R f (l ++ k) (at_rest R s r) /\
     forall n, is_step p n -> ended _ (of_private _ (t (l ++ k))) n = true) /\
  ((forall n, is_step p n -> ended _ (of_private _ (t l)) n = true) ->
     forall i x, is_tensor p i -> returned (tensor_at p i) = true -> inside p i x ->
     defined V (kept _ (t l)) i x).
End Streams.
