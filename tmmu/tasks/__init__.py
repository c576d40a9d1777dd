"""What a command and a call of the library both do: plan and check, verify, open a session, generate C."""
