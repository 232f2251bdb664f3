"""Differential privacy: noisy answers, each drawn once and charged to a ledger."""
