(** The check of a plan whose steps run on streams: linear in (steps + waits) times streams, and in accesses.

    A plan that [check] accepts is safe in the order of its rows. Here it is checked that events lead from earlier rows to
    later ones, and that any two steps that access a common byte, one of which stores there, are ordered by
    happens-before. Plans with loops or exclusive branches are refused. spec: V6.25, V6.26, V6.27

    The evidence is not trusted. Vector clocks show which steps happen before a step: each row is compared only with
    those of the steps that it waits for directly. A version is what one step, or the caller, writes into a tensor, and
    all that reads it before the next write. The versions that own a byte take turns: each takes the byte from the one
    before it, or from the floor of the arena, and gives it to one other. *)
From Coq Require Import ZArith List Bool.
From Tmmu Require Import Lists Columns Check Cbor PlanFile Streams.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** What step [made_by] (-1: the caller) writes into a tensor, and the last steps that access it, at most one a stream. *)
Record version := Version { of_tensor : Z; made_by : Z; last_by : list Z }.

Record order_evidence := OrderEvidence {
  stream_count : Z;
  previous : Z -> Z;               (* an earlier step of the same stream; -1: none *)
  clock : Z -> Z -> Z;             (* of a step and a stream: 1 more than the stream's last step that happens before *)
  versions : Z;
  version_at : Z -> version;
  read_from : Z -> list Z;         (* the version of each tensor that a step reads, and of each that it writes *)
  written_to : Z -> list Z;
  hand_at : Z -> edge;             (* version [above] takes bytes [first] to [last] of the arena from [below] *)
  given_at : Z -> Z;               (* the edges up from version k; the floor of arena a is [versions + a] *)
  taken : groups                   (* the edges down from each version, by [first] *)
}.

(** [f] holds of each two that have one place in two lists of one length. *)
Fixpoint pairwise (f : Z -> Z -> bool) (l k : list Z) : bool :=
  match l, k with
  | [], [] => true
  | x :: l', y :: k' => f x y &&& pairwise f l' k'
  | _, _ => false
  end.

Section Races.
Variable p : plan.
Variable q : streams.
Variable e : order_evidence.

(** * Clocks *)

(** The clock of step [m] shows that step [n] happens before it, or is the same. *)
Definition comes_before (n m : Z) : bool := n <? clock e m (stream q n).
Definition not_after (n m : Z) : bool := (n =? m) || comes_before n m.

(** The steps that step [m] waits for directly, of which those of its own stream are one. *)
Definition direct (m : Z) : list Z := if previous e m =? -1 then after q m else previous e m :: after q m.
(** What the clock of step [m] shows of stream [t] is shown by a step that it waits for. *)
Definition hand_of_clock (m t : Z) : bool :=
  (clock e m t <=? 0) ||
  existsb (fun a => (clock e m t <=? clock e a t) || ((t =? stream q a) && (clock e m t <=? a + 1))) (direct m).
Definition step_ordered (m : Z) : bool :=
  ((previous e m =? -1) || (row (previous e m) m && (stream q (previous e m) =? stream q m))) &&&
  forallb (fun a => row a m) (after q m) &&&
  row (stream q m) (stream_count e) &&& every (stream_count e) (hand_of_clock m).

(** * Accesses *)

(** Version [k] is accessed by step [n] before or when its last steps access it. *)
Definition ends_after (k n : Z) : bool :=
  existsb (fun l => row l (steps p) && (n <=? l) && (stream q n =? stream q l)) (last_by (version_at e k)).
(** A step reads a version of the tensor, after the step that makes it, and after the step that writes the tensor
    first. *)
Definition read_ordered (n r k : Z) : bool :=
  let w := writer (tensor_at p r) in
  ((w =? -1) || not_after w n) &&&
  row k (versions e) &&& (of_tensor (version_at e k) =? root (tensor_at p r)) &&&
  ((made_by (version_at e k) =? -1) || not_after (made_by (version_at e k)) n) &&& ends_after k n.
(** A step makes a version of each tensor that it writes and that is not a view. *)
Definition write_ordered (n w k : Z) : bool :=
  negb (base (tensor_at p w) =? -1) ||
  (row k (versions e) && (of_tensor (version_at e k) =? w) && (made_by (version_at e k) =? n)).
Definition accesses_ordered (n : Z) : bool :=
  pairwise (read_ordered n) (reads p n) (read_from e n) &&& pairwise (write_ordered n) (writes p n) (written_to e n).

(** * The owners of a byte *)

Definition arena_of_version (k : Z) : Z := s_arena (storage_at p (home (tensor_at p (of_tensor (version_at e k))))).
Definition start_of_version (k : Z) : Z := address p (tensor_at p (of_tensor (version_at e k))).
Definition end_of_version (k : Z) : Z := start_of_version k + bytes (tensor_at p (of_tensor (version_at e k))).

(** Version [k] may take bytes by an edge: from the floor of its arena, or from a version that has these bytes, was made
    before, and whose last accesses happen before the step that makes [k], or are of that step. *)
Definition hands_over (k h : Z) : bool :=
  let x := below (hand_at e h) in
  between (given_at e x) h (given_at e (x + 1) - 1) &&&
  (if x =? versions e + arena_of_version k then true
   else
     row x (versions e) &&& (arena_of_version x =? arena_of_version k) &&&
     (start_of_version x <=? first (hand_at e h)) &&& (last (hand_at e h) <? end_of_version x) &&&
     (made_by (version_at e x) <? made_by (version_at e k)) &&&
     forallb (fun l => not_after l (made_by (version_at e k))) (last_by (version_at e x))).
(** The edges down from version [k] follow one another from byte [from] to its last byte. *)
Fixpoint takes_all (k from : Z) (l : list Z) : bool :=
  match l with
  | [] => end_of_version k <=? from
  | h :: l' =>
      (above (hand_at e h) =? k) &&& (first (hand_at e h) =? from) &&& hands_over k h &&&
      takes_all k (last (hand_at e h) + 1) l'
  end.
Definition version_ok (k : Z) : bool :=
  let m := made_by (version_at e k) in
  row (of_tensor (version_at e k)) (tensors p) &&& ((m =? -1) || (row m (steps p) && ends_after k m)) &&&
  takes_all k (start_of_version k) (group (taken e) k).

(** The edges up from one version, or from a floor, have no byte in common. *)
Fixpoint to_one (ended_at : Z) (l : list Z) : bool :=
  match l with
  | [] => true
  | h :: l' => (ended_at <? first (hand_at e h)) &&& (first (hand_at e h) <=? last (hand_at e h)) &&&
               to_one (last (hand_at e h)) l'
  end.
Definition gives_once (x : Z) : bool := to_one (-1) (run (given_at e x) (given_at e (x + 1))).

(** * The whole check *)

Definition straight : bool :=
  (exclusives p =? 0) &&& match loops p with [] => true | _ => false end &&&
  match takes p with [] => true | _ => false end.
Definition races_ok : bool :=
  straight &&& every (steps p) step_ordered &&& every (steps p) accesses_ordered &&&
  every (versions e) version_ok &&& every (versions e + arenas p) gives_once.
Definition check_streams : bool := check p &&& races_ok.

(** The number of the part that fails, for messages: those of [failing_part], then 10: loops or branches, 11: clocks,
    12: accesses, 13: bytes. *)
Definition failing_part_of_streams : Z :=
  if negb (check p) then failing_part p else if negb straight then 10
  else if negb (every (steps p) step_ordered) then 11 else if negb (every (steps p) accesses_ordered) then 12 else 13.
End Races.

(** * Reading

    The statement is the readers': the version, the numbers of streams, steps and waits, the stream of each step, and
    the waits of each step (bounds, then steps). The evidence has the numbers of versions, edges, reads, writes and last
    accesses, then the columns, one behind the other. Values that may be -1 are stored with 1 added. *)
Definition STREAMS_VERSION : Z := 1.
Definition STATEMENT : Z := 4.
Definition streams_of (statement : Z -> Z) : streams :=
  let N := statement 2 in
  Streams (fun n => statement (STATEMENT + n)) (row_of statement (STATEMENT + N) N).
Definition ORDER : Z := 5.
Definition order_evidence_of (p : plan) (statement evidence : Z -> Z) : order_evidence :=
  let N := steps p in let A := arenas p in let S := statement 1 in
  let E := evidence 0 in let H := evidence 1 in let R := evidence 2 in let W := evidence 3 in let L := evidence 4 in
  let c0 := ORDER + N in                 (* clocks of each step, behind previous + 1 *)
  let r0 := c0 + N * S in                (* the version of each read: N + 1 bounds, then R rows; writes likewise *)
  let w0 := r0 + (N + 1) + R in
  let v0 := w0 + (N + 1) + W in          (* versions: tensor, made by + 1 *)
  let l0 := v0 + 2 * E in                (* last accesses of each version: E + 1 bounds, then L rows *)
  let h0 := l0 + (E + 1) + L in          (* edges: below, above, first, last *)
  let u0 := h0 + 4 * H in                (* bounds of the edges up from each version and floor *)
  let d0 := u0 + (E + A + 1) in          (* edges down from each version: E + 1 bounds, then H rows *)
  {| stream_count := S; previous := fun n => evidence (ORDER + n) - 1; clock := fun m t => evidence (c0 + m * S + t);
     versions := E;
     version_at := fun k => Version (evidence (v0 + k)) (evidence (v0 + E + k) - 1) (row_of evidence l0 E k);
     read_from := row_of evidence r0 N; written_to := row_of evidence w0 N;
     hand_at := edges_from evidence h0 H; given_at := fun k => evidence (u0 + k); taken := grouped evidence d0 E |}.

(** What the program evaluates on a plan, the statement of its streams, and the evidence. *)
Definition accepts_streams (p : plan) (statement evidence : Z -> Z) : bool :=
  (statement 0 =? STREAMS_VERSION) &&& (statement 2 =? steps p) &&&
  check_streams p (streams_of statement) (order_evidence_of p statement evidence).
Definition failing_streams (p : plan) (statement evidence : Z -> Z) : Z :=
  if (statement 0 =? STREAMS_VERSION) &&& (statement 2 =? steps p)
  then failing_part_of_streams p (streams_of statement) (order_evidence_of p statement evidence) else 9.
(** The same of the words of a plan, and of a file. *)
Definition accepts_concurrent (word statement evidence : Z -> Z) : bool :=
  (word 0 =? VERSION) &&& with_accesses word &&& accepts_streams (plan_of word) statement evidence.
Definition accepts_concurrent_file (f : source) (permission evidence statement order_ : Z -> Z) : bool :=
  match stated f permission with
  | Some p => accepts_streams (with_evidence p evidence) statement order_
  | None => false
  end.
