"""A fleet of bidders shares budgets, counts and campaigns through Redis."""
