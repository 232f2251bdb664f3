"""All that may cross from the publisher to the ad system. A user id does not exist here."""
