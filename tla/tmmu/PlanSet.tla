------------------------------ MODULE PlanSet -------------------------------
(***************************************************************************)
(* Several programs in one memory, called one after the other, in any      *)
(* order and any number of times. Each call begins in the memory that the  *)
(* last one left. The programs here, each a sequence of accesses:          *)
(*                                                                         *)
(*   1 prefill  reads w1, writes and reads a, writes s, writes and reads d *)
(*   2 decode   reads w2, writes and reads b, reads old, writes and reads  *)
(*              e, writes and reads new                                    *)
(*   3 other    reads w3, writes and reads c                               *)
(*                                                                         *)
(* A program's tensors are its own. Some hold what is of the whole set: w1 *)
(* to w3 hold one weight, and s, old and new one state, which decode takes *)
(* as old and leaves as new. A tensor's home is what it holds. All others, *)
(* here a to e, are of one call.                                           *)
(*                                                                         *)
(* A set is accepted if tensors of one home have one place and size, if no *)
(* tensor of any program shares a byte with a weight or a state of the set *)
(* that it does not hold, and if no program writes a weight. A program     *)
(* that writes a state may use its bytes until then, once it has read what *)
(* it takes of it: a may share bytes with s, and e with old and new, but   *)
(* not d and b. A call begins only if what it takes was written: by the    *)
(* caller, or by earlier calls. Then every read finds what was last        *)
(* written.                                                                *)
(*                                                                         *)
(* Whether one program keeps its own tensors apart is for ArenaExecution;  *)
(* here, the tensors of one call are read right after they were written.   *)
(*                                                                         *)
(* spec: PS1.3, PS1.4, PS1.5, PS1.6, PS1.8                                 *)
(***************************************************************************)
EXTENDS Integers, Sequences, TLC

CONSTANTS Memory,    \* how many bytes there are
          Calls      \* how many calls there are

VARIABLES accesses,  \* of each program: the sequence of its accesses
          home,      \* what each tensor holds
          weights,   \* regions that the caller writes once
          states,    \* regions that outlive a call and are no weights
          provided,  \* the weights, and states that the caller writes before they are taken
          place,     \* where each tensor is stored: its first byte and how many there are
          running,   \* the program that runs, or 0
          at,        \* how many accesses it has made
          calls,     \* how many calls have begun
          latest,    \* the call that last wrote each home: 0 for the caller, -1 for none
          began,     \* the same when the call began
          content    \* what each byte holds: a home, the call that wrote it, and which byte of it

programs == <<accesses, home, weights, states>>
set == <<programs, provided, place>>
vars == <<set, running, at, calls, latest, began, content>>

Programs == DOMAIN accesses
Tensors == DOMAIN home
Homes == {home[t] : t \in Tensors}
Kept == weights \cup states
Bytes == 0..(Memory - 1)

Extent(t) == place[t][1]..(place[t][1] + place[t][2] - 1)

TypeOK == /\ \A t \in Tensors : place[t] \in Nat \X Nat /\ Extent(t) \subseteq Bytes
          /\ Kept \subseteq Homes
          /\ provided \subseteq Kept
          /\ running \in {0} \cup Programs
          /\ at \in Nat
          /\ running # 0 => at <= Len(accesses[running])
          /\ calls \in 0..Calls
          /\ latest \in [Homes -> -1..Calls]
          /\ began \in [Homes -> -1..Calls]
          /\ content \in [Bytes -> {<<>>} \cup (Homes \X (0..Calls) \X Bytes)]

-----------------------------------------------------------------------------
(* The rules that a set must keep. *)

(* Tensors of different programs that hold one thing are at one place. *)
Agree(t, u) == /\ place[t][1] = place[u][1]
               /\ place[t][2] = place[u][2]

Accesses(p, t) == {k \in DOMAIN accesses[p] : accesses[p][k][2] = t}
Reads(p, t) == {k \in Accesses(p, t) : accesses[p][k][1] = "read"}
Stores(p, t) == Accesses(p, t) \ Reads(p, t)

(* Reads of what a program takes: it has not written the tensor before. *)
Taking(p, h) == UNION {{k \in Reads(p, t) : \A j \in Stores(p, t) : j > k} : t \in {t \in Tensors : home[t] = h}}
Takes(p) == {h \in Homes : Taking(p, h) # {}}

(* A program that writes a home has no use for what it held, once it has read what it takes: its bytes are free. *)
IsFree(p, u, h) == /\ \E t \in Tensors : home[t] = h /\ Stores(p, t) # {} /\
                        \A k \in Accesses(p, u), j \in Stores(p, t) : k < j
                   /\ \A k \in Taking(p, h), j \in Stores(p, u) : k < j

(* What is kept between calls shares no byte with what any program has for itself. *)
Apart(t, u) == \/ home[t] \notin Kept
               \/ Extent(t) \cap Extent(u) = {}
               \/ home[u] \notin Kept /\ \A p \in Programs : Accesses(p, u) = {} \/ IsFree(p, u, home[t])

(* A weight is written by its caller and by no program. *)
Unwritten(w) == \A p \in Programs : \A t \in Tensors : home[t] = w => Stores(p, t) = {}

Accepted == /\ \A t, u \in Tensors : IF home[t] = home[u] THEN Agree(t, u) ELSE Apart(t, u)
            /\ \A w \in weights : Unwritten(w)

-----------------------------------------------------------------------------

Trio == << << <<"read", "w1">>, <<"write", "a">>, <<"read", "a">>, <<"write", "s">>,
              <<"write", "d">>, <<"read", "d">> >>,
           << <<"read", "w2">>, <<"write", "b">>, <<"read", "b">>, <<"read", "old">>,
              <<"write", "e">>, <<"read", "e">>, <<"write", "new">>, <<"read", "new">> >>,
           << <<"read", "w3">>, <<"write", "c">>, <<"read", "c">> >> >>

Held == [t \in {"w1", "w2", "w3", "s", "old", "new", "a", "b", "c", "d", "e"} |->
            CASE t \in {"w1", "w2", "w3"} -> "weight"
              [] t \in {"s", "old", "new"} -> "state"
              [] OTHER -> t]

(* A place for each, the tensors of calls over each other. Between them and the state is a byte that none has. *)
Base == [t \in DOMAIN Held |-> CASE Held[t] = "weight" -> <<0, 1>>
                                 [] Held[t] = "state" -> <<1, 2>>
                                 [] OTHER -> <<4, 1>>]

Places == {range \in Bytes \X (1..2) : range[1] + range[2] <= Memory}

(* Nothing has run, and nothing is written. *)
Begins == /\ running = 0
          /\ at = 0
          /\ calls = 0
          /\ latest = [h \in Homes |-> -1]
          /\ began = latest
          /\ content = [b \in Bytes |-> <<>>]

(* Every set is tried in which one tensor is elsewhere or of another size, two in which a program writes the *)
(* weight, and one whose caller writes the state.                                                          *)
Init == /\ home = Held
        /\ weights = {"weight"}
        /\ states = {"state"}
        /\ \/ /\ accesses = Trio
              /\ provided = {"weight"}
              /\ place \in {[Base EXCEPT ![t] = x] : t \in DOMAIN Held, x \in Places}
           \/ /\ accesses \in {Trio, [Trio EXCEPT ![1] = Append(@, <<"write", "w1">>)],
                               [Trio EXCEPT ![3] = Append(@, <<"write", "w3">>)]}
              /\ provided = {"weight", "state"}
              /\ place = Base
        /\ Accepted = TRUE  \* one value: TLC would make a state of each way to be accepted
        /\ Begins

-----------------------------------------------------------------------------

(* The bytes of a tensor hold it, as a call wrote it; all other bytes stay. *)
Put(t, by) == /\ content' = [b \in Extent(t) |-> <<home[t], by, b - place[t][1]>>] @@ content
              /\ latest' = [latest EXCEPT ![home[t]] = by]

(* The call in which a program has written its tensor, or the one that left it there. *)
IsWritten(t) == \E k \in 1..at : accesses[running][k] = <<"write", t>>
Expected(t) == IF IsWritten(t) THEN calls
               ELSE IF home[t] \in Kept THEN began[home[t]] ELSE -1

(* The caller writes a weight, or the first value of a state. *)
Load(h) == /\ running = 0
           /\ h \in provided
           /\ latest[h] = -1
           /\ Put(CHOOSE t \in Tensors : home[t] = h, 0)
           /\ UNCHANGED <<set, running, at, calls, began>>

(* A program is called. *)
Call(p) == /\ running = 0
           /\ calls < Calls
           /\ (\A h \in Takes(p) : latest[h] # -1) = TRUE
           /\ running' = p
           /\ at' = 0
           /\ calls' = calls + 1
           /\ began' = latest
           /\ UNCHANGED <<set, latest, content>>

IsNext(kind, t) == running # 0 /\ at < Len(accesses[running]) /\ accesses[running][at + 1] = <<kind, t>>

(* It reads a tensor: what is in its bytes. *)
Read(t) == /\ IsNext("read", t)
           /\ at' = at + 1
           /\ UNCHANGED <<set, running, calls, latest, began, content>>

(* It writes one. *)
Store(t) == /\ IsNext("write", t)
            /\ at' = at + 1
            /\ Put(t, calls)
            /\ UNCHANGED <<set, running, calls, began>>

(* It has made all its accesses. *)
Return == /\ running # 0
          /\ at = Len(accesses[running])
          /\ running' = 0
          /\ UNCHANGED <<set, at, calls, latest, began, content>>

System == Return \/ \E t \in Tensors : Read(t) \/ Store(t)

Caller == (\E h \in provided : Load(h)) \/ \E p \in Programs : Call(p)

Next == System \/ Caller

Fairness == WF_vars(System)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

Holds(t, by) == \A b \in Extent(t) : content[b] = <<home[t], by, b - place[t][1]>>

(* Nothing is read that was never written: not at the first call either. *)
WrittenBeforeRead == \A t \in Tensors : IsNext("read", t) => Expected(t) # -1

(* What is about to be read is what was last written. *)
ReadsFindTheLastWrite ==
    \A t \in Tensors : IsNext("read", t) /\ Expected(t) # -1 => Holds(t, Expected(t))

(* Weights are as the caller wrote them. *)
WeightsAreKept == \A w \in weights : latest[w] \in {-1, 0}

(* What the program that runs will write, and has no use for until then. *)
IsLost(h) == running # 0 /\ latest[h] # calls /\ (\A k \in Taking(running, h) : k <= at)
                /\ \E t \in Tensors : home[t] = h /\ Stores(running, t) # {}

(* What outlives a call is whole at every moment, and where every program looks for it. *)
StateIsKept == \A t \in Tensors :
                  home[t] \in Kept /\ latest[home[t]] # -1 /\ ~IsLost(home[t]) => Holds(t, latest[home[t]])

-----------------------------------------------------------------------------
(* Properties. *)

(* Every call returns. *)
EveryCallReturns == running # 0 ~> running = 0

THEOREM Spec => [](/\ TypeOK /\ WrittenBeforeRead /\ ReadsFindTheLastWrite /\ WeightsAreKept /\ StateIsKept)
THEOREM Spec => EveryCallReturns

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverTakesAnothers == \A t \in Tensors : IsNext("read", t) /\ ~IsWritten(t) => Expected(t) = 0
NeverOverAnothers == \A t \in Tensors : \A b \in Extent(t) :
                        IsNext("write", t) /\ content[b] # <<>> => content[b][1] = home[t]

(* The caller need not call. *)
SomeoneCalls == <>(calls > 0)
=============================================================================
