"""From people to a report, cell by cell: open it in an editor that supports `# %%`, or run it.

python examples/walk_through.py
"""

# %% [markdown]
# A publisher has 4,000 people who visit unevenly. Here they are indices; it keeps the user ids.

# %%
from datetime import UTC, datetime

import numpy as np

import kreach as kr
from kreach.publisher.audit import audit
from kreach.publisher.grouping import BySegments, form_groups
from kreach.publisher.people import Attribute, People
from kreach.publisher.release import new_key, release

generator = np.random.default_rng(1)
rates = generator.gamma(0.7, 8.0, 4_000)
people = People(
    visits=generator.poisson(rates),
    attributes={"town": Attribute.of(generator.integers(0, 4, 4_000))},
)
print(f"{people.visits.sum():,} visits in history; the busiest person made {people.visits.max()}")

# %% [markdown]
# It builds groups of at least 20 people, along the towns that campaigns target, and audits them
# before the release.

# %%
groups = form_groups(people, group_size=20, strategy=BySegments(("town",)), seed=7)
findings = audit(people, groups, segments=("town",), churn=0.05)
print(f"{groups.group_count} groups; safe to release: {findings.safe}")

# %% [markdown]
# What crosses the boundary: opaque ids, sizes, and one dispersion.

# %%
released = release(
    people,
    groups,
    key=new_key(),
    buyer="acme",
    version="2026-11",
    now=datetime(2026, 11, 1, tzinfo=UTC),
)
catalogue, audience = released.catalogue, released.audience()
print(
    f"catalogue {catalogue.version}: {len(catalogue)} groups, dispersion {catalogue.dispersion:.2f}"
)

# %% [markdown]
# A flight. People visit as before, and a quarter of the requests is won. Only this script knows the
# truth: who saw what.

# %%
seen = generator.binomial(generator.poisson(rates), 0.25)
group_of = released.group_indices[:, 0]
impressions = np.bincount(group_of, weights=seen, minlength=len(catalogue)).astype(int)
truth = {cap: int(np.minimum(seen, cap).sum()) for cap in (1, 3)}

# %% [markdown]
# The ad system measures from impressions by group: with the dispersion, and without it.

# %%
even = kr.Audience.disjoint(catalogue.sizes)
for cap in (1, 3):
    report, naive = kr.measure(audience, impressions, cap), kr.measure(even, impressions, cap)
    low, high = report.interval(0.95)
    print(
        f"cap {cap}: truth {truth[cap]:,}; reported {report.reach:,.0f}"
        f" ({low:,.0f} to {high:,.0f}); as if all visited alike {naive.reach:,.0f}"
    )

# %% [markdown]
# The value of the next request of each group, for a campaign that wants new people.

# %%
value = kr.reach_probability(audience, impressions, cap=1)
print(f"the next request reaches somebody new with {value.min():.0%} to {value.max():.0%}")
