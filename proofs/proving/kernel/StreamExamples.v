(** Examples that show that the definitions about streams are not vacuous: five plans, a run in which a race shows, and a
    program that runs to its end. spec: V6.9 *)
From Coq Require Import ZArith List Bool Lia Relations.
From Tmmu Require Import Lists Columns Check Safe Run Streams Races ListsProof RunProof RacesProof Theorems Examples.
Import ListNotations.
Open Scope Z_scope.

(** Step 0 makes [a] of [x], 1 makes [b] of [a], 2 makes [c] of [x], and 3 makes [y] of [b] and [c]. Each has one byte;
    [c] shares that of [a], or has its own. *)
Definition four_steps (shared : bool) : plan :=
  let c := if shared then 1 else 4 in
  let s := [Storage 0 1 1 0 2 0 0 0; Storage 0 1 1 0 1 1 1 1; Storage 0 1 1 1 3 2 2 (if shared then 3 else 2);
            Storage 0 1 1 2 3 c c (if shared then 2 else 4); Storage 0 1 1 3 3 3 3 (if shared then 4 else 3)] in
  let t := [Tensor 0 0 1 1 0 2 (-1) (-1) 0 (-1) false false false false (-1) 2 0 0;
            Tensor 1 0 1 1 0 1 0 (-1) 0 (-1) false false false false 0 1 1 1;
            Tensor 2 0 1 1 1 3 1 (-1) 0 (-1) false false false false 1 3 2 2;
            Tensor 3 0 1 1 2 3 2 (-1) 0 (-1) false false false false 2 3 3 3;
            Tensor 4 0 1 1 3 3 3 (-1) 0 (-1) true false false false 3 3 4 4] in
  let slots_ := if shared then 4 else 5 in
  {| allocation := {| steps := 4; storages := 5; slots := slots_; arenas := 1; by_slots := true;
       storage_at := rows s no_storage; slot_at := fun k => Slot 0 1 1 k k;
       arena_at := fun _ => Arena 5 1 false 5 (-1) (-1); reuse := fun _ => true;
       tenants := if shared then Groups (rows [0; 1; 3; 4] 5) (rows [0; 1; 3; 2] 4)
                  else Groups (fun k => k) (rows [0; 1; 2; 4] 3);
       ordered := Groups (fun a => a * slots_) (fun i => i);
       edge_at := fun _ => Edge 0 0 0 0; ups_at := fun _ => 0; downs := Groups (fun _ => 0) (fun i => i); pairs := [] |};
     tensors := 5; tensor_at := rows t no_tensor;
     reads := rows [[0]; [1]; [0]; [2; 3]] []; writes := rows [[1]; [2]; [3]; [4]] []; mutates := fun _ => [];
     loops := []; exclusives := 0; exclusive_at := fun _ => Exclusive 0 0 []; takes := [];
     members := Groups (fun k => k) (fun i => i); within := fun _ => (0, 4); also := fun _ => []; joined := fun _ => [] |}.

(** Step 2 runs on another stream. It waits for the steps of [early], and step 3 for those of [late]. *)
Definition on_two (early late : list Z) : streams := Streams (rows [0; 0; 1; 0] 0) (rows [[]; []; early; late] []).
(** The clocks of steps 2 and 3, and one version of each tensor. The edges are from the floor, but for those of [c]. *)
Definition clocks_and_versions (shared : bool) (clock2 clock3 : list Z) : order_evidence :=
  {| stream_count := 2; previous := rows [-1; 0; -1; 1] 0;
     clock := fun m => rows (rows [[0; 0]; [1; 0]; clock2; clock3] [] m) 0;
     versions := 5;
     version_at := rows [Version 0 (-1) [0; 2]; Version 1 0 [1]; Version 2 1 [3]; Version 3 2 [2; 3]; Version 4 3 [3]]
                     (Version 0 0 []);
     read_from := rows [[0]; [1]; [0]; [2; 3]] []; written_to := rows [[1]; [2]; [3]; [4]] [];
     hand_at := rows (if shared then [Edge 1 3 1 1; Edge 5 0 0 0; Edge 5 1 1 1; Edge 5 2 2 2; Edge 5 4 3 3]
                      else [Edge 5 0 0 0; Edge 5 1 1 1; Edge 5 2 2 2; Edge 5 4 3 3; Edge 5 3 4 4]) (Edge 0 0 0 0);
     given_at := if shared then rows [0; 0; 1; 1; 1; 1] 5 else rows [0; 0; 0; 0; 0; 0] 5;
     taken := Groups (fun k => k) (rows (if shared then [1; 2; 3; 0] else [0; 1; 2; 4]) (if shared then 4 else 3)) |}.
Definition accepted (shared : bool) (early late clock2 clock3 : list Z) : bool :=
  check_streams (four_steps shared) (on_two early late) (clocks_and_versions shared clock2 clock3).

(** Ordered after the last read of [a], step 2 may take its byte. After the first read's step it may not, nor if it is not
    ordered. With a byte of its own it needs no order, but its reader does. *)
