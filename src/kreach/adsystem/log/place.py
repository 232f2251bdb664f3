"""A place: the rows of a campaign on a catalogue."""

from typing import NamedTuple

from kreach.errors import KreachError

__all__ = ["Place"]


class Place(NamedTuple):
    """A campaign on a catalogue; None is any.

    Logs in files name both (`id`, `version`), the live log numbers them.
    """

    campaign: str | int | None = None
    catalogue: str | int | None = None

    @classmethod
    def named(cls, campaign: object, catalogue: str | None = None) -> "Place":
        """A place of a log in files, from what a caller passed."""
        if campaign is not None and not isinstance(campaign, str):
            raise KreachError.rule("campaign", "be text", campaign)
        return cls(campaign, catalogue)
