"""Shared by all services: web framework, settings, logs, metrics, clock, LRU cache."""
