"""Reporting over HTTP: campaigns, how they stand, and their reach in any window."""
