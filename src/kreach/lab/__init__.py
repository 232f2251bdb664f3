"""The lab sees both sides: simulated worlds where the truth is known. Nobody imports it."""
