"""How Hypothesis runs: the profile `fast` in every run, `soak` for long ones; HYPOTHESIS_PROFILE chooses.

Under CI the examples follow from the tests alone, so that a run can be repeated to the letter; elsewhere every run
looks at new ones. Nothing has a deadline: a slow machine is no error.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", settings.get_profile("fast"), derandomize=False, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
