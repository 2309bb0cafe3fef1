# SPDX-License-Identifier: Apache-2.0
"""Integrations with other packages, one module each, imported by users only; each requires its package."""
