(* kernel < WORDS: does the checker that Coq has proved accept the plan that these words describe?

   The input is a row of 64-bit little-endian words (see Columns.v), mapped and never copied. The first line of the
   answer is "accepted KIND DIGEST" or "rejected KIND DIGEST PART", where KIND is accesses or lifetimes. Of an accepted
   plan follow its claims: its slots, its footprints, that it keeps the inputs, and for each arena that no fewer slots
   and no fewer bytes would do; each true, false or unclaimed. A word beyond the end of the input, or any other failure, ends the program without an
   answer; so do words that make it need far more memory than any plan of their number does. *)

let two_64 = Z.shift_left Z.one 64

let () =
  if Sys.big_endian || Sys.word_size <> 64 then failwith "64 bits and little-endian words are needed";
  let words =
    Bigarray.array1_of_genarray (Unix.map_file Unix.stdin Bigarray.int64 Bigarray.c_layout false [| -1 |]) in
  let most = (1 lsl 27) + 4 * Bigarray.Array1.dim words in
  ignore (Gc.create_alarm (fun () ->
    if (Gc.quick_stat ()).Gc.heap_words > most then (prerr_endline "more memory than its words can need"; exit 3)));
  let word i =
    let w = Bigarray.Array1.get words (Z.to_int i) in
    if Int64.compare w 0L < 0 then Z.add (Z.of_int64 w) two_64
    else if Int64.compare w 0x3fff_ffff_ffff_ffffL <= 0 then Z.of_int (Int64.to_int w)
    else Z.of_int64 w in
  let digest = String.concat "" (List.map (fun i -> Printf.sprintf "%016Lx" (Bigarray.Array1.get words i)) [1; 2; 3; 4]) in
  let lifetimes = Checker.with_lifetimes word in
  let kind = if lifetimes then "lifetimes" else "accesses" in
  if (if lifetimes then Checker.accepts_lifetimes word else Checker.accepts word) then begin
    let answer claimed holds = if not claimed then "unclaimed" else if holds () then "true" else "false" in
    let slots = answer (Checker.slots_claimed word) (fun () -> Checker.accepts_slots word) in
    let footprints = answer (Checker.footprints_claimed word) (fun () -> Checker.accepts_footprints word) in
    let memory = Checker.memory_of word in
    let inputs = answer (not lifetimes) (fun () -> Checker.accepts_inputs word) in
    Printf.printf "accepted %s %s\nslots %s\nfootprints %s\ninputs %s\n" kind digest slots footprints inputs;
    for a = 0 to Z.to_int memory.Checker.arenas - 1 do
      let arena = memory.Checker.arena_at (Z.of_int a) in
      Printf.printf "arena %d fewest_slots %s least_footprint %s\n" a
        (answer (slots <> "unclaimed" && Z.sign arena.Checker.fullest >= 0)
           (fun () -> slots = "true" && Checker.fewest_slots word (Z.of_int a)))
        (answer (footprints <> "unclaimed" && Z.sign arena.Checker.peak >= 0)
           (fun () -> footprints = "true" && Checker.least_footprint word (Z.of_int a)))
    done
  end
  else Printf.printf "rejected %s %s %s\n" kind digest (Z.to_string (Checker.failing word))
