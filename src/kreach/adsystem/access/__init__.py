"""Access to reporting: API keys, roles and rate limits."""
