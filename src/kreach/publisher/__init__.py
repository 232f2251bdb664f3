"""The publisher's side: it knows people. Only `release` passes anything on."""
