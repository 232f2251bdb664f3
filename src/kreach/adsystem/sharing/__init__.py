"""Several bidders, one budget and one set of counts: what they tell each other through Redis."""
