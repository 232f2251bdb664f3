"""Money: reserve for a bid, post for an impression, void what came to nothing."""
