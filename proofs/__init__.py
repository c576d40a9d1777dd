"""Prove a memory plan, or show why it is wrong; nothing here comes from the planner."""
