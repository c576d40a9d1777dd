---------------------------- MODULE CacheGrowth -----------------------------
(***************************************************************************)
(* Foundry's cache of keys and values, which grows. It holds a row of      *)
(* tokens for each head, one row behind the other, so a larger capacity    *)
(* moves every row but the first: growing copies row by row into a new     *)
(* buffer, and only then takes the old one's place. Where the new buffer   *)
(* cannot be had, the old cache stands and the tokens are refused. The     *)
(* tables of positions grow with it.                                       *)
(*                                                                         *)
(* A capacity is a multiple of the block: at least twice the old one and   *)
(* what is required, but never more than the budget allows in the steady   *)
(* state. In strict mode old and new together must keep within it as well. *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS Heads,     \* heads are 0..(Heads - 1)
          Block,     \* capacities are multiples of this (128 tokens in Foundry)
          Maximum,   \* the longest context that is asked for, in tokens
          Budget,    \* tokens of one head that there is memory for
          MostAtOnce,\* tokens that come at once
          Failures   \* how often memory cannot be had

VARIABLES strict,    \* does the transient peak have to keep within the budget?
          capacity,  \* tokens of each head that the cache has room for
          length,    \* tokens in it
          buffer,    \* what each place holds: <<head, position>>, or <<>>
          pending,   \* tokens that have come and are not yet stored
          next,      \* the buffer that is being filled, with its capacity; 0 for none
          filled,    \* heads that are copied
          positions, \* how many positions the tables cover
          refused,   \* tokens that were refused
          failures   \* how often memory could not be had

vars == <<strict, capacity, length, buffer, pending, next, filled, positions, refused, failures>>

HeadSet == 0..(Heads - 1)
Largest == Heads * Budget
Empty(tokens) == [place \in 0..(Heads * tokens - 1) |-> <<>>]
NoNext == [capacity |-> 0, buffer |-> <<>>]

Up(tokens) == ((tokens + Block - 1) \div Block) * Block
Down(tokens) == (tokens \div Block) * Block
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b

(* The most that the cache may ever have, and the most to which it may grow now. *)
Limit == Min(Up(Maximum), Down(Budget))
Reachable == IF strict THEN Min(Limit, Down(Budget - capacity)) ELSE Limit

Wanted == Min(Max(2 * capacity, Up(length + pending)), Reachable)

TypeOK == /\ strict \in BOOLEAN
          /\ capacity \in 0..Budget
          /\ length \in 0..Maximum
          /\ DOMAIN buffer = 0..(Heads * capacity - 1)
          /\ pending \in 0..MostAtOnce
          /\ next.capacity \in 0..Budget
          /\ filled \subseteq HeadSet
          /\ positions \in 0..Budget
          /\ refused \in BOOLEAN
          /\ failures \in 0..Failures

Init == /\ strict \in BOOLEAN
        /\ capacity = Block
        /\ length = 0
        /\ buffer = Empty(Block)
        /\ pending = 0
        /\ next = NoNext
        /\ filled = {}
        /\ positions = Block
        /\ refused = FALSE
        /\ failures = 0

-----------------------------------------------------------------------------

(* Tokens come. *)
Come(tokens) == /\ pending = 0
                /\ length + tokens <= Maximum
                /\ pending' = tokens
                /\ refused' = FALSE
                /\ UNCHANGED <<strict, capacity, length, buffer, next, filled, positions, failures>>

(* Where there is room, they are stored, each in the row of its head. *)
Store == /\ pending > 0
         /\ next = NoNext
         /\ length + pending <= capacity
         /\ buffer' = [place \in DOMAIN buffer |->
                          LET head == place \div capacity
                              position == place % capacity
                          IN  IF position \in length..(length + pending - 1)
                              THEN <<head, position>> ELSE buffer[place]]
         /\ length' = length + pending
         /\ pending' = 0
         /\ UNCHANGED <<strict, capacity, next, filled, positions, refused, failures>>

(* Where there is none, a larger buffer is made beside the old one. *)
Grow == /\ next = NoNext
        /\ length + pending > capacity
        /\ length + pending <= Wanted
        /\ next' = [capacity |-> Wanted, buffer |-> Empty(Wanted)]
        /\ filled' = {}
        /\ UNCHANGED <<strict, capacity, length, buffer, pending, positions, refused, failures>>

(* The row of a head is copied to where it begins now. *)
Copy(head) ==
    /\ next # NoNext
    /\ head \notin filled
    /\ next' = [next EXCEPT !.buffer =
                  [place \in DOMAIN next.buffer |->
                      IF place \in (head * next.capacity)..(head * next.capacity + length - 1)
                      THEN buffer[head * capacity + place - head * next.capacity]
                      ELSE next.buffer[place]]]
    /\ filled' = filled \cup {head}
    /\ UNCHANGED <<strict, capacity, length, buffer, pending, positions, refused, failures>>

(* When all are copied, the new buffer is the cache, and the old one is given up. *)
Switch == /\ next # NoNext
          /\ filled = HeadSet
          /\ capacity' = next.capacity
          /\ buffer' = next.buffer
          /\ positions' = next.capacity
          /\ next' = NoNext
          /\ filled' = {}
          /\ UNCHANGED <<strict, length, pending, refused, failures>>

(* Memory cannot be had, before the copy or in the middle of it: the old cache stands. *)
Fail == /\ pending > 0
        /\ length + pending > capacity
        /\ failures < Failures
        /\ failures' = failures + 1
        /\ next' = NoNext
        /\ filled' = {}
        /\ pending' = 0
        /\ refused' = TRUE
        /\ UNCHANGED <<strict, capacity, length, buffer, positions>>

(* What the budget does not allow is refused. *)
Refuse == /\ next = NoNext
          /\ length + pending > capacity
          /\ length + pending > Wanted
          /\ pending' = 0
          /\ refused' = TRUE
          /\ UNCHANGED <<strict, capacity, length, buffer, next, filled, positions, failures>>

Next == \/ \E tokens \in 1..MostAtOnce : Come(tokens)
        \/ Store \/ Grow \/ Switch \/ Fail \/ Refuse
        \/ \E head \in HeadSet : Copy(head)

Fairness == /\ WF_vars(Store) /\ WF_vars(Grow) /\ WF_vars(Switch) /\ WF_vars(Refuse)
            /\ \A head \in HeadSet : WF_vars(Copy(head))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A capacity is a multiple of the block, and more than none. *)
