"""What may import what, what --help may load, and how large things may grow. The map is docs/design.md."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"mpg_cli": ROOT / "mpg_cli", "mpg_parsers": ROOT / "parsers/mpg_parsers"}
MODULES = {
    ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in PACKAGES.values()
    for path in sorted(folder.rglob("*.py"))
}
SOURCES = [
    *MODULES.values(),
    *sorted((ROOT / "fixtures").rglob("*.py")),
    *sorted((ROOT / "docs").rglob("*.py")),
]

# modules that begin so, ours that they may import, and other distributions (None: any runtime dependency);
# the first entry that fits a module counts
LEAVES = (
    "mpg_cli.__version__", "mpg_cli.messages", "mpg_parsers.errors", "mpg_parsers.columns", "mpg_parsers.tables",
    "mpg_parsers.launches", "mpg_parsers.scheduler_tables", "mpg_parsers.wall_times",
)  # fmt: skip
RULES: tuple[tuple[str, tuple[str, ...], set[str] | None], ...] = (
    ("mpg_parsers.errors", (), set()),
    ("mpg_parsers.columns", (), {"polars"}),
    ("mpg_parsers.scheduler_tables", ("mpg_parsers.columns",), set()),
    ("mpg_parsers.tables", ("mpg_parsers.columns", "mpg_parsers.scheduler_tables"), set()),
    ("mpg_parsers.wall_times", ("mpg_parsers.errors",), {"polars"}),
    ("mpg_parsers.launches", (), {"polars"}),
    ("mpg_parsers.xla", ("mpg_parsers",), {"polars", "msgspec", "google"}),
    ("mpg_parsers", ("mpg_parsers",), {"polars", "pyarrow", "msgspec", "isal"}),
    ("mpg_cli.messages", ("mpg_parsers.errors",), set()),
    ("mpg_cli.report", ("mpg_cli.report",), {"rich", "orjson", "msgspec"}),
    ("mpg_cli.hardware", ("mpg_cli.hardware", "mpg_parsers.errors"), set()),
    ("mpg_cli.goodput.taxonomy", LEAVES, set()),
    ("mpg_cli.goodput.intervals", (), {"polars"}),
    ("mpg_cli.goodput.models", ("mpg_cli.goodput.models", "mpg_parsers.errors"), {"orjson"}),
    (
        "mpg_cli.goodput",
        ("mpg_cli.goodput", "mpg_cli.hardware", "mpg_cli.store", *LEAVES),
        {"polars"},
    ),
    (
        "mpg_cli.findings",
        ("mpg_cli.findings", "mpg_cli.goodput", "mpg_cli.report", "mpg_cli.rows", *LEAVES),
        {"polars"},
    ),
    ("mpg_cli.rows", ("mpg_cli.rows", "mpg_cli.goodput", "mpg_cli.report", *LEAVES), {"polars"}),
    ("mpg_cli.scheduler", ("mpg_cli.scheduler", "mpg_cli.store", *LEAVES), {"polars"}),
    ("mpg_cli.checks", LEAVES, {"polars", "msgspec"}),
    ("mpg_cli.store", ("mpg_cli.checks", *LEAVES), None),
    ("mpg_cli.cache", ("mpg_cli.store", *LEAVES), set()),
    ("mpg_cli.config", LEAVES, set()),
    ("mpg_cli.options", (), {"typer"}),
    ("mpg_cli.__main__", ("mpg_cli", "mpg_parsers"), {"typer"}),
    ("mpg_cli", ("mpg_cli", "mpg_parsers"), None),
)
RUNTIME = {"typer", "rich", "polars", "pyarrow", "orjson", "msgspec", "isal"}  # and protobuf, as google
HEAVY = ("polars", "pyarrow", "rich.console", "msgspec", "orjson", "numpy", "google.protobuf")


def imports(path: Path) -> Iterator[str]:
    """The full name of everything a file imports; of `from a import b`, a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def offences(module: str, names: set[str]) -> list[str]:
    """What `module` imports and may not."""
    ours, others = next((ours, others) for prefix, ours, others in RULES if within(module, (prefix,)))
    allowed = RUNTIME if others is None else others
    bad = []
    for name in sorted(names):
        top = name.partition(".")[0]
        if top in PACKAGES:
            if not within(name, ours):
                bad.append(name)
        elif top not in sys.stdlib_module_names and top not in allowed:
            bad.append(name)
    return bad


@pytest.mark.parametrize("module", MODULES)
def test_imports(module: str) -> None:
    assert offences(module, set(imports(MODULES[module]))) == []


def test_nobody_imports_the_command_line() -> None:
    importers = [
        module for module, path in MODULES.items() if any(within(n, ("mpg_cli.cli",)) for n in imports(path))
    ]
    assert importers == ["mpg_cli.__main__"]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("mpg_parsers.pytorch", "mpg_cli.store"),
        ("mpg_parsers.errors", "polars"),
        ("mpg_cli.report.json", "polars"),
        ("mpg_cli.report.json", "mpg_cli.store.Dataset"),
        ("mpg_cli.goodput.ledger", "mpg_cli.report.model"),
        ("mpg_cli.goodput.ledger", "mpg_cli.commands"),
        ("mpg_cli.goodput.judging", "mpg_cli.report.model"),
        ("mpg_cli.goodput.judging", "mpg_cli.config"),
        ("mpg_cli.goodput.judging", "mpg_cli.ratios"),
        ("mpg_cli.goodput.models.gemm", "polars"),
        ("mpg_cli.goodput.models.gemm", "mpg_cli.hardware"),
        ("mpg_cli.hardware.catalogue", "polars"),
        ("mpg_cli.hardware.catalogue", "mpg_cli.goodput.models"),
        ("mpg_cli.analysis", "numpy"),
    ],
)
def test_an_import_in_the_wrong_direction_is_seen(module: str, name: str) -> None:
    assert offences(module, {name}) == [name]


def python(code: str) -> str:
    """What `code` prints in an interpreter of its own."""
    code = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'parsers')]!r}; {code}"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout


def test_the_command_line_loads_nothing_heavy() -> None:
    code = f"import mpg_cli.cli, mpg_cli.__main__; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code).strip() == "[]"


def test_the_catalogue_loads_nothing_heavy() -> None:
    code = (
        f"import mpg_cli.hardware; mpg_cli.hardware.load(); print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert python(code).strip() == "[]"


def test_pyarrow_is_loaded_only_where_a_dataset_is_written() -> None:
    importers = [
        module for module, path in MODULES.items() if any(within(n, ("pyarrow",)) for n in imports(path))
    ]
    assert importers == ["mpg_cli.store"]
    trace = ROOT / "fixtures/micro/basic.json"
    code = (
        f"from mpg_cli.__main__ import main; status = main(['analyze', {str(trace)!r}, '--quiet']); "
        "print('\\n', 'pyarrow' in sys.modules, status)"
    )
    assert python(code).endswith(" False 0\n")


@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "--help"], ["hardware", "--help"]])
def test_help_is_instant_and_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        f"from mpg_cli.__main__ import main; status = main({arguments!r}); "
        f"print([m for m in {HEAVY!r} if m in sys.modules], status)"
    )
    times = []
    for _ in range(5):
        start = time.perf_counter()
        text = python(code)
        times.append(time.perf_counter() - start)
        assert text.endswith("[] 0\n")
    assert min(times) < 0.5, times


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400
    functions = [
        n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [f.name for f in functions if (f.end_lineno or 0) - f.lineno + 1 > 60] == []
