"""Tests of deploy/: manifests, units, rules and the dashboard."""
