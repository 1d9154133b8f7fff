"""Settings: where they come from, which comes first, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpg_cli.config import KEYS, Settings, load, parse_price, parse_size
from mpg_parsers.errors import UsageError
from tests.mpg_cli.running import analyze, event, kernel, trace


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder and environment."""
    monkeypatch.chdir(tmp_path)
    for _, variable in KEYS.values():
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def settings(explicit: Path | None = None, **flags: Any) -> Settings:
    return load(explicit, flags)


def refused(text: str, name: str = "mpg.toml") -> str:
    write(name, text)
    with pytest.raises(UsageError) as caught:
        settings()
    return caught.value.message


def test_defaults() -> None:
    assert settings() == Settings()


def test_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    write("pyproject.toml", '[tool.mpg.analyze]\nwindow = "device"\n')
    assert settings().window == "device"
    write("mpg.toml", '[analyze]\nwindow = "all"\n')
    assert settings().window == "all"
    explicit = write("ci/other.toml", '[analyze]\nview = "fleet-paper"\n')
    assert (settings(explicit).window, settings(explicit).view) == ("steps", "fleet-paper")
    monkeypatch.setenv("MPG_WINDOW", "device")
    assert settings().window == "device"
    assert settings(window="steps").window == "steps"
    assert settings(window=None).window == "device"
    monkeypatch.setenv("MPG_WINDOW", "")
    assert settings().window == "all"


def test_mpg_toml_hides_pyproject_as_a_whole() -> None:
    write("pyproject.toml", '[tool.mpg.analyze]\nview = "fleet-paper"\n')
    write("mpg.toml", "")
    assert settings() == Settings()


@pytest.mark.parametrize("text", ["", "[tool]", "[tool.other]\nx = 1", "tool = 3", "[tool.mpg]"])
def test_a_pyproject_that_says_nothing_of_mpg(text: str) -> None:
    write("pyproject.toml", text)
    assert settings() == Settings()


def test_every_setting() -> None:
    write(
        "mpg.toml",
        """
        [analyze]
        window = "all"
        view = "fleet-paper"
        step-regex = 'step\\['
        keep-names = true
        jobs = 3
        chip = "H100 SXM"
        pg-basis = "roofline"
        useful-tokens = 0.85
        flops-per-step = 1.2e15
        price = "2.50/chip-hour"
        chips = 1024
        per-step = true
        by = ["rank", "op"]
        [cache]
        enabled = false
        dir = "/var/cache/mpg"
        limit = "512 MiB"
        [[name]]
        id = "ring"
        class = "comm"
        family = "custom"
        pattern = "^acme_"
        [[idle]]
        id = "loader"
        cause = "input"
        pattern = "^acme_next"
        kinds = ["annotation"]
        [[model]]
        op = "acme::moe"
        flops = "n"
        dims = { n = 3 }
        [[chip]]
        name = "Acme X1"
        """,
    )
    assert settings() == Settings(
        window="all",
        view="fleet-paper",
        step_regex=r"step\[",
        keep_names=True,
        cache_enabled=False,
        cache_dir="/var/cache/mpg",
        cache_limit=512 << 20,
        jobs=3,
        chip="H100 SXM",
        pg_basis="roofline",
        useful_tokens=0.85,
        flops_per_step=1.2e15,
        name_rules=({"id": "ring", "class": "comm", "family": "custom", "pattern": "^acme_"},),
        price=2.5,
        job_chips=1024,
        per_step=True,
        by=("rank", "op"),
        idle_rules=({"id": "loader", "cause": "input", "pattern": "^acme_next", "kinds": ["annotation"]},),
        models=({"op": "acme::moe", "flops": "n", "dims": {"n": 3}},),
        chips=({"name": "Acme X1"},),
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("nsys", "nsys"),
        ("tools/nsys", "ci/tools/nsys"),
        ("../nsys", "ci/../nsys"),
        ("/opt/nsys", "/opt/nsys"),
    ],
)
def test_the_program_is_found_from_the_folder_of_a_named_file(written: str, expected: str) -> None:
    assert settings(write("ci/mpg.toml", f'[analyze]\nnsys = "{written}"')).nsys == expected


@pytest.mark.parametrize(("name", "section"), [("mpg.toml", ""), ("pyproject.toml", "tool.mpg.")])
def test_a_folder_does_not_say_which_program_is_run(name: str, section: str) -> None:
    assert "analyze.nsys: a program is run only if" in refused(f'[{section}analyze]\nnsys = "nsys"', name)
    assert "expected a text, got 3" in refused(f"[{section}analyze]\nnsys = 3", name)
    Path(name).unlink()
    assert settings(nsys="./nsys").nsys == "./nsys"


