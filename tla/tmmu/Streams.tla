------------------------------- MODULE Streams ------------------------------
(***************************************************************************)
(* A plan at work on several streams: steps that nothing orders run at the *)
(* same time, and make their accesses in any order. A stream runs its      *)
(* kernels one after another. A copy is asynchronous: it begins when the   *)
(* kernels before it on its stream have ended, and the stream goes on      *)
(* while it runs. A step may wait for the end of earlier steps, copies     *)
(* among them: events.                                                     *)
(*                                                                         *)
(* The checker accepts a plan where the writer of each operand happens     *)
(* before its readers, and of two tensors in one slot all accesses of one  *)
(* happen before all accesses of the other. So the bytes of a copy's       *)
(* operand are not free when the copy has started, but when something has  *)
(* waited for it. Then no two steps that run at the same time touch one    *)
(* slot, unless both only read, and each read finds what was written as    *)
(* its tensor.                                                             *)
(*                                                                         *)
(* spec: X5.2, X5.3, X5.8                                                  *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS Count,       \* how many steps there are; step k writes tensor k
          StreamCount, \* streams are 1..StreamCount
          SlotCount    \* slots are 1..SlotCount

VARIABLES stream,      \* the stream of each step
          copies,      \* the steps that are asynchronous copies
          reads,       \* the tensors that each step reads
          waits,       \* the steps that each step waits for
          slot,        \* where each tensor lies
          running,     \* the steps that have begun and not ended
          ended,       \* the steps that have ended
          done,        \* what the running steps have read and written so far
          seen,        \* the last read: which tensor, and what was found
          content      \* what each slot holds: the tensor last written there, or 0

program == <<stream, copies, reads, waits>>
vars == <<program, slot, running, ended, done, seen, content>>

Steps == 1..Count
Slots == 1..SlotCount

TypeOK == /\ stream \in [Steps -> 1..StreamCount]
          /\ copies \subseteq Steps
          /\ reads \in [Steps -> SUBSET Steps]
          /\ waits \in [Steps -> SUBSET Steps]
          /\ slot \in [Steps -> Slots]
          /\ running \subseteq Steps
          /\ ended \subseteq Steps \ running
          /\ done \subseteq running \X (0..Count)
          /\ seen \in {<<>>} \cup (Steps \X (0..Count))
          /\ content \in [Slots -> 0..Count]

-----------------------------------------------------------------------------
(* What the checker accepts. *)

(* The steps that have ended, by the rules, when a step begins. *)
Direct(step) == {k \in Steps : k < step /\ stream[k] = stream[step] /\ k \notin copies} \cup waits[step]

(* All that happens before a step: steps are few, so paths are short. *)
RECURSIVE Reached(_, _)
Reached(from, paths) == IF paths = 0 THEN from
                        ELSE Reached(from \cup UNION {Direct(k) : k \in from}, paths - 1)
Past(step) == Reached(Direct(step), Count)

HappensBefore(a, b) == a \in Past(b)

(* The steps that access a tensor: its writer, and those that read it. *)
Accessing(t) == {t} \cup {k \in Steps : t \in reads[k]}

(* Tensor s may give its bytes to t. *)
Before(s, t) == \A a \in Accessing(s), b \in Accessing(t) : HappensBefore(a, b)

Accepted == /\ \A k \in Steps : \A t \in reads[k] : HappensBefore(t, k)
            /\ \A s, t \in Steps : s # t /\ slot[s] = slot[t] => Before(s, t) \/ Before(t, s)

(* Operands and waits name earlier steps. The first step has the first stream and the first slot. *)
Begins == /\ stream \in {f \in [Steps -> 1..StreamCount] : f[1] = 1}
          /\ copies \in SUBSET Steps
          /\ reads \in {f \in [Steps -> SUBSET Steps] : \A k \in Steps : f[k] \subseteq 1..(k - 1)}
          /\ waits \in {f \in [Steps -> SUBSET Steps] : \A k \in Steps : f[k] \subseteq 1..(k - 1)}
          /\ slot \in {f \in [Steps -> Slots] : f[1] = 1}
          /\ running = {}
          /\ ended = {}
          /\ done = {}
          /\ seen = <<>>
          /\ content = [k \in Slots |-> 0]

Init == Begins /\ Accepted = TRUE  \* one value: TLC would make a state of each way to be accepted

-----------------------------------------------------------------------------

(* The queue of its stream has come to a step: the kernels before it have ended. *)
Queued(step) == \A k \in 1..(step - 1) : stream[k] = stream[step] => k \in ended \cup copies

(* A step begins when its stream has come to it and what it waits for has ended. *)
Begin(step) == /\ step \notin running \cup ended
               /\ Queued(step)
               /\ waits[step] \subseteq ended
               /\ running' = running \cup {step}
               /\ UNCHANGED <<program, slot, ended, done, seen, content>>

(* Step k reads tensor t: the pair k, t. That it has written is the pair k, 0. *)
Read(step, t) == /\ step \in running
                 /\ t \in reads[step]
                 /\ <<step, t>> \notin done
                 /\ seen' = <<t, content[slot[t]]>>
                 /\ done' = done \cup {<<step, t>>}
                 /\ UNCHANGED <<program, slot, running, ended, content>>

Write(step) == /\ step \in running
               /\ <<step, 0>> \notin done
               /\ content' = [content EXCEPT ![slot[step]] = step]
               /\ done' = done \cup {<<step, 0>>}
               /\ UNCHANGED <<program, slot, running, ended, seen>>

(* When it has made all its accesses it ends. *)
End(step) == /\ step \in running
             /\ {<<step, t>> : t \in reads[step] \cup {0}} \subseteq done
             /\ running' = running \ {step}
             /\ ended' = ended \cup {step}
             /\ done' = {access \in done : access[1] # step}
             /\ UNCHANGED <<program, slot, seen, content>>

Next == \E step \in Steps : \/ Begin(step) \/ Write(step) \/ End(step)
                            \/ \E t \in Steps : Read(step, t)

Fairness == WF_vars(Next)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* What a read found is what was written as that tensor. *)
ReadsSeeTheirWriter == seen # <<>> => seen[1] = seen[2]

(* What is still to be read is in its place. *)
LiveIsKept == \A t \in Steps :
                 /\ t \in ended
                 /\ \E k \in Steps : t \in reads[k] /\ k \notin ended /\ <<k, t>> \notin done
                 => content[slot[t]] = t

(* No step writes a slot that another one reads or writes at the same time. *)
NoRace == \A a, b \in running : a # b => slot[a] \notin {slot[t] : t \in reads[b] \cup {b}}

-----------------------------------------------------------------------------
(* Properties. *)

(* The run ends: no order of events gets stuck. *)
RunsToTheEnd == <>(ended = Steps)

THEOREM Spec => [](TypeOK /\ ReadsSeeTheirWriter /\ LiveIsKept /\ NoRace)
THEOREM Spec => RunsToTheEnd

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverOverlaps == \A a, b \in running : a = b
NeverReused == \A t \in Steps : t \in ended => content[slot[t]] = t
NeverPastACopy == \A c \in copies, k \in Steps :
                     c \in running /\ k \in ended => k < c \/ stream[k] # stream[c]
NeverAfterACopy == \A c \in copies, k \in running :
                      c \in waits[k] => slot[k] \notin {slot[t] : t \in reads[c]}
=============================================================================
