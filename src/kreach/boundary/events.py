"""An impression, as the ad system records it."""

from dataclasses import dataclass
from datetime import datetime

from kreach.boundary.times import as_instant
from kreach.errors import KreachError

__all__ = ["Impression"]


@dataclass(frozen=True)
class Impression:
    """A campaign was shown to somebody of a group. There is no field for the person.

    >>> import kreach as kr
    >>> from datetime import UTC, datetime
    >>> moment = datetime(2026, 11, 1, tzinfo=UTC)
    >>> kr.Impression("i-1", "spring", "group-7", moment, price=0.002).group
    'group-7'
    """

    impression_id: str
    campaign: str
    group: str
    ts: datetime
    price: float | None = None

    def __post_init__(self) -> None:
        for name in ("impression_id", "campaign", "group"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise KreachError.rule(name, "be a non-empty text", value)
        moment = as_instant("ts", self.ts)
        if moment is None:
            raise KreachError.rule("ts", "be a time", self.ts)
        object.__setattr__(self, "ts", moment)
        price = self.price
        if price is not None and (
            not isinstance(price, (int, float)) or not 0.0 <= price < float("inf")
        ):
            raise KreachError.rule("price", "be a finite number ≥ 0", price)
