------------------------------- MODULE Quota --------------------------------
(***************************************************************************)
(* Memory is taken under a budget, wholly or not at all. Clients share one *)
(* budget of bytes; each asks for the arenas of a plan. Its bytes are      *)
(* promised to it at once or refused, then its arenas are mapped one by    *)
(* one, and the system may refuse any of them. After a refusal of either   *)
(* kind nothing of it remains mapped and nothing is promised; the ledger   *)
(* counts the failure, and the bytes in use are those of the plans that    *)
(* were committed.                                                         *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Clients,   \* the clients that request memory
          Arenas,    \* names of the arenas of a plan
          MaxBytes,  \* an arena takes 0..MaxBytes bytes
          Budget,    \* what all clients together may have
          Refusals   \* how often the system refuses

VARIABLES phase,     \* where each client stands
          size,      \* the bytes of each arena that it asks for
          mapped,    \* the arenas that are mapped for it
          promised,  \* bytes promised to it
          allocated, \* the ledger: bytes allocated,
          peak,      \*             the most that they ever were,
          failures,  \*             allocations that failed
          refusals   \* how often the system has refused

ledger == <<allocated, peak, failures>>
vars == <<phase, size, mapped, promised, ledger, refusals>>

RECURSIVE Sum(_, _)
Sum(f, members) == IF members = {} THEN 0
                   ELSE LET x == CHOOSE x \in members : TRUE
                        IN f[x] + Sum(f, members \ {x})

Total(c) == Sum(size[c], Arenas)
InUse == Sum(promised, Clients)
Most == MaxBytes * Cardinality(Arenas) * Cardinality(Clients)

TypeOK == /\ phase \in [Clients -> {"idle", "mapping", "failing", "committed", "failed"}]
          /\ size \in [Clients -> [Arenas -> 0..MaxBytes]]
          /\ mapped \in [Clients -> SUBSET Arenas]
          /\ promised \in [Clients -> 0..Budget]
          /\ allocated \in 0..Most
          /\ peak \in 0..Most
          /\ failures \in 0..Cardinality(Clients)
          /\ refusals \in 0..Refusals

Init == /\ phase = [c \in Clients |-> "idle"]
        /\ size = [c \in Clients |-> [a \in Arenas |-> 0]]
        /\ mapped = [c \in Clients |-> {}]
        /\ promised = [c \in Clients |-> 0]
        /\ allocated = 0
        /\ peak = 0
        /\ failures = 0
        /\ refusals = 0

-----------------------------------------------------------------------------

Move(c, to) == phase' = [phase EXCEPT ![c] = to]

(* A client asks. What it needs is looked up and promised in one action. *)
Ask(c, need) == /\ phase[c] = "idle"
                /\ size' = [size EXCEPT ![c] = need]
                /\ LET bytes == Sum(need, Arenas) IN
                      IF InUse + bytes <= Budget
                      THEN /\ Move(c, "mapping")
                           /\ promised' = [promised EXCEPT ![c] = bytes]
                           /\ UNCHANGED failures
                      ELSE /\ Move(c, "failed")
                           /\ failures' = failures + 1
                           /\ UNCHANGED promised
                /\ UNCHANGED <<mapped, allocated, peak, refusals>>

(* An arena is mapped. *)
Map(c, a) == /\ phase[c] = "mapping"
             /\ a \notin mapped[c]
             /\ mapped' = [mapped EXCEPT ![c] = @ \cup {a}]
             /\ UNCHANGED <<phase, size, promised, ledger, refusals>>

(* The system has no memory for an arena; or all are mapped, and their journal cannot be had. *)
Refuse(c) == /\ phase[c] = "mapping"
             /\ refusals < Refusals
             /\ refusals' = refusals + 1
             /\ Move(c, "failing")
             /\ UNCHANGED <<size, mapped, promised, ledger>>

(* What was mapped until then is given back, arena by arena, *)
Unmap(c, a) == /\ phase[c] = "failing"
               /\ a \in mapped[c]
               /\ mapped' = [mapped EXCEPT ![c] = @ \ {a}]
               /\ UNCHANGED <<phase, size, promised, ledger, refusals>>

(* and in the end the promise. *)
Fail(c) == /\ phase[c] = "failing"
           /\ mapped[c] = {}
           /\ Move(c, "failed")
           /\ promised' = [promised EXCEPT ![c] = 0]
           /\ failures' = failures + 1
           /\ UNCHANGED <<size, mapped, allocated, peak, refusals>>

(* When all arenas are mapped, the plan is committed and the ledger updated. *)
Commit(c) == /\ phase[c] = "mapping"
             /\ mapped[c] = Arenas
             /\ Move(c, "committed")
             /\ allocated' = allocated + Total(c)
             /\ peak' = IF allocated + Total(c) > peak THEN allocated + Total(c) ELSE peak
             /\ UNCHANGED <<size, mapped, promised, failures, refusals>>

(* A plan that is no longer used gives everything back. *)
Release(c) == /\ phase[c] = "committed"
              /\ Move(c, "idle")
              /\ mapped' = [mapped EXCEPT ![c] = {}]
              /\ promised' = [promised EXCEPT ![c] = 0]
              /\ allocated' = allocated - Total(c)
              /\ size' = [size EXCEPT ![c] = [a \in Arenas |-> 0]]
              /\ UNCHANGED <<peak, failures, refusals>>

Next == \E c \in Clients :
           \/ \E need \in [Arenas -> 0..MaxBytes] : Ask(c, need)
           \/ \E a \in Arenas : Map(c, a) \/ Unmap(c, a)
           \/ Refuse(c) \/ Fail(c) \/ Commit(c) \/ Release(c)

Fairness == \A c \in Clients : /\ \A a \in Arenas : WF_vars(Map(c, a)) /\ WF_vars(Unmap(c, a))
                               /\ WF_vars(Commit(c))
                               /\ WF_vars(Fail(c))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* The clients together never have more than the budget. *)
