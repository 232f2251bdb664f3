"""The gateway service: names a visitor's group, reloads catalogues, enforces hard caps."""

from kreach.publisher.gateway.app import gateway_app, gateway_apps
from kreach.publisher.gateway.check import check
from kreach.publisher.gateway.settings import (
    BrowserSettings,
    FamilyCap,
    GatewaySettings,
    HardCap,
)

__all__ = [
    "BrowserSettings",
    "FamilyCap",
    "GatewaySettings",
    "HardCap",
    "check",
    "gateway_app",
    "gateway_apps",
]
