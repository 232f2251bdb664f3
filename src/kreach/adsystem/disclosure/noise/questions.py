"""Questions to the privacy ledger, their charges, and the recorded answers."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from kreach.errors import KreachError

__all__ = [
    "BudgetExhausted",
    "Charge",
    "LedgerQuestion",
    "LedgerUnavailable",
    "Peak",
    "RecordedAnswer",
    "cost_of",
]

KINDS = ("point", "window")


class LedgerUnavailable(RuntimeError):
    """The ledger cannot be used, so nothing may be shown; the caller is not at fault."""


@dataclass(frozen=True)
class LedgerQuestion:
    """A campaign on a catalogue from `start` up to `end`, in seconds since 1970.

    A `point` is one of the numbers so far, a `window` any other stretch.
    """

    campaign: str
    catalogue: str
    kind: str
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise KreachError.rule("kind", f"be one of {', '.join(KINDS)}", self.kind)
        if not self.start < self.end:
            raise KreachError.rule("end", f"come after start ({self.start})", self.end)


@dataclass(frozen=True)
class Charge:
    """The cost of an answer, and the limits for answers of its kind (the pot) and for all answers.

    All of it for `max_per_person` impressions of one person.
    """

    rho_nanos: int
    pot_nanos: int
    total_nanos: int
    max_per_person: int

    def __post_init__(self) -> None:
        if not 1 <= self.rho_nanos <= self.pot_nanos <= self.total_nanos:
            rule = "be at least 1, and at most its pot, which is at most the total"
            nanos = (self.rho_nanos, self.pot_nanos, self.total_nanos)
            raise KreachError.rule("rho_nanos", rule, nanos)
        if self.max_per_person < 1:
            raise KreachError.rule("max_per_person", "be at least 1", self.max_per_person)


@dataclass(frozen=True)
class RecordedAnswer:
    """A question and its answer, as recorded."""

    question: LedgerQuestion
    answer: dict[str, Any]


class Peak(NamedTuple):
    """The largest total charge over any one moment of a stretch, and where it begins."""

    nanos: int
    at: int


@dataclass(frozen=True)
class BudgetExhausted:
    """A question beyond the budget: where the budget is short, and what is left there."""

    question: LedgerQuestion
    at: int
    left_nanos: int


def cost_of(rho_nanos: int, drawn_for: int, max_per_person: int) -> int:
    """The cost of an answer, drawn for some impressions of a person, for another number of them.

    For more as the square, for fewer at most in proportion; rounded up.
    """
    if max_per_person > drawn_for:
        return -(-rho_nanos * max_per_person**2 // drawn_for**2)
    return -(-rho_nanos * max_per_person // drawn_for)
