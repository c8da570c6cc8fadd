"""The ten repos of the completion contract, as the document has them."""

from __future__ import annotations

DEPENDS_ON: dict[str, list[str]] = {
    "acdc-core": [],
    "alphavm": ["acdc-core"],
    "deltavm": ["acdc-core"],
    "adnet": ["alphavm", "deltavm", "acdc-core"],
    "alphaos": ["alphavm", "acdc-core"],
    "deltaos": ["deltavm", "acdc-core"],
    "ac-dc": ["adnet"],
    "adl": ["acdc-core"],
    "adl-examples": ["adl"],
    "sdk": [],
}
CAN_PARALLEL = [
    ("alphavm", "deltavm"),
    ("alphavm", "adl"),
    ("deltavm", "adl"),
    ("alphaos", "deltaos"),
    *(("sdk", other) for other in DEPENDS_ON if other != "sdk"),
]
CANNOT_PARALLEL = [
    ("alphavm", "adnet"),
    ("alphavm", "alphaos"),
    ("deltavm", "adnet"),
    ("deltavm", "deltaos"),
    ("acdc-core", "alphavm"),
    ("acdc-core", "deltavm"),
    ("adnet", "ac-dc"),
]
