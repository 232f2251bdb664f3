"""The audit: what an attacker could learn from a release."""

from kreach.publisher.audit.assess import audit, coverage
from kreach.publisher.audit.attacks import linkage
from kreach.publisher.audit.report import Audit, Finding, Spread

__all__ = ["Audit", "Finding", "Spread", "audit", "coverage", "linkage"]
