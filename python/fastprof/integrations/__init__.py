# SPDX-License-Identifier: Apache-2.0
"""Integrations with other packages, one module each. Nothing in fastprof imports them; each requires its package."""
