--------------------------- MODULE FollowPlanSet ----------------------------
(***************************************************************************)
(* Follows the calls of a run of a plan set through PlanSet. The log       *)
(* states the programs, their accesses and their places: the first line is *)
(* a step if the rules for sets accept them. Then it has each access as    *)
(* the run made it. For a read, it states in which call the bytes that     *)
(* were found had been written, 0 if the caller wrote them. The bytes here *)
(* are the ranges between the ends of any two tensors. spec: U5.23         *)
(***************************************************************************)
EXTENDS PlanSet

VARIABLE opened      \* has the first line been taken?

state == <<vars, opened>>

FollowInit == Begins /\ opened = FALSE

Open == ~opened /\ (Accepted = TRUE) /\ opened' = TRUE /\ UNCHANGED vars

FollowCalls(e) == \/ e.action = "Load" /\ Load(e.home)
                  \/ /\ e.action = "Call"
                     /\ e.program \in Programs
                     /\ Call(e.program)
                     /\ calls' = e.call
                  \/ /\ e.action = "Read"
                     /\ e.tensor \in Tensors
                     /\ (\A b \in Extent(e.tensor) : content[b] # <<>> /\ content[b][2] = e.call) = TRUE
                     /\ Read(e.tensor)
                  \/ e.action = "Store" /\ e.tensor \in Tensors /\ Store(e.tensor)
                  \/ e.action = "Return" /\ running = e.program /\ Return

Follow(e) == \/ e.action = "Open" /\ Open
             \/ opened /\ FollowCalls(e) /\ UNCHANGED opened

ModuleNext == Next \/ UNCHANGED vars

Ends(e) == running = 0
(* The actions of the module that could be taken now. *)
Allowed == {a \in {"Load", "Call", "Read", "Store", "Return"} :
              opened /\ CASE a = "Load" -> \E h \in provided : ENABLED Load(h)
                          [] a = "Call" -> \E p \in Programs : ENABLED Call(p)
                          [] a = "Read" -> \E t \in Tensors : ENABLED Read(t)
                          [] a = "Store" -> \E t \in Tensors : ENABLED Store(t)
                          [] a = "Return" -> ENABLED Return}

=============================================================================
