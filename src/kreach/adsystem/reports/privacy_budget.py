"""Budgets of privacy in numbers that somebody can sign: what was spent, of how much."""

from collections.abc import Iterable

from kreach.adsystem.reports.report import PrivacyBudget, SpentBudget
from kreach.boundary.discrete_noise import privacy_epsilon

__all__ = ["DELTA", "Spent", "privacy_budget"]

DELTA = 1e-6
"""For telling the budget of a panel as (ε, δ): a correction names none."""
_MAX_CAMPAIGNS = 50

Spent = tuple[str, str, int, float]
"""A campaign, a catalogue, answers about it, and ρ."""


def privacy_budget(
    rho: float, delta: float, spent: Iterable[Spent], max_per_person: int | None = None
) -> PrivacyBudget:
    """A budget and what was spent of it, most first. Costs in ρ add up over campaigns.

    >>> budget = privacy_budget(0.25, 1e-6, [("spring", "v1", 2, 0.1), ("summer", "v1", 1, 0.05)])
    >>> round(budget.epsilon, 2), round(budget.campaigns[0].epsilon, 2)
    (3.97, 2.45)
    >>> round(budget.rho_together, 2), budget.answers
    (0.15, 3)
    """
    rows = sorted(spent, key=lambda one: -one[3])
    together = sum(one[3] for one in rows)
    return PrivacyBudget(
        rho=rho,
        epsilon=privacy_epsilon(rho, delta),
        delta=delta,
        answers=sum(one[2] for one in rows),
        rho_together=together,
        epsilon_together=privacy_epsilon(together, delta),
        max_per_person=max_per_person,
        campaigns=tuple(
            SpentBudget(
                campaign=campaign,
                catalogue=catalogue,
                answers=answers,
                rho=cost,
                epsilon=privacy_epsilon(cost, delta),
            )
            for campaign, catalogue, answers, cost in rows[:_MAX_CAMPAIGNS]
        ),
        more=max(len(rows) - _MAX_CAMPAIGNS, 0),
    )
