----------------------- MODULE FollowPoolGenerations ------------------------
(***************************************************************************)
(* Follows the log of one pool through PoolGenerations. Bytes are counted  *)
(* in units of the alignment. A handle is an allocation, and stands for    *)
(* its views as well. Of the bytes those are looked at where a handle      *)
(* begins: two that share a byte share the one where the later begins.     *)
(* What a host writes and reads through a lease is not logged. The code    *)
(* counts what it refuses, and so does this. spec: FD9.1, FD9.2            *)
(***************************************************************************)
EXTENDS PoolGenerations

VARIABLES lacked,   \* requests without room
          stale,    \* accesses of stale handles
          inUse     \* resets that were given up

counts == <<lacked, stale, inUse>>
state == <<vars, counts>>

FollowInit == Init /\ lacked = 0 /\ stale = 0 /\ inUse = 0

Set(numbers) == {numbers[k] : k \in 1..Len(numbers)}

(* The handle that is given out, as the log has it. *)
Given(e) == /\ e.handle = Len(handles')
            /\ handles'[e.handle].chunk = e.chunk
            /\ handles'[e.handle].first = e.first
            /\ handles'[e.handle].bytes = e.bytes
            /\ cursor'[e.chunk] = e.used

(* The command that is completed, as the log has it, and how many are left. *)
Completed(e) == /\ Head(queue) = [reads |-> Set(e.reads), writes |-> Set(e.writes)]
                /\ Len(queue') = e.commands

Follow(e) == \/ e.action = "Take" /\ Take(e.bytes) /\ Given(e) /\ UNCHANGED counts
             \/ e.action = "Grow" /\ Grow(e.bytes) /\ Given(e) /\ sizes'[e.chunk] = e.size /\ UNCHANGED counts
             \/ e.action = "Lack" /\ Lack(e.bytes, e.isDenied) /\ lacked' = lacked + 1 /\ lacked' = e.lacked
                                  /\ UNCHANGED <<stale, inUse>>
             \/ e.action = "Submit" /\ Submit(Set(e.reads), Set(e.writes)) /\ Len(queue') = e.commands
                                    /\ UNCHANGED counts
             \/ e.action = "Complete" /\ Complete /\ Completed(e) /\ UNCHANGED counts
             \/ e.action = "Fail" /\ Fail /\ Completed(e) /\ UNCHANGED counts
             \/ e.action = "Lease" /\ Lease(e.handle) /\ leases'[e.handle] = e.leases /\ UNCHANGED counts
             \/ e.action = "Return" /\ Return(e.handle) /\ leases'[e.handle] = e.leases /\ UNCHANGED counts
             \/ e.action = "Refuse" /\ Refuse(e.handle) /\ handles[e.handle].generation = e.generation
                                    /\ stale' = stale + 1 /\ stale' = e.refused /\ UNCHANGED <<lacked, inUse>>
             \/ e.action = "Ask" /\ Ask(e.user) /\ UNCHANGED counts
             \/ e.action = "Reset" /\ Reset(e.user) /\ generation' = e.generation /\ UNCHANGED counts
             \/ e.action = "GiveUp" /\ GiveUp(e.user) /\ inUse' = inUse + 1 /\ inUse' = e.inUse
                                    /\ UNCHANGED <<lacked, stale>>
             \/ e.action = "Exhaust" /\ Exhaust(e.user) /\ generation = e.generation /\ UNCHANGED counts

(* Next with the sizes and the commands of this step in place of all that might be. *)
ModuleNext == \/ /\ Len(handles') > Len(handles)
                 /\ LET bytes == handles'[Len(handles')].bytes IN Take(bytes) \/ Grow(bytes)
              \/ UNCHANGED vars
              \/ /\ Len(queue') > Len(queue)
                 /\ LET command == queue'[Len(queue')] IN Submit(command.reads, command.writes)
              \/ Complete \/ Fail
              \/ \E n \in Numbers : Lease(n) \/ Return(n) \/ Refuse(n)
              \/ \E u \in Users : Ask(u) \/ Reset(u) \/ GiveUp(u) \/ Exhaust(u)

(* A pool is closed by a user who asked, while nothing is held, and states what it has counted. *)
Ends(e) == /\ IsIdle /\ e.user \in asking /\ generation = e.generation /\ Len(handles) = e.handles
           /\ lacked = e.lacked /\ stale = e.stale /\ inUse = e.inUse
(* The actions of the module that could be taken now, for some size, handle or user. *)
Allowed == {a \in {"Take", "Grow", "Lack", "Submit", "Complete", "Fail", "Lease", "Return", "Refuse", "Ask", "Reset",
                   "GiveUp", "Exhaust"} :
              CASE a = "Take" -> ENABLED Take(0)
                [] a = "Grow" -> ENABLED Grow(Left)
                [] a = "Lack" -> ~ENABLED Take(Limit)
                [] a = "Submit" -> ENABLED Submit({}, {})
                [] a = "Complete" -> ENABLED Complete
                [] a = "Fail" -> ENABLED Fail
                [] a = "Lease" -> \E n \in Numbers : ENABLED Lease(n)
                [] a = "Return" -> \E n \in Numbers : ENABLED Return(n)
                [] a = "Refuse" -> \E n \in Numbers : ENABLED Refuse(n)
                [] a = "Ask" -> \E u \in Users : ENABLED Ask(u)
                [] a = "Reset" -> \E u \in Users : ENABLED Reset(u)
                [] a = "GiveUp" -> \E u \in Users : ENABLED GiveUp(u)
                [] a = "Exhaust" -> \E u \in Users : ENABLED Exhaust(u)}

=============================================================================
