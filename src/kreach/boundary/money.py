"""Money in integer micros (millionths of the currency), and how auctions charge it."""

from kreach.errors import KreachError

__all__ = ["AUCTIONS", "MICROS", "as_micros"]

AUCTIONS = ("second_price", "first_price")
MICROS = 1_000_000  # in one unit of the currency


def as_micros(name: str, amount: object) -> int:
    """Money in micros; what is finer than a micro is refused rather than rounded."""
    if isinstance(amount, (int, float)) and not isinstance(amount, bool):
        micros = round(amount * MICROS) if abs(amount) < 1e12 else 0
        if micros > 0 and abs(micros - amount * MICROS) < 1e-3:
            return micros
    raise KreachError.rule(name, "be money above 0 in whole micros, up to 10¹²", amount)
