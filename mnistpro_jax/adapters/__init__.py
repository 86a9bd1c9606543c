"""The environment in the shapes that other libraries expect, one module an ecosystem.

    gymnasium          Gymnasium's Env, and a VectorEnv that steps a whole batch in one jitted call
    gymnax             the five-tuple of gymnax 0.x: rejax, PureJaxRL and their like
    brax               Brax's Env and State
    dm_env             dm_env.Environment
    jumanji            Jumanji's functional (state, timestep)
    mctx               root, recurrent function and legal-action mask for DeepMind's mctx

Nothing is imported here: each module asks for its library where it needs it, and says which extra has it.
"""
