"""The gateway service: names a visitor's group, reloads catalogues, enforces hard caps."""

from kreach.publisher.gateway.app import gateway_app
from kreach.publisher.gateway.check import check
from kreach.publisher.gateway.settings import FamilyCap, GatewaySettings, HardCap

__all__ = ["FamilyCap", "GatewaySettings", "HardCap", "check", "gateway_app"]
