"""`[shipping]`: where bidders send their logs, and where reporting reads them."""

import re
from collections.abc import Mapping
from pathlib import Path

from kreach.adsystem.settings import check_bidder_name
from kreach.errors import KreachError
from kreach.service.config import Settings

__all__ = ["ShippingSettings", "check_files", "check_options"]

_SECRET = re.compile(r"secret|token|password|passphrase|access_key|sas|credential", re.IGNORECASE)
_STREAM = re.compile(r"(nats|tls|kafka)://.+")
_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_MAX_PORT = 65_535
_FILES = re.compile(r"(s3|s3a|gs|az|azure|abfs|abfss|file)://.+")


def _check_server(address: str) -> None:
    """One server of a stream; an error shows no password."""
    server = address.partition("://")[2] or address
    server = server.rpartition("@")[2]
    found = _SERVER.fullmatch(server)
    if found is None or int(found[1] or 0) > _MAX_PORT:
        rule = "name servers as host or host:port, separated by commas"
        raise KreachError.rule("stream", rule, server)


def check_files(argument: str, address: str) -> None:
    """The address of an object store or of a shared folder."""
    if not _FILES.fullmatch(address):
        rule = "begin with s3://, gs://, az:// or file:// and go on with a name"
        raise KreachError.rule(argument, rule, address.partition("?")[0])


def check_options(argument: str, options: Mapping[str, str]) -> None:
    """What describes an object store, and holds no secrets."""
    for name in options:
        if _SECRET.search(name):
            rule = "hold no secrets: set them in the environment of the service"
            raise KreachError.rule(argument, rule, name)
    if options.get("allow_http", "true") not in ("true", "false"):
        rule = "have allow_http as true or false"
        raise KreachError.rule(argument, rule, options["allow_http"])


class ShippingSettings(Settings, frozen=True, kw_only=True):
    """`[shipping]`: the same for bidders and reporting (docs/shipping.md).

    `stream` is a NATS server with JetStream (`nats://host:4222`, several separated by commas) or a
    Kafka (`kafka://host:9092,host:9092`); `files` an object store (`s3://bucket/prefix`, `gs://`,
    `az://`) or a folder that both sides mount (`file:///mnt/log`). Both or neither.

    `acknowledge` says when a billing notice is acknowledged: "stored" on the bidder's disk, or
    "replicated" by the stream as well. `replicas` is how many copies the stream makes.

    Secrets are never here: object stores take them from the environment (AWS_…, GOOGLE_…,
    AZURE_…), streams from `credentials_file`: a NATS credentials file, or librdkafka's properties.
    """

    stream: str | None = None
    files: str | None = None
    prefix: str = "kreach"  # of the stream's name and subjects, or of topics
    acknowledge: str = "stored"
    replicas: int = 1
    retention_hours: float = 72.0  # how long the stream holds rows
    credentials_file: Path | None = None
    files_options: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it; endpoint, region, …
    bidders: tuple[str, ...] = ()  # that reporting mirrors; default: all of [redis]
    publish_seconds: float = 0.2  # how often new rows are published, unless a notice waits
    heartbeat_seconds: float = 1.0  # how often a bidder publishes that it is alive
    files_seconds: float = 10.0  # how often files are shipped, and looked for
    timeout_seconds: float = 2.0
    max_behind_seconds: float = 60.0  # a mirror that is older makes reporting "not ready"

    def __post_init__(self) -> None:
        if (self.stream is None) != (self.files is None):
            raise KreachError("stream and files go together: set both, or neither")
        if self.acknowledge not in ("stored", "replicated"):
            raise KreachError.rule("acknowledge", "be stored or replicated", self.acknowledge)
        if self.stream is None:
            if self.acknowledge == "replicated":
                raise KreachError.rule("acknowledge", "be stored without a stream", "replicated")
            return
        if not _STREAM.fullmatch(self.stream):  # it may hold a password
            raise KreachError.rule("stream", "begin with nats://, tls:// or kafka://", "another")
        for server in self.stream.partition("://")[2].split(","):
            _check_server(server)
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", self.prefix):
            raise KreachError.rule("prefix", "be 1 to 64 letters, digits, - or _", self.prefix)
        check_files("files", self.files or "")
        check_options("files_options", self.files_options)
        if len(set(self.bidders)) != len(self.bidders):
            raise KreachError.rule("bidders", "name each bidder once", ", ".join(self.bidders))
        for name in self.bidders:
            check_bidder_name("bidders", name)
        self._check_limits()

    def _check_limits(self) -> None:
        for name, low, high in (
            ("replicas", 1, 5),
            ("retention_hours", 1.0, 8_760.0),
            ("publish_seconds", 0.01, 60.0),
            ("heartbeat_seconds", 0.05, 60.0),
            ("files_seconds", 0.05, 3_600.0),
            ("timeout_seconds", 0.05, 60.0),
            ("max_behind_seconds", 1.0, 86_400.0),
        ):
            if not low <= getattr(self, name) <= high:
                rule = f"lie between {low:g} and {high:g}"
                raise KreachError.rule(name, rule, getattr(self, name))

    @property
    def enabled(self) -> bool:
        """Whether the log is shipped."""
        return self.stream is not None

    @property
    def replicated(self) -> bool:
        """Whether a notice waits for the stream."""
        return self.acknowledge == "replicated"

    def check_bidder(self, name: str | None, token_key: str | None) -> None:
        """What a bidder needs to ship its log."""
        if not self.enabled:
            return
        if name is None:
            raise KreachError(
                "bidder name is required to ship a log: set [redis] and [bidder] name"
            )
        if self.replicated and token_key is None:
            raise KreachError(
                'token_key of [bidder] is required with acknowledge = "replicated": a key in the '
                "store is lost with the disk, and notices of open bids with it"
            )
