--------------------------- MODULE PrivateMemory ----------------------------
(***************************************************************************)
(* What running a program computes when every tensor has memory of its     *)
(* own. A program is a sequence of steps; each step reads and writes       *)
(* tensors in any order, for an operation may read while it writes. A      *)
(* value is known by the tensor that it was written as.                    *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS Tensors,   \* names, as positive numbers
          Steps      \* the steps of the run, from 0

VARIABLES writer,    \* the step that writes each tensor
          readers,   \* the steps that read it
          at,        \* the step that runs
          done,      \* what it has read and written so far
          seen,      \* the last read: which tensor, and what it held
          memory     \* what the memory of each tensor holds, 0 before its write

program == <<writer, readers>>

Accesses(step) == {<<"read", t>> : t \in {t \in Tensors : step \in readers[t]}}
                    \cup {<<"write", t>> : t \in {t \in Tensors : writer[t] = step}}

Init == /\ writer \in [Tensors -> Steps]
        /\ readers \in [Tensors -> SUBSET Steps]
        /\ at = 0
        /\ done = {}
        /\ seen = <<>>
        /\ memory = [t \in Tensors |-> 0]

Write(t) == /\ <<"write", t>> \in Accesses(at) \ done
            /\ memory' = [memory EXCEPT ![t] = t]
            /\ done' = done \cup {<<"write", t>>}
            /\ UNCHANGED <<program, at, seen>>

Read(t) == /\ <<"read", t>> \in Accesses(at) \ done
           /\ seen' = <<t, memory[t]>>
           /\ done' = done \cup {<<"read", t>>}
           /\ UNCHANGED <<program, at, memory>>

Proceed == /\ done = Accesses(at)
           /\ at + 1 \in Steps
           /\ at' = at + 1
           /\ done' = {}
           /\ UNCHANGED <<program, seen, memory>>

Next == Proceed \/ \E t \in Tensors : Write(t) \/ Read(t)

Spec == Init /\ [][Next]_<<program, at, done, seen, memory>>
=============================================================================
