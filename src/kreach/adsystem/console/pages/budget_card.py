"""The privacy budget in words that an officer can sign, and by campaign."""

from collections.abc import Iterator

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.widgets import Table, Text, box, card, csv_button
from kreach.adsystem.reports.report import CatalogueList, PrivacyBudget

__all__ = ["BudgetCard", "budget_rows", "noise_text", "panel_text"]

_HEADS = ["spent on", "campaign", "answers", "ρ", "of the budget", "ε"]


def _delta(value: float) -> str:
    """A small probability as people write it.

    >>> _delta(1e-06), _delta(0.005)
    ('10⁻⁶', '0.005')
    """
    digits, _, exponent = f"{value:.0e}".partition("e-")
    if digits != "1" or float(f"1e-{exponent}") != value:
        return f"{value:g}"
    return "10⁻" + str(int(exponent)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def noise_text(noise: PrivacyBudget | None) -> str:
    """What advertisers can learn from noisy reports."""
    if noise is None:
        return (
            "Reports to advertisers carry no noise, so there is no budget to spend: the guard "
            "withholds small numbers instead."
        )
    most = max((one.rho for one in noise.campaigns), default=0.0)
    return (
        f"Whoever reads all reports on a campaign learns about any {noise.max_per_person} "
        f"impressions of one person at most ε = {noise.epsilon:.2f} "
        f"(δ = {_delta(noise.delta)}; ρ = {noise.rho:g}). Reports that would go beyond are "
        f"refused. So far {fmt.plural(noise.answers, 'answer')} were given, and on no campaign "
        f"was more than {fmt.percent(most / noise.rho)} of the budget spent."
    )


def panel_text(panel: PrivacyBudget | None) -> str:
    """What the ad system can learn from corrections of panels."""
    if panel is None:
        return "No panel released a correction with noise, so nothing was spent on panels."
    campaigns = len(panel.campaigns) + panel.more
    return (
        f"All corrections of a campaign's panel, those to come included, tell about one person at "
        f"most ε = {panel.epsilon:.2f} (δ = {_delta(panel.delta)}; ρ = {panel.rho:g}). "
        f"{fmt.plural(panel.answers, 'correction')} crossed, of "
        f"{fmt.plural(campaigns, 'campaign')}. Somebody who was shown all of them: "
        f"ε = {panel.epsilon_together:.2f} (ρ = {panel.rho_together:.3g})."
    )


def budget_rows(document: CatalogueList) -> Iterator[tuple[str, ...]]:
    """Rows of the table: most spent first, noise before panels."""
    for kind, budget in (("noise", document.noise), ("panel", document.panel)):
        if budget is None:
            continue
        for one in budget.campaigns:
            share = one.rho / budget.rho if kind == "noise" else None
            yield (
                kind,
                one.campaign,
                fmt.count(one.answers),
                f"{one.rho:.3g}",
                "all, at most" if share is None else fmt.percent(share),
                f"{one.epsilon:.2f}",
            )


class BudgetCard:
    """The card; for operators and publishers."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, ...]] = []
        with card(
            "Privacy budget",
            "What differential privacy promises about one person, and how much of it is spent. "
            "ε bounds how much an answer can change when a person's data are left out; smaller is "
            "safer. Costs are counted in ρ, which adds up.",
            name="budget",
        ) as self._card:
            self._noise = Text("", "p", name="noise budget")
            self._panel = Text("", "p", name="panel budget")
            with box("k-list") as self._spent:
                self._table = Table(_HEADS, numeric=(2, 3, 4, 5), name="budget")
                with box("k-row k-end"):
                    csv_button(
                        "privacy budget",
                        lambda: [dict(zip(_HEADS, row, strict=True)) for row in self._rows],
                    )
            self._spent.set_visibility(False)

    def show(self, document: CatalogueList) -> None:
        """Show the budgets of an answer."""
        self._noise.set_text(f"Noise. {noise_text(document.noise)}")
        self._panel.set_text(f"Panel. {panel_text(document.panel)}")
        self._rows = list(budget_rows(document))
        self._spent.set_visibility(bool(self._rows))
        self._table.show(self._rows)

    def set_visibility(self, visible: bool) -> None:
        """Show or hide the card."""
        self._card.set_visibility(visible)
