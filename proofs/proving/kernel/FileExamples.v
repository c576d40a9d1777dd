(** Examples of plan files: one that is read and accepted, what exactly is read of it, and edits that are refused. An
    edit of the decoder that reads another column, or that reads what is not canonical, makes one of them fail.
    spec: V6.9, V6.16, V6.19 *)
From Coq Require Import ZArith List Bool String.
From Tmmu Require Import Lists Columns Check Cbor PlanFile Safe Claims CborProof Theorems Table.
Import ListNotations.
Open Scope Z_scope.

(** * A plan file *)

Definition map_of (l : list (string * item content)) : item content := Map (map (fun e => (letters (fst e), snd e)) l).
Definition text (s : string) : item content := Text (letters s).
Fixpoint little (k : nat) (n : Z) : content := match k with O => [] | S k' => n mod 256 :: little k' (n / 256) end.
Definition u8 (l : list Z) : item content := Column 64 l.
Definition u32 (l : list Z) : item content := Column 70 (flat_map (little 4) l).
Definition u64 (l : list Z) : item content := Column 71 (flat_map (little 8) l).
Definition no := Constant (S := content) 20.
Definition yes := Constant (S := content) 21.
Definition number (n : Z) := Number (S := content) n.

(** Step 0 reads the donated input x and writes a. Step 1 makes v, which shows a from byte 4 on. Step 2 reads v, changes
    the optimizer state m, and writes the output y, in an arena with scattered addresses. *)
Definition storages_with (offset_ : item content) : item content := map_of
  [("arena", u32 [0; 0; 0; 1]); ("birth", u32 [0; 0; 0; 2]); ("bytes", u64 [8; 16; 8; 12]); ("death", u32 [0; 2; 2; 2]);
   ("offset", offset_); ("alignment", u64 [8; 16; 8; 4])]%string.
Definition offsets_ : item content := u64 [0; 16; 8; 2 ^ 40].
Definition steps_with (reads_at_ : list Z) : item content := map_of
  [("count", number 3); ("reads", u32 [0; 1; 2; 3]); ("writes", u32 [1; 2; 4; 3]); ("mutates", u32 [3]);
   ("reads_at", u32 reads_at_); ("writes_at", u32 [0; 1; 2; 4]); ("mutates_at", u32 [0; 0; 0; 1])]%string.
Definition arenas_ : item content := Array
  [map_of [("name", text "a"); ("reuse", yes); ("capacity", number 64); ("alignment", number 8); ("scattered", no)];
   map_of [("name", text "b"); ("reuse", no); ("capacity", number 100); ("alignment", number 4); ("scattered", yes)]]%string.
Definition tensors_ : item content := map_of
  [("role", u8 [0; 3; 3; 2; 3]); ("birth", u32 [0; 0; 1; 0; 2]); ("bytes", u64 [8; 16; 8; 8; 12]);
   ("death", u32 [0; 2; 2; 2; 2]); ("flags", u8 [1; 0; 0; 0; 2]); ("window", u64 [0; 0; 4; 0; 0]);
   ("writer", u32 [NONE; 0; 1; NONE; 2]); ("storage", u32 [0; 1; 1; 2; 3]); ("alignment", u64 [8; 4; 4; 8; 4])]%string.
Definition claims_ : item content := map_of
  [("slots", map_of [("of", u32 [0; 1; 2; 3]); ("arena", u32 [0; 0; 0; 1]); ("bytes", u64 [8; 16; 8; 12]);
                     ("alignment", u64 [8; 16; 8; 4])]);
   ("usage", Array
     [map_of [("minimal", yes); ("footprint", number 32); ("peak_step", number 0); ("max_live_step", number 0);
              ("peak_live_bytes", number 32)];
      map_of [("minimal", no); ("footprint", number 12); ("peak_step", number 2); ("max_live_step", number 2);
              ("peak_live_bytes", number 11)]])]%string.
