------------------------------ MODULE Sessions ------------------------------
(***************************************************************************)
(* A Foundry session. All its buffers are made before its first step, or   *)
(* none: where one cannot be had, the others are given back. Weights come  *)
(* through one buffer that the processor can write, and are copied from    *)
(* there to private memory by the device, which works on its own: the next *)
(* weight may be staged only when the copy has ended. Then the session     *)
(* runs step by step, with the same buffers, and makes no further one. The *)
(* device computes logits in private memory, copies them to a shared       *)
(* buffer, and the processor samples from there before the next step.      *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS Buffers,   \* the buffers of a session, by name
          Weights,   \* how many weights there are; they are 1..Weights
          Steps,     \* how many steps are run
          Refusals   \* how often a buffer cannot be had

VARIABLES phase,     \* where the session stands
          made,      \* buffers that are made
          staging,   \* the weight in the staging buffer, 0 for none
          copying,   \* the weight that the device is copying, 0 for none
          private,   \* what lies where each weight should be, 0 before
          step,      \* the step that runs, from 1
          logits,    \* the step whose logits are in private memory
          output,    \* the step whose logits are in the shared buffer
          sampled,   \* the step that the last sample was taken from
          refusals   \* how often a buffer could not be had

load == <<staging, copying, private>>
run == <<step, logits, output, sampled>>
vars == <<phase, made, load, run, refusals>>

WeightSet == 1..Weights

TypeOK == /\ phase \in {"none", "provisioning", "failing", "running", "closed"}
          /\ made \subseteq Buffers
          /\ staging \in 0..Weights
          /\ copying \in 0..Weights
          /\ private \in [WeightSet -> 0..Weights]
          /\ step \in 0..Steps
          /\ logits \in 0..step
          /\ output \in 0..Steps
          /\ sampled \in 0..Steps
          /\ refusals \in 0..Refusals

Init == /\ phase = "none"
        /\ made = {}
        /\ staging = 0
        /\ copying = 0
        /\ private = [w \in WeightSet |-> 0]
        /\ step = 0
        /\ logits = 0
        /\ output = 0
        /\ sampled = 0
        /\ refusals = 0

-----------------------------------------------------------------------------

(* A session is asked for. *)
Open == /\ phase = "none"
        /\ phase' = "provisioning"
        /\ UNCHANGED <<made, load, run, refusals>>

Make(b) == /\ phase = "provisioning"
           /\ b \notin made
           /\ made' = made \cup {b}
           /\ UNCHANGED <<phase, load, run, refusals>>

(* A buffer cannot be had: *)
CannotMake == /\ phase = "provisioning"
              /\ made # Buffers
              /\ refusals < Refusals
              /\ refusals' = refusals + 1
              /\ phase' = "failing"
              /\ UNCHANGED <<made, load, run>>

(* all are given back. *)
GiveBack(b) == /\ phase = "failing"
               /\ b \in made
               /\ made' = made \ {b}
               /\ UNCHANGED <<phase, load, run, refusals>>

Failed == /\ phase = "failing"
          /\ made = {}
          /\ phase' = "none"
          /\ UNCHANGED <<made, load, run, refusals>>

-----------------------------------------------------------------------------

(* The processor puts a weight where the device can read it. *)
Stage(w) == /\ phase = "provisioning"
            /\ made = Buffers
            /\ copying = 0
            /\ private[w] = 0
            /\ staging' = w
            /\ UNCHANGED <<phase, made, copying, private, run, refusals>>

(* The device is requested to copy it, *)
BeginCopy == /\ staging # 0
             /\ copying = 0
             /\ private[staging] = 0
             /\ copying' = staging
             /\ UNCHANGED <<phase, made, staging, private, run, refusals>>

(* and does so when it comes to it. *)
EndCopy == /\ copying # 0
           /\ private' = [private EXCEPT ![copying] = staging]
           /\ copying' = 0
           /\ UNCHANGED <<phase, made, staging, run, refusals>>

(* With all weights in place the session runs. *)
Start == /\ phase = "provisioning"
         /\ made = Buffers
         /\ \A w \in WeightSet : private[w] # 0
         /\ phase' = "running"
         /\ step' = 1
         /\ UNCHANGED <<made, load, logits, output, sampled, refusals>>

(* The device computes the logits of this step, *)
Compute == /\ phase = "running"
           /\ logits < step
           /\ logits' = step
           /\ UNCHANGED <<phase, made, load, step, output, sampled, refusals>>

(* and copies them to where the processor can read. *)
CopyOut == /\ phase = "running"
           /\ logits = step
           /\ output < step
           /\ output' = logits
           /\ UNCHANGED <<phase, made, load, step, logits, sampled, refusals>>

(* The processor samples, *)
Sample == /\ phase = "running"
          /\ output = step
          /\ sampled < step
          /\ sampled' = output
          /\ UNCHANGED <<phase, made, load, step, logits, output, refusals>>

(* and the next step begins. *)
NextStep == /\ phase = "running"
            /\ sampled = step
            /\ step < Steps
            /\ step' = step + 1
            /\ UNCHANGED <<phase, made, load, logits, output, sampled, refusals>>

(* A session that is closed gives everything back. *)
Close == /\ phase = "running"
         /\ sampled = Steps
         /\ phase' = "closed"
         /\ made' = {}
         /\ UNCHANGED <<load, run, refusals>>

Next == \/ Open \/ CannotMake \/ Failed \/ BeginCopy \/ EndCopy \/ Start
        \/ Compute \/ CopyOut \/ Sample \/ NextStep \/ Close
        \/ \E b \in Buffers : Make(b) \/ GiveBack(b)
        \/ \E w \in WeightSet : Stage(w)

Fairness == /\ WF_vars(Open \/ Failed \/ EndCopy \/ Start \/ Compute \/ CopyOut \/ Sample \/ NextStep \/ Close)
            /\ WF_vars(BeginCopy)
            /\ \A b \in Buffers : WF_vars(Make(b)) /\ WF_vars(GiveBack(b))
            /\ \A w \in WeightSet : SF_vars(Stage(w))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Invariants, from weak to strong. *)

(* A session runs with all its buffers; one that failed or is closed has none. *)
AllOrNone == /\ phase = "running" => made = Buffers
             /\ phase \in {"none", "closed"} => made = {}

(* The staging buffer holds what the device is copying. *)
StagingIsStill == copying # 0 => staging = copying

(* Each weight lies where it should. *)
WeightsArrive == \A w \in WeightSet : private[w] \in {0, w}

(* A sample is taken from the logits of its own step. *)
SamplesItsStep == sampled <= output /\ output <= logits /\ logits <= step /\ sampled >= step - 1

-----------------------------------------------------------------------------
(* Properties. *)

(* Nothing is made or given back while a session runs. *)
NothingIsMadeInSteps == [][phase = "running" /\ phase' = "running" => made' = made]_vars

(* A session that is opened comes to its end, unless its buffers cannot be had. *)
Ends == <>(phase = "closed")

THEOREM Spec => [](TypeOK /\ AllOrNone /\ StagingIsStill /\ WeightsArrive /\ SamplesItsStep)
THEOREM Spec => NothingIsMadeInSteps /\ Ends

-----------------------------------------------------------------------------
(* Non-properties: each must be violated, or the model would say too little. *)

NeverOpenedAgain == ~(refusals > 0 /\ phase = "running")
NeverStagedTwice == \A v, w \in WeightSet : private[v] # 0 /\ private[w] # 0 => v = w
=============================================================================