def test_every_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "window": "all",
        "view": "fleet-paper",
        "step_regex": "x",
        "keep_names": "yes",
        "cache_enabled": "0",
        "cache_dir": "here",
        "cache_limit": "1KiB",
        "jobs": "2",
        "nsys": "nsys-2026",
        "chip": "H200",
        "pg_basis": "achievable",
        "useful_tokens": "0.5",
        "flops_per_step": "3e12",
        "price": "2.5",
        "job_chips": "8",
        "per_step": "on",
        "by": "module, op,module",
        "tz": "UTC",
        "capacity": "512",
        "size_classes": "8,64,512",
        "mapping": "chips=gpus",
        "segment": "label:team",
        "redact": "1",
    }
    for name, variable in KEYS.values():
        monkeypatch.setenv(variable, values[name])
    read = {"keep_names": True, "cache_enabled": False, "cache_limit": 1024, "jobs": 2}
    read |= {"mapping": ("chips=gpus",), "segment": ("label:team",), "redact": True}
    read |= {"per_step": True, "by": ("module", "op"), "job_chips": 8, "price": 2.5}
    assert settings() == Settings(**values | read | {"useful_tokens": 0.5, "flops_per_step": 3e12})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[analyze]\nwindwo = 1",
            ["mpg.toml", "unknown setting 'analyze.windwo'", "did you mean 'analyze.window'?"],
        ),
        ("[anlayze]\nwindow = 'all'", ["unknown setting 'anlayze'", "did you mean 'analyze'?"]),
        ("window = 'all'", ["unknown setting 'window'"]),
        ("[cache]\nsize = 3", ["unknown setting 'cache.size'"]),
        ("[[name]]\npatern = 'x'", ["unknown setting 'patern'", "did you mean 'pattern'?"]),
        (
            "[analyze]\nwindow = 'step'",
            ["mpg.toml: analyze.window", "'step' is none of steps, device, all", "'steps'?"],
        ),
        ("[analyze]\nwindow = ['steps']", ["is none of steps, device, all"]),
        ("[analyze]\nview = 3", ["3 is none of default, fleet-paper"]),
        ("[analyze]\nkeep-names = 'maybe'", ["expected true or false, got 'maybe'"]),
        ("[analyze]\nkeep-names = 2", ["expected true or false, got 2"]),
        ("[analyze]\nstep-regex = 3", ["expected a text, got 3"]),
        ("[analyze]\nchip = 3", ["expected a text, got 3"]),
        ("[analyze]\npg-basis = 'peek'", ["'peek' is none of peak, roofline, achievable", "mean 'peak'?"]),
        ("[analyze]\njobs = -1", ["mpg.toml: analyze.jobs: expected a whole number from 0 to 64, got -1"]),
        ("[analyze]\njobs = 65", ["expected a whole number from 0 to 64, got 65"]),
        ("[analyze]\njobs = 1.5", ["expected a whole number from 0 to 64, got 1.5"]),
        ("[analyze]\njobs = true", ["expected a whole number from 0 to 64, got True"]),
        ("[analyze]\njobs = inf", ["expected a whole number from 0 to 64, got inf"]),
        ("[analyze]\nuseful-tokens = 85", ["expected a number from 0 to 1, got 85"]),
        ("[analyze]\nuseful-tokens = nan", ["expected a number from 0 to 1, got nan"]),
        ("[analyze]\nuseful-tokens = 'most'", ["expected a number from 0 to 1, got 'most'"]),
        ("[analyze]\nflops-per-step = 0", ["expected a number from 1 to 1e+24, got 0"]),
        ("[analyze]\nflops-per-step = []", ["expected a number from 1 to 1e+24, got []"]),
        ("[analyze]\nchips = 0", ["analyze.chips: expected a whole number from 1 to 1e+07, got 0"]),
        ("[analyze]\nchips = 2.5", ["expected a whole number from 1 to 1e+07, got 2.5"]),
        ("[analyze]\nper-step = 'maybe'", ["expected true or false, got 'maybe'"]),
        (
            "[analyze]\nby = 'modul'",
            ["'modul' is none of module, op, kernel, stream, category, rank", "'module'?"],
        ),
        ("[analyze]\nby = ['op', 3]", ["3 is none of module, op, kernel, stream, category, rank"]),
        ("[analyze]\nby = 3", ["expected a list of module, op, kernel, stream, category, rank, got 3"]),
        ("[[idle]]\ncauses = 'input'", ["unknown setting 'causes'", "did you mean 'cause'?"]),
        ("model = 3", ["[[model]] must be a table"]),
        ("chip = 'H100'", ["[[chip]] must be a table"]),
        ("[[modle]]\nop = 'x'", ["unknown setting 'modle'", "did you mean 'model'?"]),
        ("[cache]\ndir = 3", ["expected a text, got 3"]),
        ("[cache]\nlimit = 'lots'", ["expected a size such as 4GiB, got 'lots'"]),
        ("[cache]\nlimit = true", ["expected a size such as 4GiB, got True"]),
        ("analyze = 3", ["[analyze] must be a table"]),
        ("name = 3", ["[[name]] must be a table"]),
        ("name = ['x']", ["[[name]] must be a table"]),
        ("[analyze", ["mpg.toml: "]),
    ],
)
def test_refused(text: str, words: list[str]) -> None:
    message = refused(text)
    assert [word for word in words if word not in message] == []


