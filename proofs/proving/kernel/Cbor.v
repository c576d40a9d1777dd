(** Canonical CBOR (RFC 8949, deterministic form) with the tags of typed arrays (RFC 8746): a decoder, which is evaluated,
    and an encoder, which defines canonical. [CborProof.v] proves that the encoder writes each value that the decoder
    reads as the same bytes. spec: R1.1, R1.3, R1.4, R1.7

    Strings and columns are not copied: the decoder returns their positions in the file. *)
From Coq Require Import ZArith List Bool Sorted.
From Tmmu Require Import Lists.
Import ListNotations.
Open Scope Z_scope.
Open Scope lazy_bool_scope.

(** * Files *)

(** The number of [n] bytes from [at_] on, the least first. *)
Fixpoint least_first (byte : Z -> Z) (n : nat) (at_ : Z) : Z :=
  match n with O => 0 | S n' => byte at_ + 256 * least_first byte n' (at_ + 1) end.

(** The bytes of a file. [word4] and [word8] are the numbers of four and eight bytes that a machine reads at once. *)
Record source := Source {
  size : Z;
  byte : Z -> Z;
  word4 : Z -> Z;
  word8 : Z -> Z;
  is_byte : forall at_, 0 <= byte at_ < 256;
  is_word4 : forall at_, word4 at_ = least_first byte 4 at_;
  is_word8 : forall at_, word8 at_ = least_first byte 8 at_
}.

(** * Items *)

(** A data item whose strings are of type [S]. Whole numbers may be negative. *)
Inductive item (S : Type) :=
  | Number (n : Z)
  | Constant (n : Z)                     (* 20: false, 21: true, 22: null *)
  | Bytes (s : S)
  | Text (s : S)
  | Column (tag : Z) (s : S)             (* numbers of [width tag] bytes each, the least first *)
  | Array (l : list (item S))
  | Map (l : list (S * item S)).
Arguments Number {S}. Arguments Constant {S}. Arguments Bytes {S}. Arguments Text {S}. Arguments Column {S}.
Arguments Array {S}. Arguments Map {S}.

Definition width (tag : Z) : Z :=
  if tag =? 64 then 1 else if tag =? 69 then 2 else if tag =? 70 then 4 else if tag =? 71 then 8 else 0.

(** * The encoder, which states what canonical means *)

Definition content := list Z.
Definition count {A} (l : list A) : Z := Z.of_nat (length l).

(** The number [n] as [k] bytes, the greatest first. *)
Fixpoint greatest_first (k : nat) (n : Z) : content :=
  match k with O => [] | S k' => n / 256 ^ Z.of_nat k' :: greatest_first k' (n mod 256 ^ Z.of_nat k') end.
(** The head of an item: its major type and its argument, in as few bytes as possible. *)
Definition encode_head (major n : Z) : content :=
  if n <? 24 then [major * 32 + n]
  else if n <? 2 ^ 8 then (major * 32 + 24) :: greatest_first 1 n
  else if n <? 2 ^ 16 then (major * 32 + 25) :: greatest_first 2 n
  else if n <? 2 ^ 32 then (major * 32 + 26) :: greatest_first 4 n
  else (major * 32 + 27) :: greatest_first 8 n.
Definition encode_string (major : Z) (s : content) : content := encode_head major (count s) ++ s.

Fixpoint encode (i : item content) : content :=
  match i with
  | Number n => if 0 <=? n then encode_head 0 n else encode_head 1 (-1 - n)
  | Constant n => [7 * 32 + n]
  | Bytes s => encode_string 2 s
  | Text s => encode_string 3 s
  | Column tag s => encode_head 6 tag ++ encode_string 2 s
  | Array l => encode_head 4 (count l) ++ flat_map encode l
  | Map l => encode_head 5 (count l) ++ flat_map (fun e => encode_string 3 (fst e) ++ encode (snd e)) l
  end.

