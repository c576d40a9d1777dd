------------------------- MODULE FollowCacheGrowth --------------------------
(***************************************************************************)
(* Follows the caches of all sessions on one budget through CacheGrowth.   *)
(* Bytes are given in the unit in which every session's tokens are whole.  *)
(* Passes are numbered, each session's from 1, which the module does not   *)
(* need: in what order they end is followed by their number.               *)
(*                                                                         *)
(* spec: FD9.4                                                             *)
(***************************************************************************)
EXTENDS CacheGrowth

VARIABLES submitted, \* passes of each session that were submitted
          ended      \* and that have ended

state == <<vars, submitted, ended>>

FollowInit == /\ Begin
              /\ submitted = [s \in SessionSet |-> 0]
              /\ ended = [s \in SessionSet |-> 0]

Counted == UNCHANGED <<submitted, ended>>
Ledger(e) == Sum(Steady', Sessions) = e.reserved /\ Sum(Transient', Sessions) = e.transient

FollowPass(e, s) == /\ Pass(s, e.count)
                    /\ length[s] = e.first
                    /\ capacity[s] = e.capacity
                    /\ submitted' = [submitted EXCEPT ![s] = @ + 1]
                    /\ submitted'[s] = e.number
                    /\ UNCHANGED ended

FollowEnd(e, s) == /\ End(s)
                   /\ ended' = [ended EXCEPT ![s] = @ + 1]
                   /\ ended'[s] = e.number
                   /\ UNCHANGED submitted

FollowBlit(e, s) == /\ Blit(s)
                    /\ Counted
                    /\ blits[s] = e.head
                    /\ e.start = e.head * capacity[s]
                    /\ e.at = e.head * next[s].capacity
                    /\ e.count = length[s]

Follow(e) ==
    /\ e.session \in SessionSet
    /\ LET s == e.session
       IN  \/ e.action = "Ask" /\ Ask(s, e.required) /\ Counted
           \/ e.action = "Grow" /\ Grow(s) /\ next'[s].capacity = e.capacity /\ Ledger(e) /\ Counted
           \/ e.action = "Refuse" /\ Refuse(s) /\ Ledger(e) /\ Counted
           \/ e.action = "Blit" /\ FollowBlit(e, s)
           \/ e.action = "Copy" /\ Copy(s) /\ Head(queue[s]).head = e.head /\ Counted
           \/ e.action = "Break" /\ Break(s) /\ Head(queue[s]).head = e.head /\ Counted
           \/ e.action = "Switch" /\ Switch(s) /\ capacity'[s] = e.capacity /\ Counted
           \/ e.action = "GiveBack" /\ GiveBack(s) /\ Ledger(e) /\ Counted
           \/ e.action = "Fail" /\ Fail(s) /\ capacity[s] = e.capacity /\ Ledger(e) /\ Counted
           \/ e.action = "Pass" /\ FollowPass(e, s)
           \/ e.action = "End" /\ FollowEnd(e, s)
           \/ e.action = "Truncate" /\ Truncate(s, e.length) /\ length[s] = e.written /\ Counted
           \/ e.action = "Close" /\ Close(s) /\ length[s] = e.written /\ Ledger(e) /\ Counted

ModuleNext == Next

Ends(e) == TRUE
(* The actions of the module that could be taken now. *)
Allowed == {a \in {"Ask", "Grow", "Refuse", "Blit", "Copy", "Break", "Switch", "GiveBack", "Fail", "Pass", "End",
                   "Truncate", "Close"} :
              \E s \in SessionSet :
                 CASE a = "Ask" -> ENABLED \E tokens \in 1..Maximum : Ask(s, tokens)
                   [] a = "Grow" -> ENABLED Grow(s)
                   [] a = "Refuse" -> ENABLED Refuse(s)
                   [] a = "Blit" -> ENABLED Blit(s)
                   [] a = "Copy" -> ENABLED Copy(s)
                   [] a = "Break" -> ENABLED Break(s)
                   [] a = "Switch" -> ENABLED Switch(s)
                   [] a = "GiveBack" -> ENABLED GiveBack(s)
                   [] a = "Fail" -> ENABLED Fail(s)
                   [] a = "Pass" -> ENABLED Pass(s, 0)
                   [] a = "End" -> ENABLED End(s)
                   [] a = "Truncate" -> ENABLED Truncate(s, 0)
                   [] a = "Close" -> ENABLED Close(s)}

=============================================================================
