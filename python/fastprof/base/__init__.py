# SPDX-License-Identifier: Apache-2.0
"""What every room may use and what uses none: errors, device types, scopes, text of times and sizes."""
