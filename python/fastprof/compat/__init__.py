# SPDX-License-Identifier: Apache-2.0
"""PyTorch compatibility: the legacy (exclusive) profiler, execution traces, functions for nvprof's databases."""