Definition pairs_ : item content := Array [Array [number 0; number 4]; Array [number 0; number 1]].
Definition file_with (version : string) (steps_ storages_ : item content) : item content := map_of
  [("claims", claims_); ("format", text "tmmu-plan");
   ("allocation", map_of [("steps", steps_); ("arenas", arenas_); ("tensors", tensors_); ("storages", storages_);
                          ("must_not_alias", pairs_)]);
   ("spec_version", text version)]%string.
Definition small_file : item content := file_with "2.0" (steps_with [0; 1; 2; 4]) (storages_with offsets_).
Definition small_bytes : content := Eval vm_compute in encode small_file.

(** The donated tensors are x and m, and v shows a. *)
Definition permission : Z -> Z := table
  [1; 5; 0; 0; 0; 0;  0; 0; 2; 0; 0;  0; 0; 4; 0; 0;  0; 0; 0; 0; 0;  1; 0; 0; 1; 0;  0].
Definition evidence : Z -> Z := table
  [0; 5; 0; 0; 3; 0; 1; 2; 3; 0; 16; 8; 1099511627776; 0; 2; 1; 3; 0; 1; 2; 3; 4; 0; 1; 2; 3; 0; 3; 4; 0; 2; 1; 3;
   0; 2; 4; 4; 5; 2; 1; 0; 2; 3; 0; 0; 0; 1; 0; 0; 2; 0; 2; 2; 0; 1; 1; 2; 2; 4; 5; 0; 1; 2; 4; 5; 2; 1; 0; 3; 4;
   0; 0; 0; 0; 0; 0; 1; 2; 0; 3; 1; 2; 3; 3; 3; 0; 1; 1; 3; 4; 0; 1; 2; 3; 4; 0; 1; 3; 4; 5; 0; 1; 2; 3; 4].

(** The file is read, and the value is the one that was written. *)
Example small_file_is_read :
  match decoded (source_of small_bytes) with Some i => Some (contents (source_of small_bytes) i) | None => None end
  = Some small_file.
Proof. vm_compute. reflexivity. Qed.

Definition accepted (bytes_ : content) : bool := accepts_file (source_of bytes_) permission evidence.
Example small_file_is_accepted : accepted small_bytes = true.
Proof. vm_compute. reflexivity. Qed.

(** * The plan that it states *)

Definition read {A} (part : plan -> A) (bytes_ : content) (permission_ : Z -> Z) : option A :=
  match stated (source_of bytes_) permission_ with Some p => Some (part p) | None => None end.

Example its_memory : read (fun p => (steps p, map (storage_at p) (run 0 (storages p)), map (slot_at p) (run 0 (slots p)),
    map (arena_at p) (run 0 (arenas p)), map (reuse p) (run 0 (arenas p)), pairs p)) small_bytes permission =
  Some (3, [Storage 0 8 8 0 0 0 0 0; Storage 0 16 16 0 2 16 1 0; Storage 0 8 8 0 2 8 2 0; Storage 1 12 4 2 2 (2 ^ 40) 3 0],
    [Slot 0 8 8 0 0; Slot 0 16 16 0 0; Slot 0 8 8 0 0; Slot 1 12 4 0 0],
    [Arena 64 8 false 32 0 0; Arena 100 4 true 12 (-1) (-1)], [true; false], [(0, 4); (0, 1)]).
Proof. vm_compute. reflexivity. Qed.

Example its_tensors : read (fun p => map (tensor_at p) (run 0 (tensors p))) small_bytes permission = Some
  [Tensor 0 0 8 8 0 0 (-1) (-1) 0 (-1) false true false false (-1) (-1) 0 0;
   Tensor 1 0 16 4 0 2 0 (-1) 0 (-1) false false false false 0 0 1 0;
   Tensor 1 4 8 4 1 2 1 1 4 (-1) false false false false 1 1 2 0;
   Tensor 2 0 8 8 0 2 (-1) (-1) 0 (-1) false true false false (-1) (-1) 3 0;
   Tensor 3 0 12 4 2 2 2 (-1) 0 (-1) true false false false 2 2 4 0].
Proof. vm_compute. reflexivity. Qed.

(** Steps; and loops, exclusive nodes and takes of other permissions, which let only a be taken in place. Optimizer state
    that is not donated is returned. *)
