"""The bidder as a service: OpenRTB in, bids out; state in memory, truth in the log."""
