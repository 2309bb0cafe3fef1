# SPDX-License-Identifier: Apache-2.0
"""A training by Hugging Face's Trainer under ProfilerCallback."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fastprof

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore"),  # theirs
]

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate, which Trainer needs, is not installed")


class Line(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x: Any, labels: Any) -> dict[str, Any]:
        y = self.linear(x)
        return {"loss": torch.nn.functional.mse_loss(y, labels), "logits": y}


def train(folder: Path, callback: Any) -> None:
    data = [{"x": torch.full((3,), float(i)), "labels": torch.ones(1)} for i in range(8)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=4, per_device_train_batch_size=2, report_to=[], use_cpu=True,
        disable_tqdm=True, save_strategy="no", logging_strategy="no", dataloader_pin_memory=False,
    )  # fmt: skip
    transformers.Trainer(
        model=Line(), args=arguments, train_dataset=data, callbacks=[callback]
    ).train()


def test_trainer(tmp_path: Path) -> None:
    from fastprof.integrations.transformers import ProfilerCallback

    ready: list[Any] = []
    profile = fastprof.profile(
        schedule=fastprof.schedule(wait=1, warmup=1, active=2),
        on_trace_ready=lambda p: ready.append(Counter(e.trace_name for e in p.events())),
    )
    train(tmp_path, ProfilerCallback(profile))
    assert len(ready) == 1
    counts = ready[0]
    assert counts["ProfilerStep#2"] == counts["ProfilerStep#3"] == 1
    assert counts["aten::mse_loss"] == 2
    assert sum(n for name, n in counts.items() if name.startswith("Optimizer.step#")) == 2

    plain = ProfilerCallback()
    train(tmp_path, plain)
    counts = Counter(e.name for e in plain.profile.events())
    assert counts["aten::mse_loss"] == 4 and counts["epoch"] == 1
