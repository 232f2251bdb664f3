"""Settings shared by all tests: chance is seeded, and nothing depends on how fast a machine is."""

import os

from hypothesis import HealthCheck, settings

# The same examples on every run and machine; no stored failures, no deadlines.
settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    max_examples=100,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# On demand: other examples on every run, and many more of them.
settings.register_profile(
    "thorough",
    parent=settings.get_profile("default"),
    derandomize=False,
    max_examples=2_000,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
