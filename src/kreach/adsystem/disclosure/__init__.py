"""What advertisers may be shown: nothing that speaks about few impressions or few people."""