(** The order of a map's keys: that of their encodings, shorter ones first. *)
Fixpoint Less (a b : content) : Prop :=
  match a, b with x :: a', y :: b' => x < y \/ x = y /\ Less a' b' | _, _ => False end.
Definition Before (a b : content) : Prop := count a < count b \/ count a = count b /\ Less a b.

(** The keys of each map ascend, and columns have a whole number of elements. *)
Fixpoint Ordered (i : item content) : Prop :=
  match i with
  | Column tag s => width tag <> 0 /\ count s mod width tag = 0
  | Array l => fold_right (fun i' all => Ordered i' /\ all) True l
  | Map l => Sorted Before (map fst l) /\ fold_right (fun e all => Ordered (snd e) /\ all) True l
  | _ => True
  end.

(** * The decoder *)

(** [f] is applied [count] times, one result to the next; halved at each call, so that the stack stays small. *)
Fixpoint times {A} (count : positive) (f : A -> option A) (a : A) : option A :=
  match count with
  | xH => f a
  | xO half => match times half f a with Some b => times half f b | None => None end
  | xI half =>
      match f a with
      | Some b => match times half f b with Some c => times half f c | None => None end
      | None => None
      end
  end.
Definition repeated {A} (count : Z) (f : A -> option A) (a : A) : option A :=
  match count with Zpos p => times p f a | _ => Some a end.

Section Decoder.
Variable f : source.

(** A string in the file: its first byte, and how many. *)
Definition span := (Z * Z)%type.
(** A number whose greatest byte is first, behind the digits [n]. *)
Fixpoint number_at (k : nat) (at_ n : Z) : Z :=
  match k with O => n | S k' => number_at k' (at_ + 1) (n * 256 + byte f at_) end.
Definition long (k : nat) (least major at_ : Z) : option (Z * Z * Z) :=
  let stop := at_ + Z.of_nat k in
  if stop <=? size f then let n := number_at k at_ 0 in if least <=? n then Some (major, n, stop) else None else None.
(** The head at [at_]: major type, argument, and what comes behind it. *)
Definition head (at_ : Z) : option (Z * Z * Z) :=
  if at_ <? size f then
    let b := byte f at_ in
    let major := b / 32 in
    let n := b mod 32 in
    let next := at_ + 1 in
    if n <? 24 then Some (major, n, next)
    else if n =? 24 then long 1 24 major next
    else if n =? 25 then long 2 (2 ^ 8) major next
    else if n =? 26 then long 4 (2 ^ 16) major next
    else if n =? 27 then long 8 (2 ^ 32) major next
    else None
  else None.
Definition string_at (major at_ : Z) : option (span * Z) :=
  match head at_ with
  | Some (m, n, start) => if (m =? major) &&& (start + n <=? size f) then Some ((start, n), start + n) else None
  | None => None
  end.

Fixpoint compare_from (count : positive) (a b : Z) : comparison :=
  match count with
  | xH => byte f a ?= byte f b
  | xO half =>
      match compare_from half a b with Eq => compare_from half (a + Zpos half) (b + Zpos half) | c => c end
  | xI half =>
      match byte f a ?= byte f b with
      | Eq =>
          match compare_from half (a + 1) (b + 1) with
          | Eq => compare_from half (a + 1 + Zpos half) (b + 1 + Zpos half)
          | c => c
          end
      | c => c
      end
  end.
Definition before (a b : span) : bool :=
  if snd a =? snd b then
    match snd a with
    | Zpos n => match compare_from n (fst a) (fst b) with Lt => true | _ => false end
    | _ => false
    end
  else snd a <? snd b.

(** The item at [at_], nested at most [depth] deep, and what comes behind it. *)
Fixpoint item_at (depth : nat) (at_ : Z) : option (item span * Z) :=
  match depth with
  | O => None
  | S depth' =>
      match head at_ with
      | None => None
      | Some (major, n, next) =>
          if major =? 0 then Some (Number n, next)
          else if major =? 1 then Some (Number (-1 - n), next)
          else if major =? 2 then match string_at 2 at_ with Some (s, r) => Some (Bytes s, r) | None => None end
          else if major =? 3 then match string_at 3 at_ with Some (s, r) => Some (Text s, r) | None => None end
          else if major =? 4 then
            match repeated n (fun l =>
                    match item_at depth' (snd l) with Some (i, r) => Some (i :: fst l, r) | None => None end)
                  ([], next) with
            | Some (l, r) => Some (Array (rev' l), r)
            | None => None
            end
          else if major =? 5 then
            match repeated n (fun l =>
                    match string_at 3 (snd l) with
                    | Some (key, r) =>
                        if match fst l with [] => true | last :: _ => before (fst last) key end then
                          match item_at depth' r with Some (i, r') => Some ((key, i) :: fst l, r') | None => None end
                        else None
                    | None => None
                    end)
                  ([], next) with
            | Some (l, r) => Some (Map (rev' l), r)
            | None => None
            end
          else if major =? 6 then
            match string_at 2 next with
            | Some (s, r) =>
                if negb (width n =? 0) &&& (snd s mod width n =? 0) then Some (Column n s, r) else None
            | None => None
            end
          else if (20 <=? n) &&& (n <=? 22) then Some (Constant n, next) else None
      end
  end.

(** The one item that the whole file is. *)
Definition DEPTH : nat := 16.
Definition decoded : option (item span) :=
  match item_at DEPTH 0 with Some (i, stop) => if stop =? size f then Some i else None | None => None end.

(** * The values of an item's spans *)

Fixpoint bytes_from (n : nat) (at_ : Z) : content := match n with O => [] | S n' => byte f at_ :: bytes_from n' (at_ + 1) end.
Definition slice (start stop : Z) : content := bytes_from (Z.to_nat (stop - start)) start.
Definition content_of (s : span) : content := slice (fst s) (fst s + snd s).
Fixpoint contents (i : item span) : item content :=
  match i with
  | Number n => Number n
  | Constant n => Constant n
  | Bytes s => Bytes (content_of s)
  | Text s => Text (content_of s)
  | Column tag s => Column tag (content_of s)
  | Array l => Array (map contents l)
  | Map l => Map (map (fun e => (content_of (fst e), contents (snd e))) l)
  end.
(** All bytes of the file. *)
Definition file_bytes : content := slice 0 (size f).
End Decoder.
