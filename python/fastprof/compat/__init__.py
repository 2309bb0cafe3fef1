# SPDX-License-Identifier: Apache-2.0
"""What exists for the sake of PyTorch's interface: names of its submodules, its legacy profiler, its emitters."""
