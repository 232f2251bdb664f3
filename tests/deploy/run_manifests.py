"""Run compose files, manifests and units for real, from the image: every kreach container that they
describe starts with its command, variables, mounts and user, and becomes ready on its port.

usage: python -m tests.deploy.run_manifests dist/kreach-image.tar

Containers are runc's, each in a network namespace of its own; names of services resolve as they
would there. Redis, NATS and the object store are this machine's. It needs root.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from simulations.fleet import free_port, redis_server_command
from simulations.machines import Machine, Network, can_make_namespaces
from simulations.shipping_servers import KEYS, nats_server_command, object_server_command

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from tests.deploy.kustomize import Overlay, pod_of
from tests.publisher.gateway.sample_gateways import write_sample_build
from tests.service.certificates import Authority

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BUCKET, REGION = "ads-log", "eu-west-1"
_spec = util.spec_from_file_location("smoke", DEPLOY / "image" / "smoke.py")
assert _spec is not None
assert _spec.loader is not None
smoke = util.module_from_spec(_spec)
sys.modules["smoke"] = smoke
_spec.loader.exec_module(smoke)


@dataclass
class Container:
    """A kreach container as a file describes it."""

    name: str
    arguments: list[str]
    environment: dict[str, str]
    mounts: dict[str, Path]
    port: int = 0
    scheme: str = "http"
    host: str | None = None  # that probes name
    aliases: list[str] = field(default_factory=list)

    @property
    def service(self) -> str:
        return self.arguments[1] if self.arguments[0] == "serve" else self.arguments[0]


class Place:
    """A deployment on this machine: folders for volumes and secrets, and the servers it needs."""

    def __init__(self, image: Any, root: Path) -> None:
        self.image, self.root = image, root
        root.mkdir(mode=0o755)
        self.authority = Authority(self.folder("tls"))
        certificate, key = self.authority.issue()
        certificate.rename(self.folder("tls") / "tls.crt")
        key.rename(self.folder("tls") / "tls.key")
        write_sample_build(self.folder("groups") / "current")
        ids = tuple(f"g{at:03}" for at in range(50))
        made = datetime(2026, 1, 1, tzinfo=UTC)
        release = Catalogue("v1", made, 40, ids, np.full(50, 40))
        write_catalogue(release, self.folder("catalogues") / "current")
        shutil.copy(DEPLOY / "compose" / "make-secrets", root)
        subprocess.run(["sh", str(root / "make-secrets")], check=True)
        secrets = self.folder("secrets")
        for name, made_as in (("redis-url", "redis_url"), ("token-key", "token_key")):
            shutil.copy(secrets / made_as, secrets / name)
        shutil.copy(secrets / "operator.key", secrets / "operator-key")
        self.options, self.release = "", ""

    def folder(self, name: str) -> Path:
        """A folder that containers may read and write."""
        path = self.root / name
        path.mkdir(exist_ok=True)
        return path

    def file(self, name: str, text: str) -> Path:
        path = self.folder("files") / name
        path.write_text(text)
        return path

    def hand_over(self) -> None:
        """All of it to the user of containers, as fsGroup and volumes do."""
        for path in (self.root, *self.root.rglob("*")):
            os.chown(path, smoke.USER, smoke.USER, follow_symlinks=False)

    @contextmanager
    def servers(self, hub: Machine) -> Iterator[None]:
        """Redis and NATS with the settings that make-secrets wrote, and an object store."""
        secrets, port = self.folder("secrets"), free_port()
        commands = (
            [redis_server_command(), str(secrets / "redis.conf"), "--bind", "0.0.0.0"],
            [
                *(nats_server_command(), "-c", str(secrets / "nats.conf")),
                *("-js", "-sd", str(self.folder("stream"))),
            ],
            object_server_command("0.0.0.0", port),
        )
        with ExitStack() as held:
            for command in commands:
                process = subprocess.Popen(
                    [*hub.prefix, *command],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=self.folder("servers"),
                )
                held.callback(process.wait, 20)
                held.callback(process.kill)
            endpoint = f"http://{hub.address}:{port}"
            self.options = f'{{region="{REGION}", endpoint="{endpoint}", allow_http="true"}}'
            bucket = [*hub.prefix, sys.executable, "-c", _PUT, f"{endpoint}/{BUCKET}"]
            until = time.monotonic() + 300.0
            while subprocess.run(bucket, check=False, capture_output=True).returncode:
                assert time.monotonic() < until, "the object store does not start"
            yield


_PUT = """import sys, urllib.request
made = urllib.request.Request(sys.argv[1], method="PUT")
urllib.request.urlopen(made, timeout=5)
"""


# -- what files describe --------------------------------------------------------------------------


def of_compose(place: Place, name: str, variables: Mapping[str, str]) -> list[Container]:
    """The kreach containers of a compose file."""

    def filled(text: str) -> str:
        return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda at: variables.get(at[1]) or at[2], str(text))

    found = []
    for service, described in yaml.safe_load((DEPLOY / "compose" / name).read_text())[
        "services"
    ].items():
        if described["image"].startswith("docker.io/"):
            continue
        mounts = {}
        for volume in described["volumes"]:
            source, target = filled(volume).split(":")[:2]
            if source.endswith(".toml"):
                mounts[target] = place.file(source[2:], (DEPLOY / "compose" / source).read_text())
            elif source == "./releases":
                mounts[target] = place.folder(f"{service}-releases")
                shutil.copytree(DEPLOY / "compose" / source, mounts[target], dirs_exist_ok=True)
            elif source == "./groups":
                mounts[target] = place.folder("groups") / "current"
            elif source.startswith("./groups/"):
                mounts[target] = place.folder("catalogues") / "current"
            else:
                mounts[target] = place.folder(f"{service}-{Path(source).name}")
                if source == "store" and name == "compose.yml":
                    mounts[target] = place.folder("store")
                elif source == "store" and service != "bidder":
                    mounts[target] = place.folder("hub-store")
        files = yaml.safe_load((DEPLOY / "compose" / name).read_text())["secrets"]
        for secret in described.get("secrets", ()):
            mounts[f"/run/secrets/{secret}"] = place.root / files[secret]["file"]
        variables_of = described.get("environment", {}).items()
        environment = {key: filled(value) for key, value in variables_of}
        one = Container(service, described["command"], environment, mounts)
        for port in described.get("ports", ()):
            one.port = int(filled(port).split(":")[-1])
        found.append(one)
    return found


def of_kubernetes(place: Place, name: str) -> list[Container]:
    """The kreach containers of an overlay; of a StatefulSet, one for each replica."""
    overlay, found = Overlay(DEPLOY / "kubernetes" / name), []
    for workload in overlay.of("Deployment", "StatefulSet", "CronJob"):
        pod = pod_of(workload)
        (container,) = pod["containers"]
        if container["image"] != "kreach":
            continue
        replicas = 1 if workload["kind"] != "StatefulSet" else workload["spec"]["replicas"]
        for at in range(replicas):
            app = workload["metadata"]["name"]
            own = f"{app}-{at}" if workload["kind"] == "StatefulSet" else app
            environment = {
                key: value.replace(f"{app}-0", own) if replicas > 1 else value
                for key, value in overlay.environment(container).items()
            }
            mounts = {
                mount["mountPath"]: volume_of(place, pod, mount["name"], overlay, own)
                for mount in container["volumeMounts"]
                if mount["mountPath"] != "/tmp"
            }
            made = Container(own, container["args"], environment, mounts, aliases=[app])
            if "ports" in container:
                probe = container["readinessProbe"]["httpGet"]
                made.port = container["ports"][0]["containerPort"]
                made.scheme = probe["scheme"].lower()
                headers = {one["name"]: one["value"] for one in probe.get("httpHeaders", ())}
                made.host = headers.get("Host")
            found.append(made)
    return found


def volume_of(place: Place, pod: dict[str, Any], name: str, overlay: Overlay, own: str) -> Path:
    """The folder that stands for a volume of a pod."""
    (volume,) = [one for one in pod["volumes"] if one["name"] == name]
    if "configMap" in volume:
        folder = place.folder(f"{name}-{own}")
        for file, text in overlay.config_maps[volume["configMap"]["name"]].items():
            (folder / file).write_text(text)
        return folder
    if "secret" in volume:
        return place.folder("tls" if volume["secret"]["secretName"].endswith("tls") else "secrets")
    claim = volume.get("persistentVolumeClaim", {}).get("claimName")
    known = {"kreach-catalogues": "catalogues", "kreach-groups": "groups"}
    return place.folder(known.get(claim, claim or f"{own}-{name}"))


def of_units(place: Place) -> list[Container]:
    """What the units run, with credentials and state folders as systemd would make them."""
    settings = {
        "kreach.toml": '[adsystem]\ncatalogues = ["/catalogues/current"]\n'
        '[bidder]\nhost = "0.0.0.0"\n'
        '[redis]\nbidders = ["b1"]\n[reporting]\nhost = "0.0.0.0"\nkeys = true\n'
        '[console]\nhost = "0.0.0.0"\nnames = ["console"]\n'
        'reporting_url = "http://reporting:8403"\n',
        "publisher.toml": '[gateway]\nbuild = "/groups/current"\nhost = "0.0.0.0"\n'
        'names = ["gateway"]\n',
    }
    etc, found = place.folder("etc"), []
    for name, text in settings.items():
        (etc / name).write_text(text)
    ports = {"bidder": 8402, "reporting": 8403, "console": 8400, "gateway": 8401}
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        if unit.name == "kreach-bidder.service":
            continue  # the same as b1 of kreach-bidder@, whose store would be another
        text = unit.read_text().replace("%i", "b1").replace("%d", "/run/credentials")
        if "reporting" in unit.name:  # with several bidders
            text = re.sub(r"^# (.*redis_url)$", r"\1", text, flags=re.M)
        start = re.findall(r"^ExecStart=(.*)$", text, re.M)[0].split()
        assert start[0] == "/opt/kreach/bin/kreach"
        pairs = (
            pair for line in re.findall(r"^Environment=(.*)$", text, re.M) for pair in line.split()
        )
        environment = dict(pair.split("=", 1) for pair in pairs)
        mounts = {"/etc/kreach": etc, "/catalogues": place.folder("catalogues")}
        mounts["/groups"] = place.folder("groups")
        for folder in re.findall(r"^(?:State|Runtime)Directory=(.*)$", text, re.M):
            for one in folder.split():
                top = "/run" if one == "kreach-console" else "/var/lib"
                mounts[f"{top}/{one}"] = place.folder(one)
        for credential, source in re.findall(r"^LoadCredential=([^:]+):(.*)$", text, re.M):
            secret = place.folder("secrets") / Path(source).name
            mounts[f"/run/credentials/{credential}"] = secret
        service = start[2] if start[1] == "serve" else start[1]
        name = unit.name.removesuffix(".service").removeprefix("kreach-").rstrip("@")
        found.append(Container(name, start[1:], environment, mounts, ports.get(service, 0)))
    return found


# -- running it -----------------------------------------------------------------------------------


def run_deployment(place: Place, title: str, containers: list[Container]) -> None:
    """Start all of them, wait until each is ready, take a backup, stop them in order."""
    order = {"gateway": 0, "reporting": 1, "bidder": 2, "console": 3, "backup": 4}
    containers = sorted(containers, key=lambda one: order[one.service])
    names = ["hub", *(one.name for one in containers)]
    short = [f"m{at}" for at in range(len(names))]  # names of links have 15 letters at most
    with Network(place.root / "machines", short, namespaces=True) as network, ExitStack() as held:
        machines = dict(zip(names, network.machines.values(), strict=True))
        address = {name: machine.address for name, machine in machines.items()}
        address |= {alias: address[one.name] for one in containers for alias in one.aliases}
        address |= {"redis": address["hub"], "nats": address["hub"], "localhost": "127.0.0.1"}
        lines = [f"{number} {name}" for name, number in address.items()]
        hosts = place.file("hosts", "\n".join(lines) + "\n")
        held.enter_context(place.servers(machines["hub"]))
        place.hand_over()

        def setting(one: Container) -> Any:
            environment = dict(one.environment)
            if (
                one.service in ("bidder", "reporting")
                and "KREACH_SHIPPING_STREAM_FILE" in environment
            ):
                environment |= KEYS | {"KREACH_SHIPPING_FILES_OPTIONS": place.options}
            if "/releases" in one.mounts and place.release:
                (one.mounts["/releases"] / "catalogues").write_text(f'["{place.release}"]')
            space = f"/var/run/netns/{machines[one.name].prefix[3]}"
            mounts = {"/etc/hosts": hosts, **one.mounts}
            folder = next((path for path in mounts if path == "/data"), "/")
            return smoke.Setting(mounts, environment, space, folder)

        shipped = [one for one in containers if "KREACH_SHIPPING_STREAM_FILE" in one.environment]
        if shipped:
            push = setting(shipped[0])
            mounts = {**push.mounts, "/delivered": place.folder("catalogues") / "current"}
            environment = {**push.environment, "KREACH_RELEASES_OPTIONS": place.options}
            words = ("catalogues", "push", "/delivered", "--to", f"s3://{BUCKET}/releases")
            push = smoke.Setting(mounts, environment, push.network, push.folder)
            place.release = place.image.run(place.root, *words, setting=push).strip()
        for one in containers:
            if one.service == "reporting":  # as docs/deploy.md says
                keys = ("keys", "add", "--config", one.arguments[-1], "--role", "operator")
                key = place.image.run(place.root, *keys, setting=setting(one))
                for name in ("operator.key", "operator-key"):
                    (place.folder("secrets") / name).write_text(key)
        started = {}
        for one in containers:
            if one.service == "backup":
                continue
            running = place.image.serving(place.root, *one.arguments, setting=setting(one))
            started[one.name] = held.enter_context(running)
        for one in containers:
            if one.service == "backup":
                continue
            place_of = f"{one.scheme}://{address[one.name]}:{one.port}"
            host = one.host or ("console" if one.service == "console" else None)
            smoke.wait_for(f"{place_of}/readyz", started[one.name], host)
        for one in containers:
            if one.service == "backup":
                place.image.run(place.root, *one.arguments, setting=setting(one))
                into = one.mounts[one.arguments[one.arguments.index("--into") + 1]]
                assert list(into.glob("*/manifest.json")), "no backup was taken"
    smoke.done(f"{title}: {', '.join(one.name for one in containers)}")


def main(archive: Path) -> None:
    """Every deployment, one after the other."""
    if os.getuid() != 0 or not can_make_namespaces():
        print("not run: manifests, for want of the right to make network namespaces")
        return
    with tempfile.TemporaryDirectory(prefix="kreach-manifests-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        image = smoke.Image(archive, folder)
        only = sys.argv[2:]
        for title in (
            *("compose.yml", "machines.yml", "units", "gateway"),
            *("overlays/one-bidder", "overlays/fleet", "overlays/machines"),
        ):
            if only and title not in only:
                continue
            place = Place(image, folder / title.replace("/", "-"))
            run_deployment(place, title, containers_of(place, title))


def containers_of(place: Place, title: str) -> list[Container]:
    """The containers of one of the deployments."""
    if title == "units":
        return of_units(place)
    if title == "machines.yml":
        found = of_compose(place, title, {})
        other = next(
            one for one in of_compose(place, title, {"KREACH_NAME": "b2"}) if one.name == "bidder"
        )
        other.name, other.mounts = "bidder-2", {**other.mounts, "/data": place.folder("b2-store")}
        return [*found, other]
    if title.endswith(".yml"):
        return of_compose(place, title, {})
    return of_kubernetes(place, title)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # which ends what it started
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve())
