"""Agents: policies as pure (init, act) pairs. See ``registry.make_agent``."""

from __future__ import annotations

from mnistpro_jax.agents.base import Geometry, Policy
from mnistpro_jax.agents.registry import agent_names, describe, make_agent

__all__ = ["Geometry", "Policy", "agent_names", "describe", "make_agent"]
