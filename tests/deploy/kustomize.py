"""As much of kustomize as deploy/kubernetes uses: resources, generators, settings of pods."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Overlay", "pod_of"]

_KNOWN = {
    *("apiVersion", "kind", "namespace", "resources"),
    *("configMapGenerator", "generatorOptions", "images"),
}


class Overlay:
    """The resources of a folder and of those that it names, and what generators make."""

    def __init__(self, folder: Path) -> None:
        self.resources: list[dict[str, Any]] = []
        self.config_maps: dict[str, dict[str, str]] = {}
        self._read(folder)

    def _read(self, folder: Path) -> None:
        document = yaml.safe_load((folder / "kustomization.yaml").read_text())
        assert set(document) <= _KNOWN, f"{folder} uses what this reader does not know"
        for name in document["resources"]:
            path = (folder / name).resolve()
            if path.is_dir():
                self._read(path)
            else:
                self.resources += list(yaml.safe_load_all(path.read_text()))
        for generator in document.get("configMapGenerator", ()):
            files = generator.get("files", ())
            values = {Path(name).name: (folder / name).read_text() for name in files}
            literals = (literal.partition("=") for literal in generator.get("literals", ()))
            self.config_maps[generator["name"]] = values | {k: v for k, _, v in literals}

    def of(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """The resources of some kinds."""
        return (one for one in self.resources if one["kind"] in kinds)

    def names(self, kind: str) -> set[str]:
        """The names of the resources of a kind."""
        return {one["metadata"]["name"] for one in self.of(kind)}

    def environment(self, container: dict[str, Any]) -> dict[str, str]:
        """What a container finds in its environment."""
        found: dict[str, str] = {}
        for source in container.get("envFrom", ()):
            if "configMapRef" in source:
                found |= self.config_maps.get(source["configMapRef"]["name"], {})
        for one in container.get("env", ()):
            if "valueFrom" in one:  # the pod's own name; that of the first
                assert one["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
                found[one["name"]] = f"{container['name']}-0"
            else:
                value = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], one["value"])
                found[one["name"]] = value
        return found

    def settings(self, container: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
        """The settings file that a container's command names."""
        path = Path(container["args"][container["args"].index("--config") + 1])
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        config = volumes[mounts[str(path.parent)]]["configMap"]["name"]
        return tomllib.loads(self.config_maps[config][path.name])


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    """The pod of a Deployment, a StatefulSet or a CronJob, with the volumes that are claimed."""
    spec: dict[str, Any] = workload["spec"]
    if workload["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    claims = [{"name": claim["metadata"]["name"]} for claim in spec.get("volumeClaimTemplates", ())]
    pod: dict[str, Any] = spec["template"]["spec"]
    return pod | {"volumes": [*pod["volumes"], *claims]}
