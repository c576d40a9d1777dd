-------------------------- MODULE FollowWriteLocks --------------------------
(***************************************************************************)
(* Follows threads, of one process or of several, through WriteLocks.      *)
(* Threads, locks and ranges of bytes are numbered; locks by their names,  *)
(* which is the order in which they are taken. Tile 1 is no byte: a        *)
(* section without an access is taken for one that reads it. The tiles of  *)
(* a section are those that the rest of the log shows.                     *)
(*                                                                         *)
(* spec: MN7.8                                                             *)
(***************************************************************************)
EXTENDS WriteLocks

state == vars

FollowInit == Init

SetOf(numbers) == {numbers[i] : i \in 1..Len(numbers)}

Follow(e) ==
    \/ /\ e.action = "Begin"
       /\ Begin(e.thread, SetOf(e.reads), SetOf(e.writes), SetOf(e.locks), e.isReader)
    \/ e.action = "Request" /\ Request(e.thread) /\ e.lock = Lowest(Missing(e.thread))
    \/ e.action = "Take" /\ e.lock \in LockSet /\ Take(e.thread, e.lock) /\ e.isReader = shared[e.thread]
    \/ e.action = "Enter" /\ Enter(e.thread)
    \/ /\ e.action = "Access"
       /\ active[e.thread]
       /\ SetOf(e.tiles) \subseteq IF e.isWrite THEN writes[e.thread] ELSE Accessed(e.thread)
       /\ UNCHANGED vars
    \/ e.action = "Leave" /\ Leave(e.thread)
    \/ e.action = "Release" /\ e.lock \in LockSet /\ Release(e.thread, e.lock)
    \/ e.action = "Kill" /\ Kill(e.thread)

(* Next with the sections that began in place of all that might; an access changes nothing. *)
ModuleNext == \/ \E t \in Threads : \/ GoOn(t) \/ Kill(t)
                                    \/ Begin(t, reads'[t], writes'[t], needs'[t], shared'[t])
              \/ UNCHANGED vars

Ends(e) == TRUE

(* The actions of the module that could be taken now; any idle thread may begin a section. *)
Allowed == {a \in {"Begin", "Request", "Take", "Enter", "Leave", "Release"} : \E t \in Threads :
              CASE a = "Begin" -> Idle(t)
                [] a = "Request" -> ENABLED Request(t)
                [] a = "Take" -> \E lock \in LockSet : ENABLED Take(t, lock)
                [] a = "Enter" -> ENABLED Enter(t)
                [] a = "Leave" -> ENABLED Leave(t)
                [] a = "Release" -> \E lock \in LockSet : ENABLED Release(t, lock)}

=============================================================================
