"""The error that kreach raises. Callers catch one type at each edge."""

from collections.abc import Callable, Sequence
from typing import Self

__all__ = ["KreachError", "KreachErrors", "check_all", "short_value"]


class KreachError(ValueError):
    """Input that kreach cannot accept. The message gives the argument, the rule and the value.

    `field` is the name of the argument or None, `code` a word for machines: invalid, unknown,
    conflict, required. A subclass may set its own `code`.

    >>> import kreach as kr
    >>> kr.measure(kr.Audience.disjoint([20]), [5], cap=0)
    Traceback (most recent call last):
        ...
    kreach.errors.KreachError: cap must be a whole number from 1 to 9007199254740992, got 0
    """

    field: str | None = None
    code: str = "invalid"

    def __init__(
        self, message: object = "", *, field: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        if field is not None:
            self.field = field
        if code is not None:
            self.code = code

    @classmethod
    def rule(cls, argument: str, rule: str, value: object, advice: str = "") -> Self:
        """An error about `argument`: "ARGUMENT must RULE, got VALUE; ADVICE"."""
        what_to_do = f"; {advice}" if advice else ""
        error = cls(f"{argument} must {rule}, got {short_value(value)}{what_to_do}")
        error.field = argument
        return error


class KreachErrors(KreachError):
    """Several errors at once, so that a caller can fix all of them."""

    def __init__(self, errors: Sequence[KreachError]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = tuple(errors)

    def __reduce__(self) -> tuple[type, tuple[tuple[KreachError, ...]]]:
        return type(self), (self.errors,)


def check_all(*checks: Callable[[], None]) -> None:
    """Run every check; raise the error of the one that fails, or all errors together."""
    errors: list[KreachError] = []
    for check in checks:
        try:
            check()
        except KreachErrors as several:
            errors += several.errors
        except KreachError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise KreachErrors(errors)


def short_value(value: object, limit: int = 80) -> str:
    """A value as an error shows it."""
    plain = isinstance(value, str) and " " in value and value.isprintable()
    text = str(value) if plain else " ".join(repr(value).split("\n"))
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[-half:]}"  # the end of a path says most
