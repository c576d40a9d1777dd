(* kernel FILE < WORDS: does the checker that Coq has proved accept the plan that this file states?

   The file is mapped and never copied, and its bytes are decoded by functions that Coq has proved. The words are 64 bits
   each, little-endian: how many are the readers', these, and the evidence (see PlanFile.v). The first line of the answer
   is "accepted KIND DIGEST" or "rejected KIND DIGEST PART", where KIND is accesses or lifetimes, and DIGEST the SHA-256 of
   the file. Of an accepted plan follow its claims: its slots, its footprints, that it keeps all inputs, that it is symbolic
   (its offsets follow from its slots), and for each arena that no fewer slots and no fewer bytes would do; each true, false
   or unclaimed. A word beyond the end of the input, or
   any other failure, ends the program without an answer; so does an input that makes it need far more memory than any plan
   of its size does.

   kernel FILE STREAMS < WORDS: the same of a plan whose steps run on streams. STREAMS has words as the input has: how
   many state the streams, these, and the evidence (see Races.v). KIND is streams, and no claim about slots is answered.

   kernel < WORDS: the same of a plan that the words describe whole (see Columns.v), with the digest that they give.

   kernel --set FILE... < WORDS: do these files state a plan set that is accepted? The words are: how many are the
   agreement's, these, and for each file the numbers of the readers' words, of the evidence and of the link, and these
   (see SetFile.v). The answer is "accepted set DIGEST..." or "rejected set PART PROGRAM DIGEST...", with the digest of
   each file. PROGRAM is -1 if the part is of no single program. *)

let two_64 = Z.shift_left Z.one 64

let number w =
  if Int64.compare w 0L < 0 then Z.add (Z.of_int64 w) two_64
  else if Int64.compare w 0x3fff_ffff_ffff_ffffL <= 0 then Z.of_int (Int64.to_int w)
  else Z.of_int64 w

external get8 : Sha256.bytes -> int -> int64 = "%caml_bigstring_get64"

(* The bytes of a file as the theorem reads them: each, and four or eight of them at once as a number. Behind the last
   byte there are zeros. *)
let source (bytes : Sha256.bytes) =
  let size = Bigarray.Array1.dim bytes in
  let byte i = if 0 <= i && i < size then Char.code bytes.{i} else 0 in
  let rec least_first count i =
    if count = 0 then Z.zero else Z.add (Z.of_int (byte i)) (Z.shift_left (least_first (count - 1) (i + 1)) 8) in
  let word4 i =
    if 0 <= i && i <= size - 4 then Z.of_int (Int32.to_int (Sha256.get4 bytes i) land 0xffff_ffff) else least_first 4 i in
  let word8 i = if 0 <= i && i <= size - 8 then number (get8 bytes i) else least_first 8 i in
  { Checker.size = Z.of_int size; byte = (fun i -> Z.of_int (byte (Z.to_int i)));
    word4 = (fun i -> word4 (Z.to_int i)); word8 = (fun i -> word8 (Z.to_int i)) }

(* Print what was accepted, and which of its claims hold. Lifetimes have no plan whose inputs could be kept. *)
let accept kind digest memory ~slots ~footprints ~symbolic ~inputs =
  let answer claimed holds = if not claimed then "unclaimed" else if holds () then "true" else "false" in
  let slots = answer slots (fun () -> Checker.slots_ok memory) in
  let footprints = answer footprints (fun () -> Checker.footprints_ok memory) in
  let inputs = match inputs with None -> "unclaimed" | Some plan -> string_of_bool (Checker.keeps_inputs plan) in
  let symbolic = answer symbolic (fun () -> slots = "true" && Checker.symbolic_ok memory) in
  Printf.printf "accepted %s %s\nslots %s\nfootprints %s\ninputs %s\nsymbolic %s\n" kind digest slots footprints inputs
    symbolic;
  for a = 0 to Z.to_int memory.Checker.arenas - 1 do
    let row = Z.of_int a in
    let arena = memory.Checker.arena_at row in
    Printf.printf "arena %d fewest_slots %s least_footprint %s\n" a
      (answer (slots <> "unclaimed" && Z.sign arena.Checker.fullest >= 0)
         (fun () -> slots = "true" && Checker.full memory row arena.Checker.fullest))
      (answer (footprints <> "unclaimed" && Z.sign arena.Checker.peak >= 0)
         (fun () -> footprints = "true" && Checker.no_byte_to_spare memory row arena.Checker.peak))
  done

let reject kind digest part = Printf.printf "rejected %s %s %s\n" kind digest (Z.to_string part)

let of_words word digest =
  let lifetimes = Checker.with_lifetimes word in
  let kind = if lifetimes then "lifetimes" else "accesses" in
  if (if lifetimes then Checker.accepts_lifetimes word else Checker.accepts word) then
    accept kind digest (Checker.memory_of word) ~slots:(Checker.slots_claimed word)
      ~footprints:(Checker.footprints_claimed word) ~symbolic:false
      ~inputs:(if lifetimes then None else Some (Checker.plan_of word))
  else reject kind digest (Checker.failing word)

(* The number of the part that fails if the bytes do not state a plan. *)
let not_stated = Z.of_int 9

