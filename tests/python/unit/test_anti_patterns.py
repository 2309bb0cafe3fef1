# SPDX-License-Identifier: Apache-2.0
"""Each anti-pattern on a planted table, next to a table that lacks one mark of it; the report as text and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trace_tables import table_of_rows

import fastprof
from fastprof.analysis import find_anti_patterns, report_all_anti_patterns
from fastprof.model.columns import CodedColumn, KernelTable

# (name, depth, duration) in order of start; the parent is the last shallower one.
Tree = list[tuple[str, int, int]]


def table_of(tree: Tree, kernels: Any = None, device: bool = False, **coded: Any) -> Any:
    start, end, at = [], [], 0
    for index, (_, depth, duration) in enumerate(tree):
        later = [d for _, d, _ in tree[index + 1 :]]
        stop = next((i for i, d in enumerate(later) if d <= depth), len(later))
        inside = sum(d + 2 for _, _, d in tree[index + 1 : index + 1 + stop])
        start.append(at)
        end.append(at + max(duration, inside + 1))
        at = at + 1 if stop else end[-1] + 1
    rows = [
        (name, "cpu_op" if name.startswith("aten::") else "python_function", *times)
        for (name, _, _), *times in zip(tree, start, end, strict=True)
    ]
    columns: dict[str, Any] = {"device_type": [0] * len(tree)} if device else {}
    values = {name: CodedColumn.encode(each) for name, each in coded.items()}
    return table_of_rows(rows, coded=values, **columns).with_columns(kernels=kernels)


def found(table: Any) -> dict[str, tuple[int, int]]:
    return {f.pattern.name: (f.count, f.gain_ns) for f in find_anti_patterns(table)}


def test_loops_of_indexing() -> None:
    name = "For Loop Indexing Pattern"
    loop: Tree = [("aten::select", 0, 5), ("aten::fill_", 0, 5)]
    assert found(table_of(loop * 12)) == {name: (1, 11 * 10)}
    assert found(table_of(loop * 9)) == {}
    nested: Tree = [("train.py(3): f", 0, 1), *[(n, 1, 5) for n, _, _ in loop * 10]]
    assert found(table_of(nested * 2))[name][0] == 2
    irregular: Tree = loop * 6 + [("aten::select", 0, 5), ("aten::mul", 0, 5)] + loop * 6
    assert found(table_of(irregular)) == {}


def test_extra_copies_need_a_device_and_equal_types() -> None:
    tree: Tree = [
        ("aten::zeros", 0, 1),
        ("aten::zero_", 1, 2),
        ("aten::to", 0, 50),
        ("aten::_to_copy", 1, 1),
        ("aten::copy_", 2, 2),
    ]
    types = [["float"], ["float"], ["float"], ["float"], ["float", "float"]]
    name = "Extra CUDA Copy Pattern"
    assert found(table_of(tree, device=True, input_dtypes=types)) == {name: (1, 50)}
    assert found(table_of(tree, input_dtypes=types)) == {}
    other = [*types[:4], ["float", "half"]]
    assert found(table_of(tree, device=True, input_dtypes=other)) == {}
    assert found(table_of(tree[2:], device=True, input_dtypes=types[2:])) == {}


def test_optimizers_and_gradients() -> None:
    single: Tree = [("torch/optim/adam.py(3): _single_tensor_adam", 0, 80)]
    assert found(table_of(single)) == {"Optimizer Single Tensor Pattern": (1, 40)}
    assert found(table_of([("torch/optim/adam.py(3): _multi_tensor_adam", 0, 80)])) == {}
    zeroed: Tree = [("torch/optim/optimizer.py(9): zero_grad", 0, 1), ("aten::zero_", 1, 7)]
    name = "Gradient Set To Zero Instead of None Pattern"
    assert found(table_of(zeroed)) == {name: (1, 7)}
    fresh: Tree = [zeroed[0], ("aten::zeros", 1, 1), ("aten::zero_", 2, 7)]
    assert found(table_of(fresh)) == {}
    assert found(table_of([("aten::zero_", 0, 7)])) == {}


def test_convolution_bias_before_a_norm() -> None:
    tree: Tree = [("aten::conv2d", 0, 100), ("aten::add_", 0, 1), ("aten::batch_norm", 0, 5)]
    types = [["float", "float", "float"], ["long int"], ["float"]]
    shapes = [[[2, 1, 8, 8], [2, 1, 3, 3], [2]], [[]], [[2]]]
    name = "Enabling Bias in Conv2d Followed By BatchNorm Pattern"
    assert found(table_of(tree, input_dtypes=types, input_shapes=shapes)) == {name: (1, 3)}
    without = [[["float", "float", ""], *types[1:]], [[*shapes[0][:2], []], *shapes[1:]]]
    assert found(table_of(tree, input_dtypes=without[0], input_shapes=without[1])) == {}
    tree[2] = ("aten::relu", 0, 5)
    assert found(table_of(tree, input_dtypes=types, input_shapes=shapes)) == {}


def test_kernels_of_products() -> None:
    tree: Tree = [("aten::mm", 0, 100)]

    def kernels(name: str) -> KernelTable:
        return KernelTable.sorted(*(fastprof_array(v) for v in (0, 0, 0, 60)), [name])

    fp32 = {"FP32 MatMul Pattern": (1, 30)}
    assert found(table_of(tree, kernels("ampere_sgemm_128x64"))) == fp32
    assert found(table_of(tree, kernels("ampere_tf32_s1688gemm"))) == {}
    half = {"input_dtypes": [["c10::Half", "c10::Half"]]}
    odd = table_of(tree, kernels("hgemm"), input_shapes=[[[9, 16], [16, 8]]], **half)
    assert found(odd) == {"Matrix Multiplication Dimension Not Aligned Pattern": (1, 30)}
    even = table_of(tree, kernels("hgemm"), input_shapes=[[[8, 16], [16, 8]]], **half)
    assert found(even) == {}


def fastprof_array(value: int) -> Any:
    import numpy as np

    return np.array([value])


def test_waits_tiny_ops_and_the_allocator() -> None:
    read: Tree = [("aten::item", 0, 1), ("cudaStreamSynchronize", 1, 70)]
    (sync,) = find_anti_patterns(table_of(read * 2))
    assert (sync.count, sync.gain_ns) == (2, 140)
    assert sync.to_dict()["events"][0]["name"] == "aten::item"
    assert found(table_of([("aten::item", 0, 70)])) == {}  # no device: nothing waited
    tiny: Tree = [("aten::add", 0, 1000)]
    assert found(table_of(tiny * 1200)) == {"Many Tiny Ops Pattern": (1200, 900_000)}
    assert found(table_of(tiny * 900)) == {}
    assert found(table_of(tiny * 1200 + [("aten::mm", 0, 2_000_000)])) == {}
    assert found(table_of([("cudaMalloc", 0, 9)] * 30)) == {"Allocator Churn Pattern": (30, 270)}


def test_the_report_has_pytorchs_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree: Tree = [
        ("train.py(7): main", 0, 1),
        ("/x/torch/optim/sgd.py(3): _single_tensor_sgd", 1, 80),
    ]
    table = table_of(tree)
    report = tmp_path / "torchtidy_report.json"
    report.write_text(json.dumps({"other.py": []}))
    report_all_anti_patterns(table, json_report_dir=str(tmp_path))
    text = capsys.readouterr().out
    assert text.startswith("-" * 40 + "TorchTidy Report" + "-" * 40 + "\nMatched Events:\n")
    assert "[Source Code Location] train.py(7): main" in text
    assert "Optimizer Single Tensor Pattern: 1 events matched." in text
    written = json.loads(report.read_text())
    assert set(written) == {"other.py", "train.py"}
    assert written["train.py"][0]["line_number"] == 7
    report.write_text("[")
    with pytest.raises(fastprof.errors.FormatError, match="not a report"):
        report_all_anti_patterns(table, print_enable=False, json_report_dir=str(tmp_path))
    with pytest.raises(fastprof.errors.IoError, match="Choose another folder"):
        report_all_anti_patterns(table, False, False, str(tmp_path / "none"))


def test_equal_findings_of_one_place_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    tree: Tree = [("train.py(7): main", 0, 1)]
    tree += [("/x/torch/optim/sgd.py(3): _single_tensor_sgd", 1, 80)] * 2
    report_all_anti_patterns(table_of(tree))
    text = capsys.readouterr().out
    assert text.count("[Source Code Location] train.py(7): main") == 1
    assert "Optimizer Single Tensor Pattern: 2 events matched." in text
