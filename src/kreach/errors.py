"""What kreach raises. One small hierarchy, so that callers catch one type at each edge."""

__all__ = ["KreachError"]


class KreachError(ValueError):
    """Input that kreach cannot accept. The message gives the argument, the rule and the value.

    >>> import kreach as kr
    >>> kr.measure(kr.Audience.disjoint([20]), [5], cap=0)
    Traceback (most recent call last):
        ...
    kreach.errors.KreachError: cap must be a whole number from 1 to 9007199254740992, got 0
    """

    @classmethod
    def rule(cls, argument: str, rule: str, value: object) -> "KreachError":
        """Build the one form of message that kreach uses for a broken rule."""
        return cls(f"{argument} must {rule}, got {_short(value)}")


def _short(value: object, limit: int = 80) -> str:
    plain = isinstance(value, str) and " " in value and value.isprintable()
    text = str(value) if plain else " ".join(repr(value).split("\n"))
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[-half:]}"  # the end of a path says most
