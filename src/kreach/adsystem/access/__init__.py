"""Who may ask reporting for what: keys, roles, limits, and an advertiser's own campaigns."""
