"""The manifests are valid, what they refer to exists, and the services accept their settings."""

import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from tests.deploy.kustomize import Overlay, pod_of
from tests.deploy.service_settings import read_settings

POD_NAME = "statefulset.kubernetes.io/pod-name"  # a label that pods get by themselves
FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
SECRETS = {  # those that the comments of the kustomizations ask for
    "kreach-tls": {"tls.crt", "tls.key", "ca.crt"},
    "kreach-secrets": {
        *("operator-key", "redis-url", "redis.conf"),
        *("token-key", "stream", "nats.conf"),
    },
    "kreach-object-store": {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    "kreach-gateway-tls": {"tls.crt", "tls.key"},
}
WORKLOADS = ("Deployment", "StatefulSet", "CronJob")
NAMES = ("overlays/one-bidder", "overlays/fleet", "overlays/machines", "gateway")


@pytest.fixture(params=NAMES)
def overlay(request: pytest.FixtureRequest) -> Overlay:
    return Overlay(FOLDER / request.param)


def containers(overlay: Overlay) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    pods = [pod_of(workload) for workload in overlay.of(*WORKLOADS)]
    return [(pod, container) for pod in pods for container in pod["containers"]]


def test_every_resource_fits_its_schema_and_is_there_once(overlay: Overlay) -> None:
    for resource in overlay.resources:
        kubernetes_validate.validate(resource, "1.30", strict=True)
    named = [(one["kind"], one["metadata"]["name"]) for one in overlay.resources]
    assert len(set(named)) == len(named)


def test_a_wrong_field_would_be_noticed(overlay: Overlay) -> None:
    workload = next(iter(overlay.of("Deployment", "StatefulSet")))
    pod_of(workload)["containers"][0]["readOnlyRoot"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(workload, "1.30", strict=True)


def test_volumes_mounts_and_config_maps_exist(overlay: Overlay) -> None:
    for pod, container in containers(overlay):
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        for volume in pod["volumes"]:
            if "configMap" in volume:
                assert volume["configMap"]["name"] in overlay.config_maps
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert claim in overlay.names("PersistentVolumeClaim")
            if "secret" in volume:
                secret = volume["secret"]
                keys = {item["key"] for item in secret.get("items", ())}
                assert keys <= SECRETS[secret["secretName"]]
        for source in container.get("envFrom", ()):
            if "secretRef" in source:
                assert source["secretRef"]["name"] in SECRETS
                continue
            reference = source["configMapRef"]
            assert reference["name"] in overlay.config_maps or reference.get("optional")


def test_the_comments_name_every_secret() -> None:
    texts = [path.read_text() for path in FOLDER.rglob("kustomization.yaml")]
    for name, keys in SECRETS.items():
        text = next(text for text in texts if f"secret {name}" in text)
        if name != "kreach-gateway-tls":
            assert all(key in text for key in keys)


def test_ports_selectors_and_probes_fit(overlay: Overlay) -> None:
    pods = [one["spec"]["template"] for one in overlay.of("Deployment", "StatefulSet")]
    for pod in pods:
        for container in pod["spec"]["containers"]:
            ports = {port["name"] for port in container["ports"]}
            for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                check = container.get(probe, {}).get("httpGet")
                if container["image"] == "kreach":
                    paths = "/readyz" if probe == "readinessProbe" else "/healthz"
                    assert check["path"] == paths
                    assert check["port"] in ports
                    assert check["scheme"] == "HTTPS"
    for service in overlay.of("Service"):
        chosen = service["spec"]["selector"].items()
        chosen = {key: value for key, value in chosen if key != POD_NAME}.items()
        matching = [pod for pod in pods if chosen <= pod["metadata"]["labels"].items()]
        assert matching, service["metadata"]["name"]
        for port in service["spec"]["ports"]:
            for pod in matching:
                names = [one["name"] for each in pod["spec"]["containers"] for one in each["ports"]]
                assert port["targetPort"] in names


def test_nobody_is_root_and_nothing_is_writable(overlay: Overlay) -> None:
    for pod, container in containers(overlay):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["automountServiceAccountToken"] is False
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}


def test_services_accept_their_settings(overlay: Overlay, tmp_path: Path) -> None:
    for pod, container in containers(overlay):
        if container["image"] != "kreach":
            continue
        words = container["args"]
        service = words[1] if words[0] == "serve" else words[0]
        document = overlay.settings(container, pod)
        settings = read_settings(service, document, overlay.environment(container), tmp_path)
        mounts = tuple(mount["mountPath"] for mount in container["volumeMounts"])
        if service == "backup":
            assert str(settings["adsystem"].store).startswith(mounts)
            assert words[words.index("--into") + 1] in mounts
            continue
        assert settings[service].port == container["ports"][0]["containerPort"]
        for path in (settings["server"].tls_certificate, settings["server"].tls_key):
            assert str(path).startswith("/tls/")
        paths = [value for one in settings.values() for value in files_of(one)]
        assert all(str(path).startswith(mounts) for path in paths)
        if service == "bidder" and settings["shipping"].enabled:
            assert settings["bidder"].public_url == "https://bidder-0.bid.example.com"


def files_of(section: Any) -> list[Path]:
    """The paths in a section of settings."""
    values = [getattr(section, name) for name in section.__struct_fields__]
    several = [each for value in values if isinstance(value, tuple) for each in value]
    return [value for value in (*values, *several) if isinstance(value, Path)]


def test_the_gateway_shares_nothing_with_the_ad_system() -> None:
    gateway, ad_side = Overlay(FOLDER / "gateway"), Overlay(FOLDER / "overlays/fleet")
    for kind in ("PersistentVolumeClaim", "Service", "Deployment"):
        assert not gateway.names(kind) & ad_side.names(kind)
    texts = [(FOLDER / name / "kustomization.yaml").read_text() for name in NAMES]
    spaces = [line for text in texts for line in text.splitlines() if line.startswith("namespace:")]
    assert spaces == [*["namespace: kreach"] * 3, "namespace: kreach-publisher"]


def test_bidders_on_other_nodes_share_no_volume_with_reporting() -> None:
    overlay = Overlay(FOLDER / "overlays/machines")
    pods = {one["metadata"]["name"]: pod_of(one) for one in overlay.of(*WORKLOADS)}
    claims = {
        name: {
            volume["persistentVolumeClaim"]["claimName"]
            for volume in pod["volumes"]
            if "persistentVolumeClaim" in volume
        }
        for name, pod in pods.items()
    }
    assert claims["bidder"] == set()  # each pod has its own, by a template
    assert claims["backup"] > claims["reporting"] == {"kreach-reporting"}
    bidders = next(one for one in overlay.of("StatefulSet") if one["metadata"]["name"] == "bidder")
    names = [f"bidder-{at}" for at in range(bidders["spec"]["replicas"])]
    settings = tomllib.loads(overlay.config_maps["kreach-config"]["kreach.toml"])
    assert settings["redis"]["bidders"] == names
    assert set(names) <= overlay.names("Service")
