"""The gateway as a service: settings, catalogue versions, the hard cap, and the site."""

from kreach.publisher.serving.check import check
from kreach.publisher.serving.settings import GatewaySettings, HardCap
from kreach.publisher.serving.site import gateway_site

__all__ = ["GatewaySettings", "HardCap", "check", "gateway_site"]
