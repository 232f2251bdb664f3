"""Arrays in, arrays out: the mathematics, without files, clocks, randomness or domain types."""
