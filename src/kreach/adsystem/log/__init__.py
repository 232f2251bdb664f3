"""The impression log: snapshots at one instant, counts by group, and the engines that count."""
