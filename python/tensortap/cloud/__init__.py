"""Runs in object stores: read through a local mirror, written in immutable segments.

SPDX-License-Identifier: Apache-2.0
"""
