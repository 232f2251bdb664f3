"""What a request is worth, what to bid for it, and how to make the budget last."""
