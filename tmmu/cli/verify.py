"""`tmmu verify`: verify-plan by another name, with the same options and exit codes. spec: C1.1"""

from __future__ import annotations

from copy import copy

from proofs.verify.command import command

verify = copy(command)
verify.name = "verify"
verify.epilog = (command.epilog or "").replace("verify-plan ", "tmmu verify ")
