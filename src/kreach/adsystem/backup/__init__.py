"""Backup, restore and migration of the ad system's stores."""
