"""Run the image for real: as its user, with a read-only root, no capabilities and no shell.

usage: python deploy/image/smoke.py dist/kreach-image.tar

Containers are run by runc, from bundles that umoci unpacks: neither needs a daemon. They share the
network of this machine, so the mapping of ports is not tested here.
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kreach.lab.processes import StartWatch

USER = 65532
BIDDER, CONSOLE = 18402, 18400
SETTINGS = """
[adsystem]
catalogues = ["groups/release"]

[bidder]
port = 18402
"""
SHIPPING = """
[adsystem]
catalogues = ["groups/release"]

[shipping]
stream = "kafka://none"
files = "file:///data"
credentials_file = "kafka.properties"
"""


def main(archive: Path) -> None:
    """Every check, in order; the first that fails ends it."""
    with tempfile.TemporaryDirectory(prefix="kreach-image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        image = Image(archive, folder)
        image.check_root()
        data = image.data("files")
        write_inputs(data)
        help_text = image.run(data, "--help")
        assert "serve" in help_text, help_text
        done("kreach --help")
        inputs = ("--visits", "visits.csv", "--group-size", "20", "--out", "groups")
        image.run(data, "groups", "build", *inputs)
        measured = image.run(
            *(data, "measure", "--groups", "groups.csv", "--impressions", "impressions.csv"),
            *("--campaign", "spring", "--cap", "1", "--json"),
        )
        report = json.loads(measured)["reports"][0]
        assert abs(report["reach"] - 200 * (1 - 0.95**6)) < 1e-6, report  # 6 in each group of 20
        done(f"kreach measure: reach {report['reach']:.1f}")
        checking = ("serve", "reporting", "--config", "shipping.toml", "--check-config", "--json")
        checked = json.loads(image.run(data, *checking))
        assert checked["stream"] == "Kafka at kafka://none answers", checked
        done("kreach serve reporting --check-config: librdkafka and an object store")
        with image.serving(data, "serve", "bidder", "--config", "kreach.toml") as process:
            wait_for(f"http://127.0.0.1:{BIDDER}/healthz", process)
            wait_for(f"http://127.0.0.1:{BIDDER}/readyz", process)
        done("kreach serve bidder: healthy, ready, stopped by SIGTERM")
        demo = ("demo", "--host", "0.0.0.0", "--port", str(CONSOLE))
        with image.serving(
            image.data("demo"), *demo, "--people", "1000", "--minutes", "2"
        ) as process:
            wait_for(f"http://127.0.0.1:{CONSOLE}/readyz", process)
            assert b"kreach" in wait_for(f"http://127.0.0.1:{CONSOLE}/", process)
        done("kreach demo: the console answers")


class Image:
    """An unpacked image, and containers of it."""

    def __init__(self, archive: Path, folder: Path) -> None:
        for tool, package in (("umoci", "umoci"), ("runc", "runc")):
            if shutil.which(tool) is None:
                sys.exit(f"missing: {package}. On Debian: sudo apt-get install {package}")
        self._folder, self._count = folder, 0
        layout, self._bundle = folder / "layout", folder / "bundle"
        layout.mkdir()
        subprocess.run(["tar", "-C", str(layout), "-xf", str(archive)], check=True)
        rootless = [] if os.getuid() == 0 else ["--rootless"]
        command = ["umoci", "unpack", *rootless, "--image", f"{layout}:kreach", str(self._bundle)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self._config = json.loads((self._bundle / "config.json").read_text())
        self._entrypoint = self._config["process"]["args"][:1]

    def check_root(self) -> None:
        """The user is not root; there is nothing to run but Python."""
        user = self._config["process"]["user"]
        assert user["uid"] == user["gid"] == USER, user
        root = self._bundle / "rootfs"
        programs = [path.name for name in ("bin", "usr/bin") for path in (root / name).iterdir()]
        assert all(name.startswith("python3") for name in programs), programs
        assert not (root / "etc/apt").exists()
        done(f"runs as {USER}, without a shell or a package manager")

    def data(self, name: str) -> Path:
        """A folder for /data, the only place beside /tmp that a container may write to."""
        folder = self._folder / name
        folder.mkdir()
        if os.getuid() == 0:
            os.chown(folder, USER, USER)
        return folder

    def run(
        self, data: Path, *arguments: str, setting: "Setting | None" = None, seconds: float = 1_800
    ) -> str:
        """The output of a command of the image."""
        with self._container(setting or Setting({"/data": data}), arguments) as command:
            ended = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=seconds
            )
        assert ended.returncode == 0, f"{arguments}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    @contextmanager
    def serving(
        self, data: Path, *arguments: str, setting: "Setting | None" = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A service of the image, which SIGTERM ends."""
        output = self._folder / f"output-{self._count}"
        setting = setting or Setting({"/data": data})
        with self._container(setting, arguments) as command, output.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
            try:
                yield process
                process.send_signal(signal.SIGTERM)  # runc passes it on
                code = process.wait(300)
            except BaseException:
                sys.stderr.write(output.read_text(errors="replace")[-3_000:])
                raise
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait(10)
        assert code == 0, f"{arguments} ended with {code}: {output.read_text()[-3_000:]}"

    @contextmanager
    def _container(self, setting: "Setting", arguments: Sequence[str]) -> Iterator[list[str]]:
        self._count += 1
        name = f"kreach-smoke-{os.getpid()}-{self._count}"
        bundle = self._folder / name
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(self._hardened(setting, arguments)))
        runtime = ["runc", "--root", str(self._folder / "runc")]
        try:
            yield [*runtime, "run", "--bundle", str(bundle), name]
        finally:
            subprocess.run([*runtime, "delete", "--force", name], check=False, capture_output=True)

    def _hardened(self, setting: "Setting", arguments: Sequence[str]) -> dict[str, Any]:
        config = json.loads(json.dumps(self._config))
        none: dict[str, list[str]] = {}
        process = config["process"] | {"terminal": False, "noNewPrivileges": True}
        process["args"] = [*self._entrypoint, *arguments]
        process["env"] += [f"{name}={value}" for name, value in setting.environment.items()]
        process["cwd"] = setting.folder
        config["process"] = process | {"capabilities": none}
        config["root"] = {"path": str(self._bundle / "rootfs"), "readonly": True}
        own = ("/tmp", *setting.mounts)
        config["mounts"] = [
            *(mount for mount in config["mounts"] if mount["destination"] not in own),
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]},
            *(
                {"destination": there, "type": "bind", "source": str(here), "options": ["rbind"]}
                for there, here in setting.mounts.items()
            ),
        ]
        linux = config["linux"]
        linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] != "network"]
        if setting.network is not None:
            linux["namespaces"].append({"type": "network", "path": setting.network})
        linux.pop("resources", None)
        return config  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Setting:
    """What a container finds: folders and files by their paths in it, variables, a network."""

    mounts: Mapping[str, Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None  # a namespace; default: that of this machine
    folder: str = "/data"


def write_inputs(data: Path) -> None:
    """Small files: visits of 200 people, and 60 impressions."""
    visits = ["user_id,ts"]
    for person in range(200):
        for hour in range(3 + person % 5):
            day, clock = 1 + (person + hour) % 7, f"{(person * 7 + hour * 5) % 24:02}:00:00"
            visits.append(f"p{person},2026-03-0{day}T{clock}Z")
    (data / "visits.csv").write_text("\n".join(visits) + "\n")
    (data / "kreach.toml").write_text(SETTINGS)
    (data / "shipping.toml").write_text(SHIPPING)
    (data / "kafka.properties").write_text("test.mock.num.brokers=1\n")  # librdkafka's own broker
    sizes = [f"g{group},20" for group in range(10)]
    (data / "groups.csv").write_text("\n".join(["group,size", *sizes]) + "\n")
    shown = [f"spring,g{at % 10},2026-03-01T{at % 24:02}:00:00Z" for at in range(60)]
    (data / "impressions.csv").write_text("\n".join(["campaign,group,ts", *shown]) + "\n")


def wait_for(address: str, process: subprocess.Popen[bytes], host: str | None = None) -> bytes:
    """The body, as soon as the answer is 200; waits as long as the container works for it."""
    watch = StartWatch(process.pid)
    asked = urllib.request.Request(address, headers={} if host is None else {"host": host})
    any_certificate = ssl._create_unverified_context()  # as probes do
    while True:
        try:
            with urllib.request.urlopen(asked, timeout=5, context=any_certificate) as answer:
                body: bytes = answer.read()
                return body
        except (urllib.error.URLError, OSError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code != 503:
                raise RuntimeError(f"{address} answers {error.code}: {error.read()!r}") from error
            if process.poll() is not None or watch.is_over():
                raise RuntimeError(f"{address} does not answer") from error
            time.sleep(0.5)


def done(what: str) -> None:
    """Say what was checked."""
    print(f"ok: {what}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve())
