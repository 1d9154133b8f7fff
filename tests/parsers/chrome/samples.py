"""One small trace with everything in it that can go wrong, in three layouts."""

from __future__ import annotations

import json

from tests.parsers.traces import Bare, document, dumps, event, kernel, kineto

EVENTS = [
    event(
        "cpu_op",
        "aten::mm",
        Bare("100.250"),
        Bare("20.5"),
        **{"Input Dims": [[2, 3], []], "Concrete Inputs": ["", "1"]},
    ),
    kernel(Bare("105.001"), 4, 'void k<{a, b}>("q") é', correlation=9, nested=[{"id": 1}, {"id": 2}]),
    {"ph": "f", "id": 9, "pid": 0, "tid": 7, "ts": Bare("105.001"), "cat": "ac2g", "name": "ac2g", "bp": "e"},
    {"name": "process_name", "ph": "M", "ts": 0, "pid": 10, "tid": 0, "args": {"name": "python"}},
    event("python_function", "a\\b.py(3): f", 99, 50, **{"Python id": 1, "Python parent id": None}),
]
TRACE = document(
    EVENTS,
    deviceProperties=[{"id": 0, "name": "H100", "computeMajor": 9}, {"id": 1, "name": "H100"}],
    distributedInfo={"backend": "nccl", "rank": 0},
)
SAMPLES = {
    "kineto": kineto(TRACE).encode(),
    "compact": dumps({**TRACE, "traceName": "t.json"}, separators=(",", ":")).encode(),
    "array": dumps(EVENTS, indent=1).encode(),
}
assert all(json.loads(sample) for sample in SAMPLES.values())
