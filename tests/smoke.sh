#!/bin/sh
# What `make smoke` does with the wheel in dist/: is everything in it, and does it work in a folder of its own?
# Usage: sh tests/smoke.sh PYTHON, from the root of the repository.
set -eu

python=$1
wheel=$(ls dist/*.whl)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

names=$("$python" -m zipfile --list "$wheel")
(cd parsers && find . ../mpg_cli -name '*.toml' -o -name py.typed) | sed 's|^\./||; s|^\.\./||' | while read -r file; do
    case $names in
        *"$file"*) ;;
        *) echo "error: $file is not in $wheel" >&2 && exit 1 ;;
    esac
done

"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
cp -r fixtures/train_2rank "$scratch/traces"
cd "$scratch"
export XDG_CACHE_HOME="$scratch/cache"
venv/bin/mpg --version
venv/bin/mpg analyze traces --quiet --output report.json
venv/bin/mpg schema >tables.txt
venv/bin/mpg schema report >schema.json
grep -q '^device_ops: ' tables.txt
venv/bin/mpg ingest traces --quiet --output dataset
venv/bin/mpg report dataset --quiet --output again.json
cmp report.json again.json
venv/bin/mpg hardware "H100 SXM" >chip.txt
grep -q 'bf16' chip.txt
venv/bin/python - <<'END'
import json

report = json.load(open("report.json"))
assert sum(row["chip_ns"] for row in report["ledger"]) == report["totals"]["capacity_ns"] > 0
assert json.load(open("schema.json"))["title"] == report["schema"]
END
echo "smoke: $wheel works"
