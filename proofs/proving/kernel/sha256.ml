(* SHA-256 (FIPS 180-4) of the bytes of a file. *)

type bytes = (char, Bigarray.int8_unsigned_elt, Bigarray.c_layout) Bigarray.Array1.t

external get4 : bytes -> int -> int32 = "%caml_bigstring_get32"
external swapped : int32 -> int32 = "%bswap_int32"

let round_constants = [|
  0x428a2f98; 0x71374491; 0xb5c0fbcf; 0xe9b5dba5; 0x3956c25b; 0x59f111f1; 0x923f82a4; 0xab1c5ed5;
  0xd807aa98; 0x12835b01; 0x243185be; 0x550c7dc3; 0x72be5d74; 0x80deb1fe; 0x9bdc06a7; 0xc19bf174;
  0xe49b69c1; 0xefbe4786; 0x0fc19dc6; 0x240ca1cc; 0x2de92c6f; 0x4a7484aa; 0x5cb0a9dc; 0x76f988da;
  0x983e5152; 0xa831c66d; 0xb00327c8; 0xbf597fc7; 0xc6e00bf3; 0xd5a79147; 0x06ca6351; 0x14292967;
  0x27b70a85; 0x2e1b2138; 0x4d2c6dfc; 0x53380d13; 0x650a7354; 0x766a0abb; 0x81c2c92e; 0x92722c85;
  0xa2bfe8a1; 0xa81a664b; 0xc24b8b70; 0xc76c51a3; 0xd192e819; 0xd6990624; 0xf40e3585; 0x106aa070;
  0x19a4c116; 0x1e376c08; 0x2748774c; 0x34b0bcb5; 0x391c0cb3; 0x4ed8aa4a; 0x5b9cca4f; 0x682e6ff3;
  0x748f82ee; 0x78a5636f; 0x84c87814; 0x8cc70208; 0x90befffa; 0xa4506ceb; 0xbef9a3f7; 0xc67178f2 |]

let mask = 0xffff_ffff
(* A word twice, so that a shift by at most 31 to the right rotates it; the bit that does not fit is not needed. *)
let [@inline] twice x = x lor (x lsl 32)
let [@inline] word a i = Array.unsafe_get a (i land 63)

(* Take the block that begins at byte [at] of [bytes] into the state [h]; [w] is room for 64 words. *)
let add_block h w (bytes : bytes) at =
  for i = 0 to 15 do
    w.(i) <- Int32.to_int (swapped (get4 bytes (at + 4 * i))) land mask
  done;
  for i = 16 to 63 do
    let x = word w (i - 15) and y = word w (i - 2) in
    let xx = twice x and yy = twice y in
    let s0 = (xx lsr 7) lxor (xx lsr 18) lxor (x lsr 3) and s1 = (yy lsr 17) lxor (yy lsr 19) lxor (y lsr 10) in
    w.(i) <- (word w (i - 16) + (s0 land mask) + word w (i - 7) + (s1 land mask)) land mask
  done;
  let a = ref h.(0) and b = ref h.(1) and c = ref h.(2) and d = ref h.(3) in
  let e = ref h.(4) and f = ref h.(5) and g = ref h.(6) and k = ref h.(7) in
  for i = 0 to 63 do
    let ee = twice !e and aa = twice !a in
    let s1 = ((ee lsr 6) lxor (ee lsr 11) lxor (ee lsr 25)) land mask in
    let t1 = !k + s1 + (!g lxor (!e land (!f lxor !g))) + word round_constants i + word w i in
    let s0 = ((aa lsr 2) lxor (aa lsr 13) lxor (aa lsr 22)) land mask in
    let t2 = s0 + ((!a land !b) lor (!c land (!a lor !b))) in
    k := !g; g := !f; f := !e; e := (!d + t1) land mask;
    d := !c; c := !b; b := !a; a := (t1 + t2) land mask
  done;
  h.(0) <- (h.(0) + !a) land mask; h.(1) <- (h.(1) + !b) land mask; h.(2) <- (h.(2) + !c) land mask;
  h.(3) <- (h.(3) + !d) land mask; h.(4) <- (h.(4) + !e) land mask; h.(5) <- (h.(5) + !f) land mask;
  h.(6) <- (h.(6) + !g) land mask; h.(7) <- (h.(7) + !k) land mask

(* The digest in hexadecimal digits. *)
let hex (bytes : bytes) =
  let size = Bigarray.Array1.dim bytes in
  let h = [| 0x6a09e667; 0xbb67ae85; 0x3c6ef372; 0xa54ff53a; 0x510e527f; 0x9b05688c; 0x1f83d9ab; 0x5be0cd19 |] in
  let w = Array.make 64 0 in
  let whole = size / 64 in
  for block = 0 to whole - 1 do add_block h w bytes (64 * block) done;
  (* The rest, a bit of 1, zeros, and the number of bits, in one block or two. *)
  let rest = size - 64 * whole in
  let room = if rest < 56 then 64 else 128 in
  let last = Bigarray.Array1.create Bigarray.char Bigarray.c_layout room in
  Bigarray.Array1.fill last '\000';
  for i = 0 to rest - 1 do last.{i} <- bytes.{64 * whole + i} done;
  last.{rest} <- '\x80';
  for i = 0 to 7 do last.{room - 1 - i} <- Char.chr ((8 * size) lsr (8 * i) land 255) done;
  for block = 0 to room / 64 - 1 do add_block h w last (64 * block) done;
  String.concat "" (Array.to_list (Array.map (Printf.sprintf "%08x") h))
