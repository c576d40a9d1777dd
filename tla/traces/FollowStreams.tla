---------------------------- MODULE FollowStreams ---------------------------
(***************************************************************************)
(* Follows a run of steps that overlap through Streams. The log states the *)
(* streams, waits and places of its plan, which need not be accepted: what *)
(* went wrong in a run is a line of it. A step may begin when what it      *)
(* waits for has ended, if no two steps that run then access one slot,     *)
(* one of them writing. A read must have found its own tensor, by the      *)
(* module and by the log. The reader of the log splits each step into one  *)
(* that reads and one for each slot that is written, and puts in what the  *)
(* caller does. spec: U5.24                                                *)
(***************************************************************************)
EXTENDS Streams

state == vars

FollowInit == Begins

Follow(e) == \/ e.action = "Begin" /\ e.step \in Steps /\ Begin(e.step) /\ NoRace'
             \/ /\ e.action = "Read"
                /\ e.step \in Steps
                /\ e.tensor \in Steps
                /\ Read(e.step, e.tensor)
                /\ e.is_own
                /\ ReadsSeeTheirWriter'
             \/ e.action = "Write" /\ e.step \in Steps /\ Write(e.step)
             \/ e.action = "End" /\ e.step \in Steps /\ End(e.step)

ModuleNext == Next

Ends(e) == ended = Steps
(* The actions of the module that could be taken now. *)
Allowed == {a \in {"Begin", "Read", "Write", "End"} :
              CASE a = "Begin" -> \E k \in Steps : ENABLED Begin(k)
                [] a = "Read" -> \E k, t \in Steps : ENABLED Read(k, t)
                [] a = "Write" -> \E k \in Steps : ENABLED Write(k)
                [] a = "End" -> \E k \in Steps : ENABLED End(k)}

=============================================================================