Example ordered_accepted : accepted true [1] [2] [2; 0] [2; 3] = true.
Proof. vm_compute. reflexivity. Qed.
Example apart_accepted : accepted false [] [2] [0; 0] [2; 3] = true.
Proof. vm_compute. reflexivity. Qed.
Example race_refused : accepted true [] [2] [0; 0] [2; 3] = false.
Proof. vm_compute. reflexivity. Qed.
Example early_refused : accepted true [0] [2] [1; 0] [2; 3] = false.
Proof. vm_compute. reflexivity. Qed.
Example unjoined_refused : accepted false [] [] [0; 0] [2; 0] = false.
Proof. vm_compute. reflexivity. Qed.
(** A clock that shows more than the step waits for is refused, and so is an event of a later row. *)
Example false_clock_refused : accepted true [] [2] [2; 0] [2; 3] = false.
Proof. vm_compute. reflexivity. Qed.
Example late_event_refused : accepted true [1; 3] [2] [2; 0] [2; 3] = false.
Proof. vm_compute. reflexivity. Qed.

(** * A race shows in a run *)

Definition race := four_steps true.
Definition unordered : Z -> Z -> Prop := Before (on_two [] [2]).

Lemma last_wait q n m : Before q n m -> exists k, Waits q k m /\ (k = n \/ Before q n k).
Proof.
  intros H. apply clos_trans_tn1 in H. inversion H as [W|k l W B]; subst; [exists n; auto|].
  exists k. split; [exact W|]. right. apply clos_tn1_trans, B.
Qed.
Lemma nothing_before_two n : ~ unordered n 2.
Proof.
  intros H. apply last_wait in H as (k & [[L E]|[]] & _). assert (k = 0 \/ k = 1) as [->| ->] by lia; discriminate.
Qed.
Lemma nothing_before_zero n : ~ unordered n 0.
Proof. intros H. apply last_wait in H as (k & [[L _]|[]] & _). lia. Qed.
Lemma only_zero_before_one n : unordered n 1 -> n = 0.
Proof.
  intros H. apply last_wait in H as (k & [[L _]|[]] & H). assert (k = 0) as -> by lia.
  destruct H as [->|H]; [reflexivity | destruct (nothing_before_zero n H)].
Qed.

Lemma one_arena k : is_storage race k -> arena_of race k = 0.
Proof.
  unfold is_storage. cbn. intros K. assert (k = 0 \/ k = 1 \/ k = 2 \/ k = 3 \/ k = 4) as H by lia.
  destruct H as [->|[->|[->|[->| ->]]]]; reflexivity.
Qed.

Example race_is_a_race : ~ RaceFree race unordered.
Proof.
  intros F. destruct (F 2 1 3 1 0 0) as [H|H]; try decided; [|destruct (nothing_before_two 1 H)].
  apply only_zero_before_one in H. discriminate.
Qed.

(** Step 0 stores 1 in [a], step 2 stores 2 in [c], step 1 loads [a]. *)
Definition racing (n r : Z) : action Z Z :=
  if n =? 1 then Load Z Z (fun u => u 1 0)
  else if r =? 0 then Put Z Z (Store Z (n + 1) (fun x => x =? 0) (fun _ _ => if n =? 0 then 1 else 2)) 1 else Stop Z Z.
Definition in_between : list (event Z) := [Begin Z 0 0; Act Z 0; Act Z 0; Begin Z 2 0; Act Z 2; Begin Z 1 0; Act Z 1].
Example race_shows : ~ RunsConcurrentlyAsPrivate Z race unordered.
Proof.
  intros H. destruct (H Z racing (fun _ => 0) (Threads Z (fun _ => false) (fun _ => false) (fun _ => 0))
    (State Z (-1) (fun _ _ => False) (fun _ _ => 0)) (fun _ => 0) in_between) as [E _].
  - intros k l x y K L N. destruct N. rewrite !one_arena; auto.
  - reflexivity.
  - split; [reflexivity | intros i x []].
  - intros i x [].
  - cbn. unfold may_begin, is_running. cbn.
    assert (Writes : forall n d v, n = 0 \/ n = 2 -> allowed Z race n d (Store Z (n + 1) (fun x => x =? 0) (fun _ _ => v))).
    { intros n d v N. split; [unfold is_step; cbn; lia|]. split; [left; destruct N as [->| ->]; left; reflexivity|].
      split; [destruct N as [->| ->]; intros B; apply B; reflexivity|]. split; [|reflexivity].
      intros x X. apply Z.eqb_eq in X. subst. destruct N as [->| ->]; decided. }
    repeat match goal with |- _ /\ _ => split end; try decided; try (apply Writes; auto).
    + intros m _ B. destruct (nothing_before_zero m B).
    + intros m _ B. destruct (nothing_before_two m B).
    + intros m _ B. rewrite (only_zero_before_one m B). reflexivity.
    + intros u v S. apply S; [left; left; left; reflexivity | decided|]. right. split; [left; decided|].
      intros ([O|[]] & _). discriminate O.
  - assert (of_step Z (of_arenas Z Z (arena_after Z race Z racing (fun _ => 0) in_between
        (Together Z Z (Threads Z (fun _ => false) (fun _ => false) (fun _ => 0)) (fun _ => 0)))) 1 =
      of_step Z (of_private Z Z (private_after Z race Z racing in_between
        (Apart Z Z (Threads Z (fun _ => false) (fun _ => false) (fun _ => 0)) (State Z (-1) (fun _ _ => False) (fun _ _ => 0))))) 1)
      as N by (rewrite E; reflexivity).
    vm_compute in N. discriminate.
