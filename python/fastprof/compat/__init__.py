# SPDX-License-Identifier: Apache-2.0
"""PyTorch compatibility: names of its submodules, its legacy profiler, its emitters."""
