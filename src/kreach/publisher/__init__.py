"""The publisher: knows people. Everything leaves through one door, `release`."""
