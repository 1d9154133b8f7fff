"""Which planes of a profile are devices, which are hosts, and what their lines are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fixtures.xla.writer import Plane, space
from mpg_parsers.xla import xplane
from mpg_parsers.xla.planes import OPS, devices, hosts, named

if TYPE_CHECKING:
    from mpg_parsers.xla.space import Space


def read(*names: str) -> Space:
    return xplane.read(memoryview(space(Plane(name) for name in names)), "p")


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("/device:TPU:0", ("TPU", 0)),
        ("/device:TPU:31", ("TPU", 31)),
        ("/device:TPU:3 SparseCore 1", ("TPU", 3)),
        ("/device:GPU:7", ("GPU", 7)),
        ("/job:worker/replica:0/task:0/device:TPU:2", ("TPU", 2)),
        ("/device:GPU:0 (NVIDIA H100)", ("GPU", 0)),
        ("/device:GPU:999999999", ("GPU", 999_999_999)),
        ("/device:GPU:9999999999", None),  # no number of a device
        ("/device:GPU:99999999999999999999999", None),
        ("/device:GPU:-1", None),
        ("/device:GPU:", None),
        ("/device:GPU:1x", None),
        ("/device:CPU:0", None),
        ("/device:CUSTOM:Megascale Trace", None),
        ("/device:CUSTOM:GPU:0", None),
        ("#Chip TPU Non-Core HLO MSA#", None),
        ("/host:CPU", None),
        ("Task Environment", None),
        ("device:TPU", None),
        ("", None),
    ],
)
def test_devices(name: str, device: tuple[str, int] | None) -> None:
    assert [(each.kind, each.number) for each in devices(read(name, "x"))] == ([device] if device else [])


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("/host:CPU", True),
        ("/host:python-tracer", True),
        ("/job:localhost/host:CPU", True),
        ("/host:metadata", False),
        ("/device:TPU:0", False),
        ("Task Environment", False),
        ("host", False),
    ],
)
def test_hosts(name: str, host: bool) -> None:
    assert [plane.name for plane in hosts(read(name))] == ([name] if host else [])


def test_the_parts_of_a_device_are_one() -> None:
    """By number, not as texts; a plane that is there twice counts twice."""
    names = ("/device:TPU:10", "/device:TPU:2", "/device:TPU:2 SparseCore 0", "/device:TPU:10")
    found = devices(read(*names))
    assert [(each.number, [plane.name for plane in each.planes]) for each in found] == [
        (2, ["/device:TPU:2", "/device:TPU:2 SparseCore 0"]),
        (10, ["/device:TPU:10", "/device:TPU:10"]),
    ]


def test_lines() -> None:
    plane = Plane("/device:TPU:0")
    for name in ("XLA Ops", "Steps", "XLA Ops", "SC Ops"):
        plane.line(name, 7).add("x", 0, 1)
    plane.line("XLA Ops", 9)
    plane.line("XLA Ops extra", 9).add("x", 0, 1)
    (device,) = devices(xplane.read(memoryview(space([plane])), "p"))
    assert [line.name for _, line in device.lines(*OPS)] == ["XLA Ops", "XLA Ops", "SC Ops"]
    assert device.streams() == []


def test_streams() -> None:
    plane = Plane("/device:GPU:0")
    names = (
        "Stream #13(Compute,MemcpyH2D)",
        "Stream #0",
        "Stream #",
        "XLA Ops",
        "Stream #12345678901234567890",
    )
    for name in names:
        plane.line(name).add("k", 0, 1)
    plane.line("Stream #5")
    (device,) = devices(xplane.read(memoryview(space([plane])), "p"))
    assert [number for _, _, number in device.streams()] == [13, 0]


def test_names_in_a_message() -> None:
    planes = read(*(f"plane {n}" for n in range(11)), "x" * 1_000).planes
    assert named(planes[:2]) == "plane 0, plane 1"
    assert named(planes).endswith("plane 7 and 4 more")
    assert named(planes[-1:]) == "x" * 60
    assert named([]) == ""
