"""What is read of a dataset: devices told apart, and communication recognised by its operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpg_cli.goodput import activity
from mpg_cli.goodput.names import NameRules
from tests.mpg_cli.datasets import Row, comm, copy, dataset, graph, host, op, source

if TYPE_CHECKING:
    from mpg_cli.goodput.activity import Activity

RULES = NameRules.load()


def load(*files: dict[str, list[Any]]) -> Activity:
    made = dataset(*files)
    return activity.load(made, made.scan("sources").collect(), RULES)


def test_a_device_is_a_source_a_process_and_a_number() -> None:
    ops = [op(0, 1, device=1), op(0, 1), op(0, 1, process=7), op(5, 1, process=7), op(0, 1, process=None)]
    loaded = load(source(ops), source([op(0, 1)]))
    assert loaded.subjects.select("subject", "source", "process", "device").rows() == [
        (0, 0, None, 0),
        (1, 0, None, 1),
        (2, 0, 7, 0),
        (3, 1, None, 0),
    ]
    assert loaded.ops["subject"].to_list() == [1, 0, 2, 2, 0, 3]


def test_a_device_without_a_row_of_its_own_counts_all_the_same() -> None:
    file = source([op(0, 1)])
    file["devices"] = []
    assert load(file).subjects.select("device", "name").rows() == [(0, None)]


def test_a_device_described_twice_counts_once() -> None:
    file = source([op(0, 1)])
    file["devices"] = [{"device": 0, "name": "NVIDIA H100"}, {"device": 0, "name": "NVIDIA H100"}]
    assert load(file).subjects.select("device", "name").rows() == [(0, "NVIDIA H100")]


def test_kinds_of_activity() -> None:
    ops = [
        op(0, 1),
        comm(0, 1),
        copy(0, 1),
        graph(0, 1),
        op(0, 1, "x", kind="memset"),
        op(0, 1, "frobnicate"),
    ]
    found = load(source(ops)).ops.select("activity", "rule").rows()
    assert [kind for kind, _ in found] == ["compute", "comm", "memory", "other", "memory", "compute"]
    assert found[-1] == ("compute", "no rule")


def linked(*events: Row, **more: Any) -> list[Any]:
    loaded = load(source([op(0, 1, "frobnicate", **more)], events=events))
    return loaded.ops.select("activity", "rule").row(0)


def test_a_kernel_linked_to_a_collective_operator_communicates() -> None:
    operator = host(0, 1, "record_param_comms", "op", external_id=5)
    assert linked(operator, external_id=5, correlation=9) == ("comm", "linked operator")
    assert linked(operator, external_id=6, correlation=9)[0] == "compute"
    assert linked(operator, external_id=None)[0] == "compute"
    assert (
        linked(host(0, 1, "record_param_comms", "annotation", external_id=5), external_id=5)[0] == "compute"
    )


def test_an_external_id_that_is_the_correlation_id_is_no_link() -> None:
    operator = host(0, 1, "record_param_comms", "op", external_id=5)
    assert linked(operator, external_id=5, correlation=5)[0] == "compute"


def test_an_operator_of_another_file_is_no_link() -> None:
    operator = host(0, 1, "record_param_comms", "op", external_id=5)
    loaded = load(source([op(0, 1, "frobnicate", external_id=5)]), source([op(0, 1)], events=[operator]))
    assert loaded.ops["activity"].to_list() == ["compute", "compute"]


def test_an_operator_recorded_twice_does_not_double_its_kernel() -> None:
    operator = host(0, 1, "c10d::allreduce_", "op", external_id=5)
    loaded = load(source([op(0, 1, "frobnicate", external_id=5)], events=[operator, operator]))
    assert loaded.ops["activity"].to_list() == ["comm"]
