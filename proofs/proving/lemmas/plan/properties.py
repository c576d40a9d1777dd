"""State the properties of lists as plainly as possible: every cell against every later cell, one by one.

These functions are never evaluated on a plan. They are the proved meaning of the chains of
`proofs.proving.lemmas.plan.chains`. spec: T1.1, V1.1, V1.5, V5.1
"""

from __future__ import annotations

PROPERTIES = """
(define-fun-rec join_tenants ((front Tenants) (back Tenants)) Tenants
  (ite ((_ is vacant) front) back (tenant (birth front) (death front) (offset front) (bytes front) (alignment front)
    (join_tenants (next_tenants front) back))))
(define-fun-rec all_born_after ((step Int) (tenants Tenants)) Bool
  (ite ((_ is vacant) tenants) true (and (< step (birth tenants)) (all_born_after step (next_tenants tenants)))))
(define-fun-rec apart_in_time ((tenants Tenants)) Bool
  (ite ((_ is vacant) tenants) true
    (and (<= (birth tenants) (death tenants)) (all_born_after (death tenants) (next_tenants tenants))
         (apart_in_time (next_tenants tenants)))))
(define-fun-rec all_fit ((start Int) (size Int) (tenants Tenants)) Bool
  (ite ((_ is vacant) tenants) true
    (and (<= start (offset tenants)) (<= (+ (offset tenants) (bytes tenants)) (+ start size))
         (<= 1 (alignment tenants)) (= 0 (mod (offset tenants) (alignment tenants)))
         (all_fit start size (next_tenants tenants)))))
(define-fun-rec live_at ((step Int) (tenants Tenants)) Int
  (ite ((_ is vacant) tenants) 0
    (+ (ite (and (<= (birth tenants) step) (<= step (death tenants))) 1 0) (live_at step (next_tenants tenants)))))

(define-fun-rec join_slots ((front Slots) (back Slots)) Slots
  (ite ((_ is no_slots) front) back
    (slot (slot_offset front) (slot_bytes front) (slot_alignment front) (join_slots (next_slots front) back))))
(define-fun-rec all_start_from ((byte Int) (slots Slots)) Bool
  (ite ((_ is no_slots) slots) true (and (<= byte (slot_offset slots)) (all_start_from byte (next_slots slots)))))
(define-fun-rec apart_in_bytes ((slots Slots)) Bool
  (ite ((_ is no_slots) slots) true
    (and (all_start_from (+ (slot_offset slots) (slot_bytes slots)) (next_slots slots))
         (apart_in_bytes (next_slots slots)))))
(define-fun-rec all_end_by ((byte Int) (slots Slots)) Bool
  (ite ((_ is no_slots) slots) true
    (and (<= (+ (slot_offset slots) (slot_bytes slots)) byte)
         (<= 1 (slot_alignment slots)) (= 0 (mod (slot_offset slots) (slot_alignment slots)))
         (all_end_by byte (next_slots slots)))))

(define-fun-rec join_changes ((front Changes) (back Changes)) Changes
  (ite ((_ is no_changes) front) back (change (at front) (amount front) (join_changes (next_changes front) back))))
(define-fun-rec total_until ((step Int) (changes Changes)) Int
  (ite ((_ is no_changes) changes) 0
    (+ (ite (<= (at changes) step) (amount changes) 0) (total_until step (next_changes changes)))))

(define-fun-rec join_contents ((front Contents) (back Contents)) Contents
  (ite ((_ is no_contents) front) back
    (content (written front) (first_read front) (last_read front) (replaces front)
      (join_contents (next_contents front) back))))
(define-fun-rec none_disturbs ((from Int) (to Int) (contents Contents)) Bool
  (ite ((_ is no_contents) contents) true
    (and (< from (written contents))
         (or (< to (written contents)) (and (replaces contents) (= to (written contents))))
         (none_disturbs from to (next_contents contents)))))
(define-fun-rec each_kept ((contents Contents)) Bool
  (ite ((_ is no_contents) contents) true
    (and (< (written contents) (first_read contents))
         (none_disturbs (written contents) (last_read contents) (next_contents contents))
         (each_kept (next_contents contents)))))

(define-fun-rec join_edges ((front Edges) (back Edges)) Edges
  (ite ((_ is no_edges) front) back (edge (first_step front) (last_step front) (join_edges (next_edges front) back))))
(define-fun-rec edges_at ((step Int) (edges Edges)) Int
  (ite ((_ is no_edges) edges) 0
    (+ (ite (and (<= (first_step edges) step) (<= step (last_step edges))) 1 0) (edges_at step (next_edges edges)))))

(define-fun-rec edges_of ((above Above)) Edges
  (ite ((_ is nothing_above) above) no_edges (edge (from_step above) (to_step above) (edges_of (next_above above)))))
(define-fun-rec join_above ((front Above) (back Above)) Above
  (ite ((_ is nothing_above) front) back
    (over (from_step front) (to_step front) (begins_at front) (join_above (next_above front) back))))
(define-fun-rec all_begin_from ((byte Int) (above Above)) Bool
  (ite ((_ is nothing_above) above) true
    (and (<= byte (begins_at above)) (all_begin_from byte (next_above above)))))

; What is live in an arena at one step: the number of each storage (from 1), the number of the one that the edge below
; it comes from (0: the floor of the arena, which ends at byte 0), its offset and its end.
(declare-datatypes ((Column 0)) (((nothing_live) (live
  (itself Int) (rests_on Int) (low Int) (high Int) (others Column)))))
(define-fun-rec is_live ((which Int) (column Column)) Bool
  (ite ((_ is nothing_live) column) false (or (= which (itself column)) (is_live which (others column)))))
(define-fun-rec below_of ((which Int) (column Column)) Int
  (ite ((_ is nothing_live) column) 0
    (ite (= which (itself column)) (rests_on column) (below_of which (others column)))))
(define-fun-rec low_of ((which Int) (column Column)) Int
  (ite ((_ is nothing_live) column) (- 1) (ite (= which (itself column)) (low column) (low_of which (others column)))))
(define-fun-rec high_of ((which Int) (column Column)) Int
  (ite ((_ is nothing_live) column) 0 (ite (= which (itself column)) (high column) (high_of which (others column)))))
(define-fun-rec none_rests_on ((which Int) (column Column)) Bool
  (ite ((_ is nothing_live) column) true
    (and (distinct which (rests_on column)) (none_rests_on which (others column)))))
(define-fun-rec each_rests_alone ((column Column)) Bool
  (ite ((_ is nothing_live) column) true
    (and (none_rests_on (rests_on column) (others column)) (each_rests_alone (others column)))))
(define-fun-rec each_is_stacked ((some Column) (column Column)) Bool
  (ite ((_ is nothing_live) some) true
    (and (<= 1 (itself some)) (or (= 0 (rests_on some)) (is_live (rests_on some) column))
         (stacked (high_of (rests_on some) column) (low some) (high some)) (each_is_stacked (others some) column))))
(define-fun-rec size_of ((column Column)) Int
  (ite ((_ is nothing_live) column) 0 (+ 1 (size_of (others column)))))
"""
"""The definitions as SMT-LIB, accepted by `proofs.proving.smt.descent`.

They follow `proofs.proving.lemmas.plan.chains.DEFINITIONS`.
"""
