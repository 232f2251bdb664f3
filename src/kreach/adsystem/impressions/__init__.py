"""The impression log: append once, ask for any window; counting happens inside an engine."""
