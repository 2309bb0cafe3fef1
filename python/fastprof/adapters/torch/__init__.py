# SPDX-License-Identifier: Apache-2.0
"""PyTorch observed from outside: its layout, proofs of it, and the parts of a profile. torch is never imported here."""
