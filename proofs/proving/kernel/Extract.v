(** The program: the two checkers, the claims and sets, with Z as zarith's integers, never as OCaml's int of 63 bits. *)
From Coq Require Import ZArith Extraction ExtrOcamlBasic ExtrOcamlString ExtrOcamlZBigInt.
From Tmmu Require Import Columns Check Claims Inputs Symbolic Cbor PlanFile Sets SetFile Streams Races.

Extract Constant Z.leb => "Big_int_Z.le_big_int".
Extract Constant Z.ltb => "Big_int_Z.lt_big_int".
Extract Constant Z.modulo =>
  "(fun a b -> if Big_int_Z.sign_big_int b > 0 then Big_int_Z.mod_big_int a b else failwith ""modulo"")".
Extract Constant Z.div =>
  "(fun a b -> if Big_int_Z.sign_big_int b > 0 then Z.fdiv a b else failwith ""div"")".
Extraction "checker.ml" accepts accepts_lifetimes failing with_lifetimes memory_of plan_of slots_claimed footprints_claimed
  slots_ok full footprints_ok no_byte_to_spare failing_part failing_part_of_memory keeps_inputs
  accepts_file accepts_lifetimes_file stated stated_lifetimes with_evidence lifetimes_with_evidence
  states_lifetimes claims_slots claims_footprints claims_symbolic symbolic_ok accepts_set_files stated_set kept_ok
  failing_of_program accepts_concurrent_file failing_streams.
