"""Disclosure policies: advertisers see no figure about few impressions or few people."""
