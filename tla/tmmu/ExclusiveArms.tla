--------------------------- MODULE ExclusiveArms ----------------------------
(***************************************************************************)
(* A node whose arms exclude each other, one of them with such a node      *)
(* inside, in a loop; and every plan for it that the rules for exclusive   *)
(* arms accept. The steps, in the order of the plan:                       *)
(*                                                                         *)
(*    0 before        writes captured                                      *)
(*    1 enter         the outer node: arm A or arm B is chosen             *)
(*    2   A           reads captured, writes a1                            *)
(*    3   A           writes a2 and both                                   *)
(*    4   B enter     the inner node: arm C or arm D is chosen             *)
(*    5     C         writes deep and both                                 *)
(*    6     D         writes both                                          *)
(*    7   B leave     the inner node                                       *)
(*    8   B           reads both, writes b1 and b2                         *)
(*    9 leave         the outer node: takes a1 or b1 as r1, a2 or b2 as r2 *)
(*   10 after         reads r1, r2 and both                                *)
(*                                                                         *)
(* Steps 1 to 10 run once in every iteration. The tensor both has a writer *)
(* in each arm and is read after the node. What one arm alone writes dies  *)
(* at that arm's last step, where leave takes it: the other arm may use    *)
(* its slot, and so may the one result that takes it.                      *)
(*                                                                         *)
(* A plan may also state one more read: the rules decide which step may    *)
(* read which tensor.                                                      *)
(*                                                                         *)
(* spec: X4.1, X4.3, X4.4, X4.5, X4.6, X4.7                                *)
(***************************************************************************)
EXTENDS Integers

CONSTANT Trips       \* how often the loop runs

VARIABLES slot,      \* where each tensor lies: a slot is known by a tensor in it
          extra,     \* one more read: a step and a tensor
          at,        \* the step that runs
          arm,       \* the arm of the outer node that was chosen last
          trip,      \* the iteration, from 1; 0 before the loop
          done,      \* the accesses that the step has made
          content    \* what each slot holds: a tensor and the iteration of its write

vars == <<slot, extra, at, arm, trip, done, content>>

Tensors == {"captured", "a1", "a2", "both", "deep", "b1", "b2", "r1", "r2"}
Results == {"r1", "r2"}
Outer == {"A", "B"}
Enter == 1
Leave == 9
End == 10

(* What may run after a step. *)
After(step) == CASE step = Enter -> {2, 4}
                 [] step = 3 -> {Leave}
                 [] step = 4 -> {5, 6}
                 [] step = 5 -> {7}
                 [] step = End -> {Enter}
                 [] OTHER -> {step + 1}

(* The arms around a step. *)
Around(step) == CASE step \in {2, 3} -> {"A"}
                  [] step \in {4, 7, 8} -> {"B"}
                  [] step = 5 -> {"B", "C"}
                  [] step = 6 -> {"B", "D"}
                  [] OTHER -> {}

ArmLast(a) == IF a = "A" THEN 3 ELSE 8

Reads(step) == (CASE step = 2 -> {"captured"}
                  [] step = 8 -> {"both"}
                  [] step = End -> {"r1", "r2", "both"}
                  [] OTHER -> {}) \cup {t \in Tensors : <<step, t>> = extra}

Writes(step) == CASE step = 0 -> {"captured"}
                  [] step = 2 -> {"a1"}
                  [] step = 3 -> {"a2", "both"}
                  [] step = 5 -> {"deep", "both"}
                  [] step = 6 -> {"both"}
                  [] step = 8 -> {"b1", "b2"}
                  [] step = Leave -> Results
                  [] OTHER -> {}

(* The output of an arm that becomes a result of the outer node. *)
Source(a, result) == CASE a = "A" -> IF result = "r1" THEN "a1" ELSE "a2"
                       [] a = "B" -> IF result = "r1" THEN "b1" ELSE "b2"

TypeOK == /\ slot \in [Tensors -> Tensors]
          /\ extra \in (0..(End + 1)) \X Tensors
          /\ at \in 0..End
          /\ arm \in Outer
          /\ trip \in 0..Trips
          /\ done \subseteq {"read", "write"} \X Tensors
          /\ content \in [Tensors -> {<<>>} \cup (Tensors \X (0..Trips))]

-----------------------------------------------------------------------------
(* The rules that a plan must keep. *)

Least(steps) == CHOOSE s \in steps : \A other \in steps : s <= other
Most(steps) == CHOOSE s \in steps : \A other \in steps : s >= other

Writers(t) == {step \in 0..End : t \in Writes(step)}

(* Where leave takes a tensor: at the last step of the arm that writes it. *)
Takes(t) == {ArmLast(a) : a \in {b \in Outer : \E result \in Results : Source(b, result) = t}}

(* What the loop captures lives until it is left; all else to its last access. *)
Birth(t) == Least(Writers(t))
Death(t) == IF t = "captured" THEN End
            ELSE Most(Writers(t) \cup Takes(t) \cup {step \in 0..End : t \in Reads(step)})

Apart(s, t) == slot[s] # slot[t] \/ Death(s) < Birth(t) \/ Death(t) < Birth(s)

(* A result shares no slot with an output of an arm that becomes another result. *)
TakenApart == \A a \in Outer : \A r, other \in Results :
                 r = other \/ slot[r] # slot[Source(a, other)]

Before(step) == {p \in 0..End : p < step /\ step \in After(p)}

(* What is written before a step, whichever arms were chosen on the way. *)
RECURSIVE Sure(_)
Sure(step) == IF step = 0 THEN {}
              ELSE LET ways == {Sure(p) \cup Writes(p) : p \in Before(step)}
                   IN {t \in Tensors : \A way \in ways : t \in way}

Accepted == /\ \A s, t \in Tensors : s = t \/ Apart(s, t)
            /\ TakenApart
            /\ \A step \in 0..End : Reads(step) \subseteq Sure(step)

-----------------------------------------------------------------------------

(* A plan is wrong because of two tensors that share a slot, or because of a read: every plan in which one tensor *)
(* lies in the slot of another is tried, and every plan with one more read.                                       *)
Init == /\ \/ /\ slot \in {[t \in Tensors |-> IF t = b THEN a ELSE t] : a, b \in Tensors}
              /\ extra = <<End + 1, "captured">>
           \/ /\ slot = [t \in Tensors |-> t]
              /\ extra \in (0..End) \X Tensors
        /\ Accepted = TRUE  \* one value: TLC would make a state of each way to be accepted
        /\ at = 0
        /\ arm = "A"
        /\ trip = 0
        /\ done = {}
        /\ content = [t \in Tensors |-> <<>>]

Taken == IF at = Leave THEN {Source(arm, result) : result \in Results} ELSE {}

Accesses == ({"read"} \X (Reads(at) \cup Taken)) \cup ({"write"} \X Writes(at))

Ready(access) == access \in Accesses \ done

(* A step reads an operand. *)
Read(t) == /\ Ready(<<"read", t>>)
           /\ done' = done \cup {<<"read", t>>}
           /\ UNCHANGED <<slot, extra, at, arm, trip, content>>

(* A step writes a result; leave reads what becomes of a result before it writes that. *)
Write(t) == /\ Ready(<<"write", t>>)
            /\ at = Leave => <<"read", Source(arm, t)>> \in done
            /\ content' = [content EXCEPT ![slot[t]] = <<t, trip>>]
            /\ done' = done \cup {<<"write", t>>}
            /\ UNCHANGED <<slot, extra, at, arm, trip>>

(* The next step runs: the first of any arm, after the last of an arm the leave, and the loop again. *)
Proceed == /\ done = Accesses
           /\ at = End => trip < Trips
           /\ at' \in After(at)
           /\ arm' = IF at # Enter THEN arm ELSE IF at' = 2 THEN "A" ELSE "B"
           /\ trip' = IF at' = Enter THEN trip + 1 ELSE trip
           /\ done' = {}
           /\ UNCHANGED <<slot, extra, content>>

Next == Proceed \/ \E t \in Tensors : Read(t) \/ Write(t)

Fairness == WF_vars(Next)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* The iteration in which a read of a tensor must find it written. *)
Expected(t) == IF t = "captured" THEN 0 ELSE trip

