"""The bid server: OpenRTB requests in, bids out, notices booked."""
