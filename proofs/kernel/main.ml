(* kernel < COLUMNS: does the checker that Coq proved accept the plan in these columns?

   The input is a row of 64-bit little-endian words (see Columns.v), mapped and never copied. The answer is one line,
   "yes DIGEST" or "no DIGEST PART", and then for each arena which of its claims hold. A word beyond the end of the
   input, or anything else that goes wrong, ends the program without an answer; so do words that make it need far more
   memory than any plan of their number does. *)

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
  if Checker.accepts word then begin
    Printf.printf "yes %s\n" digest;
    for a = 0 to Z.to_int (word (Z.of_int 9)) - 1 do
      let arena = Z.of_int a in
      Printf.printf "arena %d slots %b footprint %b\n" a (Checker.fewest_slots word arena)
        (Checker.least_footprint word arena)
    done
  end
  else Printf.printf "no %s %s\n" digest (Z.to_string (Checker.complains word))
