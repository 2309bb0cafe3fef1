# SPDX-License-Identifier: Apache-2.0
"""Adapters: integrate other programs in this process, one folder each; and watch for their import."""
