"""Agents that learned: networks, the readers and policies around them, and the weights in the package."""