Definition other_permission : Z -> Z := table
  [1; 5; 1; 1; 2; 1;  0; 0; 0; 0; 0;  0; 0; 0; 0; 0;  0; 0; 0; 0; 2;  0; 0; 0; 0; 0;  0; 2;  0; 2; 0; 2; 1; 2;  4; 1].
Example its_steps :
  read (fun p => (map (reads p) (run 0 3), map (writes p) (run 0 3), map (mutates p) (run 0 3))) small_bytes permission =
  Some ([[0]; [1]; [2; 3]], [[1]; [2]; [4; 3]], [[]; []; [3]]).
Proof. vm_compute. reflexivity. Qed.
Example its_nodes : read (fun p => (loops p, map (exclusive_at p) (run 0 (exclusives p)), takes p,
    map (fun i => (operand (tensor_at p i), returned (tensor_at p i))) (run 0 5))) small_bytes other_permission =
  Some ([(0, 2)], [Exclusive 0 2 [(1, 1); (2, 1)]], [(4, 1)],
    [(-1, false); (-1, false); (-1, false); (-1, true); (1, true)]).
Proof. vm_compute. reflexivity. Qed.

(** * Lifetimes *)

Definition lifetimes_file (offset_ : item content) : item content := map_of
  [("format", text "tmmu-plan");
   ("buffers", map_of [("arenas", arenas_); ("storages", storages_with offset_); ("must_not_alias", Array [])]);
   ("spec_version", text "2.0")]%string.
Definition lifetime_evidence : list Z :=
  [0; 5; 0; 0; 3; 0; 1; 2; 3; 0; 0; 1; 2; 3; 0; 0; 0; 0; 2; 4; 4; 5; 2; 1; 0; 2; 3; 0; 0; 0; 1; 0; 0; 2; 0; 2; 2;
   0; 1; 1; 2; 2; 4; 5; 0; 1; 2; 4; 5; 2; 1; 0; 3; 4].
Definition accepted_lifetimes (offset_ : item content) : bool :=
  accepts_lifetimes_file (source_of (encode (lifetimes_file offset_))) (table lifetime_evidence).
Example lifetimes_are_accepted : accepted_lifetimes offsets_ = true.
Proof. vm_compute. reflexivity. Qed.
Example lifetimes_that_overlap_are_refused : accepted_lifetimes (u64 [0; 8; 8; 2 ^ 40]) = false.
Proof. vm_compute. reflexivity. Qed.
Example each_kind_is_told_apart :
  states_lifetimes (source_of small_bytes) = false /\
  read steps (encode (lifetimes_file offsets_)) permission = None.
Proof. vm_compute. auto. Qed.

(** * Files that are refused *)

(** A plan with a storage over another is read, and not accepted. *)
Example overlap_is_refused :
  let bytes_ := encode (file_with "2.0" (steps_with [0; 1; 2; 4]) (storages_with (u64 [0; 8; 8; 2 ^ 40]))) in
  read steps bytes_ permission = Some 3 /\ accepted bytes_ = false.
Proof. vm_compute. auto. Qed.

(** No plan is read with another version, a bound that descends, a first bound that leaves numbers over, a last one that
    does, a column that is too short, or a column of another type. *)
Example other_plans_are_not_read : map (fun i => read steps (encode i) permission)
  [file_with "2.0" (steps_with [0; 1; 2; 4]) (storages_with offsets_);
   file_with "2.1" (steps_with [0; 1; 2; 4]) (storages_with offsets_);
   file_with "2.0" (steps_with [0; 2; 1; 4]) (storages_with offsets_);
   file_with "2.0" (steps_with [1; 1; 2; 4]) (storages_with offsets_);
   file_with "2.0" (steps_with [0; 1; 2; 3]) (storages_with offsets_);
   file_with "2.0" (steps_with [0; 1; 2]) (storages_with offsets_);
   file_with "2.0" (steps_with [0; 1; 2; 4]) (storages_with (u64 [0; 16; 8]));
   file_with "2.0" (steps_with [0; 1; 2; 4]) (storages_with (u32 [0; 16; 8; 32]))] = Some 3 :: repeat None 7.