(* What the loop captured is whole at each step, whichever arms were chosen in the iterations before. *)
CapturedIsKept == trip > 0 => content[slot["captured"]] = <<"captured", 0>>

(* What leave is about to take holds what the chosen arm wrote in this iteration. *)
TakesItsArmsOutputs ==
    at = Leave => \A t \in Taken : Ready(<<"read", t>>) => content[slot[t]] = <<t, trip>>

(* What is about to be read holds what this very iteration should read. *)
ReadsSeeTheirIteration ==
    \A t \in Tensors : Ready(<<"read", t>>) => content[slot[t]] = <<t, Expected(t)>>

-----------------------------------------------------------------------------
(* Properties. *)

(* Control never leads from an arm to its sibling. *)
NeverIntoASibling ==
    [][\A a, b \in {"A", "B", "C", "D"} :
         {a, b} \in {{"A", "B"}, {"C", "D"}} => ~(a \in Around(at) /\ b \in Around(at'))]_at

(* The loop runs as often as it should and ends. *)
RunsToTheEnd == <>(at = End /\ trip = Trips /\ done = Accesses)

THEOREM Spec => [](TypeOK /\ CapturedIsKept /\ TakesItsArmsOutputs /\ ReadsSeeTheirIteration)
THEOREM Spec => NeverIntoASibling /\ RunsToTheEnd

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverTheOtherArm == ~(trip = 2 /\ at = 2 /\ content[slot["b1"]] = <<"b1", 1>>)
NeverSharedByArms == slot["a1"] # slot["b1"]
NeverTakenInItsSlot == slot["r1"] # slot["b1"]
NeverReadsMore == extra[1] > End \/ at # extra[1]
=============================================================================