InBlocks == capacity > 0 /\ capacity % Block = 0 /\ next.capacity % Block = 0

(* In the steady state the cache keeps within its budget. *)
WithinBudget == capacity <= Budget

(* While it grows, so do old and new together in strict mode; else twice the budget bounds them. *)
PeakIsBounded == next # NoNext => capacity + next.capacity <= (IF strict THEN Budget ELSE 2 * Budget)

(* The tables of positions cover the cache. *)
PositionsCover == positions = capacity

(* Nothing is ever lost: every token of every head is where a reader looks for it. *)
NothingIsLost == \A head \in HeadSet, position \in 0..(length - 1) :
                    buffer[head * capacity + position] = <<head, position>>

-----------------------------------------------------------------------------
(* Properties. *)

(* A failure leaves the old cache as it was. *)
FailureLeavesTheOld == [][failures' # failures => buffer' = buffer /\ capacity' = capacity /\ length' = length]_vars

(* It grows to twice its capacity at least, or to its limit: copies stay rare. *)
GrowsByDoubling == [][capacity' # capacity => capacity' >= 2 * capacity \/ capacity' = Limit \/ strict]_vars

(* Tokens that come are stored or refused. *)
EveryTokenIsAnswered == pending > 0 ~> pending = 0

THEOREM Spec => [](TypeOK /\ InBlocks /\ WithinBudget /\ PeakIsBounded /\ PositionsCover /\ NothingIsLost)
THEOREM Spec => FailureLeavesTheOld /\ GrowsByDoubling /\ EveryTokenIsAnswered

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverGrowsTwice == capacity <= 2 * Block
NeverRefusedByBudget == ~(refused /\ failures = 0)
=============================================================================
