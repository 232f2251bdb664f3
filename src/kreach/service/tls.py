"""TLS from files. A renewed certificate is taken up while the service runs."""

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from kreach.errors import KreachError
from kreach.service.logs import Log

if TYPE_CHECKING:
    from kreach.service.connections import ServerSettings

__all__ = ["CHECK_SECONDS", "ServerCertificate"]

CHECK_SECONDS = 10.0
_Version = tuple[tuple[int, int], ...]


class ServerCertificate:
    """Certificate and key of a server, in files that others renew.

    `context` is for the server; new connections get what it holds at that time. With a `client_ca`
    clients must show a certificate of one of its authorities; a changed one needs a restart.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._version = self._files_version()
        self.context = self._load()

    @staticmethod
    def of(settings: "ServerSettings") -> "ServerCertificate | None":
        """That of a server, if it has one."""
        if settings.tls_certificate is None or settings.tls_key is None:
            return None
        return ServerCertificate(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)

    def renew(self, log: Log) -> bool:
        """Take up changed files; whether they were. A pair that does not match is refused."""
        version = self._files_version()
        if version == self._version:
            return False
        self._version = version
        try:
            self._load()  # a failure half-way would spoil the context in use
            self.context.load_cert_chain(self._certificate, self._key)
        except (KreachError, OSError) as error:
            log.error("certificate refused", kind=type(error).__name__)
            return False
        log.info("certificate renewed")
        return True

    def _files_version(self) -> _Version:
        try:
            found = [path.stat() for path in (self._certificate, self._key)]
        except OSError:  # between two versions; loading says what is wrong
            return ()
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is one
            rule = "be PEM files of a certificate and its key, without a password"
            pair = f"{self._certificate} and {self._key}"
            raise KreachError.rule("tls_certificate and tls_key", rule, pair) from error
        if self._client_ca is not None:
            try:
                context.load_verify_locations(self._client_ca)
            except OSError as error:
                rule = "be a PEM file with certificates of authorities"
                raise KreachError.rule("tls_client_ca", rule, str(self._client_ca)) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _no_password() -> str:
    """Instead of a question on the terminal."""
    raise ValueError("the key has a password")
