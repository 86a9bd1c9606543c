"""Where ``mnistpro_jax.agents.host`` went. To be removed after the first release."""

raise ModuleNotFoundError(
    "mnistpro_jax.agents.host is now mnistpro_jax.host: import from there",
    name=__name__,
)
