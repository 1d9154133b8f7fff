"""Names and properties that traces report, and the chips they mean."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpg_cli.hardware import find, lookup

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus beside the repository")

BY_NAME = {
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H800": "H100 SXM",
    "NVIDIA H200": "H200 SXM",
    "NVIDIA H20": "H20",
    "NVIDIA GH200 480GB": "GH200 96GB",
    "NVIDIA GH200 144G HBM3e": "GH200 144GB",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB",
    "A100-SXM4-80GB": "A100 SXM 80GB",
    "nvidia a100 sxm4 80gb": "A100 SXM 80GB",
    "NVIDIA A800-SXM4-80GB": "A100 SXM 80GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB",
    "NVIDIA A100-SXM4-40GB": "A100 40GB",
    "NVIDIA A100-PG509-200": "A100 40GB",
    "Tesla V100-SXM2-16GB": "V100 SXM2 16GB",
    "Tesla V100-SXM2-32GB": "V100 SXM2 32GB",
    "Tesla V100-DGXS-32GB": "V100 SXM2 32GB",
    "Tesla T4": "T4",
    "NVIDIA L40S": "L40S",
    "NVIDIA L4": "L4",
    "NVIDIA B200": "B200 SXM",
    "NVIDIA B300 SXM6 AC": "B300 SXM",
    "NVIDIA GB200": "GB200",
    "GeForce RTX 4090": "RTX 4090",
    "AMD Instinct MI300X": "MI300X",
    "AMD Instinct™ MI300X": "MI300X",
    "AMD Instinct MI300X VF": "MI300X",
    "AMD Instinct MI325X": "MI325X",
    "AMD Instinct MI250X": "MI250X GCD",
    "AMD Instinct MI250": "MI210 / MI250 GCD",
    "AMD Instinct MI210": "MI210 / MI250 GCD",
    "TPU v6 lite": "TPU v6e",
    "TPU v6 Lite": "TPU v6e",
    "TPU v5 lite": "TPU v5e",
    "TPU v5": "TPU v5p",
    "TPU v5p": "TPU v5p",
    "TPU v4": "TPU v4",
    "TPU v3": "TPU v3 core",
    "TPU v2": "TPU v2 core",
    "TPU7x": "TPU7x core",
}


@pytest.mark.parametrize("name", BY_NAME)
def test_by_name(name: str) -> None:
    found = lookup(name)
    assert (found.chip and found.chip.name, found.by, found.reason) == (BY_NAME[name], "name", "by its name")
    assert find(f"  {name.upper()} ") is found.chip


GiB = 2**30
BY_PROPERTIES = [  # name, compute capability, units, bytes: chip, by
    ("", "9.4", 304, 206141652992, "MI300X", "properties"),
    (None, "9.4", 304, 192 * GiB, "MI300X", "properties"),
    ("", "9.4", 304, 256 * GiB, "MI325X", "properties"),
    ("AMD Radeon Graphics", "9.4", 304, 206141652992, "MI300X", "properties"),
    ("AMD Radeon Graphics", "9.0", 104, 68702699520, "MI210 / MI250 GCD", "properties"),
    ("AMD Radeon Graphics", "9.0", 110, 64 * GiB, "MI250X GCD", "properties"),
    ("AMD Radeon Graphics", "9.0", 110, None, "MI250X GCD", "properties"),
    ("AMD Radeon Graphics", "9.5", 256, 288 * GiB, "MI355X", "properties"),
    ("AMD Instinct MI250X / MI250", "9.0", 104, None, "MI210 / MI250 GCD", "name and properties"),
    ("AMD Instinct MI250X / MI250", "9.0", 110, None, "MI250X GCD", "name and properties"),
    ("v100-sxm", "7.0", 80, 16945512448, "V100 SXM2 16GB", "name and properties"),
    ("", "8.0", 108, 42297524224, "A100 40GB", "properties"),
    ("", "9.0", 132, 85018279936, "H100 SXM", "properties"),
]


@pytest.mark.parametrize(("name", "capability", "units", "size", "chip", "by"), BY_PROPERTIES)
def test_by_properties(name, capability, units, size, chip, by) -> None:
    found = lookup(name, compute_capability=capability, sm_count=units, memory_bytes=size)
    assert (found.chip and found.chip.name, found.by) == (chip, by)
    assert f"compute capability {capability}, {units} units" in found.reason


UNDECIDED = [  # name, compute capability, units, bytes, what the reason says
    ("", None, None, None, "not stated"),
    (None, "9.4", None, 206141652992, "not stated"),
    ("AMD Radeon Graphics", None, None, 68702699520, "not stated"),
    (
        "AMD Radeon Graphics",
        "11.0",
        96,
        48 * GiB,
        "no chip in the catalogue has compute capability 11.0, 96 units",
    ),
    ("AMD Radeon Graphics", "9.0", 132, 80 * GiB, "no chip in the catalogue"),  # an H100's properties
    ("", "9.4", 304, None, "may be MI300X or MI325X"),
    ("", "9.4", 304, 64 * GiB, "no chip in the catalogue"),
    ("", "8.0", 108, 80 * GiB, "may be A100 SXM 80GB or A100 PCIe 80GB"),
    ("", "9.0", 132, 141 * GiB, "may be H200 SXM or GH200 144GB"),
    (
        "AMD Instinct MI250X / MI250",
        None,
        None,
        None,
        "no properties: may be MI250X GCD or MI210 / MI250 GCD",
    ),
    ("AMD Instinct MI250X / MI250", "9.0", None, 64 * GiB, "may be MI250X GCD or MI210 / MI250 GCD"),
    ("v100-sxm", "7.0", 80, None, "may be V100 SXM2 16GB or V100 SXM2 32GB"),
    ("A100", None, None, None, "may be A100 SXM 80GB, A100 PCIe 80GB or A100 40GB"),
    ("NVIDIA H100", None, None, None, "may be H100 SXM, H100 PCIe or H100 NVL"),
    ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "9.0", 16, 10 * GiB, "a MIG instance"),
    ("NVIDIA H100 80GB HBM3", "9.0", 16, 10 * GiB, "16 of the 132 units of H100 SXM"),
    ("AMD Instinct MI300X", "9.4", 38, 24 * GiB, "38 of the 304 units of MI300X: a partition"),
    ("AMD Instinct MI300X", None, 38, None, "a partition"),
    ("NVIDIA H200 NVL", None, None, None, "'NVIDIA H200 NVL' is not in the catalogue"),
    ("NVIDIA\nL4\x1b[2J evil", None, None, None, r"'NVIDIA\nL4\x1b[2J evil' is not"),
    ("x" * 100_000, None, None, None, "is not in the catalogue"),
]


@pytest.mark.parametrize(("name", "capability", "units", "size", "reason"), UNDECIDED)
def test_no_guess(name, capability, units, size, reason) -> None:
    found = lookup(name, compute_capability=capability, sm_count=units, memory_bytes=size)
    assert (found.chip, found.by) == (None, "")
    assert reason in found.reason
    assert len(found.reason) < 200


def test_one_property_may_tell_two_chips_of_one_name_apart() -> None:
    found = lookup("v100-sxm", memory_bytes=34079899648)
    assert found.chip
    assert (found.chip.name, found.reason) == ("V100 SXM2 32GB", "by 32 GiB")


def test_a_name_outweighs_properties_of_another_architecture() -> None:
    found = lookup("AMD Instinct MI300X", compute_capability="8.0", sm_count=108, memory_bytes=84987740160)
    assert found.chip
    assert (found.chip.name, found.by) == ("MI300X", "name")


@given(st.text(max_size=300), st.none() | st.text(max_size=5), *[st.none() | st.integers(0, 2**63 - 1)] * 2)
def test_any_report_has_an_answer(name, capability, units, size) -> None:
    found = lookup(name, compute_capability=capability, sm_count=units, memory_bytes=size)
    assert (found.chip is None) == (found.by == "")
    assert found.reason


# names in the corpus that stay unresolved
UNRESOLVED = {
    "MTIA": "no published figures",
    "NVIDIA RTX A2000 12GB": "no sourced figures",
    "NVIDIA GeForce RTX 3080": "no sourced figures",
    "NVIDIA GeForce RTX 5060 Ti": "no sourced figures",
    "AMD Instinct MI350X": "no sourced figures: those in circulation are the MI355X's or sparse",
}


def traced_devices() -> set[tuple[str, str, int, int]]:
    """(name, compute capability, units, bytes) in the deviceProperties of every trace of the corpus."""
    found = set()
    for path in CORPUS.rglob("*.json*"):
        if path.suffix not in (".json", ".gz") or path.stat().st_size > 30 << 20:
            continue
        try:
            text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        except (OSError, EOFError):
            continue
        start = text.find(b'"deviceProperties"')
        if start < 0:
            continue
        listed = text[text.find(b"[", start) :][: 1 << 16].decode("utf-8", "replace")
        for device in json.JSONDecoder().raw_decode(listed)[0]:
            capability = f"{device.get('computeMajor')}.{device.get('computeMinor')}"
            found.add((device["name"], capability, device.get("numSms"), device.get("totalGlobalMem")))
    return found


def nsight_devices() -> set[tuple[str, str, int, int]]:
    found = set()
    for path in (CORPUS / "nsight" / "sqlite").glob("*.sqlite"):
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        tables = {row[0] for row in connection.execute("select name from sqlite_master")}
        if "TARGET_INFO_GPU" in tables:
            query = (
                "select name, computeMajor || '.' || computeMinor, smCount, totalMemory from TARGET_INFO_GPU"
            )
            found.update(connection.execute(query).fetchall())
        connection.close()
    return found


def other_names() -> set[str]:
    """Product names in the rocprofv3, XPlane and nvidia-smi files."""
    found = set()
    patterns = {
        "nsight/amd/*.json.gz": rb'"product_name": ?"(AMD Instinct [^"]+)"',
        "xla/*.xplane.pb": rb"(TPU v\d[ \w]*?)(?=2\x0b)",
        "telemetry/nvidia-smi_capture*.txt": rb"Product Name +: ([^\r\n]+)",
    }
    for glob, pattern in patterns.items():
        for path in CORPUS.glob(glob):
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            found |= {name.decode().strip() for name in re.findall(pattern, data)}
    return found


@needs_corpus
def test_every_device_in_the_corpus_is_known_or_knowingly_not() -> None:
    devices = traced_devices() | nsight_devices()
    names = {name for name, *_ in devices} | (others := other_names())
    assert len(devices) > 20
    assert others >= {"TPU v6 Lite", "AMD Instinct MI350X", "NVIDIA H200", "NVIDIA L40S"}
    unresolved = {name for name in others if find(name) is None}
    for name, capability, units, size in devices:
        if not find(name, compute_capability=capability, sm_count=units, memory_bytes=size):
            unresolved.add(name)
    assert unresolved == set(UNRESOLVED)
    assert names >= {"", "AMD Radeon Graphics", "NVIDIA A100-PG509-200", "AMD Instinct MI300X VF"}
