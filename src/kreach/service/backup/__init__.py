"""Backups of one side's stores: taken while services run, verified when restored."""