let of_file file permission evidence digest =
  let accept kind memory ~inputs =
    accept kind digest memory ~inputs ~slots:(Checker.claims_slots file) ~footprints:(Checker.claims_footprints file)
      ~symbolic:(Checker.claims_symbolic file) in
  if Checker.states_lifetimes file then
    match Checker.stated_lifetimes file with
    | None -> reject "lifetimes" digest not_stated
    | Some lifetimes ->
      let memory = Checker.lifetimes_with_evidence lifetimes evidence in
      if Checker.accepts_lifetimes_file file evidence then accept "lifetimes" memory ~inputs:None
      else reject "lifetimes" digest (Checker.failing_part_of_memory memory)
  else
    match Checker.stated file permission with
    | None -> reject "accesses" digest not_stated
    | Some stated ->
      let plan = Checker.with_evidence stated evidence in
      if Checker.accepts_file file permission evidence then accept "accesses" plan.Checker.allocation ~inputs:(Some plan)
      else reject "accesses" digest (Checker.failing_part plan)

(* The numbers of the parts of a set that fail, beside those of a program: what is kept, and the plan of a program. *)
let wrong_kept = 0
let wrong_plan = 6

(* The part of a set that fails, and of which program. *)
let failing_of_set set =
  let rec first count holds i = if i >= count || not (holds (Z.of_int i)) then i else first count holds (i + 1) in
  let keeps, programs = Z.to_int set.Checker.keeps, Z.to_int set.Checker.programs in
  if first keeps (Checker.kept_ok set) 0 < keeps then (wrong_kept, -1)
  else
    let program = first programs (fun c -> Z.sign (Checker.failing_of_program set c) = 0) 0 in
    if program = programs then (wrong_plan, -1)
    else (Z.to_int (Checker.failing_of_program set (Z.of_int program)), program)

let of_set members agreement digests =
  let digests = String.concat " " digests in
  if Checker.accepts_set_files members agreement then Printf.printf "accepted set %s\n" digests
  else
    let part, program =
      match Checker.stated_set members agreement with Some set -> failing_of_set set | None -> (wrong_plan, -1) in
    Printf.printf "rejected set %d %d %s\n" part program digests

(* Slots are claimed for steps one after another. *)
let of_streams file permission evidence statement order digest =
  let reject part = reject "streams" digest part in
  match Checker.stated file permission with
  | None -> reject not_stated
  | Some stated ->
    let plan = Checker.with_evidence stated evidence in
    if Checker.accepts_concurrent_file file permission evidence statement order then
      accept "streams" digest plan.Checker.allocation ~inputs:(Some plan) ~slots:false ~symbolic:false
        ~footprints:(Checker.claims_footprints file)
    else reject (Checker.failing_streams plan statement order)

let () =
  if Sys.big_endian || Sys.word_size <> 64 then failwith "64 bits and little-endian words are needed";
  let map file kind = Bigarray.array1_of_genarray (Unix.map_file file kind Bigarray.c_layout false [| -1 |]) in
  let words = map Unix.stdin Bigarray.int64 in
  let arguments = List.tl (Array.to_list Sys.argv) in
  let names = match arguments with "--set" :: names -> names | names -> names in
  let opened kind name = map (Unix.openfile name [Unix.O_RDONLY] 0) kind in
  let files, streams = match arguments, names with
    | "--set" :: _, _ -> (List.map (opened Bigarray.char) names, None)
    | _, [file; streams] -> ([opened Bigarray.char file], Some (opened Bigarray.int64 streams))
    | _, _ -> (List.map (opened Bigarray.char) names, None) in
  let size = List.fold_left (fun sum bytes -> sum + Bigarray.Array1.dim bytes) 0 files in
  let of_streams_size = match streams with Some all -> Bigarray.Array1.dim all | None -> 0 in
  let most = (1 lsl 27) + 4 * (Bigarray.Array1.dim words + of_streams_size) + size in
  ignore (Gc.create_alarm (fun () ->
    if (Gc.quick_stat ()).Gc.heap_words > most then (prerr_endline "more memory than its words can need"; exit 3)));
  let word words i = number (Bigarray.Array1.get words i) in
  let count words i = Int64.to_int (Bigarray.Array1.get words i) in
  let behind words limit first i =
    let i = Z.to_int i in
    if 0 <= i && i < limit then word words (first + i) else invalid_arg "index out of bounds" in
  (* Words come in two parts, behind the number of those of the first. *)
  let parts words =
    let first = count words 0 in
    (behind words first 1, behind words max_int (1 + first)) in
  match arguments, files with
  | "--set" :: _, _ ->
    let next = ref 0 in
    let take count = let first = !next in next := first + count; first in
    let row limit = behind words limit (take limit) in
    let agreement = row (count words (take 1)) in
    let add found bytes =
      let first = take 3 in
      let permission = row (count words first) in
      let evidence = row (count words (first + 1)) in
      { Checker.file = source bytes; permission; evidence; link = row (count words (first + 2)) } :: found in
    of_set (List.rev (List.fold_left add [] files)) agreement (List.map Sha256.hex files)
  | _, [bytes] ->
    let permission, evidence = parts words in
    let file = source bytes and digest = Sha256.hex bytes in
    (match streams with
     | None -> of_file file permission evidence digest
     | Some streams ->
       let statement, order = parts streams in
       of_streams file permission evidence statement order digest)
  | _, _ :: _ -> failwith "one file is expected"
  | _, [] ->
    let digest = List.map (fun i -> Printf.sprintf "%016Lx" (Bigarray.Array1.get words i)) [1; 2; 3; 4] in
    of_words (fun i -> word words (Z.to_int i)) (String.concat "" digest)
