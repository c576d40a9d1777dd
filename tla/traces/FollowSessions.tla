--------------------------- MODULE FollowSessions ---------------------------
(***************************************************************************)
(* Follows the sessions of one device through Sessions. Sessions, buffers  *)
(* and weights are numbered as they come in the log. The device's counters *)
(* are compared after each command that is submitted or has ended; where   *)
(* they have gone on by more than that, others have submitted commands.    *)
(*                                                                         *)
(* spec: FD9.6                                                             *)
(***************************************************************************)
EXTENDS Sessions

state == vars

FollowInit == Begin

(* How many weights a session that starts has: its own, or those that it uses. *)
Has(s) == weights[source[s]]
Sent(e) == e.submitted = completed' + Len(queue')
Done(e, s) == e.completed = completed' /\ First.session = s

Follow(e) ==
    \/ e.action = "SubmitOther" /\ SubmitOther /\ Sent(e)
    \/ e.action = "OtherEnded" /\ OtherEnded /\ e.completed = completed'
    \/ /\ e.action \notin {"SubmitOther", "OtherEnded"}
       /\ e.session \in SessionSet
       /\ LET s == e.session
          IN  \/ e.action = "Open" /\ Open(s) /\ e.buffers = buffers[s]
              \/ e.action = "Make" /\ Make(s) /\ e.buffer = made'[s] /\ e.made = made'[s]
              \/ e.action = "CannotMake" /\ CannotMake(s) /\ e.buffer = made[s] + 1
              \/ e.action = "GiveBack" /\ GiveBack(s) /\ e.buffer = made[s] /\ e.made = made'[s]
              \/ e.action = "Failed" /\ Failed(s)
              \/ e.action = "Stage" /\ Stage(s) /\ e.weight = staging'[s] /\ e.number = staging'[s]
              \/ e.action = "CannotLoad" /\ CannotLoad(s)
              \/ /\ e.action = "SubmitCopy"
                 /\ SubmitCopy(s)
                 /\ e.weight = copies'[s] /\ e.number = copies'[s] /\ Sent(e)
              \/ e.action = "Copied" /\ Copied /\ e.weight = First.of /\ e.number = First.of /\ Done(e, s)
              \/ e.action = "Start" /\ Start(s) /\ e.weights = Has(s)
              \/ e.action = "SubmitPass" /\ SubmitPass(s) /\ e.step = step'[s] /\ Sent(e)
              \/ e.action = "Computed" /\ Computed /\ e.step = hidden'[s] /\ Done(e, s)
              \/ e.action = "SubmitLogits" /\ SubmitLogits(s) /\ e.step = asked'[s] /\ Sent(e)
              \/ e.action = "Written" /\ Written /\ e.step = output'[s] /\ Done(e, s)
              \/ e.action = "Sample" /\ Sample(s) /\ e.step = sampled'[s]
              \/ e.action = "EndSession" /\ EndSession(s) /\ e.made = made'[s]

ModuleNext == Next

Ends(e) == TRUE
(* The actions of the module that could be taken now. *)
Allowed ==
    {a \in {"SubmitOther", "OtherEnded", "Open", "Make", "CannotMake", "GiveBack", "Failed", "Stage", "CannotLoad",
            "SubmitCopy", "Copied", "Start", "SubmitPass", "Computed", "SubmitLogits", "Written", "Sample",
            "EndSession"} :
        CASE a = "SubmitOther" -> ENABLED SubmitOther
          [] a = "OtherEnded" -> ENABLED OtherEnded
          [] a = "Copied" -> ENABLED Copied
          [] a = "Computed" -> ENABLED Computed
          [] a = "Written" -> ENABLED Written
          [] OTHER -> \E s \in SessionSet :
                CASE a = "Open" -> ENABLED Open(s)
                  [] a = "Make" -> ENABLED Make(s)
                  [] a = "CannotMake" -> ENABLED CannotMake(s)
                  [] a = "GiveBack" -> ENABLED GiveBack(s)
                  [] a = "Failed" -> ENABLED Failed(s)
                  [] a = "Stage" -> ENABLED Stage(s)
                  [] a = "CannotLoad" -> ENABLED CannotLoad(s)
                  [] a = "SubmitCopy" -> ENABLED SubmitCopy(s)
                  [] a = "Start" -> ENABLED Start(s)
                  [] a = "SubmitPass" -> ENABLED SubmitPass(s)
                  [] a = "SubmitLogits" -> ENABLED SubmitLogits(s)
                  [] a = "Sample" -> phase[s] = "running" /\ step[s] > 0 /\ asked[s] = step[s] /\ HasEnded(s)
                  [] a = "EndSession" -> ENABLED EndSession(s)}

=============================================================================
