"""What several packages ask of a model.

SPDX-License-Identifier: Apache-2.0
"""
