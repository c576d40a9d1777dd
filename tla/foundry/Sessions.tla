------------------------------ MODULE Sessions ------------------------------
(***************************************************************************)
(* Foundry sessions on one device. A session makes all its buffers before  *)
(* its first step, one after the other, or none: where one cannot be had,  *)
(* those that were made are given back. The device takes commands from a   *)
(* queue, in order and on its own, and counts those submitted and those    *)
(* completed; a session keeps the number of its last command, and that one *)
(* has ended when as many are completed. Other users of the device submit  *)
(* commands in between.                                                    *)
(*   Weights come through one buffer that the processor can write, and are *)
(* copied to private memory by a command: the next weight is staged when   *)
(* that command has ended. A session may use the weights that another one  *)
(* has brought. Then it runs. The forward pass of a step is one command;   *)
(* where its logits are wanted, a further one writes them to a shared      *)
(* buffer, from which the processor samples when that has ended. A session *)
(* that is closed, or fails, gives back its buffers when its last command  *)
(* has ended, and not before.                                              *)
(*                                                                         *)
(* spec: FD9.4                                                             *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS Sessions,  \* how many sessions there are; they are 1..Sessions
          Buffers,   \* how many buffers a session has at most
          Weights,   \* how many weights a session has at most
          Steps,     \* how many steps are run at most
          Refusals,  \* how often a buffer or a weight cannot be had
          Others     \* how many commands others submit

VARIABLES buffers,   \* of each session: its buffers are 1..buffers[s],
          weights,   \*   its weights 1..weights[s], as they are staged,
          source,    \*   the session whose weights it uses, its own or other,
          phase,     \*   where it stands,
          made,      \*   its buffers that are made, 1..made[s],
          staging,   \*   the weight in its staging buffer, 0 for none,
          copies,    \*   of how many weights the copy was submitted,
          private,   \*   what lies where each weight should be, 0 before,
          step,      \*   the last step whose pass was submitted,
          hidden,    \*   the step whose result is in private memory,
          asked,     \*   the last step whose logits were requested,
          output,    \*   the step whose logits are in the shared buffer,
          sampled,   \*   the step that the last sample was taken from,
          last,      \*   the number of its last command
          queue,     \* the device: commands that have not ended,
          completed, \*   and how many have
          others,    \* how many commands others submitted
          refusals   \* how often something could not be had

given == <<buffers, weights, source>>
load == <<staging, copies, private>>
run == <<step, hidden, asked, output, sampled>>
device == <<queue, completed, others>>
vars == <<given, phase, made, load, run, last, device, refusals>>

SessionSet == 1..Sessions
Zero == [s \in SessionSet |-> 0]
Submitted == completed + Len(queue)
Command == [kind : {"weight", "pass", "logits", "other"}, session : 0..Sessions, of : 0..Weights + Steps]

TypeOK == /\ buffers \in [SessionSet -> 1..Buffers]
          /\ weights \in [SessionSet -> 0..Weights]
          /\ source \in [SessionSet -> SessionSet]
          /\ phase \in [SessionSet -> {"none", "provisioning", "failing", "running", "closed"}]
          /\ \A s \in SessionSet :
                /\ made[s] \in 0..buffers[s]
                /\ staging[s] \in 0..weights[s]
                /\ copies[s] \in {staging[s], staging[s] - 1}
                /\ private[s] \in [1..weights[s] -> 0..weights[s]]
                /\ step[s] \in 0..Steps
                /\ last[s] \in 0..Submitted
          /\ \A v \in {hidden, asked, output, sampled} : v \in [SessionSet -> 0..Steps]
          /\ \A k \in DOMAIN queue : queue[k] \in Command
          /\ completed \in Nat
          /\ others \in 0..Others
          /\ refusals \in 0..Refusals

(* What is so at first, whatever buffers and weights there are, and however many commands came before. *)
Begin == /\ phase = [s \in SessionSet |-> "none"]
         /\ made = Zero /\ staging = Zero /\ copies = Zero
         /\ step = Zero /\ hidden = Zero /\ asked = Zero /\ output = Zero /\ sampled = Zero /\ last = Zero
         /\ private = [s \in SessionSet |-> [w \in 1..weights[s] |-> 0]]
         /\ queue = <<>>
         /\ others = 0
         /\ refusals = 0

(* The first session is as large as any; the others are small, and use its weights. *)
Init == /\ buffers = [s \in SessionSet |-> IF s = 1 THEN Buffers ELSE 1]
        /\ weights = [s \in SessionSet |-> IF s = 1 THEN Weights ELSE 0]
        /\ source = [s \in SessionSet |-> 1]
        /\ completed = 0
        /\ Begin

-----------------------------------------------------------------------------

Move(s, to) == phase' = [phase EXCEPT ![s] = to]

(* A session submits a command, and keeps its number. *)
Submit(kind, s, of) == /\ queue' = Append(queue, [kind |-> kind, session |-> s, of |-> of])
                       /\ last' = [last EXCEPT ![s] = Submitted + 1]
                       /\ UNCHANGED <<completed, others>>

(* All commands of a session have ended: as many are completed as its last one's number says. *)
HasEnded(s) == completed >= last[s]

(* All weights that a session brings lie where they should. *)
InPlace(s) == \A w \in 1..weights[s] : private[s][w] = w

(* A session is asked for. *)
Open(s) == /\ phase[s] = "none"
           /\ Move(s, "provisioning")
           /\ UNCHANGED <<given, made, load, run, last, device, refusals>>

Make(s) == /\ phase[s] = "provisioning"
           /\ made[s] < buffers[s]
           /\ made' = [made EXCEPT ![s] = @ + 1]
           /\ UNCHANGED <<given, phase, load, run, last, device, refusals>>

(* The next buffer cannot be had: *)
CannotMake(s) == /\ phase[s] = "provisioning"
                 /\ made[s] < buffers[s]
                 /\ refusals < Refusals
                 /\ refusals' = refusals + 1
                 /\ Move(s, "failing")
                 /\ UNCHANGED <<given, made, load, run, last, device>>

(* all are given back, from the last to the first, when the device has no more commands of the session. *)
GiveBack(s) == /\ phase[s] = "failing"
               /\ made[s] > 0
               /\ HasEnded(s)
               /\ made' = [made EXCEPT ![s] = @ - 1]
               /\ UNCHANGED <<given, phase, load, run, last, device, refusals>>

Failed(s) == /\ phase[s] = "failing"
             /\ made[s] = 0
             /\ Move(s, "none")
             /\ IF InPlace(s)
                THEN UNCHANGED load \* others may use them
                ELSE /\ staging' = [staging EXCEPT ![s] = 0]
                     /\ copies' = [copies EXCEPT ![s] = 0]
                     /\ private' = [private EXCEPT ![s] = [w \in 1..weights[s] |-> 0]]
             /\ UNCHANGED <<given, made, run, last, device, refusals>>

-----------------------------------------------------------------------------

(* The processor puts the next weight where the device can read it, *)
Stage(s) == /\ phase[s] = "provisioning"
            /\ made[s] = buffers[s]
            /\ staging[s] < weights[s]
            /\ copies[s] = staging[s]
            /\ HasEnded(s)
            /\ staging' = [staging EXCEPT ![s] = @ + 1]
            /\ UNCHANGED <<given, phase, made, copies, private, run, last, device, refusals>>

(* or the session fails there, perhaps while the device copies. *)
CannotLoad(s) == /\ phase[s] = "provisioning"
                 /\ made[s] = buffers[s]
                 /\ refusals < Refusals
                 /\ refusals' = refusals + 1
                 /\ Move(s, "failing")
                 /\ UNCHANGED <<given, made, load, run, last, device>>

(* The device is requested to copy it. *)
SubmitCopy(s) == /\ phase[s] = "provisioning"
                 /\ made[s] = buffers[s]
                 /\ HasEnded(s)
                 /\ copies[s] < staging[s]
                 /\ copies' = [copies EXCEPT ![s] = staging[s]]
                 /\ Submit("weight", s, staging[s])
                 /\ UNCHANGED <<given, phase, made, staging, private, run, refusals>>

(* With all weights in place the session runs. *)
Start(s) == /\ phase[s] = "provisioning"
            /\ made[s] = buffers[s]
            /\ copies[s] = weights[s]
            /\ HasEnded(s)
            /\ source[s] # s => InPlace(source[s])
            /\ Move(s, "running")
            /\ UNCHANGED <<given, made, load, run, last, device, refusals>>

(* A step is a pass over some tokens; a long prompt takes several. Logits that were requested are waited for first. *)
SubmitPass(s) == /\ phase[s] = "running"
                 /\ asked[s] = step[s] => HasEnded(s)
                 /\ step[s] < Steps
                 /\ step' = [step EXCEPT ![s] = @ + 1]
                 /\ Submit("pass", s, step[s] + 1)
                 /\ UNCHANGED <<given, phase, made, load, hidden, asked, output, sampled, refusals>>

(* Its logits are requested where the processor can read, *)
SubmitLogits(s) == /\ phase[s] = "running"
                   /\ asked[s] < step[s]
                   /\ asked' = [asked EXCEPT ![s] = step[s]]
                   /\ Submit("logits", s, step[s])
                   /\ UNCHANGED <<given, phase, made, load, step, hidden, output, sampled, refusals>>

(* who samples from there, once for each of its tokens, when they are there. *)
Sample(s) == /\ phase[s] = "running"
             /\ step[s] > 0
             /\ asked[s] = step[s]
             /\ HasEnded(s)
             /\ sampled' = [sampled EXCEPT ![s] = output[s]]
             /\ UNCHANGED <<given, phase, made, load, step, hidden, asked, output, last, device, refusals>>

(* A session that is closed waits for the device, and gives everything back. *)
EndSession(s) == /\ phase[s] = "running"
                 /\ HasEnded(s)
                 /\ Move(s, "closed")
                 /\ made' = [made EXCEPT ![s] = 0]
                 /\ UNCHANGED <<given, load, run, last, device, refusals>>

-----------------------------------------------------------------------------

(* The device executes the command that came first. *)
First == queue[1]
Executes(kind) == /\ queue # <<>>
                  /\ First.kind = kind
                  /\ queue' = Tail(queue)
                  /\ completed' = completed + 1

(* It copies what is in the staging buffer then, *)
Copied == /\ Executes("weight")
          /\ private' = [private EXCEPT ![First.session][First.of] = staging[First.session]]
          /\ UNCHANGED <<given, phase, made, staging, copies, run, last, others, refusals>>

(* computes a step, *)
Computed == /\ Executes("pass")
            /\ hidden' = [hidden EXCEPT ![First.session] = First.of]
            /\ UNCHANGED <<given, phase, made, load, step, asked, output, sampled, last, others, refusals>>

(* and writes the logits of what it computed last. *)
Written == /\ Executes("logits")
           /\ output' = [output EXCEPT ![First.session] = hidden[First.session]]
           /\ UNCHANGED <<given, phase, made, load, step, hidden, asked, sampled, last, others, refusals>>

(* Others use the device as well: caches that grow, pools that are filled. *)
SubmitOther == /\ others < Others
               /\ others' = others + 1
               /\ queue' = Append(queue, [kind |-> "other", session |-> 0, of |-> 0])
               /\ UNCHANGED <<given, phase, made, load, run, last, completed, refusals>>

OtherEnded == /\ Executes("other")
              /\ UNCHANGED <<given, phase, made, load, run, last, others, refusals>>

Executed == Copied \/ Computed \/ Written \/ OtherEnded

(* What a session does next, if it can. *)
Proceed(s) == \/ Open(s) \/ Make(s) \/ GiveBack(s) \/ Failed(s) \/ Stage(s) \/ SubmitCopy(s) \/ Start(s)
              \/ SubmitPass(s) \/ SubmitLogits(s) \/ Sample(s) \/ EndSession(s)

Next == \/ Executed \/ SubmitOther
        \/ \E s \in SessionSet : Proceed(s) \/ CannotMake(s) \/ CannotLoad(s)

Fairness == WF_vars(Executed) /\ \A s \in SessionSet : WF_vars(Proceed(s))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A session runs with all its buffers; one that failed or is closed has none. *)
AllOrNone == \A s \in SessionSet : /\ phase[s] = "running" => made[s] = buffers[s]
                                   /\ phase[s] \in {"none", "closed"} => made[s] = 0

(* A command finds all buffers of its session, whatever becomes of the session meanwhile. *)
CommandsFindTheirBuffers ==
    \A k \in DOMAIN queue : LET s == queue[k].session IN s # 0 => made[s] = buffers[s] /\ completed + k <= last[s]

(* The staging buffer holds what the device is to copy. *)
StagingIsStill == \A k \in DOMAIN queue : queue[k].kind = "weight" => staging[queue[k].session] = queue[k].of

(* Each weight lies where it should, and all of a session that runs. *)
WeightsArrive == \A s \in SessionSet : /\ \A w \in 1..weights[s] : private[s][w] \in {0, w}
                                       /\ phase[s] = "running" => InPlace(s) /\ InPlace(source[s])

(* A sample is taken from the logits of its own step, *)
SamplesItsStep == \A s \in SessionSet : /\ sampled[s] <= output[s] /\ output[s] <= hidden[s] /\ hidden[s] <= step[s]
                                        /\ asked[s] <= step[s]

(* which are there when the session's commands have ended. *)
OutputIsThere == \A s \in SessionSet : HasEnded(s) => output[s] = asked[s]

-----------------------------------------------------------------------------
(* Properties. *)

(* Nothing is made or given back while a session runs. *)
NothingIsMadeInSteps ==
    [][\A s \in SessionSet : phase[s] = "running" /\ phase'[s] = "running" => made'[s] = made[s]]_vars

(* A session that is opened comes to its end, unless its buffers and weights cannot be had. *)
EverySessionEnds == \A s \in SessionSet : <>(phase[s] = "closed")

THEOREM Spec => [](TypeOK /\ AllOrNone /\ CommandsFindTheirBuffers /\ StagingIsStill /\ WeightsArrive
                   /\ SamplesItsStep /\ OutputIsThere)
THEOREM Spec => NothingIsMadeInSteps /\ EverySessionEnds

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverOpenedAgain == ~(refusals > 0 /\ \E s \in SessionSet : phase[s] = "running")
NeverFailsInFlight == \A s \in SessionSet : ~(phase[s] = "failing" /\ ~HasEnded(s))
NeverInTurns == ~\E j, k \in DOMAIN queue : j < k /\ queue[j].kind = "pass" /\ queue[k].kind = "pass"
                                            /\ queue[j].session # queue[k].session
NeverSeveralPasses == ~\E j, k \in DOMAIN queue : j < k /\ queue[j].kind = "pass" /\ queue[k].kind = "pass"

(* Others need not use the device. *)
OthersComeToo == <>(others = Others)
=============================================================================
