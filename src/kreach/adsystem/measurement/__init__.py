"""How many people a campaign reached, and how certain that is, from group counts alone."""
