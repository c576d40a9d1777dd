(** The plan that a file states, read from the file's own bytes.

    [stated] reads allocation and claims from the file, and the permissions from the readers' words: which tensors are
    views and of what, whose place a result may take, what the caller donated, loops, and exclusive branches. The
    permissions are trusted. The plan that it returns has no evidence; [with_evidence] adds it. [accepts_file] is what
    the program evaluates. Lifetimes without accesses are read alike. A map with a key that is not known is refused,
    since such a key could change what the others mean. spec: P1.1, P1.2, P2.1, P2.6, V6.19 *)
From Coq Require Import ZArith NArith List Bool String Ascii FMapPositive.
From Tmmu Require Import Lists Columns Check Cbor.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

Notation "'let*' x := a 'in' b" := (match a with Some x => b | None => None end)
  (at level 200, x name, a at level 100, b at level 200, right associativity).
Notation "'require' a 'in' b" := (if a then b else None) (at level 200, a at level 100, b at level 200, right associativity).

(** * Reading parts of a file *)

Section File.
Variable f : source.
Notation entries := (list (span * item span)).

Definition letters (s : string) : content := map (fun c => Z.of_N (N_of_ascii c)) (list_ascii_of_string s).
Fixpoint same (at_ : Z) (l : content) : bool :=
  match l with [] => true | c :: l' => (byte f at_ =? c) &&& same (at_ + 1) l' end.
(** The text in the file is this one. *)
Definition is_text (s : span) (t : content) : bool := (snd s =? count t) &&& same (fst s) t.

Fixpoint find (key : content) (l : entries) : option (item span) :=
  match l with [] => None | (k, i) :: l' => if is_text k key then Some i else find key l' end.
Definition field (l : entries) (key : string) : option (item span) := find (letters key) l.
Definition map_at (l : entries) (key : string) : option entries :=
  match field l key with Some (Map m) => Some m | _ => None end.
Definition array_at (l : entries) (key : string) : option (list (item span)) :=
  match field l key with Some (Array a) => Some a | _ => None end.
Definition number_of (l : entries) (key : string) : option Z :=
  match field l key with Some (Number n) => if 0 <=? n then Some n else None | _ => None end.
Definition flag_at (l : entries) (key : string) : option bool :=
  match field l key with Some (Constant n) => if n =? 22 then None else Some (n =? 21) | _ => None end.
Definition text_is (l : entries) (key value : string) : bool :=
  match field l key with Some (Text s) => is_text s (letters value) | _ => false end.

(** A map has no keys but these, which are listed in the order of keys in a file. Each may be absent. *)
Fixpoint knows (keys : list string) (l : entries) : bool :=
  match keys, l with
  | _, [] => true
  | [], _ => false
  | key :: keys', (k, _) :: l' => if is_text k (letters key) then knows keys' l' else knows keys' l
  end.
Definition known_at (keys : list string) (l : entries) (key : string) : option entries :=
  let* m := map_at l key in require knows keys m in Some m.
Definition known_map (keys : list string) (i : item span) : bool := match i with Map m => knows keys m | _ => false end.
Definition known_if_there (keys : list string) (l : entries) (key : string) : bool :=
  match field l key with Some i => known_map keys i | None => true end.

(** A column of a table, if it has so many rows of this type: numbers of 1, 4 or 8 bytes. *)
Definition TAG_U8 := 64. Definition TAG_U32 := 70. Definition TAG_U64 := 71.
Definition FOUR := 4. Definition EIGHT := 8.
Definition column (l : entries) (tag rows : Z) (key : string) : option Z :=
  match field l key with
  | Some (Column t (start, n)) => if (t =? tag) &&& (n =? width tag * rows) then Some start else None
  | _ => None
  end.
Definition column1 (l : entries) (rows : Z) (key : string) : option (Z -> Z) :=
  let* start := column l TAG_U8 rows key in Some (fun k => byte f (start + k)).
