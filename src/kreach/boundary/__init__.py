"""The data that may cross from the publisher to the ad system. It has no user ids."""
