"""Money under faults: bidders on simulated clocks, disks and networks, by seeded schedules.

One process, one thread, virtual time. The code is the real one: clock, journal, ledger, accounts,
notices, grants, leases. What happens, and in which order, is drawn from a seed, and after every
step the books are checked. A schedule that fails can be run again by its seed.
"""
