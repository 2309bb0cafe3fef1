# SPDX-License-Identifier: Apache-2.0
"""Packets of Perfetto traces with fields omitted, repeated or replaced: valid Protobuf with a damaged meaning."""

from __future__ import annotations

import random
from typing import Any


def random_value(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict):
        return mutated(rng, value)
    if isinstance(value, list):
        return [
            random_value(rng, item) for item in value for _ in range(rng.choice([0, 1, 1, 1, 2]))
        ]
    if rng.random() < 0.8:
        return value
    if isinstance(value, float):
        return rng.choice([0.0, float("nan"), float("inf"), -1e308])
    if isinstance(value, int):
        return rng.choice([0, 1, 2, 5, 64, 127, 128, -1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1])
    return rng.choice(["", "\ud7ff", "x" * 300])


def mutated(rng: random.Random, message: dict[Any, Any]) -> dict[Any, Any]:
    found = {key: random_value(rng, value) for key, value in message.items() if rng.random() < 0.93}
    if rng.random() < 0.1:
        found[rng.randrange(1, 130)] = rng.choice([0, 1 << 40, b"", b"\x08\x01", b"\xff"])
    return found