def test_refused_in_pyproject() -> None:
    assert refused("[tool.mpg.analyze]\nx = 1", "pyproject.toml").startswith(
        "pyproject.toml [tool.mpg]: unknown"
    )
    assert refused("[tool]\nmpg = 3", "pyproject.toml") == "pyproject.toml: [tool.mpg] must be a table"


def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml: No such file"):
        settings(Path("nowhere.toml"))
    Path("mpg.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"mpg\.toml: "):
        settings()


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("MPG_WINDOW", "step", "MPG_WINDOW: 'step' is none of"),
        ("MPG_KEEP_NAMES", "perhaps", "MPG_KEEP_NAMES: expected true or false"),
        ("MPG_CACHE_LIMIT", "4GB", "MPG_CACHE_LIMIT: expected a size"),
        ("MPG_JOBS", "all", "MPG_JOBS: expected a whole number from 0 to 64, got 'all'"),
        ("MPG_USEFUL_TOKENS", "85%", "MPG_USEFUL_TOKENS: expected a number from 0 to 1"),
    ],
)
def test_refused_in_the_environment(
    variable: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError) as caught:
        settings()
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("window", "step", "--window: 'step' is none of"),
        ("jobs", -1, "--jobs: expected a whole number from 0 to 64, got -1"),
        ("pg_basis", "rooflin", r"--pg-basis: 'rooflin' is none of .*; did you mean 'roofline'\?"),
        ("useful_tokens", 1.01, "--useful-tokens: expected a number from 0 to 1, got 1.01"),
        ("flops_per_step", 0.5, r"--flops-per-step: expected a number from 1 to 1e\+24, got 0.5"),
    ],
)
def test_refused_on_the_command_line(flag: str, value: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        settings(**{flag: value})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("512", 512),
        (512, 512),
        ("1B", 1),
        ("2KiB", 2048),
        (" 3 MiB ", 3 << 20),
        ("4GiB", 4 << 30),
        ("1TiB", 1 << 40),
    ],
)
def test_sizes(value: object, expected: int) -> None:
    assert parse_size(value, "x") == expected


@pytest.mark.parametrize("value", ["", "-1", "1.5GiB", "GiB", "1 GB", "9" * 16, True, 1.5, None, []])
def test_what_is_no_size(value: object) -> None:
    with pytest.raises(UsageError, match="expected a size"):
        parse_size(value, "x")


@pytest.mark.parametrize(
    ("value", "expected"), [("cache", "ci/cache"), ("/abs", "/abs"), ("../c", "ci/../c")]
)
def test_a_relative_folder_starts_from_the_settings_file(value: str, expected: str) -> None:
    assert settings(write("ci/mpg.toml", f'[cache]\ndir = "{value}"')).cache_dir == expected


def test_the_home_of_a_folder_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert settings(write("ci/mpg.toml", '[cache]\ndir = "~/c"')).cache_dir == "/home/me/c"