Qed.

(** * A program runs to its end *)

Definition ordered := four_steps true.
Definition in_order_ : Z -> Z -> Prop := Before (on_two [1] [2]).
Definition adds (n : Z) : list (instruction Z unit) :=
  [put Z unit (n + 1) (fun x => x =? 0)
     (fun _ u _ => if n =? 3 then u 2 0 + u 3 0 else if n =? 1 then u 1 0 else u 0 0)].

Lemma adds_is_local n : is_step ordered n -> Kernel Z ordered unit n (Supplied ordered in_order_ n) (adds n).
Proof.
  intros N. assert (C : n = 0 \/ n = 1 \/ n = 2 \/ n = 3) by (unfold is_step in N; cbn in N; lia).
  assert (Own : Waits (on_two [1] [2]) 0 1 /\ Waits (on_two [1] [2]) 1 3 /\ Waits (on_two [1] [2]) 2 3).
  { split; [left; split; [lia | reflexivity]|]. split; [left; split; [lia | reflexivity] | right; left; reflexivity]. }
  destruct Own as (W01 & W13 & W23).
  constructor.
  - intros r. split; [exact N|]. cbn [result].
    split; [left; destruct C as [->|[->|[->| ->]]]; left; reflexivity|].
    split; [destruct C as [->|[->|[->| ->]]]; intros B; apply B; reflexivity|].
    split; [intros x X; apply Z.eqb_eq in X; subst; destruct C as [->|[->|[->| ->]]]; decided|].
    intros u v S x _. cbn [value].
    assert (Same : forall i, touches ordered n i -> inside ordered i 0 ->
      (writer (tensor_at ordered i) = -1 \/ exists z, is_step ordered z /\ in_order_ z n /\ In i (writes ordered z)) ->
      u i 0 = v i 0) by (intros i T I W; apply S; auto; split; auto).
    destruct C as [->|[->|[->| ->]]]; cbn -[Z.add].
    + apply Same; [left; left; left; reflexivity | decided | left; reflexivity].
    + apply Same; [left; left; left; reflexivity | decided|]. right. exists 0.
      split; [decided|]. split; [left; exact W01 | left; reflexivity].
    + apply Same; [left; left; left; reflexivity | decided | left; reflexivity].
    + rewrite (Same 2), (Same 3); [reflexivity | | decided | | | decided |].
      1, 3: left; left; cbn; auto.
      * right. exists 2. split; [decided|]. split; [left; exact W23 | left; reflexivity].
      * right. exists 1. split; [decided|]. split; [left; exact W13 | left; reflexivity].
  - intros r. constructor. intros w x W _ I. left. cbn [result chosen].
    destruct C as [->|[->|[->| ->]]]; destruct W as [<-|[]]; (split; [reflexivity|]);
      unfold inside in I; cbn in I; apply Z.eqb_eq; lia.
Qed.

(** Whatever schedule respects the order can go on until all steps have ended, and then [y] has a value. *)
Example ordered_runs : exists l, let t := private_after Z ordered (work Z unit) (carry_out Z unit) l
    (at_rest Z unit (State Z (-1) (fun i x => i = 0 /\ x = 0) (fun _ _ => 7)) tt) in
  respects Z ordered in_order_ unit adds l (at_rest Z unit (State Z (-1) (fun i x => i = 0 /\ x = 0) (fun _ _ => 7)) tt) /\
  (forall n, is_step ordered n -> ended _ (of_private _ _ t) n = true) /\ defined Z (kept _ _ t) 4 0.
Proof.
  destruct (checked_streams_progress _ _ _ ordered_accepted) as [_ P].
  assert (G : given Z ordered (State Z (-1) (fun i x => i = 0 /\ x = 0) (fun _ _ => 7))).
  { split; [split; [reflexivity|]; intros i x [-> ->]; decided|]. intros i x T I W. cbn. unfold is_tensor in T. cbn in T.
    assert (C : i = 0 \/ i = 1 \/ i = 2 \/ i = 3 \/ i = 4) by lia.
    destruct C as [->|[->|[->|[->| ->]]]]; try discriminate W. unfold inside in I. cbn in I. lia. }
  destruct (P Z unit adds tt _ adds_is_local G [] I) as (_ & (l & L & E) & _). exists l.
  destruct (P Z unit adds tt _ adds_is_local G l L) as (_ & _ & Values). cbv zeta.
  split; [exact L|]. split; [exact E|]. apply Values; [exact E | decided | reflexivity | decided].
Qed.
