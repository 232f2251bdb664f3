"""What advertisers ask for: campaigns, and the store that keeps them."""
