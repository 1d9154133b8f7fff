"""The real traces of the corpus, each analysed once for all tests that look at it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tests.mpg_cli.running import ROOT, Result, analyze

if TYPE_CHECKING:
    from pathlib import Path

CORPUS = ROOT.parent / "shared/corpus"
REAL = CORPUS / "pytorch"
NO_CORPUS = f"the corpus of real traces is not at {CORPUS}"


@cache
def analyze_real(name: str | Path, *arguments: str) -> Result:
    """`mpg analyze` of a file or folder of the corpus of PyTorch traces."""
    return analyze(REAL / name, *arguments)