WithinBudget == InUse <= Budget

(* Nothing is mapped that was not promised. *)
MappedIsPromised == \A c \in Clients : Sum(size[c], mapped[c]) <= promised[c]

(* After a failure nothing is left of it. *)
NoPartialCommit == \A c \in Clients :
                      phase[c] = "failed" => mapped[c] = {} /\ promised[c] = 0

(* A plan that is committed has all its arenas. *)
CommitsWhole == \A c \in Clients : phase[c] = "committed" => mapped[c] = Arenas

(* The ledger says what is: bytes of committed plans, and failures. *)
LedgerIsExact ==
    /\ allocated = Sum([c \in Clients |-> Total(c)], {c \in Clients : phase[c] = "committed"})
    /\ failures = Cardinality({c \in Clients : phase[c] = "failed"})
    /\ allocated <= peak

-----------------------------------------------------------------------------
(* Properties. *)

(* Every request is answered. *)
AskedIsAnswered == \A c \in Clients : phase[c] \in {"mapping", "failing"} ~> phase[c] \in {"committed", "failed"}

(* The peak never falls. *)
PeakOnlyRises == [][peak' >= peak]_vars

THEOREM Spec => [](TypeOK /\ WithinBudget /\ MappedIsPromised /\ NoPartialCommit /\ CommitsWhole /\ LedgerIsExact)
THEOREM Spec => AskedIsAnswered /\ PeakOnlyRises

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverBothCommitted == Cardinality({c \in Clients : phase[c] = "committed" /\ promised[c] > 0}) < 2
NeverHalfMappedFailure == \A c \in Clients : phase[c] = "failing" => mapped[c] = {}

(* No client need ask. *)
SomeoneAsks == <>(\E c \in Clients : phase[c] # "idle")
=============================================================================
