# SPDX-License-Identifier: Apache-2.0
"""PyTorch adapter: libtorch's data layout, its self-tests, and what a profile observes. Never imports torch."""
