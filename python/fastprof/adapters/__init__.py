# SPDX-License-Identifier: Apache-2.0
"""Adapters: integrations with other packages in this process (torch, asyncio, trio), and the watch for their import."""
