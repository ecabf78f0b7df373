"""Hypothesis without a clock: a busy machine is no failure. Every run draws other examples."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
