------------------------------- MODULE Bodies -------------------------------
(***************************************************************************)
(* A loop in the middle of a program, and every plan for it that the rules *)
(* for bodies accept. The steps, in the order of the plan:                 *)
(*                                                                         *)
(*   0 before  writes captured, start                                      *)
(*   1 enter   reads start, writes the formal inputs first and second      *)
(*   2 body    reads captured and first, writes middle                     *)
(*   3 body    reads middle and second, writes last                        *)
(*   4 copy    reads second, writes kept: an output of the body that is a  *)
(*             formal input itself gets bytes of its own                   *)
(*   5 leave   reads kept and last, writes result                          *)
(*   6 after   reads result, writes late                                   *)
(*   7 after   reads late                                                  *)
(*                                                                         *)
(* Steps 2 to 4 run once in every iteration. Between two iterations kept   *)
(* becomes the new first, and last the new second, in any order: for the   *)
(* program this happens at once.                                           *)
(*                                                                         *)
(* With lifetimes as for straight code, first write to last read, captured *)
(* would be dead after step 2, and a later step of the body may take its   *)
(* slot: the second iteration reads something else.                        *)
(*                                                                         *)
(* spec: T8.1, T8.2, T8.3, T8.5, T8.8, T8.9                                *)
(***************************************************************************)
EXTENDS Integers

CONSTANT Trips       \* how often the body runs

VARIABLES slot,      \* where each tensor lies: a slot is known by a tensor in it
          at,        \* the step that runs
          trip,      \* the iteration, from 1; 0 before and after the loop
          done,      \* the accesses that the step has made
          content    \* what each slot holds: a tensor and the iteration of its write

vars == <<slot, at, trip, done, content>>

Tensors == {"captured", "start", "first", "middle", "second", "last", "kept", "result", "late"}
Enter == 1
BodyFirst == 2
BodyLast == 4
Leave == 5
End == 7

Reads == [step \in 0..End |->
             CASE step = 1 -> {"start"}
               [] step = 2 -> {"captured", "first"}
               [] step = 3 -> {"middle", "second"}
               [] step = 4 -> {"second"}
               [] step = 5 -> {"kept", "last"}
               [] step = 6 -> {"result"}
               [] step = 7 -> {"late"}
               [] OTHER -> {}]

Writes == [step \in 0..End |->
             CASE step = 0 -> {"captured", "start"}
               [] step = 1 -> {"first", "second"}
               [] step = 2 -> {"middle"}
               [] step = 3 -> {"last"}
               [] step = 4 -> {"kept"}
               [] step = 5 -> {"result"}
               [] step = 6 -> {"late"}
               [] OTHER -> {}]

TypeOK == /\ slot \in [Tensors -> Tensors]
          /\ at \in 0..End
          /\ trip \in 0..Trips
          /\ done \subseteq {"read", "write", "carry"} \X Tensors
          /\ content \in [Tensors -> {<<>>} \cup (Tensors \X (0..Trips))]

-----------------------------------------------------------------------------
(* Lifetimes. *)

Births(t) == {step \in 0..End : t \in Writes[step]}
Deaths(t) == {step \in 0..End : t \in Reads[step]}

(* What a body may read again in the next iteration, or may be given then. *)
LivesOverTheLoop(t) == t \in {"captured", "start", "first", "second", "result"}

(* What a body gives: it lives until the loop is left. *)
IsOutput(t) == t \in {"kept", "last"}

Least(steps) == CHOOSE s \in steps : \A other \in steps : s <= other
Most(steps) == CHOOSE s \in steps : \A other \in steps : s >= other

Birth(t) == Least(Births(t) \cup (IF LivesOverTheLoop(t) THEN {Enter} ELSE {}))
Death(t) == Most(Deaths(t) \cup (IF LivesOverTheLoop(t) \/ IsOutput(t) THEN {Leave} ELSE {}))

Before(s, t) == Death(s) < Birth(t)

Accepted == \A s, t \in Tensors :
               s = t \/ slot[s] # slot[t] \/ Before(s, t) \/ Before(t, s)

-----------------------------------------------------------------------------

