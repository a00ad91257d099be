"""Mixtures of experts: routers, experts on several ranks, and the block of today."""