Definition column4 (l : entries) (rows : Z) (key : string) : option (Z -> Z) :=
  let* start := column l TAG_U32 rows key in Some (fun k => word4 f (start + FOUR * k)).
Definition column8 (l : entries) (rows : Z) (key : string) : option (Z -> Z) :=
  let* start := column l TAG_U64 rows key in Some (fun k => word8 f (start + EIGHT * k)).
(** The number of rows of a table, which is that of any of its columns. *)
Definition rows_in (l : entries) (key : string) : option Z :=
  match field l key with Some (Column t (_, n)) => Some (n / width t) | _ => None end.
(** The numbers of each row: [rows] + 1 bounds in ascending order, and all numbers one behind the other. *)
Definition lists_at (l : entries) (rows : Z) (bounds key : string) : option (Z -> list Z) :=
  let* flat := rows_in l key in
  let* at_ := column4 l (rows + 1) bounds in
  let* value := column4 l flat key in
  require (at_ 0 =? 0) &&& (at_ rows =? flat) &&& every rows (fun n => at_ n <=? at_ (n + 1)) in
  Some (fun n => map value (run (at_ n) (at_ (n + 1)))).

Fixpoint pairs_of (l : list (item span)) (found : list (Z * Z)) : option (list (Z * Z)) :=
  match l with
  | [] => Some (rev' found)
  | Array [Number a; Number b] :: l' => pairs_of l' ((a, b) :: found)
  | _ => None
  end.

(** * The keys of each map, as spec/plan.cddl lists them; by length, then by their letters *)

Definition KEYS_OF_FILE : list string :=
  ["set"; "claims"; "format"; "shards"; "buffers"; "envelope"; "allocation"; "provenance"; "file_digest"; "spec_version"]%string.
Definition KEYS_OF_ALLOCATION : list string :=
  ["ops"; "steps"; "arenas"; "bodies"; "dtypes"; "tensors"; "storages"; "unproduced"; "must_not_alias"]%string.
Definition KEYS_OF_BUFFERS : list string := ["name"; "arenas"; "storages"; "must_not_alias"]%string.
Definition KEYS_OF_ARENA : list string :=
  ["name"; "reuse"; "capacity"; "alignment"; "scattered"; "base_alignment"]%string.
Definition KEYS_OF_STORAGES : list string := ["arena"; "birth"; "bytes"; "death"; "offset"; "alignment"]%string.
Definition KEYS_OF_TENSORS : list string :=
  ["of"; "name"; "role"; "birth"; "bytes"; "death"; "dtype"; "flags"; "shares"; "window"; "writer"; "storage";
   "alignment"]%string.
Definition KEYS_OF_STEPS : list string :=
  ["op"; "body"; "node"; "part"; "count"; "reads"; "writes"; "mutates"; "reads_at"; "writes_at"; "mutates_at"]%string.
Definition KEYS_OF_CLAIMS : list string := ["slots"; "usage"; "configuration"]%string.
Definition KEYS_OF_USAGE : list string :=
  ["slots"; "minimal"; "max_live"; "footprint"; "peak_step"; "max_live_step"; "peak_live_bytes"]%string.
Definition KEYS_OF_SLOTS : list string := ["of"; "arena"; "bytes"; "alignment"]%string.
Definition KEYS_OF_ENVELOPE : list string :=
  ["size"; "terms"; "points"; "policy"; "ranges"; "symbolic"; "largest_at"]%string.

(** * Arenas, storages, and the claims about them *)

(** The claims about one arena; -1 is not claimed. *)
Record use := Use {
  used : Z;            (* the bytes that it needs *)
  at_fullest : Z;      (* if no fewer slots are claimed to suffice, a step at which all slots are full *)
  at_peak : Z          (* if no fewer bytes are claimed to suffice, a step at which all bytes are live *)
}.
Definition no_use : use := Use 0 (-1) (-1).
Definition claimed_number (l : entries) (key : string) : Z := match number_of l key with Some n => n | None => -1 end.
Definition use_of (l : entries) : use :=
  let bytes_ := claimed_number l "footprint" in
  {| used := bytes_;
     at_fullest := match flag_at l "minimal" with Some true => claimed_number l "max_live_step" | _ => -1 end;
     at_peak := if bytes_ =? claimed_number l "peak_live_bytes" then claimed_number l "peak_step" else -1 |}.
Fixpoint uses_of (l : list (item span)) : option (list use) :=
  match l with
  | [] => Some []
  | Map m :: l' => let* rest := uses_of l' in Some (use_of m :: rest)
  | _ => None
  end.
(** The claims about all arenas, if each states a footprint; none otherwise. *)
Definition claimed_uses (top : entries) : option (list use) :=
  let* l := map_at top "claims" in
  let* table := array_at l "usage" in
  let* found := uses_of table in
  if forallb (fun u => 0 <=? used u) found then Some found else None.

Definition arena_of_entries (l : entries) (u : use) : option (arena * bool) :=
  require knows KEYS_OF_ARENA l in
  let* room := number_of l "capacity" in
  let* aligned := number_of l "alignment" in
  let* reused := flag_at l "reuse" in
  let* spread := flag_at l "scattered" in
  Some ({| capacity := room; least_alignment := aligned; scattered := spread; footprint := used u;
           fullest := at_fullest u; peak := at_peak u |}, reused).
Definition no_arena : arena * bool := (Arena 0 0 false 0 (-1) (-1), false).
(** The arenas by row, with the claims about them, if there are any. The first is at 1. *)
Fixpoint arenas_of (l : list (item span)) (claimed : option (list use)) (next : positive)
  (found : PositiveMap.t (arena * bool)) : option (PositiveMap.t (arena * bool)) :=
  match l, claimed with
  | [], None | [], Some [] => Some found
  | Map m :: l', None =>
      let* a := arena_of_entries m no_use in arenas_of l' None (Pos.succ next) (PositiveMap.add next a found)
  | Map m :: l', Some (u :: rest) =>
      let* a := arena_of_entries m u in arenas_of l' (Some rest) (Pos.succ next) (PositiveMap.add next a found)
  | _, _ => None
  end.
Definition arena_in (found : PositiveMap.t (arena * bool)) (a : Z) : arena * bool :=
  if a <? 0 then no_arena
  else match PositiveMap.find (Z.to_pos (a + 1)) found with Some x => x | None => no_arena end.

(** Claimed slots: how many, each of them, and the slot of each storage. *)
Record claimed_slots := ClaimedSlots { slot_count : Z; claimed_slot : Z -> slot; slot_of : Z -> Z }.
Definition no_slots : claimed_slots := ClaimedSlots 0 (fun _ => Slot 0 0 1 0 0) (fun _ => 0).
Definition slots_of_entries (l : entries) (storages_ : Z) : option claimed_slots :=
  let* rows := rows_in l "arena" in
  let* where_ := column4 l rows "arena" in
  let* bytes_ := column8 l rows "bytes" in
  let* aligned := column8 l rows "alignment" in
  let* of := column4 l storages_ "of" in
  Some {| slot_count := rows; slot_of := of;
          claimed_slot := fun s =>
            {| k_arena := where_ s; k_bytes := bytes_ s; k_alignment := aligned s; k_offset := 0; k_place := 0 |} |}.
Definition slots_in_claims (top : entries) : option entries := let* l := map_at top "claims" in map_at l "slots".

(** The claims have no keys that this file does not know. *)
Definition knows_claims (top : entries) : bool :=
  known_if_there KEYS_OF_CLAIMS top "claims" &&&
  match map_at top "claims" with
  | Some l =>
      known_if_there KEYS_OF_SLOTS l "slots" &&&
      match array_at l "usage" with Some table => forallb (known_map KEYS_OF_USAGE) table | None => true end
  | None => true
  end.

Definition storages_of (l : entries) (rows : Z) (slot_ : Z -> Z) : option (Z -> storage) :=
  let* where_ := column4 l rows "arena" in
  let* bytes_ := column8 l rows "bytes" in
  let* aligned := column8 l rows "alignment" in
  let* birth_ := column4 l rows "birth" in
  let* death_ := column4 l rows "death" in
  let* offset := column8 l rows "offset" in
  Some (fun k =>
    {| s_arena := where_ k; s_bytes := bytes_ k; s_alignment := aligned k; s_birth := birth_ k; s_death := death_ k;
       s_offset := offset k; s_slot := slot_ k; s_place := 0 |}).

Definition no_groups : groups := Groups (fun _ => 0) (fun i => i).
(** The memory of a plan of [N] steps; [top] is the file, and [l] what it states beside claims. *)
Definition memory_in (top l : entries) (N : Z) : option memory :=
  require knows_claims top in
  let* table_of_arenas := array_at l "arenas" in
  let* arenas_ := arenas_of table_of_arenas (claimed_uses top) 1 (PositiveMap.empty _) in
  let* table := known_at KEYS_OF_STORAGES l "storages" in
  let* K := rows_in table "arena" in
  let* slots_ := match slots_in_claims top with Some c => slots_of_entries c K | None => Some no_slots end in
  let* storages_ := storages_of table K (slot_of slots_) in
  let* list_of_pairs := array_at l "must_not_alias" in
  let* pairs_ := pairs_of list_of_pairs [] in
  Some {| steps := N; storages := K; slots := slot_count slots_; arenas := count table_of_arenas; by_slots := false;
          storage_at := storages_; slot_at := claimed_slot slots_; arena_at := fun a => fst (arena_in arenas_ a);
          reuse := fun a => snd (arena_in arenas_ a); tenants := no_groups; ordered := no_groups;
          edge_at := fun _ => Edge 0 0 0 0; ups_at := fun _ => 0; downs := no_groups; pairs := pairs_ |}.

(** * Tensors and steps *)

(** The roles that matter, by their numbers in a file, and the bits of a tensor's flags. *)
Definition PARAMETER := 1. Definition OPTIMIZER := 2. Definition SCRATCH := 5.
Definition IS_OUTPUT := 2. Definition IS_RETURNED := 8.
Definition NONE := 2 ^ 32 - 1.

(** The caller reads outputs, what it asks for, and the parameters and optimizer state that it did not donate. *)
Definition is_returned (role flags : Z) (donated_ : bool) : bool :=
  bit IS_OUTPUT flags || bit IS_RETURNED flags || (((role =? PARAMETER) || (role =? OPTIMIZER)) && negb donated_).

(** The readers' words: the version, the numbers of tensors, loops, exclusive nodes, their branches, and takes, then the
    columns of tensors (base + 1, shift, operand + 1, donated) and the rest. *)
Definition FILE_VERSION : Z := 1.
Definition PERMISSIONS : Z := 6.

Definition tensors_of (l : entries) (rows : Z) (permission : Z -> Z) : option (Z -> tensor) :=
  let* home_ := column4 l rows "storage" in
  let* window_ := column8 l rows "window" in
  let* bytes_ := column8 l rows "bytes" in
  let* aligned := column8 l rows "alignment" in
  let* birth_ := column4 l rows "birth" in
  let* death_ := column4 l rows "death" in
  let* writer_ := column4 l rows "writer" in
  let* role := column1 l rows "role" in
  let* flags := column1 l rows "flags" in
  let c1 := PERMISSIONS + rows in let c2 := c1 + rows in let c3 := c2 + rows in
  Some (fun i =>
    let step := let w := writer_ i in if w =? NONE then -1 else w in
    let given := permission (c3 + i) =? 1 in
    {| home := home_ i; window := window_ i; bytes := bytes_ i; alignment := aligned i; birth := birth_ i;
       death := death_ i; writer := step; base := permission (PERMISSIONS + i) - 1; shift := permission (c1 + i);
       operand := permission (c2 + i) - 1; returned := is_returned (role i) (flags i) given; donated := given;
       scratch := role i =? SCRATCH; handed := false; made := step; needed := step; root := i; place := 0 |}).

(** The entries at the top of a file. Provenance, shards and set are not read, and of the envelope only its keys. *)
Definition top_of_file : option entries :=
  let* whole := decoded f in
  let* top := match whole with Map m => Some m | _ => None end in
  require text_is top "format" "tmmu-plan" &&& text_is top "spec_version" "2.0" &&&
    knows KEYS_OF_FILE top &&& known_if_there KEYS_OF_ENVELOPE top "envelope" in
  Some top.

(** The plan that the file states, under these permissions. It has no evidence: no edges, and no order of rows; a tensor
    is made and last needed by its writer, and is its own root. *)
Definition stated (permission : Z -> Z) : option plan :=
  let* top := top_of_file in
  let* l := known_at KEYS_OF_ALLOCATION top "allocation" in
  let* table := known_at KEYS_OF_TENSORS l "tensors" in
  let* T := rows_in table "storage" in
  let* tensors_ := tensors_of table T permission in
  let* table_of_steps := known_at KEYS_OF_STEPS l "steps" in
  let* N := number_of table_of_steps "count" in
  let* reads_ := lists_at table_of_steps N "reads_at" "reads" in
  let* writes_ := lists_at table_of_steps N "writes_at" "writes" in
  let* mutates_ := lists_at table_of_steps N "mutates_at" "mutates" in
  let* m := memory_in top l N in
  require (permission 0 =? FILE_VERSION) &&& (permission 1 =? T) in
  let L := permission 2 in let X := permission 3 in let B := permission 4 in let G := permission 5 in
  let l0 := PERMISSIONS + 4 * T in       (* loops: enters, then leaves *)
  let x0 := l0 + 2 * L in                (* exclusive nodes *)
  let t0 := x0 + 3 * X + 1 + B in        (* takes: the results of leaves, then those of branches *)
  Some
  {| allocation := m; tensors := T; tensor_at := tensors_; reads := reads_; writes := writes_; mutates := mutates_;
     loops := pairs_from permission l0 L; exclusives := X; exclusive_at := exclusives_from permission x0 X;
     takes := pairs_from permission t0 G;
     members := no_groups; within := fun _ => (0, N); also := fun _ => []; joined := fun _ => [] |}.

(** The lifetimes that the file states. How many steps there are is open. *)
Definition stated_lifetimes : option memory :=
  let* top := top_of_file in let* l := known_at KEYS_OF_BUFFERS top "buffers" in memory_in top l 0.

(** Which of the two the file states, and what it claims: slots, footprints. *)
Definition states_lifetimes : bool := match stated_lifetimes with Some _ => true | None => false end.
Definition claims_slots : bool :=
  match (let* top := top_of_file in slots_in_claims top) with Some _ => true | None => false end.
Definition claims_footprints : bool :=
  match (let* top := top_of_file in claimed_uses top) with Some _ => true | None => false end.
(** Whether the plan is symbolic: its offsets follow from its slots. *)
Definition claims_symbolic : bool :=
  match (let* top := top_of_file in let* l := map_at top "envelope" in flag_at l "symbolic") with
  | Some b => b
  | None => false
  end.
End File.

(** * Evidence *)

(** The words of the evidence: flags, the numbers of edges, other writers and joins, the number of steps of a plan that
    has only lifetimes, then the columns. *)
Definition EVIDENCE : Z := 5.

(** A memory of [N] steps with evidence, and the position of the first word behind it. *)
Definition memory_with_evidence (m : memory) (N : Z) (evidence : Z -> Z) : memory * Z :=
  let K := storages m in let A := arenas m in let S := slots m in let E := evidence 1 in
  let k0 := EVIDENCE + K in              (* storages: place; then slots: offset, place *)
  let k1 := k0 + S in
  let t0 := k1 + S in                    (* storages of each slot: S + 1 bounds, then K rows *)
  let o0 := t0 + (S + 1) + K in          (* slots of each arena: A + 1 bounds, then S rows *)
  let e0 := o0 + (A + 1) + S in          (* edges *)
  let u0 := e0 + 4 * E in                (* bounds of the edges up from each of K storages and A floors *)
  let d0 := u0 + (K + A + 1) in          (* edges down from each storage: K + 1 bounds, then E rows *)
  ({| steps := N; storages := K; slots := S; arenas := A; by_slots := bit 1 (evidence 0);
      storage_at := fun k => let s := storage_at m k in
        {| s_arena := s_arena s; s_bytes := s_bytes s; s_alignment := s_alignment s; s_birth := s_birth s;
           s_death := s_death s; s_offset := s_offset s; s_slot := s_slot s; s_place := evidence (EVIDENCE + k) |};
      slot_at := fun i => let h := slot_at m i in
        {| k_arena := k_arena h; k_bytes := k_bytes h; k_alignment := k_alignment h;
           k_offset := evidence (k0 + i); k_place := evidence (k1 + i) |};
      arena_at := arena_at m; reuse := reuse m; tenants := grouped evidence t0 S; ordered := grouped evidence o0 A;
      edge_at := edges_from evidence e0 E; ups_at := fun k => evidence (u0 + k); downs := grouped evidence d0 K;
      pairs := pairs m |},
   d0 + (K + 1) + E).

Definition with_evidence (p : plan) (evidence : Z -> Z) : plan :=
  let N := steps p in let K := storages p in let T := tensors p in let X := exclusives p in
  let D := evidence 2 in let J := evidence 3 in
  let (m, h0) := memory_with_evidence p N evidence in  (* tensors: handed, made + 1, needed + 1, root, place *)
  let h1 := h0 + T in let h2 := h1 + T in let h3 := h2 + T in let h4 := h3 + T in
  let g0 := h4 + T in                    (* tensors of each storage: K + 1 bounds, then T rows *)
  let y0 := g0 + (K + 1) + T in          (* if there are exclusive nodes: the innermost branch of each step *)
  let z0 := y0 + 2 * N in                (* other writers of each tensor: T + 1 bounds, then D rows *)
  let j0 := z0 + (T + 1) + D in          (* joins of each tensor: T + 1 bounds, then J rows *)
  {| allocation := m; tensors := T;
     tensor_at := fun i => let t := tensor_at p i in
       {| home := home t; window := window t; bytes := bytes t; alignment := alignment t; birth := birth t;
          death := death t; writer := writer t; base := base t; shift := shift t; operand := operand t;
          returned := returned t; donated := donated t; scratch := scratch t;
          handed := evidence (h0 + i) =? 1; made := evidence (h1 + i) - 1; needed := evidence (h2 + i) - 1;
          root := evidence (h3 + i); place := evidence (h4 + i) |};
     reads := reads p; writes := writes p; mutates := mutates p; loops := loops p; exclusives := X;
     exclusive_at := exclusive_at p; takes := takes p; members := grouped evidence g0 K;
     within := if X =? 0 then fun _ => (0, N) else fun n => (evidence (y0 + n), evidence (y0 + N + n));
     also := if X =? 0 then fun _ => [] else row_of evidence z0 T;
     joined := if X =? 0 then fun _ => [] else row_of evidence j0 T |}.
Definition lifetimes_with_evidence (m : memory) (evidence : Z -> Z) : memory :=
  fst (memory_with_evidence m (evidence 4) evidence).

(** The functions that the program evaluates on a file, the readers' words and the evidence. *)
Definition accepts_file (f : source) (permission evidence : Z -> Z) : bool :=
  match stated f permission with Some p => check (with_evidence p evidence) | None => false end.
Definition accepts_lifetimes_file (f : source) (evidence : Z -> Z) : bool :=
  match stated_lifetimes f with Some m => check_lifetimes (lifetimes_with_evidence m evidence) | None => false end.
