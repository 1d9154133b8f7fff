"""What the document around the events says, however odd it is."""

from __future__ import annotations

import polars as pl
import pytest

from mpg_parsers.kineto import metadata

OPS = pl.DataFrame({"process": [None], "device": [0]}, schema={"process": pl.Int64, "device": pl.Int64})


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, "PyTorch"),
        ({"cuda_runtime_version": 12040}, "PyTorch (CUDA 12.4)"),
        ({"hip_runtime_version": 70226015}, "PyTorch (HIP 7.2)"),
        ({"cuda_runtime_version": "twelve"}, "PyTorch"),
    ],
)
def test_framework(document: dict[str, object], expected: str) -> None:
    assert metadata.framework(document) == expected


ODD: list[object] = [
    None,
    5,
    "x",
    [],
    {},
    [None, 5, "x", [], {}],
    [{"id": 0, "name": 5, "numSms": "many"}],
    True,
    1.5,
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_values_become_nulls(odd: object) -> None:
    document = {
        "deviceProperties": odd,
        "distributedInfo": odd,
        "host_name": odd,
        "cuda_runtime_version": odd,
    }
    devices = metadata.devices(OPS, document)
    assert devices.select("device", "name", "sm_count").rows() == [(0, None, None)]
    fields = metadata.source_fields(document, keep_names=True)
    assert fields["rank"] is None
    assert isinstance(fields["host"], str | None)


@pytest.mark.parametrize(
    ("value", "rank"), [(3, 3), ("3", 3), (None, None), (True, None), (2**70, None), ("x", None), (1.0, None)]
)
def test_rank(value: object, rank: int | None) -> None:
    fields = metadata.source_fields({"distributedInfo": {"rank": value}}, keep_names=False)
    assert fields["rank"] == rank


HOSTS = {
    "node7": "9be35e6e49c5",
    "gpu-a100-017.cluster.example.org": "9d7e71842ff4",
    "": None,
    "localhost": None,
    "LOCALHOST.localdomain": None,
    7: None,
    None: None,
}


@pytest.mark.parametrize(("host", "node"), HOSTS.items())
def test_node(host: object, node: str | None) -> None:
    assert metadata.source_fields({"host_name": host}, keep_names=False)["node"] == node


def test_properties() -> None:
    listed = {
        "id": 0,
        "name": "NVIDIA H100",
        "totalGlobalMem": 84_955_365_376,
        "computeMajor": 9,
        "computeMinor": 0,
    }
    row = metadata.devices(OPS, {"deviceProperties": [listed | {"numSms": 132}]}).row(0, named=True)
    assert row == {
        "process": None, "device": 0, "uuid": None, "name": "NVIDIA H100", "memory_bytes": 84_955_365_376,
        "sm_count": 132, "compute_capability": "9.0",
    }  # fmt: skip


def test_half_a_surrogate_pair_in_the_version() -> None:
    assert metadata.source_fields({"schemaVersion": "1\ud800"}, keep_names=False)["format_version"] == "1?"


def test_half_a_surrogate_pair_in_a_name() -> None:
    row = metadata.devices(OPS, {"deviceProperties": [{"id": 0, "name": "H\ud800"}]}).row(0, named=True)
    assert row["name"] == "H?"
