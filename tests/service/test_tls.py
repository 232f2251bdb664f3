"""TLS from files: pairs that match, renewal, clients with certificates, clear errors."""

import shutil
import socket
import ssl
import threading
from pathlib import Path

import pytest

from kreach.errors import KreachError
from kreach.service.connections import ServerSettings
from kreach.service.logs import Log
from kreach.service.tls import ServerCertificate
from tests.service.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def common_name(certificate: ServerCertificate, client: ssl.SSLContext) -> str:
    """The name in the certificate that a new connection is shown."""
    ours, theirs = socket.socketpair()

    def accept() -> None:
        with ours:
            try:
                with certificate.context.wrap_socket(ours, server_side=True) as secured:
                    secured.recv(1)
                    secured.send(b"1")
            except OSError:
                pass

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    with theirs, client.wrap_socket(theirs, server_hostname="localhost") as secured:
        secured.send(b"1")
        assert secured.recv(1) == b"1"  # in TLS 1.3 a refusal of the client comes only now
        found = secured.getpeercert()
    thread.join(10)
    assert found is not None
    return str(dict(item[0] for item in found["subject"])["commonName"])  # type: ignore[misc]


def test_a_renewed_pair_is_taken_up_and_a_wrong_one_refused(
    tmp_path: Path, authority: Authority
) -> None:
    lines: list[str] = []
    log = Log("test", lines.append)
    pair, next_pair = authority.issue("first"), authority.issue("second")
    used = (tmp_path / "tls.crt", tmp_path / "tls.key")
    for source, target in zip(pair, used, strict=True):
        shutil.copy(source, target)
    certificate = ServerCertificate(*used)
    client = ssl.create_default_context(cafile=authority.ca_file)
    assert common_name(certificate, client) == "first"
    assert not certificate.renew(log)
    shutil.copy(next_pair[0], used[0])  # the key is still the old one
    assert not certificate.renew(log)
    assert common_name(certificate, client) == "first"
    shutil.copy(next_pair[1], used[1])
    assert certificate.renew(log)
    assert common_name(certificate, client) == "second"
    used[1].unlink()
    assert not certificate.renew(log)
    assert common_name(certificate, client) == "second"
    events = [line.partition('"event": ')[2].partition(",")[0].strip('"') for line in lines]
    assert "".join(events).count("certificate refused") == 2
    assert "".join(events).count("certificate renewed") == 1


def test_clients_need_a_certificate_where_an_authority_is_named(authority: Authority) -> None:
    certificate = ServerCertificate(*authority.issue(), authority.ca_file)
    client = ssl.create_default_context(cafile=authority.ca_file)
    with pytest.raises(OSError, match=r"."):
        common_name(certificate, client)
    client.load_cert_chain(*authority.issue("client"))
    assert common_name(certificate, client) == "server"


def test_bad_files_are_named(tmp_path: Path, authority: Authority) -> None:
    first, second = authority.issue("first"), authority.issue("second")
    with pytest.raises(KreachError, match="tls_certificate and tls_key must be PEM files"):
        ServerCertificate(first[0], second[1])
    with pytest.raises(KreachError, match="tls_certificate and tls_key must be PEM files"):
        ServerCertificate(first[0], tmp_path / "none")
    with pytest.raises(KreachError, match="tls_client_ca must be a PEM file"):
        ServerCertificate(*first, tmp_path / "none")
    with pytest.raises(KreachError, match="tls_key must come with"):
        ServerSettings(tls_certificate=first[0])
    with pytest.raises(KreachError, match="tls_client_ca must come with"):
        ServerSettings(tls_client_ca=first[0])
    assert ServerCertificate.of(ServerSettings()) is None
    assert ServerSettings(tls_certificate=first[0], tls_key=first[1]).scheme == "https"
