"""Test a memory planner, an allocator or a checker of plans against random input."""
