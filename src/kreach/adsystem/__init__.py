"""The ad system: knows groups only."""
