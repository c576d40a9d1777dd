---------------------------- MODULE CacheGrowth -----------------------------
(***************************************************************************)
(* Foundry's caches of keys and values, which grow under one budget. A     *)
(* session's cache holds a row of tokens for each head, one row behind the *)
(* other, so a larger capacity moves every row but the first: growing      *)
(* copies row by row into a new buffer, and only then takes the old one's  *)
(* place. Where the new buffer or a copy cannot be had, the old cache      *)
(* stands. The tables of positions grow with it.                           *)
(*                                                                         *)
(* The device executes the commands of a session in their order, some time *)
(* after they were submitted. A pass reads all tokens and writes those     *)
(* that are new; a read alone may come from another thread, while the      *)
(* cache grows too. What passes read is given back when they have ended.   *)
(*                                                                         *)
(* A capacity is a multiple of the block: at least twice the old one and   *)
(* what is required, but never more than the budget leaves beside the      *)
(* other sessions in the steady state. In strict mode old and new buffers  *)
(* together must keep within it as well.                                   *)
(*                                                                         *)
(* spec: FD4.2, FD4.3, FD4.6 to FD4.11                                     *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Sessions,   \* sessions are 1..Sessions
          HeadCounts, \* of which one is how many heads a session's cache has
          Costs,      \* of which one is how many units of the budget a token of a session takes
          Block,      \* capacities are multiples of this (128 tokens in Foundry)
          Maximum,    \* the longest context of any session, in tokens
          Budget,     \* units that there is memory for
          MostAtOnce, \* tokens that come at once
          LookAhead,  \* tokens more than these that a session may ask for room for
          InFlight,   \* passes of a session that are submitted and have not ended
          Failures    \* how often memory or a copy cannot be had

VARIABLES strict,    \* do old and new buffers together have to keep within the budget?
          heads,     \* the heads of each session's cache
          cost,      \* what a token of each session takes
          maximum,   \* the longest context of each session
          capacity,  \* tokens of each head that there is room for; 0 without a cache
          length,    \* tokens in it, those included that a pass in flight is to write
          buffer,    \* what each place holds: <<head, position>>, or <<>>
          asked,     \* tokens that there has to be room for; 0 when nothing is asked
          next,      \* the buffer that is being filled, with its capacity
          blits,     \* how many heads' copies were submitted
          filled,    \* heads that are copied
          broken,    \* has a copy failed?
          old,       \* the buffer that was replaced, until it is given back
          queue,     \* commands in flight, in their order
          positions, \* how many positions the tables cover
          failures   \* how often memory or a copy could not be had

given == <<strict, heads, cost, maximum>>
growth == <<next, blits, filled, broken>>
vars == <<given, capacity, length, buffer, asked, growth, old, queue, positions, failures>>

SessionSet == 1..Sessions
HeadSet(s) == 0..(heads[s] - 1)
Empty(places) == [place \in 0..(places - 1) |-> <<>>]
None == [capacity |-> 0, buffer |-> Empty(0)]

Up(tokens) == ((tokens + Block - 1) \div Block) * Block
Down(tokens) == (tokens \div Block) * Block
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b

RECURSIVE Sum(_, _)
Sum(f, n) == IF n = 0 THEN 0 ELSE f[n] + Sum(f, n - 1)

(* What a cache has, or is about to have, and what is kept beside it. *)
Steady == [s \in SessionSet |-> cost[s] * Max(capacity[s], next[s].capacity)]
Transient == [s \in SessionSet |-> cost[s] * (IF next[s] # None THEN capacity[s] ELSE old[s].capacity)]
Reserved == Sum(Steady, Sessions)
Kept == Sum(Transient, Sessions)

(* The tokens that there is memory for, and the capacity to which a cache grows. *)
Room(s) == Down((Budget - (IF strict THEN Reserved + Kept ELSE Reserved - Steady[s])) \div cost[s])
Wanted(s) == Min(Min(Max(2 * capacity[s], Up(asked[s])), Up(maximum[s])), Room(s))

Passes(s) == {i \in DOMAIN queue[s] : queue[s][i].what = "pass"}
Writes(s) == {i \in Passes(s) : queue[s][i].count > 0}
Copies(s) == {i \in DOMAIN queue[s] : queue[s][i].what = "copy"}
Covers(command, position) == /\ command.what = "pass"
                             /\ position \in command.first..(command.first + command.count - 1)

TypeOK == /\ strict \in BOOLEAN
          /\ \A s \in SessionSet :
                /\ heads[s] \in HeadCounts
                /\ cost[s] \in Costs
                /\ maximum[s] \in 1..Maximum
                /\ capacity[s] \in 0..Budget
                /\ length[s] \in 0..Min(capacity[s], maximum[s])
                /\ DOMAIN buffer[s] = 0..(heads[s] * capacity[s] - 1)
                /\ asked[s] \in 0..maximum[s]
                /\ DOMAIN next[s].buffer = 0..(heads[s] * next[s].capacity - 1)
                /\ blits[s] \in 0..heads[s]
                /\ filled[s] \subseteq 0..(blits[s] - 1)
                /\ broken[s] \in BOOLEAN
                /\ DOMAIN old[s].buffer = 0..(heads[s] * old[s].capacity - 1)
                /\ positions[s] \in 0..Budget
          /\ failures \in 0..Failures

(* No session has a cache yet. *)
Begin == /\ capacity = [s \in SessionSet |-> 0]
         /\ length = [s \in SessionSet |-> 0]
         /\ buffer = [s \in SessionSet |-> Empty(0)]
         /\ asked = [s \in SessionSet |-> 0]
         /\ next = [s \in SessionSet |-> None]
         /\ blits = [s \in SessionSet |-> 0]
         /\ filled = [s \in SessionSet |-> {}]
         /\ broken = [s \in SessionSet |-> FALSE]
         /\ old = [s \in SessionSet |-> None]
         /\ queue = [s \in SessionSet |-> <<>>]
         /\ positions = [s \in SessionSet |-> 0]
         /\ failures = 0

Init == /\ strict \in BOOLEAN
        /\ heads \in [SessionSet -> HeadCounts]
        /\ cost \in [SessionSet -> Costs]
        /\ maximum \in [SessionSet -> {Maximum}]
        /\ Begin

-----------------------------------------------------------------------------

(* A session asks for room for so many tokens in all, where there is none, more than those that come
   if it looks ahead. A new session has no cache yet. *)
Ask(s, tokens) == /\ asked[s] = 0
                  /\ old[s] = None
                  /\ tokens > capacity[s]
                  /\ tokens <= Min(length[s] + MostAtOnce + LookAhead, maximum[s])
                  /\ asked' = [asked EXCEPT ![s] = tokens]
                  /\ UNCHANGED <<given, capacity, length, buffer, growth, old, queue, positions, failures>>

(* A larger buffer is made beside the old one. *)
Grow(s) == /\ asked[s] > 0
           /\ next[s] = None
           /\ Up(asked[s]) <= Wanted(s)
           /\ next' = [next EXCEPT ![s] = [capacity |-> Wanted(s), buffer |-> Empty(heads[s] * Wanted(s))]]
           /\ UNCHANGED <<given, capacity, length, buffer, asked, blits, filled, broken, old, queue, positions,
                          failures>>

(* What the budget does not allow is refused. *)
Refuse(s) == /\ asked[s] > 0
             /\ next[s] = None
             /\ Up(asked[s]) > Wanted(s)
             /\ asked' = [asked EXCEPT ![s] = 0]
             /\ UNCHANGED <<given, capacity, length, buffer, growth, old, queue, positions, failures>>

(* The copy of a head's row is submitted. *)
Blit(s) == /\ next[s] # None
           /\ length[s] > 0
           /\ blits[s] < heads[s]
           /\ queue' = [queue EXCEPT ![s] = Append(@, [what |-> "copy", head |-> blits[s]])]
           /\ blits' = [blits EXCEPT ![s] = @ + 1]
           /\ UNCHANGED <<given, capacity, length, buffer, asked, next, filled, broken, old, positions, failures>>

(* The device copies a row to where it begins now. *)
Copy(s) ==
    /\ queue[s] # <<>>
    /\ Head(queue[s]).what = "copy"
    /\ LET head == Head(queue[s]).head
           wide == next[s].capacity
       IN  /\ next' = [next EXCEPT ![s].buffer =
                         [place \in DOMAIN @ |-> IF place \in (head * wide)..(head * wide + length[s] - 1)
                                                 THEN buffer[s][head * capacity[s] + place - head * wide]
                                                 ELSE @[place]]]
           /\ filled' = [filled EXCEPT ![s] = @ \cup {head}]
    /\ queue' = [queue EXCEPT ![s] = Tail(@)]
    /\ UNCHANGED <<given, capacity, length, buffer, asked, blits, broken, old, positions, failures>>

(* It fails to. *)
Break(s) == /\ queue[s] # <<>>
            /\ Head(queue[s]).what = "copy"
            /\ failures < Failures
            /\ failures' = failures + 1
            /\ broken' = [broken EXCEPT ![s] = TRUE]
            /\ queue' = [queue EXCEPT ![s] = Tail(@)]
            /\ UNCHANGED <<given, capacity, length, buffer, asked, next, blits, filled, old, positions>>

(* A growth is over. *)
Ungrown(s) == /\ next' = [next EXCEPT ![s] = None]
              /\ blits' = [blits EXCEPT ![s] = 0]
              /\ filled' = [filled EXCEPT ![s] = {}]
              /\ broken' = [broken EXCEPT ![s] = FALSE]

(* When all are copied, the new buffer is the cache, and the old one is kept. Nothing is still to be written: copies
   come after all passes that write, and where there is nothing to copy, the tables do. *)
Switch(s) == /\ next[s] # None
             /\ length[s] = 0 \/ filled[s] = HeadSet(s)
             /\ Writes(s) = {}
             /\ old' = [old EXCEPT ![s] = [capacity |-> capacity[s], buffer |-> buffer[s]]]
             /\ capacity' = [capacity EXCEPT ![s] = next[s].capacity]
             /\ buffer' = [buffer EXCEPT ![s] = next[s].buffer]
             /\ positions' = [positions EXCEPT ![s] = next[s].capacity]
             /\ asked' = [asked EXCEPT ![s] = 0]
             /\ Ungrown(s)
             /\ UNCHANGED <<given, length, queue, failures>>

(* The old buffer is given back, when no command in flight reads it. *)
GiveBack(s) == /\ old[s] # None
               /\ \A i \in Passes(s) : queue[s][i].of # old[s].capacity
               /\ old' = [old EXCEPT ![s] = None]
               /\ UNCHANGED <<given, capacity, length, buffer, asked, growth, queue, positions, failures>>

(* Memory cannot be had, or a copy has failed: when no copy is in flight, the old cache stands as it was. *)
Fail(s) == /\ next[s] # None
           /\ Copies(s) = {}
           /\ failures < Failures \/ broken[s]
           /\ failures' = failures + (IF broken[s] THEN 0 ELSE 1)
           /\ asked' = [asked EXCEPT ![s] = 0]
           /\ Ungrown(s)
           /\ UNCHANGED <<given, capacity, length, buffer, old, queue, positions>>

(* A pass is submitted: it reads what is there, and writes tokens behind it. While the cache grows, it only reads. *)
Pass(s, tokens) ==
    /\ capacity[s] > 0
    /\ Cardinality(Passes(s)) < InFlight
    /\ tokens > 0 => asked[s] = 0
    /\ length[s] + tokens <= Min(capacity[s], maximum[s])
    /\ queue' = [queue EXCEPT ![s] =
                    Append(@, [what |-> "pass", of |-> capacity[s], first |-> length[s], count |-> tokens])]
    /\ length' = [length EXCEPT ![s] = @ + tokens]
    /\ UNCHANGED <<given, capacity, buffer, asked, growth, old, positions, failures>>

(* The device executes it. *)
End(s) ==
    /\ queue[s] # <<>>
    /\ Head(queue[s]).what = "pass"
    /\ buffer' = [buffer EXCEPT ![s] =
                    [place \in DOMAIN @ |-> IF Covers(Head(queue[s]), place % capacity[s])
                                            THEN <<place \div capacity[s], place % capacity[s]>> ELSE @[place]]]
    /\ queue' = [queue EXCEPT ![s] = Tail(@)]
    /\ UNCHANGED <<given, capacity, length, asked, growth, old, positions, failures>>

(* Tokens are taken back, such as a draft that was rejected. *)
Truncate(s, tokens) == /\ asked[s] = 0
                       /\ tokens < length[s]
                       /\ length' = [length EXCEPT ![s] = tokens]
                       /\ UNCHANGED <<given, capacity, buffer, asked, growth, old, queue, positions, failures>>

(* A session ends, and gives its cache back. *)
Close(s) == /\ capacity[s] > 0
            /\ asked[s] = 0
            /\ old[s] = None
            /\ queue[s] = <<>>
            /\ capacity' = [capacity EXCEPT ![s] = 0]
            /\ length' = [length EXCEPT ![s] = 0]
            /\ buffer' = [buffer EXCEPT ![s] = Empty(0)]
            /\ positions' = [positions EXCEPT ![s] = 0]
            /\ UNCHANGED <<given, asked, growth, old, queue, failures>>

Next == \E s \in SessionSet :
           \/ \E tokens \in 1..Maximum : Ask(s, tokens)
           \/ Grow(s) \/ Refuse(s) \/ Blit(s) \/ Copy(s) \/ Break(s) \/ Switch(s) \/ GiveBack(s) \/ Fail(s)
           \/ \E tokens \in 0..MostAtOnce : Pass(s, tokens)
           \/ End(s)
           \/ \E tokens \in 0..Maximum : Truncate(s, tokens)
           \/ Close(s)

Fairness == \A s \in SessionSet :
               /\ WF_vars(Grow(s) \/ Refuse(s)) /\ WF_vars(Blit(s)) /\ WF_vars(Copy(s)) /\ WF_vars(End(s))
               /\ WF_vars(Switch(s)) /\ WF_vars(GiveBack(s)) /\ WF_vars(broken[s] /\ Fail(s))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A capacity is a multiple of the block. *)
InBlocks == \A s \in SessionSet : capacity[s] % Block = 0 /\ next[s].capacity % Block = 0

(* In the steady state the caches together keep within the budget, one that is about to grow included. *)
WithinBudget == Reserved <= Budget

(* With what is kept beside new buffers they do so in strict mode; else twice the budget bounds them. *)
PeakIsBounded == Reserved + Kept <= (IF strict THEN Budget ELSE 2 * Budget)

(* The tables of positions cover the cache. *)
PositionsCover == positions = capacity

(* Copies in flight have a buffer to write to. *)
CopiesHaveATarget == \A s \in SessionSet : Copies(s) # {} => next[s] # None

(* The buffer that a pass in flight reads has not been given back. *)
ReadsFindTheirBuffer == \A s \in SessionSet : \A i \in Passes(s) : queue[s][i].of \in {capacity[s], old[s].capacity}

(* What a pass in flight writes goes to the cache, and not to a buffer that was replaced. *)
WritesGoToTheCache == \A s \in SessionSet : \A i \in Writes(s) : queue[s][i].of = capacity[s]

(* Nothing is ever lost: every token of every head is where a reader looks for it, once its pass has ended. *)
NothingIsLost == \A s \in SessionSet : \A head \in HeadSet(s), position \in 0..(length[s] - 1) :
                    \/ \E i \in DOMAIN queue[s] : Covers(queue[s][i], position)
                    \/ buffer[s][head * capacity[s] + position] = <<head, position>>

(* So it is of the pass that is executed next, whichever buffer it reads. *)
ReadsFindTheirTokens ==
    \A s \in SessionSet : queue[s] # <<>> /\ Head(queue[s]).what = "pass" =>
       LET pass == Head(queue[s])
           read == IF pass.of = capacity[s] THEN buffer[s] ELSE old[s].buffer
       IN  \A head \in HeadSet(s), position \in 0..(Min(pass.first, length[s]) - 1) :
              read[head * pass.of + position] = <<head, position>>

-----------------------------------------------------------------------------
(* Properties. *)

(* A failure leaves the old cache as it was. *)
FailureLeavesTheOld == [][failures' # failures => UNCHANGED <<capacity, length, buffer, positions>>]_vars

(* A cache grows to twice its capacity at least, or as far as the maximum or the budget lets it: copies stay rare. *)
GrowsByDoubling == [][\A s \in SessionSet : next[s] = None /\ next'[s] # None =>
                         next'[s].capacity >= Min(2 * capacity[s], Min(Up(maximum[s]), Room(s)))]_vars

(* What is asked for is had or refused. *)
EveryoneIsAnswered == \A s \in SessionSet : asked[s] > 0 ~> asked[s] = 0

(* What was replaced is given back. *)
OldIsGivenBack == \A s \in SessionSet : old[s] # None ~> old[s] = None

THEOREM Spec => [](TypeOK /\ InBlocks /\ WithinBudget /\ PeakIsBounded /\ PositionsCover /\ CopiesHaveATarget)
THEOREM Spec => [](ReadsFindTheirBuffer /\ WritesGoToTheCache /\ NothingIsLost /\ ReadsFindTheirTokens)
THEOREM Spec => FailureLeavesTheOld /\ GrowsByDoubling /\ EveryoneIsAnswered /\ OldIsGivenBack

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverGrowsTwice == \A s \in SessionSet : capacity[s] <= 2 * Block
NeverGrowsInFlight == \A s \in SessionSet : next[s] = None \/ Writes(s) = {}
NeverReadWhenReplaced == \A s \in SessionSet : old[s] # None => \A i \in Passes(s) : queue[s][i].of # old[s].capacity

(* No session need ask for room. *)
SomeoneAsks == <>(\E s \in SessionSet : asked[s] > 0)
=============================================================================