def test_a_rule_on_names_changes_what_a_kernel_is(here: Path) -> None:
    path = write("a.json", trace(kernel(0, 10, "acme_ring_step"), kernel(20, 30)))
    assert analyze(path).report["devices"][0]["comm_ns"] == 0
    write("mpg.toml", '[[name]]\nid = "our-ring"\nclass = "comm"\nfamily = "custom"\npattern = "^acme_"')
    found = analyze(path).report
    assert found["devices"][0]["comm_ns"] == 10_000
    assert {"rule": "our-ring", "kind": "comm", "count": 1, "time_ns": 10_000, "share": 0.25} in found[
        "name_rules"
    ]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ('id = "x"\nclass = "comm"\nfamily = "c"\npattern = "("', "bad pattern"),
        ('id = "x"\nclass = "fast"\nfamily = "c"\npattern = "x"', "none of compute, comm, memory"),
        ('id = "x"\nclass = "comm"\npattern = "x"', "needs 'family'"),
    ],
)
def test_a_rule_that_is_none_is_refused_before_anything_is_read(rule: str, words: str) -> None:
    write("mpg.toml", f"[[name]]\n{rule}")
    found = analyze("nowhere.json")
    assert found.status == 2
    assert found.err.startswith("error[usage]: name rule 'x': ")
    assert words in found.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[model]]\nflops = '3'", "a [[model]] needs 'op'"),
        ("[[model]]\nop = 'x::y'", "model 'x::y': flops: no formula"),
        ("[[model]]\nop = 'x::y'\nflops = 'm'", "model 'x::y': flops: unknown name 'm'"),
        ("[[model]]\nop = 'x::y'\nflop = '3'", "model 'x::y': unknown key 'flop'"),
        ("[[model]]\nop = 'x'\nflops = '1'\n[[model]]\nop = 'x'\nflops = '2'", "'x' is declared twice"),
        ("[[chip]]\nbandwidth-gbps = 3", "[[chip]] 1"),
        ("[[chip]]\nname = 'X1'\nmatrix = { bf16 = -3 }", "[[chip]] 1"),
        ("[analyze]\nchip = 'H1000'", "no chip 'H1000'; did you mean"),
    ],
)
def test_a_model_or_chip_that_is_none_is_refused_before_anything_is_read(text: str, words: str) -> None:
    write("mpg.toml", text)
    found = analyze("nowhere.json")
    assert found.status == 2
    assert found.err.startswith("error[usage]: ")
    assert words in found.err


def test_models_and_chips_of_the_settings_judge() -> None:
    moe = event("cpu_op", "acme::moe", 0, 5, tid=1, **{"External id": 1, "Input Dims": [[10, 20]]})
    path = write("a.json", trace(moe, kernel(20, 4, "moe_kernel", **{"External id": 1})))
    write(
        "mpg.toml",
        """
        [analyze]
        chip = "Acme X1"
        [[model]]
        op = "acme::moe"
        flops = "m * 100"
        dims = { m = "0.1" }
        dtype = "c10::BFloat16"
        [[chip]]
        name = "Acme X1"
        matrix = { bf16 = 0.001 }
        """,
    )
    pg = analyze(path).report["goodput"]["pg"]
    assert pg == {"value": 0.5, "numerator_ns": 2000, "denominator_ns": 4000, "coverage": 1.0} | {
        "basis": "bf16 peak of Acme X1"
    }
    assert analyze(path, "--chip", "B200").report["goodput"]["pg"]["basis"] == "bf16 peak of B200 SXM"


def test_a_formula_that_fails_on_a_call_is_the_users() -> None:
    moe = event("cpu_op", "acme::moe", 0, 5, tid=1, **{"External id": 1, "Input Dims": [[0]]})
    path = write("a.json", trace(moe, kernel(20, 4, "moe_kernel", **{"External id": 1})))
    write("mpg.toml", "[[model]]\nop = 'acme::moe'\nflops = '3 // m'\ndims = { m = '0.0' }")
    found = analyze(path, "--chip", "B200")
    assert (found.status, found.out) == (2, "")
    assert "model 'acme::moe': flops: " in found.err


@pytest.mark.parametrize(
    ("text", "price"),
    [("2.50/chip-hour", 2.5), ("2.50", 2.5), (" 3 ", 3.0), (2.5, 2.5), (4, 4.0), ("0.000000001", 1e-9)],
)
def test_price(text: object, price: float) -> None:
    assert parse_price(text, "--price") == price


@pytest.mark.parametrize(
    "text",
    [
        "",
        "free",
        "-1",
        "$2.50",
        "2,50",
        "2.50/hour",
        "2.50/chip-hours",
        "1e3",
        "nan",
        "inf",
        "²",
        True,
        [2],
        1e300,
    ],
)
def test_no_price(text: object) -> None:
    with pytest.raises(UsageError, match=r"^--price: expected a price such as 2\.50/chip-hour, got "):
        parse_price(text, "--price")


def test_flags_are_named_as_they_are_written() -> None:
    with pytest.raises(UsageError, match=r"^--chips: expected a whole number"):
        settings(job_chips=0)
    with pytest.raises(UsageError, match=r"^--by: 'modules' is none of"):
        settings(by=["op", "modules"])
