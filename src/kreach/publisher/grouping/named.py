"""Strategies by name, with what each needs: for the command line and for the audit."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kreach.errors import KreachError
from kreach.publisher.grouping.attributes import ByAttributes
from kreach.publisher.grouping.base import Strategy
from kreach.publisher.grouping.diverse import Diverse
from kreach.publisher.grouping.diversity import DiversityFloors
from kreach.publisher.grouping.overlapping import Overlapping
from kreach.publisher.grouping.random import AtRandom
from kreach.publisher.grouping.rates import ByRates
from kreach.publisher.grouping.segments import BySegments

__all__ = ["STRATEGIES", "NamedStrategy"]

STRATEGIES = ("random", "attributes", "segments", "rates", "segments+rates", "overlapping")


@dataclass(frozen=True)
class NamedStrategy:
    """A strategy as a build records it: enough to form the same groups again, given the seed."""

    name: str
    attributes: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    partitions: int = 2
    class_floor: int = 10
    sensitive: tuple[str, ...] = ()
    diversity: DiversityFloors = field(default_factory=DiversityFloors)

    def plain(self) -> Strategy:
        """The strategy without diversity floors."""
        strategies: dict[str, Callable[[], Strategy]] = {
            "random": AtRandom,
            "attributes": lambda: ByAttributes(self.attributes),
            "segments": lambda: BySegments(self.segments),
            "rates": ByRates,
            "segments+rates": lambda: BySegments(self.segments, by_rate=True),
            "overlapping": lambda: Overlapping(self.partitions, self.class_floor),
        }
        if self.name not in strategies:
            raise KreachError.rule("strategy", f"be one of {', '.join(STRATEGIES)}", self.name)
        return strategies[self.name]()

    def strategy(self) -> Strategy:
        """The strategy; with sensitive columns it holds the diversity floors."""
        if not self.sensitive:
            return self.plain()
        return Diverse(self.plain(), self.sensitive, self.diversity)

    @property
    def formed_along(self) -> tuple[str, ...]:
        """Columns that groups are formed along: a group is meant to tell their values."""
        if self.name in ("segments", "segments+rates"):
            return self.segments
        return self.attributes if self.name == "attributes" else ()

    def document(self) -> dict[str, Any]:
        """For build.json."""
        return asdict(self)

    @staticmethod
    def of_facts(facts: Mapping[str, Any]) -> "NamedStrategy":
        """That of a build.json; builds of earlier versions say less."""
        recorded = dict(facts.get("formed_by") or {})
        if not recorded:
            recorded = {
                "name": facts["strategy"],
                "attributes": tuple(facts.get("information_kept") or ()),
                "segments": tuple(facts.get("coverage") or ()),
            }
        try:
            floors = DiversityFloors(**recorded.pop("diversity", {}))
            for name in ("attributes", "segments", "sensitive"):
                recorded[name] = tuple(recorded.get(name, ()))
            return NamedStrategy(**recorded, diversity=floors)
        except TypeError:
            raise KreachError.rule("folder", "record how groups were formed", recorded) from None
