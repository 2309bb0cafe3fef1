# SPDX-License-Identifier: Apache-2.0
"""fastprof in other packages, a module each, which needs that package. Nothing of fastprof imports these."""
