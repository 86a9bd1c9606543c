"""Where ``mnistpro_jax.agents.host`` went. To be removed after the first release."""

raise ModuleNotFoundError(
    "mnistpro_jax.agents.host is now mnistpro_jax.host: import its modules from there, under the same names",
    name=__name__,
)
