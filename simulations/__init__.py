"""Simulated worlds that only tests and benchmarks use. Not part of the wheel."""
