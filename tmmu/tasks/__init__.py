"""Tasks that a command and a call of the library share: plan and check, verify, open a session, generate C."""
