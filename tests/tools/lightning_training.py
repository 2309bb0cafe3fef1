# SPDX-License-Identifier: Apache-2.0
"""A small training with Lightning, for tests of profilers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def fit(folder: Path, profiler: Any) -> None:
    """Train a linear layer for six batches on the CPU. Skips the test if Lightning is not installed."""
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    lightning: Any = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

    class Line(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            return self.linear(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.TensorDataset(torch.ones(12, 3))
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, profiler=profiler,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(folder),
    )  # fmt: skip
    trainer.fit(Line(), torch.utils.data.DataLoader(data, batch_size=2))