(* A plan is wrong because of two tensors that share a slot: every plan in   *)
(* which up to two tensors have left the slot of their own is tried.         *)
Init == /\ slot \in {[t \in Tensors |-> IF t = b THEN a ELSE IF t = d THEN c ELSE t] :
                       a, b, c, d \in Tensors}
        /\ Accepted = TRUE  \* one value: TLC would make a state of each way to be accepted
        /\ at = 0
        /\ trip = 0
        /\ done = {}
        /\ content = [t \in Tensors |-> <<>>]

Accesses == IF at = BodyLast /\ <<"write", "kept">> \in done /\ trip < Trips
            THEN {<<"read", "second">>, <<"write", "kept">>, <<"carry", "first">>, <<"carry", "second">>}
            ELSE ({"read"} \X Reads[at]) \cup ({"write"} \X Writes[at])

Ready(access) == access \in Accesses \ done

Put(t, value) == content' = [content EXCEPT ![slot[t]] = value]

(* A step reads an operand. *)
Read(t) == /\ Ready(<<"read", t>>)
           /\ done' = done \cup {<<"read", t>>}
           /\ UNCHANGED <<slot, at, trip, content>>

(* A step writes a result; a copy reads before it writes. *)
Write(t) == /\ Ready(<<"write", t>>)
            /\ t = "kept" => <<"read", "second">> \in done
            /\ Put(t, <<t, IF at = Enter THEN 1 ELSE trip>>)
            /\ done' = done \cup {<<"write", t>>}
            /\ UNCHANGED <<slot, at, trip>>

(* Where the formal inputs of the next iteration come from. *)
Source(t) == IF t = "first" THEN "kept" ELSE "last"

(* An output of the body becomes a formal input of the next iteration. *)
Carry(t) == /\ Ready(<<"carry", t>>)
            /\ Put(t, IF content[slot[Source(t)]] = <<Source(t), trip>>
                      THEN <<t, trip + 1>>
                      ELSE content[slot[Source(t)]])
            /\ done' = done \cup {<<"carry", t>>}
            /\ UNCHANGED <<slot, at, trip>>

(* The next step runs: the body again, until it has run as often as it should. *)
Proceed == /\ done = Accesses
           /\ at < End
           /\ at' = IF at = BodyLast /\ trip < Trips THEN BodyFirst ELSE at + 1
           /\ trip' = IF at = Enter THEN 1
                      ELSE IF at = BodyLast THEN (IF trip < Trips THEN trip + 1 ELSE trip)
                      ELSE IF at = Leave THEN 0 ELSE trip
           /\ done' = {}
           /\ UNCHANGED <<slot, content>>

Next == Proceed \/ \E t \in Tensors : Read(t) \/ Write(t) \/ Carry(t)

Fairness == WF_vars(Next)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* The iteration in which a read of a tensor must find it written. *)
Expected(t) == IF t \in {"captured", "start"} THEN 0
               ELSE IF t = "result" THEN Trips
               ELSE IF t = "late" THEN 0
               ELSE trip

(* What is about to be read holds what this very iteration should read. *)
ReadsSeeTheirIteration ==
    \A t \in Tensors : Ready(<<"read", t>>) => content[slot[t]] = <<t, Expected(t)>>

(* What is about to be carried over is what this iteration gave. *)
CarriesItsOutputs ==
    \A t \in Tensors : Ready(<<"carry", t>>) => content[slot[Source(t)]] = <<Source(t), trip>>

(* What the loop captured is whole at each step until it is left. *)
CapturedIsKept ==
    at \in BodyFirst..BodyLast => content[slot["captured"]] = <<"captured", 0>>

-----------------------------------------------------------------------------
(* Properties. *)

(* The loop runs as often as it should and ends. *)
RunsToTheEnd == <>(at = End /\ done = Accesses)

(* An iteration follows on the one before it. *)
TripsCountUp == [][trip' = trip + 1 \/ (trip = Trips /\ trip' = 0)]_trip

THEOREM Spec => [](TypeOK /\ ReadsSeeTheirIteration /\ CarriesItsOutputs /\ CapturedIsKept)
THEOREM Spec => RunsToTheEnd /\ TripsCountUp

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverSecondIteration == trip < 2
NeverSharedSlot == \A s, t \in Tensors : slot[s] = slot[t] => s = t
=============================================================================
