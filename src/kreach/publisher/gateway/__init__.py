"""The gateway service: tells a visitor's group, rolls catalogues over, keeps hard caps."""

from kreach.publisher.gateway.app import gateway_site
from kreach.publisher.gateway.check import check
from kreach.publisher.gateway.settings import GatewaySettings, HardCap

__all__ = ["GatewaySettings", "HardCap", "check", "gateway_site"]
