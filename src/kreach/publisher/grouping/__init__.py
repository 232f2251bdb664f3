"""Users into groups of at least k: one file per strategy, one protocol."""

from kreach.publisher.grouping.attributes import ByAttributes
from kreach.publisher.grouping.base import Assignment, Strategy, form_groups
from kreach.publisher.grouping.diverse import Diverse
from kreach.publisher.grouping.diversity import DiversityFloors
from kreach.publisher.grouping.overlapping import Overlapping
from kreach.publisher.grouping.random import AtRandom
from kreach.publisher.grouping.rates import ByRates
from kreach.publisher.grouping.segments import BySegments
from kreach.publisher.grouping.spreading import DiversityRefused

__all__ = [
    "Assignment",
    "AtRandom",
    "ByAttributes",
    "ByRates",
    "BySegments",
    "Diverse",
    "DiversityFloors",
    "DiversityRefused",
    "Overlapping",
    "Strategy",
    "form_groups",
]