Proof. vm_compute. reflexivity. Qed.

(** Keys that may be absent are known: the alignment of an arena's base, and that the plan is symbolic. Any other key, in
    any of the maps, is refused. [each] in a path stands for all items of an array. *)
Fixpoint edit (path : list string) (change : item content -> item content) (i : item content) : item content :=
  match path, i with
  | [], _ => change i
  | key :: path', Map l =>
      Map (map (fun e => if list_eq_dec Z.eq_dec (fst e) (letters key) then (fst e, edit path' change (snd e)) else e) l)
  | _ :: path', Array l => Array (map (edit path' change) l)
  | _, _ => i
  end.
Definition put (n : nat) (key : string) (value i : item content) : item content :=
  match i with Map l => Map (firstn n l ++ (letters key, value) :: skipn n l) | _ => i end.
Definition symbolic_file : item content :=
  edit ["allocation"; "arenas"; "each"]%string (put 5 "base_alignment" (number 64))
    (put 2 "envelope" (map_of [("symbolic", yes)])%string small_file).
Definition with_unknown_key (path : list string) (i : item content) : content :=
  encode (edit path (put 20 "is_known_to_no_map" yes) i).
Example optional_keys_are_read : accepted (encode symbolic_file) = true.
Proof. vm_compute. reflexivity. Qed.
Example symbolic_files_say_so :
  claims_symbolic (source_of (encode symbolic_file)) = true /\ claims_symbolic (source_of small_bytes) = false.
Proof. split; vm_compute; reflexivity. Qed.
Example unknown_keys_are_refused :
  map (fun path => read steps (with_unknown_key path symbolic_file) permission)
    [["no"; "such"; "path"]; []; ["allocation"]; ["allocation"; "steps"]; ["allocation"; "arenas"; "each"];
     ["allocation"; "tensors"]; ["allocation"; "storages"]; ["claims"]; ["claims"; "slots"]; ["claims"; "usage"; "each"];
     ["envelope"]]%string = Some 3 :: repeat None 10 /\
  states_lifetimes (source_of (with_unknown_key ["buffers"]%string (lifetimes_file offsets_))) = false.
Proof. split; vm_compute; reflexivity. Qed.

(** Permissions of another version, or about another number of tensors. *)
Example other_permissions_are_refused :
  map (fun words => read steps small_bytes (table words)) [[1; 5]; [2; 5]; [1; 4]] = [Some 3; None; None].
Proof. vm_compute. reflexivity. Qed.

(** Items that are not canonical: numbers in too many bytes, strings and arrays that end behind the file, floats,
    endless arrays, keys that descend, that are there twice, or that are no text, tags that are no columns, columns of a
    part of an element, and nesting without end. *)
Definition is_read (l : content) : bool := match decoded (source_of l) with Some _ => true | None => false end.
Example only_canonical_items_are_read :
  map is_read [[23]; [24; 24]; [25; 1; 0]; [32]; [246]; [98; 65; 66]; [130; 0; 1]; [162; 97; 65; 0; 97; 66; 0];
    [162; 97; 66; 0; 98; 65; 65; 0]; [216; 64; 65; 7]; [216; 70; 68; 1; 2; 3; 4]] = repeat true 11 /\
  map is_read [[]; [0; 0]; [24; 23]; [24]; [25; 0; 255]; [26; 0; 0; 255; 255]; [27; 0; 0; 0; 0; 255; 255; 255; 255];
    [98; 65]; [130; 0]; [28]; [31]; [247]; [249; 0; 0]; [248; 32]; [159; 0; 255]; [162; 97; 66; 0; 97; 65; 0];
    [162; 98; 65; 65; 0; 97; 66; 0]; [162; 97; 65; 0; 97; 65; 0]; [161; 0; 0]; [161; 65; 65; 0]; [192; 65; 7];
    [216; 68; 65; 7]; [216; 64; 97; 7]; [216; 70; 67; 1; 2; 3]; repeat 129 40] = repeat false 25.
Proof. split; vm_compute; reflexivity. Qed.
