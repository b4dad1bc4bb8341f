"""The bill of materials of a wheel: CycloneDX 1.6 in JSON, for .dist-info/sboms (PEP 770).

The same wheel has the same bill: no random number and no clock is in it.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib.metadata
import json
import uuid
from datetime import UTC, datetime
from typing import Any

from libraries import LIBRARIES, UPLOT

TOOLS = ("ziglang", "meson", "meson-python", "ninja", "wheel")  # they make the bytes


def component(name: str, version: str, license_id: str, purl: str, sha256: str) -> dict[str, Any]:
    """Return what is known about one part."""
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{"license": {"id": license_id}}],
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": sha256}],
    }


def parts() -> list[dict[str, Any]]:
    """Return all that is linked or embedded."""
    found = []
    for name, one in LIBRARIES.items():
        about = component(
            name,
            one.upstream,
            one.license,
            f"pkg:deb/debian/{name}@{one.version.replace('+', '%2B')}?arch=source",
            one.sha256,
        )
        about["externalReferences"] = [{"type": "website", "url": one.home}]
        about["properties"] = [
            {"name": "tensortap:linked", "value": "statically" if one.sources else "as a header"},
            {"name": "tensortap:hash-of", "value": f"{name}_{one.version}.dsc"},
        ]
        found.append(about)
    version, sha256, license_id = UPLOT
    chart = component("uplot", version, license_id, f"pkg:npm/uplot@{version}", sha256)
    chart["properties"] = [
        {"name": "tensortap:linked", "value": "its script is in every page"},
        {"name": "tensortap:hash-of", "value": "dist/uPlot.iife.js"},
    ]
    return [*found, chart]


def bill(wheel: str, version: str, commit: str, epoch: int) -> str:
    """Return the bill of one wheel as text."""
    own = f"pkg:pypi/tensortap@{version}"
    components = parts()
    about: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": "urn:uuid:",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "tools": {
                "components": [
                    {
                        "type": "application",
                        "name": tool,
                        "version": importlib.metadata.version(tool),
                    }
                    for tool in TOOLS
                ]
            },
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "tensortap",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": own,
                "properties": [
                    {"name": "tensortap:commit", "value": commit},
                    {"name": "tensortap:wheel", "value": wheel},
                ],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": [one["bom-ref"] for one in components]},
            *({"ref": one["bom-ref"]} for one in components),
        ],
    }
    about["serialNumber"] += str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(about)))
    return json.dumps(about, indent=1) + "\n"
