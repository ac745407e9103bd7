"""One layer out of many: an engine stops at 125 of them, and a long rollout is frozen more often."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swe_sdk.sandbox.leases import LABEL_LEASE, LABEL_OWNER
from swe_sdk.sandbox.providers.docker.container import BOX_KIND, KIND, SNAPSHOT_CREATED, name_of


def flattened(api: Any, image: str, labels: Mapping[str, str]) -> str:
    """The id of an image with the files and settings of ``image`` in two layers. Blocks as long as it takes to copy.

    What is made on the way has the labels by which a reaper finds it, and is gone when this returns.
    """
    kept = {name: labels[name] for name in (KIND, SNAPSHOT_CREATED, LABEL_LEASE, LABEL_OWNER)}
    config = api.inspect_image(image)["Config"]
    files = _copied(api, image, kept)
    container = _container(api, files, kept)
    try:
        made: str = api.commit(container, pause=False, conf=config)["Id"]
    finally:
        api.remove_container(container, v=True)
    api.remove_image(image)
    return made


def _copied(api: Any, image: str, labels: Mapping[str, str]) -> str:
    """An image of one layer with the same files. The engine gives and takes them as one stream."""
    container = _container(api, image, labels)
    try:
        changes = [f"LABEL {name}={json.dumps(value)}" for name, value in labels.items()]
        told = api.import_image_from_data(api.export(container), changes=changes)
    finally:
        api.remove_container(container, v=True)
    return str(json.loads(told.strip().splitlines()[-1])["status"])


def _container(api: Any, image: str, labels: Mapping[str, str]) -> str:
    """One that never runs."""
    labels = {**labels, KIND: BOX_KIND}
    request = {"Image": image, "Entrypoint": ["none"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}}
    return str(api.create_container_from_config(request, name_of(labels[LABEL_LEASE]))["Id"])
