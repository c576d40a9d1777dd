--------------------------- MODULE ArenaExecution ---------------------------
(***************************************************************************)
(* A plan at work: tensors lie in the slots of one arena and take turns.   *)
(* Every program and every plan that the checker accepts is run; a write   *)
(* leaves its tensor in the slot, whatever was there, and a read sees what *)
(* is there now. What is computed is what PrivateMemory computes.          *)
(*                                                                         *)
(* The checker accepts a plan where tensors in one slot have lifetimes     *)
(* without a common step, a lifetime reaching from the write to the last   *)
(* read, both included. A result may also take the place of an operand     *)
(* that is read for the last time by the very step that writes it, if that *)
(* operation reads before it writes: in place.                             *)
(*                                                                         *)
(* spec: T1.1, T1.2, T3.1, T3.4, T3.8, V1.1, V1.4, V1.5                    *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS Count,     \* how many tensors there are; their names are 1..Count
          LastStep,  \* steps are 0..LastStep
          SlotCount  \* slots are 1..SlotCount

VARIABLES writer,    \* the step that writes each tensor
          readers,   \* the steps that read it
          slot,      \* where it lies
          over,      \* the operand that it takes the place of, or 0
          at,        \* the step that runs
          done,      \* what it has read and written so far
          seen,      \* the last read: which tensor, and what was found
          content    \* what each slot holds: the tensor last written there, or 0

program == <<writer, readers>>
plan == <<slot, over>>
vars == <<program, plan, at, done, seen, content>>

Tensors == 1..Count
Steps == 0..LastStep
Slots == 1..SlotCount

TypeOK == /\ writer \in [Tensors -> Steps]
          /\ readers \in [Tensors -> SUBSET Steps]
          /\ slot \in [Tensors -> Slots]
          /\ over \in [Tensors -> 0..Count]
          /\ at \in Steps
          /\ done \subseteq {"read", "write"} \X Tensors
          /\ seen \in {<<>>} \cup (Tensors \X (0..Count))
          /\ content \in [Slots -> 0..Count]

-----------------------------------------------------------------------------
(* What the checker accepts. *)

Birth(t) == writer[t]
Death(t) == CHOOSE last \in {writer[t]} \cup readers[t] :
               \A step \in readers[t] : step <= last

(* One is dead before the other is born. *)
Before(s, t) == Death(s) < Birth(t)

(* A result takes an operand's place where nothing reads the operand later; *)
(* an operand is taken once.                                               *)
InPlace(t) == /\ writer[t] \in readers[over[t]]
              /\ Death(over[t]) = writer[t]
              /\ slot[over[t]] = slot[t]
              /\ \A other \in Tensors \ {t} : over[other] # over[t]

Accepted == /\ \A t \in Tensors : over[t] # 0 => over[t] # t /\ InPlace(t)
            /\ \A s, t \in Tensors :
                  \/ s = t
                  \/ slot[s] # slot[t]
                  \/ Before(s, t)
                  \/ Before(t, s)
                  \/ over[t] = s
                  \/ over[s] = t

Init == /\ writer \in [Tensors -> Steps]
        /\ readers \in {r \in [Tensors -> SUBSET Steps] :
                          \A t \in Tensors : \A step \in r[t] : step > writer[t]}
        /\ slot \in [Tensors -> Slots]
        /\ over \in [Tensors -> 0..Count]
        /\ Accepted = TRUE  \* one value: TLC would make a state of each way to be accepted
        /\ at = 0
        /\ done = {}
        /\ seen = <<>>
        /\ content = [k \in Slots |-> 0]

-----------------------------------------------------------------------------

Accesses(step) == {<<"read", t>> : t \in {t \in Tensors : step \in readers[t]}}
                    \cup {<<"write", t>> : t \in {t \in Tensors : writer[t] = step}}

Ready(access) == access \in Accesses(at) \ done

(* An operation writes a result; one that works in place has read before. *)
Write(t) == /\ Ready(<<"write", t>>)
            /\ over[t] # 0 => <<"read", over[t]>> \in done
            /\ content' = [content EXCEPT ![slot[t]] = t]
            /\ done' = done \cup {<<"write", t>>}
            /\ UNCHANGED <<program, plan, at, seen>>

(* It reads an operand from its slot in the plan. *)
Read(t) == /\ Ready(<<"read", t>>)
           /\ seen' = <<t, content[slot[t]]>>
           /\ done' = done \cup {<<"read", t>>}
           /\ UNCHANGED <<program, plan, at, content>>

(* When the step has made all its accesses, the next one runs. *)
Proceed == /\ done = Accesses(at)
           /\ at < LastStep
           /\ at' = at + 1
           /\ done' = {}
           /\ UNCHANGED <<program, plan, seen, content>>

Next == Proceed \/ \E t \in Tensors : Write(t) \/ Read(t)

Fairness == WF_vars(Next)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

Written(t) == writer[t] < at \/ <<"write", t>> \in done

(* What a read found is what was written as that tensor. *)
ReadsSeeTheirWriter == seen # <<>> => seen[1] = seen[2]

(* What is still to be read is in its place. *)
LiveIsKept == \A t \in Tensors :
                 /\ Written(t)
                 /\ \/ Death(t) > at
                    \/ Ready(<<"read", t>>)
                 => content[slot[t]] = t

-----------------------------------------------------------------------------
(* Properties. *)

Abstract == INSTANCE PrivateMemory WITH
              memory <- [t \in Tensors |-> IF Written(t) THEN t ELSE 0]

(* Every step sees what it would see in private memory. *)
RefinesPrivateMemory == Abstract!Spec

(* The run ends: no order of accesses inside a step gets stuck. *)
RunsToTheEnd == <>(at = LastStep /\ done = Accesses(at))

THEOREM Spec => [](TypeOK /\ ReadsSeeTheirWriter /\ LiveIsKept)
THEOREM Spec => RefinesPrivateMemory
THEOREM Spec => RunsToTheEnd

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverReused == \A k \in Slots, t \in Tensors :
                  content[k] # 0 /\ Ready(<<"write", t>>) /\ slot[t] = k => content[k] = t
NeverInPlace == \A t \in Tensors : over[t] = 0
=============================================================================
