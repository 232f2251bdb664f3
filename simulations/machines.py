"""Machines of a simulated deployment: network namespaces, or loopback addresses without the right.

Each machine has an address, a folder for its disk and a prefix for commands that run on it. This
process is outside, on the same network, as an exchange is.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Machine", "Network", "can_make_namespaces"]

_PREFIX = "kr"


@dataclass(frozen=True)
class Machine:
    """One machine."""

    name: str
    address: str
    root: Path
    prefix: tuple[str, ...] = ()

    def lose_disk(self) -> None:
        """Delete everything on it."""
        shutil.rmtree(self.root)
        self.root.mkdir()


def can_make_namespaces() -> bool:
    """Whether this process may make network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"{_PREFIX}{os.getpid()}p"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return False
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return True


class Network:
    """Machines on one bridge. Ends with the block: namespaces and bridge are deleted."""

    def __init__(self, root: Path, names: Sequence[str], *, namespaces: bool) -> None:
        self._namespaces = namespaces
        self._id = os.getpid() % 100_000
        self._bridge = f"{_PREFIX}{self._id}"
        subnet = f"10.{200 + self._id % 50}.{self._id // 50 % 250}"
        self._gateway = f"{subnet}.254"
        self.machines: dict[str, Machine] = {}
        for at, name in enumerate(names, 1):
            folder = root / name
            folder.mkdir(parents=True)
            address = f"127.0.0.{10 + at}"
            prefix: tuple[str, ...] = ()
            if namespaces:
                address = f"{subnet}.{at}"
                prefix = ("ip", "netns", "exec", f"{self._bridge}-{name}")
            self.machines[name] = Machine(name, address, folder, prefix)

    def __enter__(self) -> "Network":
        if self._namespaces:
            try:
                self._make()
            except BaseException:
                self.__exit__()
                raise
        return self

    def _make(self) -> None:
        bridge = self._bridge
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{self._gateway}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for at, machine in enumerate(self.machines.values(), 1):
            space, here, there = f"{bridge}-{machine.name}", f"{bridge}v{at}", f"{bridge}e{at}"
            _ip("netns", "add", space)
            _ip("link", "add", here, "type", "veth", "peer", "name", there)
            _ip("link", "set", here, "master", bridge, "up")
            _ip("link", "set", there, "netns", space)
            _ip("-n", space, "addr", "add", f"{machine.address}/24", "dev", there)
            _ip("-n", space, "link", "set", there, "up")
            _ip("-n", space, "link", "set", "lo", "up")

    def __exit__(self, *_: object) -> None:
        if not self._namespaces:
            return
        for machine in self.machines.values():
            _ip("netns", "del", f"{self._bridge}-{machine.name}", check=False)
        _ip("link", "del", self._bridge, check=False)


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
