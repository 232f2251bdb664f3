"""The gateway service: names a visitor's group, reloads catalogues, enforces hard caps."""

from kreach.publisher.gateway.app import gateway_app
from kreach.publisher.gateway.check import check
from kreach.publisher.gateway.settings import GatewaySettings, HardCap

__all__ = ["GatewaySettings", "HardCap", "check", "gateway_app"]
